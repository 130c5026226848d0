"""The records of a launch: accesses, the addresses of arrays, and columns of both.

The rewriter makes an AccessPlace wherever a kernel touches an array. The engine records
the accesses of a block between two barriers as an Interval. The judge computes findings
and counters from Intervals, and pictures show them.

Each granule of memory has an address. A granule is an element, or a byte if elements of
several sizes share the memory. A local array has separate addresses for each thread. A
shared array has the same addresses in each block.
"""

from __future__ import annotations

import ast
import types
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

# ---- records of a launch ----------------------------------------------------------

# Maximum number of sites per launch. An entry of the log, element * SITES + site, is an
# unsigned 64-bit number.
SITES = 1 << 12
SHIFT = SITES.bit_length() - 1  # entry >> SHIFT is the entry's element


@dataclass(eq=False)
class Entity:
    """An array with a name in the kernel.

    number: part of the new code's names. The raw array is .r<number>, its view is
        .v<number>, and its sides are .d<number>_<i>.
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
        """Whether the array has dimensions, and its elements are numbers."""
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
    static: dict[str, Entity]  # arrays, by names that never refer to anything else
    kinds: Any = None
    yields: bool = False
    uses: list[str] = field(default_factory=list)  # names of the engine, nonlocal names
    maker: types.CodeType | None = None  # makes the function from values of `uses`
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
    written: whether the elements have values at the start. Those of arguments do; those
        of shared and local arrays do not.
    memory: number of the memory that the array shares with others; -1 if it overlaps no
        other array.
    offset: byte offset at which the array begins in this memory.
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
    """A place in the source that touches an array.

    kind: READ, WRITE, ATOMIC, STEP or FENCE. A STEP is an entry into a straight piece
        of code, recorded to count active lanes. A FENCE is a threadfence or
        threadfence_system. Neither touches an array.
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
    """The accesses of one block between two barriers.

    The n rows are grouped by thread, in the order in which the threads ran. The rows of
    a thread are in program order.

    thread: (n) int32, linear in the block.
    site: (n) int32.
    element: (n) int64, row-major in the site's array; -1 if the site has none.
    phase: (n) int32, number of earlier meetings of the thread with its warp in this
        interval, at a syncwarp, shuffle or vote. None if there were no meetings.
    values: the stored value of each WRITE, in the order of those rows.
    block: linear number of the block.
    number: number of barriers that the block had passed before this interval.
    barrier: number of the place of the barrier that ends the interval; -1 if the block
        ended.
    left: the `barrier` of each of the block's intervals, in order.
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
    names: the final values of each thread's integer locals and parameters, by (block,
        thread).
    passing: names that a thread may bind more than once, as in a loop. Only their last
        values are in `names`.
    """

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    arrays: list[TracedArray]
    sites: list[Site]
    intervals: list[Interval] = field(default_factory=list)
    names: dict[tuple[int, int], dict[str, int]] = field(default_factory=dict)
    passing: set[str] = field(default_factory=set)


# ---- columns ----------------------------------------------------------------------

CODES = {READ: 0, WRITE: 1, ATOMIC: 2, STEP: 3, FENCE: 4}
_CHANGES = CODES[WRITE], CODES[ATOMIC]
SPACES = {GLOBAL: 0, SHARED: 1, LOCAL: 2, "": 3}
STORED_NAN = float(np.finfo(np.float32).max)  # represents NaN, but equals itself


@dataclass
class Memory:
    """A range of granules: address of the first, bytes of each, and count."""

    start: int
    granule: int
    count: int
    space: str
    written: bool


class MemoryLayout:
    """Addresses for a launch's arrays, in columns by site.

    arrays, sites: the launch's lists. grow() includes later additions to them.

    Columns that describe the memory of each site:
    contended: threads share the memory, and some site writes to it.
    changing: blocks share the memory, and some site writes to it.
    blankable: the memory is unwritten at first.

    blank: for each address, whether it is still unwritten (in the current block).
    blanks: the first address of memory that is unwritten at first, and the number of
        addresses from there to the end.
    """

    def __init__(
        self, arrays: list[TracedArray], sites: list[Site], threads: int
    ) -> None:
        self.arrays, self.sites, self.threads = arrays, sites, threads
        self.memories: dict[tuple[str, int], Memory] = {}
        self.total = 0
        self.fresh: list[Memory] = []  # memories that are unwritten at first
        self.blank = np.zeros(0, bool)
        self.version = (-1, -1)  # lengths of `arrays` and `sites` at the last grow()
        self.grow()

    def grow(self) -> None:
        """Include new arrays and sites."""
        known = len(self.arrays), len(self.sites)
        if known == self.version:
            return
        self.version = known
        fresh = len(self.fresh)
        members: dict[tuple[str, int], list[TracedArray]] = {}
        for number, array in enumerate(self.arrays):
            members.setdefault(_space_key(number, array), []).append(array)
        for key, views in members.items():
            self._place(key, views)
        pad = np.zeros(self.total - len(self.blank), bool)
        self.blank = np.concatenate([self.blank, pad])
        for memory in self.fresh[fresh:]:
            self.blank[memory.start : memory.start + memory.count] = True
        self._fill_columns()

    def _place(self, key: tuple[str, int], views: Sequence[TracedArray]) -> None:
        if key[0] == "view":
            sizes = {view.dtype.itemsize for view in views}
            uniform = len(sizes) == 1 and not any(v.offset % min(sizes) for v in views)
            granule = sizes.pop() if uniform else 1
        else:
            granule = max(1, views[0].dtype.itemsize)
        size = max(view.offset + view.size * view.dtype.itemsize for view in views)
        count = -(-size // granule)
        copies = self.threads if views[0].space == LOCAL else 1
        old = self.memories.get(key)
        if old and old.granule == granule and old.count >= count * copies:
            return
        written = any(view.written for view in views)
        memory = Memory(self.total, granule, count * copies, views[0].space, written)
        self.memories[key] = memory
        self.total += memory.count
        # A memory whose shape changed has been written to, so none of it is blank.
        if not old and not written:
            self.fresh.append(memory)

    def _fill_columns(self) -> None:
        sites = self.sites
        views = [self.arrays[s.array] if s.array >= 0 else None for s in sites]
        owner = [
            v and self.memories[_space_key(s.array, v)] for s, v in zip(sites, views)
        ]
        self.array = np.array([s.array for s in sites], np.int64)
        self.kind = np.array([CODES[s.kind] for s in sites], np.int8)
        self.space = np.array([SPACES[v.space if v else ""] for v in views], np.int8)
        self.size = np.array([v.dtype.itemsize if v else 1 for v in views], np.int64)
        self.offset = np.array([v.offset if v else 0 for v in views], np.int64)
        self.single = np.array([bool(v) and v.dtype == np.float32 for v in views], bool)
        granule = np.array([m.granule if m else 1 for m in owner], np.int64)
        self.span = np.maximum(self.size // granule, 1)
        start = np.array([m.start if m else 0 for m in owner], np.int64)
        self.start = start + self.offset // granule
        room = [m.count // self.threads if m and m.space == LOCAL else 0 for m in owner]
        self.room = np.array(room, np.int64)
        self.blankable = np.array([bool(m) and not m.written for m in owner], bool)
        # The ids of memories to which a site writes.
        changed = {id(m) for m, k in zip(owner, self.kind) if m and k in _CHANGES}
        contended = [id(m) in changed and m.space != LOCAL for m in owner]
        self.contended = np.array(contended, bool)
        self.changing = self.contended & (self.space == SPACES[GLOBAL])
        low = min((m.start for m in self.fresh), default=0)
        self.blanks = low, max(1, self.total - low)
        self.wide = bool((self.span > 1).any())
        self.local = bool((self.space == SPACES[LOCAL]).any())
        self.fences = bool((self.kind == CODES[FENCE]).any())
        self.atomics = bool((self.kind == CODES[ATOMIC]).any())

    def forget(self) -> None:
        """Begin a new block, whose shared and local memory is blank."""
        for memory in self.fresh:
            if memory.space != GLOBAL:
                self.blank[memory.start : memory.start + memory.count] = True

    def index(self, site: int, element: int) -> tuple[int, ...]:
        """Return the index of an element of a site's array."""
        shape = self.arrays[self.sites[site].array].shape
        return tuple(map(int, np.unravel_index(element, shape))) if shape else ()


class Batch:
    """The accesses of some intervals, one after another, in columns.

    part: number of the interval in the batch.
    blocks, turn: for each interval, its block, and how often the block changed before.
    address: first granule of the access. Meaningless for a STEP or FENCE.
    """

    def __init__(self, layout: MemoryLayout, intervals: list[Interval]) -> None:
        self.layout, self.intervals = layout, intervals
        self._numbers: np.ndarray | None = None
        self.lengths = np.array([len(i.thread) for i in intervals], np.int64)
        self.starts = np.concatenate([[0], np.cumsum(self.lengths)])
        self.part = np.repeat(np.arange(len(intervals)), self.lengths)
        self.blocks = np.array([i.block for i in intervals], np.int64)
        self.turn = np.cumsum(np.diff(self.blocks, prepend=self.blocks[:1]) != 0)
        self.thread = _join_columns([i.thread for i in intervals])
        self.site = _join_columns([i.site for i in intervals])
        self.element = _join_columns([i.element for i in intervals])
        self.phase = None
        if any(i.phase is not None for i in intervals):
            phases = [
                np.zeros_like(i.thread) if i.phase is None else i.phase
                for i in intervals
            ]
            self.phase = _join_columns(phases)
        self.kind = layout.kind[self.site]
        self.address = layout.start[self.site] + self.element * layout.span[self.site]
        if layout.local:
            self.address += self.thread * layout.room[self.site]

    def rows(self, where: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows in a mask, once per granule, and the granules' addresses."""
        rows = np.flatnonzero(where)
        address = self.address[rows]
        if not self.layout.wide:
            return rows, address
        span = self.layout.span[self.site[rows]]
        first = np.cumsum(span) - span
        step = np.arange(int(span.sum())) - np.repeat(first, span)
        return np.repeat(rows, span), np.repeat(address, span) + step

    def value(self, row: int) -> object:
        """Return the value that a WRITE stored."""
        part = int(self.part[row])
        before = self.kind[self.starts[part] : row]
        return self.intervals[part].values[np.count_nonzero(before == CODES[WRITE])]

    def numbers(self, rows: np.ndarray) -> np.ndarray:
        """Return the values that WRITE rows stored, as float64.

        The values are for comparisons only. A stored NaN becomes STORED_NAN, and
        integers beyond 2^53 are rounded.
        """
        if self._numbers is None:
            stored = [_number_values(i.values) for i in self.intervals]
            self._numbers = np.concatenate(stored)
            self._rank = np.cumsum(self.kind == CODES[WRITE]) - 1
        values = self._numbers[self._rank[rows]]
        with np.errstate(over="ignore"):
            rounded = values.astype(np.float32)
        return np.where(self.layout.single[self.site[rows]], rounded, values)


def count_bits(count: int) -> int:
    """Return the number of bits that represent all numbers below `count`."""
    return max(1, int(count - 1).bit_length())


def mark_heads(keys: np.ndarray, *others: np.ndarray) -> np.ndarray:
    """Return the first row of each distinct combination of values in sorted columns."""
    new = np.empty(len(keys), bool)
    new[:1] = True
    np.not_equal(keys[1:], keys[:-1], out=new[1:])
    for column in others:
        new[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(new)


def _number_values(stored: list[Any]) -> np.ndarray:
    try:
        values = np.array(stored, np.float64)
        values[np.isnan(values)] = STORED_NAN
        return values
    except (TypeError, ValueError, OverflowError):  # complex numbers, for example
        return np.array([float(hash(value)) for value in stored], np.float64)


def _join_columns(parts: list[np.ndarray]) -> np.ndarray:
    return np.concatenate(parts).astype(np.int64, copy=False)


def _space_key(number: int, array: TracedArray) -> tuple[str, int]:
    return ("own", number) if array.memory < 0 else ("view", array.memory)
