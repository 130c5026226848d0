"""Guess first, then measure: predict("How many GB/s?", 500, "GB/s").measured(rate).

The guess is drawn as a dashed bar above the measurement. Without a guess, nothing is
drawn. compare_guesses() draws several answers on one axis. The user's cache folder
keeps a score with one entry per question, so a second run of a cell adds none.

Pictures are images, which front ends show even in notebooks that are not trusted; see
see/pictures/svg.py.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import numpy as np

from ...base.errors import ArgumentError
from ...base.store import Kept
from ...base.style import OURS, REFERENCE
from ...see.pictures.svg import write_html

RIGHT = 1.1  # a guess within this factor counts as right
FOLD = "Show it without a guess"
NO_GUESS = "No guess yet: replace None with a number and run from that cell on."
_asked: set[str] = set()  # the questions of this session
_kept = Kept("guesses", lambda records, others: _add_newer(records, others))


def predict(question: str, guess: float | None, unit: str = "") -> Guess:
    """Return a guess at the answer to a question, before it is measured.

    guess: a number, at least 0; None: no guess yet, so measured() shows the answer
    folded. Raises ArgumentError for anything else.
    """
    if not isinstance(question, str) or not question.strip():
        raise ArgumentError(f"predict: the question must be a text, not {question!r}")
    number = None if guess is None else _check_number("guess", guess)
    return Guess(" ".join(question.split()), number, unit)


def compare_guesses(answers: Iterable[Measured]) -> Answers:
    """Draw the answers to several questions, such as those of a loop, on one axis.

    answers: results of measured(). Raises ArgumentError if their units differ.
    """
    answers = list(answers)
    if len(units := {a.unit for a in answers}) > 1:
        texts = ", ".join(map(repr, sorted(units)))
        raise ArgumentError(f"compare_guesses: one axis cannot have the units {texts}")
    return Answers(answers)


def guessed_questions() -> set[str]:
    """Return the questions that have been answered with a guess, on any day."""
    return set(_kept.read())


@dataclass(frozen=True)
class Guess:
    """A question and a guess; measured() compares the guess with the answer."""

    question: str
    guess: float | None
    unit: str = ""

    def measured(self, value: float) -> Measured:
        """Return the answer, drawn with the guess, and the score so far.

        value: a number, at least 0, in the guess's unit. Without a guess, the answer is
        folded, and the score does not change.
        """
        truth = _check_number("measured", value)
        if self.guess is not None:
            _asked.add(self.question)
            record = {"guess": self.guess, "value": truth, "unit": self.unit}
            record["date"] = date.today().isoformat()

            def note(records: dict[str, Any]) -> None:
                records.pop(self.question, None)  # the newest record comes last
                records[self.question] = record

            _kept.change(note)
        return Measured(self.question, self.guess, truth, self.unit, _score_guesses())

    def __repr__(self) -> str:
        guessed = self.guess is not None
        text = _format_value(self.guess, self.unit) if guessed else "no guess"
        return f"{self.question} {text}; .measured(value) compares it"


@dataclass(frozen=True)
class GuessScore:
    """The quality of the guesses. factors: guess / truth, if both are above 0.
    session: number of questions guessed in this session."""

    factors: list[float] = field(default_factory=list)
    session: int = 0

    @property
    def median(self) -> float:
        """Return the typical factor between guess and truth; 1 is right."""
        ratios = [max(f, 1 / f) for f in self.factors]
        return float(np.median(ratios)) if ratios else math.nan

    @property
    def within_2(self) -> float:
        """Return the share of guesses between half and twice the truth."""
        close = sum(0.5 <= f <= 2 for f in self.factors)
        return close / len(self.factors) if self.factors else math.nan

    @property
    def lean(self) -> float:
        """Return the geometric mean of guess / truth; above 1, the guesses are high."""
        if not self.factors:
            return math.nan
        return float(np.exp(np.mean(np.log(self.factors))))

    def __str__(self) -> str:
        count = len(self.factors)
        if not count:
            return "No guesses yet."
        if count == 1:
            factor = _format_factor(self.median)
            return f"Your first guess: off by a factor of {factor}."
        close = round(self.within_2 * count)
        lean = "neither high nor low on the whole"
        if self.lean > RIGHT or self.lean < 1 / RIGHT:
            way = "high" if self.lean > 1 else "low"
            times = _format_factor(max(self.lean, 1 / self.lean))
            lean = f"on the whole {times} times too {way}"
        return (
            f"{count} guesses ({self.session} in this session): typically off by a "
            f"factor of {_format_factor(self.median)}; {close} of {count} "
            f"within a factor of 2; {lean}."
        )


@dataclass(frozen=True)
class Measured:
    """A guess and the answer, as text, HTML and SVG.

    Without a guess, the text omits the answer, the HTML shows it folded, and there is
    no picture; value and sentence always contain it.
    """

    question: str
    guess: float | None
    value: float
    unit: str
    score: GuessScore

    @property
    def sentence(self) -> str:
        """Return a sentence with the guess, the answer and their ratio."""
        value = _format_value(self.value, self.unit)
        if self.guess is None:
            return f"It is {value}."
        guess = _format_value(self.guess, self.unit)
        if self.guess == self.value:
            return f"You guessed {guess}, which is exact."
        if not self.guess or not self.value:
            return f"You guessed {guess}, it is {value}."
        factor = self.value / self.guess
        if 1 / RIGHT <= factor <= RIGHT:
            percent = abs(self.guess / self.value - 1) * 100
            return f"You guessed {guess}, it is {value}: {percent:.1f} % off."
        ratio = f"{_format_factor(factor)} times your guess"
        if factor < 1:
            ratio = f"{_format_factor(1 / factor)} times less"
        return f"You guessed {guess}, it is {value}: {ratio}."

    def svg(self) -> str:
        """Draw both bars, with the guess dashed and hollow; "" without a guess."""
        return _draw_bars(self, _find_longest([self]))

    def __repr__(self) -> str:
        if self.guess is None:
            return f"{self.question}\n{NO_GUESS}"
        return "\n".join([self.question, self.sentence, str(self.score)])

    def _repr_html_(self) -> str:
        return _write_page([self])


class Answers(list[Measured]):
    """The result of compare_guesses(): answers on one axis, with a single score."""

    def __repr__(self) -> str:
        return "\n".join(map(repr, self))

    def _repr_html_(self) -> str:
        return _write_page(self)


def _write_page(answers: Sequence[Measured]) -> str:
    """Return the answers as HTML; an answer is folded if its question has no guess."""
    parts, hidden = [], [a for a in answers if a.guess is None]
    guessed = [a for a in answers if a.guess is not None]
    question, longest = "", _find_longest(guessed)
    for a in guessed:
        parts += [_write_line(a.question, "b")] * (a.question != question)
        bars = write_html(_draw_bars(a, longest), _describe_bars(a))
        parts += [_write_line(a.sentence), bars]
        question = a.question
    if hidden:
        questions = dict.fromkeys(a.question for a in hidden)
        parts += [_write_line(question, "b") for question in questions]
        named = len(answers) > 1
        folded = (f"{a.question} {a.sentence}" if named else a.sentence for a in hidden)
        parts.append(
            f"{_write_line(NO_GUESS)}<details><summary>{FOLD}</summary>"
            f"{''.join(map(_write_line, folded))}</details>"
        )
    if guessed:
        score = guessed[-1].score
        parts.append(_write_line(str(score)))
        if len(score.factors) > 1:
            dots = _draw_dots(score.factors)
            parts.append(write_html(dots, _describe_dots(score.factors)))
    return f'<div style="max-width:{_WIDTH}px">{"".join(parts)}</div>'


def _write_line(text: str, tag: str = "span") -> str:
    return f"<div><{tag}>{html.escape(text)}</{tag}></div>"


# ---- pictures --------------------------------------------------------------------

# On a phone, the text has three quarters of its size.
_WIDTH, _LEFT, _RIGHT = 480, 90, 110  # the width of a picture, and its margins
_SIDE = 44  # the margins of the picture of all guesses
_TEXT = 'fill="currentColor" font-size="13"'


def _find_longest(answers: Iterable[Measured]) -> float:
    """Return the value of the longest bar, which sets the answers' common axis."""
    return max((max(a.guess or 0, a.value) for a in answers), default=0) or 1.0


def _draw_bars(a: Measured, longest: float) -> str:
    if a.guess is None:
        return ""
    ghost = f'fill="none" stroke="currentColor" {REFERENCE}'
    full = f'fill="{OURS}" fill-opacity=".25" stroke="{OURS}"'
    parts = []
    rows = ("your guess", a.guess, ghost), ("measured", a.value, full)
    for number, (name, value, look) in enumerate(rows):
        top = 30 * number + 6
        length = max(1.0, (_WIDTH - _LEFT - _RIGHT) * value / longest)
        parts.append(
            f'<text x="{_LEFT - 8}" y="{top + 15}" text-anchor="end" {_TEXT}>{name}'
            f"</text>"
            f'<rect x="{_LEFT}" y="{top}" width="{length:.1f}" height="22" {look} '
            f'stroke-width="1.4"/>'
            f'<text x="{_LEFT + length + 8:.1f}" y="{top + 15}" {_TEXT}>'
            f"{html.escape(_format_value(value, a.unit))}</text>"
        )
    base = (
        f'<line x1="{_LEFT}" x2="{_LEFT}" y1="0" y2="66" stroke="currentColor" '
        f'stroke-opacity=".5"/>'
    )
    return _wrap_svg(66, _describe_bars(a), "".join(parts) + base)


def _describe_bars(a: Measured) -> str:
    """Return the bars in words: the axis, then each bar."""
    unit = a.unit or "1"
    guess, value = (_format_value(v or 0.0, a.unit) for v in (a.guess, a.value))
    axis = f"bars on an axis from 0, in units of {unit}"
    return f"{axis}: your guess {guess}, measured {value}"


def _draw_dots(factors: list[float]) -> str:
    """Draw the ratio of each guess to the truth on a log axis; the last is opaque."""
    logs = [math.log10(f) for f in factors]
    side = min(9.0, max(1.0, *(math.ceil(abs(x) * 1.02) for x in logs)))
    room = _WIDTH - 2 * _SIDE

    def x(log: float) -> float:
        return _SIDE + room * (max(-side, min(side, log)) + side) / (2 * side)

    half = math.log10(2)
    parts = [
        f'<rect x="{x(-half):.1f}" y="8" width="{x(half) - x(-half):.1f}" height="32" '
        f'fill="currentColor" fill-opacity=".08"/>',
        f'<line x1="{_SIDE}" x2="{_WIDTH - _SIDE}" y1="40" y2="40" '
        f'stroke="currentColor" stroke-opacity=".5"/>',
        f'<line x1="{x(0):.1f}" x2="{x(0):.1f}" y1="8" y2="40" stroke="currentColor"/>',
    ]
    step = 1 if side <= 2 else math.ceil(side / 2)
    for power in range(-int(side), int(side) + 1):
        if power % step and power:
            continue
        way = "too high" if power > 0 else "too low"
        name = f"{_format_factor(10.0 ** abs(power))}x {way}" if power else "right"
        parts.append(
            f'<text x="{x(power):.1f}" y="56" text-anchor="middle" fill="currentColor" '
            f'font-size="13">{name}</text>'
        )
    for number, log in enumerate(logs):
        is_last = number == len(logs) - 1
        look = f'fill="{OURS}" stroke="{OURS}"'
        look += "" if is_last else ' fill-opacity=".25"'
        height = 24 + (0 if is_last else 7 * ((number % 3) - 1))
        size = 5.5 if is_last else 4
        parts.append(f'<circle cx="{x(log):.1f}" cy="{height}" r="{size}" {look}/>')
    return _wrap_svg(62, _describe_dots(factors), "".join(parts))


def _describe_dots(factors: Sequence[float]) -> str:
    """Return the dots in words: the axis, then each guess."""
    dots = ", ".join(_format_number(float(f"{factor:.2g}")) for factor in factors)
    axis = "dots on a logarithmic axis, each guess over its truth"
    return f"{axis}; shaded: within a factor of 2: {dots}"


def _wrap_svg(height: float, label: str, content: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" '
        f'viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" '
        f'style="max-width:100%;display:block;margin:6px 0" role="img" '
        f'aria-label="{html.escape(label)}" font-family="system-ui, sans-serif">'
        f"{content}</svg>"
    )


# ---- memory -----------------------------------------------------------------------


def _is_record(record: Any) -> bool:
    if not isinstance(record, dict):
        return False
    return all(isinstance(record.get(k), (int, float)) for k in ("guess", "value"))


def _add_newer(records: dict[str, Any], others: dict[str, Any]) -> None:
    """Add guesses for other questions, and newer guesses for the same questions."""
    for question, record in others.items():
        old = records.get(question)
        if not _is_record(old) or str(record.get("date")) >= str(old.get("date")):
            records.pop(question, None)  # the newest record comes last
            records[question] = record


def _score_guesses() -> GuessScore:
    """Return the score of the user's records, without damaged ones."""
    records = {q: r for q, r in _kept.read().items() if _is_record(r)}
    pairs = [(r["guess"], r["value"]) for r in records.values()]
    factors = [guess / value for guess, value in pairs if guess > 0 and value > 0]
    return GuessScore(factors, len(_asked & set(records)))


# ---- numbers ----------------------------------------------------------------------


def _check_number(label: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not 0 <= number < math.inf:
        raise ArgumentError(
            f"predict: {label} must be a number of at least 0, not {value!r}"
        )
    return number


def _format_value(value: float, unit: str) -> str:
    return f"{_format_number(value)} {unit}".strip()


def _format_number(value: float) -> str:
    """Format a number with four digits; only very large or small ones get exponents."""
    if value and not 1e-3 <= value < 1e7:
        return f"{value:.3g}"
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{float(f'{value:.4g}'):g}"


def _format_factor(factor: float) -> str:
    """Format a factor with two digits, or as a whole number if it is at least 10."""
    if factor >= 9.95:
        return f"{factor:,.0f}" if factor < 1e6 else f"{factor:.0e}"
    return f"{factor:.1f}".removesuffix(".0")
