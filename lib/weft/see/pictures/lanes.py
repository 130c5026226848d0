"""Which lanes of a warp are active: a row for each step, a column for each lane."""

from __future__ import annotations

import linecache
from collections.abc import Sequence

import numpy as np

from ...base.style import PALE, THREAD, WIDTH
from ...base.text import count_things
from ...pykernel.sim.warp import WARP
from . import svg
from .foot import findings_of, sentences
from .grid import Grid
from .instructions import Step, loops_of, steps_of
from .panels import EDGE
from .scene import Scene
from .svg import Drawing, Slider, label, num
from .touches import block_name

MOST = 40  # steps that are drawn one by one; with more, a row is a source line
WARPS = 16  # that the slider stops at
ROWS = 20_000  # of the record: with more, fewer warps
SIDE = 13.0  # pixels of a lane
CELLS = 436.0  # pixels: where lane 0 stands


def draw(scene: Scene) -> Drawing:
    """The picture, with a slider for the warp."""
    trace = scene.trace
    loops: list[tuple[int, int]] = []
    for source in (scene.report.sources if scene.report else ())[:1]:
        loops = loops_of(source.text, source.first)
    warps = _list_warps(scene)
    rows, high = {}, 0.0
    for i, (block, warp) in enumerate(warps):
        parts = [p for p in trace.intervals if p.block == block]
        steps = steps_of(parts, trace.sites, loops, warp)
        frame, y = _draw_frame(scene, steps, block, warp)
        rows[(i,)] = [frame]
        high = max(high, y)
    foot, y = sentences(findings_of(scene), EDGE, high + 12)
    x = EDGE
    foot += svg.box(x, y - 10, 13, 13, colour=THREAD, fill=svg.FILL)
    foot += label(x + 20, y, "lane active", 11, faint=True)
    foot += svg.box(x + 110, y - 10, 13, 13, strength=0.45)
    foot += label(x + 130, y, "lane waits, or has ended", 11, faint=True)
    base = label(EDGE, 28, f"{trace.kernel}: active lanes", 17, bold=True)
    names = tuple(_write_name(scene, block, warp) for block, warp in warps)
    title = f"{trace.kernel}: which lanes of a warp are active at each step"
    start = next((i for i, (_, w) in enumerate(warps) if w == _choose_wanted(scene)), 0)
    return Drawing(
        title, WIDTH, y + 14, base + foot, [Slider("warp", names)], rows, (start,)
    )


def _choose_wanted(scene: Scene) -> int:
    return (scene.thread or 0) // WARP


def _list_warps(scene: Scene) -> list[tuple[int, int]]:
    """The (block, warp) of the slider: all that are drawn, up to a limit."""
    every = -(-scene.threads // WARP)
    found = [(b, w) for b in scene.blocks for w in range(every)]
    rows = sum(len(part.site) for part in scene.trace.intervals)
    blocks = max(1, int(np.prod(scene.trace.grid)))
    per = max(1, rows // (blocks * every))
    limit = max(1, min(WARPS, 10 * ROWS // per))
    wanted = _choose_wanted(scene)
    return found[:limit] if wanted < limit else [(scene.blocks[0], wanted)]


def _write_name(scene: Scene, block: int, warp: int) -> str:
    one = np.prod(scene.trace.grid) == 1
    return f"warp {warp}" + ("" if one else f" of {block_name(block, scene.trace)}")


def _draw_frame(
    scene: Scene, steps: Sequence[Step], block: int, warp: int
) -> tuple[str, float]:
    there = min(WARP, scene.threads - warp * WARP)
    active = sum(len(step.lanes) for step in steps)
    share = active / max(1, WARP * len(steps))
    some = sum(len(step.lanes) < there for step in steps)
    name = _write_name(scene, block, warp).capitalize()
    said = f"{name} takes {count_things(len(steps), 'step')}"
    said += f", {some} of them with some lanes waiting: "
    said += f"{32 * share:.3g} of 32 lanes are active ({100 * share:.0f} %)."
    out = [label(EDGE, 48, said, 13, faint=True)]
    y = 84.0
    for lane in range(0, WARP, 4):
        x = CELLS + lane * SIDE + SIDE / 2 - 1
        out.append(label(x, y - 6, str(lane), 11, anchor="middle", faint=True))
    out.append(label(CELLS - 8, y - 6, "lane", 11, anchor="end", faint=True))
    out.append(label(EDGE, y - 6, "line", 11, faint=True))
    rows = _list_rows(steps)
    above = None
    for site, interval, share_of, times in rows:
        if above is not None and interval != above:
            out.append(_draw_barrier(y + 5))
            y += 13
        above = interval
        out.append(_draw_row(scene, site, share_of, times, y, there))
        y += SIDE + 2
    return "".join(out), y + 8


def _list_rows(steps: Sequence[Step]) -> list[tuple[int, int | None, np.ndarray, int]]:
    """(site, interval, share of its steps in which each lane is active, steps)."""

    def shares(of: Sequence[Step]) -> np.ndarray:
        lanes = np.concatenate([s.lanes for s in of])
        return np.bincount(lanes, minlength=WARP) / len(of)

    runs: list[list[Step]] = []
    for step in steps:  # turns of a loop by the same lanes are one row
        last = runs[-1][-1] if runs else step
        same = (step.site, step.interval) == (last.site, last.interval)
        if runs and same and np.array_equal(step.lanes, last.lanes):
            runs[-1].append(step)
        else:
            runs.append([step])
    if len(runs) <= MOST:
        return [(r[0].site, r[0].interval, shares(r), len(r)) for r in runs]
    by: dict[int, list[Step]] = {}
    for step in steps:
        by.setdefault(step.site, []).append(step)
    return [(site, None, shares(of), len(of)) for site, of in by.items()]


def _draw_row(
    scene: Scene, site: int, share: np.ndarray, times: int, y: float, there: int
) -> str:
    one = scene.trace.sites[site]
    out = [
        label(EDGE + 26, y + 11, str(one.line), 11, anchor="end", mono=True, faint=True)
    ]
    text = svg.clipped(_read_text(scene, site), CELLS - EDGE - 62, 11.5, mono=True)
    out.append(label(EDGE + 36, y + 11, text, 11.5, mono=True))
    grid = Grid(WARP, 1, 1, WARP, SIDE, 1, CELLS, y)
    idle = grid.squares(np.flatnonzero(share[:there] == 0))
    if idle:
        out.append(f'<path d="{idle}" fill="none" {PALE}/>')
    for level in np.unique(share[share > 0]):
        lanes = np.flatnonzero(share == level)
        fill = 0.15 + 0.45 * level
        said = ",".join(map(str, lanes.tolist()))
        out.append(
            f'<path d="{grid.squares(lanes)}" fill="{THREAD}" '
            f'fill-opacity="{fill:.2f}" stroke="{THREAD}" data-line="{one.line}" '
            f'data-lanes="{said}" stroke-linejoin="round"/>'
        )
    mean = share.sum()
    count = f"{mean:.0f}" if times == 1 else f"{times} × {mean:.3g}"
    end = CELLS + WARP * SIDE + 6
    out.append(label(end, y + 11, count, 11, faint=mean == there))
    return "".join(out)


def _read_text(scene: Scene, site: int) -> str:
    """A step's source: its line as it is written."""
    one = scene.trace.sites[site]
    for source in scene.report.sources if scene.report else ():
        lines = source.text.splitlines()
        if source.file == one.file and 0 <= one.line - source.first < len(lines):
            body = [line for line in lines[1:] if line.strip()]
            margin = min((_measure_indent(line) for line in body), default=0)
            return lines[one.line - source.first][margin:].rstrip()
    return linecache.getline(one.file, one.line).rstrip() or one.text


def _measure_indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _draw_barrier(y: float) -> str:
    end = CELLS + WARP * SIDE
    line = f'<path d="M{num(CELLS)} {num(y)}H{num(end)}" stroke="currentColor" '
    line += 'stroke-width="1.6"/>'
    return line + label(CELLS - 8, y + 4, "barrier", 11, anchor="end", bold=True)
