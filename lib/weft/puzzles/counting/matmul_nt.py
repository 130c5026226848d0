"""Matmul, with the second matrix transposed: tiles."""

from numpy import float32

from weft import cuda

from ...check.cases import divide_up
from ..puzzle import Puzzle
from ..sizes import every_size


def spec(a, b):
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


def launch(m, n):
    return (divide_up(n, 3), divide_up(m, 3)), (3, 3)


def launch_more(m, n):
    return (divide_up(n, 3) + 1, divide_up(m, 3) + 1), (3, 3)


puzzle = Puzzle(
    title="Matmul",
    text=(
        "`c[row, col]` is the sum of the products of row `row` of `a` and row `col` of "
        "`b`, for matrices of any size. Blocks have 3 x 3 threads, and there may be "
        "more blocks than needed. Let each block load [tiles](glossary.ipynb#tile) of "
        "3 x 3."
    ),
    spec=spec,
    answer=matmul_nt,
    checks=dict(
        outputs={"c": ("m", "n")},
        inputs={"a": ("m", "k"), "b": ("n", "k")},
        sizes=every_size(
            [(2, 2, 2), (8, 8, 8), (1, 1, 1), (3, 3, 3), (4, 2, 7), (2, 5, 13)]
        ),
        launch=[launch, launch_more],
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
        "A block at `blockIdx.x` needs the rows of `b` from `blockIdx.x * 3` on. Read "
        "along them: `tx` runs along the row of the tile, as for `a`.",
        "Past the end of a row, or below the last one, load zeros. No thread may "
        "return before the last barrier.",
    ],
    better=(
        "With tiles each number is read once for every block that needs it, not for "
        "every thread; two barriers per tile are enough."
    ),
    scored=dict(m=9, n=9, k=9, launch=((3, 3), (3, 3))),
    limits={  # once for every block that needs it
        "reads.a": lambda m, k, across: m * k * across,
        "reads.b": lambda n, k, down: n * k * down,
    },
)
