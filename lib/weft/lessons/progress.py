"""The reader's progress through the course: a row for each lesson.

The lab records the user's guesses and solved puzzles and exercises. Each lesson's
notebook shows which of these belong to the lesson.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass

from ..base.store import Kept
from ..base.style import INK, SHARED
from ..base.text import count_things
from ..puzzles.catalogue import is_withheld
from ..puzzles.lessons import PUZZLE, Lesson, list_lessons, name_puzzle, write_minutes
from ..puzzles.progress import OPEN, read_progress
from ..puzzles.table import CELL
from .widgets.predict import guessed_questions

QUESTION = re.compile(r'\bpredict\(\s*(f?)"([^"]+)"')
EXERCISE = re.compile(r'^exercise\((?:from_c\("(\w+)\.c"|(\w+))', re.M)
_solved = Kept("exercises")


def remember_exercise(name: str) -> None:
    """Record that the reader has solved the exercise to write the function `name`."""
    from datetime import date

    day = date.today().isoformat()
    _solved.change(lambda records: records.setdefault(name, {"when": day}))


def progress() -> CourseProgress:
    """Return the rows of all lessons, with the reader's progress until now."""
    guessed, puzzles = guessed_questions(), read_progress()
    exercised = set(_solved.read())

    def row(lesson: Lesson) -> LessonRow:
        code = "\n".join(cell.source for cell in _list_code(lesson))
        questions = set(QUESTION.findall(code))
        exercises = {"".join(match) for match in EXERCISE.findall(code)}
        cells = (PUZZLE.fullmatch(cell.id) for cell in lesson.source.cells)
        names = {name_puzzle(cell) for cell in cells if cell}
        done = {
            "guess": (_count_asked(questions, guessed), len(questions)),
            "puzzle": (sum(puzzles.state(n) != OPEN for n in names), len(names)),
            "exercise": (len(exercises & exercised), len(exercises)),
        }
        return LessonRow(lesson, done)

    return CourseProgress(tuple(map(row, list_lessons())))


def _list_code(lesson: Lesson) -> list:
    """Return the code cells of the reader's notebook."""
    cells = (cell for cell in lesson.source.cells if cell.cell_type == "code")
    return [cell for cell in cells if not is_withheld(cell)]


def _count_asked(questions: set[tuple[str, str]], guessed: set[str]) -> int:
    """Count the questions with a guess; an f-string matches any text that it yields."""
    patterns = [
        re.sub(r"\\\{.*?\\\}", ".+", re.escape(text)) if is_f else re.escape(text)
        for is_f, text in questions
    ]
    return sum(any(re.fullmatch(p, guess) for guess in guessed) for p in patterns)


@dataclass(frozen=True)
class LessonRow:
    """A lesson and its progress. done: (number done, total number) by kind."""

    lesson: Lesson
    done: dict[str, tuple[int, int]]

    @property
    def share(self) -> float:
        """The fraction of the lesson's guesses, puzzles and exercises that are done."""
        total = sum(count for _, count in self.done.values())
        return sum(done for done, _ in self.done.values()) / max(total, 1)

    def __str__(self) -> str:
        kinds = [(k, done, n) for k, (done, n) in self.done.items() if n]
        return ", ".join(f"{done} of {count_things(n, k)}" for k, done, n in kinds)


@dataclass(frozen=True)
class CourseProgress:
    """The course as a table: each lesson's question, minutes and progress."""

    rows: tuple[LessonRow, ...]

    def __str__(self) -> str:
        lines = []
        for row in self.rows:
            lesson, core = row.lesson, round(row.lesson.minutes["core"])
            name = f"{lesson.number} {lesson.title}"
            lines.append(f"{name:<28} {core:>3} min  {row}".rstrip())
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        heads = ("lesson", "the question", "core", "done")
        top = "".join(f'<th style="{CELL}">{head}</th>' for head in heads)
        body = "".join(map(_render_row, self.rows))
        return (
            f'<table style="font-size:13px;border-collapse:collapse">'
            f"<tr>{top}</tr>{body}</table>"
        )


def _render_row(row: LessonRow) -> str:
    lesson = row.lesson
    cells = (
        f'<a href="{lesson.path.name}">{lesson.number} {html.escape(lesson.title)}</a>',
        html.escape(lesson.question),
        write_minutes(lesson.minutes["core"]).replace("minute", "min").rstrip("s"),
        _draw_bar(row),
    )
    return "<tr>" + "".join(f'<td style="{CELL}">{c}</td>' for c in cells) + "</tr>"


def _draw_bar(row: LessonRow) -> str:
    """Return a bar that is filled up to the lesson's share, and the counts below it."""
    if not str(row):
        return ""
    width, height = 120, 8
    return (
        f'<svg width="{width}" height="{height}" role="img" aria-label="{row}">'
        f"<title>{row}</title>"
        f'<rect x=".5" y=".5" width="{width - 1}" height="{height - 1}" rx="3" '
        f'fill="none" stroke="{INK}"/>'
        f'<rect width="{width * row.share:.1f}" height="{height}" rx="3" '
        f'fill="{SHARED}"/></svg>'
        f'<div style="font-size:11px;opacity:.8">{row}</div>'
    )
