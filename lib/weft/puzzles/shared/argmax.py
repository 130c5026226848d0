"""Argmax: where the largest number of a row stands."""

import numpy as np
from numpy import float32, int32

from weft import cuda

from ..puzzle import Puzzle


def spec(a):
    return a.argmax(axis=1)


def argmax_rows(out, a, rows, cols):
    """out[row] = the column of the row's largest number. Blocks of 8."""
    s = cuda.shared.array(8, float32)
    at = cuda.shared.array(8, int32)
    col = cuda.threadIdx.x
    row = cuda.blockIdx.x
    ### BEGIN SOLUTION
    s[col] = a[row * cols + col] if col < cols else float32(-np.inf)
    at[col] = col
    half = 4
    while half > 0:
        cuda.syncthreads()
        if col < half:
            larger = s[col + half] > s[col]
            same = s[col + half] == s[col] and at[col + half] < at[col]
            if larger or same:
                s[col] = s[col + half]
                at[col] = at[col + half]
        half //= 2
    if col == 0:
        out[row] = at[0]
    ### END SOLUTION


def numbers(rng, shape):
    """Few different ones, so that many are equal; some rows all negative."""
    return rng.integers(-3, 4, shape) - 4 * rng.integers(0, 2, (shape[0], 1))


puzzle = Puzzle(
    title="Argmax",
    text="`out[row]` is the column in which the largest number of row `row` stands; "
    "if it stands there more than once, the first of them. Each row has a block of 8 "
    "threads, and `cols` is at most 8.",
    spec=spec,
    answer=argmax_rows,
    checks=dict(
        outputs={"out": "int32[rows]"},
        inputs={"a": ("rows", "cols")},
        sizes=[(4, 6), (1, 1), (8, 8), (9, 3), (5, 2), (3, 5), (6, 7)],
        launch=lambda rows: (rows, 8),
        data={"a": numbers},
    ),
    drawn=dict(rows=4, cols=6),
    launch=(4, 8),
    hints=[
        "It is a sum by a tree in which two numbers do not become their sum: the "
        "larger one stays, and takes its column along, in `at`.",
        "Which number never wins, not even in a row of negative ones? It may stand "
        "where a row has no column.",
        "If both are equal, compare their columns: the smaller one stays. In a tree "
        "the left one of two need not be the first.",
    ],
    better="Each number of `a` is read once, and numbers and columns go through the "
    "tree together: three rounds for 8 numbers, with a barrier before each.",
    limits={"reads.a": lambda rows, cols: rows * cols},
)
