"""Compact: keep some numbers, in order and without gaps."""

import numpy as np
from numpy import float32

from weft import cuda

from ...check.cases import divide_up
from ..puzzle import Puzzle
from ..sizes import every_size


def spec(a):
    return a[a > 0]


def keep_positive(out, a, begin, n):
    i = cuda.grid(1)
    v = float32(0)
    if i < n:
        v = a[i]
    ### BEGIN SOLUTION
    votes = cuda.ballot_sync(0xFFFFFFFF, v > 0)
    before = cuda.popc(votes & cuda.lanemask_lt())
    if v > 0:
        out[begin[cuda.blockIdx.x] + before] = v
    ### END SOLUTION


def chosen(n, kept):
    """Which of n numbers are kept: always the same ones, at random places."""
    mask = np.zeros(n, bool)
    mask[np.random.default_rng([n, kept]).permutation(n)[:kept]] = True
    return mask


def signed(rng, n, kept):
    """n quarters, `kept` of them above zero, and a zero among the others."""
    mask = chosen(n, kept)
    x = np.where(mask, 1, -1) * rng.integers(1, 40, n) / 4
    x[np.flatnonzero(~mask)[:1]] = 0
    return x


def first_places(n, kept):
    """Where each block's kept numbers begin: the count kept by the blocks before it."""
    counts = np.add.reduceat(chosen(n, kept), np.arange(0, n, 32), dtype=np.int32)
    return np.cumsum(counts) - counts


puzzle = Puzzle(
    title="Compact",
    text=(
        "`out` gets the numbers of `a` that are above 0, in order and without gaps. "
        "Blocks have 32 threads, and there may be one block more than needed. "
        "`begin[block]` is the place in `out` of the block's first kept number: a scan "
        "has already counted how many numbers the blocks before it keep."
    ),
    spec=spec,
    answer=keep_positive,
    checks=dict(
        outputs={"out": "kept"},
        inputs={"a": "n", "begin": "int32[cdiv(n, 32)]"},
        data={"a": signed, "begin": first_places},
        terms=0,  # copied bit by bit
        launch=[lambda n: (divide_up(n, 32), 32), lambda n: (divide_up(n, 32) + 1, 32)],
        sizes=[
            dict(n=n, kept=kept)
            for n, kept in [
                *[(1, 1), (3, 1), (31, 30), (32, 16), (33, 33), (100, 41)],
                *[(n, n // 2 + 1) for n in every_size([2])],
                (1009, 600),
            ]
        ],
    ),
    drawn=dict(n=48, kept=26),
    launch=(2, 32),
    hints=[
        "A number goes to place `begin[block]` plus the number of earlier lanes that "
        "keep theirs. How does a lane learn that number?",
        "`cuda.ballot_sync(0xFFFFFFFF, v > 0)` evaluates the condition in all 32 lanes "
        "and returns the same 32 bits to each, bit k for lane k.",
        "`cuda.lanemask_lt()` has a bit for each lower lane, and `cuda.popc(bits)` "
        "counts bits.",
    ],
    better=(
        "One ballot and a count of bits: no shared memory, no barrier. A kept number "
        "is already in a register."
    ),
    limits={
        "reads.a": lambda n: 3 * n,  # to vote, to choose and to store
        "lanes.a": 12,  # half of the 24 of a block: some read again
    },
)
