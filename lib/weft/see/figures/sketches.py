"""Small drawings of ideas, for the glossary: no launch, only what a word means.

warps((16, 4))                which threads of a block are a warp, and their lanes
rounds("down", "xor")         how lanes add up their numbers, round by round
tiles(8, 4)                   which tiles of a and b a block of a product walks through
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from ...base.errors import ArgumentError
from ...base.style import INK, READ, THREAD, WRITTEN
from .view import cells, figure, frame, sheet, thread

CELL = 0.4  # inches, of a thread
GAP = 1.7  # cells from one round to the next
LANES = 32
ROUNDS = {  # what a round is called, and whose number lane `i` adds, `step` apart
    "down": ("from the right", lambda i, step: i + step),
    "xor": ("across", lambda i, step: i ^ step),
    "up": ("from the left", lambda i, step: i - step),
}


def warps(block: tuple[int, int]) -> None:
    """Draw a block of (x, y) threads with their lanes; warps differ in colour."""
    wide, high = block
    with figure(CELL * (wide + 1), CELL * (high + 1)) as ax:
        sheet(ax, wide + 0.1, high + 0.1)
        for number in range(wide * high):
            warp, lane = divmod(number, LANES)
            x, y = number % wide, number // wide
            thread(ax, x, y, lane, colour=(THREAD, INK)[warp % 2])
        said = f"a block of {wide} x {high}: each thread's lane, a warp in one colour"
        ax.set_title(said, size=11, loc="left")


def rounds(*kinds: str, numbers: Sequence[float] = range(8)) -> None:
    """Draw how lanes add what others have, and the number that each has after a round.

    kinds: "down" (a reduction: the sum ends in lane 0), "xor" (all lanes have it) or
    "up" (a scan); a panel for each. Pale: what is of no use any more, or final.
    numbers: what they begin with, a power of two of them.
    """
    count = len(numbers)
    if count & (count - 1) or not count or not set(kinds) <= set(ROUNDS) or not kinds:
        raise ArgumentError(
            f"rounds{kinds} of {count}: kinds are {', '.join(ROUNDS)}; "
            "how many numbers, a power of two"
        )
    high = 1 + GAP * np.log2(count)
    size = CELL * (count + 1) * len(kinds), CELL * (high + 1.2)
    with figure(*size, columns=len(kinds), squeeze=False) as axes:
        for ax, kind in zip(axes[0], kinds):
            sheet(ax, count + 0.1, high + 0.1)
            _draw_rounds(ax, kind, list(numbers))


def _draw_rounds(ax: Axes, kind: str, values: list[float]) -> None:
    count = len(values)
    steps = [1 << k for k in range(count.bit_length() - 1)]
    if kind != "up":
        steps.reverse()
    where, partner = ROUNDS[kind]
    for row, step in enumerate([*steps, 0]):
        top = GAP * row
        for lane, value in enumerate(values):
            thread(
                ax, lane, top, f"{value:g}", runs=_is_counted(kind, lane, row, count)
            )
        if not step:
            break
        new = list(values)
        for lane in range(count):
            other = partner(lane, step)
            takes_part = kind != "down" or lane < step
            if takes_part and 0 <= other < count:
                new[lane] = values[lane] + values[other]
                for start in lane, other:
                    ends = [start + 0.5, lane + 0.5], [top + 0.92, top + GAP + 0.08]
                    ax.plot(*ends, color=THREAD, lw=1)
        values = new
    ax.set_title(
        f"{kind}: {where}, by {', '.join(map(str, steps))}", size=11, loc="left"
    )


def _is_counted(kind: str, lane: int, row: int, count: int) -> bool:
    """Whether the number that a lane has before round `row` is still of use."""
    if kind == "down":
        return lane < count >> row
    return True if kind == "xor" else lane >= (1 << row) // 2


def tiles(side: int, tile: int) -> None:
    """Draw c = a @ b, all side x side: one tile of c, and the tiles that it needs.

    Numbers say in which turn of the block's loop a tile is loaded.
    """
    if tile < 1 or side % tile:
        raise ArgumentError(f"tiles({side}, {tile}): whole tiles only")
    row, col = side // tile - 1, side // tile // 2  # of the tile of c
    step = side + 2
    with figure(0.25 * (2 * step + 1), 0.25 * (2 * step + 1)) as ax:
        sheet(ax, 2 * step, 2 * step)
        said = "c = a @ b: the block that makes\nthis tile of c walks through these,\n"
        ax.text(0, 3, said + "one of each in each turn", size=11, va="center")
        spans = [(turn * tile, (turn + 1) * tile) for turn in range(side // tile)]
        of_a = _mark_cells(side, [(row * tile, first) for first, _ in spans], tile)
        of_b = _mark_cells(side, [(first, col * tile) for first, _ in spans], tile)
        of_c = _mark_cells(side, [(row * tile, col * tile)], tile)
        for name, left, top, (values, marks), colour in (
            ("b", step, 1, of_b, READ),
            ("a", 0, step + 1, of_a, READ),
            ("c", step, step + 1, of_c, WRITTEN),
        ):
            if name == "c":
                values = [[""] * side for _ in range(side)]
            cells(ax, values, left, top, name, "", dict.fromkeys(marks, colour))
            for y, x in {(y // tile, x // tile) for y, x in marks}:
                frame(ax, left + x * tile, top + y * tile, tile, tile)


def _mark_cells(
    side: int, corners: Sequence[tuple[int, int]], tile: int
) -> tuple[list[list[object]], list[tuple[int, int]]]:
    """The turn in which each cell is loaded ("" for never), and those that are."""
    values: list[list[object]] = [[""] * side for _ in range(side)]
    marks = []
    for turn, (top, left) in enumerate(corners):
        for y, x in np.ndindex(tile, tile):
            values[top + y][left + x] = turn
            marks.append((top + y, left + x))
    return values, marks
