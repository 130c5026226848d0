"""python -m weft grade: grade a submitted notebook with the lab's own checks.

weft grade alice_02a_shared_memory.ipynb --json alice.json
weft grade submission.ipynb --gradescope results.json
weft grade --nbgrader 02a_shared_memory release.ipynb   write nbgrader's assignment
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from ..base import store
from ..base.errors import ArgumentError
from ..lessons import grading
from ..lessons.grading import MEMORY, SECONDS, grade


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `python -m weft grade`."""
    add = parser.add_argument
    add("notebook", nargs="?", metavar="NOTEBOOK", help="the submitted notebook")
    add("--student", default="", help="the name; default: from the file's name")
    add("--points", metavar="FILE", help='points as JSON: {"reverse_blocks": 3}')
    limit = "limit of an answer (default: %(default)g)"
    add("--seconds", type=float, default=SECONDS, help=f"time {limit}")
    add("--memory", type=float, default=MEMORY, metavar="GB", help=f"memory {limit}")
    add("--json", metavar="PATH", help="write the grade, which `weft class` reads")
    add("--gradescope", metavar="PATH", help="write Gradescope's results.json")
    help_nbgrader = "write a lesson as an assignment for nbgrader"
    add("--nbgrader", nargs=2, metavar=("LESSON", "PATH"), help=help_nbgrader)


def main(args: argparse.Namespace) -> int:
    """Grade, or write an assignment; return the exit status."""
    points = _read_points(args.points) if args.points else {}
    if args.nbgrader:
        name, path = args.nbgrader
        tasks = grading.write_assignment(name, Path(path), points)
        print(f"{path}: {tasks} tasks of {name}")
        return 0
    if not args.notebook:
        raise ArgumentError("expected a notebook to grade, or --nbgrader LESSON PATH")
    result = grade(
        args.notebook,
        **{"student": args.student, "points": points},
        **{"seconds": args.seconds, "memory": args.memory},
    )
    print(result)
    if args.json:
        store.write(Path(args.json), json.dumps(result.json(), indent=1) + "\n")
    if args.gradescope:
        text = json.dumps(result.gradescope(), indent=1)
        store.write(Path(args.gradescope), text + "\n")
    return 0


def _read_points(path: str) -> dict[str, float]:
    try:
        points = json.loads(Path(path).read_text())
    except (OSError, ValueError) as error:
        raise ArgumentError(f"--points {path}: {error}") from None
    numbers = isinstance(points, dict) and all(
        isinstance(value, (int, float)) and value >= 0 for value in points.values()
    )
    if not numbers:
        raise ArgumentError(f'--points {path}: expected {{"task": number, ...}}')
    return points
