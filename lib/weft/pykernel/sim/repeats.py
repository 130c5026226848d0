"""Intervals like an earlier one, recognised before they are decoded.

Blocks do the same on other elements. An interval whose threads touched the same shared
elements in the same order, and in global arrays elements that all lie as far from the
earlier one's, a whole number of sectors, races where that did and costs what that did.
The second of a kind is looked at alone; if nothing in it races, later ones only need
the rows of a Rest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .counters import SECTOR, Sums
from .layout import CODES, Batch, Layout
from .log import Piece
from .loops import HEADER
from .places import SHIFT, SITES
from .races import in_block
from .record import GLOBAL, READ, WRITE, Interval

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

    def __init__(self, piece: Piece, layout: Layout) -> None:
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

    def learn(self, layout: Layout, interval: Interval, moved: np.ndarray) -> None:
        """Look at an interval of this kind, `moved` from the first."""
        batch = Batch(layout, [interval])
        self.clean = next(in_block(batch), None) is None
        if not self.clean:
            return
        sums = Sums(layout)
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

    def __init__(self, layout: Layout) -> None:
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

    def add_to(self, sums: Sums) -> None:
        """Count what all pieces that were recognised cost."""
        for kind in [*self.past, *(kind for _, kind in self._all())]:
            if kind.times:
                sums.more(kind.sums, kind.times)
        self.forget()
        self.past = []


def _first_rows(rows: np.ndarray, address: np.ndarray) -> np.ndarray:
    """The first row for each address."""
    return rows[np.unique(address, return_index=True)[1]]
