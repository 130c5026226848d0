"""Show the puzzles as a table: a row for each lesson, with links, marks and minutes.

The title, the minutes and the puzzles of the core come from the lesson's notebook
(lessons.py), which is read when a table is shown.
"""

from __future__ import annotations

import functools
import html
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..base.paths import link_notebook
from ..base.style import INK, OURS, SHARED
from ..see.pictures.svg import write_image
from .catalogue import LESSONS, load, number_of
from .notebooks import list_core_puzzles, list_lessons, puzzle_minutes, write_minutes
from .progress import OPEN, SIGNS, SOLVED, WITHIN

if TYPE_CHECKING:
    from .notebooks import Lesson
    from .progress import PuzzleProgress


CELL = "padding:3px 14px 3px 0;border:0;text-align:left;vertical-align:top"
WHOLE = "white-space:nowrap"  # style of a cell that stays on one line
LEGEND = "bold: part of the lesson's core; the others are practice"


@dataclass(frozen=True)
class LessonPuzzles:
    """A lesson and its puzzles, in their order.

    notebook: the lesson's file. core: the puzzles that belong to the lesson's core.
    """

    notebook: str
    title: str
    names: tuple[str, ...]
    core: frozenset[str]

    @property
    def head(self) -> str:
        """The lesson's number and title, such as "02c Sums"."""
        return f"{number_of(self.notebook)} {self.title}".rstrip()

    @functools.cached_property
    def minutes(self) -> float:
        """The total minutes for the puzzles."""
        return sum(map(puzzle_minutes, self.names))


def row_of(group: str, names: tuple[str, ...]) -> LessonPuzzles:
    """Return the row of a group; its title is "" if there is no notebook."""
    lesson = _load_lessons().get(LESSONS[group])
    title, core = (lesson.title, list_core_puzzles(lesson)) if lesson else ("", ())
    return LessonPuzzles(LESSONS[group], title, names, frozenset(core))


@functools.cache
def _load_lessons() -> dict[str, Lesson]:
    """Load the lessons by file name, once, since notebooks do not change."""
    return {lesson.path.name: lesson for lesson in list_lessons()}


# ---- as text ---------------------------------------------------------------------


def in_text(progress: PuzzleProgress) -> str:
    """Write a line for each lesson, and a summary sentence."""
    rows = [row_of(*one) for one in progress.groups.items()]
    wide = max((len(row.head) for row in rows), default=0)
    signs = [" ".join(SIGNS[progress.state(n)] for n in row.names) for row in rows]
    long = max(map(len, signs), default=0)
    lines = [
        f"{row.head:<{wide}}  {sign:<{long}}  {_write_summary(progress, row)}"
        for sign, row in zip(signs, rows)
    ]
    return "\n".join([*lines, f"{progress.sentence}   ({write_legend()})"])


def list_puzzles(progress: PuzzleProgress) -> str:
    """Write a line for each puzzle, below its lesson."""
    lines = []
    for group, names in progress.groups.items():
        row = row_of(group, names)
        minutes = write_minutes(row.minutes)
        lines.append(f"{row.head}, {minutes}  (notebooks/{row.notebook})")
        for name in names:
            length = write_minutes(puzzle_minutes(name)) + ", core" * (name in row.core)
            sign = SIGNS[progress.state(name)]
            lines.append(f"  {sign} {name:<20} {load(name).title:<24} {length}")
    return "\n".join([*lines, f"{progress.sentence}   ({write_legend()})"])


def write_legend() -> str:
    """Write the meaning of the signs."""
    return "   ".join(f"{sign} {state}" for state, sign in SIGNS.items())


def _write_summary(progress: PuzzleProgress, row: LessonPuzzles) -> str:
    """Write a summary, such as "2 of 5 solved, 24 minutes; next: guards"."""
    unsolved = [name for name in row.names if progress.state(name) == OPEN]
    then = f"; next: {unsolved[0]}" if unsolved else ""
    done = len(row.names) - len(unsolved)
    return f"{done} of {len(row.names)} solved, {write_minutes(row.minutes)}{then}"


# ---- as HTML ---------------------------------------------------------------------


def in_html(progress: PuzzleProgress) -> str:
    """Write the table for a notebook."""
    rows = "".join(_write_line(progress, *one) for one in progress.groups.items())
    states = "".join(
        f'<span style="display:inline-flex;align-items:center;gap:4px;'
        f'margin-right:14px">{mark(state, state)}{state}</span>'
        for state in (OPEN, SOLVED, WITHIN)
    )
    return (
        f'<div style="font-size:13px"><table style="border-collapse:collapse;'
        f'border:0;font-size:13px;color:inherit;background:transparent">{rows}</table>'
        f'<div style="margin-top:6px">{html.escape(progress.sentence)}</div>'
        f'<div style="opacity:.75;margin-top:2px">{states}</div>'
        f'<div style="opacity:.75;margin-top:2px">{html.escape(LEGEND)}</div></div>'
    )


def _write_line(progress: PuzzleProgress, group: str, names: tuple[str, ...]) -> str:
    row = row_of(group, names)
    head, done = html.escape(row.head), sum(progress.state(n) != OPEN for n in names)
    puzzles = "".join(_write_puzzle(progress, row, name) for name in names)
    link = html.escape(link_notebook(row.notebook), quote=True)
    cells = (
        f'<a href="{link}" style="color:inherit">{head}</a>',
        f'<div style="display:flex;flex-wrap:wrap;gap:3px 12px">{puzzles}</div>',
        f"{done} of {len(names)}",
        write_minutes(row.minutes),
    )
    spaces = (WHOLE, "width:100%", WHOLE, WHOLE)
    columns = "".join(
        f'<td style="{CELL};{space}">{cell}</td>' for space, cell in zip(spaces, cells)
    )
    return f'<tr style="background:transparent">{columns}</tr>'


def _write_puzzle(progress: PuzzleProgress, row: LessonPuzzles, name: str) -> str:
    """Write a puzzle's mark and its name, both linked to the puzzle."""
    link = html.escape(load(name).link, quote=True)
    weight = "bold" if name in row.core else "normal"
    return (
        f'<a href="{link}" style="display:inline-flex;align-items:center;gap:4px;'
        f'color:inherit;text-decoration:none;font-weight:{weight};white-space:nowrap">'
        f"{mark(progress.state(name), progress.title(name))}{html.escape(name)}</a>"
    )


def mark(state: str, title: str) -> str:
    """Draw a mark: pale if open, a check if solved, a star if within the budget.

    title: the mark's tooltip.
    """
    look, inside = f'fill="none" stroke="{INK}"', ""
    if state == SOLVED:
        look = f'fill="{OURS}" fill-opacity=".2" stroke="{OURS}"'
        check = 'd="M4.9 9.4l2.9 3 5.4-6.6" fill="none" stroke-width="2"'
        inside = f'<path {check} stroke="{OURS}"/>'
    elif state == WITHIN:
        look = f'fill="{SHARED}" stroke="{SHARED}"'
        star = (
            "M9 3.4l1.7 3.6 3.9.5-2.9 2.7.8 3.9L9 12.2l-3.5 1.9.8-3.9-2.9-2.7 3.9-.5z"
        )
        inside = f'<path d="{star}" fill="#fff"/>'
    svg = (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 18 18">'
        f'<rect x="1.5" y="1.5" width="15" height="15" rx="3" {look}/>{inside}</svg>'
    )
    tooltip = html.escape(title, quote=True)
    return write_image(svg, title).replace("<img", f'<img title="{tooltip}"', 1)
