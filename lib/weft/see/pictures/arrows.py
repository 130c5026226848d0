"""Draw the arrows of the access picture, and find free room between them.

taken() and place() find room for other parts of the picture. arrows() draws the arrows,
and Hidden makes them faint where they pass behind text or frames.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...base.style import WIDTH, WRITTEN
from . import findings, svg
from .access_layout import (
    NAMES,
    WORDS,
    AccessLayout,
    Moment,
    axis_labels,
    lines_of,
    name_lines,
)
from .grid import Grid
from .panels import EDGE, LEFT, LINE, Panel, has_indices
from .scene import SIDE, Scene
from .svg import width_of

Frame = tuple[float, float, float, float]  # left, top, right, bottom
BOXES = 12  # number of boxes along the arrows between an array and the threads
APART = 24.0  # pixels between existing parts and a new one


def taken(layout: AccessLayout, scene: Scene, height: float) -> list[Frame]:
    """List the frames that are occupied at some stop of the sliders, arrows included.

    height: the height of the picture.
    """
    out = [(0.0, 0.0, WIDTH, 56.0), (0.0, height - 12, WIDTH, 1e6)]
    out.append((0.0, layout.bottom - 10, findings.width(scene), height))
    if layout.strip:
        width = LEFT + 90.0 * len(scene.intervals)
        out.append((0.0, layout.strip - 4, min(width, WIDTH), layout.bottom))
    threads = [
        (g.left - 8, g.top - 8, g.left + g.width + 8, g.top + g.height + 26)
        for g in layout.grids.values()
    ]
    if layout.block:
        block = layout.block
        wide, bottom = block.left + block.width, block.top + block.height
        out.append((0.0, block.top - 8, wide, bottom + 8))
        out.append((0.0, layout.names[1] - 14, _measure_names(scene), layout.bottom))
    for panel in layout.panels:
        grid = panel.grid
        x, _ = panel.words_at
        right = max(grid.left + grid.width, panel.left + panel.width)
        right += panel.after * panel.beside
        right = max(right, x + panel.words)
        out.append((panel.left, panel.top, right, panel.top + panel.height))
        target = (grid.left, grid.top, grid.left + grid.width, grid.top + grid.height)
        level = panel.place == "right"
        out += [box for each in threads for box in _trace_path(each, target, level)]
    return out


def place(
    taken: Sequence[Frame], width: float, height: float
) -> tuple[float, float] | None:
    """Return the upper left corner of a free area of this size, or None."""
    lefts = sorted({frame[2] + APART for frame in taken if frame[2] < WIDTH})
    tops = sorted({frame[3] + APART / 2 for frame in taken if frame[3] < 1e5})
    for x, y in ((x, y) for y in tops for x in lefts):
        candidate = (x, y, x + width, y + height)
        if x + width <= WIDTH - EDGE and not any(meet(candidate, one) for one in taken):
            return x, y
    return None


def _measure_names(scene: Scene) -> float:
    """Return the right end, in pixels, of the locals' values below the threads."""
    lines = name_lines(scene, scene.blocks, range(scene.threads), True)[:NAMES]
    texts = ["  ".join(f"{name} = {value}" for name, value in line) for line in lines]
    return EDGE + max((width_of(text, 12, mono=True) for text in texts), default=0.0)


def _trace_path(start: Frame, end: Frame, level: bool) -> list[Frame]:
    """List frames that cover the arrows (of svg.arrow) between two frames.

    Each of them covers the curves between two values of the curve parameter.
    """
    t = np.linspace(0, 1, BOXES + 1)
    # Along this axis, each inner control point of the curve equals the nearer end
    # point.
    even = 3 * t**2 - 2 * t**3
    ahead = 1.65 * t * (1 - t) ** 2 + 1.35 * t**2 * (1 - t) + t**3
    share = [ahead, even, ahead, even] if level else [even, ahead, even, ahead]
    at = [(1 - s) * a + s * b for s, a, b in zip(share, start, end)]
    return [
        tuple(float(f(side[i : i + 2])) for f, side in zip((min, min, max, max), at))
        for i in range(BOXES)
    ]


def meet(one: Frame, other: Frame) -> bool:
    """Return whether two frames have a point in common."""
    across = one[0] < other[2] and other[0] < one[2]
    return across and one[1] < other[3] and other[1] < one[3]


# Smallest cell or thread, in pixels, that an arrow can point to accurately.
ROOM = 12.0


def arrows(
    moment: Moment,
    panels: list[Panel],
    frames: dict[int, Grid],
    threads: Panel | None = None,
) -> str:
    """Draw arrows from the cells read to their thread, and on to the cells written.

    threads: the panel of a single block that has rows and columns.
    """
    if moment.who is None and not moment.few:
        return ""
    order = moment.order
    if not len(order):
        return ""
    worded = [*panels, threads] if threads else panels
    texts = [frame for panel in worded for frame in _list_texts(moment, panel)]
    out = []
    for panel in panels:
        if moment.who is None and (panel.grid.is_large or not panel.flat):
            continue
        rows = order[order[:, 2] == panel.number]
        for block, thread, write in np.unique(rows[:, [0, 1, 3]], axis=0).tolist():
            grid = frames[block]
            mask = (rows[:, [0, 1, 3]] == (block, thread, write)).all(1)
            for element in _list_targets(rows[mask, 4], panel, grid.middle(thread)):
                cells = [f for p in panels for f in _list_rows(p, panel, element)]
                hidden = Hidden([*texts, *cells], frames, (block, thread))
                out.append(_draw_arrow(panel, element, grid, write, hidden))
    return "".join(out)


def _list_targets(
    elements: np.ndarray, panel: Panel, at: tuple[float, float]
) -> list[int]:
    """Select the cells that get an arrow: a few, or the one nearest to the thread."""
    most = 8 if panel.flat and panel.grid.rows == 1 else 6
    if len(elements) <= (most if panel.grid.side >= ROOM else 1):
        return elements.tolist()
    x, y = panel.grid.corners(elements)
    distance = abs(y - at[1]) * 1000 + abs(x - at[0])
    return [int(elements[np.argmin(distance)])]


def _draw_arrow(
    panel: Panel, element: int, grid: Grid, write: int, hidden: Hidden
) -> str:
    x, y = panel.grid.middle(element)
    tx, ty = grid.middle(hidden.who[1])
    half, radius = panel.grid.cell / 2 + 1.5, grid.side / 2 - 1.5
    aside = (2.5 if write else -2.5) * (panel.grid.side >= ROOM)
    if panel.place == "right":
        cell, circle = (x - half, y + aside), (tx + radius, ty + aside / 2)
    elif panel.place == "above":
        cell, circle = (x + aside, y + half), (tx + aside / 2, ty - radius)
    else:
        cell, circle = (x + aside, y - half), (tx + aside / 2, ty + radius)
    options = dict(level=panel.place == "right", hidden=hidden.at)
    if write:
        return svg.arrow(circle, cell, WRITTEN, **options)
    return svg.arrow(cell, circle, panel.colour, **options)


# ---- parts in front of an arrow ------------------------------------------------------


class Hidden:
    """The places where one thread's arrow is faint: behind frames and other threads.

    who: the thread's (block, thread).
    """

    def __init__(
        self, frames: Sequence[Frame], grids: dict[int, Grid], who: tuple[int, int]
    ) -> None:
        self.frames, self.grids, self.who = frames, grids, who

    def at(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return a mask of the points that are hidden."""
        out = np.zeros(len(x), bool)
        box = float(x.min()), float(y.min()), float(x.max()), float(y.max())
        for frame in self.frames:
            if meet(frame, box):
                left, top, right, bottom = frame
                out |= (x > left) & (x < right) & (y > top) & (y < bottom)
        for block, grid in self.grids.items():
            right, bottom = grid.left + grid.width, grid.top + grid.height
            # If a block's threads are in one row, arrows come from above or below.
            alone = grid.rows == 1 and block == self.who[0]
            near = meet((grid.left, grid.top, right, bottom), box) and not alone
            if near and grid.side >= SIDE and grid.planes == 1:
                col = np.floor((x - grid.left) / grid.side)
                row = np.floor((y - grid.top) / grid.side)
                inside = (col >= 0) & (col < grid.cols) & (row >= 0) & (row < grid.rows)
                if block == self.who[0]:
                    inside &= row * grid.cols + col != self.who[1]
                half = grid.cell / 2
                distance = np.hypot(
                    x - grid.left - col * grid.side - half,
                    y - grid.top - row * grid.side - half,
                )
                out |= inside & (distance < half)
        return out


def _list_rows(panel: Panel, target: Panel, element: int) -> list[Frame]:
    """List the rows of cells that contain indices, except the row of the target."""
    grid = panel.grid
    if not panel.flat or not has_indices(grid):
        return []
    target_row = element // grid.cols if panel is target else -1
    return [frame for row, frame in enumerate(grid.frames()) if row != target_row]


def _list_texts(moment: Moment, panel: Panel) -> list[Frame]:
    """List the frames of an array's name, index expressions and numbers."""
    grid, out = panel.grid, []
    for x, y, text, _ in lines_of(moment, panel):
        wide = svg.width_of(text, WORDS, mono=True)
        out.append((x - 2, y - 11, x + 15 + wide, y + 4))
    if panel.flat:
        return out
    if panel.above:
        wide = svg.width_of(panel.array.name, 14, mono=True) + 8
        wide += svg.width_of(panel.note, 11)
        out.append((panel.left - 2, panel.top, panel.left + wide, panel.top + 16))
    if panel.numbered:
        left = grid.left - 7.0 * len(str(grid.rows - 1)) - 6
        out.append((left, grid.top, grid.left - 3, grid.top + grid.height))
        right, bottom = grid.left + grid.width, grid.top + grid.height
        top = grid.top - LINE if panel.above else bottom + panel.frame
        out.append((grid.left, top, right, top + LINE - 3))
    for x, y, text, anchor in axis_labels(moment, panel):
        wide = svg.width_of(text, 11, mono=True)
        left = x - wide if anchor == "end" else x - wide / 2
        out.append((left - 1, y - 10, left + wide + 1, y + 3))
    return out
