"""Puzzles: learn by solving, in Python, Numba or CUDA C.

    from weft import puzzles

    puzzles                          a table by lesson: what is solved
    puzzles.next()                   the first that is not
    puzzles.guards                   what is asked; also puzzles["guards"]
    puzzles.guards.goal()            a picture of it
    puzzles.guards.check(kernel)     right or wrong, and where; the score
    puzzles.guards.show(kernel)      a picture of what the kernel does
    puzzles.guards.reset()           the stub again

A group of puzzles is a module; GROUPS has them in an order in which each can be solved
from what came before. This module is read as a collection: it iterates
over its puzzles, and each is one of its attributes.

    puzzle, answers       what a puzzle is; what it takes as an answer
    groups                which puzzles there are, and their stubs
    lessons               a group as cells of a notebook; lessons and their minutes
    errors                what a notebook shows of an answer, right or wrong
    instance, goal        the case that is drawn; the picture of what is asked
    answered              the picture of what an answer does, and what it gave
    score, counts         what an answer costs beside the best known; limits
    sizes                 the sizes that an answer is tried at
    progress, table       what is solved, kept; shown by lesson
    cloth                 the small delight
    example               a puzzle to show how they work
    threads, grids, tiles, counting, sums, memory, execution    the puzzles
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from .groups import GROUP_OF, GROUPS, LESSONS, describe_unknown, load, number_of
from .progress import read_progress
from .puzzle import Puzzle


def _example() -> Puzzle:
    """One in no group, which shows how a puzzle works and gives nothing away."""
    return importlib.import_module(".example", __name__).puzzle


def _marks() -> Any:
    """What is solved, as a table with a row for each lesson."""
    return read_progress()


class _Collection(ModuleType):
    """This module's own type: its puzzles can be iterated, looked up and shown."""

    @property
    def groups(self) -> dict[str, tuple[Puzzle, ...]]:
        """The puzzles of each group, in their order."""
        return {g: tuple(map(load, names)) for g, names in GROUPS.items()}

    def next(self) -> Puzzle | None:
        """The first puzzle that is not solved; None, and a line, if all are."""
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
        if name.startswith("_"):  # asked for by Python and notebooks, not by readers
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
    """A value that stays one when a module of the same name is imported.

    Python would put the imported module in its place.
    """
    return property(lambda self: value(), lambda self, module: None)


for _name in GROUP_OF:
    setattr(_Collection, _name, _attribute(lambda name=_name: load(name)))
_Collection.example = _attribute(_example)  # type: ignore[attr-defined]
_Collection.progress = _attribute(lambda: _marks)  # type: ignore[attr-defined]
sys.modules[__name__].__class__ = _Collection

__all__ = ["GROUPS", "LESSONS", "Puzzle", "load", "number_of"]
