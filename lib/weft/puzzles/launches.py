"""The launch that a puzzle is drawn with: in words, and its threads as circles."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..check.cases import by_name, three
from ..figures.style import THREAD, WIDTH
from ..figures.words import plural
from ..pictures import svg
from ..pictures.panels import EDGE, LEFT
from ..pictures.svg import label
from .instance import Instance


def launch_of(puzzle: Any, case: Instance) -> tuple[tuple, tuple] | None:
    """(grid, block), both (x, y, z); None for what is no kernel."""
    launch = getattr(puzzle, "launch", None)
    if launch is None:
        return None
    if callable(launch):
        launch = by_name(launch, case.sizes)
    return three(launch[0]), three(launch[1])


def launch_words(grid: tuple, block: tuple) -> str:
    """ "2 blocks of 4 threads", "1 block of 16 × 8 threads (x × y)": an array's shape
    has its rows first, which is y."""
    sides = [n for n in block if n > 1] or [1]
    of = " × ".join(str(n) for n in sides)
    blocks = plural(int(np.prod(grid)), "block")
    if sum(n > 1 for n in grid) > 1:
        blocks = " × ".join(str(n) for n in grid if n > 1) + " blocks"
    order = " (x × y)" if grid[:2] != grid[1::-1] or block[:2] != block[1::-1] else ""
    order = order if len(sides) == 2 else ""
    return f"{blocks} of {of} thread{'s' * (int(np.prod(block)) != 1)}{order}"


def launch_drawn(
    grid: tuple, block: tuple, left: float, top: float
) -> tuple[str, float]:
    """The threads there are, lightly: a frame for each block, a circle for each.

    left: of the first block; the name stands before it. Where they are too many
    nothing is drawn: the line of counts tells.
    """
    (across, down, deep), (x, y, z) = grid, block
    if y == z == 1 and x > 32:
        x, y = 32, -(-x // 32)
    side = min(20.0, (WIDTH - left - EDGE - 14 * across) / (x * across))
    high = down * (y * side + 18)
    if deep > 1 or z > 1 or side < 7 or high > 165:
        return "", top - 8
    # In one line with the names of arrays: right of an edge, or at the edge itself.
    at, anchor = (left - 14, "end") if left == LEFT else (EDGE, "start")
    out = label(at, top + 19, "threads", 14, anchor=anchor, mono=True, bold=True)
    parts = []
    for number in range(across * down):
        bx, by = number % across, number // across
        at, upper = left + bx * (x * side + 14), top + by * (y * side + 18) + 2
        wide, tall = x * side + 6, y * side + 8
        parts.append(svg.box(at - 4, upper, wide, tall, radius=8, strength=0.4))
        parts.append(_circles(at, upper + 4, x, y, side, int(np.prod(block))))
    words = launch_words(grid, block)
    return out + f'<g data-threads="{words}">{"".join(parts)}</g>', top + high


def _circles(
    left: float, top: float, cols: int, rows: int, side: float, count: int
) -> str:
    radius = side / 2 - 2
    r, d = svg.num(radius), svg.num(2 * radius)
    path = "".join(
        f"M{svg.num(left + (i % cols + 0.5) * side - 1 - radius)} "
        f"{svg.num(top + (i // cols + 0.5) * side)}"
        f"a{r} {r} 0 1 0 {d} 0a{r} {r} 0 1 0 -{d} 0z"
        for i in range(min(count, cols * rows))
    )
    return (
        f'<path d="{path}" fill="{THREAD}" fill-opacity=".18" stroke="{THREAD}" '
        f'stroke-opacity=".7"/>'
    )
