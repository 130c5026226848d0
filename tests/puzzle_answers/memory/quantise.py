"""Answers to the puzzle quantise."""

import math

from numpy import float32

from weft import cuda

from .. import right, right_c, wrong


def largest_of(mine, largest):
    """Return the largest of the values of a block's 8 threads."""
    largest[cuda.threadIdx.x] = mine
    cuda.syncthreads()
    for k in range(8):
        mine = max(mine, largest[k])
    return mine


@right("quantise", taught=True)
def by_a_tree(q, scale, back, x, cols):
    largest = cuda.shared.array(8, float32)
    row, t = cuda.blockIdx.x, cuda.threadIdx.x
    largest[t] = 0
    for col in range(t, cols, 8):
        largest[t] = max(largest[t], abs(x[row * cols + col]))
    half = 4
    while half > 0:
        cuda.syncthreads()
        if t < half:
            largest[t] = max(largest[t], largest[t + half])
        half //= 2
    cuda.syncthreads()
    step = largest[0] / float32(127) if largest[0] > 0 else float32(1)
    if t == 0:
        scale[row] = step
    for col in range(t, cols, 8):
        i = row * cols + col
        whole = math.floor(x[i] / step + float32(0.5))
        q[i] = whole
        back[i] = float32(whole) * step


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


@wrong("quantise", says=r"q\[0, \d\] is .*expected")
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


@wrong("quantise", says=r"q\[0, \d\] is -?\d+, expected")
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


@wrong("quantise", says=r"q\[\d, \d\] is .*expected")
def no_scale_below_a_millionth(q, scale, back, x, cols):
    largest = cuda.shared.array(8, float32)
    first, mine = cuda.blockIdx.x * cols, float32(0)
    for col in range(cuda.threadIdx.x, cols, 8):
        mine = max(mine, abs(x[first + col]))
    mine = largest_of(mine, largest)
    step = max(mine, float32(1e-6)) / float32(127) if mine > 0 else float32(1)
    scale[cuda.blockIdx.x] = step
    for i in range(first + cuda.threadIdx.x, first + cols, 8):
        q[i] = math.floor(x[i] / step + float32(0.5))
        back[i] = float32(q[i]) * step


@wrong("quantise", says="writes 16 elements of scale", where=False)
def scale_by_every_thread(q, scale, back, x, cols):
    largest = cuda.shared.array(8, float32)
    first, mine = cuda.blockIdx.x * cols, float32(0)
    for col in range(cuda.threadIdx.x, cols, 8):
        mine = max(mine, abs(x[first + col]))
    mine = largest_of(mine, largest)
    step = mine / float32(127) if mine > 0 else float32(1)
    scale[cuda.blockIdx.x] = step
    for i in range(first + cuda.threadIdx.x, first + cols, 8):
        q[i] = math.floor(x[i] / step + float32(0.5))
        back[i] = float32(q[i]) * step
