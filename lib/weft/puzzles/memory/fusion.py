"""Fusion: threads keep the numbers that a second pass would read again. A repair."""

import numpy as np
from numpy import float32

from weft import cuda

from ...check.cases import divide_up
from ..puzzle import Puzzle
from ..sizes import every_size


def spec(x, a, b):
    y = np.maximum(a * x + b, 0)
    return y, [y[i : i + 8].sum() for i in range(0, len(y), 8)]


def in_two_passes(y, sums, x, a, b, n):
    i = cuda.grid(1)
    if i < n:  # the first pass: y
        y[i] = max(a * x[i] + b, float32(0))
    cuda.syncthreads()
    if i % 8 == 0:  # the second one: the sum of each 8
        for k in range(i, min(i + 8, n)):
            sums[i // 8] = y[k] + (sums[i // 8] if k > i else float32(0))


def in_one_pass(y, sums, x, a, b, n):
    ### BEGIN SOLUTION
    kept = cuda.shared.array(8, float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    v = float32(0)
    if i < n:
        v = max(a * x[i] + b, float32(0))
        y[i] = v
    kept[t] = v
    cuda.syncthreads()
    if t == 0 and i < n:
        total = float32(0)
        for k in range(8):
            total += kept[k]
        sums[cuda.blockIdx.x] = total
    ### END SOLUTION


def number(rng):
    """A value for the kernel: a multiple of a quarter, never 0."""
    return float(rng.choice([-2, -1.5, -0.75, 0.5, 1.25, 2]))


puzzle = Puzzle(
    title="Fusion",
    text=(
        "Two kernels became one: `y` is relu(a * x + b), and `sums` contains the sum "
        "of each 8 elements of `y`. Blocks have 8 threads, and there may be two more "
        "blocks than needed. The kernel is right, but its second half reads numbers "
        "again: read each `x` once, never read `y`, and write each number once."
    ),
    spec=spec,
    answer=in_one_pass,
    start=in_two_passes,
    checks=dict(
        outputs={"y": "n", "sums": "cdiv(n, 8)"},
        inputs={"x": "n"},
        values={"a": number, "b": number},
        launch=[lambda n: (divide_up(n, 8), 8), lambda n: (divide_up(n, 8) + 2, 8)],
        sizes=every_size([1, 2, 3, 7, 8, 9, 16, 53], 203),
    ),
    drawn=dict(n=14),
    launch=(2, 8),
    hints=[
        "A thread already has its number when it writes `y`. Where can it store the "
        "number so that the others of its block can read it cheaply?",
        "In shared memory, followed by a barrier. What should a thread past the end "
        "store there, so that it does not change the sum?",
        "Each iteration of the last loop reads and writes `sums`. Add up in a local "
        "variable instead, and store it once.",
    ],
    better=(
        "The numbers reach the sum through shared memory: `x` is read once, `y` and "
        "`sums` are only written."
    ),
    scored=dict(n=16),
    limits={
        "reads.x": lambda n: n,
        "lanes.x": 8,  # not all by one thread
        "reads.y": 0,
        "reads.sums": 0,
        "writes.y": lambda n: n,
        "writes.sums": lambda n: divide_up(n, 8),
    },
)
