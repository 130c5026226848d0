"""Display the verdict on an answer in a notebook, or why it was refused or stopped.

display_refused() draws a wrong answer. short_errors() and explain_stop() reduce an
error to one sentence, without a traceback.
"""

from __future__ import annotations

import contextlib
import html
import io
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TextIO

from ..base import tracebacks
from ..base.errors import KernelError, Mismatch
from ..base.text import count_things
from ..base.tracebacks import line_of, shorten
from ..check.runners import time_limit
from ..report.html import highlight_text

if TYPE_CHECKING:
    from ..check import Verdict
    from .answers import PuzzleAnswer
    from .cloth import Cloth
    from .progress import PuzzleProgress
    from .puzzle import Puzzle
    from .score import Score


# Maximum time in seconds by which the picture of a wrong answer delays its error.
DRAWING = 2.0


def display_refused(puzzle: Puzzle, answer: Any) -> None:
    """Display the picture of a refused answer in a notebook, before its error.

    Only the error matters: if the picture fails, it is dropped. The answer's prints are
    not repeated.
    """
    if getattr(tracebacks.running_shell(), "kernel", None) is None:
        return  # a terminal cannot show pictures
    from IPython.display import publish_display_data

    with contextlib.suppress(Exception, KeyboardInterrupt):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), time_limit("a picture", DRAWING):
            bundle = puzzle.show(answer)._repr_mimebundle_()
        publish_display_data(bundle)


@dataclass(frozen=True)
class ProgramText:
    """A program's text that displays itself in colour."""

    text: str
    language: str

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return highlight_text(self.text, self.language)


@dataclass(frozen=True)
class Solved:
    """A solved puzzle: the language, the check, the counts, and the progress.

    Its display compares the counts with those of the best known answer, and contains a
    cloth.
    """

    puzzle: Puzzle
    language: str
    verdict: Verdict
    score: Score
    cloth: Cloth
    progress: PuzzleProgress

    def __repr__(self) -> str:
        head = f"{self.puzzle.title}: solved in {self.language}. {self.verdict}."
        parts = (head, self.score, self.cloth, f"{self.progress.sentence}.")
        return "\n".join(text for text in map(str, parts) if text)

    def _repr_html_(self) -> str:
        title, verdict = html.escape(self.puzzle.title), self.verdict._repr_html_()
        sentence = html.escape(self.progress.sentence)
        return (
            f"<div><b>{title}</b>: solved in {self.language}. {verdict}</div>"
            f"{self.score._repr_html_()}{self.cloth._repr_html_()}"
            f'<div style="opacity:.75;font-size:13px">{sentence}.</div>'
        )


# The most printed lines to show, since a check runs an answer many times.
PRINTED = 32
OPTIONS = re.compile(  # advice on options of check() that puzzles do not offer
    r", or (allow more time(: numba_jit\(.*?\)| with timeout=( \(--timeout\))?)"
    r"|name with outputs= the parameters that it writes into)"
)
UNWATCHED = "allow more time with timeout= (--timeout), or run it unwatched (--fast)"
CURE = re.compile(r"\s*usually cured by:")  # the start of a cure; see report/text.py


@contextlib.contextmanager
def short_errors(answer: Any) -> Iterator[None]:
    """Shorten the errors of a check for a puzzle.

    The cure is left out, since it may be the answer. A notebook shows no traceback,
    even for the reader's interrupts, since the calling line is in the cell.
    """
    # The wrapped function of sim(k) or numba_jit(k).
    function = getattr(answer, "function", answer)
    try:
        yield
    except (Mismatch, KernelError) as error:
        lines = (one for one in str(error).splitlines() if not CURE.match(one))
        message = OPTIONS.sub("", "\n".join(lines))
        error.args = (message.replace(UNWATCHED, "look for a loop that does not end"),)
        shorten(error, function)
        raise
    except KeyboardInterrupt as error:
        error.args = error.args or ("interrupted; nothing is lost, run it again",)
        shorten(error)
        raise


@contextlib.contextmanager
def few_prints(most: int = PRINTED) -> Iterator[None]:
    """Show the first lines that an answer prints, and the number of lines dropped."""
    out = _FewLines(sys.stdout, most)
    with contextlib.redirect_stdout(out):  # type: ignore[type-var]
        try:
            yield
        finally:
            out.end()


class _FewLines:
    """A stream that passes on only its first lines."""

    def __init__(self, stream: TextIO, most: int) -> None:
        self._stream, self._left, self._dropped = stream, most, 0

    def write(self, text: str) -> int:
        for line in text.splitlines(keepends=True):
            if self._left:
                self._stream.write(line)
                self._left -= line.endswith("\n")
            else:
                self._dropped += line.endswith("\n")
        return len(text)

    def end(self) -> None:
        """Write the number of lines dropped."""
        if self._dropped:
            lines = count_things(self._dropped, "line")
            end = f"... and {lines} more, since a check runs a kernel many times"
            print(end, file=self._stream)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def explain_stop(answer: PuzzleAnswer, error: Exception) -> Exception:
    """Convert an exception raised inside an answer to a one-line refusal."""
    notes = [n.removeprefix("check: ") for n in getattr(error, "__notes__", ())]
    when = " ".join(notes).replace(f" of {answer.name} ", " ")
    _, text = line_of(answer.function, error)
    place = f"{answer.name} stopped{f' at `{text}`' if text else ''} {when}"
    return Mismatch(f"{place}: {type(error).__name__}: {error}")


def is_inside(answer: PuzzleAnswer, error: Exception) -> bool:
    """Return whether the error was raised in the answer or in a function it calls."""
    return bool(line_of(answer.function, error)[1])
