"""The image filter as a kernel."""

import numpy as np
from numpy import float32

from weft import cuda

from ...check.cases import divide_up
from ..puzzle import Puzzle
from ..sizes import every_size


def spec(x):
    around = np.pad(x, 1, mode="edge")  # repeats every border pixel outside
    rows = around[:-2] + around[1:-1] + around[2:]
    return (rows[:, :-2] + rows[:, 1:-1] + rows[:, 2:]) / 9


def noisy(rng, shape):
    """A bright W on a dark ground (height,width), with noise to filter out."""
    row, col = (np.arange(length)[:, None] / length for length in shape)
    zigzag = abs(4 * col.T % 2 - 1)
    return (abs(row - 0.75 + 0.6 * zigzag) < 0.2) - 0.5 + rng.normal(0, 0.3, shape)


def blur(y, x, height, width):
    """y (height,width): means of x over 3x3 pixels. About ten lines, two loops."""
    col = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    row = cuda.blockIdx.y * cuda.blockDim.y + cuda.threadIdx.y
    ### BEGIN SOLUTION
    if row < height and col < width:
        total = float32(0)
        for r in range(row - 1, row + 2):
            for c in range(col - 1, col + 2):
                inside_r = min(max(r, 0), height - 1)
                inside_c = min(max(c, 0), width - 1)
                total += x[inside_r * width + inside_c]
        y[row * width + col] = total / float32(9)
    ### END SOLUTION


puzzle = Puzzle(
    title="Image filter",
    text=(
        "Write the same blur as a kernel: each pixel of `y` is the mean of 3x3 pixels "
        "of `x`. Beyond the border, the nearest pixel counts again. There are many "
        "blocks, which extend beyond the picture on the right and at the bottom."
    ),
    spec=spec,
    answer=blur,
    checks=dict(
        outputs={"y": ("height", "width")},
        inputs={"x": ("height", "width")},
        sizes=every_size([(1, 1), (1, 4), (5, 1), (2, 2), (5, 6), (9, 7)]),
        launch=[
            lambda height, width: ((divide_up(width, 4), divide_up(height, 4)), (4, 4)),
            lambda height, width: ((divide_up(width, 5), divide_up(height, 2)), (5, 2)),
            lambda height, width: (
                (divide_up(width, 2) + 1, divide_up(height, 3)),
                (2, 3),
            ),
        ],
        data={"x": noisy},
        terms=20,
    ),
    drawn=dict(height=20, width=28),
    launch=((2, 3), (16, 8)),
    hints=[
        "A thread owns the pixel that it writes. It reads nine pixels in two short "
        "loops, over the rows around `row` and the columns around `col`.",
        "At the left border `col` - 1 is -1, and the nearest column that exists is 0. "
        "`min` and `max` work inside a kernel.",
        "Add up in a local variable that starts as `float32(0)`, and store the mean "
        "once, after both loops. A plain `0.0` is float64, which a GPU adds far more "
        "slowly.",
    ],
    better=(
        "Nine reads and one write for each pixel: add up in a local variable, not in "
        "`y`."
    ),
    limits={"rounds.y": 19},  # of nine `+=` in `y`; one thread alone has more
)
