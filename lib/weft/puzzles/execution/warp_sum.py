"""Warp sum: lanes exchange numbers without memory."""

from numpy import float32

from weft import cuda

from ...check.cases import divide_up
from ..puzzle import Puzzle
from ..sizes import every_size


def spec(a):
    return [a[i : i + 32].sum() for i in range(0, len(a), 32)]


def sum_by_shuffles(out, a, n):
    i = cuda.grid(1)
    v = float32(0)
    if i < n:
        v = a[i]
    ### BEGIN SOLUTION
    half = 16
    while half > 0:
        v += cuda.shfl_down_sync(0xFFFFFFFF, v, half)
        half //= 2
    if i < n and i % 32 == 0:
        out[i // 32] = v
    ### END SOLUTION


puzzle = Puzzle(
    title="Warp sum",
    text=(
        "`out[w]` is the sum of the 32 numbers of `a` that belong to warp `w` of the "
        "grid. The last warp may have fewer numbers, and an extra block has none. Use "
        "no shared memory and no [barrier](glossary.ipynb#barrier): let the "
        "[lanes](glossary.ipynb#lane) pass their numbers to each other."
    ),
    spec=spec,
    answer=sum_by_shuffles,
    checks=dict(
        outputs={"out": "cdiv(n, 32)"},
        inputs={"a": "n"},
        launch=[
            lambda n: (divide_up(n, 32), 32),
            lambda n: (divide_up(n, 64), 64),
            lambda n: (divide_up(n, 96) + 1, 96),
        ],
        # 1025 numbers have 33 warps: i // 31 is wrong from the 32nd on.
        sizes=every_size([1, 2, 3, 31, 32, 33, 64, 127], 1025),
    ),
    drawn=dict(n=32),
    launch=(1, 32),
    hints=[
        "`cuda.shfl_down_sync(0xFFFFFFFF, v, 16)` is the `v` of the lane 16 further "
        "up. Which sums do the lanes have after each has added that to its own number?",
        "Lanes 0 to 15 have sums of two numbers. Repeat this by 8, 4, 2, 1; all 32 "
        "lanes must reach each of these calls.",
        "At the end one lane has the sum of its warp. Which lane is it, and which "
        "element of `out` belongs to its warp?",
    ],
    better=(
        "Five rounds, by 16, 8, 4, 2 and 1: each number is read once, and only the sum "
        "is written. With `shfl_xor_sync` all lanes would have it."
    ),
    limits={
        "reads.a": lambda n: n,
        "lanes.a": 32,
        "shared_writes": 0,
        "barriers": 0,
        "atomics": 0,
    },
)
