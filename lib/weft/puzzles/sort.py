"""The puzzles of lesson 09d: counts and places of keys, and keys for floats.

aggregated_atomics    lanes with equal numbers count together
stable_partition      the numbers of each warp, sorted by a digit
order_of_floats       whole numbers that compare like floats
"""

import numpy as np
from numpy import int32, int64

from weft import cuda

from .instance import blocks_of, cover, every_size
from .puzzle import Puzzle


def spec_aggregated_atomics(counts, a):
    return counts + np.bincount(np.asarray(a, int64), minlength=len(counts))


def count_together(counts, a, n):
    i = cuda.grid(1)
    x = a[i] if i < n else int32(-1)
    ### BEGIN SOLUTION
    peers = cuda.match_any_sync(0xFFFFFFFF, x)
    if i < n and peers & cuda.lanemask_lt() == 0:
        cuda.atomic.add(counts, x, cuda.popc(peers))
    ### END SOLUTION


AGGREGATED_ATOMICS = Puzzle(
    title="Aggregated atomics",
    text=(
        "`a` has `n` whole numbers from 0 to `bins` - 1: add to `counts[k]` how often "
        "`k` occurs. In each [warp](glossary.ipynb#warp), execute one "
        "[atomic](glossary.ipynb#atomic) operation for each different number, however "
        "many lanes have it. Read each number once, without shared memory."
    ),
    spec=spec_aggregated_atomics,
    answer=count_together,
    checks=dict(
        inout={"counts": "int32[bins]"},
        inputs={"a": "int32[n]"},
        data={
            "a": lambda rng, n, bins: rng.integers(0, bins, n),
            "counts": lambda shape: np.zeros(shape),
        },
        launch=[lambda n: cover(n, 32), lambda n: cover(n, 64, 1)],
        sizes=[
            *[(40, 3), (1, 1), (3, 2), (31, 1), (32, 8), (33, 2), (64, 1), (97, 5)],
            *every_size([(2, 2)], (1009, 1), (1009, 16)),
        ],
    ),
    drawn=dict(n=40, bins=3),
    launch=(2, 32),
    hints=[
        "`cuda.match_any_sync(0xFFFFFFFF, x)` returns a bit for each lane with the "
        "same `x` as the calling lane. All 32 lanes must call it.",
        "`cuda.popc(bits)` counts bits: that is what one lane can add for all lanes "
        "with its number. Which lane?",
        "The first of them has no equal lane below it: `cuda.lanemask_lt()` has a bit "
        "for each lower lane. Lanes without a number must not add anything.",
    ],
    better=(
        "One match finds the lanes with equal numbers, and the first of them adds "
        "their count for all."
    ),
    limits={
        "reads.a": lambda n: n,
        "atomics.counts": lambda n, bins: min(n, bins * -(-n // 32)),
        "shared_writes": 0,
        "barriers": 0,
    },
)


def spec_stable_partition(a):
    tiles = [np.asarray(a[i : i + 32], int64) for i in range(0, len(a), 32)]
    return np.concatenate([x[np.argsort(x % 4, kind="stable")] for x in tiles])


def partition_warp(out, a, n):
    i = cuda.grid(1)
    x = a[i] if i < n else int32(0)
    place = i - i % 32
    ### BEGIN SOLUTION
    for digit in range(4):
        votes = cuda.ballot_sync(0xFFFFFFFF, i < n and x % 4 == digit)
        if digit < x % 4:
            place += cuda.popc(votes)
        if digit == x % 4:
            place += cuda.popc(votes & cuda.lanemask_lt())
    ### END SOLUTION
    if i < n:
        out[place] = x


STABLE_PARTITION = Puzzle(
    title="Stable partition",
    text=(
        "Each block of 32 threads sorts its 32 numbers of `a` by their digit, "
        "`a[i] % 4`. Numbers with equal digits keep their order: the partition is "
        "[stable](glossary.ipynb#stable). Read and write each number once, without "
        "shared memory or atomic operations."
    ),
    spec=spec_stable_partition,
    answer=partition_warp,
    checks=dict(
        outputs={"out": "int32[n]"},
        inputs={"a": "int32[n]"},
        data={"a": lambda rng, shape: rng.integers(0, 40, shape)},
        launch=[blocks_of(32), blocks_of(32, 1)],
        sizes=every_size([12, 1, 2, 3, 31, 32, 33, 63, 97], 1009),
    ),
    drawn=dict(n=12),
    launch=(1, 32),
    hints=[
        "In a block, the place of a number is the count of numbers with smaller "
        "digits, plus the count of earlier numbers with its own digit.",
        "`cuda.ballot_sync(0xFFFFFFFF, condition)` has a bit for each lane whose "
        "condition holds. Four ballots, one for each digit, contain both counts.",
        "Lanes without a number must also make all ballots, but vote for no digit.",
    ],
    better=(
        "Four ballots contain the histogram, its scan, and the rank of each number "
        "among its equals."
    ),
    limits={
        "reads.a": lambda n: n,
        "writes.out": lambda n: n,
        "shared_writes": 0,
        "barriers": 0,
        "atomics": 0,
    },
)


def spec_order_of_floats(bits):
    size = np.asarray(bits, int64) & 127
    return np.where(size > 124, 127, np.where(bits > 127, -size, size))


def write_keys(keys, bits, n):
    i = cuda.grid(1)
    if i < n:
        ### BEGIN SOLUTION
        x = bits[i]
        key = x & 127
        if key > 124:
            key = 127
        elif x > 127:
            key = -key
        keys[i] = key
        ### END SOLUTION


def make_bits(rng, n):
    """Return the bits of n floats, with all 256 patterns if n is large enough."""
    # Zeros, the smallest numbers, infinities and kinds of NaN come first.
    special = [128, 0, 253, 60, 252, 124, 188, 127, 1, 129, 255, 125]
    others = rng.permutation(np.setdiff1d(np.arange(256), special))
    return rng.permutation(np.resize([*special, *others], n))


ORDER_OF_FLOATS = Puzzle(
    title="Order of floats",
    text=(
        "`bits` has floats of 8 bits: the upper bit is the sign, 124 is infinity, and "
        "125 to 127 are [NaN](glossary.ipynb#nan). The key of a positive float is the "
        "count of floats from 0 up to it, and a negative float has minus that key. "
        "Each NaN has the key 127, with or without a sign."
    ),
    spec=spec_order_of_floats,
    answer=write_keys,
    checks=dict(
        outputs={"keys": "int32[n]"},
        inputs={"bits": "int32[n]"},
        data={"bits": make_bits},
        launch=[blocks_of(32), blocks_of(64, 1)],
        sizes=every_size([12, 1, 2, 3, 31, 33, 64], 257, 1009),
    ),
    drawn=dict(n=12),
    launch=(1, 32),
    hints=[
        "Without the sign, a float's bits are its key: 0, 1, 2, ... up to infinity. "
        "The same is true of float32, with 31 bits.",
        "`x & 127` removes the sign, which adds 128 to the bits. So -0 is 128, and has "
        "the same key as 0.",
        "Test for NaN before the sign, since a NaN may have one.",
    ],
    better=(
        "The bits without the sign are the key, with a minus for negative floats. A "
        "radix sort of floats does this when it reads them."
    ),
    limits={"reads.bits": lambda n: n, "writes.keys": lambda n: n},
)
