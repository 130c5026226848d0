"""transpose in PyTorch, with the cases and sizes for its checks and timings."""

from __future__ import annotations

from collections.abc import Iterator

from ..op import Bench, Op
from . import Answer, Case, random


def transpose(x):
    """Return the transpose of x (rows, cols) as an array (cols, rows) of its own."""
    return x.t().contiguous()


OP = Op(transpose, {"x": "rows, cols", "y": "cols, rows"})
BENCH = Bench(
    *("rows", (256, 1024, 8192)),
    same=("cols",),
    numpy={"transpose": lambda x: x.T.copy()},
)

_SHAPES = (
    *((1, 1), (1, 70), (70, 1), (3, 5), (4, 4), (31, 33), (32, 32), (33, 31)),
    *((63, 65), (64, 64), (65, 63), (60, 68), (68, 60), (4, 132), (132, 4)),
    *((128, 192), (127, 129), (129, 127), (100, 36), (145, 70), (16, 16), (256, 8)),
)
# Distances of x and of y from an address that is a multiple of 16, in floats.
_SHIFTS = ((1, 0), (0, 1), (3, 3))


def cases(generator) -> Iterator[Case]:
    for rows, cols in _SHAPES:
        yield _forward_case(generator, rows, cols)
        dy = random(generator, cols, rows)
        title = f"rows={rows}, cols={cols}"
        yield OP.case(title, {"dy": dy}, {"dx": Answer(dy.t().double())})
    for shifts in _SHIFTS:
        yield _forward_case(generator, 68, 72, *shifts)


def _forward_case(generator, rows: int, cols: int, from_: int = 0, to: int = 0) -> Case:
    x = random(generator, rows, cols)
    title = f"rows={rows}, cols={cols}"
    title += f", shifted by {from_} and {to}" * bool(from_ or to)
    case = OP.case(title, {"x": x}, {"y": Answer(x.t().double())})
    case.shift = {"x": from_, "y": to}
    return case
