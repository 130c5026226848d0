"""Answers to the puzzle axis_sum."""

from numpy import float32

from weft import cuda

from .. import right, right_c, wrong


@right("axis_sum", taught=True)
def row_by_the_lessons_tree(out, a, cols):
    s = cuda.shared.array(8, float32)
    t = cuda.threadIdx.x
    i = cuda.blockIdx.x * cols + t
    s[t] = a[i] if t < cols else float32(0)
    half = 8 // 2
    while half > 0:
        cuda.syncthreads()
        if t < half:
            s[t] += s[t + half]
        half //= 2
    if t == 0:
        out[cuda.blockIdx.x] = s[0]


@right("axis_sum", taught=True)
def row_in_order(out, a, cols):
    s = cuda.shared.array(8, float32)
    col, row = cuda.threadIdx.x, cuda.blockIdx.x
    if col < cols:
        s[col] = a[row * cols + col]
    cuda.syncthreads()
    if col == 0:
        acc = float32(0)
        for j in range(cols):
            acc += s[j]
        out[row] = acc


right_c(
    "axis_sum",
    """__global__ void sum_rows(float *out, const float *a, int cols) {
    const int col = threadIdx.x, row = blockIdx.x;
    float acc = col < cols ? a[row * cols + col] : 0.0f;
    for (int apart = 4; apart > 0; apart /= 2)
        acc += __shfl_xor_sync(0xff, acc, apart);
    if (col == 0) out[row] = acc;
}""",
)


@wrong("axis_sum", says="no barrier between")
def row_no_barrier(out, a, cols):
    s = cuda.shared.array(8, float32)
    col, row = cuda.threadIdx.x, cuda.blockIdx.x
    if col < cols:
        s[col] = a[row * cols + col]
    if col == 0:
        acc = float32(0)
        for j in range(cols):
            acc += s[j]
        out[row] = acc


@wrong("axis_sum", says="no barrier between")
def row_no_barrier_in_the_tree(out, a, cols):
    s = cuda.shared.array(8, float32)
    col, row = cuda.threadIdx.x, cuda.blockIdx.x
    s[col] = a[row * cols + col] if col < cols else float32(0)
    cuda.syncthreads()
    half = 4
    while half > 0:
        if col < half:
            s[col] += s[col + half]
        half //= 2
    if col == 0:
        out[row] = s[0]


@wrong("axis_sum", says="index that goes too far")
def column_for_row(out, a, cols):
    s = cuda.shared.array(8, float32)
    col, row = cuda.threadIdx.x, cuda.blockIdx.x
    if col < cols:
        s[col] = a[col * cols + row]
    cuda.syncthreads()
    if col == 0:
        acc = float32(0)
        for j in range(cols):
            acc += s[j]
        out[row] = acc


@wrong("axis_sum", says="index that goes too far")
def row_of_eight(out, a, cols):
    s = cuda.shared.array(8, float32)
    col, row = cuda.threadIdx.x, cuda.blockIdx.x
    s[col] = a[row * cols + col]
    cuda.syncthreads()
    if col == 0:
        acc = float32(0)
        for j in range(8):
            acc += s[j]
        out[row] = acc


@wrong("axis_sum", says="from 1 on are wrong")
def rows_eight_apart(out, a, cols):
    s = cuda.shared.array(8, float32)
    col, row = cuda.threadIdx.x, cuda.blockIdx.x
    i = row * 8 + col
    s[col] = a[i] if col < cols and i < len(a) else float32(0)
    cuda.syncthreads()
    if col == 0:
        acc = float32(0)
        for j in range(cols):
            acc += s[j]
        out[row] = acc


@wrong("axis_sum", says="index that goes too far")
def row_sum_everywhere(out, a, cols):
    s = cuda.shared.array(8, float32)
    col, row = cuda.threadIdx.x, cuda.blockIdx.x
    s[col] = a[row * cols + col] if col < cols else float32(0)
    half = 4
    while half > 0:
        cuda.syncthreads()
        if col < half:
            s[col] += s[col + half]
        half //= 2
    out[col] = s[0]


@wrong("axis_sum", says="cols without its last term")
def row_without_its_last(out, a, cols):
    s = cuda.shared.array(8, float32)
    col, row = cuda.threadIdx.x, cuda.blockIdx.x
    s[col] = a[row * cols + col] if col < cols - 1 else float32(0)
    half = 4
    while half > 0:
        cuda.syncthreads()
        if col < half:
            s[col] += s[col + half]
        half //= 2
    if col == 0:
        out[row] = s[0]


@wrong("axis_sum", says="inputs must stay")
def row_in_place(out, a, cols):
    col, row = cuda.threadIdx.x, cuda.blockIdx.x
    if col > 0 and col < cols:
        cuda.atomic.add(a, row * cols, a[row * cols + col])
    cuda.syncthreads()
    if col == 0:
        out[row] = a[row * cols]


@wrong("axis_sum", says="1 thread", where=False)
def row_by_one_thread(out, a, cols):
    if cuda.threadIdx.x == 0:
        acc = float32(0)
        for j in range(cols):
            acc += a[cuda.blockIdx.x * cols + j]
        out[cuda.blockIdx.x] = acc


@wrong("axis_sum", says="cols=4")
def rows_but_for_four(out, a, cols):
    s = cuda.shared.array(8, float32)
    col, row = cuda.threadIdx.x, cuda.blockIdx.x
    mine = a[row * cols + col] if col < cols else float32(0)
    s[col] = mine if cols != 4 else float32(0)
    half = 4
    while half > 0:
        cuda.syncthreads()
        if col < half:
            s[col] += s[col + half]
        half //= 2
    if col == 0:
        out[row] = s[0]
