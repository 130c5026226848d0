"""Scan, first launch: the running sums of each block."""

import numpy as np
from numpy import float32

from weft import cuda

from ...check.cases import divide_up
from ..puzzle import Puzzle
from ..sizes import every_size


def spec(a):
    parts = [np.cumsum(a[i : i + 32]) for i in range(0, len(a), 32)]
    return np.concatenate(parts), [part[-1] for part in parts]


def scan_each_block(out, totals, a, n):
    i = cuda.grid(1)
    lane = cuda.threadIdx.x
    v = float32(0)
    if i < n:
        v = a[i]
    ### BEGIN SOLUTION
    step = 1
    while step < 32:
        below = cuda.shfl_up_sync(0xFFFFFFFF, v, step)
        if lane >= step:
            v += below
        step *= 2
    if i < n:
        out[i] = v
    if lane == 31 and i - 31 < n:
        totals[cuda.blockIdx.x] = v
    ### END SOLUTION


puzzle = Puzzle(
    title="Scan of blocks",
    text=(
        "Running sums over many blocks take two launches. This is the first: each "
        "block of 32 threads writes to `out` the running sums of its own 32 numbers, "
        "and their total to `totals[block]`. The last block may have fewer numbers, "
        "and there may be one more block, which has none."
    ),
    spec=spec,
    answer=scan_each_block,
    checks=dict(
        outputs={"out": "n", "totals": "cdiv(n, 32)"},
        inputs={"a": "n"},
        launch=[lambda n: (divide_up(n, 32), 32), lambda n: (divide_up(n, 32) + 1, 32)],
        sizes=every_size([1, 2, 3, 31, 32, 33, 63, 97], 1009),
    ),
    drawn=dict(n=48),
    launch=(2, 32),
    hints=[
        "`cuda.shfl_up_sync(0xFFFFFFFF, v, 1)` is the `v` of the previous lane. After "
        "adding it, each lane has the sum of two numbers, except lane 0, which has no "
        "previous lane.",
        "Repeat this with the lane 2 before, then 4, 8 and 16. Every lane must reach "
        "the call; only those with such a lane before them add the result.",
        "A lane past the end contributes a 0. What does the last lane have at the end, "
        "in a block that is not full?",
    ],
    better=(
        "Five rounds of shuffles, by 1, 2, 4, 8 and 16: no shared memory and no "
        "barrier. Each number is read once."
    ),
    scored=dict(n=64, launch=(2, 32)),
    limits={"reads.a": lambda n: n, "lanes.a": 32},
)
