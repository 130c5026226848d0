"""Grade a submitted lesson: each answer runs alone, with the lab's own check.

    grade("alice_02a_shared_memory.ipynb")    a Grade: points, verdicts, failing cases

Only the cells with answers come from the submission. All other cells, and the checks,
are the lab's. Each answer runs in a separate process on the CPU target, with limits on
time and memory. The lab's cells that the answer and its check need run first. The lab's
names then get their old values again. An answer that replaces a function of Python,
NumPy or the lab is refused.

The answers run with your permissions, and code that attacks its own process on purpose
may forge a verdict. Grade strangers' work in a container.

commands/grade.py is the program that runs the answers.

write_assignment() writes a lesson as an assignment for nbgrader, which reads the same
marks of answers as the lab (### BEGIN SOLUTION). Each answer becomes a cell that
nbgrader clears, and each check a locked cell with points. The checks run under
WEFT_GRADE=1, so that an unsolved task fails.
"""

from __future__ import annotations

import copy
import functools
import json
import os
import re
import subprocess
import symtable
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from IPython.core.inputtransformer2 import TransformerManager

from ..base import store
from ..base.errors import ArgumentError
from ..base.paths import ROOT
from ..base.progress import Progress
from ..csource import signature
from ..puzzles.catalogue import load
from ..puzzles.notebooks import PUZZLE, Lesson, list_lessons

SOLVED, UNSOLVED, WRONG = "solved", "not solved yet", "wrong"
STOPPED, MISSING = "stopped", "missing"
IMPORTS = "from utils import *"  # first line of a lesson's import cell
WRITTEN = re.compile(r"%%writefile .*?(?P<file>[\w.]+)$", re.M)
SECONDS, MEMORY = 120, 4.0  # limits of an answer: time, and GB of new memory


@dataclass(frozen=True)
class Task:
    """An exercise or a puzzle of a lesson.

    answer, check: the lab's cells. above: the cells above the answer.
    """

    name: str
    kind: str
    answer: Any
    check: Any
    above: Sequence[Any]

    def list_needed(self) -> list[str]:
        """Return the sources of the cells above that the answer or the check needs."""
        return _list_needed(self.above, [self.answer, self.check])


@dataclass
class Mark:
    """The verdict on one task.

    verdict: SOLVED, UNSOLVED, WRONG, STOPPED or MISSING. text: the failing case, or a
    puzzle's counts. points, of: points awarded and available.
    """

    name: str
    kind: str
    verdict: str
    text: str = ""
    points: float = 0.0
    of: float = 1.0
    seconds: float = 0.0


@dataclass
class Grade:
    """The marks of a submission."""

    student: str
    lesson: str
    file: str
    marks: list[Mark] = field(default_factory=list)

    @property
    def points(self) -> float:
        """Return the sum of the awarded points."""
        return sum(mark.points for mark in self.marks)

    @property
    def of(self) -> float:
        """Return the sum of the available points."""
        return sum(mark.of for mark in self.marks)

    def json(self) -> dict[str, Any]:
        """Return the grade as plain data, which `weft class` reads."""
        return {**asdict(self), "points": self.points, "of": self.of}

    def gradescope(self) -> dict[str, Any]:
        """Return the grade in the format of Gradescope's results.json."""
        tests = [
            {
                **{"name": mark.name, "score": mark.points, "max_score": mark.of},
                "status": "passed" if mark.verdict == SOLVED else "failed",
                "output": f"{mark.verdict}. {mark.text}".strip(" ."),
            }
            for mark in self.marks
        ]
        return {"score": self.points, "tests": tests}

    def __str__(self) -> str:
        lines = [
            f"{self.student}, {self.lesson}: {self.points:g} of {self.of:g} points"
        ]
        for mark in self.marks:
            head = f"{mark.points:g}/{mark.of:g}  {mark.name}: {mark.verdict}"
            lines.append(f"  {head}{'. ' + mark.text if mark.text else ''}")
        return "\n".join(lines)


def grade(
    path: str | Path,
    *,
    student: str = "",
    points: Mapping[str, float] | None = None,
    seconds: float = SECONDS,
    memory: float = MEMORY,
) -> Grade:
    """Grade a submitted notebook of a lesson.

    student: the name in the grade; by default, the file's name without the lesson's.
    points: points by task; other tasks have 1. seconds, memory (GB): the limits of an
    answer. Raises ArgumentError for a file that is not a notebook or belongs to no
    lesson, and for points of an unknown task.
    """
    path = Path(path)
    submission = _read_notebook(path)
    lesson = find_lesson(path, submission)
    tasks, points = list_tasks(lesson), points or {}
    if unknown := points.keys() - {task.name for task in tasks}:
        raise ArgumentError(
            f"{lesson.path.stem} has no task {', '.join(sorted(unknown))}; it has "
            f"{', '.join(task.name for task in tasks)}"
        )
    answers = [_find_answer(task, submission) for task in tasks]
    marks = [Mark(t.name, t.kind, MISSING, of=points.get(t.name, 1.0)) for t in tasks]
    limits = {"seconds": seconds, "memory": memory}
    with Progress(f"grading {path.name}", len(tasks), "answers") as job:
        for number, result in _run_answers(tasks, answers, limits):
            mark = marks[number]
            mark.verdict, mark.text = result["verdict"], result["text"]
            mark.seconds = result["seconds"]
            mark.points = mark.of * (mark.verdict == SOLVED)
            job.update()
    name = student or _name_student(path, lesson)
    return Grade(name, lesson.path.stem, path.name, marks)


def find_lesson(path: Path, submission: Any) -> Lesson:
    """Return the lesson of a submission, found by its file name or its cells' ids."""
    lessons = [lesson for lesson in list_lessons() if list_tasks(lesson)]
    named = [lesson for lesson in lessons if lesson.path.stem in path.stem]
    if len(named) == 1:
        return named[0]
    ids = {cell.get("id") for cell in submission.cells}
    shared = {
        lesson.path.stem: len(ids & {task.answer.id for task in list_tasks(lesson)})
        for lesson in lessons
    }
    best = max(shared, key=shared.__getitem__)
    if not shared[best]:
        raise ArgumentError(
            f"{path}: no lesson's answers; its name must contain one of "
            f"{', '.join(shared)}"
        )
    return next(lesson for lesson in lessons if lesson.path.stem == best)


def list_tasks(lesson: Lesson) -> list[Task]:
    """Return a lesson's exercises and puzzles, in the lesson's order."""
    cells, tasks = lesson.source.cells, []
    for at, cell in enumerate(cells):
        if cell.cell_type != "code":
            continue
        puzzle = PUZZLE.fullmatch(cell.id)
        if "exercise" in cell.metadata.get("tags", ()):
            check = next(c for c in cells[at + 1 :] if c.cell_type == "code")
            name, kind = _name_exercise(check), "exercise"
        elif puzzle and puzzle["part"] == "answer":
            check = next(c for c in cells if c.id == f"puzzle-{puzzle['name']}-check")
            name, kind = puzzle["name"].replace("-", "_"), "puzzle"
        else:
            continue
        tasks.append(Task(name, kind, cell, check, cells[:at]))
    return tasks


def _name_exercise(check: Any) -> str:
    """Return the name of the answer in a check's call exercise(answer, check).

    For a function from a C file, this is the name of the file.
    """
    call = re.search(r"\bexercise\((.*)", check.source, re.S)
    from_file = re.match(r"\s*from_c\([\"'](\w+)\.c", call[1])
    return (from_file or re.match(r"\s*(\w+)", call[1]))[1]


def _list_needed(above: Sequence[Any], cells: Sequence[Any]) -> list[str]:
    """Return the sources of the cells above that define what `cells` need.

    A cell is needed for a name that it assigns, or for a file that it writes.
    """
    wanted = set().union(*(list_names(cell)[1] for cell in cells))
    wanted -= set().union(*(list_names(cell)[0] for cell in cells))
    texts, needed = [cell.source for cell in cells], []
    for cell in reversed(above):
        tags = {*cell.metadata.get("tags", ())}
        attempt = {"exercise", "mistakes", "spellings"} & tags
        if cell.cell_type != "code" or attempt or "\nexercise(" in cell.source:
            continue
        written = WRITTEN.match(cell.source)
        assigned, used = list_names(cell)
        is_file = written and any(written["file"] in text for text in texts)
        if is_file or assigned & wanted or cell.source.startswith(IMPORTS):
            wanted |= used | {*re.findall(r"\{(\w+)", written[0] if written else "")}
            texts.append(cell.source)
            needed.append(cell.source)
    return needed[::-1]


def _read_notebook(path: Path) -> Any:
    import nbformat  # imported lazily, so that other commands need not wait for it

    try:
        notebook = nbformat.read(path, as_version=4)
    except FileNotFoundError:
        raise ArgumentError(f"{path}: there is no such notebook") from None
    except Exception as error:  # a broken file may raise many kinds of errors
        reason = str(error).partition("\n")[0][:200]
        raise ArgumentError(f"{path} is not a notebook: {reason}") from None
    return notebook


def _find_answer(task: Task, submission: Any) -> str | None:
    """Return the source of the submitted cell with the answer; None if it is missing.

    The cell has the id of the lab's cell. If no cell has it, the last one that defines
    the same names counts, since some editors give cells new ids.
    """
    code = [cell for cell in submission.cells if cell.cell_type == "code"]
    for cell in code:
        if cell.get("id") == task.answer.id:
            return cell.source
    wanted = _define_names(task.answer)
    for cell in reversed(code):
        if wanted and wanted <= _define_names(cell):
            return cell.source
    return None


def _define_names(cell: Any) -> set[str]:
    first = cell.source.partition("\n")[0]
    if first.startswith("%%writefile"):
        return {first}
    try:
        return {*list_names(cell)[0]}
    except (SyntaxError, ValueError):
        return set()


def _name_student(path: Path, lesson: Lesson) -> str:
    return path.stem.replace(lesson.path.stem, "").strip("_- .") or path.stem


def _run_answers(
    tasks: Sequence[Task], answers: Sequence[str | None], limits: Mapping[str, float]
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the number of each submitted answer and its result."""
    jobs = [
        {
            **{"number": number, "needed": task.list_needed(), "answer": answer},
            **{"check": task.check.source, "assigned": [*list_names(task.answer)[0]]},
            "used": [*list_names(task.check)[1]],
        }
        for number, (task, answer) in enumerate(zip(tasks, answers))
        if answer is not None
    ]
    with tempfile.TemporaryDirectory(prefix="weft_grade_") as folder:
        process = subprocess.Popen(
            [sys.executable, "-m", "weft.commands.grade"],
            **{"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True},
            **{"cwd": folder, "env": _make_environment(folder)},
        )
        with process:
            process.stdin.write(json.dumps({"jobs": jobs, **limits}))
            process.stdin.close()
            for line in process.stdout:
                result = json.loads(line)
                yield result["number"], result
    if process.returncode:
        raise ArgumentError(f"grading stopped with status {process.returncode}")


def _make_environment(folder: str) -> dict[str, str]:
    paths = [str(ROOT / "lib"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    kept = Path(folder) / "kept"  # preserves the teacher's own progress
    kept.mkdir()
    return os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        **{"WEFT_GRADE": "1", "WEFT_SMALL": "1", store.KEEP: str(kept)},
        # A forked process cannot use its parent's GPU context or OpenMP threads.
        **{"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1", "MPLBACKEND": "agg"},
    }


# ---- assignments for nbgrader and otter ----------------------------------------------


SCHEMA = 3  # the version of nbgrader's metadata
GRADED = 'import os; os.environ["WEFT_GRADE"] = "1"\n'
OTTER = """# ASSIGNMENT CONFIG
tests:
  ok_format: false
generate: true
init_cell: false
export_cell: false
check_all_cell: false
"""
MARKED = re.compile(r"^.*### (BEGIN|END) SOLUTION.*\n?", re.M)  # nbgrader's marks
LEFT_OUT = {"mistakes", "spellings"}  # tags of cells that readers do not get


def write_assignment(name: str, path: Path, points: Mapping[str, float]) -> int:
    """Write nbgrader's assignment for a lesson ("02a"); return the number of tasks.

    points: points by task; other tasks have 1. Raises ArgumentError for an unknown
    lesson.
    """
    lesson = _find_assigned(name)
    tasks = list_tasks(lesson)
    cells = {cell.id: cell for cell in _copy_cells(lesson.source)}
    for task in tasks:
        _mark_task(task, cells, points.get(task.name, 1))
    _write_cells(path, lesson, cells.values())
    return len(tasks)


def write_otter(name: str, path: Path, points: Mapping[str, float]) -> int:
    """Write the notebook that `otter assign` turns into an assignment and its grader.

    Its questions have the lab's answers as solutions, the lesson's stubs as prompts and
    the lab's checks as tests. Arguments, result and errors are those of
    write_assignment().
    """
    lesson = _find_assigned(name)
    tasks = list_tasks(lesson)
    questions = {task.answer.id: task for task in tasks}
    cells = [_make_raw(OTTER)]
    for cell in _copy_cells(_read_notebook(lesson.path)):
        task = questions.get(cell.id)
        cells += (
            _make_question(task, cell, points.get(task.name, 1)) if task else [cell]
        )
    _write_cells(path, lesson, cells)
    return len(tasks)


def _find_assigned(name: str) -> Lesson:
    lessons = [lesson for lesson in list_lessons() if list_tasks(lesson)]
    matches = [one for one in lessons if one.path.stem.startswith(name)]
    if len(matches) != 1:
        stems = ", ".join(one.path.stem for one in lessons)
        raise ArgumentError(f"lesson {name}: expected one of {stems}")
    return matches[0]


def _copy_cells(notebook: Any) -> list[Any]:
    return [
        cell
        for cell in copy.deepcopy(notebook.cells)
        if not LEFT_OUT & {*cell.metadata.get("tags", ())}
    ]


def _write_cells(path: Path, lesson: Lesson, cells: Iterable[Any]) -> None:
    import nbformat  # imported lazily, so that other commands need not wait for it

    notebook = copy.deepcopy(lesson.source)
    notebook.cells = list(cells)
    notebook.metadata["kernelspec"] = {
        **{"name": "python3", "display_name": "Python 3", "language": "python"}
    }
    store.write(path, nbformat.writes(notebook) + "\n")


def _mark_task(task: Task, cells: Mapping[str, Any], points: float) -> None:
    answer, check = cells[task.answer.id], cells[task.check.id]
    if task.kind == "puzzle":
        answer.source = load(task.name).marked_text
    answer.metadata["nbgrader"] = _make_metadata(task.name, solution=True)
    check.metadata["nbgrader"] = _make_metadata(f"check_{task.name}", grade=True)
    check.metadata["nbgrader"]["points"] = points
    check.source = GRADED + check.source


def _make_question(task: Task, stub: Any, points: float) -> Iterator[Any]:
    """Yield the cells of a task for otter.

    The solution is Python even for CUDA C, because otter's marks are Python comments.
    The test runs the check's Python among the submission's names, as a cell would.
    """
    from nbformat.v4 import new_code_cell  # imported lazily, see _write_cells

    solution = _plain_of(MARKED.sub("", task.answer.source))
    solution = f"# BEGIN SOLUTION NO PROMPT\n{solution.rstrip()}\n# END SOLUTION"
    test = f"def test_{task.name}(env):\n    import os\n"
    test += '    os.environ["WEFT_GRADE"] = "1"\n'
    test += f"    exec({write_plain_python(task.check)!r}, env)\n"
    yield _make_raw(f"# BEGIN QUESTION\nname: {task.name}\npoints: {points}")
    yield _make_raw("# BEGIN PROMPT")
    yield stub
    yield _make_raw("# END PROMPT")
    yield _make_raw("# BEGIN SOLUTION")
    yield new_code_cell(solution)
    yield _make_raw("# END SOLUTION")
    yield _make_raw("# BEGIN TESTS")
    yield new_code_cell(test)
    yield _make_raw("# END TESTS")
    yield _make_raw("# END QUESTION")


def _make_raw(text: str) -> Any:
    from nbformat.v4 import new_raw_cell  # imported lazily, see _write_cells

    return new_raw_cell(text)


def _make_metadata(
    name: str, solution: bool = False, grade: bool = False
) -> dict[str, Any]:
    return {
        **{"grade_id": name, "solution": solution, "grade": grade},
        **{"locked": grade, "task": False, "schema_version": SCHEMA},
    }


# ---- names in cells ------------------------------------------------------------------


def list_names(cell) -> tuple[frozenset[str], frozenset[str]]:
    """Return the global names that a cell assigns, and those that it uses."""
    return _names_of(cell.source)


@functools.cache  # the tests often analyse the same cell
def _names_of(source: str) -> tuple[frozenset[str], frozenset[str]]:
    if source.startswith("%%cuda"):
        return frozenset(kernel.name for kernel in signature.parse(source)), frozenset()
    assigned: set[str] = set()
    used: set[str] = set()
    todo = [symtable.symtable(_plain_of(source), "cell", "exec")]
    while todo:
        table = todo.pop()
        todo += table.get_children()
        top = table.get_type() == "module"
        for symbol in table.get_symbols():
            if (top or symbol.is_global()) and symbol.is_referenced():
                used.add(symbol.get_name())
            written = symbol.is_assigned() or symbol.is_imported()
            if (top or symbol.is_declared_global()) and written:
                assigned.add(symbol.get_name())
    return frozenset(assigned), frozenset(used)


def write_plain_python(cell) -> str:
    """Return the cell as Python: its % and ! lines become calls of IPython."""
    return _plain_of(cell.source)


@functools.cache
def _plain_of(source: str) -> str:
    return TransformerManager().transform_cell(source)
