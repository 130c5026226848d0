"""Histogram, private: a block counts for itself, then hands in."""

import numpy as np
from numpy import int32

from weft import cuda

from ...check.cases import divide_up
from ..puzzle import Puzzle
from ..sizes import every_size
from .histogram import kinds, spec


def count_in_blocks(counts, a, n):
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    mine = cuda.shared.array(8, int32)  # of this block
    ### BEGIN SOLUTION
    if t < 8:
        mine[t] = 0
    cuda.syncthreads()
    if i < n:
        cuda.atomic.add(mine, a[i], 1)
    cuda.syncthreads()
    if t < 8:
        cuda.atomic.add(counts, t, mine[t])
    ### END SOLUTION


puzzle = Puzzle(
    title="Private histogram",
    text=(
        "The same histogram, but atomics on global memory are dear where many threads "
        "want one element. Let each block count in shared memory, and then add its 8 "
        "counts to `counts`: 8 atomics there for each block, also for one to spare."
    ),
    spec=spec,
    answer=count_in_blocks,
    checks=dict(
        inout={"counts": "int32[8]"},
        inputs={"a": "int32[n]"},
        data={"a": kinds, "counts": lambda shape: np.zeros(shape)},
        launch=[
            lambda n: (divide_up(n, 16), 16),
            lambda n: (divide_up(n, 32) + 1, 32),
            lambda n: (divide_up(n, 64), 64),  # of two warps
        ],
        sizes=every_size([1, 2, 3, 15, 16, 17, 31, 33, 97], 1009),
    ),
    drawn=dict(n=30),
    launch=(2, 16),
    hints=[
        "What does shared memory hold when a block begins? Somebody has to put zeros "
        "into `mine`, and everybody has to wait for it.",
        "Many threads of the block count into one element of `mine`: these are "
        "atomics, too, but cheap ones.",
        "When all have counted, the first 8 threads hand in one count each. Other "
        "blocks do the same at that time.",
    ],
    better=(
        "A block pays 8 atomics in global memory, however many numbers it counts. The "
        "many are in shared memory."
    ),
    scored=dict(n=32),
    limits={
        "reads.a": lambda n: n,
        "lanes.a": 8,  # a compiler may make two reads of one, for t < 8 and the others
        "atomics.counts": lambda blocks: 8 * blocks,
    },
)
