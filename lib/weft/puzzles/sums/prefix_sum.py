"""Prefix sum, as GPU-Puzzles calls it: the sum of each block, by a tree."""

import numpy as np
from numpy import float32

from weft import cuda

from ...check.cases import divide_up
from ..puzzle import Puzzle
from ..sizes import every_size


def spec(a):
    padded = np.pad(a, (0, -len(a) % 8))
    return padded.reshape(-1, 8).sum(axis=1)


def sum_blocks(out, a, n):
    """out[block] = the sum of the block's numbers. Blocks of 8. About eleven lines."""
    s = cuda.shared.array(8, float32)
    t = cuda.threadIdx.x
    i = cuda.blockIdx.x * 8 + t
    ### BEGIN SOLUTION
    acc = a[i] if i < n else float32(0)
    s[t] = acc
    half = 4
    while half > 0:
        cuda.syncthreads()
        if t < half:
            acc += s[t + half]
            s[t] = acc
        half //= 2
    if t == 0:
        out[cuda.blockIdx.x] = acc
    ### END SOLUTION


puzzle = Puzzle(
    title="Prefix sum",
    text=(
        "Each block of 8 threads adds up its 8 numbers of `a` and stores the sum in "
        "`out`, one number for each block. The last block may have fewer numbers. "
        "Halve the work from round to round: 8 numbers become 4 sums, then 2, then 1. "
        "(The name comes from GPU-Puzzles: this is the first half of a [prefix "
        "sum](glossary.ipynb#scan).)"
    ),
    spec=spec,
    answer=sum_blocks,
    checks=dict(
        outputs={"out": "cdiv(n, 8)"},
        inputs={"a": "n"},
        sizes=every_size([15, 8, 1, 2, 3, 7, 9, 16, 23], 203),
        launch=lambda n: (divide_up(n, 8), 8),
        terms=8,
    ),
    drawn=dict(n=15),
    launch=(2, 8),
    hints=[
        "Store the numbers in `s`. Past the end of `a` store a zero, which changes no "
        "sum.",
        "In the first round, threads 0 to 3 each add the number four places further on "
        "to their own. In the second, threads 0 and 1 add the number two places "
        "further on. What comes next?",
        "A round may begin only when every thread has finished the previous one. So "
        "the barrier is in the loop, and not below an `if` that only some threads "
        "enter.",
    ],
    better=(
        "8 numbers take three rounds, with a barrier before each and none after the "
        "last. A thread keeps its sum in a variable, and others read it in `s`."
    ),
    scored=dict(n=16),
    limits={
        "reads.a": lambda n: n,
        "lanes.a": 8,
        "shared_read_lanes": 2,  # of 4, 2 and 1: a thread that adds alone has 1
    },
)
