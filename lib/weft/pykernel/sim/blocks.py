"""Races between blocks on global memory.

Blocks run in any order, or concurrently. If one block writes an element that another
reads or writes, the two accesses race, with three exceptions: both accesses are atomic,
both write the same value, or one block released its access and the other acquired it. A
release is an atomic after a threadfence (by the same thread, or by any thread of the
block before a barrier). An acquisition is a later atomic of another block on the same
element. A reduction whose last block sums the partial results uses this protocol.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .layout import ATOMIC, CODES, FENCE, READ, WRITE, Batch, MemoryLayout, mark_heads
from .races import find_suspects
from .warp import WARP

_READ, _WRITE, _ATOMIC = CODES[READ], CODES[WRITE], CODES[ATOMIC]
_FENCE = CODES[FENCE]
MANY = -1  # used as a block's number if several blocks made the access


@dataclass(frozen=True)
class Meeting:
    """A row of a batch, and another block's earlier access to the same element.

    before: code of the earlier access's kind.
    block, thread, site: origin of the earlier access; block is MANY for several blocks.
    count: number of such meetings between the two sites.
    """

    row: int
    before: int
    block: int
    thread: int
    site: int
    count: int


@dataclass
class Shadow:
    """The last access of one kind to each address.

    block: 1 + the number of the accessing block, MANY for several, or 0 for none.
    """

    block: np.ndarray
    thread: np.ndarray
    site: np.ndarray
    stamp: np.ndarray
    value: np.ndarray

    @classmethod
    def of(cls, size: int) -> Shadow:
        # A page of np.zeros() occupies memory only after a write to it.
        return cls(*(np.zeros(size, t) for t in ("i4", "i2", "i4", "i8", "f8")))


@dataclass
class Knowledge:
    """Accesses of other blocks that are known to have happened before.

    An access in the block's interval j has a stamp. It is 3j if the thread fenced and
    released the access in that interval. It is 3j + 1 if the thread only fenced the
    access, and 3j + 2 otherwise.

    Each column has an entry for every block:
    all: all accesses with a stamp up to this number are known.
    fenced: all fenced accesses with a stamp up to this number are known.
    exact, who: accesses of thread `who` with exactly the stamp `exact`, 3j, are known.
    """

    all: np.ndarray
    fenced: np.ndarray
    exact: np.ndarray
    who: np.ndarray

    @classmethod
    def none(cls, blocks: int) -> Knowledge:
        return cls(*(np.full(blocks, -1, np.int64) for _ in range(4)))

    def learn(self, other: Knowledge) -> None:
        """Add the knowledge of another block: keep the larger stamps."""
        newer = other.exact > self.exact
        self.who[newer] = other.who[newer]
        for name in ("all", "fenced", "exact"):
            values = getattr(self, name)
            np.maximum(values, getattr(other, name), out=values)

    def covers(self, block: int, stamp: int, thread: int) -> bool:
        """Return whether an access of `block` is known to have happened before."""
        if stamp <= self.all[block]:
            return True
        if stamp % 3 == 2:
            return False
        exact = stamp == self.exact[block] and thread == self.who[block]
        return bool(stamp <= self.fenced[block] or exact)

    def of_all(self, blocks: np.ndarray) -> bool:
        """Return whether a release by each of the blocks is known."""
        levels = np.maximum(np.maximum(self.all, self.fenced), self.exact)
        return bool((levels[blocks] >= 0).all())


class Between:
    """The search for races between the blocks of a launch."""

    def __init__(self, layout: MemoryLayout, blocks: int) -> None:
        self.layout, self.blocks = layout, blocks
        self.clock = 0  # number of examined intervals
        self.shadows: dict[int, Shadow] = {}
        self.known: dict[int, Knowledge] = {}
        # For each address of an atomic, the knowledge that its acquisition transfers.
        self.released: dict[int, Knowledge] = {}
        self.fence: dict[int, int] = {}  # each block's last interval with a fence
        self.examined = np.zeros(blocks, bool)

    def look(self, batch: Batch) -> Iterator[Meeting]:
        """Yield the races between the rows and other blocks, one per pair of sites."""
        layout = self.layout
        if self.blocks == 1 or not layout.changing.any():
            return
        if not self.shadows or len(self.shadows[_READ].block) < layout.total:
            self._grow()
        rows, address = batch.rows(layout.changing[batch.site])
        if not layout.fences and self._apart(batch, rows, address):
            return
        # Without fences, the intervals of a block can be examined together.
        turn = np.arange(len(batch.blocks)) if layout.fences else batch.turn
        first = mark_heads(turn)
        fenced = np.bincount(batch.part[batch.kind == _FENCE], minlength=len(turn)) > 0
        begins = np.searchsorted(turn[batch.part[rows]], turn[first]).tolist()
        for part, begin, end in zip(first.tolist(), begins, [*begins[1:], len(rows)]):
            if begin < end or fenced[part]:
                yield from self._piece(batch, part, rows[begin:end], address[begin:end])

    def _apart(self, batch: Batch, rows: np.ndarray, address: np.ndarray) -> bool:
        """Return whether no two blocks race in these rows; if so, record the rows."""
        kind, block = batch.kind[rows], batch.blocks[batch.part[rows]]
        if any(self._foreign(c, kind, block, address).any() for c in self.shadows):
            return False
        keys = kind.astype(np.int64)
        if len(rows) and len(find_suspects(address, block, keys, self.blocks)):
            return False
        self._note(batch, block, rows, address, None)
        return True

    def _foreign(
        self, code: int, kind: np.ndarray, block: int | np.ndarray, address: np.ndarray
    ) -> np.ndarray:
        """Return a mask of accesses that may race with earlier ones of kind `code`."""
        last_block = self.shadows[code].block[address]
        foreign = (last_block != 0) & (last_block != block + 1)
        return foreign if code == _WRITE else foreign & (kind != code)

    def _grow(self) -> None:
        old = self.shadows
        self.shadows = {
            c: Shadow.of(self.layout.total) for c in (_WRITE, _ATOMIC, _READ)
        }
        for code, before in old.items():
            for name, column in vars(before).items():
                getattr(self.shadows[code], name)[: len(column)] = column

    def _piece(
        self, batch: Batch, part: int, rows: np.ndarray, address: np.ndarray
    ) -> Iterator[Meeting]:
        block = int(batch.blocks[part])
        self.examined[block] = True
        kind = batch.kind[rows]
        order = None
        if self.layout.fences:
            self.clock += 1
            order = Order(self, batch, part, block, rows, address)
        for code in self.shadows:
            at = np.flatnonzero(self._foreign(code, kind, block, address))
            if not len(at):
                continue
            if code == _WRITE:
                at = at[self._differ(batch, rows[at], address[at])]
            if order is not None:
                at = at[[not order.holds(code, i) for i in at.tolist()]]
            yield from self._meetings(batch, code, rows[at], address[at])
        stamps = None if order is None else order.stamps
        self._note(batch, batch.blocks[batch.part[rows]], rows, address, stamps)
        if order is not None:
            order.end()

    def _differ(
        self, batch: Batch, rows: np.ndarray, address: np.ndarray
    ) -> np.ndarray:
        """Return a mask of all rows except writes of the value already stored."""
        differ = np.ones(len(rows), bool)
        writes = np.flatnonzero(batch.kind[rows] == _WRITE)
        stored = self.shadows[_WRITE].value[address[writes]]
        differ[writes] = batch.numbers(rows[writes]) != stored
        return differ

    def _meetings(
        self, batch: Batch, code: int, rows: np.ndarray, address: np.ndarray
    ) -> Iterator[Meeting]:
        """Yield one meeting per pair of sites: the first by address and thread."""
        if not len(rows):
            return
        shadow = self.shadows[code]
        pair = batch.site[rows] << 32 | shadow.site[address].astype(np.int64)
        order = np.lexsort((batch.thread[rows], address, pair))
        first = mark_heads(pair[order])
        counts = np.diff(first, append=len(order))
        for at, count in zip(order[first].tolist(), counts.tolist()):
            where = address[at]
            block = int(shadow.block[where])
            who = int(shadow.thread[where]), int(shadow.site[where])
            block = block - 1 if block > 0 else MANY
            yield Meeting(int(rows[at]), code, block, *who, count)

    def _note(
        self,
        batch: Batch,
        blocks: np.ndarray,
        rows: np.ndarray,
        address: np.ndarray,
        stamps: np.ndarray | None,
    ) -> None:
        """Record the origins of these accesses. `stamps` is None without fences."""
        for code, shadow in self.shadows.items():
            chosen = np.flatnonzero(batch.kind[rows] == code)
            if not len(chosen):
                continue
            block, row, where = blocks[chosen], rows[chosen], address[chosen]
            before = shadow.block[where]
            shadow.block[where] = block + 1
            if code == _WRITE:
                shadow.value[where] = batch.numbers(row)
            else:
                foreign = (before != 0) & (before != block + 1)
                # Other blocks in the same batch may have accessed the address, too.
                foreign |= shadow.block[where] != block + 1
                shadow.block[where[foreign]] = MANY
            shadow.thread[where] = batch.thread[row]
            shadow.site[where] = batch.site[row]
            if stamps is not None:
                shadow.stamp[where] = stamps[chosen]


class Order:
    """The fences, acquisitions and releases of one interval of a block."""

    def __init__(
        self,
        between: Between,
        batch: Batch,
        part: int,
        block: int,
        rows: np.ndarray,
        address: np.ndarray,
    ) -> None:
        self.between, self.batch, self.block = between, batch, block
        self.rows, self.address = rows, address
        self.known = between.known.get(block)
        if self.known is None:
            self.known = between.known[block] = Knowledge.none(between.blocks)
        # Each acquisition, as its row and the acquired knowledge.
        self.acquired: list[tuple[int, Knowledge]] = []
        start, end = int(batch.starts[part]), int(batch.starts[part + 1])
        self.fences = start + np.flatnonzero(batch.kind[start:end] == _FENCE)
        atomic = np.flatnonzero(batch.kind[rows] == _ATOMIC)
        self.stamps = self._stamps(rows[atomic])
        self._atomics(atomic)

    def _stamps(self, atomics: np.ndarray) -> np.ndarray:
        thread = self.batch.thread
        none = np.full(self.between.layout.threads, -1)
        last, last_atomic, release = none.copy(), none.copy(), none.copy()
        last[thread[self.fences]] = self.fences
        last_atomic[thread[atomics]] = atomics
        before = self.fences[self.fences < last_atomic[thread[self.fences]]]
        release[thread[before]] = before
        rows, thread_of_row = self.rows, thread[self.rows]
        stamps = np.where(rows < last[thread_of_row], 1, 2)
        stamps[rows < release[thread_of_row]] = 0
        stamps[self.batch.kind[rows] == _ATOMIC] = 0
        return 3 * self.between.clock + stamps

    def _atomics(self, atomics: np.ndarray) -> None:
        between, block, clock = self.between, self.block, self.between.clock
        earlier = between.fence.get(block, -1)
        thread = self.batch.thread
        fences: dict[int, int] = {}
        for row in self.fences.tolist()[::-1]:
            # In this order, the thread's first fence is stored last, and remains.
            fences[int(thread[row])] = row
        for row, address in zip(self.rows[atomics], self.address[atomics]):
            thread_number, place = int(thread[row]), int(address)
            if place in between.released:
                self.acquired.append((int(row), between.released[place]))
            fenced = fences.get(thread_number, row) < row
            if not fenced and earlier < 0:
                continue
            released = Knowledge.none(between.blocks)
            released.learn(self.known)
            for at, knowledge in self.acquired:
                if thread[at] == thread_number:
                    released.learn(knowledge)
            released.all[block] = 3 * (clock if fenced else earlier) - 1
            released.fenced[block] = 3 * clock - 2
            released.exact[block], released.who[block] = 3 * clock, thread_number
            if place in between.released:
                released.learn(between.released[place])
            between.released[place] = released

    def holds(self, code: int, at: int) -> bool:
        """Return whether row `at` is known to follow the last access of kind `code`."""
        shadow, where = self.between.shadows[code], self.address[at]
        block, row = int(shadow.block[where]) - 1, int(self.rows[at])
        stamp, who = int(shadow.stamp[where]), int(shadow.thread[where])
        knowledge = [self.known]
        knowledge += [k for a, k in self.acquired if self._after(a, row)]
        if block >= 0:
            return any(k.covers(block, stamp, who) for k in knowledge)
        other_blocks = self.between.examined.copy()
        other_blocks[self.block] = False
        return any(k.of_all(other_blocks) for k in knowledge)

    def _after(self, acquired: int, row: int) -> bool:
        thread, phase = self.batch.thread, self.batch.phase
        if thread[acquired] == thread[row]:
            return acquired <= row
        if phase is None or thread[acquired] // WARP != thread[row] // WARP:
            return False
        return bool(phase[acquired] < phase[row])

    def end(self) -> None:
        """End the interval. Its barrier transfers acquired knowledge to all threads."""
        for _, knowledge in self.acquired:
            self.known.learn(knowledge)
        if len(self.fences):
            self.between.fence[self.block] = self.between.clock
