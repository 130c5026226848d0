"""Puzzles: learn by solving, in Python, Numba or CUDA C.

    from weft import puzzles

    puzzles                          a table by lesson: what is solved
    puzzles.next()                   the first unsolved one
    puzzles.guards                   its task; also puzzles["guards"]
    puzzles.guards.goal()            a picture of the goal
    puzzles.guards.check(kernel)     right or wrong, and where; the score
    puzzles.guards.show(kernel)      a picture of what the kernel does
    puzzles.guards.reset()           the stub again

A group of puzzles is a module. GROUPS lists them in an order in which each can be
solved with the knowledge from earlier ones. This module acts as a collection: it
iterates over its puzzles, and each is one of its attributes.

    puzzle, answers       what a puzzle is, and the answers that it accepts
    catalogue             the list of puzzles, and their stubs
    lessons               a group as cells of a notebook; lessons and their minutes
    errors                what a notebook shows of an answer, right or wrong
    instance, goal        the sizes of cases, and the one that is drawn; its picture
    answered              the picture of an answer and its results
    score, counts         the cost of an answer beside the best known; limits
    progress, table       the solved puzzles, kept; shown by lesson
    cloth                 the small delight
    example               a puzzle that shows how puzzles work
    threads, grids, tiles, counting, sums, memory, execution    the puzzles
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from .catalogue import GROUP_OF, GROUPS, LESSONS, describe_unknown, load, number_of
from .progress import read_progress
from .puzzle import Puzzle


def _example() -> Puzzle:
    """Load the puzzle outside all groups, which shows how puzzles work."""
    return importlib.import_module(".example", __name__).puzzle


def _marks() -> Any:
    """Return the solved puzzles, as a table with a row for each lesson."""
    return read_progress()


class _Collection(ModuleType):
    """The type of this module: its puzzles can be iterated, looked up and shown."""

    @property
    def groups(self) -> dict[str, tuple[Puzzle, ...]]:
        """The puzzles of each group, in order."""
        return {g: tuple(map(load, names)) for g, names in GROUPS.items()}

    def next(self) -> Puzzle | None:
        """Return the first unsolved puzzle; if none is left, print a line instead."""
        name = _marks().next
        if name:
            return load(name)
        print(f"all {len(self)} puzzles are solved")
        return None

    def __iter__(self) -> Iterator[Puzzle]:
        return map(load, GROUP_OF)

    def __len__(self) -> int:
        return len(GROUP_OF)

    def __getitem__(self, name: str) -> Puzzle:
        return load(name)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # Python and notebooks look these up, readers do not
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        raise AttributeError(describe_unknown(name))

    def __contains__(self, name: object) -> bool:
        return name in GROUP_OF

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *GROUP_OF]

    def __repr__(self) -> str:
        return str(_marks())

    def _repr_html_(self) -> str:
        return _marks()._repr_html_()


def _attribute(value: Any) -> property:
    """Return a property that an imported module of the same name does not replace.

    Without it, Python would put the imported module in its place.
    """
    return property(lambda self: value(), lambda self, module: None)


for _name in GROUP_OF:
    setattr(_Collection, _name, _attribute(lambda name=_name: load(name)))
_Collection.example = _attribute(_example)  # type: ignore[attr-defined]
_Collection.progress = _attribute(lambda: _marks)  # type: ignore[attr-defined]
sys.modules[__name__].__class__ = _Collection

__all__ = ["GROUPS", "LESSONS", "Puzzle", "load", "number_of"]
