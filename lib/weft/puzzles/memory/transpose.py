"""Transpose: through a tile of shared memory, without bank conflicts."""

from numpy import float32

from weft import cuda

from ...check.cases import divide_up
from ..puzzle import Puzzle
from ..sizes import every_size


def spec(a):
    return a.T


def transpose_tiles(out, a, rows, cols):
    x = cuda.threadIdx.x
    y = cuda.threadIdx.y
    ### BEGIN SOLUTION
    tile = cuda.shared.array((32, 33), float32)
    row = cuda.blockIdx.y * 32 + y
    col = cuda.blockIdx.x * 32 + x
    if row < rows and col < cols:
        tile[y, x] = a[row * cols + col]
    cuda.syncthreads()
    row = cuda.blockIdx.x * 32 + y
    col = cuda.blockIdx.y * 32 + x
    if row < cols and col < rows:
        out[row * rows + col] = tile[x, y]
    ### END SOLUTION


def tiles(rows, cols):
    """The launch: a block of 32x32 threads for each tile of `a`."""
    return (divide_up(cols, 32), divide_up(rows, 32)), (32, 32)


puzzle = Puzzle(
    title="Transpose",
    text=(
        "`out` (cols,rows) is the [transpose](glossary.ipynb#transpose) of `a` "
        "(rows,cols). A block of 32x32 threads moves a tile of 32x32 numbers. Read and "
        "write along rows, with 4 sectors per request, and avoid [bank "
        "conflicts](glossary.ipynb#bank-conflict) in the tile."
    ),
    spec=spec,
    answer=transpose_tiles,
    checks=dict(
        outputs={"out": ("cols", "rows")},
        inputs={"a": ("rows", "cols")},
        launch=tiles,
        terms=0,  # copied bit by bit
        sizes=every_size([(1, 1), (2, 3), (31, 33), (32, 32), (40, 5), (33, 37)]),
    ),
    drawn=dict(rows=32, cols=32),
    launch=((1, 1), (32, 32)),
    hints=[
        "A warp is a row of threads: y is fixed, x runs from 0 to 31. It has to run "
        "along a row of `a` when it reads, and along a row of `out` when it writes.",
        "So a thread writes a different number than it read, and the block needs a "
        "barrier in between. Which tile of `out` does the block write, and which "
        "thread writes which number?",
        "Either the writes or the reads of the shared tile go down a column. If its "
        "rows are 32 long, these 32 numbers are in one bank. What if the rows are a "
        "little longer?",
    ],
    better=(
        "One number in and one out for each thread, one barrier, and a tile whose rows "
        "are 33 long, so that a column uses every bank."
    ),
    limits={
        "sectors_per_request.a": 4,
        "sectors_per_request.out": 4,
        "bank_conflicts": 0,
    },
)
