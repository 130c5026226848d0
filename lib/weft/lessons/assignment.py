"""Write a lesson as an assignment for nbgrader.

nbgrader reads the same marks of answers as the lab (### BEGIN SOLUTION). Each answer
becomes a cell that it clears, and each check a locked cell with points. The checks run
under WEFT_GRADE=1, so that an unsolved task fails.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..base import store
from ..base.errors import ArgumentError
from ..puzzles.catalogue import load
from ..puzzles.lessons import list_lessons
from .grading import Task, list_tasks

SCHEMA = 3  # the version of nbgrader's metadata
GRADED = 'import os; os.environ["WEFT_GRADE"] = "1"\n'
LEFT_OUT = {"mistakes", "spellings"}  # tags of cells that readers do not see


def write(name: str, path: Path, points: Mapping[str, float]) -> int:
    """Write the assignment of a lesson, such as "02a"; return its number of tasks.

    points: points by task, 1 for others. Raises ArgumentError for an unknown lesson.
    """
    import nbformat  # imported lazily, so that other commands need not wait for it

    lessons = [lesson for lesson in list_lessons() if list_tasks(lesson)]
    matches = [one for one in lessons if one.path.stem.startswith(name)]
    if len(matches) != 1:
        stems = ", ".join(one.path.stem for one in lessons)
        raise ArgumentError(f"--nbgrader {name}: expected one of {stems}")
    tasks = list_tasks(matches[0])
    notebook = copy.deepcopy(matches[0].source)
    notebook.cells = [
        cell
        for cell in notebook.cells
        if not LEFT_OUT & {*cell.metadata.get("tags", ())}
    ]
    cells = {cell.id: cell for cell in notebook.cells}
    for task in tasks:
        _mark_task(task, cells, points.get(task.name, 1))
    notebook.metadata["kernelspec"] = {
        **{"name": "python3", "display_name": "Python 3", "language": "python"}
    }
    store.write(path, nbformat.writes(notebook) + "\n")
    return len(tasks)


def _mark_task(task: Task, cells: Mapping[str, Any], points: float) -> None:
    answer, check = cells[task.answer.id], cells[task.check.id]
    if task.kind == "puzzle":
        answer.source = load(task.name).marked_text
    answer.metadata["nbgrader"] = _make_metadata(task.name, solution=True)
    check.metadata["nbgrader"] = _make_metadata(f"check_{task.name}", grade=True)
    check.metadata["nbgrader"]["points"] = points
    check.source = GRADED + check.source


def _make_metadata(
    name: str, solution: bool = False, grade: bool = False
) -> dict[str, Any]:
    return {
        **{"grade_id": name, "solution": solution, "grade": grade},
        **{"locked": grade, "task": False, "schema_version": SCHEMA},
    }
