"""First rungs of ops that memory limits: copy, transpose, softmax, compact.

Each is a Python function that matches its rung in the op's folder of kernels/ line by
line. The arguments follow the rules of bodies.py.
"""

import math

from numpy import float32

from .. import cuda
from .bodies import TILE, row_max, row_sum


def copy_words(y, x, count):
    """Copy x (count), of any type, to y with a thread per number."""
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if i < count:
        y[i] = x[i]


def transpose(y, x, rows, cols):
    """Write x (rows,cols) transposed to y (cols,rows), with a thread per number."""
    row = cuda.blockIdx.y * cuda.blockDim.y + cuda.threadIdx.y
    col = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if row < rows and col < cols:
        y[col * rows + row] = x[row * cols + col]


def transpose_tiled(y, x, rows, cols):
    """Like transpose(), but blocks of TILE x TILE threads transpose a tile."""
    tile = cuda.shared.array((TILE, TILE), float32)
    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y
    row = cuda.blockIdx.y * TILE + ty
    col = cuda.blockIdx.x * TILE + tx
    if row < rows and col < cols:
        tile[ty, tx] = x[row * cols + col]
    cuda.syncthreads()  # the tile is complete
    row = cuda.blockIdx.x * TILE + ty  # now of y
    col = cuda.blockIdx.y * TILE + tx
    if row < cols and col < rows:
        y[row * rows + col] = tile[tx, ty]


def softmax(y, x, rows, cols):
    """Compute y (rows,cols), the softmax of each row of x, with a thread per row."""
    row = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if row >= rows:
        return
    first = row * cols
    most = row_max(x, first, cols)
    sum = row_sum(x, first, cols, most)
    for j in range(cols):
        y[first + j] = math.exp(x[first + j] - most) / sum


def softmax_dx(dx, dy, y, rows, cols):
    """Compute dx = y * (dy - sum(dy * y)), row by row, with a thread per row."""
    row = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if row >= rows:
        return
    first = row * cols
    dot = float32(0)
    for j in range(cols):
        dot += dy[first + j] * y[first + j]
    for j in range(cols):
        dx[first + j] = y[first + j] * (dy[first + j] - dot)


def keep_each(y, kept, x, count, threshold):
    """Write the numbers of x (count) above `threshold` to y (count), in any order.

    kept: int64 (1), 0 before the launch; receives their number. A thread per number.
    """
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if i < count and x[i] > threshold:
        y[cuda.atomic.add(kept, 0, 1)] = x[i]
