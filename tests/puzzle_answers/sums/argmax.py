"""Answers to the puzzle argmax."""

import numpy as np
from numpy import float32, int32

from weft import cuda

from .. import right, right_c, wrong, wrong_c


@right("argmax")
def argmax_in_order(out, a, cols):
    s = cuda.shared.array(32, float32)
    col, row = cuda.threadIdx.x, cuda.blockIdx.x
    if col < cols:
        s[col] = a[row * cols + col]
    cuda.syncthreads()
    if col == 0:
        best = 0
        for j in range(1, cols):
            if s[j] > s[best]:
                best = j
        out[row] = best


@right("argmax", taught=True)
def argmax_by_a_tree_in_shared_memory(out, a, cols):
    s = cuda.shared.array(32, float32)
    at = cuda.shared.array(32, int32)
    col, row = cuda.threadIdx.x, cuda.blockIdx.x
    s[col] = a[row * cols + col] if col < cols else float32(-np.inf)
    at[col] = col
    half = 16
    while half > 0:
        cuda.syncthreads()
        if col < half:
            other = s[col + half]
            first = at[col + half] < at[col]
            if other > s[col] or (other == s[col] and first):
                s[col] = other
                at[col] = at[col + half]
        half //= 2
    if col == 0:
        out[row] = at[0]


@right("argmax")
def argmax_of_neighbours(out, a, cols):
    s = cuda.shared.array(32, float32)
    at = cuda.shared.array(32, int32)
    col, row = cuda.threadIdx.x, cuda.blockIdx.x
    at[col] = col
    s[col] = a[row * cols + col] if col < cols else float32(-3.0e38)
    step = 1
    while step < 32:
        cuda.syncthreads()
        if col % (2 * step) == 0 and s[at[col + step]] > s[at[col]]:
            at[col] = at[col + step]
        step *= 2
    if col == 0:
        out[row] = at[0]


right_c(
    "argmax",
    """__global__ void argmax_rows(int *out, const float *a, int cols) {
    const int row = blockIdx.x;
    int at = threadIdx.x;
    float most = at < cols ? a[row * cols + at] : -INFINITY;
    for (int apart = 16; apart > 0; apart /= 2) {
        const float other = __shfl_xor_sync(0xffffffffu, most, apart);
        const int there = __shfl_xor_sync(0xffffffffu, at, apart);
        if (other > most || (other == most && there < at)) {
            most = other;
            at = there;
        }
    }
    if (threadIdx.x == 0) out[row] = at;
}""",
)


@wrong("argmax", says="choice among equals: .*the first of them is expected")
def argmax_the_last_of_equals(out, a, cols):
    s = cuda.shared.array(32, float32)
    col, row = cuda.threadIdx.x, cuda.blockIdx.x
    if col < cols:
        s[col] = a[row * cols + col]
    cuda.syncthreads()
    if col == 0:
        best = 0
        for j in range(1, cols):
            if s[j] >= s[best]:
                best = j
        out[row] = best


@wrong("argmax", says="choice among equals")
def argmax_any_of_equals(out, a, cols):
    s = cuda.shared.array(32, float32)
    at = cuda.shared.array(32, int32)
    col, row = cuda.threadIdx.x, cuda.blockIdx.x
    s[col] = a[row * cols + col] if col < cols else float32(-np.inf)
    at[col] = col
    half = 16
    while half > 0:
        cuda.syncthreads()
        if col < half and s[col + half] > s[col]:
            s[col] = s[col + half]
            at[col] = at[col + half]
        half //= 2
    if col == 0:
        out[row] = at[0]


@wrong("argmax", says="past the end of the row")
def argmax_zeros_behind(out, a, cols):
    s = cuda.shared.array(32, float32)
    at = cuda.shared.array(32, int32)
    col, row = cuda.threadIdx.x, cuda.blockIdx.x
    s[col] = a[row * cols + col] if col < cols else float32(0)
    at[col] = col
    half = 16
    while half > 0:
        cuda.syncthreads()
        if col < half:
            same = s[col + half] == s[col] and at[col + half] < at[col]
            if s[col + half] > s[col] or same:
                s[col] = s[col + half]
                at[col] = at[col + half]
        half //= 2
    if col == 0:
        out[row] = at[0]


@wrong("argmax", says="comparison that begins with 0")
def argmax_more_than_zero(out, a, cols):
    s = cuda.shared.array(32, float32)
    col, row = cuda.threadIdx.x, cuda.blockIdx.x
    if col < cols:
        s[col] = a[row * cols + col]
    cuda.syncthreads()
    if col == 0:
        most, best = float32(0), 0
        for j in range(cols):
            if s[j] > most:
                most, best = s[j], j
        out[row] = best


@wrong("argmax", says="a position in the flat array")
def argmax_place_in_a(out, a, cols):
    s = cuda.shared.array(32, float32)
    col, row = cuda.threadIdx.x, cuda.blockIdx.x
    if col < cols:
        s[col] = a[row * cols + col]
    cuda.syncthreads()
    if col == 0:
        best = 0
        for j in range(1, cols):
            if s[j] > s[best]:
                best = j
        out[row] = row * cols + best


@wrong("argmax", says="the number itself")
def the_number_itself(out, a, cols):
    s = cuda.shared.array(32, float32)
    col, row = cuda.threadIdx.x, cuda.blockIdx.x
    if col < cols:
        s[col] = a[row * cols + col]
    cuda.syncthreads()
    if col == 0:
        most = s[0]
        for j in range(1, cols):
            most = max(most, s[j])
        out[row] = int32(most)


@wrong("argmax", says="no barrier between")
def argmax_no_barrier(out, a, cols):
    s = cuda.shared.array(32, float32)
    at = cuda.shared.array(32, int32)
    col, row = cuda.threadIdx.x, cuda.blockIdx.x
    s[col] = a[row * cols + col] if col < cols else float32(-np.inf)
    at[col] = col
    cuda.syncthreads()
    half = 16
    while half > 0:
        if col < half:
            same = s[col + half] == s[col] and at[col + half] < at[col]
            if s[col + half] > s[col] or same:
                s[col] = s[col + half]
                at[col] = at[col + half]
        half //= 2
    if col == 0:
        out[row] = at[0]


@wrong("argmax", says="past the end of the row")
def argmax_behind_a_thousand_below(out, a, cols):
    s = cuda.shared.array(32, float32)
    col, row = cuda.threadIdx.x, cuda.blockIdx.x
    s[col] = a[row * cols + col] if col < cols else float32(-1000)
    cuda.syncthreads()
    if col == 0:
        place = 0
        for j in range(1, 32):
            if s[j] > s[place]:
                place = j
        out[row] = place


@wrong("argmax", says=r"out\[3\] is 0, expected 3")
def argmax_of_whole_numbers(out, a, cols):
    s = cuda.shared.array(32, int32)
    col, row = cuda.threadIdx.x, cuda.blockIdx.x
    if col < cols:
        s[col] = a[row * cols + col]
    cuda.syncthreads()
    if col == 0:
        place = 0
        for j in range(1, cols):
            if s[j] > s[place]:
                place = j
        out[row] = place


wrong_c(
    "argmax",
    """__global__ void from_99_below(int *out, const float *a, int cols) {
    __shared__ float s[32];
    if (threadIdx.x < cols) s[threadIdx.x] = a[blockIdx.x * cols + threadIdx.x];
    __syncthreads();
    if (threadIdx.x) return;
    float most = -99;
    int place = 0;
    for (int j = 0; j < cols; j++)
        if (s[j] > most) most = s[j], place = j;
    out[blockIdx.x] = place;
}""",
    says=r"out\[3\] is 0, expected 3",
)


@wrong("argmax", says="1 thread", where=False)
def argmax_by_one_thread(out, a, cols):
    if cuda.threadIdx.x == 0:
        first = cuda.blockIdx.x * cols
        best, most = 0, a[first]
        for j in range(1, cols):
            number = a[first + j]
            if number > most:
                best, most = j, number
        out[cuda.blockIdx.x] = best
