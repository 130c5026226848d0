"""Draw findings on a picture and below it, with counts and a legend.

counts() writes the report's counters, and sentences() the findings' texts. marks()
marks the cells and threads of the findings on the drawing. foot() combines the lower
parts.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...base.style import FAULT, WIDTH
from ...base.text import round_number
from ...pykernel.sim.layout import TracedArray
from ...report.model import Finding
from . import svg
from .grid import Grid
from .panels import EDGE, Panel
from .scene import Scene
from .svg import box, label, num
from .touches import ravel


def counts(scene: Scene) -> list[str]:
    """Return two lines of text: accesses per thread, then sectors and bank conflicts.

    Without counters, the list is empty.
    """
    counters = scene.report.counters if scene.report else None
    if counters is None:
        return []
    names = [scene.trace.arrays[number].name for number in scene.arrays]
    amounts = {
        "reads": counters.reads_per_thread,
        "writes": counters.writes_per_thread,
        "atomics": counters.atomics_per_thread,
    }
    each = []
    for name in names:
        parts = [times(per[name], what) for what, per in amounts.items() if name in per]
        each += [f"{name} {' and '.join(parts)}"] * bool(parts)
    lines = [f"Per thread: {', '.join(each)}."] if each else []
    sectors, conflicts = counters.sectors_per_request, counters.bank_conflicts
    ratios = [
        f"{name} {round_number(sectors[name])}" for name in names if name in sectors
    ]
    if ratios:
        lines.append(f"Sectors per request: {', '.join(ratios)}.")
    shared = [a.name for a in scene.trace.arrays if a.space == "shared"]
    if shared:
        text = ", ".join(f"{n} {round_number(conflicts.get(n, 0))}" for n in shared)
        lines.append(f"Bank conflicts: {text}.")
    return [" ".join(lines[:1]), " ".join(lines[1:])] if lines else []


def times(value: float, what: str) -> str:
    """Write a number with its noun: "2 reads", "1 write" or "0.5 writes"."""
    word = {"atomics": "atomic updates"}.get(what, what)
    return f"{round_number(value)} {word.removesuffix('s') if value == 1 else word}"


MOST = 3  # maximum number of sentences below a picture


def findings_of(scene: Scene) -> list[Finding]:
    """Return the findings to report, beginning with findings in the drawn blocks."""

    def elsewhere(finding: Finding) -> bool:
        at = finding.block
        return at is None or ravel(at, scene.trace.grid) not in scene.blocks

    return sorted(scene.findings, key=elsewhere)


def outside(scene: Scene, array: TracedArray) -> tuple[float, float]:
    """Return the pixels reserved for a cell before the array, and for one after it."""
    flat = [
        ravel_flat(f.index, array.shape)
        for f in scene.findings
        if f.array == array.name and f.index and len(array.shape) <= 1
    ]
    before = 34.0 * any(element < 0 for element in flat)
    return before, 34.0 * any(element >= array.size for element in flat)


def sentences(findings: Sequence[Finding], x: float, y: float) -> tuple[str, float]:
    """Write the first findings' texts from y downwards; also return the next y."""
    out = ""
    for finding in findings[:MOST]:
        times = f" ({finding.count} times)" if finding.count > 1 else ""
        out += label(x, y, "✗", 13, colour=FAULT, bold=True)
        for line in _wrap_text(finding.text + times, WIDTH - x - EDGE - 18):
            out += label(x + 18, y, line, 12.5, colour=FAULT)
            y += 18
    if len(findings) > MOST:
        rest = f"and {len(findings) - MOST} more: see the report"
        out += label(x + 18, y, rest, 12, colour=FAULT)
        y += 18
    return out, y


def conclude(scene: Scene, y: float) -> tuple[str, float]:
    """Write the findings and the counts from y downwards; also return the next y."""
    out, y = sentences(findings_of(scene), EDGE, y)
    for line in counts(scene):
        out += label(EDGE, y, line, 12, faint=True)
        y += 18
    return out, y


def _wrap_text(text: str, room: float) -> list[str]:
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if svg.width_of(longer, 13) > room and lines[-1]:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines[:3]


def marks(
    scene: Scene, panels: Sequence[Panel], frames: dict[int, Grid], moment, behind
) -> str:
    """Mark the cells and threads of findings; a cell outside the array is hollow.

    behind: a function that maps a (block, thread) to the Hidden of its arrows.
    """
    out = []
    for finding in findings_of(scene):
        block = ravel(finding.block, scene.trace.grid) if finding.block else None
        if block not in scene.blocks:
            continue
        threads = [finding.thread]
        if finding.kind in ("race", "conflict") and finding.other != finding.block:
            threads.append(finding.other)
        numbers = [ravel(t, scene.trace.block) for t in threads if t is not None]
        if moment.who and moment.who not in [(block, number) for number in numbers]:
            continue
        grid = frames[block]
        out += [_draw_ring(grid, n) for n in numbers if 0 <= n < scene.threads]
        for panel in panels:
            if panel.array.name == finding.array and finding.index:
                at = place(panel, scene, finding)
                middle = grid.middle(numbers[0]) if numbers else None
                hidden = behind((block, numbers[0])).at if numbers else None
                out.append(_mark_cell(panel, at, finding.index, middle, hidden))
    return "".join(dict.fromkeys(out))


def place(panel: Panel, scene: Scene, finding: Finding) -> tuple[int, int, int]:
    """Return (plane, row, column) on the panel, at most one step outside each edge."""
    grid, index = panel.grid, finding.index or (0,)
    shape, plane = panel.array.shape, 0
    if len(index) == len(shape) > 1:
        *planes, row, col = index
        if planes:
            plane = int(np.ravel_multi_index(planes, shape[:-2], mode="clip"))
    else:
        element = ravel_flat(index, shape)
        inside = min(max(element, 0), grid.count - 1)
        plane, row, col = (int(part) for part in grid.places(inside))
        col += (element > inside) - (element < inside)
    return plane, max(-1, min(grid.rows, row)), max(-1, min(grid.cols, col))


def ravel_flat(index: Sequence[int], shape: Sequence[int]) -> int:
    """Return the flat position of an index that may be outside its array."""
    element = 0
    for i, side in zip(index, (*shape, *[1] * len(index))):
        element = element * side + int(i)
    return element if len(index) > 1 else int(index[0])


def _mark_cell(panel: Panel, at: tuple[int, int, int], index, middle, hidden) -> str:
    grid = panel.grid
    plane, row, col = at
    x, y = grid.origin(plane)
    x, y = x + col * grid.side, y + row * grid.side
    side = max(grid.cell, 5.0)
    outside = not (0 <= row < grid.rows and 0 <= col < grid.cols)
    outside |= grid.cols * row + col >= grid.count
    fill = 0.0 if outside else svg.FILL
    mark = box(x, y, side, side, colour=FAULT, fill=fill, stroke=2.2)
    text = ",".join(str(i) for i in index)
    if outside and svg.width_of(text, 11) <= side - 1:
        mark += label(x + side / 2, y + side / 2 + 4, text, 11, anchor="middle")
    line = ""
    if middle is not None and outside:
        up = y > middle[1]
        start = (middle[0], middle[1] + (14 if up else -14))
        end = (x + side / 2, y if up else y + side)
        line = svg.arrow(start, end, FAULT, hidden=hidden)
    return f'<g data-fault="{svg.escape(panel.array.name)}">{line}{mark}</g>'


def _draw_ring(grid: Grid, thread: int) -> str:
    x, y = grid.middle(thread)
    radius = max(3.0, grid.side / 2 - 0.5)
    return (
        f'<circle cx="{num(x)}" cy="{num(y)}" r="{num(radius)}" fill="none" '
        f'stroke="{FAULT}" stroke-width="2.5" data-faulty="{thread}"/>'
    )


def foot(scene: Scene, top: float) -> tuple[str, float]:
    """Draw findings, counts and legend; also return the height of the whole picture."""
    out, y = conclude(scene, top + 14)
    return out + svg.legend(EDGE, y + 8, _list_marks(scene))[0], y + 22


def width(scene: Scene) -> float:
    """Return the right end of the foot in pixels."""
    if findings_of(scene):
        return WIDTH
    lines = [EDGE + svg.width_of(line, 12) for line in counts(scene)]
    return max([*lines, svg.legend(EDGE, 0, _list_marks(scene))[1]])


def _list_marks(scene: Scene) -> list[tuple[svg.Mark, str]]:
    """List the marks in this picture, for its legend."""
    found, drawn = scene.found, scene.drawn
    shared = found.is_shared(scene.trace)
    active = len(np.unique(drawn.block * scene.threads + drawn.thread))
    used = {
        "read": (found.reads & ~shared).any(),
        "written": (found.writes & ~shared).any(),
        "shared": (found.reads & shared).any(),
        "shared-written": (found.writes & shared).any(),
        "thread": True,
        "idle": active < scene.threads * len(scene.blocks),
        "fault": bool(scene.findings),
    }
    return [svg.MARKS[kind] for kind, present in used.items() if present]
