"""Model how the warps of one multiprocessor take turns and hide latency.

In each cycle, a scheduler issues one instruction of one of its warps. A warp issues its
instructions in order. An instruction waits until its inputs are ready and no other warp
has the slot. The warp that has been ready longest goes first. The warps of a block
start together, and the next block starts in the cycle in which another one ends.

The model ignores caches, the compiler, the numbers of sectors and bank conflicts, and
floating-point units narrower than a warp. It also ignores bandwidth: memory keeps up
with any number of loads.

NVIDIA's CUDA C++ Programming Guide ("Multiprocessor Level", "Compute Capabilities")
describes the schedulers. Since Volta (7.0), each of a multiprocessor's four parts has
a scheduler that issues one warp instruction per cycle. An arithmetic result is ready 4
cycles later. Luo et al. measured loads ("Benchmarking and Dissecting the Nvidia Hopper
GPU Architecture via Microbenchmarking", arXiv:2402.13499). A load from shared memory
takes about 30 cycles (29 on A100 and H100). A load from global memory that misses all
caches takes 470 to 540, and a load from the L2 cache about 260. On V100, a load from
global memory takes 375 (Jia et al., arXiv:1804.06826). The model uses 400.

The model must obey Little's law, as in V. Volkov, "Understanding latency hiding on
GPUs", Berkeley 2016: operations in flight = operations begun per cycle x duration.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field

from .warp_steps import ARITHMETIC, BARRIER, GLOBAL, SHARED, STORE, Program

ISSUING, MEMORY, NEAR, OTHERS, READY = "issuing", "memory", "near", "others", "ready"


@dataclass(frozen=True)
class Model:
    """Latencies in cycles, from an instruction's issue until its result can be used.

    schedulers: the number of schedulers, each of which issues one instruction per
    cycle. resident: the maximum number of resident warps on a multiprocessor (64 on
    A100 and H100, 48 on compute capability 8.6 and 8.9).
    """

    memory: int = 400
    shared: int = 30
    arithmetic: int = 4
    barrier: int = 1
    schedulers: int = 4
    resident: int = 64

    def latencies(self) -> dict[str, int]:
        """Return the latency of each kind of instruction in cycles."""
        loads = {GLOBAL: self.memory, SHARED: self.shared}
        return loads | {ARITHMETIC: self.arithmetic, BARRIER: self.barrier, STORE: 1}


@dataclass
class Run:
    """The result of a replay. warps: number of resident warps; cycles: total time.

    spans: for each warp slot of the multiprocessor, a list of (state, from, to)
    up to the cycle `until`. slots: the number of instructions issued in each cycle, up
    to the same cycle.
    """

    warps: int
    cycles: int = 0
    issued: int = 0
    schedulers: int = 4
    spans: list[list[tuple[str, int, int]]] = field(default_factory=list)
    slots: list[int] = field(default_factory=list)

    @property
    def utilisation(self) -> float:
        """The share of the schedulers' issue slots that were used, 0 to 1."""
        return self.issued / (self.cycles * self.schedulers) if self.cycles else 0.0


@dataclass(eq=False)
class _Block:
    """A resident block. place: its index among the resident blocks."""

    place: int
    alive: int  # warps that have not ended
    waiting: list[_Warp] = field(default_factory=list)  # warps that wait at the barrier


@dataclass(eq=False)
class _Warp:
    """A resident warp. place: its row. at: the index of its next instruction.

    free: the cycle after its last instruction. done: for each instruction so far, the
    cycle in which its result is ready.
    """

    place: int
    program: Program
    block: _Block
    free: int
    at: int = 0
    done: list[int] = field(default_factory=list)


Blocks = Sequence[Sequence[Program]]  # the programs of each block's warps


def replay(
    blocks: Blocks, resident: int, total: int, model: Model, until: int = 0
) -> Run:
    """Run `total` blocks, `resident` at a time; repeat `blocks` if it has fewer.

    until: the number of cycles for which the Run contains spans.
    """
    return _Replay(blocks, total, model, until).run(min(resident, total))


class _Replay:
    def __init__(self, blocks: Blocks, total: int, model: Model, until: int) -> None:
        self.blocks, self.total, self.model, self.until = blocks, total, model, until
        self.warps = len(blocks[0])  # number of warps in a block
        self.latency = model.latencies()
        self.queue: list[tuple[int, int, _Warp]] = []  # (ready from, order, warp)
        self.order = self.started = 0

    def run(self, resident: int) -> Run:
        """Issue all instructions, one after another."""
        self.out = Run(resident * self.warps, schedulers=self.model.schedulers)
        self.out.spans = [[] for _ in range(self.out.warps)]
        self.out.slots = [0] * self.until
        slot_free = [0] * self.model.schedulers  # the next free cycle of each scheduler
        for place in range(resident):
            self._start_block(place, 0)
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
            self._complete_barrier(block, now + self.model.barrier)

    def _go_on(self, warp: _Warp) -> None:
        """Queue the warp's next instruction, or end the warp."""
        if warp.at == len(warp.program):
            self._end_warp(warp)
            return
        ready, why = warp.free, ""
        for number in warp.program[warp.at].after:
            if warp.done[number] > ready:
                ready, why = warp.done[number], warp.program[number].kind
        self._note_state(warp, MEMORY if why == GLOBAL else NEAR, warp.free, ready)
        self.order += 1
        heapq.heappush(self.queue, (ready, self.order, warp))

    def _complete_barrier(self, block: _Block, now: int) -> None:
        """Release all warps of the block, since the barrier is complete."""
        waiting, block.waiting = block.waiting, []
        for warp in waiting:
            self._note_state(warp, OTHERS, warp.free, now)
            warp.free = now
        for warp in waiting:
            self._go_on(warp)

    def _end_warp(self, warp: _Warp) -> None:
        block = warp.block
        block.alive -= 1
        if not block.alive:
            self.out.cycles = max(self.out.cycles, warp.free)
            if self.started < self.total:
                self._start_block(block.place, warp.free)
        elif len(block.waiting) == block.alive:
            free = [one.free for one in (warp, *block.waiting)]
            self._complete_barrier(block, max(free))

    def _start_block(self, place: int, now: int) -> None:
        programs = self.blocks[self.started % len(self.blocks)]
        self.started += 1
        block = _Block(place, len(programs))
        for row, program in enumerate(programs, place * self.warps):
            self._go_on(_Warp(row, program, block, now))

    def _note_state(self, warp: _Warp, state: str, start: int, end: int) -> None:
        if start < min(end, self.until):
            self.out.spans[warp.place].append((state, start, min(end, self.until)))
