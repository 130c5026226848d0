"""Softmax of a row: largest number, sum, quotient."""

import math

import numpy as np
from numpy import float32

from weft import cuda

from ..puzzle import Puzzle
from ..sizes import every_size


def spec(a):
    e = np.exp(a - a.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def softmax_rows(out, a, cols):
    """out (rows,cols) = softmax of each row of a. Blocks of 8. About eleven lines."""
    s = cuda.shared.array(8, float32)
    col = cuda.threadIdx.x
    row = cuda.blockIdx.x
    ### BEGIN SOLUTION
    mine = a[row * cols + col] if col < cols else float32(0)
    s[col] = mine
    cuda.syncthreads()
    if col < cols:
        most = mine
        for j in range(cols):
            most = max(most, s[j])
        total = float32(0)
        for j in range(cols):
            total += math.exp(s[j] - most)
        out[row * cols + col] = math.exp(mine - most) / total
    ### END SOLUTION


def numbers(rng, shape):
    """Around 0, far above and far below it, where exp() alone is inf or 0.

    In every third row one number, the last or any, is far above all others.
    """
    rows, cols = shape
    x = 3 * rng.standard_normal(shape) + rng.choice([0, 500, -500], (rows, 1))
    for row in range(2, rows, 3):
        x[row, rng.choice([cols - 1, rng.integers(cols)])] += 200
    return x


def bound(a, want):
    """Of a difference d, its exp (4 units: 2 of the last place), a sum, a quotient."""
    unit, out = 2.0**-24, want["out"]
    d = a.max(axis=1, keepdims=True) - a  # rounded: exp's relative error is d units
    mean = (out * d).sum(axis=1, keepdims=True)  # of that, in the sum
    return 1.01 * unit * out * (d + mean + 4 + 4 + a.shape[1] + 1) + 1e-37


puzzle = Puzzle(
    title="Softmax",
    text=(
        "Each number of a row becomes its `math.exp`, [divided by the "
        "sum](glossary.ipynb#softmax) of the row's `exp`s. First subtract the row's "
        "largest number from all of them: `exp(500)` is too large for a float32. Each "
        "row has a block of 8 threads, and `cols` is at most 8."
    ),
    spec=spec,
    answer=softmax_rows,
    checks=dict(
        outputs={"out": ("rows", "cols")},
        inputs={"a": ("rows", "cols")},
        sizes=every_size(
            [
                dict(rows=r, cols=c)
                for r, c in [(2, 6), (1, 1), (7, 8), (6, 3), (5, 2), (6, 5), (3, 7)]
            ],
            most=(16, 8),
        ),
        launch=lambda rows: (rows, 8),
        data={"a": numbers},
        bound=bound,
    ),
    drawn=dict(rows=2, cols=6),
    launch=(2, 8),
    hints=[
        "There are three steps: the row's largest number, the sum of `math.exp(number "
        "- largest)`, and the quotient. The first two need the whole row, which is in "
        "`s`.",
        "With at most 8 numbers each thread may go through all of `s` by itself. If no "
        "thread overwrites them, one barrier is enough.",
        "With trees, an element of `s` may be reused only after all threads have read "
        "it. What does `s[0]` contain after the first tree?",
    ],
    better=(
        "Each number of `a` is read once, and a thread keeps its own. If every thread "
        "adds up by itself, one barrier is enough; trees need one for each round."
    ),
    scored=dict(rows=4, cols=8, launch=(4, 8)),
    limits={"reads.a": lambda rows, cols: rows * cols, "lanes.a": 8},
    budget={"barriers": 9},  # of two trees
)
