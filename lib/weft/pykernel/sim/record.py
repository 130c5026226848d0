"""What the simulator records of a launch: accesses, and their places in the source.

Where in its source a kernel touches which array.

The engine fills Intervals, one for each block and stretch between two barriers; the
judge reads them for faults and counters, pictures are drawn from them.
"""

from __future__ import annotations

import ast
import types
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

SITES = 1 << 12  # at most so many in a launch: an entry of the log is
# element * SITES + site, an unsigned number of 64 bits
SHIFT = SITES.bit_length() - 1  # an entry >> SHIFT is its element


@dataclass(eq=False)
class Entity:
    """An array that the rewriter knows by a name of the kernel.

    number: its raw array is .r<number>, its View .v<number>, its sides .d<number>_<i>.
    origin: "parameter", "shared", "local" or "constant". shape: of shared and local.
    """

    number: int
    name: str
    origin: str
    ndim: int
    dtype: np.dtype
    shape: tuple[int, ...] = ()
    value: Any = None  # of a constant

    @property
    def inline(self) -> bool:
        """Whether its elements are numbers, found by one index per side."""
        return self.ndim > 0 and self.dtype.fields is None

    @property
    def dynamic(self) -> bool:
        """Whether it is as long as the launch says."""
        return self.origin == "shared" and self.shape == (0,)


@dataclass(eq=False)
class AccessPlace:
    """A piece of source that touches an array (entity; None: known when it runs).

    index: for each component the name of the local that holds it, or its value.
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


Position = tuple[int, int, int, int]  # line, its last, column, its last


def position_of(node: ast.AST) -> Position:
    """Where a node stands, as a code object says it."""
    return node.lineno, node.end_lineno, node.col_offset, node.end_col_offset


@dataclass(eq=False)
class Variant:
    """A function of the kernel, for given kinds and arrays as its parameters."""

    function: types.FunctionType
    number: int
    tree: ast.FunctionDef
    file: str
    bindings: tuple[Any, ...]  # per parameter an Entity or a kind
    static: dict[str, Entity]  # arrays by the names they always have here
    kinds: Any = None
    yields: bool = False
    uses: list[str] = field(default_factory=list)  # engine's names, and free ones
    maker: types.CodeType | None = None  # makes the function of what it uses
    code: types.CodeType | None = None  # its own
    places: dict[Position, AccessPlace] = field(default_factory=dict)


GLOBAL, SHARED, LOCAL = "global", "shared", "local"
READ, WRITE, ATOMIC, STEP = "read", "write", "atomic", "step"
FENCE = "fence"


@dataclass(frozen=True)
class TracedArray:
    """An array that a kernel touches, under its name in the kernel.

    space: GLOBAL, SHARED or LOCAL. shape: of elements, row-major. written: whether
    its elements hold values at the start (arguments do; shared and local do not).
    memory, offset: arrays that are views of one memory have its number (0, 1, ...)
    and begin that many bytes into it; -1: a memory of its own.
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
        """How many elements."""
        return int(np.prod(self.shape, dtype=np.int64))


@dataclass(frozen=True)
class Site:
    """A place in the source that touches an array, as often as it is reached.

    kind: READ, WRITE, ATOMIC; or STEP, the entry of a straight piece of code, which
    touches none (array is -1) and is recorded where active lanes are counted; or
    FENCE, a threadfence or threadfence_system (array is -1).
    array: its number among the launch's arrays. text: as written, "x[i + 1]".
    file, line, column: where (lines from 1, columns from 0). last: a STEP's last line.
    statement: the line in which its statement begins; 0: unknown.
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

    Rows lie thread by thread in the order in which threads ran, and within a thread in
    program order. n rows of: thread (int32, linear in the block), site (int32),
    element (int64, row-major in the site's array; -1 if it has none), phase (int32: how
    often the thread had met its warp at a syncwarp, shuffle or vote in this interval;
    None if no thread has).
    values: what each WRITE stored, in the order of those rows; None if not recorded.
    block: linear number; number: 0 before the first barrier, then 1, ...
    barrier: at which it ends, the number of its Place; -1: at the block's end.
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
    """All that a launch did, kept where a picture is wanted.

    grid, block: (x, y, z). names: for each thread as (block, thread) the values of
    its whole-number locals and parameters when it ended. passing: of these, the names
    that a thread may bind more than once, as in a loop: earlier they had other values.
    """

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    arrays: list[TracedArray]
    sites: list[Site]
    intervals: list[Interval] = field(default_factory=list)
    names: dict[tuple[int, int], dict[str, int]] = field(default_factory=dict)
    passing: set[str] = field(default_factory=set)
