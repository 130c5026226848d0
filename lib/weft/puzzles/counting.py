"""The puzzles of lesson 02b, in which a right answer may cost too much.

divergence       warps whose lanes take one branch
matmul_nt        a product in tiles
matmul_budget    tiles, and two results per thread
"""

import math

import numpy as np
from numpy import float32

from weft import cuda

from ..check.cases import divide_up
from .instance import cover, every_size
from .puzzle import Puzzle


def spec_divergence(a):
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


DIVERGENCE = Puzzle(
    text=(
        "Even places of `out` get the sine of `a`, odd ones the cosine. This kernel is "
        "right, but half of each warp is idle on either side of the branch. Give every "
        "warp numbers of one kind; each block has a multiple of 64 threads, and there "
        "are as many threads as numbers."
    ),
    spec=spec_divergence,
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
    # 32 numbers of one kind occupy 8 sectors; 32 adjacent numbers occupy 4.
    limits={"active_lanes": 32, "store_sectors_per_request.out": (8, None)},
    why={
        "store_sectors_per_request.out": "With numbers of one kind, a warp stores to "
        "every second place. A warp that stores to adjacent places computes both sine "
        "and cosine",
    },
)


def spec_matmul_nt(a, b):
    return a @ b.T


def matmul_nt(c, a, b, m, n, k):
    """c (m,n) = a (m,k) @ b (n,k).T. Blocks of 3 x 3. About twelve lines."""
    a_s = cuda.shared.array((3, 3), float32)
    b_s = cuda.shared.array((3, 3), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    row, col = cuda.blockIdx.y * 3 + ty, cuda.blockIdx.x * 3 + tx
    ### BEGIN SOLUTION
    b_row = cuda.blockIdx.x * 3 + ty
    acc = float32(0)
    for k0 in range(0, k, 3):
        inside = k0 + tx < k
        a_s[ty, tx] = a[row * k + k0 + tx] if row < m and inside else float32(0)
        b_s[ty, tx] = b[b_row * k + k0 + tx] if b_row < n and inside else float32(0)
        cuda.syncthreads()
        for i in range(3):
            acc += a_s[ty, i] * b_s[tx, i]
        cuda.syncthreads()
    if row < m and col < n:
        c[row * n + col] = acc
    ### END SOLUTION


MATMUL_NT = Puzzle(
    title="Matmul",
    text=(
        "`c[row, col]` is the sum of the products of row `row` of `a` and row `col` of "
        "`b`, for matrices of any size. Blocks have 3 x 3 threads, and the grid may "
        "have more blocks than needed. Let each block load "
        "[tiles](glossary.ipynb#tile) of 3 x 3."
    ),
    spec=spec_matmul_nt,
    answer=matmul_nt,
    checks=dict(
        outputs={"c": ("m", "n")},
        inputs={"a": ("m", "k"), "b": ("n", "k")},
        sizes=every_size(
            [(2, 2, 2), (8, 8, 8), (1, 1, 1), (3, 3, 3), (4, 2, 7), (2, 5, 13)]
        ),
        launch=[
            lambda m, n: cover((n, m), (3, 3)),
            lambda m, n: cover((n, m), (3, 3), 1),
        ],
    ),
    drawn=dict(m=2, n=2, k=2),
    launch=(1, (3, 3)),
    hints=[
        "Begin with 2 x 2, where one tile of each matrix is enough. Every thread loads "
        "one number of `a` and one of `b`. After a barrier, every thread adds up its "
        "products.",
        "For larger matrices, go through the columns of both in steps of 3, and keep "
        "the sum in a local variable. The tiles are reused: which threads might still "
        "be reading when you load the next numbers?",
        "A block at `blockIdx.x` needs 3 rows of `b`, starting at `blockIdx.x * 3`. "
        "Read along them: `tx` runs along the row of the tile, as for `a`.",
        "Past the end of a row, or below the last row, load zeros. No thread may "
        "return before the last barrier.",
    ],
    better=(
        "With tiles, each number is read once for every block that needs it, not for "
        "every thread. Two barriers per tile are enough."
    ),
    scored=dict(m=9, n=9, k=9, launch=((3, 3), (3, 3))),
    limits={  # Each number is read once for every block that needs it.
        "reads.a": lambda m, k, across: m * k * across,
        "reads.b": lambda n, k, down: n * k * down,
    },
)


def spec_matmul_budget(a, b):
    return a @ b


def matmul_budget(c, a, b, m, n, k):
    """c (m,n) = a (m,k) @ b (k,n). Blocks of 4 x 4. About sixteen lines."""
    a_s = cuda.shared.array((4, 4), float32)
    b_s = cuda.shared.array((4, 8), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    row, col = cuda.blockIdx.y * 4 + ty, cuda.blockIdx.x * 8 + tx
    ### BEGIN SOLUTION
    left, right = float32(0), float32(0)
    for k0 in range(0, k, 4):
        down = k0 + ty
        a_s[ty, tx] = a[row * k + k0 + tx] if row < m and k0 + tx < k else float32(0)
        for step in range(0, 8, 4):
            inside = down < k and col + step < n
            b_s[ty, step + tx] = b[down * n + col + step] if inside else float32(0)
        cuda.syncthreads()
        for i in range(4):
            left += a_s[ty, i] * b_s[i, tx]
            right += a_s[ty, i] * b_s[i, tx + 4]
        cuda.syncthreads()
    if row < m and col < n:
        c[row * n + col] = left
    if row < m and col + 4 < n:
        c[row * n + col + 4] = right
    ### END SOLUTION


MATMUL_BUDGET = Puzzle(
    title="Matmul on a budget",
    text=(
        "`c` is the product of `a` and `b`. A block has 4 x 4 threads and computes 4 "
        "rows and 8 columns of `c`; the grid may have more blocks than needed. The "
        "budget: a number of `a` may be read once for every 8 columns of `c`, and "
        "a number of `b` once for every 4 rows."
    ),
    spec=spec_matmul_budget,
    answer=matmul_budget,
    checks=dict(
        outputs={"c": ("m", "n")},
        inputs={"a": ("m", "k"), "b": ("k", "n")},
        sizes=every_size(
            [(4, 8, 4), (8, 16, 8), (1, 1, 1), (2, 6, 3), (5, 9, 7), (3, 12, 13)]
        ),
        # A thread computes two columns.
        launch=[
            lambda m, n: cover((divide_up(n, 2), m), (4, 4)),
            lambda m, n: cover((divide_up(n, 2), m), (4, 4), 1),
        ],
    ),
    drawn=dict(m=4, n=8, k=4),
    launch=(1, (4, 4)),
    hints=[
        "Each thread computes two numbers of `c`, in columns `col` and `col` + 4. So "
        "it has two sums.",
        "The tile of `a` is as in the lesson. The tile of `b` is twice as wide: each "
        "thread loads two numbers of it, four columns apart, and each load needs its "
        "own guard.",
        "One pass through the tiles is enough for both sums. Two passes, one for each "
        "sum, would read `a` twice.",
    ],
    better=(
        "Both columns of a thread share one pass: the tile of `a` is loaded once, and "
        "used for 8 columns."
    ),
    scored=dict(m=8, n=16, k=8, launch=((2, 2), (4, 4))),
    limits={
        "reads.a": lambda m, k, across: m * k * across,
        "reads.b": lambda n, k, down: k * n * down,
    },
)
