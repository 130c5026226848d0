"""Draw the number of accesses to each cell: heat maps of reads and writes per array.

If every map's cells have equal counts, the maps would be flat fields. A sentence then
replaces the scales, and the maps are small. A slider still selects a block's cells.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...base.style import PALE, READ, SHARED, THREAD, WIDTH, WRITTEN
from ...base.text import count_things
from ...pykernel.sim.warp import WARP
from . import svg
from .findings import conclude, counts
from .grid import Grid, binned, fit, fit_line, picture
from .panels import EDGE, cells, drawn_shape
from .scene import Scene
from .svg import Drawing, Slider, label, num, remark
from .touches import Touches, block_name, size_of

LEVELS = 6  # number of strengths that the eye can distinguish
BLOCKS = 40  # maximum number of stops of the slider
# Maximum product of recorded accesses and slider stops.
ROWS = 1_500_000
GAP = 40.0  # pixels between the columns: reads on the left, writes on the right
HIGH, LOW = 240.0, 96.0  # largest heights of a map in pixels, and of a flat one
SMALL = 440.0  # width of a picture of flat maps in pixels: a phone shows it legibly


@dataclass(frozen=True)
class _Map:
    """A heat map of an array's reads or writes. per: the number for each element."""

    number: int
    verb: str
    colour: str
    grid: Grid
    per: np.ndarray

    @property
    def top(self) -> int:
        return max(int(self.per.max()), 1)

    @property
    def is_flat(self) -> bool:
        return int(self.per.min()) == self.top

    @property
    def frequency(self) -> str:
        """How often each touched cell is touched: "2 times", "1 to 3 times"."""
        low = int(self.per[self.per > 0].min())
        if self.top == low:
            return "once" if low == 1 else f"{low} times"
        return f"{low} to {self.top} times"


def draw(scene: Scene) -> Drawing:
    """Draw the picture, with a slider for the block."""
    most = max(1, min(BLOCKS, ROWS // max(1, len(scene.found))))
    blocks = list(scene.blocks)[:most]
    stops: list[int | None] = [None, *blocks] if len(blocks) > 1 else [None]
    trace = scene.trace
    base = [label(EDGE, 28, f"{trace.kernel}: accesses to each cell", 17, bold=True)]
    maps, y = _draw_maps(scene, 62.0, WIDTH, HIGH)
    width, lines = WIDTH, []
    is_flat = bool(maps) and all(one.is_flat for one in maps)
    if is_flat:
        lines = _describe_flat(scene, maps)
        base += [label(EDGE, 68 + 18 * i, line, 13) for i, line in enumerate(lines)]
        maps, y = _draw_maps(scene, 64.0 + 18 * len(lines), SMALL, LOW)
    for one in maps:
        name = trace.arrays[one.number].name
        base += [_write_title(scene, one), cells(one.grid, name)]
        base.append("" if is_flat else _draw_scale(one))
    warps = None if is_flat and _are_alike(scene) else _list_warps(scene, y + 14)
    if warps:
        y += 14 + warps.height + 30
        base.append(_name_warps(warps))
    elif not scene.findings:
        widest = max(svg.width_of(line, 13) for line in [*lines, *counts(scene)])
        width = min(max(SMALL, widest + 2 * EDGE), WIDTH)
    foot, y = conclude(scene, y)
    frames = {
        (i,): _draw_frame(scene, block, maps, warps) for i, block in enumerate(stops)
    }
    names = ["all blocks" if b is None else block_name(b, trace) for b in stops]
    title = f"{trace.kernel}: how often each cell is touched"
    slider = Slider("block", tuple(names))
    return Drawing(title, width, y + 4, "".join(base) + foot, [slider], frames, (0,))


def _choose_grid(shape: tuple[int, ...], column: float, high: float) -> Grid:
    planes, rows, cols = drawn_shape(shape)
    if len(shape) <= 1:
        return fit_line(cols, column, min(high, 150), 22)
    return fit(planes * rows * cols, planes, rows, cols, column, high, 22)


def _are_alike(scene: Scene) -> bool:
    """Return whether all threads of a block access equally many cells."""
    per = np.bincount(scene.drawn.thread, minlength=scene.threads)
    return int(per.min()) == int(per.max())


def _count_touches(found: Touches, number: int, verb: str, grid: Grid) -> np.ndarray:
    accesses = found.of(array=number)
    mask = accesses.reads if verb == "read" else accesses.writes
    return np.bincount(accesses.element[mask], minlength=grid.count)[: grid.count]


def _draw_maps(
    scene: Scene, y: float, width: float, high: float
) -> tuple[list[_Map], float]:
    """Lay out two maps per row, reads and writes of one array side by side."""
    column = (width - 2 * EDGE - GAP) / 2
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
            grid = _choose_grid(scene.trace.arrays[number].shape, column, high)
            grid = grid.at(EDGE + i * (column + GAP), y + 26)
            per = _count_touches(scene.found, number, verb, grid)
            out.append(_Map(number, verb, colour, grid, per))
        y += max((one.grid.height for one in out[-len(line) :]), default=0) + (
            64 if high == HIGH else 44
        )
    return out, y


def _write_title(scene: Scene, one: _Map) -> str:
    array, touched = scene.trace.arrays[one.number], int((one.per > 0).sum())
    size = f"{size_of(array)}{', shared' * (array.space == 'shared')}"
    caption = f"{size}: {count_things(touched, 'cell')} {one.verb} {one.frequency}"
    caption = f"{size}, {one.verb}" if one.is_flat else caption
    x, y = one.grid.left, one.grid.top - 14
    start = x + svg.width_of(array.name, 14, mono=True) + 8
    column = (WIDTH - 2 * EDGE - GAP) / 2
    text = svg.clipped(caption, x + column - start, 11.5)
    out = label(x, y, array.name, 14, mono=True, bold=True)
    return out + label(start, y, text, 11.5, faint=True)


def _describe_flat(scene: Scene, maps: list[_Map]) -> list[str]:
    """Write how often each cell is touched: "Every cell of a is read 2 times."."""
    names: dict[tuple[str, str], list[str]] = {}
    for one in maps:
        name = scene.trace.arrays[one.number].name
        names.setdefault((one.verb, one.frequency), []).append(name)
    return [
        f"Every cell of {' and '.join(same)} is {verb} {frequency}."
        for (verb, frequency), same in names.items()
    ]


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
    scene: Scene, block: int | None, maps: list[_Map], warps: Grid | None
) -> list[str]:
    accesses = scene.drawn if block is None else scene.found.of(block=block)
    is_flat = all(one.is_flat for one in maps)
    text = _describe(scene, accesses, block, is_flat)
    out = [label(EDGE, 48, text, 13, faint=True)]
    for one in maps:
        per = one.per
        if block is not None:
            per = _count_touches(accesses, one.number, one.verb, one.grid)
        name = svg.escape(scene.trace.arrays[one.number].name)
        shades = _draw_map(per / one.top, one.grid, one.colour, min(LEVELS, one.top))
        out.append(f'<g data-array="{name}" data-kind="{one.verb}">{shades}</g>')
    return [*out, _draw_strip(scene, accesses, warps)] if warps else out


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


def _describe(scene: Scene, accesses: Touches, block: int | None, is_flat: bool) -> str:
    blocks = len(scene.blocks) if block is None else 1
    threads = count_things(scene.threads * blocks, "thread")
    reads = count_things(int(accesses.reads.sum()), "read")
    writes = count_things(int(accesses.writes.sum()), "write")
    hint = "" if is_flat else " A stronger colour means more accesses."
    return f"{threads}: {reads} and {writes}.{hint}"


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
