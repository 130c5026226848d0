"""Puzzles: learn by solving, in Python, Numba or CUDA C.

    from weft import puzzles
    puzzles                          a table of solved puzzles, by lesson
    puzzles.next()                   the first unsolved puzzle
    puzzles.guards                   a puzzle and its task; also puzzles["guards"]
    puzzles.guards.goal()            a picture of the goal
    puzzles.guards.check(kernel)     the verdict, the place of a mistake, the score
    puzzles.guards.show(kernel)      a picture of what the kernel does
    puzzles.guards.reset()           the original stub

A group of puzzles is a module. GROUPS orders the groups so that each requires only the
knowledge from earlier ones. This module acts as a collection: it iterates over its
puzzles, and each is one of its attributes.

    puzzle, answers       the definition of a puzzle, and the answers that it accepts
    catalogue             the list of puzzles, and their stubs
    notebooks             a group as cells of a notebook; lessons and their minutes
    instance, goal        the sizes of cases, the drawn case, and its picture
    answered              the picture of an answer and of its results
    answer_cost, counts   the cost of an answer against the best known; limits
    progress, table       the record of solved puzzles, and its display by lesson
    threads, grids, tiles, counting, sums, memory,        the puzzles
    execution, bandwidth, rows, scan, sort
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
    """Load the example puzzle, which is in no group and shows how puzzles work."""
    return importlib.import_module(".threads", __name__).EXAMPLE


class _Collection(ModuleType):
    """The type of this module, which behaves as a collection of puzzles."""

    @property
    def groups(self) -> dict[str, tuple[Puzzle, ...]]:
        """The puzzles of each group, in order."""
        return {g: tuple(map(load, names)) for g, names in GROUPS.items()}

    def next(self) -> Puzzle | None:
        """Return the first unsolved puzzle, or print a message and return None."""
        name = read_progress().next
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
        # Python and notebooks look up such names, but readers do not.
        if name.startswith("_"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        raise AttributeError(describe_unknown(name))

    def __contains__(self, name: object) -> bool:
        return name in GROUP_OF

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *GROUP_OF]

    def __repr__(self) -> str:
        return str(read_progress())

    def _repr_html_(self) -> str:
        return read_progress()._repr_html_()


def _attribute(value: Any) -> property:
    """Return a property that survives the import of a module with the same name.

    Importing a submodule would otherwise replace the attribute with the module.
    """
    return property(lambda self: value(), lambda self, module: None)


for _name in GROUP_OF:
    setattr(_Collection, _name, _attribute(lambda name=_name: load(name)))
_Collection.example = _attribute(_example)  # type: ignore[attr-defined]
_Collection.progress = _attribute(lambda: read_progress)  # type: ignore[attr-defined]
sys.modules[__name__].__class__ = _Collection

__all__ = ["GROUPS", "LESSONS", "Puzzle", "load", "number_of"]
