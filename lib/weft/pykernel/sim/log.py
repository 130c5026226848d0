"""The log of a launch: entries of running threads, decoded into Intervals.

An entry is element * SITES + site. Threads run one at a time, and the log records the
start of each turn separately. Many intervals are decoded together, since NumPy takes
the same few microseconds for ten entries as for ten thousand.

Blocks often do the same work on other elements. Repeats therefore recognises an
interval that is like an earlier one, before it is decoded. Two intervals are alike if
two conditions hold. Their threads touch the same shared elements in the same order. In
each global array, all elements are shifted by the same number of whole sectors. Such
intervals have the same races and costs. The second interval of a kind is examined
alone. If it has no race, it and all later intervals of its kind are reduced to the rows
of a Rest.
"""

from __future__ import annotations

import bisect
import itertools
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import plain_loops
from .counters import SECTOR, SiteSums
from .layout import (
    CODES,
    FENCE,
    GLOBAL,
    READ,
    SHIFT,
    SITES,
    STEP,
    WRITE,
    AccessPlace,
    Batch,
    Interval,
    MemoryLayout,
    Site,
)
from .plain_loops import HEADER
from .races import in_block

MANY = 1 << 15  # minimum number of entries in a full log
# The layout of a strided array: its shape, the step of each index in elements, and the
# place of the first element.
Spread = tuple[tuple[int, ...], tuple[int, ...], int]
PIECE = 512  # minimum number of accesses for a search for a similar piece
KEPT = 1 << 18  # maximum number of accesses kept when an interval is truncated


@dataclass
class _End:
    """The end of an interval, as the numbers of entries, turns and values before it."""

    block: int
    number: int
    entries: int
    turns: int
    values: int
    warps: bool
    barrier: int


@dataclass
class _Columns:
    """The contents of a log: its entries, its turns, and the stored values."""

    packed: np.ndarray
    starts: np.ndarray
    threads: np.ndarray
    phases: np.ndarray
    values: list[Any]


class Piece:
    """A logged interval that has not been decoded."""

    def __init__(self, columns: _Columns, before: _End, end: _End) -> None:
        self.columns, self.end = columns, end
        self.first, self.turn = before.entries, before.turns
        self._value = before.values
        self.size = end.entries - before.entries

    @property
    def packed(self) -> np.ndarray:
        """The entries of the interval."""
        return self.columns.packed[self.first : self.end.entries]

    @property
    def starts(self) -> np.ndarray:
        """The index of the entry at which each turn starts."""
        return self.columns.starts[self.turn : self.end.turns] - self.first

    @property
    def threads(self) -> np.ndarray:
        """The thread of each turn."""
        return self.columns.threads[self.turn : self.end.turns]

    @property
    def values(self) -> list[Any]:
        """The values that the interval's writes stored."""
        return self.columns.values[self._value : self.end.values]


# A Find receives a piece, and a function that decodes pieces. It returns a
# replacement for the interval, or None.
Find = Callable[[Piece, Callable[[list[Piece]], list[Interval]]], Interval | None]


class Log:
    """The log's entries since it was last emptied.

    sites: list shared with the judge. It may grow while a launch runs.
    spread: layouts, by array number, of the arrays whose elements are numbered by
        their place in memory.
    """

    def __init__(self, sites: list[Site], spread: dict[int, Spread]) -> None:
        self.sites, self.spread = sites, spread
        self.entries = array("Q")
        self.values: list[Any] = []
        self.starts = array("q")  # index of the entry at which each turn starts
        self.threads = array("i")  # thread of each turn
        # For each turn, the number of earlier meetings of the thread with its warp.
        self.phases = array("i")
        self.ends: list[_End] = []
        self.shapes: list[plain_loops.LoopShape] = []
        self._of_place: dict[tuple[AccessPlace, int], int] = {}

    def site(self, place: AccessPlace, number: int) -> int:
        """Return the number of the Site for a place that touches array `number`."""
        key = (place, number)
        site_number = self._of_place.get(key)
        if site_number is None:
            site_number = self._of_place[key] = len(self.sites)
            if site_number >= HEADER:
                raise OverflowError(f"more than {HEADER} places touch arrays")
            self.sites.append(site_of(place, number))
        return site_number

    def end(
        self, block: int, number: int, warps: bool = False, barrier: int = -1
    ) -> None:
        """End an interval of a block, at the barrier whose place has number `barrier`.

        warps: whether phases were recorded in the interval.
        """
        counts = len(self.entries), len(self.starts), len(self.values)
        self.ends.append(_End(block, number, *counts, warps, barrier))

    def end_early(self, block: int, refused: bool) -> None:
        """End the launch in the middle of an interval.

        refused: whether the access of the last entry did not happen.
        """
        if refused and self.entries:
            last = self.sites[self.entries.pop() & (SITES - 1)]
            if last.kind == WRITE:
                self.values.pop()
        self._complete()
        number = 0
        if self.ends and self.ends[-1].block == block:
            number = self.ends[-1].number + 1
        self.end(block, number, bool(self.phases))

    def _complete(self) -> None:
        """Drop incomplete entries, since a time limit may stop a launch anywhere.

        If the last interval is very long, keep only its beginning.
        """
        turns = min(len(self.starts), len(self.threads))
        if self.phases:
            turns = min(turns, len(self.phases))
        for column in (self.starts, self.threads, self.phases):
            del column[turns:]
        first, base = 0, 0
        if self.ends:
            first, base = self.ends[-1].entries, self.ends[-1].values
        values = len(self.values) - base
        writes = np.zeros(SITES, bool)
        writes[: len(self.sites)] = [s.kind == WRITE for s in self.sites]
        packed = np.array(self.entries[first:], np.uint64).view(np.int64)
        if self.shapes:
            rows = np.cumsum(plain_loops.Table(self.shapes).lengths(packed, cut=True))
            packed = packed[: np.searchsorted(rows, KEPT)]
        packed = packed[:KEPT]  # keep only the beginning of an endless loop
        loop = np.flatnonzero(packed & (SITES - 1) == HEADER)[-1:]
        if len(loop):
            shape = self.shapes[int(packed[loop[0]]) // SITES]
            if loop[0] + len(shape.steps) >= len(packed):
                packed = packed[: loop[0]]
        ranks = np.cumsum(writes[packed & (SITES - 1)])
        packed = packed[: np.searchsorted(ranks, values, side="right")]
        del self.entries[first + len(packed) :]
        del self.values[base + (int(ranks[len(packed) - 1]) if len(packed) else 0) :]
        turns = bisect.bisect_right(self.starts, len(self.entries))
        for column in (self.starts, self.threads, self.phases):
            del column[turns:]

    def full(self) -> bool:
        """Return whether the log is large enough to be emptied."""
        return len(self.entries) > MANY or len(self.ends) > MANY // 8

    def take(self, known: Find | None = None) -> Iterator[Interval]:
        """Yield the intervals that have ended, and remove them from the log.

        known: function that is called for each large piece. For a piece that is like an
            earlier one, it returns a replacement. The piece is then not decoded.
        """
        columns = _Columns(
            np.array(self.entries, np.uint64).view(np.int64),
            np.array(self.starts, np.int64),
            np.array(self.threads, np.int32),
            np.array(self.phases, np.int32),
            list(self.values),
        )
        ends = list(self.ends)
        del self.entries[:], self.starts[:], self.threads[:], self.phases[:]
        self.values.clear()
        self.ends.clear()
        rows: Any = range(len(columns.packed) + 1)
        if self.shapes:
            table = plain_loops.Table(self.shapes)
            rows = np.cumsum(np.append(0, table.lengths(columns.packed)))
        waiting: list[Piece] = []
        size_waiting = 0
        before = _End(0, 0, 0, 0, 0, False, -1)
        for end in ends:
            piece = Piece(columns, before, end)
            size = int(rows[end.entries] - rows[before.entries])
            before = end
            replacement = None
            if known and not end.warps and size >= PIECE and not self.spread:
                replacement = known(piece, self.decoded)
            if replacement is None:
                waiting.append(piece)
                size_waiting += size
            if waiting and (replacement or size_waiting > MANY):
                yield from self.decoded(waiting)
                waiting, size_waiting = [], 0
            if replacement:
                yield replacement
        if waiting:
            yield from self.decoded(waiting)

    def decoded(self, pieces: list[Piece]) -> list[Interval]:
        """Decode consecutive pieces into Intervals."""
        columns, first, last = pieces[0].columns, pieces[0], pieces[-1]
        packed = columns.packed[first.first : last.end.entries]
        turns = slice(first.turn, last.end.turns)
        threads = columns.threads[turns]
        begins = columns.starts[turns] - first.first
        lengths = np.diff(begins, append=len(packed))
        source = np.repeat(np.arange(len(threads), dtype=np.int32), lengths)
        bounds = np.array([p.end.entries - first.first for p in pieces])
        if self.shapes:
            rows, packed = plain_loops.Table(self.shapes).unrolled(packed)
            source, bounds = source[rows], np.searchsorted(rows, bounds)
        site = (packed & (SITES - 1)).astype(np.int32)
        element = packed >> SHIFT
        silent = np.array([s.kind in (STEP, FENCE) for s in self.sites] or [False])
        if silent.any():
            element[silent[site]] = -1
        for number, spread in self.spread.items():
            is_own = np.array([s.array == number for s in self.sites])[site]
            element[is_own] = _place_elements(element[is_own], spread)
        thread = threads[source]
        phase = columns.phases[turns][source] if len(columns.phases) else None
        intervals, a = [], 0
        for piece, b in zip(pieces, bounds.tolist()):
            end = piece.end
            one = Interval(
                *(end.block, end.number, thread[a:b], site[a:b], element[a:b]),
                phase[a:b] if phase is not None and end.warps else None,
                piece.values,
                end.barrier,
            )
            if end.warps:
                self._sort_by_thread(one, piece.threads)
            intervals.append(one)
            a = b
        return intervals

    def _sort_by_thread(self, interval: Interval, turns: np.ndarray) -> None:
        """Sort the rows by thread if threads took several turns each."""
        order_of, first = np.unique(turns, return_index=True)
        if len(first) == len(turns):
            return
        rank = np.zeros(int(turns.max()) + 1, np.int64)
        rank[turns[np.sort(first)]] = np.arange(len(order_of))
        order = np.argsort(rank[interval.thread], kind="stable")
        writes = np.array([s.kind == WRITE for s in self.sites], bool)[interval.site]
        place, values = np.cumsum(writes) - 1, interval.values
        interval.values = [values[i] for i in place[order[writes[order]]].tolist()]
        interval.thread, interval.site = interval.thread[order], interval.site[order]
        interval.element = interval.element[order]
        if interval.phase is not None:
            interval.phase = interval.phase[order]


def _place_elements(element: np.ndarray, spread: Spread) -> np.ndarray:
    """Convert a strided array's row-major element numbers to places in memory."""
    shape, steps, first = spread
    places = np.full(element.shape, first, np.int64)
    for index, step in zip(np.unravel_index(element, shape), steps):
        places += index * step
    return places


def site_of(place: AccessPlace, number: int) -> Site:
    """Return the Site of a place that touches array `number`."""
    start = place.file, place.line, place.column
    return Site(place.kind, number, place.text, *start, place.last, place.statement)


KINDS = 64  # maximum number of kinds kept per launch
ALIKE = 8  # maximum number of kinds kept per key in Repeats.kinds
LARGE = 1 << 16  # maximum number of entries in a piece that is kept


@dataclass
class Rest(Interval):
    """The rows of an interval that must still be examined."""


class Kind:
    """A piece with which later pieces are compared.

    begins: for each array whose accesses may shift, the first entry that touches it.
    whose: for each entry, 1 + the index of its array in `begins`; 0 for other arrays.
    sizes: element sizes of the arrays in `begins`, in bytes.
    """

    def __init__(self, piece: Piece, layout: MemoryLayout) -> None:
        self.packed, self.starts = piece.packed.copy(), piece.starts
        self.threads = piece.threads.copy()
        site = self.packed & (SITES - 1)
        array = np.full(len(site), -1)
        inside = site != HEADER
        array[inside] = layout.array[site[inside]]
        arrays = layout.arrays
        touched = [number for number in np.unique(array).tolist() if number >= 0]
        moves = [
            n for n in touched if arrays[n].space == GLOBAL and arrays[n].memory < 0
        ]
        slot = np.zeros(len(arrays) + 1, np.int64)  # array -1 selects the last slot
        slot[moves] = np.arange(len(moves)) + 1
        self.array_slot, self.whose = slot, slot[array]
        self.begins = np.array([int(np.argmax(array == n)) for n in moves], np.int64)
        self.sizes = np.array([arrays[n].dtype.itemsize for n in moves], np.int64)
        self.times = 0
        # Whether the kind has no races; None until an interval has been examined.
        self.clean: bool | None = None
        self.sums: dict[str, np.ndarray] = {}

    def find_shift(self, piece: Piece) -> np.ndarray | None:
        """Return each array's shift in elements; None for a piece of another kind."""
        packed = piece.packed
        shift = np.zeros(len(self.begins) + 1, np.int64)
        shift[1:] = packed[self.begins] - self.packed[self.begins]
        elements = shift >> SHIFT
        if (shift % SITES).any() or ((elements[1:] * self.sizes) % SECTOR).any():
            return None
        if not np.array_equal(packed - shift[self.whose], self.packed):
            return None
        same = np.array_equal(piece.starts, self.starts)
        same = same and np.array_equal(piece.threads, self.threads)
        return elements if same else None

    def learn(
        self, layout: MemoryLayout, interval: Interval, shift: np.ndarray
    ) -> None:
        """Examine an interval of this kind, shifted by `shift` from the first one."""
        batch = Batch(layout, [interval])
        self.clean = next(in_block(batch), None) is None
        if not self.clean:
            return
        sums = SiteSums(layout)
        sums.add(batch)
        self.sums = sums.sums
        rows = [_first_rows(*batch.rows(layout.blankable[batch.site]))]
        is_change = batch.kind != CODES[READ]
        rows.append(_first_rows(*batch.rows(layout.blankable[batch.site] & is_change)))
        rows.append(np.flatnonzero(layout.changing[batch.site]))
        chosen = np.unique(np.concatenate(rows))
        self.thread, self.site = interval.thread[chosen], interval.site[chosen]
        self.slot = self.array_slot[layout.array[self.site]]
        self.element = interval.element[chosen] - shift[self.slot]
        rank = np.cumsum(batch.kind == CODES[WRITE]) - 1
        self.writes = rank[chosen[batch.kind[chosen] == CODES[WRITE]]].tolist()

    def rest(self, piece: Piece, shift: np.ndarray) -> Rest:
        """Return the rows to examine in a piece of this kind."""
        self.times += 1
        values = piece.values
        return Rest(
            *(piece.end.block, piece.end.number, self.thread, self.site),
            *(self.element + shift[self.slot], None),
            [values[i] for i in self.writes],
            piece.end.barrier,
        )


class Repeats:
    """The kinds of pieces that have occurred in a launch."""

    def __init__(self, layout: MemoryLayout) -> None:
        self.layout = layout
        self.kinds: dict[tuple[int, ...], list[Kind]] = {}
        self.count = 0
        # Kinds with which no piece is compared any more, but whose costs still count.
        self.past: list[Kind] = []
        self._layout = layout.version

    def find(
        self, piece: Piece, decoded: Callable[[list[Piece]], list[Interval]]
    ) -> Rest | None:
        """Return the rows to examine in a piece; None if all must be decoded."""
        layout = self.layout
        layout.grow()
        if layout.version != self._layout:
            self.forget()
        if layout.fences or piece.size > LARGE:
            return None
        packed, threads = piece.packed, piece.threads
        ends = int(packed[0]) % SITES, int(packed[-1]) % SITES
        key = (piece.size, len(threads), int(threads[0]), int(threads[-1]), *ends)
        alike = self.kinds.setdefault(key, [])
        for kind in alike:
            shift = kind.find_shift(piece)
            if shift is None:
                continue
            if kind.clean is None:
                kind.learn(layout, decoded([piece])[0], shift)
            return kind.rest(piece, shift) if kind.clean else None
        if len(alike) < ALIKE and self.count < KINDS:
            alike.append(Kind(piece, layout))
            self.count += 1
        return None

    def forget(self) -> None:
        """Set the current kinds aside, since they lack new sites and arrays."""
        self.past += itertools.chain(*self.kinds.values())
        self.kinds, self.count, self._layout = {}, 0, self.layout.version

    def add_to(self, sums: SiteSums) -> None:
        """Add the costs of all pieces that were recognised."""
        self.forget()
        for kind in self.past:
            if kind.times:
                sums.more(kind.sums, kind.times)
        self.past = []


def _first_rows(rows: np.ndarray, address: np.ndarray) -> np.ndarray:
    """Return the first row for each address."""
    return rows[np.unique(address, return_index=True)[1]]
