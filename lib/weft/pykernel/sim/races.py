"""Races within a block between two barriers, and reads of unwritten elements.

Two accesses race if different threads make them, at least one writes, they are not both
atomic, and nothing orders them. A barrier orders them. A meeting of their warp (a
syncwarp, shuffle or vote) orders them, too, since they then have different phases. All
rows of a batch are examined together. Sorting a column of keys (interval, address,
thread, kind) makes the rows of each address adjacent.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .layout import (
    ATOMIC,
    CODES,
    GLOBAL,
    READ,
    SPACES,
    WRITE,
    Batch,
    count_bits,
    mark_heads,
)
from .warp import WARP

_READ, _WRITE, _ATOMIC = CODES[READ], CODES[WRITE], CODES[ATOMIC]
_GLOBAL = SPACES[GLOBAL]
TABLE = 1 << 22  # maximum number of entries in a table by address


@dataclass(frozen=True)
class Offence:
    """Two rows of a batch that race, or one row that reads an unwritten element.

    row: the read, if there is one.
    other: the second row; -1 if there is none.
    conflict: whether both rows write, with different values.
    """

    row: int
    other: int = -1
    conflict: bool = False


def in_block(batch: Batch) -> Iterator[Offence]:
    """Yield the races between threads of a block, one per address and interval."""
    layout = batch.layout
    # Memory that no thread writes, or that belongs to one thread, has no races.
    rows, address = batch.rows(layout.contended[batch.site])
    if not len(rows):
        return
    place = batch.part[rows] * layout.total + address
    thread, kind = batch.thread[rows], batch.kind[rows].astype(np.int64)
    suspects = find_suspects(place, thread, kind, layout.threads)
    if not len(suspects):
        return
    chosen = np.flatnonzero(_is_among(place, suspects))
    rows, place, thread, kind = (c[chosen] for c in (rows, place, thread, kind))
    phase = batch.phase[rows] if batch.phase is not None else None
    if phase is not None:
        keep, place = _select_unordered(place, thread, kind, phase, layout.threads)
        rows, thread, kind, phase = (c[keep] for c in (rows, thread, kind, phase))
    yield from _pair_races(batch, rows, place, thread, kind, phase)


def blank_reads(batch: Batch, block: int) -> Iterator[Offence]:
    """Yield reads of unwritten elements, one per element and block.

    block: the block whose writes are in the layout's `blank`. Afterwards, `blank`
        contains the writes of the batch's last block.

    If another thread writes the element in the same interval, the read is a race
    instead.
    """
    layout = batch.layout
    rows, address = batch.rows(layout.blankable[batch.site])
    if not len(rows):
        return
    owner = batch.part[rows]
    is_global = layout.space[batch.site[rows]] == _GLOBAL
    turn = np.where(is_global, 0, batch.turn[owner])
    known = is_global | (batch.blocks[owner] == block) & (turn == 0)
    blank = layout.blank[address] | ~known
    low, width = layout.blanks
    where = turn * width + address - low
    unknown = np.flatnonzero(blank)
    first = unknown[_first_places(where[unknown], (int(turn[-1]) + 1) * width)]
    bad = first[batch.kind[rows[first]] != _WRITE]
    if len(bad):
        yield from _find_never_written(batch, rows, where, bad)
    if batch.blocks[-1] != block or batch.turn[-1]:
        layout.forget()
    last = is_global | (turn == batch.turn[-1])
    layout.blank[address[last & (batch.kind[rows] != _READ)]] = False


def _first_places(keys: np.ndarray, count: int) -> np.ndarray:
    """Return the index of the first occurrence of each key; keys are below `count`."""
    if not len(keys):
        return keys
    if count > TABLE:
        return np.unique(keys, return_index=True)[1]
    # Assign in reverse, so that the first place of a key remains. Only assigned
    # entries are read.
    table = np.empty(count, np.int64)
    table[keys[::-1]] = np.arange(len(keys))[::-1]
    return np.flatnonzero(table[keys] == np.arange(len(keys)))


def _find_never_written(
    batch: Batch, rows: np.ndarray, where: np.ndarray, first: np.ndarray
) -> Iterator[Offence]:
    """Yield the first reads of places that no other thread writes in the interval."""
    first = first[np.argsort(where[first])]
    writes = np.flatnonzero(batch.kind[rows] == _WRITE)
    writes = writes[_is_among(where[writes], where[first])]
    parts = len(batch.intervals)
    own = where[first] * parts + batch.part[rows[first]]
    writers = where[writes] * parts + batch.part[rows[writes]]
    reader, writer = batch.thread[rows[first]], batch.thread[rows[writes]]
    at = np.searchsorted(own, writers)
    at[at == len(own)] = 0
    matched = at[(own[at] == writers) & (reader[at] != writer)]
    unwritten = np.ones(len(first), bool)
    unwritten[matched] = False
    for row in rows[first[unwritten]].tolist():
        yield Offence(row)


def find_suspects(
    place: np.ndarray, thread: np.ndarray, kind: np.ndarray, threads: int
) -> np.ndarray:
    """Return, sorted, the places where several threads (or blocks) may race."""
    shift = count_bits(threads) + 2
    keys = np.sort((place << shift) | (thread << 2) | kind)
    place = keys >> shift
    first = mark_heads(place)
    one = (keys >> 2) & ((1 << (shift - 2)) - 1)
    last = np.append(first[1:], len(keys)) - 1
    several = one[first] != one[last]
    if not several.any():
        return keys[:0]
    # Bit 0: reads, 1: writes, 2: atomics. Races need a write, or a read and an atomic.
    kinds = np.bitwise_or.reduceat(1 << (keys & 3), first)
    several &= ((kinds & 2) != 0) | ((kinds & 5) == 5)
    return place[first[several]]


def _is_among(column: np.ndarray, some: np.ndarray) -> np.ndarray:
    """Return a mask of the values of a column that are in the sorted array `some`."""
    at = np.searchsorted(some, column)
    at[at == len(some)] = 0
    return some[at] == column


def _select_unordered(
    place: np.ndarray,
    thread: np.ndarray,
    kind: np.ndarray,
    phase: np.ndarray,
    threads: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows that race despite their warps' meetings, and their new places.

    If only one warp touches an address, each phase counts as a place of its own.
    """
    _, place = np.unique(place, return_inverse=True)
    order = np.lexsort((thread, place))
    first = mark_heads(place[order])
    last = np.append(first[1:], len(order)) - 1
    warp = thread[order] // WARP
    one_warp = (warp[first] == warp[last])[place]
    width = int(phase.max()) + 1
    place = place * width + np.where(one_warp, phase, 0)
    suspects = find_suspects(place, thread, kind, threads)
    if not len(suspects):
        return np.zeros(0, np.int64), place[:0]
    keep = np.flatnonzero(_is_among(place, suspects))
    return keep, place[keep]


def _pair_races(
    batch: Batch,
    rows: np.ndarray,
    place: np.ndarray,
    thread: np.ndarray,
    kind: np.ndarray,
    phase: np.ndarray | None,
) -> Iterator[Offence]:
    """Yield one racing pair per place, whatever the order of the threads."""
    if not len(rows):
        return
    rank = np.array([2, 0, 1])[kind]  # order: writes, atomics, reads
    order = np.lexsort((rows, thread, rank, place))
    rows, place, thread, kind = (c[order] for c in (rows, place, thread, kind))
    phase = phase[order] if phase is not None else None
    first = mark_heads(place)
    ends = np.append(first[1:], len(rows))
    group = np.repeat(np.arange(len(first)), ends - first)
    chosen = first[group]
    fits = thread != thread[chosen]
    fits &= (kind[chosen] == _WRITE) | (kind == _READ)
    if phase is not None:
        other_warp = thread // WARP != thread[chosen] // WARP
        fits &= other_warp | (phase == phase[chosen])
    pool = np.flatnonzero(fits)
    # Prefer reads, and then threads of other warps, where lockstep hides no race.
    same_warp = thread[pool] // WARP == thread[chosen[pool]] // WARP
    best = pool[np.lexsort((thread[pool], same_warp, kind[pool] != _READ, group[pool]))]
    partner = np.full(len(first), -1)
    start = mark_heads(group[best])
    partner[group[best[start]]] = best[start]
    for number, (begin, end) in enumerate(zip(first.tolist(), ends.tolist())):
        a, b = begin, int(partner[number])
        if b < 0:
            a, b = _search_pair(thread, kind, phase, begin, end)
        if b < 0:
            continue
        if kind[a] == kind[b] == _WRITE:
            others = np.flatnonzero(kind[begin:end] != _WRITE)
            if not len(others):
                yield from _find_differing(batch, rows[begin:end], thread[begin:end])
                continue
            row = begin + int(others[0])  # prefer a read to a second write
            a, b = row, b if thread[row] == thread[a] else a
        pair = (a, b) if kind[a] == _READ else (b, a)
        yield Offence(*(int(rows[i]) for i in pair))


def _search_pair(
    thread: np.ndarray, kind: np.ndarray, phase: np.ndarray | None, begin: int, end: int
) -> tuple[int, int]:
    """Return the first racing pair among rows [begin, end), or (-1, -1)."""
    for a in range(begin, end):
        for b in range(a + 1, end):
            same_warp = thread[a] // WARP == thread[b] // WARP
            ordered = phase is not None and same_warp and phase[a] != phase[b]
            alike = thread[a] == thread[b] or kind[a] == kind[b] != _WRITE
            if not (ordered or alike):
                return a, b
    return -1, -1


def _find_differing(
    batch: Batch, rows: np.ndarray, threads: np.ndarray
) -> Iterator[Offence]:
    """Yield the first write, and another thread's first write of a different value."""
    stored = batch.numbers(rows)
    differing = np.flatnonzero((threads != threads[0]) & (stored != stored[0]))
    if len(differing):
        yield Offence(int(rows[0]), int(rows[differing[0]]), conflict=True)
