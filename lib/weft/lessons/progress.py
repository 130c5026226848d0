"""The reader's progress through the course: a row for each lesson.

The lab records the user's guesses and solved puzzles and exercises. Each lesson's
notebook shows which of these belong to the lesson. keep() moves the records.
"""

from __future__ import annotations

import contextlib
import html
import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..base import store
from ..base.paths import ROOT, link_notebook
from ..base.store import Kept
from ..base.style import INK, SHARED
from ..base.text import count_things
from ..puzzles.catalogue import is_withheld
from ..puzzles.notebooks import (
    CELL,
    PUZZLE,
    Lesson,
    list_lessons,
    name_puzzle,
    write_minutes,
)
from ..puzzles.progress import OPEN, read_progress
from ..see.pictures.svg import write_image
from .widgets.predict import guessed_questions

QUESTION = re.compile(r'\bpredict\(\s*(f?)"([^"]+)"')
EXERCISE = re.compile(r'^exercise\((?:from_c\("(\w+)\.c"|(\w+))', re.M)
_solved = Kept("exercises", lambda records, others: _add_earlier(records, others))


def remember_exercise(name: str) -> None:
    """Record that the reader has solved the exercise to write the function `name`."""
    from datetime import date

    day = date.today().isoformat()
    _solved.change(lambda records: records.setdefault(name, {"when": day}))


def progress() -> CourseProgress:
    """Return the rows of all lessons, with the reader's progress so far."""
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
    """Count the questions with a guess; an f-string matches any text of its form."""
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
    link = link_notebook(lesson.path.name)
    cells = (
        f'<a href="{link}">{lesson.number} {html.escape(lesson.title)}</a>',
        html.escape(lesson.question),
        write_minutes(lesson.minutes["core"]).replace("minute", "min").rstrip("s"),
        _draw_bar(row),
    )
    return "<tr>" + "".join(f'<td style="{CELL}">{c}</td>' for c in cells) + "</tr>"


def _draw_bar(row: LessonRow) -> str:
    """Return a bar filled up to the lesson's share, with the counts below it."""
    if not str(row):
        return ""
    width, height = 120, 8
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">'
        f'<rect x=".5" y=".5" width="{width - 1}" height="{height - 1}" rx="3" '
        f'fill="none" stroke="{INK}"/>'
        f'<rect width="{width * row.share:.1f}" height="{height}" rx="3" '
        f'fill="{SHARED}"/></svg>'
    )
    image = write_image(svg, f"a bar, {row.share:.0%} full: {row}")
    return f'{image}<div style="font-size:11px;opacity:.8">{row}</div>'


# ---- another folder for files that a user wants to keep -----------------------------

DRIVE = Path("/content/drive")  # where Colab mounts the user's Drive
TUNED, KERNELS = "tuned", "kernels"


def keep(folder: str | Path) -> None:
    """Keep progress, guesses, saved kernels and tuned constants in a folder.

        from google.colab import drive; drive.mount("/content/drive")
        weft.keep("/content/drive/MyDrive/weft")

    Colab deletes its disk after a session. From this call on, the lab reads and writes
    these small files in `folder`, which is created if only its last part is missing.
    Existing records of both places are joined; nothing is lost. Kernels that
    `%%cuda --save` wrote return to the checkout. If both places have a version, the
    newer one wins, and the older one remains in `folder` as NAME.old.cu. Compiled code
    stays in the cache. Call keep() again in each new session, or set WEFT_KEEP.

    Raises CannotWrite if the folder cannot be used, e.g. without a mounted Drive.
    """
    target = Path(folder).expanduser().absolute()
    _check_target(target)
    before = os.environ.get(store.KEEP, "")
    source = target
    with contextlib.suppress(store.CannotWrite):  # the old folder may be missing
        source = store.kept_folder()
    tuned = source / TUNED if before else store.cache_folder(TUNED)
    try:
        for one in tuple(store.all_kept):
            os.environ[store.KEEP] = before
            _move_records(one, source, target)
    except OSError:
        os.environ[store.KEEP] = before
        raise
    os.environ[store.KEEP] = str(target)
    for path in source.glob("*.json"):  # including modules not imported yet
        _copy_missing(path, target / path.name)
    for path in tuned.glob("*.json"):
        _copy_missing(path, target / TUNED / path.name)
    exchange_kernels(target / KERNELS, ROOT)
    print(f"Weft: your progress, guesses, saved kernels and constants are in {target}.")


def _move_records(one: Kept, source: Path, target: Path) -> None:
    """Move the records to another folder, and use that folder from now on."""
    lock = contextlib.nullcontext()
    if source != target:  # another notebook may use the old folder
        lock = store.lock_file(source / f"{one.name}.lock", store.WAIT)
    with lock:
        old = one.read()
        os.environ[store.KEEP] = str(target)
        one.resume(old)
        if source != target:
            (source / f"{one.name}.json").unlink(missing_ok=True)


def _check_target(target: Path) -> None:
    """Raise CannotWrite, with a remedy, if keep() cannot use the folder."""
    if not target.parent.is_dir():
        if DRIVE in target.parents and not any(DRIVE.glob("*")):
            raise store.CannotWrite(
                f"{target}: your Drive is not mounted. Run: from google.colab import "
                f'drive; drive.mount("{DRIVE}")'
            )
        raise store.CannotWrite(f"{target}: there is no folder {target.parent}")
    try:
        target.mkdir(exist_ok=True)
        with tempfile.TemporaryFile(dir=target):
            pass
    except OSError as error:
        why = error.strerror or error
        raise store.CannotWrite(f"{target} cannot be written: {why}") from None


def _add_earlier(records: dict[str, Any], others: dict[str, Any]) -> None:
    """Add solved exercises, each with the day of its first solution."""
    for name, record in others.items():
        records[name] = min(records.get(name, record), record, key=str)


def exchange_kernels(kept: Path, checkout: Path) -> None:
    """Copy the kernels of cells between two folders, so that both have all of them.

    A file of the lab, which no cell wrote, is neither copied nor replaced. Of two
    different versions, the newer one wins; the other becomes NAME.old.cu in `kept`.
    """
    saved = [p for p in (checkout / "kernels").rglob("*.cu*") if _is_saved(p)]
    names = {path.relative_to(checkout) for path in saved}
    names |= {path.relative_to(kept) for path in kept.rglob("*.cu*")}
    for name in sorted(names):
        here, there = checkout / name, kept / name
        if name.stem.endswith(".old") or (here.exists() and not _is_saved(here)):
            continue
        if here.exists() and there.exists() and here.read_text() != there.read_text():
            newer, older = sorted((here, there), key=_read_age)
            old = there.with_suffix(f".old{there.suffix}")
            store.write(old, older.read_text())
            store.write(older, newer.read_text())
        _copy_missing(here, there)
        _copy_missing(there, here)


def _is_saved(path: Path) -> bool:
    return path.read_text(errors="replace").startswith(store.SAVED)


def _read_age(path: Path) -> float:
    return -path.stat().st_mtime


def _copy_missing(source: Path, target: Path) -> None:
    """Copy a file unless the target exists, or the source does not."""
    if source.exists() and not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        store.write(target, source.read_bytes())
