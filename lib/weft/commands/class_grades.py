"""python -m weft class: show who has solved what, from the grades of `weft grade`.

weft class grades/*.json                    a table
weft class grades/*.json --csv class.csv    the points, for a spreadsheet
weft class grades/*.json --plot class.svg   a picture: a mark per student and task
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..base import store, style
from ..base.errors import ArgumentError
from ..lessons.grading import MISSING, SOLVED, STOPPED, UNSOLVED, WRONG

# For each verdict, a letter in tables and (marker, colour, whether filled) in pictures.
LETTERS = {SOLVED: "x", WRONG: "-", STOPPED: "!", UNSOLVED: ".", MISSING: " "}
MARKERS = {
    SOLVED: ("s", style.SHARED, True),
    WRONG: ("X", style.FAULT, True),
    STOPPED: ("^", style.FAULT, False),
    UNSOLVED: ("s", style.INK, False),
    MISSING: ("_", style.INK, True),
}
CELL, NAMES = 24, 130  # SVG points per student or task, and for the names and the key


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `python -m weft class`."""
    add = parser.add_argument
    add("files", nargs="+", metavar="FILE", help="grades from weft grade --json")
    add("--csv", metavar="PATH", help="write the points of each task")
    add("--plot", metavar="PATH", help="draw a mark per student and task")


def main(args: argparse.Namespace) -> int:
    """Print the table; return exit status 1 if a file could not be used."""
    grades, problems = read_grades(args.files)
    for problem in problems:
        print(f"weft class: {problem}", file=sys.stderr)
    if not grades:
        raise ArgumentError("no grade to show")
    tasks = list_tasks(grades)
    print(write_table(grades, tasks))
    if args.csv:
        store.write(Path(args.csv), write_csv(grades, tasks))
    if args.plot:
        style.save(draw_class(grades, tasks), args.plot)
    return int(bool(problems))


def read_grades(files: Sequence[str]) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the grades, sorted by student, and a sentence for each omitted file.

    If a student has two grades in a lesson, the grade with more points counts.
    """
    best: dict[tuple[str, str], dict[str, Any]] = {}
    problems = []
    for file in files:
        try:
            one = json.loads(Path(file).read_text())
            key = str(one["student"]), str(one["lesson"])
            one["marks"] = {
                mark["name"]: (
                    str(mark["verdict"]), float(mark["points"]), float(mark["of"])
                )
                for mark in one["marks"]
            }  # fmt: skip
        except (OSError, ValueError, KeyError, TypeError) as error:
            problems.append(f"{file} is not a grade: {type(error).__name__}: {error}")
            continue
        if key in best:
            problems.append(
                f"{file}: a second grade for {' and '.join(key)}; the better counts"
            )
        if key not in best or _count_points(one) > _count_points(best[key]):
            best[key] = one
    return [best[key] for key in sorted(best)], problems


def list_tasks(grades: Sequence[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return every (lesson, task), lesson by lesson."""
    found = {(one["lesson"], name): None for one in grades for name in one["marks"]}
    return sorted(found, key=lambda task: task[0])


def group_students(grades: Sequence[dict[str, Any]]) -> dict[str, dict[Any, Any]]:
    """Return each student's marks by (lesson, task)."""
    students: dict[str, dict[Any, Any]] = {}
    for one in grades:
        marks = students.setdefault(one["student"], {})
        marks |= {(one["lesson"], name): mark for name, mark in one["marks"].items()}
    return students


def write_table(
    grades: Sequence[dict[str, Any]], tasks: Sequence[tuple[str, str]]
) -> str:
    """Return the table: a line per student with a letter per task, and the points."""
    students = group_students(grades)
    wide = max(map(len, students))
    lines = []
    for number, (lesson, name) in enumerate(tasks, 1):
        count = sum(m.get((lesson, name), [""])[0] == SOLVED for m in students.values())
        lines.append(f"{number:>3} {lesson}, {name}: {count} of {len(students)} solved")
    letters = ", ".join(f"'{letter}' {what}" for what, letter in LETTERS.items())
    lines += ["", f"{letters}; in the order above"]
    for student, marks in students.items():
        row = "".join(LETTERS.get(marks.get(t, (MISSING,))[0], "?") for t in tasks)
        got, of = (sum(mark[i] for mark in marks.values()) for i in (1, 2))
        lines.append(f"{student:<{wide}}  {row}  {got:g} of {of:g}")
    return "\n".join(lines)


def write_csv(
    grades: Sequence[dict[str, Any]], tasks: Sequence[tuple[str, str]]
) -> str:
    """Return the points as CSV: a row per student, a column per task, and the sum."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["student", *map(".".join, tasks), "points"])
    for student, marks in group_students(grades).items():
        points = [marks[task][1] if task in marks else "" for task in tasks]
        writer.writerow([student, *points, sum(p for p in points if p != "")])
    return text.getvalue()


def draw_class(
    grades: Sequence[dict[str, Any]], tasks: Sequence[tuple[str, str]]
) -> Any:
    """Draw a mark per student (row) and task (column); its shape shows the verdict."""
    students = group_students(grades)
    wide, high = CELL * len(tasks) + 2 * NAMES, CELL * len(students) + NAMES
    figure = style.new_figure(max(360, wide), max(230, high))
    with style.style():
        ax = figure.add_subplot()
        for verdict, (marker, colour, filled) in MARKERS.items():
            places = [
                (column, row)
                for row, marks in enumerate(students.values())
                for column, task in enumerate(tasks)
                if marks.get(task, (MISSING,))[0] == verdict
            ]
            if places:
                look = {"color": colour} if filled or marker == "_" else {}
                look |= {} if look else {"facecolors": "none", "edgecolors": colour}
                ax.scatter(*zip(*places), s=70, marker=marker, label=verdict, **look)
        ax.set_xticks(range(len(tasks)), [name for _, name in tasks], rotation=90)
        ax.set_yticks(range(len(students)), [*students])
        ax.set_xlim(-0.6, len(tasks) - 0.4)
        ax.set_ylim(len(students) - 0.4, -0.6)
        lessons = sorted({lesson for lesson, _ in tasks})
        ax.set_title(", ".join(lessons))
        ax.legend(loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False)
    return figure


def _count_points(grade: dict[str, Any]) -> float:
    return sum(points for _, points, _ in grade["marks"].values())
