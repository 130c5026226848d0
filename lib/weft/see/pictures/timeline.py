"""Who does what between two barriers: a row for each thread or warp."""

from __future__ import annotations

import numpy as np

from ...base.style import READ, SHARED, WIDTH, WRITTEN
from ...base.text import count_things
from ...pykernel.sim.warp import WARP
from . import svg
from .foot import findings_of, sentences
from .panels import EDGE, LEFT
from .scene import Scene
from .svg import Drawing, Slider, box, label, num
from .touches import Touches, block_name

THREADS = 32  # with more, a row is a warp
COLUMNS = 24  # intervals that are drawn
BLOCKS = 24  # that the slider stops at
ROW = 20.0
KINDS = (  # name, colour
    ("global reads", READ),
    ("global writes", WRITTEN),
    ("shared, read or written", SHARED),
)


def draw(scene: Scene) -> Drawing:
    """The picture, with a slider for the block."""
    trace = scene.trace
    blocks = list(scene.blocks)[:BLOCKS]
    columns = scene.intervals[:COLUMNS] or [0]
    warps = scene.threads > THREADS
    rows = -(-scene.threads // WARP) if warps else scene.threads
    tables = [_build_table(scene, block, columns, rows, warps) for block in blocks]
    most = max(int(table.sum(2).max()) for table in tables) or 1
    width = min(170.0, (WIDTH - LEFT - EDGE) / len(columns))
    top = 96.0
    base = [label(EDGE, 28, f"{trace.kernel}: between the barriers", 17, bold=True)]
    base.append(_list_sides(scene, rows, warps, top))
    base.append(_list_columns(len(columns), width, top, rows))
    frames = {
        (i,): [
            _describe(scene, block, columns),
            _draw_bars(table, width, top, most, warps),
        ]
        for i, (block, table) in enumerate(zip(blocks, tables))
    }
    y = top + rows * ROW + 34
    foot, y = sentences(findings_of(scene), EDGE, y)
    foot += _draw_legend(y, most, "warp" if warps else "thread")
    names = tuple(block_name(b, trace) for b in blocks)
    title = f"{trace.kernel}: what is read and written between two barriers"
    return Drawing(
        title,
        WIDTH,
        y + 14,
        "".join(base) + foot,
        [Slider("block", names)],
        frames,
        (0,),
    )


def _build_table(
    scene: Scene, block: int, columns: list[int], rows: int, warps: bool
) -> np.ndarray:
    """Accesses by (row, interval, kind)."""
    table = np.zeros((rows, len(columns), len(KINDS)), int)
    of = scene.found.of(block=block)
    of = of.where(np.isin(of.interval, columns))
    row = of.thread // WARP if warps else of.thread
    column = np.searchsorted(columns, of.interval)
    shared = _list_shared(scene, of)
    for kind, mask in enumerate((of.reads & ~shared, of.writes & ~shared, shared)):
        np.add.at(table, (row[mask], column[mask], kind), 1)
    return table


def _list_shared(scene: Scene, of: Touches) -> np.ndarray:
    arrays = scene.trace.arrays
    numbers = [i for i, array in enumerate(arrays) if array.space == "shared"]
    return np.isin(of.array, numbers)


def _list_sides(scene: Scene, rows: int, warps: bool, top: float) -> str:
    out = []
    for row in range(rows):
        y = top + row * ROW + 14
        name = f"warp {row}" if warps else f"thread {scene.thread_name(row)}"
        out.append(label(LEFT - 14, y, name, 11, anchor="end", faint=True))
    return "".join(out)


def _list_columns(count: int, width: float, top: float, rows: int) -> str:
    out = [label(LEFT - 14, top - 10, "interval", 11, anchor="end", faint=True)]
    for i in range(count):
        x = LEFT + i * width
        middle = x + width / 2
        out.append(label(middle, top - 10, str(i + 1), 11, anchor="middle", faint=True))
        if i:
            out.append(
                f'<path d="M{num(x)} {num(top - 22)}V{num(top + rows * ROW + 6)}" '
                'stroke="currentColor" stroke-width="1.6"/>'
            )
    if count > 1:
        y = top + rows * ROW + 18
        x = LEFT + width
        out.append(label(x, y, "barrier", 11, anchor="middle", bold=True))
    return "".join(out)


def _draw_bars(
    table: np.ndarray, width: float, top: float, most: int, warps: bool
) -> str:
    out = []
    room = width - 10
    for row, column in np.ndindex(*table.shape[:2]):
        x, y = LEFT + column * width + 5, top + row * ROW + 3
        counts = table[row, column]
        if not counts.sum():
            out.append(box(x, y, room, ROW - 6, strength=0.35))
            continue
        for (name, colour), count in zip(KINDS, counts.tolist()):
            wide = room * count / most
            if not count:
                continue
            mark = box(x, y, wide, ROW - 6, colour=colour, fill=0.35, radius=1)
            what = name.split(",")[0].replace(" ", "-")
            said = f'data-row="{row}" data-interval="{column}" data-kind="{what}"'
            out.append(mark.replace("<rect ", f'<rect {said} data-count="{count}" ', 1))
            if svg.width_of(str(count), 11) + 4 <= wide:
                at = x + wide / 2
                out.append(label(at, y + 11, str(count), 11, anchor="middle"))
            x += wide
    return "".join(out)


def _describe(scene: Scene, block: int, columns: list[int]) -> str:
    of = scene.found.of(block=block)
    all_of = len(scene.intervals)
    text = f"{block_name(block, scene.trace).capitalize()}: "
    text += count_things(len(of), "access")
    text += f" in {count_things(all_of, 'interval')}"
    if all_of > len(columns):
        text += f", of which the first {len(columns)} are drawn"
    return label(EDGE, 48, f"{text}; a barrier ends each but the last.", 13, faint=True)


def _draw_legend(y: float, most: int, row: str) -> str:
    out, x = [], EDGE
    for name, colour in KINDS:
        out.append(box(x, y - 10, 13, 13, colour=colour, fill=0.35))
        out.append(label(x + 20, y, name, 11, faint=True))
        x += 38 + svg.width_of(name, 11)
    out.append(box(x, y - 10, 13, 13, strength=0.35))
    out.append(label(x + 20, y, "touches nothing", 11, faint=True))
    x += 38 + svg.width_of("touches nothing", 11)
    full = f"a full bar: {count_things(most, 'access')} of a "
    return "".join(out) + label(x, y, full + row, 11, faint=True)
