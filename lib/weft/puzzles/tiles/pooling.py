"""Pooling: the sum of the last three."""

import numpy as np
from numpy import float32

from weft import cuda

from ..puzzle import Puzzle
from ..sizes import every_size


def spec(a):
    return np.array([a[max(i - 2, 0) : i + 1].sum() for i in range(len(a))])


def sum_last_three(out, a, n):
    """out[i] = a[i - 2] + a[i - 1] + a[i]. One block of 8. About ten lines."""
    s = cuda.shared.array(8, float32)
    i = cuda.threadIdx.x
    ### BEGIN SOLUTION
    if i < n:
        s[i] = a[i]
    cuda.syncthreads()
    if i < n:
        acc = s[i]
        if i > 0:
            acc += s[i - 1]
        if i > 1:
            acc += s[i - 2]
        out[i] = acc
    ### END SOLUTION


puzzle = Puzzle(
    title="Pooling",
    text=(
        "`out[i]` is [the sum](glossary.ipynb#pooling) of those of `a[i - 2]`, `a[i - "
        "1]` and `a[i]` that exist. There is one block of 8 threads, and `n` is at "
        "most 8. A thread reads one number of `a`; it reads the others from `s`."
    ),
    spec=spec,
    answer=sum_last_three,
    checks=dict(
        outputs={"out": "n"},
        inputs={"a": "n"},
        sizes=every_size([8, 1, 2, 3, 4, 5, 7], most=8),
        launch=lambda n: (1, 8),
        terms=3,
    ),
    drawn=dict(n=8),
    launch=(1, 8),
    hints=[
        "There are two steps: every thread stores one number in `s`; then every thread "
        "adds at most three numbers from there. What must be true before the second "
        "step begins?",
        "All threads of the block must reach a barrier, also those with `i` not below "
        "`n`. So do not put it below an `if i < n`.",
        "Thread 0 has no neighbor to its left, and thread 1 has only one: do not read "
        "`s[-1]`.",
    ],
    better=(
        "Each number is read from global memory once, and by its neighbors from shared "
        "memory; one barrier is enough."
    ),
    limits={
        "reads.a": lambda n: n,
        "lanes.a": 8,
        "shared_writes": (lambda n: n, None),  # not through `out`
    },
)
