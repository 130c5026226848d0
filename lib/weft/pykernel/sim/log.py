"""The log of a launch: what running threads append, and Intervals made of it.

An entry is element * SITES + site. Threads run one at a time; where each one's turn
begins is kept beside. Entries become columns many intervals at a time, since NumPy asks
the same few microseconds for ten as for ten thousand.

Intervals like an earlier one, recognised before they are decoded.

Blocks do the same on other elements. An interval whose threads touched the same shared
elements in the same order, and in global arrays elements that all lie as far from the
earlier one's, a whole number of sectors, races where that did and costs what that did.
The second of a kind is looked at alone; if nothing in it races, later ones only need
the rows of a Rest.
"""

from __future__ import annotations

import bisect
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import plain_loops
from .counters import SECTOR, SiteSums
from .layout import CODES, Batch, MemoryLayout
from .plain_loops import HEADER
from .races import in_block
from .record import (
    FENCE,
    GLOBAL,
    READ,
    SHIFT,
    SITES,
    STEP,
    WRITE,
    AccessPlace,
    Interval,
    Site,
)

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
        self.shapes: list[plain_loops.LoopShape] = []
        self._of_place: dict[tuple[AccessPlace, int], int] = {}

    def site(self, place: AccessPlace, number: int) -> int:
        """The number of the Site of a place that touches array `number`."""
        key = (place, number)
        found = self._of_place.get(key)
        if found is None:
            found = self._of_place[key] = len(self.sites)
            if found >= plain_loops.HEADER:
                raise OverflowError(
                    f"more than {plain_loops.HEADER} places touch arrays"
                )
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
            rows = np.cumsum(plain_loops.Table(self.shapes).lengths(packed, cut=True))
            packed = packed[: np.searchsorted(rows, KEPT)]
        packed = packed[:KEPT]  # an endless loop notes more than anybody can look at
        loop = np.flatnonzero(packed & (SITES - 1) == plain_loops.HEADER)[-1:]
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
            table = plain_loops.Table(self.shapes)
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
            rows, packed = plain_loops.Table(self.shapes).unrolled(packed)
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


def site_of(place: AccessPlace, number: int) -> Site:
    """The Site of a place that touches array `number`."""
    start = place.file, place.line, place.column
    return Site(place.kind, number, place.text, *start, place.last, place.statement)


KINDS = 64  # kept of one launch
ALIKE = 8  # kept with the same beginning
LARGE = 1 << 16  # entries of a piece that is not kept


@dataclass
class Rest(Interval):
    """The rows of an interval that must still be looked at; all else is known."""


class Kind:
    """A piece, as which later ones may be told.

    begins: of each array that may lie elsewhere the entry that first touches it;
    whose: for each entry its number in these + 1, or 0; sizes: of their elements.
    """

    def __init__(self, piece: Piece, layout: MemoryLayout) -> None:
        self.packed, self.starts = piece.packed.copy(), piece.starts
        self.threads = piece.threads.copy()
        site = self.packed & (SITES - 1)
        array = np.full(len(site), -1)
        inside = site != HEADER
        array[inside] = layout.array[site[inside]]
        arrays = layout.arrays
        moves = [
            number
            for number in np.unique(array).tolist()
            if number >= 0
            and arrays[number].space == GLOBAL
            and arrays[number].memory < 0
        ]
        slot = np.zeros(len(arrays) + 1, np.int64)  # the last one: no array
        slot[moves] = np.arange(len(moves)) + 1
        self.array_slot, self.whose = slot, slot[array]
        self.begins = np.array([int(np.argmax(array == n)) for n in moves], np.int64)
        self.sizes = np.array([arrays[n].dtype.itemsize for n in moves], np.int64)
        self.times = 0
        self.clean: bool | None = None  # not looked at yet
        self.sums: dict[str, np.ndarray] = {}

    def moved(self, piece: Piece) -> np.ndarray | None:
        """By how many elements each array's are further on; None for another kind."""
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
        self, layout: MemoryLayout, interval: Interval, moved: np.ndarray
    ) -> None:
        """Look at an interval of this kind, `moved` from the first."""
        batch = Batch(layout, [interval])
        self.clean = next(in_block(batch), None) is None
        if not self.clean:
            return
        sums = SiteSums(layout)
        sums.add(batch)
        self.sums = sums.sums
        rows = [_first_rows(*batch.rows(layout.blankable[batch.site]))]
        wrote = batch.kind != CODES[READ]
        rows.append(_first_rows(*batch.rows(layout.blankable[batch.site] & wrote)))
        rows.append(np.flatnonzero(layout.changing[batch.site]))
        chosen = np.unique(np.concatenate(rows))
        self.thread, self.site = interval.thread[chosen], interval.site[chosen]
        self.slot = self.array_slot[layout.array[self.site]]
        self.element = interval.element[chosen] - moved[self.slot]
        rank = np.cumsum(batch.kind == CODES[WRITE]) - 1
        self.writes = rank[chosen[batch.kind[chosen] == CODES[WRITE]]].tolist()

    def rest(self, piece: Piece, moved: np.ndarray) -> Rest:
        """What is to be looked at in a piece of this kind."""
        self.times += 1
        values = piece.values
        return Rest(
            *(piece.end.block, piece.end.number, self.thread, self.site),
            *(self.element + moved[self.slot], None),
            [values[i] for i in self.writes],
            piece.end.barrier,
        )


class Repeats:
    """The kinds of pieces that a launch has had."""

    def __init__(self, layout: MemoryLayout) -> None:
        self.layout = layout
        self.kinds: dict[tuple[int, ...], list[Kind]] = {}
        self.count = 0
        self.past: list[Kind] = []  # no longer looked for, but counted
        self._layout = layout.version

    def find(
        self, piece: Piece, decoded: Callable[[list[Piece]], list[Interval]]
    ) -> Rest | None:
        """What is left to look at in a piece; None if it is like none before."""
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
            moved = kind.moved(piece)
            if moved is None:
                continue
            if kind.clean is None:
                kind.learn(layout, decoded([piece])[0], moved)
            return kind.rest(piece, moved) if kind.clean else None
        if len(alike) < ALIKE and self.count < KINDS:
            alike.append(Kind(piece, layout))
            self.count += 1
        return None

    def forget(self) -> None:
        """Sites or arrays are new: what is known of a kind may be too little."""
        self.past += [kind for _, kind in self._all()]
        self.kinds, self.count, self._layout = {}, 0, self.layout.version

    def _all(self) -> list[tuple[tuple[int, ...], Kind]]:
        return [(key, kind) for key, alike in self.kinds.items() for kind in alike]

    def add_to(self, sums: SiteSums) -> None:
        """Count what all pieces that were recognised cost."""
        for kind in [*self.past, *(kind for _, kind in self._all())]:
            if kind.times:
                sums.more(kind.sums, kind.times)
        self.forget()
        self.past = []


def _first_rows(rows: np.ndarray, address: np.ndarray) -> np.ndarray:
    """The first row for each address."""
    return rows[np.unique(address, return_index=True)[1]]
