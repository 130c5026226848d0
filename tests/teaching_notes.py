"""Read the instructor's notes and the syllabi of docs/teaching.

A note's section *Show* has a table of minutes and sections, and a list of changes:

    - **The guard.** Change `i < n` to `i <= n`, and run 2 cells. The output contains
      `IndexError`: the class sees why the guard is there.

The first cell of the section that has the old text is changed; the run begins there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from weft.base.paths import ROOT
from weft.puzzles.catalogue import is_withheld, remove_marks
from weft.puzzles.notebooks import (
    CORE,
    PRACTICE,
    Lesson,
    cell_minutes,
    list_kinds,
    match_heading,
)

FOLDER = ROOT / "docs" / "teaching"
NOTES = FOLDER / "notes"
# The minutes, and the section's name.
ROW = re.compile(r"^\| *(\d+) *\| *(.+?) *\|", re.M)
TOTAL = re.compile(r"^\| *\*\*(\d+)\*\* *\|", re.M)
NAMED = re.compile(r"\*([^*\n]+)\*")
CHANGE = re.compile(r"^- \*\*(?P<section>[^*]+?)\.?\*\* (?P<text>.+)", re.M)
CODE = r"(`+)(?!`)(.+?)(?<!`)\{}(?!`)"
PAIR = re.compile(rf"[Cc]hange {CODE.format(1)} to {CODE.format(3)}")
DELETED = re.compile(rf"[Dd]elete {CODE.format(1)}")
COUNT = re.compile(r"run (\d+) cells")
SEEN = re.compile(r"(?<!longer )contains `([^`]+)`")
GONE = re.compile(r"no longer contains `([^`]+)`")
# A question of the section Ask, and an answer that begins with a number.
ANSWER = re.compile(
    r"(?:^\d\. |\. )\*(?P<question>[^\n]+?)\* \(prediction\) "
    r"(?P<number>\d[\d,]*(?:\.\d+)?)\b(?! x | to )(?P<rest>[^.]*)",
    re.M,
)
LISTED = r"\b{0} (`\w+`)|\b{0}s ((?:`\w+`(?:, and |, | and )?)+)"


@dataclass(frozen=True)
class StageChange:
    """A change that the lecturer makes to a lesson's cells.

    section: the heading of the changed cell's section. replacements: pairs of old and
    new text. count: the number of cells to run. seen, gone: words that their outputs
    contain, and no longer contain.
    """

    section: str
    replacements: tuple[tuple[str, str], ...]
    count: int
    seen: tuple[str, ...]
    gone: tuple[str, ...]


@dataclass(frozen=True)
class Note:
    """The instructor's note of a lesson."""

    path: Path

    @cached_property
    def text(self) -> str:
        """The note, with each paragraph and each list item on one line."""
        return re.sub(
            r"\n  +(?![-*|]|\d+\. )", " ", self.path.read_text(encoding="utf-8")
        )

    def read_part(self, name: str) -> str:
        """Return the text below the heading of this name, up to the next heading."""
        found = re.search(rf"^## {name}\n(.*?)(?=^## |\Z)", self.text, re.M | re.S)
        return found[1] if found else ""

    @property
    def rows(self) -> list[tuple[int, list[str]]]:
        """The minutes and the lesson's headings of each row of the table."""
        rows = ROW.findall(self.read_part("Show"))
        return [(int(minutes), NAMED.findall(name)) for minutes, name in rows]

    @property
    def total(self) -> int:
        """The last row of the table."""
        found = TOTAL.search(self.read_part("Show"))
        assert found, f"{self.path.name}: no total"
        return int(found[1])

    @property
    def answers(self) -> dict[str, str]:
        """The number that the section Ask gives as the answer to each prediction.

        Answers without a number, or those that depend on the machine, are not included.
        """
        found = ANSWER.finditer(self.read_part("Ask"))
        return {
            one["question"]: one["number"].replace(",", "")
            for one in found
            if "machine" not in one["rest"]
        }

    @property
    def changes(self) -> list[StageChange]:
        """The changes of the section Show, in the order of the text."""
        found = CHANGE.finditer(self.read_part("Show"))
        return [read_change(one["section"], one["text"]) for one in found]


def read_change(section: str, text: str) -> StageChange:
    """Return the change that a list item describes."""
    pairs = [(one[2], one[4]) for one in PAIR.finditer(text)]
    pairs += [(one[2], "") for one in DELETED.finditer(text)]
    count = COUNT.search(text)
    runs = int(count[1]) if count else 1
    seen, gone = tuple(SEEN.findall(text)), tuple(GONE.findall(text))
    return StageChange(section, tuple(pairs), runs, seen, gone)


def list_notes() -> list[Note]:
    """Return all notes, in the order of the lessons."""
    return [Note(path) for path in sorted(NOTES.glob("*.md"))]


def list_named(kind: str, text: str) -> list[str]:
    """Return the names after "puzzle" or "puzzles", or another kind of work."""
    found = re.findall(LISTED.format(kind), text, re.I)
    return [
        name
        for pair in found
        for name in re.findall(r"\w+", "".join(pair))
        if name != "and"
    ]


def list_headings(lesson: Lesson) -> list[str]:
    """Return the text of each heading of a lesson, below its title."""
    return [
        heading[2] for heading in map(match_heading, lesson.source.cells) if heading
    ]


def list_sections_of_cells(lesson: Lesson) -> list[str]:
    """Return the heading above each cell of a lesson; "" for its head."""
    names, current = [], ""
    for cell in lesson.source.cells:
        heading = match_heading(cell)
        current = heading[2] if heading else current
        names.append(current)
    return names


def count_section_minutes(lesson: Lesson) -> dict[str, float]:
    """Return the core's minutes by heading; "" is the head of the lesson."""
    minutes: dict[str, float] = {}
    cells = zip(
        lesson.source.cells, list_kinds(lesson.source), list_sections_of_cells(lesson)
    )
    for cell, kind, name in cells:
        if kind == CORE:
            minutes[name] = minutes.get(name, 0) + cell_minutes(cell)
    return minutes


def list_code(lesson: Lesson) -> list[tuple[str, str, str]]:
    """Return (section, kind, code) of each cell that a lecture can run."""
    cells = zip(
        lesson.source.cells, list_kinds(lesson.source), list_sections_of_cells(lesson)
    )
    return [
        (name, kind, remove_marks(cell.source))
        for cell, kind, name in cells
        if cell.cell_type == "code"
        and kind != PRACTICE
        and not is_withheld(cell)
        and "git clone --depth" not in cell.source
    ]


def find_cells(change: StageChange, code: list[tuple[str, str, str]]) -> list[int]:
    """Return the index of the first cell with the old text of each replacement."""
    return [
        next(
            (
                at
                for at, (section, _, text) in enumerate(code)
                if section == change.section and old in text
            ),
            -1,
        )
        for old, _ in change.replacements
    ]
