"""The puzzles of lesson 02a: threads that load numbers for one another.

shared, pooling, conv1d    a block loads each number once; other threads read it
"""

import numpy as np
from numpy import float32

from weft import cuda

from .instance import blocks_of, every_size
from .puzzle import Puzzle


def spec_shared(a):
    return a * a * a


def cube_shared(out, a, n):
    """out[i] = the cube of a[i], through s. Blocks of 4. Three or four lines."""
    s = cuda.shared.array(4, float32)
    t = cuda.threadIdx.x
    i = cuda.blockIdx.x * 4 + t
    ### BEGIN SOLUTION
    if i < n:
        s[t] = a[i]
        number = s[t]
        out[i] = number * number * number
    ### END SOLUTION


SHARED = Puzzle(
    text=(
        "Store the cube of each of the `n` numbers of `a`. Each block of 4 threads "
        "first stores its numbers in `s`, its [shared "
        "memory](glossary.ipynb#shared-memory), and reads them from there. The grid "
        "may have an extra block. (A cube does not really need `s`; the next "
        "puzzles do.)"
    ),
    spec=spec_shared,
    answer=cube_shared,
    checks=dict(
        outputs={"out": "n"},
        inputs={"a": "n"},
        sizes=every_size([8, 1, 2, 3, 4, 5, 7, 13], 203),
        launch=[blocks_of(4), blocks_of(4, 1)],
    ),
    drawn=dict(n=8),
    launch=(2, 4),
    hints=[
        "`a` is one array for all blocks. `s` is a separate array in each block, with "
        "4 elements. Which of them is indexed by `i`, and which by `t`?",
        "The last block may have fewer than 4 numbers: only threads with `i` below `n` "
        "have something to store.",
        "For each read of `s`, ask which thread wrote that number. A barrier is needed "
        "if it was another thread.",
    ],
    better=(
        "A thread that reads only its own number from `s` need not wait for other "
        "threads. It reads that number once."
    ),
    limits={
        "reads.a": lambda n: n,
        "shared_writes": (lambda n: n, None),
        # The answer must read the numbers from `s`, not from a variable.
        "shared_reads": (lambda n: n, None),
    },
    budget={"shared_turns": 8},  # three reads after a barrier take this many turns
)


def spec_pooling(a):
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


POOLING = Puzzle(
    text=(
        "`out[i]` is [the sum](glossary.ipynb#pooling) of `a[i - 2]`, `a[i - 1]` and "
        "`a[i]`; before its start, `a` counts as zero. There is one block of 8 "
        "threads, and `n` is at most 8. A thread reads one number of `a`; it reads the "
        "others from `s`."
    ),
    spec=spec_pooling,
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
        "All threads of the block must reach a barrier, even those with `i` not below "
        "`n`. So do not put it below an `if i < n`.",
        "Thread 0 has no neighbor to its left, and thread 1 has only one: do not read "
        "`s[-1]`.",
    ],
    better=(
        "Each number is read from global memory once. The neighbors read it from "
        "shared memory, and one barrier is enough."
    ),
    limits={
        "reads.a": lambda n: n,
        "lanes.a": 8,
        # Threads must exchange numbers through `s`, not through `out`.
        "shared_writes": (lambda n: n, None),
    },
)


def spec_conv1d(a, b):
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


CONV1D = Puzzle(
    title="Convolution in 1D",
    text=(
        "`out[i]` is [the sum](glossary.ipynb#convolution) of `a[i + j] * b[j]` over "
        "the `k` numbers of `b`; past its end, `a` counts as zero. Blocks have 8 "
        "threads, and the grid may have an extra block. `k` is at most 4, and "
        "each block reads a number of `a` or `b` only once."
    ),
    spec=spec_conv1d,
    answer=convolve,
    checks=dict(
        outputs={"out": "n"},
        inputs={"a": "n", "b": "k"},
        sizes=every_size(
            [(6, 3), (15, 4), (1, 1), (2, 4), (7, 2), (8, 3), (9, 4), (17, 4)],
            (203, 4),
            most=(16, 4),
        ),
        launch=[blocks_of(8), blocks_of(8, 1)],
        terms=lambda k: k + 1,
    ),
    # With two blocks, out[6] needs a number of the second block.
    drawn=dict(n=12, k=3),
    launch=(2, 8),
    hints=[
        "Begin with one block: every thread loads a number of `a`, and some load one "
        "of `b`. After a barrier, every thread adds at most `k` products.",
        "The last thread of a block needs numbers that belong to the next block: the "
        "halo. Up to three more numbers must be loaded into `a_s`, after the first "
        "eight. Which threads could do that?",
        "Where `a` has no number, store a zero, even in the halo, or end the sum "
        "there. An element of `a_s` that no thread writes may contain anything.",
    ],
    better=(
        "A block loads its 8 numbers of `a`, the `k` - 1 that follow, and those of "
        "`b`: each number once, with one barrier. Nothing is stored past the end of "
        "`a`, since sums end there."
    ),
    scored=dict(n=15, k=4, launch=(2, 8)),
    limits={
        "reads.a": lambda n, k: sum(min(8 + k - 1, n - i) for i in range(0, n, 8)),
        "reads.b": lambda blocks, k: blocks * k,
        "lanes.a": 3,  # three threads load a halo
    },
)
