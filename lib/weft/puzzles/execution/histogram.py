"""Histogram: many threads count in one place."""

import numpy as np

from weft import cuda

from ...check.cases import divide_up
from ..puzzle import Puzzle
from ..sizes import every_size


def spec(counts, a):
    return counts + np.bincount(a, minlength=8)


def count_all(counts, a, n):
    ### BEGIN SOLUTION
    i = cuda.grid(1)
    if i < n:
        cuda.atomic.add(counts, a[i], 1)
    ### END SOLUTION


def kinds(rng, shape):
    """Numbers from 0 to 7."""
    return rng.integers(0, 8, shape)


puzzle = Puzzle(
    title="Histogram",
    text=(
        "`a` has `n` integers from 0 to 7. Count how often each occurs: `counts[k]`, "
        "zero at first, grows by 1 for every k in `a`. Read each number once; there "
        "may be a block more than needed."
    ),
    spec=spec,
    answer=count_all,
    checks=dict(
        inout={"counts": "int32[8]"},
        inputs={"a": "int32[n]"},
        data={"a": kinds, "counts": lambda shape: np.zeros(shape)},
        launch=[
            lambda n: (divide_up(n, 8), 8),
            lambda n: (divide_up(n, 32) + 1, 32),
        ],
        sizes=every_size([97, 1, 2, 3, 7, 8, 9, 31, 33], 1009),
    ),
    drawn=dict(n=16),
    launch=(2, 8),
    hints=[
        "`counts[k] += 1` is three steps: read, add, write. What happens if two "
        "threads do that at the same time?",
        "`cuda.atomic.add(array, index, value)` does all three as one step.",
    ],
    better="Each number is read once, and costs one atomic operation.",
    limits={"reads.a": lambda n: n, "lanes.a": 8},
)
