"""Model how the warps of one multiprocessor take turns and hide latency.

A scheduler issues one instruction of one of its warps in a cycle. A warp issues its
instructions in order. An instruction waits until its inputs are ready and no other warp
has the slot; the warp that has been ready longest goes first. Blocks start whole, and
the next one starts in the cycle in which one ends.

The model leaves out caches, bandwidth (memory keeps up with any number of loads), the
compiler, the number of sectors and of bank conflicts, and divided floating-point units.

The numbers. A scheduler for each of the four parts of a multiprocessor, one warp
instruction per cycle: every card from Volta (7.0) on, NVIDIA's CUDA C++ Programming
Guide, "Multiprocessor Level" and "Compute Capabilities". An arithmetic result is ready
4 cycles later: the same chapter. A load from shared memory takes about 30 cycles (29 on
A100 and H100). A load from global memory that misses all caches takes 470 to 540, and
one from the L2 cache about 260: Luo et al., "Benchmarking and Dissecting the Nvidia
Hopper GPU Architecture via Microbenchmarking", arXiv:2402.13499. V100 needs 375: Jia et
al., arXiv:1804.06826. The model's 400 is between these.

The model must obey Little's law, as in V. Volkov, "Understanding latency hiding on
GPUs", Berkeley 2016: operations in flight = operations begun per cycle x duration.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field

from .instructions import ARITHMETIC, BARRIER, GLOBAL, SHARED, STORE, Program

ISSUING, MEMORY, NEAR, OTHERS, READY = "issuing", "memory", "near", "others", "ready"


@dataclass(frozen=True)
class Model:
    """Cycles from the issue of an instruction to that of one that needs its result.

    schedulers: each issues one instruction per cycle. resident: the most warps that one
    multiprocessor has room for (64 on A100 and H100, 48 on 8.6 and 8.9).
    """

    memory: int = 400
    shared: int = 30
    arithmetic: int = 4
    barrier: int = 1
    schedulers: int = 4
    resident: int = 64

    def latencies(self) -> dict[str, int]:
        """Return the latency of each kind of instruction."""
        return {
            **{GLOBAL: self.memory, SHARED: self.shared, ARITHMETIC: self.arithmetic},
            **{BARRIER: self.barrier, STORE: 1},
        }


@dataclass
class Run:
    """The result of a replay. warps: resident ones; cycles: until the last one ended.

    spans: for each place of a warp on the multiprocessor (state, from, to), in order,
    up to the cycle `until`. slots: issued instructions by cycle, up to the same cycle.
    """

    warps: int
    cycles: int = 0
    issued: int = 0
    schedulers: int = 4
    spans: list[list[tuple[str, int, int]]] = field(default_factory=list)
    slots: list[int] = field(default_factory=list)

    @property
    def utilisation(self) -> float:
        """The share of the schedulers' slots in which an instruction was issued."""
        return self.issued / (self.cycles * self.schedulers) if self.cycles else 0.0


@dataclass(eq=False)
class _Block:
    """A resident block. place: its number among these."""

    place: int
    alive: int  # warps that have not ended
    waiting: list[_Warp] = field(default_factory=list)  # at a barrier


@dataclass(eq=False)
class _Warp:
    """A resident warp. place: its row. at: its next instruction.

    free: the cycle after its last instruction. done: when the result of each
    instruction so far is ready.
    """

    place: int
    program: Program
    block: _Block
    free: int
    at: int = 0
    done: list[int] = field(default_factory=list)


def replay(
    blocks: Sequence[Sequence[Program]],
    resident: int,
    total: int,
    model: Model,
    until: int = 0,
) -> Run:
    """Run `total` blocks, `resident` at a time; after the last of `blocks` the first.

    blocks: the programs of each one's warps. until: the number of cycles with spans.
    """
    return _Replay(blocks, resident, total, model, until).run()


class _Replay:
    def __init__(
        self,
        blocks: Sequence[Sequence[Program]],
        resident: int,
        total: int,
        model: Model,
        until: int,
    ) -> None:
        self.blocks, self.total, self.model, self.until = blocks, total, model, until
        self.resident = min(resident, total)
        self.warps = len(blocks[0])  # of a block
        self.out = Run(self.resident * self.warps, schedulers=model.schedulers)
        self.out.spans = [[] for _ in range(self.out.warps)]
        self.out.slots = [0] * until
        self.latency = model.latencies()
        self.queue: list[tuple[int, int, _Warp]] = []  # (ready from, order, warp)
        self.order = self.started = 0

    def run(self) -> Run:
        """Issue one instruction after the other."""
        slot_free = [0] * self.model.schedulers  # each scheduler's next free cycle
        for place in range(self.resident):
            self._start_warp(place, 0)
        while self.queue:
            ready, _, warp = heapq.heappop(self.queue)
            scheduler = warp.place % self.model.schedulers
            now = max(ready, slot_free[scheduler])
            slot_free[scheduler] = now + 1
            self._note_state(warp, READY, ready, now)
            self._issue_instruction(warp, now)
        return self.out

    def _issue_instruction(self, warp: _Warp, now: int) -> None:
        self._note_state(warp, ISSUING, now, now + 1)
        if now < self.until:
            self.out.slots[now] += 1
        self.out.issued += 1
        kind = warp.program[warp.at].kind
        warp.done.append(now + self.latency[kind])
        warp.at += 1
        warp.free = now + 1
        if kind != BARRIER:
            self._go_on(warp)
            return
        block = warp.block
        block.waiting.append(warp)
        if len(block.waiting) == block.alive:
            self._open_interval(block, now + self.model.barrier)

    def _go_on(self, warp: _Warp) -> None:
        """Queue the warp's next instruction, or end it."""
        if warp.at == len(warp.program):
            self._end_interval(warp)
            return
        ready, why = warp.free, ""
        for number in warp.program[warp.at].after:
            if warp.done[number] > ready:
                ready, why = warp.done[number], warp.program[number].kind
        self._note_state(warp, MEMORY if why == GLOBAL else NEAR, warp.free, ready)
        self.order += 1
        heapq.heappush(self.queue, (ready, self.order, warp))

    def _open_interval(self, block: _Block, now: int) -> None:
        """Release all warps of the block: the barrier is complete."""
        waiting, block.waiting = block.waiting, []
        for warp in waiting:
            self._note_state(warp, OTHERS, warp.free, now)
            warp.free = now
        for warp in waiting:
            self._go_on(warp)

    def _end_interval(self, warp: _Warp) -> None:
        block = warp.block
        block.alive -= 1
        if not block.alive:
            self.out.cycles = max(self.out.cycles, warp.free)
            if self.started < self.total:
                self._start_warp(block.place, warp.free)
        elif len(block.waiting) == block.alive:
            self._open_interval(block, max(warp.free, *(w.free for w in block.waiting)))

    def _start_warp(self, place: int, now: int) -> None:
        programs = self.blocks[self.started % len(self.blocks)]
        self.started += 1
        block = _Block(place, len(programs))
        warps = [
            _Warp(place * self.warps + i, program, block, now)
            for i, program in enumerate(programs)
        ]
        for warp in warps:
            self._go_on(warp)

    def _note_state(self, warp: _Warp, state: str, start: int, end: int) -> None:
        if start < min(end, self.until):
            self.out.spans[warp.place].append((state, start, min(end, self.until)))
