"""Argmax: the column of the largest number of a row."""

import numpy as np
from numpy import float32, int32

from weft import cuda

from ..puzzle import Puzzle
from ..sizes import every_size


def spec(a):
    return a.argmax(axis=1)


def argmax_rows(out, a, cols):
    """out[row] = column of the row's largest number. Blocks of 32. Sixteen lines."""
    s = cuda.shared.array(32, float32)
    at = cuda.shared.array(32, int32)
    col = cuda.threadIdx.x
    row = cuda.blockIdx.x
    ### BEGIN SOLUTION
    most = a[row * cols + col] if col < cols else float32(-np.inf)
    place = col
    s[col] = most
    at[col] = place
    half = 16
    while half > 0:
        cuda.syncthreads()
        if col < half:
            other, there = s[col + half], at[col + half]
            if other > most or (other == most and there < place):
                most, place = other, there
            s[col] = most
            at[col] = place
        half //= 2
    if col == 0:
        out[row] = place
    ### END SOLUTION


def numbers(rng, shape):
    """Few different values, so that many are equal; some rows all negative.

    With enough rows, some contain fractions and some numbers far from zero.
    """
    whole = rng.integers(-3, 4, shape) - 4 * rng.integers(0, 2, (shape[0], 1))
    if shape[0] < 3:
        return whole
    return whole * rng.choice([1, 0.25, 1e30], (shape[0], 1))


puzzle = Puzzle(
    title="Argmax",
    text=(
        "`out[row]` is [the column](glossary.ipynb#argmax) of the largest number in "
        "row `row`. If that number occurs more than once, it is the first such column. "
        "Each row has a block of 32 threads, and `cols` is at most 32."
    ),
    spec=spec,
    answer=argmax_rows,
    checks=dict(
        outputs={"out": "int32[rows]"},
        inputs={"a": ("rows", "cols")},
        sizes=every_size(
            [
                dict(rows=r, cols=c)
                for r, c in [(2, 12), (1, 1), (8, 31), (9, 32), (5, 2), (3, 5), (4, 17)]
            ],
            most=(8, 32),
        ),
        launch=lambda rows: (rows, 32),
        data={"a": numbers},
    ),
    drawn=dict(rows=2, cols=12),
    launch=(2, 32),
    scored=dict(rows=4, cols=32, launch=(4, 32)),
    hints=[
        "This is a tree like that of a sum, but instead of adding two numbers it keeps "
        "the larger one, with its column in `at`.",
        "Beyond the end of a row, use a number that never wins, not even against "
        "negative numbers: `-np.inf`.",
        "If both numbers are equal, compare their columns and keep the smaller one. In "
        "a tree the left one of two need not be the first.",
    ],
    better=(
        "Each number of `a` is read once, and numbers and columns go through the tree "
        "together. 32 numbers take five rounds, with a barrier before each."
    ),
    limits={"reads.a": lambda rows, cols: rows * cols, "lanes.a": 32},
)
