"""Answers to the puzzles of lesson 07a: coalescing, transpose, fusion, quantise."""

import math

from numpy import float32

from weft import cuda

from . import right, right_c, wrong, wrong_c

# ---- coalescing ----------------------------------------------------------------------


@right("coalescing")
def in_turns(out, a, n, each):
    start = cuda.blockIdx.x * cuda.blockDim.x * each + cuda.threadIdx.x
    for turn in range(each):
        i = start + turn * cuda.blockDim.x
        if i < n:
            out[i] = 2 * a[i]


right_c(
    "coalescing",
    """__global__ void grid_stride(float *out, const float *a, int n, int each) {
    int threads = gridDim.x * blockDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += threads)
        out[i] = a[i] + a[i];
}""",
)


@wrong("coalescing", says="16 sectors of a.*allows 4", where=False)
def still_stretches(out, a, n, each):
    for k in range(each):
        i = cuda.grid(1) * each + k
        if i < n:
            out[i] = a[i] * 2


@wrong("coalescing", says="guard")
def turns_without_guard(out, a, n, each):
    for turn in range(each):
        i = cuda.grid(1) + turn * cuda.gridsize(1)
        out[i] = 2 * a[i]


@wrong("coalescing", says="written|threadIdx")
def one_block_only(out, a, n, each):
    for turn in range(each):
        i = cuda.threadIdx.x + turn * cuda.blockDim.x
        if i < n:
            out[i] = 2 * a[i]


@wrong("coalescing", says="reads 512.*allows 256", where=False)
def every_block_does_all(out, a, n, each):
    for i in range(cuda.threadIdx.x, n, cuda.blockDim.x):
        out[i] = 2 * a[i]


@wrong("coalescing", says="written")
def drawn_size_only(out, a, n, each):
    for turn in range(4):
        i = cuda.threadIdx.x + 32 * turn
        if i < min(n, 128):
            out[i] = 2 * a[i]


@wrong("coalescing", says="elements from 128 on are never written")
def four_for_each(out, a, n, each):
    first = cuda.blockIdx.x * cuda.blockDim.x * 4 + cuda.threadIdx.x
    for turn in range(4):
        i = first + turn * cuda.blockDim.x
        if i < n:
            out[i] = 2 * a[i]


wrong_c(
    "coalescing",
    """__global__ void stretches(float *out, const float *a, int n, int each) {
    int first = (blockIdx.x * blockDim.x + threadIdx.x) * each;
    for (int i = first; i < min(first + each, n); i++) out[i] = 2 * a[i];
}""",
    says="16 sectors of a",
    where=False,
)

# ---- transpose -----------------------------------------------------------------------


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


# ---- fusion --------------------------------------------------------------------------


@right("fusion")
def tree(y, sums, x, a, b, n):
    part = cuda.shared.array(8, float32)
    t = cuda.threadIdx.x
    i = cuda.blockIdx.x * cuda.blockDim.x + t
    part[t] = 0
    if i < n:
        v = max(a * x[i] + b, float32(0))
        y[i] = v
        part[t] = v
    half = 4
    while half > 0:
        cuda.syncthreads()
        if t < half:
            part[t] += part[t + half]
        half //= 2
    if t == 0 and i < n:
        sums[cuda.blockIdx.x] = part[0]


right_c(
    "fusion",
    """__global__ void by_shuffles(float *y, float *sums, const float *x, float a,
                            float b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = i < n ? fmaxf(a * x[i] + b, 0.0f) : 0.0f;
    if (i < n) y[i] = v;
    for (int half = 4; half > 0; half /= 2) v += __shfl_down_sync(0xFF, v, half);
    if (threadIdx.x == 0 && i < n) sums[blockIdx.x] = v;
}""",
)


@wrong("fusion", says="reads 14 elements of y.*none", where=False)
def reads_y_back(y, sums, x, a, b, n):
    i = cuda.grid(1)
    if i < n:
        y[i] = max(a * x[i] + b, float32(0))
    cuda.syncthreads()
    if cuda.threadIdx.x == 0 and i < n:
        total = float32(0)
        for k in range(i, min(i + 8, n)):
            total += y[k]
        sums[cuda.blockIdx.x] = total


@wrong("fusion", says="reads 28 elements of x.*14", where=False)
def computes_twice(y, sums, x, a, b, n):
    i = cuda.grid(1)
    if i < n:
        y[i] = max(a * x[i] + b, float32(0))
    if cuda.threadIdx.x == 0 and i < n:
        total = float32(0)
        for k in range(i, min(i + 8, n)):
            total += max(a * x[k] + b, float32(0))
        sums[cuda.blockIdx.x] = total


@wrong("fusion", says="kept.*no barrier")
def sum_without_barrier(y, sums, x, a, b, n):
    kept = cuda.shared.array(8, float32)
    i = cuda.grid(1)
    kept[cuda.threadIdx.x] = 0
    if i < n:
        kept[cuda.threadIdx.x] = max(a * x[i] + b, float32(0))
        y[i] = kept[cuda.threadIdx.x]
    if cuda.threadIdx.x == 0 and i < n:
        total = float32(0)
        for k in range(8):
            total += kept[k]
        sums[cuda.blockIdx.x] = total


@wrong("fusion", says=r"kept\[6\].*no thread of its block has written")
def tail_not_zeroed(y, sums, x, a, b, n):
    kept = cuda.shared.array(8, float32)
    i = cuda.grid(1)
    if i < n:
        kept[cuda.threadIdx.x] = max(a * x[i] + b, float32(0))
        y[i] = kept[cuda.threadIdx.x]
    cuda.syncthreads()
    if cuda.threadIdx.x == 0 and i < n:
        total = float32(0)
        for k in range(8):
            total += kept[k]
        sums[cuda.blockIdx.x] = total


@wrong("fusion", says="the last element is wrong")
def tail_is_b(y, sums, x, a, b, n):
    kept = cuda.shared.array(8, float32)
    i = cuda.grid(1)
    v = float32(0)
    if i < n:
        v = x[i]
    v = max(a * v + b, float32(0))
    kept[cuda.threadIdx.x] = v
    if i < n:
        y[i] = v
    cuda.syncthreads()
    if cuda.threadIdx.x == 0 and i < n:
        total = float32(0)
        for k in range(8):
            total += kept[k]
        sums[cuda.blockIdx.x] = total


@wrong("fusion", says="1 thread in each request to x", where=False)
def one_for_eight(y, sums, x, a, b, n):
    i = cuda.grid(1)
    if i < n and i % 8 == 0:
        total = float32(0)
        for k in range(i, min(i + 8, n)):
            v = max(a * x[k] + b, float32(0))
            y[k] = v
            total += v
        sums[i // 8] = total


@wrong("fusion", says="guard")
def blocks_past_the_end(y, sums, x, a, b, n):
    kept = cuda.shared.array(8, float32)
    i = cuda.grid(1)
    v = float32(0)
    if i < n:
        v = max(a * x[i] + b, float32(0))
        y[i] = v
    kept[cuda.threadIdx.x] = v
    cuda.syncthreads()
    if cuda.threadIdx.x == 0:
        total = float32(0)
        for k in range(8):
            total += kept[k]
        sums[cuda.blockIdx.x] = total


# ---- quantise ------------------------------------------------------------------------


@right("quantise")
def by_atomics(q, scale, back, x, cols):
    largest = cuda.shared.array(1, float32)
    row, t = cuda.blockIdx.x, cuda.threadIdx.x
    if t == 0:
        largest[0] = 0
    cuda.syncthreads()
    for col in range(t, cols, cuda.blockDim.x):
        cuda.atomic.max(largest, 0, abs(x[row * cols + col]))
    cuda.syncthreads()
    inverse, step = float32(0), float32(1)
    if largest[0] > 0:
        inverse, step = float32(127) / largest[0], largest[0] / float32(127)
    for col in range(t, cols, cuda.blockDim.x):
        i = row * cols + col
        q[i] = math.floor(x[i] * inverse + float32(0.5))
        back[i] = float32(q[i]) * step
    if t == 0:
        scale[row] = step


right_c(
    "quantise",
    """__global__ void by_shuffles(signed char *q, float *scale, float *back,
                            const float *x, int cols) {
    const float *row = x + blockIdx.x * cols;
    float most = 0;
    for (int c = threadIdx.x; c < cols; c += 8) most = fmaxf(most, fabsf(row[c]));
    for (int bits = 4; bits > 0; bits /= 2)
        most = fmaxf(most, __shfl_xor_sync(0xFF, most, bits));
    float step = most > 0 ? most / 127.0f : 1.0f;
    for (int c = threadIdx.x; c < cols; c += 8) {
        float whole = floorf(row[c] / step + 0.5f);
        q[blockIdx.x * cols + c] = (signed char)whole;
        back[blockIdx.x * cols + c] = whole * step;
    }
    if (threadIdx.x == 0) scale[blockIdx.x] = step;
}""",
)


def largest_of(mine, largest):
    """The largest of what the 8 threads of a block bring."""
    largest[cuda.threadIdx.x] = mine
    cuda.syncthreads()
    for k in range(8):
        mine = max(mine, largest[k])
    return mine


@wrong("quantise", says="another rounding")
def halves_away_from_zero(q, scale, back, x, cols):
    largest = cuda.shared.array(8, float32)
    first, mine = cuda.blockIdx.x * cols, float32(0)
    for col in range(cuda.threadIdx.x, cols, 8):
        mine = max(mine, abs(x[first + col]))
    step = largest_of(mine, largest) / float32(127)
    if step == 0:
        step = float32(1)
    scale[cuda.blockIdx.x] = step
    for i in range(first + cuda.threadIdx.x, first + cols, 8):
        v = x[i] / step
        whole = math.floor(v + float32(0.5))
        if v < 0:
            whole = math.ceil(v - float32(0.5))
        q[i] = whole
        back[i] = float32(whole) * step


@wrong("quantise", says="another rounding")
def cut_off(q, scale, back, x, cols):
    largest = cuda.shared.array(8, float32)
    first, mine = cuda.blockIdx.x * cols, float32(0)
    for col in range(cuda.threadIdx.x, cols, 8):
        mine = max(mine, abs(x[first + col]))
    step = largest_of(mine, largest) / float32(127)
    if step == 0:
        step = float32(1)
    scale[cuda.blockIdx.x] = step
    for i in range(first + cuda.threadIdx.x, first + cols, 8):
        q[i] = int(x[i] / step)
        back[i] = float32(q[i]) * step


@wrong("quantise", says=r"q\[1, 0\] is 0, want -127")
def without_magnitude(q, scale, back, x, cols):
    largest = cuda.shared.array(8, float32)
    first, mine = cuda.blockIdx.x * cols, float32(0)
    for col in range(cuda.threadIdx.x, cols, 8):
        mine = max(mine, x[first + col])
    step = largest_of(mine, largest) / float32(127)
    if step == 0:
        step = float32(1)
    scale[cuda.blockIdx.x] = step
    for i in range(first + cuda.threadIdx.x, first + cols, 8):
        q[i] = math.floor(x[i] / step + float32(0.5))
        back[i] = float32(q[i]) * step


@wrong("quantise", says=r"q\[0, 1\] is 63, want 62")
def by_128(q, scale, back, x, cols):
    largest = cuda.shared.array(8, float32)
    first, mine = cuda.blockIdx.x * cols, float32(0)
    for col in range(cuda.threadIdx.x, cols, 8):
        mine = max(mine, abs(x[first + col]))
    step = largest_of(mine, largest) / float32(128)
    if step == 0:
        step = float32(1)
    scale[cuda.blockIdx.x] = step
    for i in range(first + cuda.threadIdx.x, first + cols, 8):
        q[i] = math.floor(x[i] / step + float32(0.5))
        back[i] = float32(q[i]) * step


@wrong("quantise", says="NaN")
def zeros_divided(q, scale, back, x, cols):
    largest = cuda.shared.array(8, float32)
    first, mine = cuda.blockIdx.x * cols, float32(0)
    for col in range(cuda.threadIdx.x, cols, 8):
        mine = max(mine, abs(x[first + col]))
    step = largest_of(mine, largest) / float32(127)
    if cuda.threadIdx.x == 0:
        scale[cuda.blockIdx.x] = step
    for i in range(first + cuda.threadIdx.x, first + cols, 8):
        v = x[i] / step
        back[i] = math.floor(v + float32(0.5)) * step
        q[i] = 0
        if v == v:
            q[i] = math.floor(v + float32(0.5))


@wrong("quantise", says="largest.*no barrier")
def largest_without_barrier(q, scale, back, x, cols):
    largest = cuda.shared.array(8, float32)
    first, mine = cuda.blockIdx.x * cols, float32(0)
    for col in range(cuda.threadIdx.x, cols, 8):
        mine = max(mine, abs(x[first + col]))
    largest[cuda.threadIdx.x] = mine
    for k in range(8):
        mine = max(mine, largest[k])
    step = mine / float32(127) if mine > 0 else float32(1)
    if cuda.threadIdx.x == 0:
        scale[cuda.blockIdx.x] = step
    for i in range(first + cuda.threadIdx.x, first + cols, 8):
        q[i] = math.floor(x[i] / step + float32(0.5))
        back[i] = float32(q[i]) * step


@wrong("quantise", says=r"No thread wrote q\[0, 8\]")
def short_rows_only(q, scale, back, x, cols):
    largest = cuda.shared.array(8, float32)
    i, mine = cuda.blockIdx.x * cols + cuda.threadIdx.x, float32(0)
    if cuda.threadIdx.x < cols:
        mine = abs(x[i])
    mine = largest_of(mine, largest)
    step = mine / float32(127) if mine > 0 else float32(1)
    if cuda.threadIdx.x < cols:
        q[i] = math.floor(x[i] / step + float32(0.5))
        back[i] = float32(q[i]) * step
    scale[cuda.blockIdx.x] = step


@wrong("quantise", says="1 thread in each request to x", where=False)
def one_for_a_row(q, scale, back, x, cols):
    first, most = cuda.blockIdx.x * cols, float32(0)
    if cuda.threadIdx.x == 0:
        for i in range(first, first + cols):
            most = max(most, abs(x[i]))
        step = most / float32(127) if most > 0 else float32(1)
        scale[cuda.blockIdx.x] = step
        for i in range(first, first + cols):
            q[i] = math.floor(x[i] / step + float32(0.5))
            back[i] = float32(q[i]) * step


@wrong("quantise", says=r"back\[0, 0\]")
def back_from_x(q, scale, back, x, cols):
    largest = cuda.shared.array(8, float32)
    first, mine = cuda.blockIdx.x * cols, float32(0)
    for col in range(cuda.threadIdx.x, cols, 8):
        mine = max(mine, abs(x[first + col]))
    mine = largest_of(mine, largest)
    step = mine / float32(127) if mine > 0 else float32(1)
    scale[cuda.blockIdx.x] = step
    for i in range(first + cuda.threadIdx.x, first + cols, 8):
        whole = x[i] / step
        q[i] = math.floor(whole + float32(0.5))
        back[i] = whole * step
