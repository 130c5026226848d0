"""Count the costs of a launch from its accesses, as Nsight Compute (ncu) does.

A request is one execution of a place in the source by a warp. A thread's k-th visit to
a place between two barriers belongs to the k-th request of its warp there. This
rule is exact if the threads of a warp take the same path. If they diverge, the requests
are those of a GPU whose warps reconverge at the place. In a loop with different numbers
of turns, the threads that are still in the loop make the later requests.

sectors: the 32-byte pieces of global memory that a request's threads touch. For an
atomic, a sector counts once for each lane that updates its most contended element.
These lanes take turns, and lanes on other elements are served meanwhile.
(Measured with ncu on an H200: of 177 patterns of 32 lanes, 155 take exactly this
number. The other patterns are scattered, and take one or two sectors more.)

wavefronts: the turns that a request to shared memory takes. Shared memory has 32 banks
of 4 bytes. A word that several lanes read takes one turn, and several words of one bank
take a turn each. Half warps access 8-byte elements, and quarter warps access 16-byte
elements. Lanes with atomics on the same bank take turns, even for the same word.

conflicts: wavefronts beyond a request's minimum, which is one, or two or four for 8- or
16-byte elements. Every array begins at a multiple of 256 bytes, as after cudaMalloc.
Every shared array begins at bank 0.
"""

from __future__ import annotations

import numpy as np

from ...report.costs import CostPlace, Counters
from .layout import (
    ATOMIC,
    CODES,
    FENCE,
    GLOBAL,
    SHARED,
    SPACES,
    Batch,
    Interval,
    MemoryLayout,
    count_bits,
    mark_heads,
)
from .warp import WARP

_ATOMIC, _FENCE = CODES[ATOMIC], CODES[FENCE]
_GLOBAL, _SHARED = SPACES[GLOBAL], SPACES[SHARED]
SECTOR = 32  # bytes per sector
BANKS = 32  # banks of 4 bytes each
PLANS = 4  # recent batches for which the result of group_requests() is kept


class SiteSums:
    """Sums by site, over the batches of a launch."""

    COLUMNS = ("accesses", "requests", "sectors", "wavefronts", "needed")

    def __init__(self, layout: MemoryLayout) -> None:
        self.layout = layout
        self.sums = {name: np.zeros(0, np.int64) for name in self.COLUMNS}
        self._plans: list[tuple] = []
        self.intervals: dict[int, int] = {}  # each block's last interval

    def pass_by(self, interval: Interval) -> None:
        """Record that a block has completed this interval."""
        known = self.intervals.get(interval.block, 0)
        self.intervals[interval.block] = max(known, interval.number)

    def more(self, sums: dict[str, np.ndarray], times: int) -> None:
        """Add the sums of `times` equal batches."""
        for name, column in sums.items():
            longest = max(column, self.sums[name], key=len)
            total = np.zeros(len(longest), np.int64)
            total[: len(column)] += column * times
            total[: len(self.sums[name])] += self.sums[name]
            self.sums[name] = total

    def add(self, batch: Batch) -> None:
        """Count the accesses of a batch."""
        if not len(batch.thread):
            return
        rows, request = self._requests(batch)
        first = mark_heads(request)
        site = batch.site[rows]
        self._sum("accesses", site)
        self._sum("requests", site[first])
        space = self.layout.space[site]
        at = self.layout.offset[site] + batch.element[rows] * self.layout.size[site]
        chosen = np.flatnonzero(space == _GLOBAL)
        if len(chosen):
            atomic = self.layout.kind[site[chosen]] == _ATOMIC
            one = chosen[~atomic]
            if len(one):
                sites = _count_distinct(request[one], at[one] >> 5, site[one])
                self._sum("sectors", sites)
            one = chosen[atomic]
            if len(one):
                self._sum(
                    "sectors", *_count_lane_turns(request[one], at[one], site[one])
                )
        chosen = np.flatnonzero(space == _SHARED)
        if len(chosen):
            lane = batch.thread[rows[chosen]] % WARP
            self._shared(request[chosen], at[chosen], site[chosen], lane)

    def _requests(self, batch: Batch) -> tuple[np.ndarray, np.ndarray]:
        """Return group_requests(batch); reuse the result of an equal batch."""
        same = (batch.part, batch.thread, batch.site)
        for plan in self._plans:
            if all(map(np.array_equal, plan[0], same)):
                return plan[1]
        result = group_requests(batch)
        self._plans = [(same, result), *self._plans[: PLANS - 1]]
        return result

    def _shared(
        self, request: np.ndarray, at: np.ndarray, site: np.ndarray, lane: np.ndarray
    ) -> None:
        size = np.clip(self.layout.size[site], 4, 16)
        half = lane * size // (4 * BANKS)  # number of the half or quarter warp
        group = request * 4 + half
        word = at // size
        first = mark_heads(group)
        self._sum("needed", site[first])
        banks = 4 * BANKS // size[first]
        turns = _count_turns(first, word, banks)
        if self.layout.atomics:
            atomic = self.layout.kind[site[first]] == _ATOMIC
            atomic_turns = _count_atomic_turns(first, word, banks)
            turns = np.where(atomic, atomic_turns, turns)
        self._sum("wavefronts", site[first], turns)

    def _sum(
        self, name: str, sites: np.ndarray, weights: np.ndarray | None = None
    ) -> None:
        total = np.bincount(sites, weights, minlength=len(self.layout.sites))
        self.more({name: total.astype(np.int64)}, 1)

    def counters(self, threads: int) -> Counters:
        """Return the sums so far, for blocks of `threads` threads."""
        layout, blocks = self.layout, len(self.intervals)
        counters = Counters(
            blocks=blocks,
            threads=blocks * threads,
            warps=blocks * -(-threads // WARP),
            barriers=sum(self.intervals.values()),
        )
        for number, site in enumerate(layout.sites):
            if layout.kind[number] == _FENCE:
                continue
            sums = {
                name: int(column[number]) if number < len(column) else 0
                for name, column in self.sums.items()
            }
            array = layout.arrays[site.array] if site.array >= 0 else None
            needed = sums.pop("needed")
            place = CostPlace(
                kind=site.kind,
                space=array.space if array else "",
                array=array.name if array else "",
                file=site.file,
                line=site.line,
                column=site.column,
                text=site.text,
                size=array.dtype.itemsize if array else 0,
                last=site.last,
                conflicts=sums["wavefronts"] - needed,
                **sums,
            )
            counters.places.append(place)
        return counters


def group_requests(batch: Batch) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows in order of request and thread, and each row's request number."""
    layout = batch.layout
    rows, n = None, len(batch.thread)
    if layout.fences:
        rows = np.flatnonzero(batch.kind != _FENCE)
    site, thread, part = batch.site, batch.thread, batch.part
    counts = n, layout.threads, len(layout.sites)
    low, lanes, sites = map(count_bits, counts)
    keys = ((part << sites | site) << lanes | thread) << low | np.arange(n)
    keys = np.sort(keys if rows is None else keys[rows])
    place = keys >> low
    first = mark_heads(place)
    lengths = np.diff(first, append=len(keys))
    occurrence = np.arange(len(keys)) - np.repeat(first, lengths)
    order = keys & ((1 << low) - 1)
    if lengths.max(initial=0) > 1:
        times = count_bits(int(lengths.max()))
        place = (place >> lanes) << times | occurrence
        place = place << lanes | (keys >> low) & ((1 << lanes) - 1)
        if count_bits(int(place.max()) + 1) + low < 63:
            where = np.sort(place << low | order)
            order, place = where & ((1 << low) - 1), where >> low
        else:
            resorted = np.argsort(place, kind="stable")
            order, place = order[resorted], place[resorted]
    warp = place >> min(5, lanes)
    return order, np.cumsum(np.diff(warp, prepend=warp[:1]) != 0)


def _count_distinct(
    request: np.ndarray, unit: np.ndarray, site: np.ndarray
) -> np.ndarray:
    """Return the sites of distinct (request, unit) pairs, sorted by request."""
    if ((request[1:] == request[:-1]) & (np.diff(unit) < 0)).any():
        order = np.lexsort((unit, request))
        unit, site = unit[order], site[order]
    return site[mark_heads(request, unit)]


def _count_lane_turns(
    request: np.ndarray, at: np.ndarray, site: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return each sector's site, and its largest number of lanes on one element."""
    order = np.lexsort((at, request))
    request, at, site = request[order], at[order], site[order]
    begins = mark_heads(request, at)
    lanes = np.diff(begins, append=len(at))
    request, sector, site = request[begins], at[begins] >> 5, site[begins]
    begins = mark_heads(request, sector)
    return site[begins], np.maximum.reduceat(lanes, begins)


def _count_atomic_turns(
    first: np.ndarray, word: np.ndarray, banks: np.ndarray
) -> np.ndarray:
    """Return the largest number of lanes on one bank, for each group of lanes."""
    lengths = np.diff(first, append=len(word))
    number = np.repeat(np.arange(len(first)), lengths)
    place = number * BANKS + word % np.repeat(banks, lengths)
    lanes = np.bincount(place, minlength=len(first) * BANKS)
    return lanes.reshape(len(first), BANKS).max(axis=1)


def _count_turns(first: np.ndarray, word: np.ndarray, banks: np.ndarray) -> np.ndarray:
    """Return the largest number of words in a bank, for each group of lanes."""
    turns = np.ones(len(first), np.int64)
    low = np.minimum.reduceat(word, first)
    high = np.maximum.reduceat(word, first)
    wide = high - low >= banks  # narrower groups have at most one word per bank
    if not wide.any():
        return turns
    lengths = np.diff(first, append=len(word))
    number = np.repeat(np.arange(len(first)), lengths)
    chosen = np.repeat(wide, lengths)
    number, word = number[chosen], word[chosen]
    bank = word % banks[number]
    order = np.lexsort((word, bank, number))
    number, bank, word = number[order], bank[order], word[order]
    place = number * BANKS + bank
    place = place[mark_heads(place, word)]
    begins = mark_heads(place)
    counts = np.diff(begins, append=len(place))
    np.maximum.at(turns, place[begins] // BANKS, counts)
    return turns
