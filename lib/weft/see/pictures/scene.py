"""Select the part of a launch to draw, and draw its threads.

Scene contains the selected blocks, threads, arrays and accesses.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ...base.style import DIM, PALE, THREAD, WIDTH
from ...pykernel.sim.layout import LOCAL, Trace, TracedArray
from ...report.model import Finding, Report
from . import svg
from .grid import Grid, fit
from .panels import EDGE, LEFT, Panel, Wish, beside
from .svg import label, num, remark
from .touches import Index3, Touches, block_name, ravel, short, touches, unravel

# Smallest size of a thread, in pixels, with room for a number in its circle.
SIDE = 26.0
NAMED = 46.0  # width of a block's name in pixels, if there are several blocks


@functools.lru_cache(maxsize=4096)
def name_of(thread: int, block: Index3) -> str:
    """Write a thread's index in its block's dimensions, such as "3" or "3,0"."""
    return short(unravel(thread, block), block)


def place_threads(trace: Trace, blocks: Sequence[int], top: float) -> dict[int, Grid]:
    """Return the threads' grid for each of these blocks; {} if they do not all fit.

    A single one-dimensional block always fits, as a row of threads or in rows of 32
    (warps).
    """
    x, y, z = trace.block
    room = WIDTH - LEFT - EDGE - 36
    if len(blocks) == 1:
        rows, cols, side = (-(-x // 32), 32, 20) if x > 32 else (1, x, 32)
        return {blocks[0]: fit(x, 1, rows, cols, room, 520, side).at(LEFT, top)}
    across, down, deep = trace.grid
    if deep > 1 or z > 1 or len(blocks) > 64:
        return {}
    name = NAMED if y == 1 else 0.0
    spacing = max(24.0 + name, 120.0 - SIDE * x if y > 1 else 0)
    side = min(32.0, (room + 36 - spacing * across) / (x * across))
    if side < SIDE or down * (y * SIDE + 36) > 330:
        return {}
    out = {}
    for block in blocks:
        bx, by, _ = unravel(block, trace.grid)
        grid = Grid(x * y, 1, y, x, float(int(side)))
        left = LEFT + name + bx * (grid.width + spacing)
        out[block] = grid.at(left, top + by * (grid.height + (36 if y > 1 else 24)))
    return out


def place_block(trace: Trace, block: int, top: float) -> Panel:
    """Place a single block of two or three dimensions, with its axes."""
    x, y, z = trace.block
    shape = (z, y, x) if z > 1 else (y, x)
    index = ", ".join(str(i) for i in unravel(block, trace.grid)[: 3 if z > 1 else 2])
    array = TracedArray("threads", "", shape, np.dtype("int32"), True)
    names = name_thread_axes(trace, block)
    gutter = 7.0 * len(str(y - 1)) + 22 + 6.8 * len(names[1])
    wish = Wish(-1, array, 0, gutter, f"blockIdx = ({index})")
    longest = name_of(x * y * z - 1, trace.block)
    most = 32.0 if svg.width_of(longest, 11) < 25 and x * y * z <= 64 else 16.0
    return beside([wish], "below", EDGE, top, 430, most, frame=7)[0]


def name_thread_axes(trace: Trace, block: int) -> tuple[str, str, str]:
    """Return the kernel's names for threadIdx.x, .y and .z: locals equal to them."""
    indices = [unravel(t, trace.block) for t in range(int(np.prod(trace.block)))]
    names = [trace.names.get((block, t), {}) for t in range(len(indices))]
    out = []
    for axis, letter in enumerate("xyz"):
        fits = [
            name
            for name in names[0]
            if trace.block[axis] > 1
            and all(n.get(name) == i[axis] for n, i in zip(names, indices))
        ]
        # In block 0, `row` also equals `ty`. The shorter name usually belongs to the
        # thread.
        out.append(min(fits, key=len) if fits else f"threadIdx.{letter}")
    return out[0], out[1], out[2]


def draw_threads(
    grid: Grid, active: np.ndarray, block: Index3, number: int, filled: bool = True
) -> str:
    """Draw a block's threads: active ones coloured, the others pale.

    filled: whether active threads are filled; False if one thread is selected.
    """
    threads = np.arange(grid.count)
    idle = np.setdiff1d(threads, active)
    radius = _compute_radius(grid)
    out = []
    if len(active):
        numbers = ",".join(map(str, active.tolist()))
        out.append(
            f'<path d="{_draw_circles(grid, active, radius)}" fill="{THREAD}" '
            f'fill-opacity="{svg.FILL * filled}" stroke="{THREAD}" '
            f'data-block="{number}" data-threads="{numbers}"/>'
        )
    if len(idle):
        path = _draw_circles(grid, idle, radius)
        out.append(f'<path d="{path}" fill="none" {PALE}/>')
    texts = [name_of(int(t), block) for t in threads]
    if max(svg.width_of(text, 11) for text in texts) <= 2 * radius - 1:
        acts = set(active.tolist())
        for thread, text in enumerate(texts):
            x, y = grid.middle(thread)
            faint = not filled or thread not in acts
            out.append(label(x, y + 4, text, 11, anchor="middle", faint=faint))
    return "".join(out)


def draw_thread(grid: Grid, thread: int, runs: bool) -> str:
    """Draw the selected thread."""
    x, y = grid.middle(thread)
    mark = svg.thread(x, y, _compute_radius(grid) + 0.5, runs=runs)
    return mark.replace("<circle ", '<circle stroke-width="2.6" ', 1)


def draw_thread_frames(trace: Trace, grids: dict[int, Grid]) -> str:
    """Draw the frame of each block, and its name if there are several."""
    out = []
    flat = trace.block[1] == trace.block[2] == 1
    for block, grid in grids.items():
        left, wide = grid.left - 6, grid.width + 10
        index = short(unravel(block, trace.grid), trace.grid)
        if len(grids) > 1 and flat:
            left, wide = left - NAMED + 6, wide + NAMED - 6
            y = grid.top + grid.side / 2
            out.append(remark(left + 8, y - 3, "block"))
            out.append(remark(left + 8, y + 11, index, mono=True))
        elif len(grids) > 1:
            y = grid.top + grid.height + 18
            named = f"block ({index})" if "," in index else f"block {index}"
            out.append(remark(left + 4, y, named))
        look = dict(radius=8, stroke=1.2, strength=DIM)
        out.append(svg.box(left, grid.top - 6, wide, grid.height + 10, **look))
    return "".join(out)


def label_threads_and_warps(trace: Trace, grids: dict[int, Grid]) -> str:
    """Draw the threads' label to their left, and warp numbers to their right."""
    first = next(iter(grids.values()))
    y = first.top + min(first.side, 30) / 2 + 2
    x = LEFT - 14
    out = label(x, y, "threads", 14, anchor="end", mono=True, bold=True)
    if len(grids) > 1:
        return out
    name = block_name(next(iter(grids)), trace).removeprefix("block ")
    text = f"blockIdx = {name}" if "," in name else f"blockIdx.x = {name}"
    out += remark(x, y + 15, text, anchor="end", mono=True)
    if first.rows > 1 and trace.block[1] == 1 and first.side >= 11:
        right = first.left + first.width + 12
        for row in range(first.rows):
            at = first.top + row * first.side + first.cell / 2 + 4
            out += remark(right, at, f"warp {row}")
    return out


def draw_thread_axes(panel: Panel, names: tuple[str, str, str]) -> str:
    """Draw labels along the sides of a block with two or three dimensions."""
    grid = panel.grid
    x = grid.left + grid.cols * grid.side / 2
    y = grid.top + grid.rows * grid.side / 2 + 4
    down = grid.top + grid.height + 23 + panel.frame
    left = grid.left - 7.0 * len(str(grid.rows - 1)) - 10 - panel.frame
    out = label(x, down, names[0], 11, anchor="middle", mono=True, bold=True)
    if grid.rows > 1:
        out += label(left, y, names[1], 11, anchor="end", mono=True, bold=True)
    if grid.planes > 1:
        deep = f"{names[2]} = 0 … {grid.planes - 1}, one plane after the other"
        out += remark(grid.left + grid.width + 16, grid.top + 12, deep)
    return out


def _compute_radius(grid: Grid) -> float:
    return max(1.5, grid.side / 2 - (3 if grid.side > 15 else 1.2))


def _draw_circles(grid: Grid, threads: np.ndarray, radius: float) -> str:
    x, y = grid.corners(threads)
    r, d = num(radius), num(2 * radius)
    half = grid.cell / 2
    return "".join(
        f"M{num(a + half - radius)} {num(b + half)}a{r} {r} 0 1 0 {d} 0"
        f"a{r} {r} 0 1 0 -{d} 0z"
        for a, b in zip(x, y)
    )


MANY = 32  # if there are more threads, a slider selects only some
MOMENTS = 24  # maximum number of barrier intervals that are stops of the slider


@dataclass(frozen=True)
class Scene:
    """A launch and the selected part of it.

    arrays: indices of the arrays to draw, whose shapes for drawing are in `trace`.
    blocks: linear indices of the blocks to draw. thread: the linear index of the
    requested thread. found: the accesses to the drawn arrays.
    """

    trace: Trace
    report: Report | None
    arrays: tuple[int, ...]
    blocks: tuple[int, ...]
    thread: int | None
    found: Touches
    parameters: tuple[str, ...] = ()
    _kept: dict[int, Touches] = field(default_factory=dict)

    @property
    def threads(self) -> int:
        """The number of threads in a block."""
        return int(np.prod(self.trace.block))

    @functools.cached_property
    def drawn(self) -> Touches:
        """The accesses of the blocks that are drawn."""
        return self.found.where(np.isin(self.found.block, self.blocks))

    @functools.cached_property
    def intervals(self) -> list[int]:
        """The barrier intervals in which a drawn block accessed an array."""
        return [int(n) for n in np.unique(self.drawn.interval)]

    def at(self, interval: int) -> Touches:
        """Return the drawn blocks' accesses in one interval; -1: in all intervals."""
        if interval < 0:
            return self.drawn
        if interval not in self._kept:
            self._kept[interval] = self.drawn.of(interval=interval)
        return self._kept[interval]

    @property
    def findings(self) -> list[Finding]:
        """The findings of the launch."""
        return list(self.report.findings) if self.report else []

    def thread_name(self, thread: int) -> str:
        """Write the thread's index in its block's dimensions, such as "3" or "3,0"."""
        return name_of(thread, self.trace.block)

    def chosen(self) -> list[tuple[int, int]]:
        """Return each (block, thread) that a slider selects, in order."""
        if self.thread is not None:
            return [(self.blocks[0], self.thread)]
        threads = [(b, t) for b in self.blocks for t in range(self.threads)]
        if len(threads) <= MANY:
            return threads
        x, y, _ = self.trace.block
        block = self.blocks[0]
        few = [0, 1, 2, 3, min(2, x - 1) + x * min(1, y - 1), x, x + 1, 31, 32]
        few += [self.threads // 2, self.threads - 1]
        samples = sorted({t for t in few if 0 <= t < self.threads})
        faulty = [
            ravel(f.thread, self.trace.block)
            for f in self.findings
            if f.thread and f.block and ravel(f.block, self.trace.grid) == block
        ]
        return [(block, t) for t in sorted({*samples, *faulty[:4]})]


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
    """Build the Scene from arguments that show() has checked."""
    shapes, every = shapes or {}, trace.arrays
    shaped = [replace(a, shape=tuple(shapes.get(a.name, a.shape))) for a in every]
    trace = replace(trace, arrays=shaped)
    wanted = [a.space != LOCAL if arrays is None else a.name in arrays for a in every]
    indices = tuple(np.flatnonzero(wanted).tolist())
    accesses = touches(trace)
    accesses = accesses.where(np.isin(accesses.array, indices))
    if block is not None:
        blocks: tuple[int, ...] = (ravel(block, trace.grid),)
    elif all_blocks:
        blocks = tuple(range(int(np.prod(trace.grid))))
    else:
        blocks = _choose_blocks(trace, report, indices, accesses)
    if thread is not None:
        blocks = blocks[:1]
    selected = ravel(thread, trace.block) if thread is not None else None
    parts = indices, blocks, selected, accesses, tuple(parameters)
    return Scene(trace, report, *parts)


def _choose_blocks(
    trace: Trace, report: Report | None, arrays: Sequence[int], accesses: Touches
) -> tuple[int, ...]:
    """Choose all blocks if they fit, a faulty block, or the first with accesses."""
    count = int(np.prod(trace.grid))
    shared = any(trace.arrays[number].space == "shared" for number in arrays)
    if not shared and count > 1 and place_threads(trace, range(count), 0.0):
        return tuple(range(count))
    for finding in report.findings if report else ():
        if finding.block and finding.array:
            return (ravel(finding.block, trace.grid),)
    return (int(accesses.block[0]),) if len(accesses) else (0,)
