"""Convolution in one dimension: a block needs some of the next one's numbers."""

import numpy as np
from numpy import float32

from weft import cuda

from ...check.cases import divide_up
from ..puzzle import Puzzle
from ..sizes import every_size


def spec(a, b):
    padded = np.pad(a, (0, len(b) - 1))
    return sum(b[j] * padded[j : j + len(a)] for j in range(len(b)))


def convolve(out, a, b, n, k):
    """out[i] = a[i] * b[0] + a[i + 1] * b[1] + ... Blocks of 8. About twelve lines."""
    a_s = cuda.shared.array(11, float32)
    b_s = cuda.shared.array(4, float32)
    t = cuda.threadIdx.x
    i = cuda.blockIdx.x * 8 + t
    ### BEGIN SOLUTION
    if i < n:
        a_s[t] = a[i]
    if t < k - 1 and i + 8 < n:
        a_s[t + 8] = a[i + 8]
    if t < k:
        b_s[t] = b[t]
    cuda.syncthreads()
    if i < n:
        acc = float32(0)
        for j in range(min(k, n - i)):
            acc += a_s[t + j] * b_s[j]
        out[i] = acc
    ### END SOLUTION


puzzle = Puzzle(
    title="Convolution in 1D",
    text=(
        "`out[i]` is [the sum](glossary.ipynb#convolution) of `a[i + j] * b[j]` over "
        "the `k` numbers of `b`; past its end `a` counts as zero. Blocks have 8 "
        "threads, and there may be one block more than needed. `k` is at most 4, and "
        "each block reads a number of `a` or `b` only once."
    ),
    spec=spec,
    answer=convolve,
    checks=dict(
        outputs={"out": "n"},
        inputs={"a": "n", "b": "k"},
        sizes=every_size(
            [(6, 3), (15, 4), (1, 1), (2, 4), (7, 2), (8, 3), (9, 4), (17, 4)],
            (203, 4),
            most=(16, 4),
        ),
        launch=[lambda n: (divide_up(n, 8), 8), lambda n: (divide_up(n, 8) + 1, 8)],
        terms=lambda k: k + 1,
    ),
    drawn=dict(n=12, k=3),  # two blocks: out[6] needs a number of the second
    launch=(2, 8),
    hints=[
        "Begin with one block: every thread loads a number of `a`, and some load one "
        "of `b`. After a barrier, every thread adds at most `k` products.",
        "The last thread of a block needs numbers that belong to the next block: the "
        "halo. Up to three more numbers must be loaded into `a_s`, after the first "
        "eight. Which threads could do that?",
        "Where `a` has no number, store a zero, also in the halo, or end the sum "
        "there. An element of `a_s` that no thread writes may contain anything.",
    ],
    better=(
        "A block loads its 8 numbers of `a`, the `k` - 1 that follow, and those of "
        "`b`, each once and with one barrier. Nothing is stored past the end of `a`, "
        "since sums end there."
    ),
    scored=dict(n=15, k=4, launch=(2, 8)),
    limits={
        "reads.a": lambda n, k: sum(min(8 + k - 1, n - i) for i in range(0, n, 8)),
        "reads.b": lambda blocks, k: blocks * k,
        "lanes.a": 3,  # three threads load a halo
    },
)
