"""Quantise: float32 to int8 with a scale for each row, and back."""

import math

import numpy as np
from numpy import float32

from weft import cuda

from ..puzzle import Puzzle
from ..sizes import every_size


def spec(x):
    scale = np.abs(x).max(axis=1, keepdims=True) / 127
    scale[scale == 0] = 1
    q = np.floor(x / scale + 0.5)  # halves go up
    return q.astype(np.int8), scale.ravel(), q * scale


def quantise_rows(q, scale, back, x, cols):
    first = cuda.blockIdx.x * cols  # start of the row
    t = cuda.threadIdx.x
    largest = cuda.shared.array(8, float32)
    ### BEGIN SOLUTION
    mine = float32(0)
    for col in range(t, cols, 8):
        mine = max(mine, abs(x[first + col]))
    largest[t] = mine
    cuda.syncthreads()
    for k in range(8):
        mine = max(mine, largest[k])
    step = float32(1)
    if mine > 0:
        step = mine / float32(127)
    if t == 0:
        scale[cuda.blockIdx.x] = step
    for col in range(t, cols, 8):
        whole = math.floor(x[first + col] / step + float32(0.5))
        q[first + col] = whole
        back[first + col] = float32(whole) * step
    ### END SOLUTION


def rows_of_many_kinds(rng, shape):
    """Rows of random numbers, of tiny ones, of halves, and of zeros.

    In the first row the number of largest magnitude is negative. In a row of halves it
    is 127, so that the scale is 1 and x / scale exact.
    """
    rows, cols = shape
    x = 10 * rng.standard_normal(shape)
    x[0] *= -np.sign(x[0, np.abs(x[0]).argmax()])
    x[3::3] *= 1e-13
    for row in range(1, rows, 3):
        x[row] = rng.integers(-127, 127, cols) + 0.5
        x[row, rng.integers(cols)] = rng.choice([-127, 127])
    x[2::3] = 0
    return x


def bound(x, want):
    """The allowed errors: none in q, except where rounding may pick either integer.

    x / scale takes three roundings in float32 (the division by 127, the one by the
    scale, the sum with 0.5): less than 4 * 2^-24 of at most 127.5. Nearer than that to
    a half either integer is right, and `back` may be off by a scale. If the scale is 1,
    nothing is rounded.
    """
    unit = 2.0**-24
    scale = want["scale"][:, None]
    exact = x / scale + 0.5
    near = np.abs(exact - np.round(exact)) <= 4 * unit * 127.5
    near &= scale != 1
    return {
        "q": near.astype(float),
        "scale": 2 * unit * want["scale"],
        "back": 4 * unit * np.abs(want["back"]) + near * scale * (1 + 4 * unit),
    }


puzzle = Puzzle(
    title="Quantise",
    text=(
        "Each row has one block of 8 threads, and `scale` is the row's largest "
        "magnitude / 127 (1 if all numbers are zero). `q` is x / scale rounded to "
        "int8, with halves rounded up. `back` is q * scale, which is at most half a "
        "scale away from x."
    ),
    spec=spec,
    answer=quantise_rows,
    checks=dict(
        outputs={
            "q": "int8[rows, cols]",
            "scale": "float32[rows]",
            "back": "float32[rows, cols]",
        },
        inputs={"x": ("rows", "cols")},
        data={"x": rows_of_many_kinds},
        bound=bound,
        launch=lambda rows: (rows, 8),
        sizes=every_size(
            [
                dict(rows=rows, cols=cols)
                for rows, cols in [(1, 1), (2, 3), (3, 7), (5, 8), (4, 9), (6, 37)]
            ],
            most=(8, 16),
        ),
    ),
    drawn=dict(rows=2, cols=8),
    launch=(2, 8),
    hints=[
        "Begin with the magnitudes: `abs`. A row may be longer than the block, so each "
        "thread reads every eighth number of it.",
        "Then the block has 8 candidates in `largest`. After a barrier every thread "
        "can find the largest of them for itself.",
        "`math.floor(v + 0.5)` rounds halves up, also for negative numbers. Is a clip "
        "needed, with this scale?",
    ],
    better=(
        "Each thread keeps the largest of its own numbers and stores it in shared "
        "memory. After one barrier every thread finds the block's largest. No clip is "
        "needed: x / scale never leaves -127 to 127."
    ),
    limits={
        "lanes.x": 8,  # not all by one thread
        "writes.scale": lambda rows: rows,  # by one thread each
    },
    budget={"barriers": 4},  # of a tree
)
