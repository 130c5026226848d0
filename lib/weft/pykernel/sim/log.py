"""The log of a launch: what running threads append, and Intervals made of it.

An entry is element * SITES + site. Threads run one at a time; where each one's turn
begins is kept beside. Entries become columns many intervals at a time, since NumPy asks
the same few microseconds for ten as for ten thousand.
"""

from __future__ import annotations

import bisect
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import loops
from .places import SHIFT, SITES, Place
from .record import FENCE, STEP, WRITE, Interval, Site

MANY = 1 << 15  # entries that are worth a look
# Of a strided array: its shape, by how many elements of memory each index moves, and
# where its first one lies.
Spread = tuple[tuple[int, ...], tuple[int, ...], int]
PIECE = 512  # accesses of a piece for which it pays to look for one like it
KEPT = 1 << 18  # accesses of an interval in which a launch is cut off


@dataclass
class _End:
    """Where an interval ends: counts of entries, turns and values before it."""

    block: int
    number: int
    entries: int
    turns: int
    values: int
    warps: bool
    barrier: int


@dataclass
class _Columns:
    """What a log held: its entries, its turns, and the values stored."""

    packed: np.ndarray
    starts: np.ndarray
    threads: np.ndarray
    phases: np.ndarray
    values: list[Any]


class Piece:
    """An interval as it was written down."""

    def __init__(self, columns: _Columns, before: _End, end: _End) -> None:
        self.columns, self.end = columns, end
        self.first, self.turn, self._value = (
            before.entries,
            before.turns,
            before.values,
        )
        self.size = end.entries - before.entries

    @property
    def packed(self) -> np.ndarray:
        """Its entries."""
        return self.columns.packed[self.first : self.end.entries]

    @property
    def starts(self) -> np.ndarray:
        """Where in them each turn begins."""
        return self.columns.starts[self.turn : self.end.turns] - self.first

    @property
    def threads(self) -> np.ndarray:
        """Whose turn each was."""
        return self.columns.threads[self.turn : self.end.turns]

    @property
    def values(self) -> list[Any]:
        """What its writes stored."""
        return self.columns.values[self._value : self.end.values]


# (piece, what decodes pieces) -> what stands for its interval, or None.
Find = Callable[[Piece, Callable[[list[Piece]], list[Interval]]], Interval | None]


class Log:
    """What threads did since it was last taken.

    sites: shared with the judge; they may grow while a launch runs. spread: arrays
    (by number) whose elements are numbered by where they lie.
    """

    def __init__(self, sites: list[Site], spread: dict[int, Spread]) -> None:
        self.sites, self.spread = sites, spread
        self.entries = array("Q")
        self.values: list[Any] = []
        self.starts = array("q")  # where a turn's entries begin
        self.threads = array("i")  # whose turn it is
        self.phases = array("i")  # how often it had met its warp; with the above
        self.ends: list[_End] = []
        self.shapes: list[loops.Shape] = []
        self._of_place: dict[tuple[Place, int], int] = {}

    def site(self, place: Place, number: int) -> int:
        """The number of the Site of a place that touches array `number`."""
        key = (place, number)
        found = self._of_place.get(key)
        if found is None:
            found = self._of_place[key] = len(self.sites)
            if found >= loops.HEADER:
                raise OverflowError(f"more than {loops.HEADER} places touch arrays")
            self.sites.append(site_of(place, number))
        return found

    def end(
        self, block: int, number: int, warps: bool = False, barrier: int = -1
    ) -> None:
        """An interval of a block ends here, at the barrier of that Place.

        warps: phases were noted in it.
        """
        counts = len(self.entries), len(self.starts), len(self.values)
        self.ends.append(_End(block, number, *counts, warps, barrier))

    def end_early(self, block: int, refused: bool) -> None:
        """The launch ends in the middle of an interval.

        refused: the last entry is of an access that was not made.
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
        """Drop what is half noted: a launch that takes too long ends anywhere.

        Of very much that it noted in its last interval the beginning stays.
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
            rows = np.cumsum(loops.Table(self.shapes).lengths(packed, cut=True))
            packed = packed[: np.searchsorted(rows, KEPT)]
        packed = packed[:KEPT]  # an endless loop notes more than anybody can look at
        loop = np.flatnonzero(packed & (SITES - 1) == loops.HEADER)[-1:]
        if len(loop):
            shape = self.shapes[int(packed[loop[0]]) // SITES]
            if loop[0] + len(shape.steps) >= len(packed):
                packed = packed[: loop[0]]
        wrote = np.cumsum(writes[packed & (SITES - 1)])
        packed = packed[: np.searchsorted(wrote, values, side="right")]
        del self.entries[first + len(packed) :]
        del self.values[base + (int(wrote[len(packed) - 1]) if len(packed) else 0) :]
        turns = bisect.bisect_right(self.starts, len(self.entries))
        for column in (self.starts, self.threads, self.phases):
            del column[turns:]

    def full(self) -> bool:
        """Whether it is worth while to take what there is."""
        return len(self.entries) > MANY or len(self.ends) > MANY // 8

    def take(self, known: Find | None = None) -> Iterator[Interval]:
        """The intervals that have ended; they are no longer here.

        known: asked for each piece whether it is like an earlier one; if so, what it
        gives stands for the interval, which is not decoded.
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
        rows = None
        if self.shapes:
            table = loops.Table(self.shapes)
            rows = np.cumsum(np.append(0, table.lengths(columns.packed)))
        waiting: list[Piece] = []
        many = 0
        before = _End(0, 0, 0, 0, 0, False, -1)
        for end in ends:
            piece = Piece(columns, before, end)
            size = piece.size
            if rows is not None:
                size = int(rows[end.entries] - rows[before.entries])
            before = end
            found = None
            if known and not end.warps and size >= PIECE and not self.spread:
                found = known(piece, self.decoded)
            if found is None:
                waiting.append(piece)
                many += size
            if waiting and (found or many > MANY):
                yield from self.decoded(waiting)
                waiting, many = [], 0
            if found:
                yield found
        if waiting:
            yield from self.decoded(waiting)

    def decoded(self, pieces: list[Piece]) -> list[Interval]:
        """Pieces that follow one another as Intervals."""
        columns, first, last = pieces[0].columns, pieces[0], pieces[-1]
        packed = columns.packed[first.first : last.end.entries]
        turns = slice(first.turn, last.end.turns)
        threads = columns.threads[turns]
        begins = columns.starts[turns] - first.first
        lengths = np.diff(begins, append=len(packed))
        source = np.repeat(np.arange(len(threads), dtype=np.int32), lengths)
        bounds = np.array([p.end.entries - first.first for p in pieces])
        if self.shapes:
            rows, packed = loops.Table(self.shapes).unrolled(packed)
            source, bounds = source[rows], np.searchsorted(rows, bounds)
        site = (packed & (SITES - 1)).astype(np.int32)
        element = packed >> SHIFT
        silent = np.array([s.kind in (STEP, FENCE) for s in self.sites] or [False])
        if silent.any():
            element[silent[site]] = -1
        for number, spread in self.spread.items():
            mine = np.array([s.array == number for s in self.sites])[site]
            element[mine] = _place_elements(element[mine], spread)
        thread = threads[source]
        phase = columns.phases[turns][source] if len(columns.phases) else None
        made, a = [], 0
        for piece, b in zip(pieces, bounds.tolist()):
            end = piece.end
            one = Interval(
                *(end.block, end.number, thread[a:b], site[a:b], element[a:b]),
                phase[a:b] if phase is not None and end.warps else None,
                piece.values,
                end.barrier,
            )
            if end.warps:
                self._in_order(one, piece.threads)
            made.append(one)
            a = b
        return made

    def _in_order(self, made: Interval, turns: np.ndarray) -> None:
        """Lay rows thread by thread, where threads took several turns each."""
        order_of, first = np.unique(turns, return_index=True)
        if len(first) == len(turns):
            return
        rank = np.zeros(int(turns.max()) + 1, np.int64)
        rank[turns[np.sort(first)]] = np.arange(len(order_of))
        order = np.argsort(rank[made.thread], kind="stable")
        writes = np.array([s.kind == WRITE for s in self.sites], bool)[made.site]
        assert made.values is not None
        place = np.cumsum(writes) - 1
        made.values = [made.values[i] for i in place[order[writes[order]]].tolist()]
        made.thread, made.site = made.thread[order], made.site[order]
        made.element = made.element[order]
        if made.phase is not None:
            made.phase = made.phase[order]


def _place_elements(element: np.ndarray, spread: Spread) -> np.ndarray:
    """Where row-major elements of a strided array lie, in elements."""
    shape, steps, first = spread
    found = np.full(element.shape, first, np.int64)
    for index, step in zip(np.unravel_index(element, shape), steps):
        found += index * step
    return found


def site_of(place: Place, number: int) -> Site:
    """The Site of a place that touches array `number`."""
    start = place.file, place.line, place.column
    return Site(place.kind, number, place.text, *start, place.last, place.statement)
