"""Kernels of the first lessons: grey values, and two matrix products.

The lessons derive matmul_tiled; kernels/matmul/02_coalesced.cu has the first product.
"""

from numpy import float32

from ... import cuda

TILE = 16  # side of matmul_tiled's tiles and blocks


def grey(y, x, n):
    """Compute y (n) from the RGB planes of x (3,n). One thread per pixel."""
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if i < n:
        red, green, blue = x[i], x[n + i], x[2 * n + i]
        y[i] = float32(0.2989) * red + float32(0.587) * green + float32(0.114) * blue


def matmul(c, a, b, m, n, k):
    """c (m,n) = a (m,k) @ b (k,n). One thread per element of c."""
    row = cuda.blockIdx.y * cuda.blockDim.y + cuda.threadIdx.y
    col = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if row < m and col < n:
        acc = float32(0)
        for i in range(k):
            acc += a[row * k + i] * b[i * n + col]
        c[row * n + col] = acc


def matmul_tiled(c, a, b, m, n, k):
    """c (m,n) = a (m,k) @ b (k,n). Blocks of TILE x TILE threads share two tiles."""
    a_s = cuda.shared.array((TILE, TILE), float32)
    b_s = cuda.shared.array((TILE, TILE), float32)
    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y
    row = cuda.blockIdx.y * TILE + ty
    col = cuda.blockIdx.x * TILE + tx  # tx runs along a row: coalesced

    acc = float32(0)
    for k0 in range(0, k, TILE):
        # Past an edge load zeros: they add nothing. No thread returns early, since
        # it would leave a hole in the tile its neighbours read.
        a_s[ty, tx] = a[row * k + k0 + tx] if row < m and k0 + tx < k else float32(0)
        b_s[ty, tx] = b[(k0 + ty) * n + col] if k0 + ty < k and col < n else float32(0)
        cuda.syncthreads()  # both tiles are complete ...
        for i in range(TILE):
            acc += a_s[ty, i] * b_s[i, tx]
        cuda.syncthreads()  # ... and read, so they may be overwritten
    if row < m and col < n:
        c[row * n + col] = acc
