"""The simulator's records of a launch: accesses, and their places in the source.

The rewriter makes an AccessPlace wherever a kernel touches an array. The engine fills
Intervals, one for each block and stretch between two barriers. The judge computes
findings and counters from them, and pictures show them.
"""

from __future__ import annotations

import ast
import types
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

# Maximum number of sites per launch. An entry of the log, element * SITES + site, is an
# unsigned 64-bit number.
SITES = 1 << 12
SHIFT = SITES.bit_length() - 1  # entry >> SHIFT is the entry's element


@dataclass(eq=False)
class Entity:
    """An array with a name in the kernel.

    number: the raw array is called .r<number>, its view .v<number>, and its sides
        .d<number>_<i>.
    origin: "parameter", "shared", "local" or "constant".
    shape: shape of a shared or local array.
    """

    number: int
    name: str
    origin: str
    ndim: int
    dtype: np.dtype
    shape: tuple[int, ...] = ()
    value: Any = None  # the array, if it is a constant

    @property
    def inline(self) -> bool:
        """Whether the array has dimensions, and elements that are numbers."""
        return self.ndim > 0 and self.dtype.fields is None

    @property
    def dynamic(self) -> bool:
        """Whether the launch determines the array's length."""
        return self.origin == "shared" and self.shape == (0,)


@dataclass(eq=False)
class AccessPlace:
    """A piece of source that touches an array.

    entity: the array; None if it is known only at run time.
    index: for each component, its value, or the name of the local that holds the value.
    """

    kind: str
    text: str
    file: str
    line: int
    column: int
    entity: Entity | None = None
    index: list[str | int] = field(default_factory=list)
    last: int = 0
    statement: int = 0  # the first line of the statement
    number: int = -1  # number of its Site, if its array is known before the launch


Position = tuple[int, int, int, int]  # first and last line, first and last column


def position_of(node: ast.AST) -> Position:
    """Return the position of a node in the form that code objects use."""
    return node.lineno, node.end_lineno, node.col_offset, node.end_col_offset


@dataclass(eq=False)
class Variant:
    """A function of the kernel, specialized for the kinds of its parameters."""

    function: types.FunctionType
    number: int
    tree: ast.FunctionDef
    file: str
    bindings: tuple[Any, ...]  # an Entity or a kind for each parameter
    static: dict[str, Entity]  # arrays by names that always refer to them
    kinds: Any = None
    yields: bool = False
    uses: list[str] = field(default_factory=list)  # the engine's names, and free names
    maker: types.CodeType | None = None  # makes the function, given the names in `uses`
    code: types.CodeType | None = None  # the function's code
    places: dict[Position, AccessPlace] = field(default_factory=dict)


GLOBAL, SHARED, LOCAL = "global", "shared", "local"
READ, WRITE, ATOMIC, STEP = "read", "write", "atomic", "step"
FENCE = "fence"


@dataclass(frozen=True)
class TracedArray:
    """An array that a kernel touches, under its name in the kernel.

    space: GLOBAL, SHARED or LOCAL.
    shape: shape in elements, row-major.
    written: whether the elements have values at the start (arguments do; shared and
        local arrays do not).
    memory, offset: arrays that overlap have the number of their memory (0, 1, ...), and
        the byte offset at which they begin in it. -1: the array overlaps no other.
    """

    name: str
    space: str
    shape: tuple[int, ...]
    dtype: np.dtype
    written: bool
    memory: int = -1
    offset: int = 0

    @property
    def size(self) -> int:
        """The number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))


@dataclass(frozen=True)
class Site:
    """A place in the source that touches an array, one or many times.

    kind: READ, WRITE or ATOMIC. STEP is an entry into a straight piece of code, and is
        recorded to count active lanes. FENCE is a threadfence or threadfence_system.
        Neither touches an array.
    array: number among the launch's arrays; -1 for STEP and FENCE.
    text: the access as written, such as "x[i + 1]".
    file, line, column: the place (lines from 1, columns from 0).
    last: last line of a STEP.
    statement: the line in which the statement begins; 0 if unknown.
    """

    kind: str
    array: int
    text: str
    file: str
    line: int
    column: int
    last: int = 0
    statement: int = 0


@dataclass
class Interval:
    """The accesses of one block between two barriers, in the order they happened.

    There are n rows, grouped by thread in the order in which threads ran, and within a
    thread in program order.

    thread: (n) int32, linear in the block.
    site: (n) int32.
    element: (n) int64, row-major in the site's array; -1 if the site has none.
    phase: (n) int32, how often the thread had met its warp at a syncwarp, shuffle or
        vote in this interval; None if no thread has.
    values: the stored value of each WRITE, in the order of those rows.
    block: linear number of the block.
    number: number of barriers that the block had passed before.
    barrier: number of the place of the barrier at the end; -1 at the block's end.
    left: for each interval of the block, in order, its `barrier`.
    """

    block: int
    number: int
    thread: np.ndarray
    site: np.ndarray
    element: np.ndarray
    phase: np.ndarray | None = None
    values: list[Any] = field(default_factory=list)
    barrier: int = -1
    left: Sequence[int] = ()


@dataclass
class Trace:
    """A complete record of a launch, kept for pictures.

    grid, block: shapes as (x, y, z).
    names: for each thread as (block, thread), the final values of its integer locals
        and parameters.
    passing: names that a thread may bind more than once, as in a loop; their earlier
        values are lost.
    """

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    arrays: list[TracedArray]
    sites: list[Site]
    intervals: list[Interval] = field(default_factory=list)
    names: dict[tuple[int, int], dict[str, int]] = field(default_factory=dict)
    passing: set[str] = field(default_factory=set)
