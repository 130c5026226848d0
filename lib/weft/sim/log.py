"""The log of a launch: what running threads append, and Intervals made of it.

An entry is element * SITES + site. Threads run one at a time; where each one's turn
begins is kept beside. Entries become columns many intervals at a time, since NumPy asks
the same few microseconds for ten as for ten thousand.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import Any

import numpy as np

from .places import SITES, Place
from .record import FENCE, STEP, WRITE, Interval, Site

MANY = 1 << 15  # entries that are worth a look
# Of a strided array: its shape, by how many elements of memory each index moves, and
# where its first one lies.
Spread = tuple[tuple[int, ...], tuple[int, ...], int]
_SHIFT = np.uint64(SITES.bit_length() - 1)


@dataclass
class _End:
    """Where an interval ends: counts of entries, turns and values before it."""

    block: int
    number: int
    entries: int
    turns: int
    values: int
    warps: bool


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
        self._of_place: dict[tuple[Place, int], int] = {}

    def site(self, place: Place, number: int) -> int:
        """The number of the Site of a place that touches array `number`."""
        key = (place, number)
        found = self._of_place.get(key)
        if found is None:
            found = self._of_place[key] = len(self.sites)
            if found >= SITES:
                raise OverflowError(f"more than {SITES} places touch arrays")
            self.sites.append(site_of(place, number))
        return found

    def end(self, block: int, number: int, warps: bool = False) -> None:
        """An interval of a block ends here. warps: phases were noted in it."""
        counts = len(self.entries), len(self.starts), len(self.values)
        self.ends.append(_End(block, number, *counts, warps))

    def end_early(self, block: int, refused: bool) -> None:
        """The launch ends in the middle of an interval.

        refused: the last entry is of an access that was not made.
        """
        if refused and self.entries:
            last = self.sites[self.entries.pop() & (SITES - 1)]
            if last.kind == WRITE:
                self.values.pop()
        number = 0
        if self.ends and self.ends[-1].block == block:
            number = self.ends[-1].number + 1
        self.end(block, number, bool(self.phases))

    def full(self) -> bool:
        """Whether it is worth while to take what there is."""
        return len(self.entries) > MANY or len(self.ends) > MANY // 8

    def take(self) -> list[Interval]:
        """The intervals that have ended; they are no longer here."""
        packed = np.array(self.entries, np.uint64)
        site = (packed & np.uint64(SITES - 1)).astype(np.int32)
        element = (packed >> _SHIFT).astype(np.int64)
        silent = np.array([s.kind in (STEP, FENCE) for s in self.sites] or [False])
        if silent.any():
            element[silent[site]] = -1
        for number, spread in self.spread.items():
            mine = np.array([s.array == number for s in self.sites])[site]
            element[mine] = _lies(element[mine], spread)
        turns = np.array(self.threads, np.int32)
        lengths = np.diff(np.array(self.starts, np.int64), append=len(packed))
        thread = np.repeat(turns, lengths)
        phase = None
        if self.phases:
            phase = np.repeat(np.array(self.phases, np.int32), lengths)
        made, a, v, t = [], 0, 0, 0
        for end in self.ends:
            b = end.entries
            one = Interval(
                *(end.block, end.number, thread[a:b], site[a:b], element[a:b]),
                phase[a:b] if phase is not None and end.warps else None,
                self.values[v : end.values],
            )
            if end.warps:
                self._in_order(one, turns[t : end.turns])
            made.append(one)
            a, v, t = b, end.values, end.turns
        del self.entries[:], self.starts[:], self.threads[:], self.phases[:]
        self.values.clear()
        self.ends.clear()
        return made

    def _in_order(self, made: Interval, turns: np.ndarray) -> None:
        """Lay rows thread by thread, where threads took several turns each."""
        order_of, first = np.unique(turns, return_index=True)
        if len(first) == len(turns):
            return
        rank = np.zeros(int(turns.max()) + 1, np.int64)
        rank[turns[np.sort(first)]] = np.arange(len(order_of))
        order = np.argsort(rank[made.thread], kind="stable")
        writes = np.array([s.kind == WRITE for s in self.sites])[made.site]
        assert made.values is not None
        place = np.cumsum(writes) - 1
        made.values = [made.values[i] for i in place[order[writes[order]]].tolist()]
        made.thread, made.site = made.thread[order], made.site[order]
        made.element = made.element[order]
        if made.phase is not None:
            made.phase = made.phase[order]


def _lies(element: np.ndarray, spread: Spread) -> np.ndarray:
    """Where row-major elements of a strided array lie, in elements."""
    shape, steps, first = spread
    found = np.full(element.shape, first, np.int64)
    for index, step in zip(np.unravel_index(element, shape), steps):
        found += index * step
    return found


def site_of(place: Place, number: int) -> Site:
    """The Site of a place that touches array `number`."""
    start = place.file, place.line, place.column
    return Site(place.kind, number, place.text, *start, place.last)
