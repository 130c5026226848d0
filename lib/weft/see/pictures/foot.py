"""Draw findings on a picture and below it, with counts and a legend.

counts() writes the report's counters, and sentences() the findings' texts. marks()
marks the cells and threads of the findings on the drawing. foot() combines the lower
parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...base.style import FAULT, WIDTH
from ...base.text import round_number
from ...pykernel.sim.record import TracedArray
from ...report.model import Finding
from . import svg
from .grid import Grid
from .panels import EDGE, Panel
from .scene import Scene
from .svg import box, label, num
from .touches import ravel


def counts(scene: Scene) -> list[str]:
    """Write accesses per thread, sectors per request and bank conflicts, as 2 lines."""
    counters = scene.report.counters if scene.report else None
    if counters is None:
        return []
    each = []
    for number in scene.arrays:
        array = scene.trace.arrays[number]
        parts = [
            times(
                _read_counter(counters, counter, array.name) / max(counters.threads, 1),
                counter,
            )
            for counter in ("reads", "writes", "atomics")
            if _read_counter(counters, counter, array.name)
        ]
        if parts:
            each.append(f"{array.name} {' and '.join(parts)}")
    lines = [f"Per thread: {', '.join(each)}."] if each else []
    ratios = []
    for number in scene.arrays:
        array = scene.trace.arrays[number]
        if array.space == "shared":
            continue
        per = _read_counter(counters, "sectors_per_request", array.name)
        if per:
            ratios.append(f"{array.name} {round_number(per)}")
    if ratios:
        lines.append(f"Sectors per request: {', '.join(ratios)}.")
    shared = [a.name for a in scene.trace.arrays if a.space == "shared"]
    if shared:
        conflicts = [
            f"{n} {round_number(_read_counter(counters, 'bank_conflicts', n))}"
            for n in shared
        ]
        lines.append(f"Bank conflicts: {', '.join(conflicts)}.")
    return [" ".join(lines[:1]), " ".join(lines[1:])] if lines else []


def _read_counter(counters: Any, counter: str, name: str) -> float:
    try:
        return float(getattr(counters, counter)[name])
    except (AttributeError, KeyError, TypeError):
        return 0.0


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
        for i, line in enumerate(
            _wrap_text(finding.text + times, WIDTH - x - EDGE - 18)
        ):
            mark = label(x, y, "✗", 13, colour=FAULT, bold=True) if i == 0 else ""
            out += mark + label(x + 18, y, line, 12.5, colour=FAULT)
            y += 18
    if len(findings) > MOST:
        remark = f"and {len(findings) - MOST} more: see the report"
        out += label(x + 18, y, remark, 12, colour=FAULT)
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

    behind: a function that maps a (block, thread) to a test for the points where that
    thread's arrows are hidden (arrows.Hidden.at).
    """
    out = []
    for finding in findings_of(scene):
        if finding.block is None:
            continue
        block = ravel(finding.block, scene.trace.grid)
        if block not in scene.blocks:
            continue
        threads = [finding.thread]
        if finding.kind in ("race", "conflict") and finding.other != finding.block:
            threads.append(finding.other)
        numbers = [ravel(t, scene.trace.block) for t in threads if t is not None]
        who = moment.who
        if who is not None and (block != who[0] or who[1] not in numbers):
            continue
        grid = frames[block]
        out += [_draw_ring(grid, n) for n in numbers if 0 <= n < scene.threads]
        for panel in panels:
            if panel.array.name == finding.array and finding.index:
                at = place(panel, scene, finding)
                middle = grid.middle(numbers[0]) if numbers else None
                hidden = behind((block, numbers[0])) if numbers else None
                out.append(_mark_cell(panel, at, finding.index, middle, hidden))
    return "".join(dict.fromkeys(out))


def place(panel: Panel, scene: Scene, finding: Finding) -> tuple[int, int, int]:
    """Return (plane, row, column) on the panel, at most one step outside each edge."""
    grid, index = panel.grid, finding.index or (0,)
    shape = panel.array.shape
    if len(index) == len(shape) and len(shape) > 1:
        *planes, row, col = (0, *index)
        sides = (*shape[:-2], 1)[: len(planes)]
        plane = int(np.ravel_multi_index(planes[1:], shape[:-2], mode="clip"))
        plane = plane if len(sides) > 0 and len(shape) > 2 else 0
    else:
        element = ravel_flat(index, shape)
        if element < 0:
            plane, row, col = 0, 0, -1
        elif element >= grid.count:
            last = [int(v) for v in grid.places(np.array(grid.count - 1))]
            plane, row, col = last[0], last[1], last[2] + 1
        else:
            plane, row, col = (int(v) for v in grid.places(np.array(element)))
    edge = lambda value, count: max(-1, min(count, int(value)))  # noqa: E731
    return plane, edge(row, grid.rows), edge(col, grid.cols)


def ravel_flat(index: Sequence[int], shape: Sequence[int]) -> int:
    """Return the flat position of an index that may be outside its array."""
    element = 0
    for i, side in zip(index, (*shape, *[1] * len(index))):
        element = element * side + int(i)
    return element if len(index) > 1 else int(index[0])


def _mark_cell(panel: Panel, at: tuple[int, int, int], index, middle, hidden) -> str:
    grid = panel.grid
    plane, row, col = at
    first = plane * grid.rows * grid.cols
    x, y = (float(v[0]) for v in grid.corners(np.array([first])))
    x, y = x + col * grid.side, y + row * grid.side
    side = max(grid.cell, 5.0)
    outside = not (0 <= row < grid.rows and 0 <= col < grid.cols)
    outside |= grid.cols * row + col >= grid.count
    fill = 0.0 if outside else svg.FILL
    mark = box(x, y, side, side, colour=FAULT, fill=fill, stroke=2.2)
    text = ",".join(str(i) for i in index)
    if outside and svg.width_of(text, 11) <= side - 1:
        mid = label(x + side / 2, y + side / 2 + 4, text, 11, anchor="middle")
        mark += mid
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
    y = top + 14
    out, y = sentences(findings_of(scene), EDGE, y)
    for line in counts(scene):
        out += label(EDGE, y, line, 12, faint=True)
        y += 18
    kinds = _list_kinds(scene)
    out += svg.legend(EDGE, y + 8, kinds)
    return out, y + 22


def width(scene: Scene) -> float:
    """Return the right end of the foot in pixels."""
    if findings_of(scene):
        return WIDTH
    lines = [svg.width_of(line, 12) for line in counts(scene)]
    marks = [svg.width_of(svg.MARKS[k][2], svg.SMALL) + 38 for k in _list_kinds(scene)]
    return EDGE + max([*lines, sum(marks)])


def _list_kinds(scene: Scene) -> list[str]:
    """List the kinds of marks in this picture, for its legend."""
    accesses, trace = scene.found, scene.trace
    shared = np.isin(
        accesses.array, [i for i, a in enumerate(trace.arrays) if a.space == "shared"]
    )
    written = set(np.unique(accesses.element[accesses.writes & ~shared]).tolist())
    kinds = []
    if (accesses.reads & ~shared).any():
        kinds.append("read")
    if written:
        kinds.append("written")
    if (accesses.reads & shared).any():
        kinds.append("shared")
    if (accesses.writes & shared).any():
        kinds.append("shared-written")
    kinds.append("thread")
    visible = accesses.where(np.isin(accesses.block, scene.blocks))
    pairs = len(np.unique(visible.block * scene.threads + visible.thread))
    if pairs < scene.threads * len(scene.blocks):
        kinds.append("idle")
    if findings_of(scene):
        kinds.append("fault")
    return kinds
