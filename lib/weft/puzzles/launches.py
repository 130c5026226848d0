"""The launch that a puzzle is drawn with: in words, and its threads as circles."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base.style import THREAD, WIDTH
from ..base.text import count_things
from ..check.cases import by_name, make_three
from ..see.pictures import svg
from ..see.pictures.panels import EDGE, LEFT
from ..see.pictures.svg import label
from .instance import Instance


def launch_of(puzzle: Any, case: Instance) -> tuple[tuple, tuple] | None:
    """(grid, block), both (x, y, z); None for what is no kernel."""
    launch = getattr(puzzle, "launch", None)
    if launch is None:
        return None
    if callable(launch):
        launch = by_name(launch, case.sizes)
    return make_three(launch[0]), make_three(launch[1])


def launch_words(grid: tuple, block: tuple) -> str:
    """ "2 blocks of 4 threads", "1 block of 16 × 8 threads (x × y)": an array's shape
    has its rows first, which is y."""
    sides = [n for n in block if n > 1] or [1]
    of = " × ".join(str(n) for n in sides)
    blocks = count_things(int(np.prod(grid)), "block")
    if sum(n > 1 for n in grid) > 1:
        blocks = " × ".join(str(n) for n in grid if n > 1) + " blocks"
    order = " (x × y)" if grid[:2] != grid[1::-1] or block[:2] != block[1::-1] else ""
    order = order if len(sides) == 2 else ""
    return f"{blocks} of {of} thread{'s' * (int(np.prod(block)) != 1)}{order}"


def launch_drawn(
    grid: tuple, block: tuple, left: float, top: float, cell: float = 0.0
) -> tuple[str, float]:
    """The threads there are, lightly: a frame for each block, a circle for each.

    left: of the first block; the name stands before it. cell: pixels of a cell of the
    row above, if threads may stand below its cells, one below each: then it is seen
    where a block ends. Where there are too many threads nothing is drawn: the line of
    counts tells.
    """
    (across, down, deep), (x, y, z) = grid, block
    if cell and x * across * cell <= WIDTH - left - EDGE and y * z * down * deep == 1:
        return _below_cells(across, x, left, top, cell)
    if y == z == 1 and x > 32:
        x, y = 32, -(-x // 32)
    side = min(20.0, (WIDTH - left - EDGE - 14 * across) / (x * across))
    high = down * (y * side + 18)
    if deep > 1 or z > 1 or side < 7 or high > 165:
        return "", top - 8
    parts = []
    for number in range(across * down):
        bx, by = number % across, number // across
        at, upper = left + bx * (x * side + 14), top + by * (y * side + 18) + 2
        wide, tall = x * side + 6, y * side + 8
        parts.append(svg.box(at - 4, upper, wide, tall, radius=8, strength=0.4))
        parts.append(_draw_circles(at, upper + 4, x, y, side, int(np.prod(block))))
    return _describe_launch(launch_words(grid, block), parts, left, top), top + high


def _below_cells(
    blocks: int, count: int, left: float, top: float, cell: float
) -> tuple[str, float]:
    """Threads of one dimension, each as wide as a cell of the row above."""
    side, parts = min(cell, 20.0), []
    for number in range(blocks):
        at, wide = left + number * count * cell, count * cell
        frame = svg.box(at, top + 2, wide - 3, side + 8, radius=8, strength=0.4)
        parts.append(frame + _draw_circles(at, top + 6, count, 1, side, count, cell))
    words = launch_words((blocks, 1, 1), (count, 1, 1))
    return _describe_launch(words, parts, left, top), top + side + 18


def _describe_launch(words: str, parts: list[str], left: float, top: float) -> str:
    """In one line with the names of arrays: right of an edge, or at the edge itself."""
    at, anchor = (left - 14, "end") if left == LEFT else (EDGE, "start")
    name = label(at, top + 19, "threads", 14, anchor=anchor, mono=True, bold=True)
    return name + f'<g data-threads="{words}">{"".join(parts)}</g>'


def _draw_circles(
    left: float,
    top: float,
    cols: int,
    rows: int,
    side: float,
    count: int,
    apart: float = 0.0,
) -> str:
    """Circles in rows, `side` pixels from one to the next, or `apart` within a row."""
    radius, apart = side / 2 - 2, apart or side
    r, d = svg.num(radius), svg.num(2 * radius)
    path = "".join(
        f"M{svg.num(left + (i % cols + 0.5) * apart - 1 - radius)} "
        f"{svg.num(top + (i // cols + 0.5) * side)}"
        f"a{r} {r} 0 1 0 {d} 0a{r} {r} 0 1 0 -{d} 0z"
        for i in range(min(count, cols * rows))
    )
    return (
        f'<path d="{path}" fill="{THREAD}" fill-opacity=".18" stroke="{THREAD}" '
        f'stroke-opacity=".7"/>'
    )
