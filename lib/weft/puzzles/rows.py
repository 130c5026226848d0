"""The puzzles of lesson 09b: results of a row, merged from the results of its parts.

merge_softmax    two pairs, each a maximum and a sum, become one
warp_a_row       a softmax by one warp per row, for rows of any length
top_two          the two largest numbers of a row, in one pass
"""

import math

import numpy as np
from numpy import float32

from weft import cuda

from .instance import blocks_of, every_size
from .puzzle import Puzzle


def spec_merge_softmax(a, b):
    if min(a[:, 1].min(), b[:, 1].min()) < 0:
        raise ValueError("a sum of powers cannot be negative")
    most = np.maximum(a[:, 0], b[:, 0])
    base = np.where(np.isinf(most), 0, most)
    sums = [part[:, 1] * np.exp(part[:, 0] - base) for part in (a, b)]
    return np.stack([most, sum(sums)], axis=1)


def merge_pairs(out, a, b, n):
    i = cuda.grid(1)
    if i < n:
        most, total = a[2 * i], a[2 * i + 1]
        less, extra = b[2 * i], b[2 * i + 1]
        ### BEGIN SOLUTION
        if most < less:
            most, total, less, extra = less, extra, most, total
        if less < most:
            extra *= math.exp(less - most)
        out[2 * i] = most
        out[2 * i + 1] = total + extra
        ### END SOLUTION


def make_pairs(rng, shape):
    """Return pairs (n,2): maxima, of which many are equal, and sums from 1 to 4.

    Some pairs belong to empty parts. The last of four or more pairs always does.
    """
    most = rng.choice([-np.inf, -90, 0, 1, 2, 90], shape[0])
    most[3:][-1:] = -np.inf
    total = np.where(np.isinf(most), 0, rng.integers(2, 9, shape[0]) / 2)
    return np.stack([most, total], axis=1)


def bound_merged(a, b, want):
    """Return the error bounds of merged pairs; the maxima are exact.

    A distance d is rounded, and so are its exp (4 units of 2^-24), a product and a sum.
    """
    most = want["out"][:, 0]
    base, error = np.where(np.isinf(most), 0, most), want["out"][:, 1].copy()
    for part in a, b:
        distance = np.where(np.isinf(part[:, 0]), 0, base - part[:, 0])
        error += part[:, 1] * np.exp(-distance) * (distance + 5)
    return np.stack([np.zeros_like(most), 1.01 * 2.0**-24 * error + 1e-37], axis=1)


MERGE_SOFTMAX = Puzzle(
    title="Merge two softmaxes",
    text=(
        "`a[2 * i]` is the maximum of one part of row `i`, and `a[2 * i + 1]` the sum "
        "of `math.exp(x - maximum)` over its numbers; `b` has the pairs of the other "
        "parts. Write the whole rows' pairs into `out`. An empty part has the pair "
        "`-inf` and 0."
    ),
    spec=spec_merge_softmax,
    answer=merge_pairs,
    checks=dict(
        outputs={"out": ("n", 2)},
        inputs={"a": ("n", 2), "b": ("n", 2)},
        data={"a": make_pairs, "b": make_pairs},
        bound=bound_merged,
        launch=[blocks_of(32), blocks_of(64, 1)],
        sizes=every_size([8, 1, 2, 3, 31, 32, 33, 64, 100], 1009),
    ),
    drawn=dict(n=8),
    launch=(1, 32),
    hints=[
        "The larger maximum is that of the row, and its sum is right already. Only the "
        "other sum changes. By which factor?",
        "`exp(x - new) = exp(x - old) * exp(old - new)`: each term of the other sum, "
        "and so the sum itself, shrinks by the factor `math.exp(old - new)`.",
        "If both maxima are equal, nothing shrinks. What is `-inf` minus `-inf`?",
    ],
    better=(
        "One exponential for each pair of pairs: the larger one is never rescaled. If "
        "the maxima are equal, there is no exponential at all, and so no NaN."
    ),
    scored=dict(n=64, launch=(2, 32)),
    limits={
        "reads.a": lambda n: 2 * n,
        "reads.b": lambda n: 2 * n,
        "writes.out": lambda n: 2 * n,
    },
)


def spec_warp_a_row(a):
    powers = np.exp(a.T - a.max(axis=1))
    return (powers / powers.sum(axis=0)).T


def soften_rows(out, a, cols):
    lane, first = cuda.threadIdx.x, cuda.blockIdx.x * cols
    most, total = float32(-np.inf), float32(0)
    for col in range(lane, cols, 32):
        x = a[first + col]
        ### BEGIN SOLUTION
        new = max(most, x)
        most, total = new, total * math.exp(most - new) + math.exp(x - new)
    for half in range(5):
        other = cuda.shfl_xor_sync(0xFFFFFFFF, most, 16 >> half)
        extra = cuda.shfl_xor_sync(0xFFFFFFFF, total, 16 >> half)
        new = max(most, other)
        if total + extra > 0:  # at least one of the two lanes has numbers
            total = total * math.exp(most - new) + extra * math.exp(other - new)
        most = new
    ### END SOLUTION
    for col in range(lane, cols, 32):
        out[first + col] = math.exp(a[first + col] - most) / total


def make_rows(rng, shape):
    """Return rows near 0, far above 0 and far below 0; some rise from left to right."""
    rows, cols = shape
    x = 3 * rng.standard_normal(shape) + rng.choice([0, 500, -500], (rows, 1))
    return x + rng.choice([0, 0, 2, -2], (rows, 1)) * np.arange(cols)


def bound_softened(a, want):
    """Return the bounds of a softmax whose sum is rescaled for each new maximum."""
    out = want["out"]
    distance = a.max(axis=1, keepdims=True) - a
    mean = (out * distance).sum(axis=1, keepdims=True)
    steps = 8 * (a.shape[1] + 7)  # in each, an exp (4 units), products and a sum
    return 1.01 * 2.0**-24 * out * (2 * (distance + mean) + steps) + 1e-37


WARP_A_ROW = Puzzle(
    title="A warp a row",
    text=(
        "Each row of `a` becomes its [softmax](glossary.ipynb#softmax); it belongs to "
        "a warp, and has any number of columns. Each [lane](glossary.ipynb#lane) "
        "merges its own numbers first, if it has any. Then the lanes exchange pairs, "
        "without shared memory, so that every lane gets the row's pair."
    ),
    spec=spec_warp_a_row,
    answer=soften_rows,
    checks=dict(
        outputs={"out": ("rows", "cols")},
        inputs={"a": ("rows", "cols")},
        data={"a": make_rows},
        bound=bound_softened,
        launch=lambda rows: (rows, 32),
        sizes=every_size(
            [(2, 16), (1, 1), (3, 2), (4, 31), (4, 32), (4, 33), (2, 64), (3, 65)],
            (3, 331),
            most=(16, 16),
        ),
    ),
    drawn=dict(rows=2, cols=16),
    launch=(2, 32),
    hints=[
        "`cuda.shfl_xor_sync(0xFFFFFFFF, most, 16)` is the maximum of the lane 16 "
        "further on or back. Exchange the sum as well, and merge the two pairs. Then "
        "do the same for 8, 4, 2 and 1: all lanes get the row's pair.",
        "For a new maximum, the sum shrinks by the factor `math.exp(most - new)`, and "
        "1 is added. Otherwise, nothing shrinks: this factor is 1.",
        "Both lanes of an exchange read before they merge: store what the shuffles "
        "return in two new variables.",
        "With fewer than 32 columns, some lanes have no number. Their pair is `-inf` "
        "and 0. If both lanes have this pair, the difference of their maxima is NaN.",
    ],
    better=(
        "Each number is read twice, and each lane merges its own numbers first. Five "
        "exchanges of a pair then do the rest, without a barrier."
    ),
    scored=dict(rows=4, cols=64, launch=(4, 32)),
    limits={
        "reads.a": lambda rows, cols: 2 * rows * cols,
        "writes.out": lambda rows, cols: rows * cols,
        "lanes.a": 32,
        "shared_writes": 0,
        "barriers": 0,
        "atomics": 0,
    },
)


def spec_top_two(a):
    padded = np.pad(a, ((0, 0), (1, 0)), constant_values=-np.inf)
    return np.sort(padded, axis=1)[:, :-3:-1]


def find_two(out, a, cols):
    lane = cuda.threadIdx.x
    row = cuda.blockIdx.x
    most, second = float32(-np.inf), float32(-np.inf)
    ### BEGIN SOLUTION
    for col in range(lane, cols, 32):
        x = a[row * cols + col]
        second = max(second, min(most, x))
        most = max(most, x)
    for half in range(5):
        other = cuda.shfl_xor_sync(0xFFFFFFFF, most, 16 >> half)
        extra = cuda.shfl_xor_sync(0xFFFFFFFF, second, 16 >> half)
        second = max(max(second, extra), min(most, other))
        most = max(most, other)
    if lane == 0:
        out[2 * row] = most
        out[2 * row + 1] = second
    ### END SOLUTION


def make_ties(rng, shape):
    """Return rows with few different numbers, rows with many, and sorted rows.

    Some rows are all negative. In some, the largest two belong to the same lane.
    """
    rows, cols = shape
    few = rng.integers(0, 2, (rows, 1)) == 1
    x = np.where(few, rng.integers(-6, 7, shape), 9 * rng.standard_normal(shape))
    x = np.where(rng.integers(0, 2, (rows, 1)) == 1, np.sort(x, axis=1), x)
    if cols > 32:
        col = rng.integers(cols - 32)
        x[::2, [col, col + 32]] = [50, 49]
    return x - 40 * rng.integers(0, 2, (rows, 1))


TOP_TWO = Puzzle(
    title="Top two in one pass",
    text=(
        "`out[2 * row]` is the largest number of row `row`, and `out[2 * row + 1]` the "
        "second largest: the same one if it occurs twice, `-inf` if the row has one "
        "number. Each row has a block of 32 threads. Read each number once, without "
        "shared memory."
    ),
    spec=spec_top_two,
    answer=find_two,
    checks=dict(
        outputs={"out": ("rows", 2)},
        inputs={"a": ("rows", "cols")},
        data={"a": make_ties},
        terms=0,  # the numbers are only compared: each bit must match
        launch=lambda rows: (rows, 32),
        sizes=every_size(
            [(1, 40), (1, 1), (3, 2), (4, 31), (4, 32), (4, 33), (2, 64), (3, 65)],
            (3, 331),
            most=(16, 16),
        ),
    ),
    drawn=dict(rows=1, cols=40),
    launch=(1, 32),
    hints=[
        "A pair (largest, second) represents all numbers so far. Which pair represents "
        "them and one more number?",
        "If two pairs merge, the larger of the two largest numbers wins. The second is "
        "one of three others: the loser, or one of the two second numbers.",
        "`max(second, extra)` is the better of the two second numbers; `min(most, "
        "other)` is the loser.",
    ],
    better=(
        "Each number is read once. The pair needs only `max` and `min`, so the lanes "
        "of a warp never diverge."
    ),
    scored=dict(rows=4, cols=64, launch=(4, 32)),
    limits={
        "reads.a": lambda rows, cols: rows * cols,
        "writes.out": lambda rows: 2 * rows,
        "lanes.a": 32,
        "shared_writes": 0,
        "barriers": 0,
        "atomics": 0,
    },
)
