"""Draw warps over time: active lanes, and the work between two barriers.

draw_lanes() draws a row for each step and a column for each lane. draw_timeline() draws
a row for each thread or warp.
"""

from __future__ import annotations

import linecache
from collections.abc import Sequence

import numpy as np

from ...base.style import DIM, PALE, READ, SHARED, THREAD, WIDTH, WRITTEN
from ...base.text import count_things
from ...pykernel.sim.warp import WARP
from . import svg
from .findings import findings_of, sentences
from .grid import Grid
from .panels import EDGE, LEFT
from .scene import Scene
from .svg import Drawing, Slider, box, label, num, remark
from .touches import block_name
from .warp_steps import WarpStep, find_source_loops, steps_of

# Maximum number of steps that get a row each; if there are more, source lines get rows.
MOST = 40
WARPS = 16  # maximum number of stops of the slider
ROWS = 20_000  # if the record has more rows, fewer warps are drawn
SIDE = 13.0  # width of a lane in pixels
CELLS = 436.0  # x of lane 0 in pixels


def draw_lanes(scene: Scene) -> Drawing:
    """Draw the lanes, with a slider for the warp."""
    trace = scene.trace
    loops: list[tuple[int, int]] = []
    for source in (scene.report.sources if scene.report else ())[:1]:
        loops = find_source_loops(source.text, source.first)
    warps = _list_warps(scene)
    rows, high = {}, 0.0
    for i, (block, warp) in enumerate(warps):
        parts = [p for p in trace.intervals if p.block == block]
        steps = steps_of(parts, trace.sites, loops, warp)
        frame, y = _draw_frame(scene, steps, block, warp)
        rows[(i,)] = [frame]
        high = max(high, y)
    foot, y = sentences(findings_of(scene), EDGE, high + 12)
    active = svg.square(colour=THREAD, fill=svg.FILL), "lane active"
    waiting = svg.square(strength=DIM), "lane waits, or has ended"
    foot += svg.legend(EDGE, y, [active])[0] + svg.legend(EDGE + 110, y, [waiting])[0]
    base = label(EDGE, 28, f"{trace.kernel}: active lanes", 17, bold=True)
    names = tuple(_write_name(scene, block, warp) for block, warp in warps)
    title = f"{trace.kernel}: which lanes of a warp are active at each step"
    start = [warp for _, warp in warps].index((scene.thread or 0) // WARP)
    slider = Slider("warp", names)
    return Drawing(title, WIDTH, y + 14, base + foot, [slider], rows, (start,))


def _list_warps(scene: Scene) -> list[tuple[int, int]]:
    """Return the (block, warp) for each stop of the slider, up to a limit."""
    per_block = -(-scene.threads // WARP)
    warps = [(b, w) for b in scene.blocks for w in range(per_block)]
    rows = sum(len(part.site) for part in scene.trace.intervals)
    blocks = max(1, int(np.prod(scene.trace.grid)))
    per = max(1, rows // (blocks * per_block))
    limit = max(1, min(WARPS, 10 * ROWS // per))
    warp = (scene.thread or 0) // WARP
    return warps[:limit] if warp < limit else [(scene.blocks[0], warp)]


def _write_name(scene: Scene, block: int, warp: int) -> str:
    several = np.prod(scene.trace.grid) > 1
    return f"warp {warp}" + f" of {block_name(block, scene.trace)}" * bool(several)


def _draw_frame(
    scene: Scene, steps: Sequence[WarpStep], block: int, warp: int
) -> tuple[str, float]:
    width = min(WARP, scene.threads - warp * WARP)
    active = sum(len(step.lanes) for step in steps)
    share = active / max(1, WARP * len(steps))
    partial = sum(len(step.lanes) < width for step in steps)
    name = _write_name(scene, block, warp).capitalize()
    text = f"{name} takes {count_things(len(steps), 'step')}, {partial} of them with "
    text += f"some lanes waiting: on average {32 * share:.3g} of 32 lanes are active "
    text += f"({100 * share:.0f} %)."
    out = [label(EDGE, 48, text, 13, faint=True)]
    y = 84.0
    for lane in range(0, WARP, 4):
        x = CELLS + lane * SIDE + SIDE / 2 - 1
        out.append(remark(x, y - 6, str(lane), anchor="middle"))
    out.append(remark(CELLS - 8, y - 6, "lane", anchor="end"))
    out.append(remark(EDGE, y - 6, "line"))
    previous = None
    for interval, group in _list_rows(steps):
        if previous is not None and interval != previous:
            out.append(_draw_barrier(y + 5))
            y += 13
        previous = interval
        out.append(_draw_row(scene, group, y, width))
        y += SIDE + 2
    return "".join(out), y + 8


def _list_rows(steps: Sequence[WarpStep]) -> list[tuple[int | None, list[WarpStep]]]:
    """Return (interval, steps) for each row.

    The interval is None if rows contain all steps of a site, since there are too many.
    """
    runs: list[list[WarpStep]] = []
    for step in steps:  # iterations with equal active lanes share a row
        last = runs[-1][-1] if runs else step
        same = (step.site, step.interval) == (last.site, last.interval)
        if runs and same and np.array_equal(step.lanes, last.lanes):
            runs[-1].append(step)
        else:
            runs.append([step])
    if len(runs) <= MOST:
        return [(run[0].interval, run) for run in runs]
    by: dict[int, list[WarpStep]] = {}
    for step in steps:
        by.setdefault(step.site, []).append(step)
    return [(None, group) for group in by.values()]


def _draw_row(scene: Scene, group: Sequence[WarpStep], y: float, width: int) -> str:
    site, times = group[0].site, len(group)
    step = scene.trace.sites[site]
    active = np.concatenate([one.lanes for one in group])
    # Each lane's share of the steps.
    share = np.bincount(active, minlength=WARP) / times
    out = [remark(EDGE + 26, y + 11, str(step.line), anchor="end", mono=True)]
    text = svg.clipped(_read_text(scene, site), CELLS - EDGE - 62, 11.5, mono=True)
    out.append(label(EDGE + 36, y + 11, text, 11.5, mono=True))
    grid = Grid(WARP, 1, 1, WARP, SIDE, 1, CELLS, y)
    idle = grid.squares(np.flatnonzero(share[:width] == 0))
    if idle:
        out.append(f'<path d="{idle}" fill="none" {PALE}/>')
    for level in np.unique(share[share > 0]):
        lanes = np.flatnonzero(share == level)
        fill = 0.15 + 0.45 * level
        numbers = ",".join(map(str, lanes.tolist()))
        out.append(
            f'<path d="{grid.squares(lanes)}" fill="{THREAD}" '
            f'fill-opacity="{fill:.2f}" stroke="{THREAD}" data-line="{step.line}" '
            f'data-lanes="{numbers}" stroke-linejoin="round"/>'
        )
    mean = share.sum()
    count = f"{mean:.0f}" if times == 1 else f"{times} × {mean:.3g}"
    end = CELLS + WARP * SIDE + 6
    out.append(label(end, y + 11, count, 11, faint=mean == width))
    return "".join(out)


def _read_text(scene: Scene, site: int) -> str:
    """Return a step's source line, without the common indentation."""
    one = scene.trace.sites[site]
    for source in scene.report.sources if scene.report else ():
        lines = source.text.splitlines()
        if source.file == one.file and 0 <= one.line - source.first < len(lines):
            body = [line for line in lines[1:] if line.strip()]
            indents = [len(line) - len(line.lstrip()) for line in body]
            margin = min(indents, default=0)
            return lines[one.line - source.first][margin:].rstrip()
    return linecache.getline(one.file, one.line).rstrip() or one.text


def _draw_barrier(y: float) -> str:
    end = CELLS + WARP * SIDE
    line = svg.rule(f"M{num(CELLS)} {num(y)}H{num(end)}", width="1.6")
    return line + label(CELLS - 8, y + 4, "barrier", 11, anchor="end", bold=True)


THREADS = 32  # if there are more threads, each row is a warp
COLUMNS = 24  # maximum number of intervals that are drawn
BLOCKS = 24  # maximum number of stops of the slider
BAR_ROW = 20.0
KINDS = (  # name, colour and strength of each kind of access
    ("global reads", READ, 0.15),
    ("global writes", WRITTEN, 0.5),
    ("shared, read or written", SHARED, 0.3),
)


def draw_timeline(scene: Scene) -> Drawing:
    """Draw the timeline, with a slider for the block."""
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
    base.append(_label_rows(scene, rows, warps, top))
    base.append(_label_columns(len(columns), width, top, rows))
    frames = {
        (i,): [
            _describe_bars(scene, block, columns),
            _draw_bars(table, width, top, most),
        ]
        for i, (block, table) in enumerate(zip(blocks, tables))
    }
    y = top + rows * BAR_ROW + 34
    foot, y = sentences(findings_of(scene), EDGE, y)
    foot += _draw_bar_legend(y, most, "warp" if warps else "thread")
    names = tuple(block_name(b, trace) for b in blocks)
    title = f"{trace.kernel}: what is read and written between two barriers"
    body, slider = "".join(base) + foot, Slider("block", names)
    return Drawing(title, WIDTH, y + 14, body, [slider], frames, (0,))


def _build_table(
    scene: Scene, block: int, columns: list[int], rows: int, warps: bool
) -> np.ndarray:
    """Return the number of accesses by (row, interval, kind)."""
    table = np.zeros((rows, len(columns), len(KINDS)), int)
    accesses = scene.found.of(block=block)
    accesses = accesses.where(np.isin(accesses.interval, columns))
    row = accesses.thread // WARP if warps else accesses.thread
    column = np.searchsorted(columns, accesses.interval)
    shared = accesses.is_shared(scene.trace)
    masks = accesses.reads & ~shared, accesses.writes & ~shared, shared
    for kind, mask in enumerate(masks):
        np.add.at(table, (row[mask], column[mask], kind), 1)
    return table


def _label_rows(scene: Scene, rows: int, warps: bool, top: float) -> str:
    out = []
    for row in range(rows):
        y = top + row * BAR_ROW + 14
        name = f"warp {row}" if warps else f"thread {scene.thread_name(row)}"
        out.append(remark(LEFT - 14, y, name, anchor="end"))
    return "".join(out)


def _label_columns(count: int, width: float, top: float, rows: int) -> str:
    out = [remark(LEFT - 14, top - 10, "interval", anchor="end")]
    for i in range(count):
        x, end = LEFT + i * width, top + rows * BAR_ROW
        out.append(remark(x + width / 2, top - 10, str(i + 1), anchor="middle"))
        if i:
            line = f"M{num(x)} {num(top - 22)}V{num(end + 6)}"
            out.append(svg.rule(line, width="1.6"))
        if i == 1:
            out.append(label(x, end + 18, "barrier", 11, anchor="middle", bold=True))
    return "".join(out)


def _draw_bars(table: np.ndarray, width: float, top: float, most: int) -> str:
    out, room = [], width - 10
    for row, column in np.ndindex(*table.shape[:2]):
        x, y = LEFT + column * width + 5, top + row * BAR_ROW + 3
        counts = table[row, column]
        if not counts.sum():
            out.append(box(x, y, room, BAR_ROW - 6, strength=DIM))
            continue
        for (name, colour, fill), count in zip(KINDS, counts.tolist()):
            wide = room * count / most
            if not count:
                continue
            mark = box(x, y, wide, BAR_ROW - 6, colour=colour, fill=fill, radius=1)
            kind = name.split(",")[0].replace(" ", "-")
            data = f'data-row="{row}" data-interval="{column}" data-kind="{kind}"'
            out.append(mark.replace("<rect", f'<rect {data} data-count="{count}"', 1))
            if svg.width_of(str(count), 11) + 4 <= wide:
                at = x + wide / 2
                out.append(label(at, y + 11, str(count), 11, anchor="middle"))
            x += wide
    return "".join(out)


def _describe_bars(scene: Scene, block: int, columns: list[int]) -> str:
    accesses, total = scene.found.of(block=block), len(scene.intervals)
    text = f"{block_name(block, scene.trace).capitalize()}: "
    text += count_things(len(accesses), "access")
    text += f" in {count_things(total, 'interval')}"
    if total > len(columns):
        text += f", of which the first {len(columns)} are drawn"
    return label(EDGE, 48, f"{text}; a barrier ends each but the last.", 13, faint=True)


def _draw_bar_legend(y: float, most: int, row: str) -> str:
    marks = [
        (svg.square(colour=colour, fill=fill), name) for name, colour, fill in KINDS
    ]
    marks.append((svg.square(strength=DIM), "touches nothing"))
    out, x = svg.legend(EDGE, y, marks)
    return out + remark(x, y, f"a full bar: {count_things(most, 'access')} of a {row}")
