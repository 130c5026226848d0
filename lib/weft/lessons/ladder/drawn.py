"""Drawings of lesson 08b: when tiles are loaded, and in which order they are made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from ...base.style import INK, READ, THREAD, fade_colour

Span = tuple[float, float]  # start and end
Tile = tuple[int, int]  # row and column of tiles


def tile_order(down: int, across: int, group: int) -> list[Tile]:
    """The order in which rung `pipeline` makes down x across tiles.

    Groups of `group` rows one after another, inside them column by column; 1: row by
    row. As place_of() in kernels/matmul/10_pipeline.cu has it.
    """
    order = []
    for first in range(0, down, group):
        rows = range(first, min(first + group, down))
        order += [(row, col) for col in range(across) for row in rows]
    return order


def stages_drawn(
    ax: Axes, plans: Mapping[str, tuple[Sequence[Span], Sequence[Span]]]
) -> None:
    """Loads above, multiplications below, each with the number of its tile.

    plans: by name (spans of loading, spans of multiplying), in cycles.
    """
    longest = max(works[-1][1] for _, works in plans.values())
    for number, (name, (loads, works)) in enumerate(plans.items()):
        top = 3.2 * number
        for row, (spans, colour) in enumerate(((loads, READ), (works, THREAD))):
            free: list[float] = []  # ends, of the lanes in which loads overlap
            for tile, (start, end) in enumerate(spans):
                lane = next((i for i, t in enumerate(free) if t <= start), len(free))
                free[lane : lane + 1] = [end]
                height = 0.5 if row == 0 else 0.9
                y = top + 1.15 * row + 0.5 * lane
                _draw_span(ax, start, y, end - start, height, colour, tile)
        ax.text(-0.01 * longest, top + 1.1, name, ha="right", va="center")
        end = works[-1][1]
        ax.text(end * 1.005, top + 1.6, f" {end:,.0f}", va="center", size=11)
    ax.set(xlim=(0, 1.08 * longest), ylim=(3.2 * len(plans) - 0.8, -0.6), yticks=[])
    ax.set_xlabel("cycles; blue: a tile is loaded, purple: it is multiplied")
    ax.spines["left"].set_visible(False)
    ax.grid(False)


def order_drawn(ax: Axes, order: Sequence[Tile], blocks: int, title: str) -> None:
    """The tiles of c with their numbers, those of the first wave of blocks purple.

    Blue beside and above: the rows of a and the columns of b that this wave reads.
    """
    down, across = (1 + max(tile[i] for tile in order) for i in (0, 1))
    for number, (row, col) in enumerate(order):
        first = number < blocks
        look = {"ec": THREAD if first else INK, "lw": 1.2 if first else 0.5}
        look["fc"] = fade_colour(THREAD) if first else "none"
        ax.add_patch(Rectangle((col + 0.05, row + 0.05), 0.9, 0.9, **look))
        where = {"ha": "center", "va": "center", "size": 7.5}
        ax.text(col + 0.5, row + 0.53, str(number), **where)
    rows, cols = ({tile[i] for tile in order[:blocks]} for i in (0, 1))
    blue = {"ec": READ, "fc": fade_colour(READ), "lw": 1.2}
    for row in rows:
        ax.add_patch(Rectangle((-1.0, row + 0.05), 0.7, 0.9, **blue))
    for col in cols:
        ax.add_patch(Rectangle((col + 0.05, -1.0), 0.9, 0.7, **blue))
    said = f"{title}: {len(rows)} rows of a, {len(cols)} columns of b"
    ax.text(0, -1.3, said, size=11)
    ax.set(xlim=(-1.2, across + 0.1), ylim=(down + 0.1, -2.1), aspect="equal")
    ax.set_axis_off()


def _draw_span(
    ax: Axes, start: float, y: float, wide: float, high: float, colour: str, tile: int
) -> None:
    box = Rectangle((start, y), wide, high, ec=colour, fc=fade_colour(colour), lw=1.2)
    ax.add_patch(box)
    where = {"ha": "center", "va": "center", "size": 8.5}
    ax.text(start + wide / 2, y + high / 2 + 0.02, str(tile), **where)
