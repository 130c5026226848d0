"""Pictures for lesson 08c: the bits of a number, and which lane has which element.

bits({"fp32": (8, 23), "bf16": (8, 7)})
mine, kept = owners("a")                     lane and register of each element
fragments({"a": mine}, lane=5)
ring(stages=8, places=4, latency=3)          a producer fills what consumers empty
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from ...base.style import INK, READ, THREAD, fade_colour
from .view import cells, figure, sheet

WORD = 32  # bits
NAME = 5.5  # cells that a name may take
CELL = 0.235  # inches
GAP = 2  # cells between fragments


def bits(formats: Mapping[str, tuple[int, int]]) -> None:
    """Draw formats below each other, by their bits of exponent and of mantissa.

    Dashed: bits that lie in memory, as part of a float, and are not looked at.
    """
    with figure(CELL * (NAME + WORD + 0.5), CELL * 1.7 * len(formats)) as ax:
        sheet(ax, NAME + WORD + 0.3, 1.7 * len(formats))
        for row, (name, (exponent, mantissa)) in enumerate(formats.items()):
            top = 1.7 * row + 0.4
            look = {"va": "center", "family": "monospace", "weight": "bold"}
            ax.text(0, top + 0.5, name, size=11, **look)
            there = 1 + exponent + mantissa
            for place in range(there if there <= 16 else WORD):
                kind = "s" if not place else "e" if place <= exponent else "m"
                _draw_bit(ax, NAME + place, top, kind if place < there else "")


def owners(which: str) -> tuple[np.ndarray, np.ndarray]:
    """Lane, and number in it, of each element: of mma.sync, 16 bits, k = 16.

    which: "a" (16,16), "b" (16,8) or "c" (16,8). Numbers of a and b count halves: two
    to a register. PTX ISA, "Matrix Fragments for mma.m16n8k16".
    """
    rows, cols = np.indices({"a": (16, 16), "b": (16, 8), "c": (16, 8)}[which])
    if which == "b":  # a column of b is what a row is of a
        rows, cols = cols, rows
    lane = rows % 8 * 4 + cols % 8 // 2
    below, right = rows // 8, cols // 8
    kept = cols % 2 + 2 * (right if which == "b" else below + 2 * right)
    return lane, kept


def fragments(lanes: Mapping[str, np.ndarray], lane: int | None = None) -> None:
    """Draw matrices side by side, in each element the lane that holds it.

    lane: whose elements are marked.
    """
    wide = sum(table.shape[1] + GAP for table in lanes.values())
    high = max(table.shape[0] for table in lanes.values())
    with figure(CELL * (wide + 0.2), CELL * (high + 1.6)) as ax:
        sheet(ax, wide, high + 1.5)
        left = 0
        for name, table in lanes.items():
            own = {tuple(at): THREAD for at in np.argwhere(table == lane)}
            cells(ax, table, left, 1.4, name, "", own)
            left += table.shape[1] + GAP


def ring(stages: int, places: int, latency: float, apart: float = 0.5) -> float:
    """Draw when stages arrive in a ring's places, and when they are multiplied.

    latency: from the producer's request until a stage is there; apart: between two
    that arrive; both in the time that it takes to multiply a stage. Returns how much of
    the time the tensor cores work.
    """
    asked, arrived, begun = stages_of(stages, places, latency, apart)
    end = begun[-1] + 1
    with figure(9.5, 0.32 * (places + 2) + 0.5) as ax:
        for stage in range(stages):
            row = stage % places
            _draw_span(ax, row, asked[stage], arrived[stage], READ, stage)
            _draw_span(ax, row, begun[stage], begun[stage] + 1, THREAD, stage)
            _draw_span(ax, places + 0.3, begun[stage], begun[stage] + 1, THREAD, stage)
        names = [f"place {place}" for place in range(places)]
        ax.set_yticks([*range(places), places + 0.3], [*names, "tensor cores"])
        ax.set(ylim=(places + 0.8, -0.6), xlim=(0, max(end, 24)))
        ax.set_xlabel("time of one stage's products; blue: on its way, purple: used")
        ax.grid(False)
    return stages / end


def stages_of(
    stages: int, places: int, latency: float, apart: float
) -> tuple[list[float], list[float], list[float]]:
    """When each stage is asked for, when it is there, when its products begin."""
    asked: list[float] = []
    arrived: list[float] = []
    begun: list[float] = []
    for stage in range(stages):
        # Its place is free once what was there before has been multiplied.
        free = begun[stage - places] + 1 if stage >= places else 0.0
        asked.append(max(free, asked[-1] if asked else 0.0))
        last = arrived[-1] + apart if arrived else 0.0
        arrived.append(max(asked[-1] + latency, last))
        begun.append(max(arrived[-1], begun[-1] + 1 if begun else 0.0))
    return asked, arrived, begun


def _draw_span(
    ax: Axes, row: float, start: float, end: float, colour: str, stage: int
) -> None:
    look = {"fc": fade_colour(colour), "ec": colour, "lw": 1.2}
    ax.add_patch(Rectangle((start, row - 0.36), end - start, 0.72, **look))
    middle = {"ha": "center", "va": "center", "size": 9}
    ax.text((start + end) / 2, row, str(stage), **middle)


def _draw_bit(ax: Axes, left: float, top: float, kind: str) -> None:
    """A bit of the sign, exponent or mantissa, or one that is not looked at."""
    look = {"lw": 0.9, "ec": INK, "fc": fade_colour(INK) if kind == "e" else "none"}
    look |= {} if kind else {"alpha": 0.35}
    ax.add_patch(Rectangle((left + 0.05, top), 0.9, 1, **look))
    where = {"size": 9, "ha": "center", "va": "center"}
    ax.text(left + 0.5, top + 0.53, kind, **where)
