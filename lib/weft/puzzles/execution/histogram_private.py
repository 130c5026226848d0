"""Private histogram: a block counts by itself, then adds its counts to the total."""

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
        "Compute the same histogram more cheaply: atomic operations on global memory "
        "are expensive if many threads update the same element. Let each block count "
        "in shared memory, and then add its 8 counts to `counts`. That takes 8 atomic "
        "operations there for each block, even for one that has no numbers."
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
        "What does shared memory contain when a block begins? Some threads must store "
        "zeros in `mine`, and all threads must wait for that.",
        "Many threads of the block update the same element of `mine`. These updates "
        "are atomic, too, but cheap.",
        "After all threads have counted, the first 8 threads each add one count to "
        "`counts`. Other blocks do the same at that time.",
    ],
    better=(
        "A block costs 8 atomic operations in global memory, however many numbers it "
        "counts. The many others are in shared memory."
    ),
    scored=dict(n=32),
    limits={
        "reads.a": lambda n: n,
        "lanes.a": 8,  # a compiler may split a read in two, for t < 8 and the rest
        "atomics.counts": lambda blocks: 8 * blocks,
    },
)
