"""What is mutated, and who judges it: the published answers of puzzles by their checks,
and those of exercises in Python by the cells below them.
"""

import contextlib
import functools
import importlib
import io
import linecache
import warnings
from collections.abc import Callable

import nbformat
from cell_names import names
from IPython.core.interactiveshell import InteractiveShell

from weft import puzzles
from weft.base.tracebacks import Short
from weft.check.runners import time_limit
from weft.lessons import maker as lessons
from weft.lessons.progress import EXERCISE
from weft.puzzles import puzzle as puzzle_module
from weft.puzzles.lessons import NOTEBOOKS, SOLUTIONS

SECONDS = 2.0  # that a launch may take; a right one takes far less
CHECK = 30.0  # seconds that the check of an exercise may take


@functools.cache
def answers() -> dict[str, str]:
    """The source of each published answer, by its puzzle's or exercise's name."""
    found = {puzzle.name: puzzle.solved_text for puzzle in puzzles}
    return found | {
        name: lessons.remove_marks(answer.source)
        for name, (_, answer, _) in exercises().items()
    }


def is_refused(name: str, source: str) -> bool:
    """Whether a check refuses an answer; a puzzle's raises errors of the lab alone.

    What it prints, and its warnings, are nobody's concern.
    """
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()) as said:
        warnings.simplefilter("ignore")
        if name in exercises():
            return not _solves(name, source, said)
        return not _is_solved(puzzles[name], source)


# ---- puzzles -----------------------------------------------------------------------


def _is_solved(puzzle, source: str) -> bool:
    puzzle_module.TIMEOUT = SECONDS
    with _compiled(source, puzzle.answer) as answer:
        try:
            return puzzle.check(answer) is not None  # None: the stub of a repair
        except Exception as error:
            if not isinstance(error, Short):
                raise
            return False


@contextlib.contextmanager
def _compiled(source: str, like: Callable):
    """A function from its text, beside the names of another's module."""
    file = f"<mutant of {like.__module__}>"
    linecache.cache[file] = len(source), None, source.splitlines(True), file
    scope = dict(vars(importlib.import_module(like.__module__)))
    exec(compile(source, file, "exec"), scope)
    yield scope[like.__name__]
    del linecache.cache[file]


# ---- exercises ---------------------------------------------------------------------


@functools.cache
def exercises() -> dict[str, tuple]:
    """Those in Python, by name: the notebook, the answer's cell and its check's."""
    found = {}
    for path in sorted(SOLUTIONS.glob("*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        for answer, check, *_ in lessons.exercises(notebook):
            (name,) = map("".join, EXERCISE.findall(check.source))
            if not answer.source.startswith("%%"):
                found[name] = notebook, answer, check
    return found


def _solves(name: str, source: str, said: io.StringIO) -> bool:
    """Return whether the check refuses; any exception counts as a refusal."""
    shell, check = _before(name), exercises()[name][2]
    shell.run_cell(source)
    with contextlib.suppress(Exception), time_limit(name, CHECK):
        shell.run_cell(check.source)
    return f"{name}: solved" in said.getvalue()


@functools.lru_cache(maxsize=1)
def _before(name: str) -> InteractiveShell:
    """A session in which all cells have run that the check needs."""
    notebook, answer, check = exercises()[name]
    shell = InteractiveShell()
    shell.run_line_magic("cd", f"-q {NOTEBOOKS}")
    for cell in _needed(notebook, check, notebook.cells.index(answer)):
        shell.run_cell(cell.source).raise_error()
    return shell


def _needed(notebook, check, end: int) -> list:
    """The cells above that define what a check uses, and what these use in turn."""
    above = [c for c in notebook.cells[:end] if c.cell_type == "code"]
    above = [c for c in above if not lessons.is_withheld(c)]
    _, wanted = names(check)
    chosen = []
    for cell in reversed(above):
        assigned, used = names(cell)
        if assigned & wanted or "import *" in cell.source:
            chosen.insert(0, cell)
            wanted |= used
    return chosen
