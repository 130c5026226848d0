"""The puzzles of lesson 09a: kernels that memory bandwidth limits.

wide_loads     four pixels per load, for any number of pixels
last_block     one launch adds everything: the block that finishes last adds the sums
same_bits      sums whose order of additions does not depend on the grid
"""

import numpy as np
from numpy import float32, uint32

from weft import cuda

from ..check.cases import divide_up
from .instance import blocks_of, every_size
from .puzzle import Puzzle


def spec_wide_loads(a, n):
    pixels = a.astype("<u4").view(np.uint8)
    pixels[:n] = 255 - pixels[:n]
    return pixels.view("<u4")


def invert_words(out, a, n):
    i = cuda.grid(1)
    ### BEGIN SOLUTION
    if 4 * i < n:
        unused = max(4 * i + 4 - n, 0)
        out[i] = a[i] ^ (uint32(0xFFFFFFFF) >> uint32(8 * unused))
    ### END SOLUTION


def pack_pixels(rng, shape, n):
    """Return words of four random pixels each; the bytes after the last one are 0."""
    pixels = np.zeros(4 * shape[0], np.uint8)
    pixels[:n] = rng.integers(0, 256, n)
    return pixels.view("<u4")


WIDE_LOADS = Puzzle(
    text=(
        "`n` grey pixels are packed, four to a 32-bit word: the first of them is in "
        "the lowest eight bits. Write the negative, 255 minus each pixel, with one "
        "load and one store for each word. `n` need not be a multiple of four: unused "
        "bytes of the last word stay 0; the grid may have an extra block."
    ),
    spec=spec_wide_loads,
    answer=invert_words,
    checks=dict(
        outputs={"out": "uint32[cdiv(n, 4)]"},
        inputs={"a": "uint32[cdiv(n, 4)]"},
        data={"a": pack_pixels},
        terms=0,  # whole numbers: each bit must match
        launch=[
            lambda n: (divide_up(n, 32), 8),
            lambda n: (divide_up(n, 128) + 1, 32),
        ],
        sizes=every_size([10, 1, 2, 3, 4, 5, 31, 32, 33, 130], 1009),
    ),
    drawn=dict(n=30),
    launch=(1, 8),
    hints=[
        "255 - p flips each of the eight bits of p. Which operator flips the bits of "
        "a whole word, and so of four pixels at once?",
        "`a[i] ^ mask` flips the bits that are 1 in the mask. How many pixels does "
        "word `i` have, if `n` is 30 and `i` is 7?",
        "`uint32(0xFFFFFFFF) >> uint32(8)` has 24 bits that are 1, for three pixels.",
    ],
    better=(
        "One load and one store move four pixels. Only the last word needs another "
        "mask, which every thread computes, so no branch is needed."
    ),
    scored=dict(n=126, launch=(1, 32)),
    limits={
        "reads.a": lambda n: divide_up(n, 4),
        "writes.out": lambda n: divide_up(n, 4),
        "lanes.a": 16,  # a compiler may read the last word in a separate branch
        "atomics": 0,
    },
)


def spec_last_block(a):
    sums = [a[i : i + 32].sum() for i in range(0, len(a), 32)]
    return sum(sums), sums, len(sums)


def add_all_at_once(total, sums, arrived, a, n):
    i = cuda.grid(1)
    v = a[i] if i < n else float32(0)
    for half in range(5):  # by 16, 8, 4, 2, 1: thread 0 gets its block's sum
        v += cuda.shfl_down_sync(0xFFFFFFFF, v, 16 >> half)
    ### BEGIN SOLUTION
    if cuda.threadIdx.x == 0:
        sums[cuda.blockIdx.x] = v
        cuda.threadfence()
        if cuda.atomic.add(arrived, 0, 1) == cuda.gridDim.x - 1:
            cuda.threadfence()
            v = float32(0)
            for block in range(cuda.gridDim.x):
                v += sums[block]
            total[0] = v
    ### END SOLUTION


LAST_BLOCK = Puzzle(
    text=(
        "Each block of 32 threads stores the sum of its numbers in `sums[block]`. Then "
        "it counts itself in `arrived[0]`, which is 0 at first. The block that "
        "finishes last adds all `sums` to get `total[0]`; a "
        "[fence](glossary.ipynb#fence) makes a block's sum visible before its count."
    ),
    spec=spec_last_block,
    answer=add_all_at_once,
    checks=dict(
        outputs={"total": 1, "sums": "cdiv(n, 32)"},
        inout={"arrived": "int32[1]"},
        inputs={"a": "n"},
        data={"arrived": lambda shape: np.zeros(shape)},
        launch=blocks_of(32),
        sizes=every_size([97, 1, 2, 3, 31, 32, 33, 64, 300], 1009),
    ),
    drawn=dict(n=80),
    launch=(3, 32),
    hints=[
        "`cuda.atomic.add(arrived, 0, 1)` returns the count before the addition. What "
        "does it return to the last block?",
        "Another block may see the count before it sees the sum, unless a "
        "`threadfence` is between the two.",
        "The last block reads the sums of others, so it needs a fence as well, between "
        "the count and the reads.",
    ],
    better=(
        "One launch and one atomic operation per block. Each sum is written once and "
        "read once, by the block that finishes last."
    ),
    limits={
        "reads.a": lambda n: n,
        "reads.sums": lambda blocks: blocks,
        "writes.sums": lambda blocks: blocks,
        "writes.total": 1,
        "atomics.arrived": lambda blocks: blocks,
        "atomics.total": 0,
    },
)


def spec_same_bits(a, n):
    pieces = np.pad(a, (0, -n % 32)).astype(float32).reshape(-1, 32)
    for half in 16, 8, 4, 2, 1:
        pieces = pieces[:, :half] + pieces[:, half : 2 * half]
    return pieces.ravel()


def add_pieces(sums, a, n):
    lane = cuda.threadIdx.x
    ### BEGIN SOLUTION
    for piece in range(cuda.blockIdx.x, (n + 31) // 32, cuda.gridDim.x):
        i = 32 * piece + lane
        v = a[i] if i < n else float32(0)
        for half in range(5):
            v += cuda.shfl_down_sync(0xFFFFFFFF, v, 16 >> half)
        if lane == 0:
            sums[piece] = v
    ### END SOLUTION


SAME_BITS = Puzzle(
    text=(
        "`sums[p]` is the sum of piece `p`: 32 numbers of `a`, starting at `32 * p`. "
        "The grid has any number of blocks of 32 threads, so a block may have several "
        "pieces, or none. Each sum must have the same bits for every grid: add numbers "
        "16 apart, then 8, 4, 2 and 1."
    ),
    spec=spec_same_bits,
    answer=add_pieces,
    checks=dict(
        outputs={"sums": "cdiv(n, 32)"},
        inputs={"a": "n"},
        terms=0,  # the reference adds float32 in the same order: each bit must match
        launch=[lambda n: (2, 32), lambda n: (1, 32), lambda n: (5, 32)],
        sizes=every_size([97, 1, 2, 3, 31, 32, 33, 64, 300], 1009),
    ),
    drawn=dict(n=80),
    launch=(2, 32),
    hints=[
        "Block `b` takes pieces b, b + gridDim.x, and so on. How many are there?",
        "Inside a piece, lane `k` has number `32 * p + k`, regardless of its block. "
        "Which shuffle adds the number of the lane 16 further on?",
        "A lane past the end adds a 0. All 32 lanes must reach each shuffle, so the "
        "guard is only around the read.",
    ],
    better=(
        "Which block adds a piece depends on the grid; the order inside the piece does "
        "not. No atomic operation is needed."
    ),
    limits={"reads.a": lambda n: n, "lanes.a": 26, "atomics": 0},
)
