"""The answers to mutate, and their judges: the checks of puzzles, and the check cells
of exercises in Python.
"""

import contextlib
import functools
import importlib
import io
import linecache
import warnings
from collections.abc import Callable

import nbformat
from IPython.core.interactiveshell import InteractiveShell

from weft import puzzles
from weft.base.errors import Short
from weft.check.runners import time_limit
from weft.lessons import maker as lessons
from weft.lessons.grading import list_names
from weft.lessons.progress import EXERCISE
from weft.puzzles import puzzle as puzzle_module
from weft.puzzles.notebooks import NOTEBOOKS, SOLUTIONS

SECONDS = 2.0  # time limit of a launch; a right one takes far less
CHECK = 30.0  # time limit in seconds of an exercise's check


@functools.cache
def answers() -> dict[str, str]:
    """Return each published answer's source by its puzzle's or exercise's name."""
    sources = {puzzle.name: puzzle.solved_text for puzzle in puzzles}
    return sources | {
        name: lessons.remove_marks(answer.source)
        for name, (_, answer, _) in exercises().items()
    }


def is_refused(name: str, source: str) -> bool:
    """Return whether a check refuses an answer; a puzzle's check may raise only the
    lab's errors.

    Its output and its warnings are ignored.
    """
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()) as output:
        warnings.simplefilter("ignore")
        if name in exercises():
            return not _solves(name, source, output)
        return not _is_solved(puzzles[name], source)


# ---- puzzles -----------------------------------------------------------------------


def _is_solved(puzzle, source: str) -> bool:
    puzzle_module.TIMEOUT = SECONDS
    with _compiled(source, puzzle.answer) as answer:
        try:
            # In a puzzle that repairs a kernel, check() returns None for the stub.
            return puzzle.check(answer) is not None
        except Exception as error:
            if not isinstance(error, Short):
                raise
            return False


@contextlib.contextmanager
def _compiled(source: str, like: Callable):
    """Compile a function from its text, in the namespace of another's module."""
    file = f"<mutant of {like.__module__}>"
    linecache.cache[file] = len(source), None, source.splitlines(True), file
    scope = dict(vars(importlib.import_module(like.__module__)))
    exec(compile(source, file, "exec"), scope)
    yield scope[like.__name__]
    del linecache.cache[file]


# ---- exercises ---------------------------------------------------------------------


@functools.cache
def exercises() -> dict[str, tuple]:
    """Return the exercises in Python by name: notebook, answer cell and check cell."""
    by_name = {}
    for path in sorted(SOLUTIONS.glob("*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        for answer, check, *_ in lessons.exercises(notebook):
            (name,) = map("".join, EXERCISE.findall(check.source))
            if not answer.source.startswith("%%"):
                by_name[name] = notebook, answer, check
    return by_name


def _solves(name: str, source: str, output: io.StringIO) -> bool:
    """Return whether the check accepts the answer; an exception is a refusal."""
    shell, check = _before(name), exercises()[name][2]
    shell.run_cell(source)
    with contextlib.suppress(Exception), time_limit(name, CHECK):
        shell.run_cell(check.source)
    return f"{name}: solved" in output.getvalue()


@functools.lru_cache(maxsize=1)
def _before(name: str) -> InteractiveShell:
    """Return a session in which all cells that the check requires have run."""
    notebook, answer, check = exercises()[name]
    shell = InteractiveShell()
    shell.run_line_magic("cd", f"-q {NOTEBOOKS}")
    for cell in _needed(notebook, check, notebook.cells.index(answer)):
        shell.run_cell(cell.source).raise_error()
    return shell


def _needed(notebook, check, end: int) -> list:
    """Return the cells above on which a check depends, directly or indirectly."""
    above = [c for c in notebook.cells[:end] if c.cell_type == "code"]
    above = [c for c in above if not lessons.is_withheld(c)]
    _, required = list_names(check)
    cells = []
    for cell in reversed(above):
        assigned, used = list_names(cell)
        if assigned & required or "import *" in cell.source:
            cells.insert(0, cell)
            required |= used
    return cells
