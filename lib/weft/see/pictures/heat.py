"""Draw the number of accesses to each cell: heat maps of reads and writes per array."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...base.style import PALE, READ, SHARED, THREAD, WIDTH, WRITTEN
from ...base.text import count_things
from ...pykernel.sim.warp import WARP
from . import svg
from .foot import conclude
from .grid import Grid, binned, fit, fit_line, picture
from .panels import EDGE, cells, drawn_shape
from .scene import Scene
from .svg import Drawing, Slider, label, num, remark
from .touches import Touches, block_name, size_of

LEVELS = 6  # number of strengths that the eye can distinguish
BLOCKS = 40  # maximum number of stops of the slider
# Maximum product of the recorded accesses and the stops of the slider.
ROWS = 1_500_000
# Width of a column in pixels: reads on the left, writes on the right.
COLUMN = (WIDTH - 2 * EDGE - 40) / 2


@dataclass(frozen=True)
class _Map:
    """A heat map of reads or writes of an array. per: the count by element."""

    number: int
    verb: str
    colour: str
    grid: Grid
    per: np.ndarray

    @property
    def top(self) -> int:
        return max(int(self.per.max()), 1)


def draw(scene: Scene) -> Drawing:
    """Draw the picture, with a slider for the block."""
    most = max(1, min(BLOCKS, ROWS // max(1, len(scene.found))))
    blocks = list(scene.blocks)[:most]
    stops: list[int | None] = [None, *blocks] if len(blocks) > 1 else [None]
    trace = scene.trace
    base = [label(EDGE, 28, f"{trace.kernel}: accesses to each cell", 17, bold=True)]
    maps, y = _draw_maps(scene, 62.0)
    for one in maps:
        name = trace.arrays[one.number].name
        base += [_write_title(scene, one), cells(one.grid, name), _draw_scale(one)]
    warps = _list_warps(scene, y + 14)
    y += 14 + warps.height + 30
    base.append(_name_warps(warps))
    foot, y = conclude(scene, y)
    frames = {
        (i,): _draw_frame(scene, block, maps, warps) for i, block in enumerate(stops)
    }
    names = ["all blocks" if b is None else block_name(b, trace) for b in stops]
    title = f"{trace.kernel}: how often each cell is touched"
    slider = Slider("block", tuple(names))
    return Drawing(title, WIDTH, y + 4, "".join(base) + foot, [slider], frames, (0,))


def _choose_grid(shape: tuple[int, ...]) -> Grid:
    planes, rows, cols = drawn_shape(shape)
    if len(shape) <= 1:
        return fit_line(cols, COLUMN, 150, 22)
    return fit(planes * rows * cols, planes, rows, cols, COLUMN, 240, 22)


def _count_touches(found: Touches, number: int, verb: str, grid: Grid) -> np.ndarray:
    accesses = found.of(array=number)
    mask = accesses.reads if verb == "read" else accesses.writes
    return np.bincount(accesses.element[mask], minlength=grid.count)[: grid.count]


def _draw_maps(scene: Scene, y: float) -> tuple[list[_Map], float]:
    """Lay out two maps per row, reads and writes of one array side by side."""
    lines: list[list[tuple[int, str, str]]] = []
    for number in scene.arrays:
        accesses, array = scene.found.of(array=number), scene.trace.arrays[number]
        base = SHARED if array.space == "shared" else READ
        kinds = [(number, "read", base)] * bool(accesses.reads.any())
        kinds += [(number, "written", WRITTEN)] * bool(accesses.writes.any())
        if not lines or len(lines[-1]) + len(kinds) > 2:
            lines.append([])
        lines[-1] += kinds
    out: list[_Map] = []
    for line in lines:
        for i, (number, verb, colour) in enumerate(line):
            grid = _choose_grid(scene.trace.arrays[number].shape)
            grid = grid.at(EDGE + i * (COLUMN + 40), y + 26)
            per = _count_touches(scene.found, number, verb, grid)
            out.append(_Map(number, verb, colour, grid, per))
        y += max((one.grid.height for one in out[-len(line) :]), default=0) + 64
    return out, y


def _write_title(scene: Scene, one: _Map) -> str:
    array, hot = scene.trace.arrays[one.number], one.per[one.per > 0]
    low, high = int(hot.min()), int(hot.max())
    times = f"{low} times" if low == high else f"{low} to {high} times"
    frequency = "once" if high == 1 else times
    size = f"{size_of(array)}{', shared' * (array.space == 'shared')}"
    caption = f"{size}: {count_things(len(hot), 'cell')} {one.verb} {frequency}"
    x, y = one.grid.left, one.grid.top - 14
    start = x + svg.width_of(array.name, 14, mono=True) + 8
    text = svg.clipped(caption, x + COLUMN - start, 11.5)
    out = label(x, y, array.name, 14, mono=True, bold=True)
    return out + label(start, y, text, 11.5, faint=True)


def _draw_scale(one: _Map) -> str:
    """Draw the scale of strengths, from 1 to the largest count."""
    x, y = one.grid.left, one.grid.top + one.grid.height + 10
    levels = min(LEVELS, one.top)
    out = remark(x, y + 10, "1") * (one.top > 1)
    x += 12 * (one.top > 1)
    for level in range(1, levels + 1):
        fill = _scale_strength(level / levels)
        out += svg.box(x, y, 16, 12, colour=one.colour, fill=fill, radius=0)
        x += 16
    return out + remark(x + 6, y + 10, f"{one.top} time{'s' * (one.top > 1)}")


def _scale_strength(share: float) -> float:
    """Return the opacity for a share between 0 and 1."""
    return 0.16 + 0.84 * share


def _draw_frame(
    scene: Scene, block: int | None, maps: list[_Map], warps: Grid
) -> list[str]:
    accesses = scene.drawn if block is None else scene.found.of(block=block)
    out = [label(EDGE, 48, _describe(scene, accesses, block), 13, faint=True)]
    for one in maps:
        per = one.per
        if block is not None:
            per = _count_touches(accesses, one.number, one.verb, one.grid)
        name = svg.escape(scene.trace.arrays[one.number].name)
        shades = _draw_map(per / one.top, one.grid, one.colour, min(LEVELS, one.top))
        out.append(f'<g data-array="{name}" data-kind="{one.verb}">{shades}</g>')
    return [*out, _draw_strip(scene, accesses, warps)]


def _draw_map(share: np.ndarray, grid: Grid, colour: str, levels: int) -> str:
    if grid.is_large:
        strength = np.where(share > 0, _scale_strength(np.minimum(share, 1)), 0)
        return picture(binned(strength, grid), colour, grid)
    level = np.ceil(np.minimum(share, 1) * levels).astype(int)
    out = []
    for one in range(1, levels + 1):
        path = grid.squares(np.flatnonzero(level == one))
        if path:
            fill = f'fill="{colour}" fill-opacity="{_scale_strength(one / levels):.2f}"'
            out.append(f'<path d="{path}" {fill} data-level="{one}"/>')
    return "".join(out)


def _describe(scene: Scene, accesses: Touches, block: int | None) -> str:
    blocks = len(scene.blocks) if block is None else 1
    threads = count_things(scene.threads * blocks, "thread")
    reads = count_things(int(accesses.reads.sum()), "read")
    writes = count_things(int(accesses.writes.sum()), "write")
    return f"{threads}: {reads} and {writes}. A stronger colour means more accesses."


def _list_warps(scene: Scene, top: float) -> Grid:
    """Return a grid with a row for each warp of a block, and a cell for each thread."""
    rows = -(-scene.threads // WARP)
    cols = min(WARP, scene.threads)
    return fit(scene.threads, 1, rows, cols, 460, 260, 16).at(EDGE + 130, top)


def _name_warps(warps: Grid) -> str:
    x = warps.left - 10
    out = label(EDGE, warps.top + 11, "threads", 14, mono=True, bold=True)
    spacing = max(1, int(np.ceil(13 / warps.side)))
    for row in range(0, warps.rows, spacing):
        y = warps.top + row * warps.side + warps.side / 2 + 4
        out += remark(x, y, f"warp {row}", anchor="end")
    note = "lanes 0 to 31: stronger colours, more accesses"
    return out + remark(warps.left + warps.width + 12, warps.top + 11, note)


def _draw_strip(scene: Scene, accesses: Touches, warps: Grid) -> str:
    per = np.bincount(accesses.thread, minlength=scene.threads).astype(float)
    per = per[: scene.threads]
    idle = warps.squares(np.flatnonzero(per == 0))
    out = f'<path d="{idle}" fill="none" {PALE} stroke-width="{num(0.8)}"/>'
    share = per / max(per.max(), 1)
    return (out if idle else "") + _draw_map(share, warps, THREAD, LEVELS)
