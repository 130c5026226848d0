"""Where the picture of who touches what has room for something else."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...base.style import WIDTH
from . import foot
from .layout import Layout, words
from .panels import EDGE, LEFT
from .scene import Scene
from .svg import width_of
from .touched import NAMES, name_lines

Frame = tuple[float, float, float, float]  # from (x, y) to (x, y)
BOXES = 12  # along the arrows between an array and the threads
APART = 24.0  # pixels between what is there and what is put there


def taken(layout: Layout, scene: Scene, height: float) -> list[Frame]:
    """What holds something at some stop of the sliders, arrows included.

    height: of the picture, which ends there.
    """
    out = [(0.0, 0.0, WIDTH, 56.0), (0.0, height - 12, WIDTH, 1e6)]
    out.append((0.0, layout.bottom - 10, foot.width(scene), height))
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
        right = max(right + panel.after, x + words(scene, panel.number))
        cells = (panel.left, panel.top, right, panel.top + panel.height)
        out.append(cells)
        there = (grid.left, grid.top, grid.left + grid.width, grid.top + grid.height)
        level = panel.place == "right"
        out += [box for each in threads for box in _trace_path(each, there, level)]
    return out


def place(
    taken: Sequence[Frame], width: float, height: float
) -> tuple[float, float] | None:
    """A free place for something of that size: the upper left corner; None: none."""
    lefts = sorted({frame[2] + APART for frame in taken if frame[2] < WIDTH})
    tops = sorted({frame[3] + APART / 2 for frame in taken if frame[3] < 1e5})
    for x, y in ((x, y) for y in tops for x in lefts):
        mine = (x, y, x + width, y + height)
        if x + width <= WIDTH - EDGE and not any(meet(mine, one) for one in taken):
            return x, y
    return None


def _measure_names(scene: Scene) -> float:
    """How far to the right the values of locals below the threads go."""
    every = list(range(scene.threads))
    lines = name_lines(scene, scene.blocks, every, True)[:NAMES]
    texts = ["  ".join(f"{name} = {value}" for name, value in line) for line in lines]
    return EDGE + max((width_of(text, 12, mono=True) for text in texts), default=0.0)


def _trace_path(start: Frame, end: Frame, level: bool) -> list[Frame]:
    """Where arrows between two frames pass (svg.arrow has their form).

    For one parameter of the curves, where they are is a box between the frames.
    """
    t = np.linspace(0, 1, BOXES + 1)
    even = 3 * t**2 - 2 * t**3  # with the two inner control points at the ends
    ahead = 1.65 * t * (1 - t) ** 2 + 1.35 * t**2 * (1 - t) + t**3
    share = [ahead, even, ahead, even] if level else [even, ahead, even, ahead]
    at = [(1 - s) * a + s * b for s, a, b in zip(share, start, end)]
    return [
        tuple(float(f(side[i : i + 2])) for f, side in zip((min, min, max, max), at))
        for i in range(BOXES)
    ]


def meet(one: Frame, other: Frame) -> bool:
    """Whether two frames have a point in common."""
    across = one[0] < other[2] and other[0] < one[2]
    return across and one[1] < other[3] and other[1] < one[3]
