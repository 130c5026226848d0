"""Matmul within a budget: the tile of the result is wider than the block."""

from numpy import float32

from weft import cuda

from ...check.cases import divide_up
from ..puzzle import Puzzle
from ..sizes import every_size


def spec(a, b):
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


def launch(m, n):
    return (divide_up(n, 8), divide_up(m, 4)), (4, 4)


def launch_more(m, n):
    return (divide_up(n, 8) + 1, divide_up(m, 4) + 1), (4, 4)


puzzle = Puzzle(
    title="Matmul on a budget",
    text=(
        "`c` is the product of `a` and `b`. A block has 4 x 4 threads and computes 4 "
        "rows and 8 columns of `c`; there may be more blocks than needed. The budget: "
        "a number of `a` may be read once for every 8 columns of `c`, a number of `b` "
        "once for every 4 rows."
    ),
    spec=spec,
    answer=matmul_budget,
    checks=dict(
        outputs={"c": ("m", "n")},
        inputs={"a": ("m", "k"), "b": ("k", "n")},
        sizes=every_size(
            [(4, 8, 4), (8, 16, 8), (1, 1, 1), (2, 6, 3), (5, 9, 7), (3, 12, 13)]
        ),
        launch=[launch, launch_more],
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
