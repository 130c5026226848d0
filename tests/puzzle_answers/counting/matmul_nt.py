"""Answers to the puzzle matmul_nt."""

from numpy import float32

from weft import cuda

from .. import right, right_c, wrong


@right("matmul_nt", taught=True)
def nt_turned_while_brought(c, a, b, m, n, k):
    a_s = cuda.shared.array((3, 3), float32)
    b_s = cuda.shared.array((3, 3), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    row, col = cuda.blockIdx.y * 3 + ty, cuda.blockIdx.x * 3 + tx
    acc = float32(0)
    for k0 in range(0, k, 3):
        a_s[ty, tx] = 0
        b_s[ty, tx] = 0
        if row < m and k0 + tx < k:
            a_s[ty, tx] = a[row * k + k0 + tx]
        if col < n and k0 + ty < k:
            b_s[ty, tx] = b[col * k + k0 + ty]
        cuda.syncthreads()
        for i in range(3):
            acc += a_s[ty, i] * b_s[i, tx]
        cuda.syncthreads()
    if row < m and col < n:
        c[row * n + col] = acc


right_c(
    "matmul_nt",
    """__global__ void matmul_nt(float *c, const float *a, const float *b, int m,
                          int n, int k) {
    __shared__ float a_s[3][3], b_s[3][3];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int row = blockIdx.y * 3 + ty, b_row = blockIdx.x * 3 + ty;
    const int col = blockIdx.x * 3 + tx;
    float acc = 0.0f;
    for (int k0 = 0; k0 < k; k0 += 3) {
        const int i = k0 + tx;
        a_s[ty][tx] = row < m && i < k ? a[row * k + i] : 0.0f;
        b_s[ty][tx] = b_row < n && i < k ? b[b_row * k + i] : 0.0f;
        __syncthreads();
        for (int j = 0; j < 3; j++) acc += a_s[ty][j] * b_s[tx][j];
        __syncthreads();
    }
    if (row < m && col < n) c[row * n + col] = acc;
}""",
)


@wrong("matmul_nt", says="no barrier between")
def nt_no_first_barrier(c, a, b, m, n, k):
    a_s = cuda.shared.array((3, 3), float32)
    b_s = cuda.shared.array((3, 3), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    row, col = cuda.blockIdx.y * 3 + ty, cuda.blockIdx.x * 3 + tx
    b_row = cuda.blockIdx.x * 3 + ty
    acc = float32(0)
    for k0 in range(0, k, 3):
        inside = k0 + tx < k
        a_s[ty, tx] = a[row * k + k0 + tx] if row < m and inside else float32(0)
        b_s[ty, tx] = b[b_row * k + k0 + tx] if b_row < n and inside else float32(0)
        for i in range(3):
            acc += a_s[ty, i] * b_s[tx, i]
        cuda.syncthreads()
    if row < m and col < n:
        c[row * n + col] = acc


@wrong("matmul_nt", says="no barrier between")
def nt_no_second_barrier(c, a, b, m, n, k):
    a_s = cuda.shared.array((3, 3), float32)
    b_s = cuda.shared.array((3, 3), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    row, col = cuda.blockIdx.y * 3 + ty, cuda.blockIdx.x * 3 + tx
    b_row = cuda.blockIdx.x * 3 + ty
    acc = float32(0)
    for k0 in range(0, k, 3):
        inside = k0 + tx < k
        a_s[ty, tx] = a[row * k + k0 + tx] if row < m and inside else float32(0)
        b_s[ty, tx] = b[b_row * k + k0 + tx] if b_row < n and inside else float32(0)
        cuda.syncthreads()
        for i in range(3):
            acc += a_s[ty, i] * b_s[tx, i]
    if row < m and col < n:
        c[row * n + col] = acc


@wrong("matmul_nt", says="b read along the wrong axis")
def nt_as_if_not_transposed(c, a, b, m, n, k):
    row = cuda.blockIdx.y * 3 + cuda.threadIdx.y
    col = cuda.blockIdx.x * 3 + cuda.threadIdx.x
    if row < m and col < n:
        acc = float32(0)
        for i in range(k):
            acc += a[row * k + i] * b[i * n + col]
        c[row * n + col] = acc


@wrong("matmul_nt", says="transposed result")
def nt_result_transposed(c, a, b, m, n, k):
    row = cuda.blockIdx.y * 3 + cuda.threadIdx.y
    col = cuda.blockIdx.x * 3 + cuda.threadIdx.x
    if row < m and col < n:
        acc = float32(0)
        for i in range(k):
            acc += a[row * k + i] * b[col * k + i]
        c[col * m + row] = acc


@wrong("matmul_nt", says="only the first tile of 3")
def nt_one_tile(c, a, b, m, n, k):
    a_s = cuda.shared.array((3, 3), float32)
    b_s = cuda.shared.array((3, 3), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    row, col = cuda.blockIdx.y * 3 + ty, cuda.blockIdx.x * 3 + tx
    b_row = cuda.blockIdx.x * 3 + ty
    a_s[ty, tx] = a[row * k + tx] if row < m and tx < k else float32(0)
    b_s[ty, tx] = b[b_row * k + tx] if b_row < n and tx < k else float32(0)
    cuda.syncthreads()
    if row < m and col < n:
        acc = float32(0)
        for i in range(min(k, 3)):
            acc += a_s[ty, i] * b_s[tx, i]
        c[row * n + col] = acc


@wrong("matmul_nt", says="last tile")
def nt_full_tiles_only(c, a, b, m, n, k):
    a_s = cuda.shared.array((3, 3), float32)
    b_s = cuda.shared.array((3, 3), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    row, col = cuda.blockIdx.y * 3 + ty, cuda.blockIdx.x * 3 + tx
    b_row = cuda.blockIdx.x * 3 + ty
    acc = float32(0)
    for k0 in range(0, k // 3 * 3, 3):
        a_s[ty, tx] = a[row * k + k0 + tx] if row < m else float32(0)
        b_s[ty, tx] = b[b_row * k + k0 + tx] if b_row < n else float32(0)
        cuda.syncthreads()
        for i in range(3):
            acc += a_s[ty, i] * b_s[tx, i]
        cuda.syncthreads()
    if row < m and col < n:
        c[row * n + col] = acc


@wrong("matmul_nt", says="barrier")
def nt_home_early(c, a, b, m, n, k):
    a_s = cuda.shared.array((3, 3), float32)
    b_s = cuda.shared.array((3, 3), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    row, col = cuda.blockIdx.y * 3 + ty, cuda.blockIdx.x * 3 + tx
    b_row = cuda.blockIdx.x * 3 + ty
    acc = float32(0)
    if row < m and col < n:
        for k0 in range(0, k, 3):
            inside = k0 + tx < k
            a_s[ty, tx] = a[row * k + k0 + tx] if inside else float32(0)
            b_s[ty, tx] = b[b_row * k + k0 + tx] if inside else float32(0)
            cuda.syncthreads()
            for i in range(3):
                acc += a_s[ty, i] * b_s[tx, i]
            cuda.syncthreads()
        c[row * n + col] = acc


@wrong("matmul_nt", says="missing guard")
def nt_no_zeros(c, a, b, m, n, k):
    a_s = cuda.shared.array((3, 3), float32)
    b_s = cuda.shared.array((3, 3), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    row, col = cuda.blockIdx.y * 3 + ty, cuda.blockIdx.x * 3 + tx
    b_row = cuda.blockIdx.x * 3 + ty
    acc = float32(0)
    for k0 in range(0, k, 3):
        a_s[ty, tx] = a[row * k + k0 + tx] if row < m else float32(0)
        b_s[ty, tx] = b[b_row * k + k0 + tx] if b_row < n else float32(0)
        cuda.syncthreads()
        for i in range(3):
            acc += a_s[ty, i] * b_s[tx, i]
        cuda.syncthreads()
    if row < m and col < n:
        c[row * n + col] = acc


@wrong("matmul_nt", says="one block is enough|global index is needed")
def nt_rows_of_b_from_the_first(c, a, b, m, n, k):
    a_s = cuda.shared.array((3, 3), float32)
    b_s = cuda.shared.array((3, 3), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    row, col = cuda.blockIdx.y * 3 + ty, cuda.blockIdx.x * 3 + tx
    acc = float32(0)
    for k0 in range(0, k, 3):
        inside = k0 + tx < k
        a_s[ty, tx] = a[row * k + k0 + tx] if row < m and inside else float32(0)
        b_s[ty, tx] = b[ty * k + k0 + tx] if ty < n and inside else float32(0)
        cuda.syncthreads()
        for i in range(3):
            acc += a_s[ty, i] * b_s[tx, i]
        cuda.syncthreads()
    if row < m and col < n:
        c[row * n + col] = acc


@wrong("matmul_nt", says=r"k=13.*a_s\[0, 9\]")
def nt_nine_columns_at_most(c, a, b, m, n, k):
    a_s = cuda.shared.array((3, 9), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    row, col = cuda.blockIdx.y * 3 + ty, cuda.blockIdx.x * 3 + tx
    for j in range(tx, k, 3):
        a_s[ty, j] = a[row * k + j] if row < m else float32(0)
    cuda.syncthreads()
    if row < m and col < n:
        acc = float32(0)
        for j in range(k):
            acc += a_s[ty, j] * b[col * k + j]
        c[row * n + col] = acc


@wrong("matmul_nt", says=r"reads \d+ elements of a in all.*m = 9", where=False)
def nt_without_tiles(c, a, b, m, n, k):
    row = cuda.blockIdx.y * 3 + cuda.threadIdx.y
    col = cuda.blockIdx.x * 3 + cuda.threadIdx.x
    if row < m and col < n:
        acc = float32(0)
        for i in range(k):
            acc += a[row * k + i] * b[col * k + i]
        c[row * n + col] = acc
