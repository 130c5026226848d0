"""Answers to the puzzle softmax."""

import math

import numpy as np
from numpy import float32

from weft import cuda

from .. import right, right_c, wrong


@right("softmax", taught=True)
def softmax_by_trees(out, a, cols):
    s = cuda.shared.array(8, float32)
    col, row = cuda.threadIdx.x, cuda.blockIdx.x
    mine = a[row * cols + col] if col < cols else float32(-np.inf)
    s[col] = mine
    for level in range(3):
        half = 4 >> level
        cuda.syncthreads()
        if col < half:
            s[col] = max(s[col], s[col + half])
    cuda.syncthreads()
    most = s[0]
    cuda.syncthreads()
    e = math.exp(mine - most)
    s[col] = e
    for level in range(3):
        half = 4 >> level
        cuda.syncthreads()
        if col < half:
            s[col] += s[col + half]
    cuda.syncthreads()
    if col < cols:
        out[row * cols + col] = e / s[0]


@right("softmax", taught=True)
def softmax_by_everyone(out, a, cols):
    s = cuda.shared.array(8, float32)
    col, row = cuda.threadIdx.x, cuda.blockIdx.x
    if col < cols:
        s[col] = a[row * cols + col]
    cuda.syncthreads()
    most = s[0]
    for j in range(cols):
        most = max(most, s[j])
    total = float32(0)
    for j in range(cols):
        total += math.exp(s[j] - most)
    if col < cols:
        out[row * cols + col] = math.exp(s[col] - most) / total


@right("softmax", taught=True)
def softmax_by_those_with_a_column(out, a, cols):
    s = cuda.shared.array(8, float32)
    col, row = cuda.threadIdx.x, cuda.blockIdx.x
    if col < cols:
        s[col] = a[row * cols + col]
    cuda.syncthreads()
    if col < cols:
        most = s[0]
        for j in range(1, cols):
            most = max(most, s[j])
        total = float32(0)
        for j in range(cols):
            total += math.exp(s[j] - most)
        out[row * cols + col] = math.exp(s[col] - most) / total


@right("softmax")  # fewer reads of s than ours, but more calls of exp()
def softmax_in_one_walk(out, a, cols):
    s = cuda.shared.array(8, float32)
    col, row = cuda.threadIdx.x, cuda.blockIdx.x
    mine = a[row * cols + col] if col < cols else float32(0)
    s[col] = mine
    cuda.syncthreads()
    most, total = mine, float32(0)
    for j in range(cols):
        number = s[j]
        larger = max(most, number)
        total = total * math.exp(most - larger) + math.exp(number - larger)
        most = larger
    if col < cols:
        out[row * cols + col] = math.exp(mine - most) / total


@right("softmax")
def softmax_by_thread_0(out, a, cols):
    s = cuda.shared.array(8, float32)
    most = cuda.shared.array(1, float32)
    total = cuda.shared.array(1, float32)
    col, row = cuda.threadIdx.x, cuda.blockIdx.x
    if col < cols:
        s[col] = a[row * cols + col]
    cuda.syncthreads()
    if col == 0:
        most[0] = s[0]
        for j in range(1, cols):
            most[0] = max(most[0], s[j])
    cuda.syncthreads()
    if col < cols:
        s[col] = math.exp(s[col] - most[0])
    cuda.syncthreads()
    if col == 0:
        total[0] = 0
        for j in range(cols):
            total[0] += s[j]
    cuda.syncthreads()
    if col < cols:
        out[row * cols + col] = s[col] / total[0]


right_c(
    "softmax",
    """__global__ void softmax_rows(float *out, const float *a, int cols) {
    const int col = threadIdx.x, at = blockIdx.x * cols + col;
    const float mine = col < cols ? a[at] : -INFINITY;
    float most = mine;
    for (int apart = 4; apart > 0; apart /= 2)
        most = fmaxf(most, __shfl_xor_sync(0xff, most, apart));
    const float e = expf(mine - most);
    float total = e;
    for (int apart = 4; apart > 0; apart /= 2)
        total += __shfl_xor_sync(0xff, total, apart);
    if (col < cols) out[at] = e / total;
}""",
)


@wrong("softmax", says="inf / inf")
def softmax_no_largest(out, a, cols):
    s = cuda.shared.array(8, float32)
    col, row = cuda.threadIdx.x, cuda.blockIdx.x
    if col < cols:
        s[col] = math.exp(a[row * cols + col])
    cuda.syncthreads()
    total = float32(0)
    for j in range(cols):
        total += s[j]
    if col < cols:
        out[row * cols + col] = s[col] / total


@wrong("softmax", says="no barrier between")
def softmax_no_barrier(out, a, cols):
    s = cuda.shared.array(8, float32)
    col, row = cuda.threadIdx.x, cuda.blockIdx.x
    if col < cols:
        s[col] = a[row * cols + col]
    most = s[0]
    for j in range(1, cols):
        most = max(most, s[j])
    total = float32(0)
    for j in range(cols):
        total += math.exp(s[j] - most)
    if col < cols:
        out[row * cols + col] = math.exp(s[col] - most) / total


@wrong("softmax", says="no barrier between")
def softmax_overwritten_too_early(out, a, cols):
    s = cuda.shared.array(8, float32)
    col, row = cuda.threadIdx.x, cuda.blockIdx.x
    if col < cols:
        s[col] = a[row * cols + col]
    cuda.syncthreads()
    most = s[0]
    for j in range(1, cols):
        most = max(most, s[j])
    if col < cols:
        s[col] = math.exp(s[col] - most)
    cuda.syncthreads()
    total = float32(0)
    for j in range(cols):
        total += s[j]
    if col < cols:
        out[row * cols + col] = s[col] / total


@wrong("softmax", says="no barrier between")
def softmax_sum_too_early(out, a, cols):
    s = cuda.shared.array(8, float32)
    col, row = cuda.threadIdx.x, cuda.blockIdx.x
    if col < cols:
        s[col] = a[row * cols + col]
    cuda.syncthreads()
    most = s[0]
    for j in range(1, cols):
        most = max(most, s[j])
    cuda.syncthreads()
    if col < cols:
        s[col] = math.exp(s[col] - most)
    total = float32(0)
    for j in range(cols):
        total += s[j]
    if col < cols:
        out[row * cols + col] = s[col] / total


@wrong("softmax", says="0 / 0")
def softmax_largest_from_zero(out, a, cols):
    s = cuda.shared.array(8, float32)
    col, row = cuda.threadIdx.x, cuda.blockIdx.x
    if col < cols:
        s[col] = a[row * cols + col]
    cuda.syncthreads()
    most = float32(0)
    for j in range(cols):
        most = max(most, s[j])
    total = float32(0)
    for j in range(cols):
        total += math.exp(s[j] - most)
    if col < cols:
        out[row * cols + col] = math.exp(s[col] - most) / total


@wrong("softmax", says=r"out\[0, 0\] is .*expected")
def softmax_not_divided(out, a, cols):
    s = cuda.shared.array(8, float32)
    col, row = cuda.threadIdx.x, cuda.blockIdx.x
    if col < cols:
        s[col] = a[row * cols + col]
    cuda.syncthreads()
    most = s[0]
    for j in range(1, cols):
        most = max(most, s[j])
    if col < cols:
        out[row * cols + col] = math.exp(s[col] - most)


@wrong("softmax", says="index that goes too far")
def softmax_no_guard(out, a, cols):
    s = cuda.shared.array(8, float32)
    col, row = cuda.threadIdx.x, cuda.blockIdx.x
    s[col] = a[row * cols + col]
    cuda.syncthreads()
    most = s[0]
    for j in range(1, cols):
        most = max(most, s[j])
    total = float32(0)
    for j in range(cols):
        total += math.exp(s[j] - most)
    out[row * cols + col] = math.exp(s[col] - most) / total


@wrong("softmax", says="number overflow its type")
def softmax_less_the_first(out, a, cols):
    s = cuda.shared.array(8, float32)
    col, row = cuda.threadIdx.x, cuda.blockIdx.x
    if col < cols:
        s[col] = a[row * cols + col]
    cuda.syncthreads()
    total = float32(0)
    for j in range(cols):
        total += math.exp(s[j] - s[0])
    if col < cols:
        out[row * cols + col] = math.exp(s[col] - s[0]) / total


@wrong("softmax", says="number overflow its type")
def softmax_less_the_largest_of_seven(out, a, cols):
    s = cuda.shared.array(8, float32)
    col, row = cuda.threadIdx.x, cuda.blockIdx.x
    if col < cols:
        s[col] = a[row * cols + col]
    cuda.syncthreads()
    most, total = s[0], float32(0)
    for j in range(1, min(cols, 7)):
        most = max(most, s[j])
    for j in range(cols):
        total += math.exp(s[j] - most)
    if col < cols:
        out[row * cols + col] = math.exp(s[col] - most) / total


@wrong("softmax", says="reads 544 elements of a .*allows 32", where=False)
def softmax_from_global(out, a, cols):
    col, row = cuda.threadIdx.x, cuda.blockIdx.x
    if col < cols:
        most = a[row * cols]
        for j in range(1, cols):
            most = max(most, a[row * cols + j])
        total = float32(0)
        for j in range(cols):
            total += math.exp(a[row * cols + j] - most)
        out[row * cols + col] = math.exp(a[row * cols + col] - most) / total


@wrong("softmax", says="cols=4")
def softmax_but_for_four(out, a, cols):
    s = cuda.shared.array(8, float32)
    col, row = cuda.threadIdx.x, cuda.blockIdx.x
    mine = a[row * cols + col] if col < cols else float32(0)
    s[col] = mine
    cuda.syncthreads()
    if col < cols:
        most = mine
        for j in range(cols):
            most = max(most, s[j])
        total = float32(0)
        for j in range(cols if cols != 4 else 3):
            total += math.exp(s[j] - most)
        out[row * cols + col] = math.exp(mine - most) / total
