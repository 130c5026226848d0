"""Divergence: branches that whole warps take together. A repair."""

import math

import numpy as np

from weft import cuda

from ..puzzle import Puzzle
from ..sizes import every_size


def spec(a):
    out = np.sin(a)
    out[1::2] = np.cos(a[1::2])
    return out


def by_lane(out, a):
    i = cuda.grid(1)
    if i % 2 == 0:  # adjacent threads differ: their warp executes both sides
        out[i] = math.sin(a[i])
    else:
        out[i] = math.cos(a[i])


def kinds_by_warp(out, a):
    ### BEGIN SOLUTION
    t = cuda.threadIdx.x % 64
    first = cuda.grid(1) - t  # the first of two warps' 64 numbers
    i = first + 2 * (t % 32) + t // 32
    if t < 32:
        out[i] = math.sin(a[i])
    else:
        out[i] = math.cos(a[i])
    ### END SOLUTION


puzzle = Puzzle(
    title="Divergence",
    text=(
        "Even places of `out` get the sine of `a`, odd ones the cosine. This kernel is "
        "right, but half of each warp is idle on either side of the branch. Give every "
        "warp numbers of one kind: blocks are multiples of 64 threads, and there are "
        "as many threads as numbers."
    ),
    spec=spec,
    answer=kinds_by_warp,
    start=by_lane,
    checks=dict(
        outputs={"out": "n"},
        inputs={"a": "n"},
        launch=[lambda n: (n // 64, 64), lambda n: (1, n)],
        sizes=[64 * pairs for pairs in every_size([1, 2, 3, 5])],
    ),
    drawn=dict(n=64),
    launch=(1, 64),
    hints=[
        "Thread i need not handle number i. Two warps together have 64 numbers, 32 of "
        "each kind.",
        "Lanes 0, 1, 2 of the first warp may take numbers 0, 2, 4. Which ones does the "
        "second warp take?",
    ],
    better=(
        "You may choose which thread handles which number: one warp takes 32 even "
        "ones, the next warp 32 odd ones, and no warp executes both sides."
    ),
    # 32 numbers of one kind occupy 8 sectors, 32 of both kinds occupy 4.
    limits={"active_lanes": 32, "store_sectors_per_request.out": (8, None)},
    why={
        "store_sectors_per_request.out": "With numbers of one kind, a warp stores to "
        "every second place. A warp that stores to adjacent places computes both sine "
        "and cosine",
    },
)
