"""Answers to the puzzle transpose."""

from numpy import float32

from weft import cuda

from .. import right, right_c, wrong


@right("transpose")
def swizzled(out, a, rows, cols):
    tile = cuda.shared.array((32, 32), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    left, top = 32 * cuda.blockIdx.x, 32 * cuda.blockIdx.y
    if top + ty < rows and left + tx < cols:
        tile[ty, tx ^ ty] = a[(top + ty) * cols + left + tx]
    cuda.syncthreads()
    if left + ty < cols and top + tx < rows:
        out[(left + ty) * rows + top + tx] = tile[tx, ty ^ tx]


right_c(
    "transpose",
    """__global__ void padded(float *out, const float *a, int rows, int cols) {
    __shared__ float tile[32 * 33];
    int tx = threadIdx.x, ty = threadIdx.y;
    int row = blockIdx.y * 32 + ty, col = blockIdx.x * 32 + tx;
    tile[33 * tx + ty] = row < rows && col < cols ? a[row * cols + col] : 0;
    __syncthreads();
    row = blockIdx.x * 32 + ty, col = blockIdx.y * 32 + tx;
    if (row < cols && col < rows) out[row * rows + col] = tile[33 * ty + tx];
}""",
)


@wrong("transpose", says="32 sectors of out", where=False)
def no_tile(out, a, rows, cols):
    col, row = cuda.grid(2)
    if row < rows and col < cols:
        out[col * rows + row] = a[row * cols + col]


@wrong("transpose", says="992 bank conflicts.*allows none", where=False)
def no_padding(out, a, rows, cols):
    tile = cuda.shared.array((32, 32), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    col, row = cuda.grid(2)
    if row < rows and col < cols:
        tile[ty, tx] = a[row * cols + col]
    cuda.syncthreads()
    row, col = 32 * cuda.blockIdx.x + ty, 32 * cuda.blockIdx.y + tx
    if row < cols and col < rows:
        out[row * rows + col] = tile[tx, ty]


@wrong("transpose", says="tile.*no barrier")
def no_barrier(out, a, rows, cols):
    tile = cuda.shared.array((32, 33), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    col, row = cuda.grid(2)
    if row < rows and col < cols:
        tile[ty, tx] = a[row * cols + col]
    row, col = 32 * cuda.blockIdx.x + ty, 32 * cuda.blockIdx.y + tx
    if row < cols and col < rows:
        out[row * rows + col] = tile[tx, ty]


@wrong("transpose", says="chance")
def guard_of_the_wrong_side(out, a, rows, cols):
    tile = cuda.shared.array((32, 33), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    col, row = cuda.grid(2)
    if row < rows and col < cols:
        tile[ty, tx] = a[row * cols + col]
    cuda.syncthreads()
    if row < rows and col < cols:
        row, col = 32 * cuda.blockIdx.x + ty, 32 * cuda.blockIdx.y + tx
        out[row * rows + col] = tile[tx, ty]


@wrong("transpose", says="rows from 32 on are never written")
def blocks_not_swapped(out, a, rows, cols):
    tile = cuda.shared.array((32, 33), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    col, row = cuda.grid(2)
    if row < rows and col < cols:
        tile[ty, tx] = a[row * cols + col]
    cuda.syncthreads()
    row, col = 32 * cuda.blockIdx.y + ty, 32 * cuda.blockIdx.x + tx
    if row < cols and col < rows:
        out[row * rows + col] = tile[tx, ty]


@wrong("transpose", says=r"No thread wrote out\[32, 32\]")
def tiles_along_two_edges(out, a, rows, cols):
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    across, down = cuda.blockIdx.x * 32, cuda.blockIdx.y * 32
    tile = cuda.shared.array((32, 33), float32)
    if across * down > 0:
        return
    if down + y < rows and across + x < cols:
        tile[y, x] = a[(down + y) * cols + across + x]
    cuda.syncthreads()
    if across + y < cols and down + x < rows:
        out[(across + y) * rows + down + x] = tile[x, y]


@wrong("transpose", says="transposed result")
def tile_not_turned(out, a, rows, cols):
    col, row = cuda.grid(2)
    if row < rows and col < cols:
        out[row * cols + col] = a[row * cols + col]
