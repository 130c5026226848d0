"""What of a launch is drawn: which blocks, which threads, which arrays and moments."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ...pykernel.sim.record import LOCAL, Trace, TracedArray
from ...report.model import Finding, Report
from .threads import name_of, places
from .touches import Touches, ravel, touches

MANY = 32  # threads: with more, some are chosen
MOMENTS = 24  # barrier intervals that the slider stops at


@dataclass(frozen=True)
class Scene:
    """A launch and what of it is wanted.

    arrays: numbers of the arrays to draw, with their drawn shapes in `trace`. blocks:
    linear, to draw; singled: whether the reader asked for one. thread: linear, the one
    the reader asked for. found: the accesses of the arrays that are drawn.
    """

    trace: Trace
    report: Report | None
    arrays: tuple[int, ...]
    blocks: tuple[int, ...]
    singled: bool
    thread: int | None
    found: Touches
    parameters: tuple[str, ...] = ()
    _kept: dict[int, Touches] = field(default_factory=dict)

    @property
    def threads(self) -> int:
        """Of a block."""
        return int(np.prod(self.trace.block))

    @functools.cached_property
    def drawn(self) -> Touches:
        """The accesses of the blocks that are drawn."""
        return self.found.where(np.isin(self.found.block, self.blocks))

    @functools.cached_property
    def intervals(self) -> list[int]:
        """The barrier intervals in which a drawn block touched anything."""
        return [int(n) for n in np.unique(self.drawn.interval)]

    def at(self, interval: int) -> Touches:
        """The accesses of the drawn blocks in one interval; -1: in all of them."""
        if interval not in self._kept:
            whole = self.drawn
            found = whole if interval < 0 else whole.of(interval=interval)
            self._kept[interval] = found
        return self._kept[interval]

    @property
    def findings(self) -> list[Finding]:
        """What went wrong in the blocks that are drawn, or anywhere in the launch."""
        return list(self.report.findings) if self.report else []

    def thread_name(self, thread: int) -> str:
        """The thread's index as far as its block has dimensions: "3", "3,0"."""
        return name_of(thread, self.trace.block)

    def chosen(self) -> list[tuple[int, int]]:
        """The (block, thread) that a slider singles out, one after the other."""
        if self.thread is not None:
            return [(self.blocks[0], self.thread)]
        every = [(b, t) for b in self.blocks for t in range(self.threads)]
        if len(every) <= MANY:
            return every
        x, y, _ = self.trace.block
        block = self.blocks[0]
        few = [0, 1, 2, 3, min(2, x - 1) + x * min(1, y - 1), x, x + 1, 31, 32]
        few += [self.threads // 2, self.threads - 1]
        kept = sorted({t for t in few if 0 <= t < self.threads})
        faulty = [
            ravel(f.thread, self.trace.block)
            for f in self.findings
            if f.thread and f.block and ravel(f.block, self.trace.grid) == block
        ]
        return [(block, t) for t in sorted({*kept, *faulty[:4]})]


def scene(
    trace: Trace,
    report: Report | None = None,
    *,
    thread: Sequence[int] | None = None,
    block: Sequence[int] | None = None,
    arrays: Sequence[str] | None = None,
    shapes: dict[str, tuple[int, ...]] | None = None,
    parameters: Sequence[str] = (),
    all_blocks: bool = False,
) -> Scene:
    """The Scene for these wishes, which show() has checked."""
    shapes = shapes or {}
    drawn = [
        replace(a, shape=tuple(shapes[a.name])) if a.name in shapes else a
        for a in trace.arrays
    ]
    trace = replace(trace, arrays=drawn)
    wanted = tuple(i for i, a in enumerate(drawn) if _is_wanted(a, arrays))
    found = touches(trace)
    found = found.where(np.isin(found.array, wanted))
    if block is not None:
        blocks: tuple[int, ...] = (ravel(block, trace.grid),)
    else:
        blocks = _choose_blocks(trace, report, [drawn[i] for i in wanted], found)
    if all_blocks and block is None:
        blocks = tuple(range(int(np.prod(trace.grid))))
    if thread is not None and block is None:
        blocks = blocks[:1]
    one = ravel(thread, trace.block) if thread is not None else None
    return Scene(
        trace, report, wanted, blocks, block is not None, one, found, tuple(parameters)
    )


def _is_wanted(array: TracedArray, arrays: Sequence[str] | None) -> bool:
    return array.space != LOCAL if arrays is None else array.name in arrays


def _choose_blocks(
    trace: Trace, report: Report | None, arrays: Sequence[TracedArray], found: Touches
) -> tuple[int, ...]:
    """All blocks if there is room for them; else a faulty one, or the first at work."""
    count = int(np.prod(trace.grid))
    shared = any(a.space == "shared" for a in arrays)
    if not shared and count > 1 and places(trace, range(count), 0.0):
        return tuple(range(count))
    for finding in report.findings if report else ():
        if finding.block and finding.array:
            return (ravel(finding.block, trace.grid),)
    return (int(found.block[0]),) if len(found) else (0,)
