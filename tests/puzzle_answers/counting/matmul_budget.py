"""Answers to the puzzle matmul_budget."""

from numpy import float32

from weft import cuda

from .. import right, right_c, wrong


@right("matmul_budget", taught=True)
def budget_with_two_tiles_of_b(c, a, b, m, n, k):
    a_s = cuda.shared.array((4, 4), float32)
    b_left = cuda.shared.array((4, 4), float32)
    b_right = cuda.shared.array((4, 4), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    row, col = cuda.blockIdx.y * 4 + ty, cuda.blockIdx.x * 8 + tx
    acc = cuda.local.array(2, float32)
    acc[0] = 0
    acc[1] = 0
    for k0 in range(0, k, 4):
        i, j = k0 + tx, k0 + ty
        a_s[ty, tx] = a[row * k + i] if row < m and i < k else float32(0)
        b_left[ty, tx] = b[j * n + col] if j < k and col < n else float32(0)
        b_right[ty, tx] = b[j * n + col + 4] if j < k and col + 4 < n else float32(0)
        cuda.syncthreads()
        for step in range(4):
            acc[0] += a_s[ty, step] * b_left[step, tx]
            acc[1] += a_s[ty, step] * b_right[step, tx]
        cuda.syncthreads()
    for side in range(2):
        if row < m and col + 4 * side < n:
            c[row * n + col + 4 * side] = acc[side]


right_c(
    "matmul_budget",
    """__global__ void matmul_budget(float *c, const float *a, const float *b, int m,
                              int n, int k) {
    __shared__ float a_s[4][4], b_s[4][8];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int row = blockIdx.y * 4 + ty, left = blockIdx.x * 8;
    float acc[2] = {0.0f, 0.0f};
    for (int k0 = 0; k0 < k; k0 += 4) {
        a_s[ty][tx] = row < m && k0 + tx < k ? a[row * k + k0 + tx] : 0.0f;
        for (int j = tx; j < 8; j += 4)
            b_s[ty][j] =
                k0 + ty < k && left + j < n ? b[(k0 + ty) * n + left + j] : 0.0f;
        __syncthreads();
        for (int i = 0; i < 4; i++)
            for (int side = 0; side < 2; side++)
                acc[side] += a_s[ty][i] * b_s[i][tx + 4 * side];
        __syncthreads();
    }
    for (int side = 0; side < 2; side++) {
        const int col = left + tx + 4 * side;
        if (row < m && col < n) c[row * n + col] = acc[side];
    }
}""",
)


@wrong("matmul_budget", says="reads 1024 elements of a .*allows 128", where=False)
def budget_without_tiles(c, a, b, m, n, k):
    row = cuda.blockIdx.y * 4 + cuda.threadIdx.y
    for side in range(2):
        col = cuda.blockIdx.x * 8 + cuda.threadIdx.x + 4 * side
        if row < m and col < n:
            acc = float32(0)
            for i in range(k):
                acc += a[row * k + i] * b[i * n + col]
            c[row * n + col] = acc


@wrong("matmul_budget", says="reads 256 elements of a .*allows 128", where=False)
def budget_two_walks(c, a, b, m, n, k):
    a_s = cuda.shared.array((4, 4), float32)
    b_s = cuda.shared.array((4, 4), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    row = cuda.blockIdx.y * 4 + ty
    for side in range(2):
        col = cuda.blockIdx.x * 8 + tx + 4 * side
        acc = float32(0)
        for k0 in range(0, k, 4):
            i, j = k0 + tx, k0 + ty
            a_s[ty, tx] = a[row * k + i] if row < m and i < k else float32(0)
            b_s[ty, tx] = b[j * n + col] if j < k and col < n else float32(0)
            cuda.syncthreads()
            for step in range(4):
                acc += a_s[ty, step] * b_s[step, tx]
            cuda.syncthreads()
        if row < m and col < n:
            c[row * n + col] = acc


@wrong("matmul_budget", says="columns from 4 on are never written")
def budget_left_half(c, a, b, m, n, k):
    a_s = cuda.shared.array((4, 4), float32)
    b_s = cuda.shared.array((4, 8), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    row, col = cuda.blockIdx.y * 4 + ty, cuda.blockIdx.x * 8 + tx
    acc = float32(0)
    for k0 in range(0, k, 4):
        i, j = k0 + tx, k0 + ty
        a_s[ty, tx] = a[row * k + i] if row < m and i < k else float32(0)
        b_s[ty, tx] = b[j * n + col] if j < k and col < n else float32(0)
        cuda.syncthreads()
        for step in range(4):
            acc += a_s[ty, step] * b_s[step, tx]
        cuda.syncthreads()
    if row < m and col < n:
        c[row * n + col] = acc


@wrong("matmul_budget", says="no barrier between")
def budget_no_first_barrier(c, a, b, m, n, k):
    a_s = cuda.shared.array((4, 4), float32)
    b_s = cuda.shared.array((4, 8), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    row, col = cuda.blockIdx.y * 4 + ty, cuda.blockIdx.x * 8 + tx
    left, right_ = float32(0), float32(0)
    for k0 in range(0, k, 4):
        i, j = k0 + tx, k0 + ty
        a_s[ty, tx] = a[row * k + i] if row < m and i < k else float32(0)
        for step in range(0, 8, 4):
            inside = j < k and col + step < n
            b_s[ty, step + tx] = b[j * n + col + step] if inside else float32(0)
        for step in range(4):
            left += a_s[ty, step] * b_s[step, tx]
            right_ += a_s[ty, step] * b_s[step, tx + 4]
        cuda.syncthreads()
    if row < m and col < n:
        c[row * n + col] = left
    if row < m and col + 4 < n:
        c[row * n + col + 4] = right_


@wrong("matmul_budget", says="no barrier between")
def budget_no_second_barrier(c, a, b, m, n, k):
    a_s = cuda.shared.array((4, 4), float32)
    b_s = cuda.shared.array((4, 8), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    row, col = cuda.blockIdx.y * 4 + ty, cuda.blockIdx.x * 8 + tx
    left, right_ = float32(0), float32(0)
    for k0 in range(0, k, 4):
        i, j = k0 + tx, k0 + ty
        a_s[ty, tx] = a[row * k + i] if row < m and i < k else float32(0)
        for step in range(0, 8, 4):
            inside = j < k and col + step < n
            b_s[ty, step + tx] = b[j * n + col + step] if inside else float32(0)
        cuda.syncthreads()
        for step in range(4):
            left += a_s[ty, step] * b_s[step, tx]
            right_ += a_s[ty, step] * b_s[step, tx + 4]
    if row < m and col < n:
        c[row * n + col] = left
    if row < m and col + 4 < n:
        c[row * n + col + 4] = right_


@wrong("matmul_budget", says="guard of its own")
def budget_right_half_unguarded(c, a, b, m, n, k):
    a_s = cuda.shared.array((4, 4), float32)
    b_s = cuda.shared.array((4, 8), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    row, col = cuda.blockIdx.y * 4 + ty, cuda.blockIdx.x * 8 + tx
    left, right_ = float32(0), float32(0)
    for k0 in range(0, k, 4):
        i, j = k0 + tx, k0 + ty
        a_s[ty, tx] = a[row * k + i] if row < m and i < k else float32(0)
        for step in range(0, 8, 4):
            inside = j < k and col + step < n
            b_s[ty, step + tx] = b[j * n + col + step] if inside else float32(0)
        cuda.syncthreads()
        for step in range(4):
            left += a_s[ty, step] * b_s[step, tx]
            right_ += a_s[ty, step] * b_s[step, tx + 4]
        cuda.syncthreads()
    if row < m and col < n:
        c[row * n + col] = left
        c[row * n + col + 4] = right_


@wrong("matmul_budget", says=r"k=13.*s\[\d, \d+\]")
def budget_eight_columns_at_most(c, a, b, m, n, k):
    a_s = cuda.shared.array((4, 8), float32)
    b_s = cuda.shared.array((8, 8), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    row, first = cuda.blockIdx.y * 4 + ty, cuda.blockIdx.x * 8 + tx
    for j in range(tx, k, 4):
        a_s[ty, j] = a[row * k + j] if row < m else float32(0)
    for col in range(first, min(first + 5, n), 4):
        for j in range(ty, k, 4):
            b_s[j, col % 8] = b[j * n + col]
    cuda.syncthreads()
    for col in range(first, min(first + 5, n), 4):
        acc = float32(0)
        for j in range(k):
            acc += a_s[ty, j] * b_s[j, col % 8]
        if row < m:
            c[row * n + col] = acc
