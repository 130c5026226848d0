"""Scan, second launch: adds the sum of all blocks before."""

import numpy as np
from numpy import float32

from weft import cuda

from ...check.cases import divide_up
from ..puzzle import Puzzle
from ..sizes import every_size
from .scan_blocks import spec as each_block


def spec(out, totals):
    before = np.cumsum(totals) - totals
    return out + np.repeat(before, 32)[: len(out)]


def add_what_came_before(out, totals, n):
    ### BEGIN SOLUTION
    i = cuda.grid(1)
    before = float32(0)
    for block in range(cuda.threadIdx.x, cuda.blockIdx.x, 32):
        before += totals[block]
    half = 16
    while half > 0:
        before += cuda.shfl_xor_sync(0xFFFFFFFF, before, half)
        half //= 2
    if i < n:
        out[i] += before
    ### END SOLUTION


def first_launch(n):
    """The output of scan_blocks: (out, totals) of n numbers, always the same ones.

    The numbers are small: running sums of 80 have two digits, which fit a drawn cell.
    """
    return each_block(np.random.default_rng(n).integers(-3, 6, n))


puzzle = Puzzle(
    title="Scan, all of it",
    text=(
        "This is the second launch: `out` contains the running sums of each block of "
        "32, `totals` the sum of each block. Add to every number of `out` the totals "
        "of all blocks before its own, which makes running sums of the whole. A block "
        "reads each total at most once, and there may be one block more than needed."
    ),
    spec=spec,
    answer=add_what_came_before,
    checks=dict(
        inout={"out": "n"},
        inputs={"totals": "cdiv(n, 32)"},
        data={
            "out": lambda n: first_launch(n)[0],
            "totals": lambda n: first_launch(n)[1],
        },
        launch=[lambda n: (divide_up(n, 32), 32), lambda n: (divide_up(n, 32) + 1, 32)],
        # 1090 numbers have 35 blocks: more than a warp has lanes.
        sizes=every_size([1, 2, 3, 31, 32, 33, 97, 1090]),
    ),
    drawn=dict(n=80),
    launch=(3, 32),
    hints=[
        "Block 0 adds nothing, block 1 the first total, block 2 the first two. The 32 "
        "lanes of a block can share the reads.",
        "Lane `t` adds up totals t, t + 32, ... as long as they belong to earlier "
        "blocks. Now each lane has a part of the sum, and all lanes need the whole "
        "sum.",
        "There are two ways to add up over a warp, with `down` and with `xor`. One of "
        "them leaves the sum in every lane.",
    ],
    better=(
        "The lanes share the totals, one read each, and shuffles with `xor` give every "
        "lane the sum."
    ),
    limits={"reads.totals": lambda blocks: sum(range(blocks))},
)
