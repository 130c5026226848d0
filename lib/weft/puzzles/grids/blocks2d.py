"""Blocks 2D: many blocks, rows and columns."""

import numpy as np

from weft import cuda

from ...check.cases import divide_up
from ..puzzle import Puzzle
from ..sizes import every_size


def spec(a):
    return a + np.arange(a.shape[1])  # 0 for the first column, then 1, 2, ...


def add_column_numbers(out, a, height, width):
    """out (height,width) = a (height,width) + the column. About five lines."""
    ### BEGIN SOLUTION
    col = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    row = cuda.blockIdx.y * cuda.blockDim.y + cuda.threadIdx.y
    if row < height and col < width:
        i = row * width + col
        out[i] = a[i] + col
    ### END SOLUTION


puzzle = Puzzle(
    title="Blocks 2D",
    text=(
        "Add to each number of `a` the number of its column; `a` has `height` rows of "
        "`width` numbers. Blocks are arranged in rows and columns. They extend beyond "
        "the array on the right and at the bottom, and some are completely outside."
    ),
    spec=spec,
    answer=add_column_numbers,
    checks=dict(
        outputs={"out": ("height", "width")},
        inputs={"a": ("height", "width")},
        sizes=every_size(
            [(1, 1), (2, 2), (1, 7), (7, 1), (3, 4), (5, 5), (6, 9), (11, 7)], (37, 50)
        ),
        launch=[
            lambda height, width: ((divide_up(width, 3), divide_up(height, 3)), (3, 3)),
            lambda height, width: ((divide_up(width, 4), divide_up(height, 2)), (4, 2)),
            lambda height, width: (
                (divide_up(width, 2) + 1, divide_up(height, 5) + 1),
                (2, 5),
            ),
        ],
    ),
    drawn=dict(height=5, width=5),
    launch=((2, 2), (3, 3)),
    hints=[
        "This is the previous puzzle, once for each dimension: compute a column and a "
        "row.",
        "`x` runs along a row, so it gives the column. `y` has a `blockIdx`, a "
        "`blockDim` and a `threadIdx` of its own.",
        "The rest is as in Map 2D: a guard with two parts, and one index in the flat "
        "array.",
    ],
    better="Each number is read once and written once, by its own thread.",
    scored=dict(height=5, width=2, launch=((2, 2), (4, 3))),
    limits={
        "writes.out": lambda height, width: height * width,
        "rounds.out": 2,  # half of the blocks have nothing to do
    },
)
