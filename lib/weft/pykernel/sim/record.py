"""The simulator's records of a launch: accesses, and their places in the source.

The rewriter makes an AccessPlace wherever a kernel touches an array. The engine fills
Intervals, one for each block and stretch between two barriers. The judge reads them for
faults and counters, and pictures are drawn from them.
"""

from __future__ import annotations

import ast
import types
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

SITES = 1 << 12  # maximum per launch: an entry of the log is
# element * SITES + site, an unsigned number of 64 bits
SHIFT = SITES.bit_length() - 1  # an entry >> SHIFT is its element


@dataclass(eq=False)
class Entity:
    """An array that the rewriter knows by a name of the kernel.

    number: its raw array is .r<number>, its view .v<number>, its sides .d<number>_<i>.
    origin: "parameter", "shared", "local" or "constant". shape: of shared and local.
    """

    number: int
    name: str
    origin: str
    ndim: int
    dtype: np.dtype
    shape: tuple[int, ...] = ()
    value: Any = None  # for a constant

    @property
    def inline(self) -> bool:
        """True if its elements are numbers, found by one index per side."""
        return self.ndim > 0 and self.dtype.fields is None

    @property
    def dynamic(self) -> bool:
        """True if the launch determines its length."""
        return self.origin == "shared" and self.shape == (0,)


@dataclass(eq=False)
class AccessPlace:
    """A piece of source that touches an array (entity; None: known at run time).

    index: for each component, the name of the local that holds it, or its value.
    """

    kind: str
    text: str
    file: str
    line: int
    column: int
    entity: Entity | None = None
    index: list[str | int] = field(default_factory=list)
    last: int = 0
    statement: int = 0  # the line in which it begins
    number: int = -1  # of its Site, if its array is known now


Position = tuple[int, int, int, int]  # first and last line, first and last column


def position_of(node: ast.AST) -> Position:
    """Return the position of a node in the form that a code object has."""
    return node.lineno, node.end_lineno, node.col_offset, node.end_col_offset


@dataclass(eq=False)
class Variant:
    """A function of the kernel, for given kinds and arrays as its parameters."""

    function: types.FunctionType
    number: int
    tree: ast.FunctionDef
    file: str
    bindings: tuple[Any, ...]  # an Entity or a kind per parameter
    static: dict[str, Entity]  # arrays by names that always refer to them
    kinds: Any = None
    yields: bool = False
    uses: list[str] = field(default_factory=list)  # the engine's names, and free ones
    maker: types.CodeType | None = None  # makes the function from the names it uses
    code: types.CodeType | None = None  # the function's own
    places: dict[Position, AccessPlace] = field(default_factory=dict)


GLOBAL, SHARED, LOCAL = "global", "shared", "local"
READ, WRITE, ATOMIC, STEP = "read", "write", "atomic", "step"
FENCE = "fence"


@dataclass(frozen=True)
class TracedArray:
    """An array that a kernel touches, under its name in the kernel.

    space: GLOBAL, SHARED or LOCAL. shape: of elements, row-major. written: whether its
    elements have values at the start (arguments do; shared and local do not). memory,
    offset: arrays that are views of one memory have its number (0, 1, ...) and begin
    that many bytes into it; -1: a memory of its own.
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
        """Number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))


@dataclass(frozen=True)
class Site:
    """A place in the source that touches an array, as often as it runs.

    kind: READ, WRITE or ATOMIC. STEP is the entry of a straight piece of code, recorded
    where active lanes are counted, and FENCE a threadfence or threadfence_system; both
    touch no array (array is -1). array: its number among the launch's arrays. text: as
    written, "x[i + 1]". file, line, column: the place (lines from 1, columns from 0).
    last: a STEP's last line. statement: the line in which its statement begins; 0:
    unknown.
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

    Rows are grouped by thread in the order in which threads ran, and within a thread in
    program order. n rows of: thread (int32, linear in the block), site (int32), element
    (int64, row-major in the site's array; -1 if it has none), phase (int32: how often
    the thread had met its warp at a syncwarp, shuffle or vote in this interval; None if
    no thread has). values: what each WRITE stored, in the order of those rows; None if
    not recorded. block: linear number. number: 0 before the first barrier, then 1, ...
    barrier: the number of the place of the barrier at its end; -1: the block's end.
    left: the barriers of all the block's intervals, in their order.
    """

    block: int
    number: int
    thread: np.ndarray
    site: np.ndarray
    element: np.ndarray
    phase: np.ndarray | None = None
    values: list[Any] | None = None
    barrier: int = -1
    left: Sequence[int] = ()


@dataclass
class Trace:
    """A complete record of a launch, kept for pictures.

    grid, block: (x, y, z). names: for each thread as (block, thread), the final values
    of its integer locals and parameters. passing: those names that a thread may bind
    more than once, as in a loop, so that they had other values before.
    """

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    arrays: list[TracedArray]
    sites: list[Site]
    intervals: list[Interval] = field(default_factory=list)
    names: dict[tuple[int, int], dict[str, int]] = field(default_factory=dict)
    passing: set[str] = field(default_factory=set)
