"""Draw how a warp's lanes load bytes and queue at bins; model how warps take turns.

draw_widths()                  512 bytes, with a slider for the width of the loads
play_queues(noise, digit)      queues of 32 keys, with a slider from noise to digit
replay(blocks, ...)            the turns of warps, which latency.py draws
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field

from ...base.errors import ArgumentError
from ...base.style import DIM, FAULT, READ, SHARED, WIDTH
from ...base.text import count_things
from . import svg
from .panels import EDGE
from .svg import Drawing, Slider, arrow, behind, box, label, num, remark, rule, thread
from .warp_steps import ARITHMETIC, BARRIER, GLOBAL, STORE, Program
from .warp_steps import SHARED as SHARED_LOAD

# ---- widths --------------------------------------------------------------------------

LANES, SECTOR, BYTES = 32, 32, 512  # lanes of a warp; bytes of a sector; bytes moved
WIDTHS = (1, 2, 4, 8, 16)  # bytes that a lane loads at a time
BYTE = (WIDTH - 2 * EDGE) / BYTES  # width of a byte in pixels
THREADS, ROW, HIGH = 86.0, 168.0, 34.0  # y of lanes; y and height of the row


def draw_widths(start: int = 4) -> Drawing:
    """Return the picture of one warp's requests.

    start: the first width, in bytes. Raises ArgumentError if it is not in WIDTHS.
    """
    if start not in WIDTHS:
        known = ", ".join(map(str, WIDTHS))
        raise ArgumentError(f"draw_widths({start}): a lane loads {known} bytes")
    title = f"A warp moves {BYTES} bytes: {BYTES // SECTOR} sectors, in any width"
    base = (
        label(EDGE, 20, title, 16, bold=True) + _draw_loading_lanes() + _draw_sectors()
    )
    frames = {(at,): _draw_width(width) for at, width in enumerate(WIDTHS)}
    stops = tuple(count_things(width, "byte") for width in WIDTHS)
    account = "; ".join(_describe_width(width) for width in WIDTHS)
    sliders, at = [Slider("per lane", stops)], (WIDTHS.index(start),)
    return Drawing(title, WIDTH, 248, base, sliders, frames, at, f"{title}. {account}")


def _describe_width(width: int) -> str:
    """Describe the requests of loads that have this width."""
    lanes = f"{count_things(width, 'byte')} per lane"
    requests = count_things(BYTES // (LANES * width), "request")
    return f"{lanes}: {requests} of {count_things(width, 'sector')}"


def _find_lane(lane: int) -> float:
    """Return the x of a lane's middle: above its bytes, if it loads 16 of them."""
    return EDGE + (lane + 0.5) * BYTES / LANES * BYTE


def _draw_loading_lanes() -> str:
    """Draw the lanes with their numbers."""
    out = remark(EDGE, THREADS - 20, "the lanes of the warp")
    for lane in range(LANES):
        out += svg.thread(_find_lane(lane), THREADS, 11)
        out += label(_find_lane(lane), THREADS + 4, str(lane), 11, anchor="middle")
    return out


def _draw_sectors() -> str:
    """Draw the row of sectors, and the first byte of each."""
    out = ""
    for sector in range(BYTES // SECTOR):
        left, wide = EDGE + sector * SECTOR * BYTE, SECTOR * BYTE
        out += box(left, ROW, wide, HIGH, radius=0, strength=DIM)
        out += remark(left + 2, ROW + HIGH + 14, str(sector * SECTOR))
    return out + remark(WIDTH - EDGE, ROW + HIGH + 28, "byte", anchor="end")


def _draw_width(width: int) -> list[str]:
    """Draw the requests of loads that have this width."""
    span = LANES * width * BYTE  # width of a request in pixels
    out = [label(EDGE, 42, _describe_width(width), 13)]
    out.append(
        rule("".join(_draw_line(lane, width) for lane in range(LANES)), width="1")
    )
    for request in range(BYTES // (LANES * width)):
        left = EDGE + request * span
        look = {"colour": READ, "fill": 0.0 if request else svg.FILL}
        out.append(box(left + 1.5, ROW + 2, span - 3, HIGH - 4, stroke=2, **look))
        out.append(label(left + 8, ROW + 21, str(request)))
    text = "blue: the bytes of a request, with its number"
    return [*out, remark(EDGE, ROW + HIGH + 34, text)]


def _draw_line(lane: int, width: int) -> str:
    """Draw a line from a lane to its bytes of the first request."""
    below = EDGE + (lane + 0.5) * width * BYTE
    return f"M{num(_find_lane(lane))} {num(THREADS + 12)}L{num(below)} {num(ROW)}"


# ---- queues --------------------------------------------------------------------------

LANE, TOP = 26.0, 74.0  # width of a lane, and y of the lanes' circles, in pixels
BINS, PLACE = 200.0, 13.0  # y of the bins, and height of a place in a queue
STOPS = 5  # positions of the slider, from no lane of the second warp to all


def play_queues(noise: Sequence[int], digit: Sequence[int]) -> Drawing:
    """Return 32 lanes with arrows to their bins, and the queues below the bins.

    noise, digit: the bins of the lanes of two warps, 32 whole numbers each. The slider
    replaces the lanes of the first warp with those of the second, eight at a time.
    Raises ArgumentError for another number of lanes.
    """
    for name, keys in ("noise", noise), ("digit", digit):
        if len(keys) != LANES:
            raise ArgumentError(f"play_queues: {name} has {len(keys)} keys, not 32")
    counts = [LANES * stop // (STOPS - 1) for stop in range(STOPS)]
    warps = [[*map(int, digit[:n]), *map(int, noise[n:])] for n in counts]
    stops = ["noise", *(f"{n} lanes of a digit" for n in counts[1:-1]), "digit"]
    title = "The 32 lanes of a warp update their bins"
    frames = {(at,): _draw_warp(warp) for at, warp in enumerate(warps)}
    account = f"{title}. " + "; ".join(
        f"{stop}: {_describe_warp(warp)}" for stop, warp in zip(stops, warps)
    )
    longest = max(len(queue) for warp in warps for queue in list_queues(warp).values())
    size = 2 * EDGE + LANES * LANE, BINS + 34 + longest * PLACE
    base = label(EDGE, 24, title, 16, bold=True)
    sliders = [Slider("warp", tuple(stops))]
    return Drawing(title, *size, base, sliders, frames, (STOPS - 1,), account)


def list_queues(keys: Sequence[int]) -> dict[int, list[int]]:
    """Return the lanes that update each bin, by bin in ascending order."""
    return {
        key: [lane for lane, own in enumerate(keys) if own == key]
        for key in sorted(set(keys))
    }


def _describe_warp(keys: Sequence[int]) -> str:
    queues = list_queues(keys)
    longest = max(map(len, queues.values()))
    bins = count_things(len(queues), "bin")
    return f"{bins}; the longest queue has {count_things(longest, 'lane')}"


def _draw_warp(keys: Sequence[int]) -> list[str]:
    """Draw the lanes, an arrow for each, and the bins with their queues."""
    queues = list_queues(keys)
    out = [label(EDGE, 48, _describe_warp(keys), 13)]
    out += [_draw_updating_lane(lane) for lane in range(LANES)]
    apart = LANES * LANE / len(queues)
    for place, (key, lanes) in enumerate(queues.items()):
        middle = EDGE + (place + 0.5) * apart
        # Draw the first lane last, so that no pale curve covers its arrow.
        for lane in reversed(lanes):
            out.append(_draw_way(_find_middle(lane), middle, lane == lanes[0]))
        out.append(_draw_queue(middle, key, lanes))
    return out


def _find_middle(lane: int) -> float:
    return EDGE + (lane + 0.5) * LANE


def _draw_updating_lane(lane: int) -> str:
    x = _find_middle(lane)
    return thread(x, TOP, 11) + label(x, TOP + 4, str(lane), 11, anchor="middle")


def _draw_way(start: float, end: float, is_first: bool) -> str:
    """Draw the arrow of a bin's first lane, or the pale curve of a lane that waits."""
    top, bottom = TOP + 12, BINS - 2
    if is_first:
        return arrow((start, top), (end, bottom), SHARED)
    bend = 0.55 * (bottom - top)
    path = (
        f"M{num(start)} {num(top)}C{num(start)} {num(top + bend)} "
        f"{num(end)} {num(bottom - bend)} {num(end)} {num(bottom)}"
    )
    return behind(path, FAULT)


def _draw_queue(middle: float, key: int, lanes: Sequence[int]) -> str:
    """Draw a bin with its number, and below it a place for each lane that waits."""
    wide = LANE - 3
    out = box(middle - wide / 2, BINS, wide, 20, colour=SHARED, fill=svg.FILL)
    out += label(middle, BINS + 14, str(key), 11, anchor="middle")
    for turn in range(len(lanes) - 1):
        y = BINS + 24 + turn * PLACE
        out += box(middle - wide / 2, y, wide, PLACE - 2, strength=DIM, radius=2)
    if len(lanes) > 1:
        y = BINS + 24 + (len(lanes) - 1) * PLACE + 9
        out += remark(middle, y, f"+{len(lanes) - 1}", anchor="middle")
    return out


# ---- warps that take turns -----------------------------------------------------------

# In each cycle, a scheduler issues one instruction of one of its warps. A warp issues
# its instructions in order. An instruction waits until its inputs are ready and no
# other warp has the slot. The warp that has been ready longest goes first. The warps
# of a block start together, and the next block starts in the cycle in which another
# one ends.
#
# The model ignores caches, the compiler, the numbers of sectors and bank conflicts,
# and floating-point units narrower than a warp. It also ignores bandwidth: memory
# keeps up with any number of loads.
#
# NVIDIA's CUDA C++ Programming Guide ("Multiprocessor Level", "Compute Capabilities")
# describes the schedulers. Since Volta (7.0), each of a multiprocessor's four parts
# has a scheduler that issues one warp instruction per cycle. An arithmetic result is
# ready 4 cycles later. Luo et al. measured loads ("Benchmarking and Dissecting the
# Nvidia Hopper GPU Architecture via Microbenchmarking", arXiv:2402.13499). A load
# from shared memory takes about 30 cycles (29 on A100 and H100). A load from global
# memory that misses all caches takes 470 to 540, and a load from the L2 cache about
# 260. On V100, a load from global memory takes 375 (Jia et al., arXiv:1804.06826).
# The model uses 400.
#
# The model must obey Little's law, as in V. Volkov, "Understanding latency hiding on
# GPUs", Berkeley 2016: operations in flight = operations begun per cycle x duration.

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
        loads = {GLOBAL: self.memory, SHARED_LOAD: self.shared}
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
