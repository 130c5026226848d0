"""Which puzzles are solved: a row of marks, kept for the user.

    puzzles.progress()                  the marks, by group
    puzzles.progress().export()         weft_progress.json, for another machine
    puzzles.progress().load(path)       what was exported, added to what is here
    puzzles.progress().reset("guards")  one puzzle again; without a name, all of them

A puzzle counts once for each language: Python, Numba, CUDA C. A record has the day when
it was first solved, the numbers of the best score so far, and whether these are within
the budget (score.py).
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..figures.style import OURS, SHARED
from ..figures.words import plural
from ..kept import Kept
from ..native import ArgumentError

if TYPE_CHECKING:
    from .puzzle import Puzzle
    from .score import Score

LANGUAGES = ("Python", "Numba", "CUDA C")
FILE = "weft_progress.json"
FORMAT = "weft puzzles"  # what an exported file says that it is
OPEN, SOLVED, WITHIN = "not yet", "solved", "solved within the budget"
SIGNS = {OPEN: "·", SOLVED: "o", WITHIN: "●"}
_kept = Kept("puzzles")
_set_aside = Kept("puzzles_before_reset")
_latest: list[str] = []  # whose solution was news in this session


def solved(puzzle: Puzzle, language: str, score: Score | None = None) -> bool:
    """Note that a puzzle is solved; whether that is news: it was not, in any language.

    Of several answers in one language the first day counts and the best score.
    """
    if language not in LANGUAGES:
        raise ArgumentError(f"language {language!r}: {', '.join(LANGUAGES)}")
    record = {
        "when": date.today().isoformat(),
        "within": score is None or score.within,
        "score": score.json() if score is not None else {},
    }
    news = False

    def note(records: dict[str, Any]) -> None:
        nonlocal news
        news = not _valid(records.get(puzzle.name))
        _merge(records, puzzle.name, language, record)

    _kept.change(note)
    if news:
        _latest.append(puzzle.name)
    return news


def latest() -> str:
    """The puzzle that was solved for the first time the last time one was; or ""."""
    return _latest[-1] if _latest else ""


def marks() -> Progress:
    """What is solved now."""
    from . import GROUPS

    return Progress(GROUPS, _kept.read())


@dataclass(frozen=True)
class Progress:
    """What is solved: groups of puzzles' names, and the records by name."""

    groups: Mapping[str, tuple[str, ...]]
    records: Mapping[str, Any]

    def state(self, name: str) -> str:
        """OPEN, SOLVED or WITHIN."""
        found = _valid(self.records.get(name))
        if not found:
            return OPEN
        return WITHIN if any(one["within"] for one in found.values()) else SOLVED

    def title(self, name: str) -> str:
        """guards: solved within the budget in Python on 2026-11-22, CUDA C on ..."""
        found = _valid(self.records.get(name))
        how = [f"{k} on {v['when']}" for k, v in found.items()]
        return f"{name}: {self.state(name)}" + (" in " + ", ".join(how) if how else "")

    def complete(self, group: str) -> bool:
        """Whether every puzzle of a group is solved."""
        return all(self.state(name) != OPEN for name in self.groups[group])

    @property
    def count(self) -> int:
        """How many puzzles are solved."""
        return sum(self.state(name) != OPEN for name in self._names())

    def export(self, path: str | Path = FILE) -> Exported:
        """Write a JSON file for another machine; it says how to bring it there."""
        records = _kept.read()
        text = json.dumps({"what": FORMAT, "puzzles": records}, indent=1)
        try:
            Path(path).write_text(text, encoding="utf-8")
        except OSError as error:
            raise ArgumentError(f"export: {path}: {error.strerror or error}") from None
        return Exported(Path(path), sum(bool(_valid(r)) for r in records.values()))

    def load(self, path: str | Path = FILE) -> Progress:
        """Add what export() wrote: nothing that is here already is lost."""
        found = _read(path)

        def add(records: dict[str, Any]) -> None:
            for name, by_language in found.items():
                for language, record in _valid(by_language).items():
                    _merge(records, name, language, record)

        _kept.change(add)
        return marks()

    def reset(self, name: str | None = None) -> Progress:
        """Forget one puzzle, or all: they can be solved anew.

        What was there is kept in a file beside, until the next reset.
        """
        if name is not None and name not in self._names():
            known = ", ".join(self._names())
            raise ArgumentError(f"no puzzle {name!r}; there are {known}")
        before: dict[str, Any] = {}

        def forget(records: dict[str, Any]) -> None:
            before.clear()
            before.update(records)
            if name is None:
                records.clear()
            else:
                records.pop(name, None)

        _kept.change(forget)

        def put(records: dict[str, Any]) -> None:
            records.clear()
            records.update(before)

        _set_aside.change(put)
        return marks()

    def _names(self) -> Iterator[str]:
        return (name for names in self.groups.values() for name in names)

    # ---- shown ---------------------------------------------------------------------

    @property
    def sentence(self) -> str:
        """How many are solved."""
        number = sum(len(names) for names in self.groups.values())
        within = sum(self.state(name) == WITHIN for name in self._names())
        said = f"{self.count} of {number} puzzles solved"
        return f"{said}, {within} of them within the budget" if within else said

    def __str__(self) -> str:
        wide = max(map(len, self.groups), default=0)
        rows = []
        for group, names in self.groups.items():
            signs = " ".join(SIGNS[self.state(name)] for name in names)
            now = next((n for n in names if self.state(n) == OPEN), "")
            then = f"   next: {now}" if now else "   all solved"
            rows.append(f"{group:<{wide}}  {signs}{then}")
        legend = "   ".join(f"{sign} {state}" for state, sign in SIGNS.items())
        return "\n".join([*rows, f"{self.sentence}   ({legend})"])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = []
        for group, names in self.groups.items():
            cells = "".join(_mark(self.state(n), self.title(n)) for n in names)
            label = html.escape(group)
            rows.append(
                f'<div style="display:flex;align-items:center;gap:5px;margin:3px 0">'
                f'<span style="width:84px">{label}</span>{cells}</div>'
            )
        legend = "".join(
            f'<span style="display:inline-flex;align-items:center;gap:4px;'
            f'margin-right:14px">{_mark(state, state)}{state}</span>'
            for state in (OPEN, SOLVED, WITHIN)
        )
        return (
            f'<div style="font-size:13px">{"".join(rows)}'
            f'<div style="margin-top:6px">{html.escape(self.sentence)}</div>'
            f'<div style="opacity:.75;margin-top:2px">{legend}</div></div>'
        )


@dataclass(frozen=True)
class Exported:
    """A file that export() wrote, and what to do with it."""

    path: Path
    count: int

    def __repr__(self) -> str:
        name = self.path.name
        return (
            f"{self.path}: {plural(self.count, 'puzzle')} solved. Elsewhere: "
            f'puzzles.progress().load("{name}")\n'
            f"Colab forgets its disk. There, take the file with you:\n"
            f"    from google.colab import files\n"
            f'    files.download("{name}")     # next time: files.upload(), then load()'
        )


def _mark(state: str, title: str) -> str:
    """A cell of cloth: an empty one dashed, a solved one half woven, or woven."""
    ink = 'stroke="currentColor" stroke-opacity=".55" stroke-dasharray="3 2.4"'
    look, inside = f'fill="none" {ink}', ""
    if state == SOLVED:
        look = f'fill="{OURS}" fill-opacity=".25" stroke="{OURS}"'
        inside = '<path d="M5 9h8" stroke="currentColor" stroke-width="2"/>'
    elif state == WITHIN:
        look = f'fill="{SHARED}" stroke="{SHARED}"'
        inside = (
            '<path d="M4.9 9.4l2.9 3 5.4-6.6" fill="none" stroke="#fff" '
            'stroke-width="2.1"/>'
        )
    said = html.escape(title, quote=True)
    return (
        f'<svg width="18" height="18" viewBox="0 0 18 18" role="img" '
        f'aria-label="{said}" style="flex:none"><title>{said}</title>'
        f'<rect x="1.5" y="1.5" width="15" height="15" rx="3" {look}/>{inside}</svg>'
    )


# ---- records ------------------------------------------------------------------------


def _valid(by_language: Any) -> dict[str, Any]:
    """Those records of a puzzle, by language, that are ones."""
    if not isinstance(by_language, dict):
        return {}
    return {
        language: record
        for language in LANGUAGES
        if isinstance(record := by_language.get(language), dict)
        and isinstance(record.get("when"), str)
        and isinstance(record.get("within"), bool)
    }


def _merge(
    records: dict[str, Any], name: str, language: str, record: dict[str, Any]
) -> None:
    """Add a record: of two the earlier day counts, and the better score."""
    if not isinstance(records.get(name), dict):
        records[name] = {}
    old = _valid(records[name]).get(language)
    if old is not None:
        better = old if old["within"] and not record["within"] else record
        record = {**better, "when": min(old["when"], record["when"])}
    records[name][language] = record


def _read(path: str | Path) -> dict[str, Any]:
    """The records in an exported file; ArgumentError if it is none."""
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ArgumentError(f"load: {path}: {error.strerror or error}") from None
    except ValueError:
        found = None
    records = found.get("puzzles") if isinstance(found, dict) else None
    if not isinstance(records, dict) or found.get("what") != FORMAT:
        raise ArgumentError(f"load: {path} is no file that export() wrote")
    return records
