"""The addresses of a launch's arrays, and the accesses of intervals as columns.

Each distinguishable granule of memory has an address. A granule is an element, or a
byte if elements of several sizes share the memory. A local array has separate addresses
for each thread; a shared array has the same addresses in each block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .record import (
    ATOMIC,
    FENCE,
    GLOBAL,
    LOCAL,
    READ,
    SHARED,
    STEP,
    WRITE,
    Interval,
    Site,
    TracedArray,
)

CODES = {READ: 0, WRITE: 1, ATOMIC: 2, STEP: 3, FENCE: 4}
_CHANGES = CODES[WRITE], CODES[ATOMIC]
SPACES = {GLOBAL: 0, SHARED: 1, LOCAL: 2, "": 3}
STORED_NAN = float(np.finfo(np.float32).max)  # unlike NaN, it is equal to itself


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

    arrays, sites: the launch's lists; grow() includes additions to them.

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
        self.fresh: list[Memory] = []  # memories that are unwritten at the start
        self.blank = np.zeros(0, bool)
        self.version = (-1, -1)  # the numbers of arrays and sites at the last grow()
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
    address: the first granule of the access (meaningless if it touches no array).
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
        """Return a mask's rows, repeated per granule, and the granules' addresses."""
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

        The values are for comparisons only: a stored NaN becomes STORED_NAN, and
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
    """Return the number of bits that numbers below `count` need."""
    return max(1, int(count - 1).bit_length())


def mark_heads(keys: np.ndarray, *others: np.ndarray) -> np.ndarray:
    """Return the first row of each distinct value in sorted columns."""
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
    except (TypeError, ValueError, OverflowError):  # such as complex numbers
        return np.array([float(hash(value)) for value in stored], np.float64)


def _join_columns(parts: list[np.ndarray]) -> np.ndarray:
    return np.concatenate(parts).astype(np.int64, copy=False)


def _space_key(number: int, array: TracedArray) -> tuple[str, int]:
    return ("own", number) if array.memory < 0 else ("view", array.memory)
