"""Record which puzzles are solved: a table of marks, kept for the user.

    puzzles.progress()                  the marks, by lesson (table.py)
    puzzles.progress().export()         write weft_progress.json, for another machine
    puzzles.progress().load(path)       add an exported file to the marks
    puzzles.progress().reset("guards")  forget one puzzle; without a name, all of them

A puzzle counts once for each language: Python, Numba, CUDA C. A record contains the day
of the first solution, the numbers of a score, and whether these are within the budget
(score.py). The score is the latest one, but a score within the budget is never lost.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base.errors import ArgumentError
from ..base.store import Kept
from ..base.text import count_things
from .catalogue import GROUPS

if TYPE_CHECKING:
    from .puzzle import Puzzle
    from .score import Score


LANGUAGES = ("Python", "Numba", "CUDA C")
FILE = "weft_progress.json"
FORMAT = "weft puzzles"  # the identifier in an exported file
OPEN, SOLVED, WITHIN = "not yet", "solved", "solved within the budget"
SIGNS = {OPEN: "·", SOLVED: "✓", WITHIN: "★"}
_kept = Kept("puzzles", lambda records, others: _add(records, others))
_set_aside = Kept("puzzles_before_reset")
_latest: list[str] = []  # puzzles that this session solved first


def note_solved(puzzle: Puzzle, language: str, score: Score | None = None) -> bool:
    """Record a solved puzzle; return whether it was unsolved in every language before.

    Of several answers in one language, the first day and the latest score count. But
    a score within the budget is not replaced by a score beyond it.
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
        news = not _select_valid(records.get(puzzle.name))
        _merge(records, puzzle.name, language, record)

    _kept.change(note)
    if news:
        _latest.append(puzzle.name)
    return news


def latest_solved() -> str:
    """Return the puzzle that was most recently solved for the first time, or ""."""
    return _latest[-1] if _latest else ""


def read_progress() -> PuzzleProgress:
    """Return the solved puzzles, as a table with a row for each lesson."""
    return PuzzleProgress(GROUPS, _kept.read())


@dataclass(frozen=True)
class PuzzleProgress:
    """The solved puzzles. groups: puzzle names by group; records: records by puzzle."""

    groups: Mapping[str, tuple[str, ...]]
    records: Mapping[str, Any]

    def state(self, name: str) -> str:
        """Return OPEN, SOLVED or WITHIN."""
        valid = _select_valid(self.records.get(name))
        if not valid:
            return OPEN
        return WITHIN if any(one["within"] for one in valid.values()) else SOLVED

    def title(self, name: str) -> str:
        """Write a title, such as "guards: solved in Python on 2026-11-22"."""
        how = self.how(name)
        return f"{name}: {self.state(name)}" + (f" {how}" if how else "")

    def how(self, name: str) -> str:
        """Write the solutions, such as "in Python on 2026-11-22"; "" if none."""
        valid = _select_valid(self.records.get(name)).items()
        parts = [f"{language} on {record['when']}" for language, record in valid]
        return f"in {', '.join(parts)}" if parts else ""

    @property
    def next(self) -> str:
        """The first unsolved puzzle; "" if there is none."""
        return next((n for n in self._names() if self.state(n) == OPEN), "")

    def __contains__(self, name: object) -> bool:
        return name in self._names()

    def complete(self, group: str) -> bool:
        """Return whether every puzzle of a group is solved."""
        return all(self.state(name) != OPEN for name in self.groups[group])

    @property
    def count(self) -> int:
        """The number of solved puzzles."""
        return sum(self.state(name) != OPEN for name in self._names())

    def export(self, path: str | Path = FILE) -> Exported:
        """Write a JSON file for another machine, with instructions for loading it."""
        records = _kept.read()
        text = json.dumps({"what": FORMAT, "puzzles": records}, indent=1)
        try:
            Path(path).write_text(text, encoding="utf-8")
        except OSError as error:
            raise ArgumentError(f"export: {path}: {error.strerror or error}") from None
        count = sum(bool(_select_valid(r)) for r in records.values())
        return Exported(Path(path), count)

    def load(self, path: str | Path = FILE) -> PuzzleProgress:
        """Add the records of an exported file without losing existing ones."""
        imported = _read(path)
        _kept.change(lambda records: _add(records, imported))
        return read_progress()

    def reset(self, name: str | None = None) -> PuzzleProgress:
        """Forget one puzzle, or all of them, so that they can be solved again.

        The old records are kept in a separate file until the next reset.
        """
        if name is not None and name not in self:
            available = ", ".join(self._names())
            raise ArgumentError(f"no puzzle {name!r}; there are {available}")
        previous: dict[str, Any] = {}

        def forget(records: dict[str, Any]) -> None:
            _replace(previous, records)
            for one in [*records] if name is None else [name]:
                records.pop(one, None)

        _kept.change(forget)
        _set_aside.change(lambda records: _replace(records, previous))
        return read_progress()

    def _names(self) -> Iterator[str]:
        return (name for names in self.groups.values() for name in names)

    # ---- display -------------------------------------------------------------------

    @property
    def sentence(self) -> str:
        """The number of solved puzzles, in words."""
        number = sum(len(names) for names in self.groups.values())
        within = sum(self.state(name) == WITHIN for name in self._names())
        text = f"{self.count} of {number} puzzles solved"
        return f"{text}, {within} of them within the budget" if within else text

    def __str__(self) -> str:
        from .table import in_text  # imported lazily: the table reads the lessons

        return in_text(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        # Imported lazily, since it reads the lessons and nbformat is slow to import.
        from .table import in_html

        return in_html(self)


@dataclass(frozen=True)
class Exported:
    """A file that export() wrote; its display explains how to load it."""

    path: Path
    count: int

    def __repr__(self) -> str:
        name = self.path.name
        return (
            f"{self.path}: {count_things(self.count, 'puzzle')} solved. On another "
            f'machine: puzzles.progress().load("{name}")\n'
            f"Colab deletes its files after a session. There, download the file:\n"
            f"    from google.colab import files\n"
            f'    files.download("{name}")     # next time: files.upload(), then load()'
        )


# ---- records ------------------------------------------------------------------------


def _replace(records: dict[str, Any], others: dict[str, Any]) -> None:
    records.clear()
    records.update(others)


def _select_valid(by_language: Any) -> dict[str, Any]:
    """Return the valid records of a puzzle, by language."""
    if not isinstance(by_language, dict):
        return {}
    return {
        language: record
        for language in LANGUAGES
        if isinstance(record := by_language.get(language), dict)
        and isinstance(record.get("when"), str)
        and isinstance(record.get("within"), bool)
    }


def _add(records: dict[str, Any], others: dict[str, Any]) -> None:
    """Add the valid records of puzzles, without losing existing ones."""
    for name, by_language in others.items():
        for language, record in _select_valid(by_language).items():
            _merge(records, name, language, record)


def _merge(
    records: dict[str, Any], name: str, language: str, record: dict[str, Any]
) -> None:
    """Add a record; keep the earlier day, and a score within the budget."""
    if not isinstance(records.get(name), dict):
        records[name] = {}
    old = _select_valid(records[name]).get(language)
    if old is not None:
        better = old if old["within"] and not record["within"] else record
        record = {**better, "when": min(old["when"], record["when"])}
    records[name][language] = record


def _read(path: str | Path) -> dict[str, Any]:
    """Return the records in an exported file; raise ArgumentError if it is invalid."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ArgumentError(f"load: {path}: {error.strerror or error}") from None
    except ValueError:
        content = None
    records = content.get("puzzles") if isinstance(content, dict) else None
    if not isinstance(records, dict) or content.get("what") != FORMAT:
        raise ArgumentError(f"load: {path} is not a file that export() wrote")
    return records
