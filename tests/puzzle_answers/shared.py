"""Answers to the puzzles of lesson 02: right ones in other styles, and wrong ones."""

import math

import numpy as np
from numpy import float32, int32

from weft import cuda

from . import right, right_c, wrong, wrong_c

# ---- shared ----------------------------------------------------------------------


@right("shared")
def by_a_neighbour(out, a, n):
    s = cuda.shared.array(4, float32)
    t = cuda.threadIdx.x
    first = cuda.blockIdx.x * 4
    if first + t < n:
        s[t] = a[first + t]
    cuda.syncthreads()
    if first + 3 - t < n:
        out[first + 3 - t] = s[3 - t] + 10


right_c(
    "shared",
    """__global__ void add_ten_shared(float *out, const float *a, int n) {
    __shared__ float s[4];
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    s[threadIdx.x] = i < n ? a[i] : 0.0f;
    __syncthreads();
    if (i < n) out[i] = s[threadIdx.x] + 10.0f;
}""",
)


@wrong("shared", says="missing guard")
def no_guard(out, a, n):
    s = cuda.shared.array(4, float32)
    t = cuda.threadIdx.x
    i = cuda.blockIdx.x * 4 + t
    s[t] = a[i]
    cuda.syncthreads()
    out[i] = s[t] + 10


@wrong("shared", says=r"s\[4\]")
def global_index_in_s(out, a, n):
    s = cuda.shared.array(4, float32)
    i = cuda.blockIdx.x * 4 + cuda.threadIdx.x
    if i < n:
        s[i] = a[i]
        out[i] = s[i] + 10


@wrong("shared", says="global index is due")
def local_index(out, a, n):
    s = cuda.shared.array(4, float32)
    t = cuda.threadIdx.x
    if t < n:
        s[t] = a[t]
        out[t] = s[t] + 10


@wrong("shared", says="global index is due")
def brings_the_first_four(out, a, n):
    s = cuda.shared.array(4, float32)
    t = cuda.threadIdx.x
    i = cuda.blockIdx.x * 4 + t
    if i < n:
        s[t] = a[t]
        out[i] = s[t] + 10


@wrong("shared", says="no barrier between")
def neighbour_without_a_barrier(out, a, n):
    s = cuda.shared.array(4, float32)
    t = cuda.threadIdx.x
    first = cuda.blockIdx.x * 4
    if first + t < n:
        s[t] = a[first + t]
    if first + 3 - t < n:
        out[first + 3 - t] = s[3 - t] + 10


@wrong("shared", says="barrier")
def barrier_under_the_guard(out, a, n):
    s = cuda.shared.array(4, float32)
    t = cuda.threadIdx.x
    i = cuda.blockIdx.x * 4 + t
    if i < n:
        s[t] = a[i]
        cuda.syncthreads()
        out[i] = s[t] + 10


@wrong("shared", says="an end that comes one too early")
def stops_one_early(out, a, n):
    s = cuda.shared.array(4, float32)
    t = cuda.threadIdx.x
    i = cuda.blockIdx.x * 4 + t
    if i < n - 1:
        s[t] = a[i]
        out[i] = s[t] + 10


@wrong("shared", says="elements from 8 on are never written")
def eight_numbers_only(out, a, n):
    s = cuda.shared.array(4, float32)
    t = cuda.threadIdx.x
    i = cuda.blockIdx.x * 4 + t
    if i < min(n, 8):
        s[t] = a[i]
        out[i] = s[t] + 10


@wrong("shared", says="no elements of shared memory .*at least 8", where=False)
def straight(out, a, n):
    i = cuda.blockIdx.x * 4 + cuda.threadIdx.x
    if i < n:
        out[i] = a[i] + 10


wrong_c(
    "shared",
    """__global__ void add_ten_shared(float *out, const float *a, int n) {
    __shared__ float s[4];
    const int t = threadIdx.x, i = blockIdx.x * 4 + t;
    s[t] = a[i];
    if (i < n) out[i] = s[t] + 10.0f;
}""",
    says="guard",
)


# ---- pooling ---------------------------------------------------------------------


@right("pooling")
def in_a_loop(out, a, n):
    s = cuda.shared.array(8, float32)
    i = cuda.threadIdx.x
    s[i] = a[i] if i < n else float32(0)
    cuda.syncthreads()
    if i < n:
        acc = float32(0)
        for j in range(max(i - 2, 0), i + 1):
            acc += s[j]
        out[i] = acc


@right("pooling")
def two_zeros_in_front(out, a, n):
    s = cuda.shared.array(10, float32)
    i = cuda.threadIdx.x
    if i == 0:
        s[0] = 0
        s[1] = 0
    if i < n:
        s[i + 2] = a[i]
    cuda.syncthreads()
    if i < n:
        out[i] = s[i] + s[i + 1] + s[i + 2]


right_c(
    "pooling",
    """__global__ void sum_last_three(float *out, const float *a, int n) {
    __shared__ float s[8];
    const int i = threadIdx.x;
    if (i < n) s[i] = a[i];
    __syncthreads();
    if (i >= n) return;
    float acc = s[i];
    for (int j = 1; j <= 2 && j <= i; j++) acc += s[i - j];
    out[i] = acc;
}""",
)


@wrong("pooling", says="no barrier between")
def pooling_no_barrier(out, a, n):
    s = cuda.shared.array(8, float32)
    i = cuda.threadIdx.x
    if i < n:
        s[i] = a[i]
        acc = s[i]
        if i > 0:
            acc += s[i - 1]
        if i > 1:
            acc += s[i - 2]
        out[i] = acc


@wrong("pooling", says="barrier")
def pooling_barrier_under_the_guard(out, a, n):
    s = cuda.shared.array(8, float32)
    i = cuda.threadIdx.x
    if i < n:
        s[i] = a[i]
        cuda.syncthreads()
        acc = s[i]
        if i > 0:
            acc += s[i - 1]
        if i > 1:
            acc += s[i - 2]
        out[i] = acc


@wrong("pooling", says=r"s\[-1\]")
def pooling_no_left_edge(out, a, n):
    s = cuda.shared.array(8, float32)
    i = cuda.threadIdx.x
    if i < n:
        s[i] = a[i]
    cuda.syncthreads()
    if i < n:
        out[i] = s[i] + s[i - 1] + s[i - 2]


@wrong("pooling", says="missing guard")
def pooling_no_guard(out, a, n):
    s = cuda.shared.array(8, float32)
    i = cuda.threadIdx.x
    s[i] = a[i]
    cuda.syncthreads()
    acc = s[i]
    if i > 0:
        acc += s[i - 1]
    if i > 1:
        acc += s[i - 2]
    out[i] = acc


@wrong("pooling", says="n=1")
def pooling_to_the_right(out, a, n):
    s = cuda.shared.array(8, float32)
    i = cuda.threadIdx.x
    s[i] = a[i] if i < n else float32(0)
    cuda.syncthreads()
    if i < n:
        acc = s[i]
        if i + 1 < 8:
            acc += s[i + 1]
        if i + 2 < 8:
            acc += s[i + 2]
        out[i] = acc


@wrong("pooling", says="from 3 on")
def pooling_all_before(out, a, n):
    s = cuda.shared.array(8, float32)
    i = cuda.threadIdx.x
    if i < n:
        s[i] = a[i]
    cuda.syncthreads()
    if i < n:
        acc = float32(0)
        for j in range(i + 1):
            acc += s[j]
        out[i] = acc


@wrong("pooling", says="from 2 on")
def pooling_last_two(out, a, n):
    s = cuda.shared.array(8, float32)
    i = cuda.threadIdx.x
    if i < n:
        s[i] = a[i]
    cuda.syncthreads()
    if i < n:
        out[i] = s[i] + s[i - 1] if i > 0 else s[i]


@wrong("pooling", says="reads 21 elements of a .*allows 8", where=False)
def pooling_from_global(out, a, n):
    i = cuda.threadIdx.x
    if i < n:
        acc = a[i]
        if i > 0:
            acc += a[i - 1]
        if i > 1:
            acc += a[i - 2]
        out[i] = acc


@wrong("pooling", says="writes no elements of shared memory", where=False)
def pooling_through_out(out, a, n):
    i, acc = cuda.threadIdx.x, float32(0)
    if i < n:
        acc = a[i]
        out[i] = acc
    cuda.syncthreads()
    for k in range(max(i - 2, 0), min(i, n)):
        acc += out[k]
    cuda.syncthreads()
    if i < n:
        out[i] = acc


wrong_c(
    "pooling",
    """__global__ void sum_last_three(float *out, const float *a, int n) {
    __shared__ float s[8];
    const int i = threadIdx.x;
    if (i < n) s[i] = a[i];
    if (i < n)
        out[i] = s[i] + (i > 0 ? s[i - 1] : 0.0f) + (i > 1 ? s[i - 2] : 0.0f);
}""",
    says="no barrier between",
)


# ---- dot -------------------------------------------------------------------------


@right("dot")
def dot_tree(out, a, b, n):
    s = cuda.shared.array(8, float32)
    i = cuda.threadIdx.x
    s[i] = a[i] * b[i] if i < n else float32(0)
    cuda.syncthreads()
    half = (cuda.blockDim.x + 1) // 2
    filled = cuda.blockDim.x
    while filled > 1:
        if i + half < filled:
            s[i] += s[i + half]
        cuda.syncthreads()
        filled = half
        half = (half + 1) // 2
    if i == 0:
        out[0] = s[0]


right_c(
    "dot",
    """__global__ void dot_product(float *out, const float *a, const float *b, int n) {
    const int lane = threadIdx.x;
    const unsigned all = (1u << blockDim.x) - 1;
    float acc = lane < n ? a[lane] * b[lane] : 0.0f;
    float sum = 0.0f;
    for (int from = 0; from < blockDim.x; from++)
        sum += __shfl_sync(all, acc, from);
    if (lane == 0) out[0] = sum;
}""",
)


@wrong("dot", says="no barrier between")
def dot_no_barrier(out, a, b, n):
    s = cuda.shared.array(8, float32)
    i = cuda.threadIdx.x
    if i < n:
        s[i] = a[i] * b[i]
    if i == 0:
        acc = float32(0)
        for j in range(n):
            acc += s[j]
        out[0] = acc


@wrong("dot", says="no barrier between")
def dot_all_add_into_out(out, a, b, n):
    i = cuda.threadIdx.x
    if i == 0:
        out[0] = 0
    cuda.syncthreads()
    if i < n:
        out[0] += a[i] * b[i]


@wrong("dot", says="what the output held")
def dot_atomics_on_the_output(out, a, b, n):
    i = cuda.threadIdx.x
    if i < n:
        cuda.atomic.add(out, 0, a[i] * b[i])


@wrong("dot", says="no thread of its block has written")
def dot_always_eight(out, a, b, n):
    s = cuda.shared.array(8, float32)
    i = cuda.threadIdx.x
    if i < n:
        s[i] = a[i] * b[i]
    cuda.syncthreads()
    if i == 0:
        acc = float32(0)
        for j in range(8):
            acc += s[j]
        out[0] = acc


@wrong("dot", says="missing guard")
def dot_no_guard(out, a, b, n):
    s = cuda.shared.array(8, float32)
    i = cuda.threadIdx.x
    s[i] = a[i] * b[i]
    cuda.syncthreads()
    if i == 0:
        acc = float32(0)
        for j in range(n):
            acc += s[j]
        out[0] = acc


@wrong("dot", says="last term")
def dot_last_missing(out, a, b, n):
    s = cuda.shared.array(8, float32)
    i = cuda.threadIdx.x
    if i < n:
        s[i] = a[i] * b[i]
    cuda.syncthreads()
    if i == 0:
        acc = float32(0)
        for j in range(n - 1):
            acc += s[j]
        out[0] = acc


@wrong("dot", says="1 thread", where=False)
def dot_by_one_thread(out, a, b, n):
    if cuda.threadIdx.x == 0:
        acc = float32(0)
        for j in range(n):
            acc += a[j] * b[j]
        out[0] = acc


@wrong("dot", says=r"out\[0\] is 214, want")
def dot_as_in_the_picture(out, a, b, n):
    if cuda.threadIdx.x == 0:
        out[0] = 214


@wrong("dot", says="8 .*none", where=False)
def dot_by_everyone(out, a, b, n):
    s = cuda.shared.array(8, float32)
    i = cuda.threadIdx.x
    if i < n:
        s[i] = a[i] * b[i]
    if i == 0:
        out[0] = 0
    cuda.syncthreads()
    if i < n:
        cuda.atomic.add(out, 0, s[i])


wrong_c(
    "dot",
    """__global__ void dot_product(float *out, const float *a, const float *b, int n) {
    __shared__ float s[8];
    const int i = threadIdx.x;
    s[i] = i < n ? a[i] * b[i] : 0.0f;
    for (int half = 4; half > 0; half /= 2) {
        if (i < half) s[i] += s[i + half];
    }
    if (i == 0) out[0] = s[0];
}""",
    says="no barrier between",
)


# ---- conv1d ----------------------------------------------------------------------


@right("conv1d")
def conv_in_strides(out, a, b, n, k):
    a_s = cuda.shared.array(11, float32)
    b_s = cuda.shared.array(4, float32)
    t = cuda.threadIdx.x
    first = cuda.blockIdx.x * 8
    for j in range(t, 8 + k - 1, 8):
        a_s[j] = a[first + j] if first + j < n else float32(0)
    if t >= 8 - k:
        b_s[t - (8 - k)] = b[t - (8 - k)]
    cuda.syncthreads()
    if first + t < n:
        acc = float32(0)
        for j in range(k):
            acc += a_s[t + j] * b_s[j]
        out[first + t] = acc


right_c(
    "conv1d",
    """__global__ void convolve(float *out, const float *a, const float *b, int n,
                         int k) {
    __shared__ float a_s[11], b_s[4];
    const int t = threadIdx.x, i = blockIdx.x * 8 + t;
    if (t < k) b_s[t] = b[t];
    for (int j = t; j < 8 + k - 1; j += 8) {
        const int from = blockIdx.x * 8 + j;
        if (from < n) a_s[j] = a[from];
    }
    __syncthreads();
    float acc = 0.0f;
    for (int j = 0; j < k && i + j < n; j++) acc += a_s[t + j] * b_s[j];
    if (i < n) out[i] = acc;
}""",
)


@wrong("conv1d", says="no barrier between")
def conv_no_barrier(out, a, b, n, k):
    a_s = cuda.shared.array(11, float32)
    b_s = cuda.shared.array(4, float32)
    t = cuda.threadIdx.x
    i = cuda.blockIdx.x * 8 + t
    a_s[t] = a[i] if i < n else float32(0)
    if t < k - 1:
        a_s[8 + t] = a[i + 8] if i + 8 < n else float32(0)
    if t < k:
        b_s[t] = b[t]
    acc = float32(0)
    for j in range(k):
        acc += a_s[t + j] * b_s[j]
    if i < n:
        out[i] = acc


@wrong("conv1d", says=r"a_s\[8\].*no thread of its block has written")
def conv_no_halo(out, a, b, n, k):
    a_s = cuda.shared.array(11, float32)
    b_s = cuda.shared.array(4, float32)
    t = cuda.threadIdx.x
    i = cuda.blockIdx.x * 8 + t
    a_s[t] = a[i] if i < n else float32(0)
    if t < k:
        b_s[t] = b[t]
    cuda.syncthreads()
    acc = float32(0)
    for j in range(k):
        acc += a_s[t + j] * b_s[j]
    if i < n:
        out[i] = acc


@wrong("conv1d", says="block's end without what comes behind it")
def conv_halo_of_zeros(out, a, b, n, k):
    a_s = cuda.shared.array(11, float32)
    b_s = cuda.shared.array(4, float32)
    t = cuda.threadIdx.x
    i = cuda.blockIdx.x * 8 + t
    a_s[t] = a[i] if i < n else float32(0)
    if t < 3:
        a_s[8 + t] = 0
    if t < k:
        b_s[t] = b[t]
    cuda.syncthreads()
    acc = float32(0)
    for j in range(k):
        acc += a_s[t + j] * b_s[j]
    if i < n:
        out[i] = acc


@wrong("conv1d", says="guard of its own")
def conv_halo_unguarded(out, a, b, n, k):
    a_s = cuda.shared.array(11, float32)
    b_s = cuda.shared.array(4, float32)
    t = cuda.threadIdx.x
    i = cuda.blockIdx.x * 8 + t
    a_s[t] = a[i] if i < n else float32(0)
    if t < k - 1:
        a_s[8 + t] = a[i + 8]
    if t < k:
        b_s[t] = b[t]
    cuda.syncthreads()
    acc = float32(0)
    for j in range(k):
        acc += a_s[t + j] * b_s[j]
    if i < n:
        out[i] = acc


@wrong("conv1d", says="no thread of its block has written")
def conv_no_padding(out, a, b, n, k):
    a_s = cuda.shared.array(11, float32)
    b_s = cuda.shared.array(4, float32)
    t = cuda.threadIdx.x
    i = cuda.blockIdx.x * 8 + t
    if i < n:
        a_s[t] = a[i]
    if t < k - 1 and i + 8 < n:
        a_s[8 + t] = a[i + 8]
    if t < k:
        b_s[t] = b[t]
    cuda.syncthreads()
    if i < n:
        acc = float32(0)
        for j in range(k):
            acc += a_s[t + j] * b_s[j]
        out[i] = acc


@wrong("conv1d", says="last term")
def conv_one_term_less(out, a, b, n, k):
    a_s = cuda.shared.array(11, float32)
    b_s = cuda.shared.array(4, float32)
    t = cuda.threadIdx.x
    i = cuda.blockIdx.x * 8 + t
    a_s[t] = a[i] if i < n else float32(0)
    if t < k - 1:
        a_s[8 + t] = a[i + 8] if i + 8 < n else float32(0)
    if t < k:
        b_s[t] = b[t]
    cuda.syncthreads()
    acc = float32(0)
    for j in range(k - 1):
        acc += a_s[t + j] * b_s[j]
    if i < n:
        out[i] = acc


@wrong("conv1d", says="b read from its end")
def conv_turned_round(out, a, b, n, k):
    a_s = cuda.shared.array(11, float32)
    b_s = cuda.shared.array(4, float32)
    t = cuda.threadIdx.x
    i = cuda.blockIdx.x * 8 + t
    a_s[t] = a[i] if i < n else float32(0)
    if t < k - 1:
        a_s[8 + t] = a[i + 8] if i + 8 < n else float32(0)
    if t < k:
        b_s[t] = b[k - 1 - t]
    cuda.syncthreads()
    acc = float32(0)
    for j in range(k):
        acc += a_s[t + j] * b_s[j]
    if i < n:
        out[i] = acc


@wrong("conv1d", says="k=4")
def conv_for_k_3(out, a, b, n, k):
    a_s = cuda.shared.array(11, float32)
    t = cuda.threadIdx.x
    i = cuda.blockIdx.x * 8 + t
    a_s[t] = a[i] if i < n else float32(0)
    if t < 2:
        a_s[8 + t] = a[i + 8] if i + 8 < n else float32(0)
    cuda.syncthreads()
    if i < n:
        out[i] = a_s[t] * b[0] + a_s[t + 1] * b[1] + a_s[t + 2] * b[2]


@wrong("conv1d", says="1 thread in each request to a", where=False)
def conv_by_one_thread(out, a, b, n, k):
    a_s = cuda.shared.array(11, float32)
    first = cuda.blockIdx.x * 8
    last = min(first + 8, n)
    if cuda.threadIdx.x == 0:
        for i in range(first, min(last + k - 1, n)):
            a_s[i - first] = a[i]
        for i in range(first, last):
            out[i] = 0
        for j in range(k):
            b_j = b[j] if first < n else float32(0)
            for i in range(first, min(last, n - j)):
                out[i] += a_s[i - first + j] * b_j


@wrong("conv1d", says="reads 54 elements of a .*allows 18", where=False)
def conv_from_global(out, a, b, n, k):
    i = cuda.blockIdx.x * 8 + cuda.threadIdx.x
    if i < n:
        acc = float32(0)
        for j in range(k):
            if i + j < n:
                acc += a[i + j] * b[j]
        out[i] = acc


# ---- prefix_sum ------------------------------------------------------------------


@right("prefix_sum")
def block_sum_in_order(out, a, n):
    s = cuda.shared.array(8, float32)
    t = cuda.threadIdx.x
    i = cuda.blockIdx.x * 8 + t
    if i < n:
        s[t] = a[i]
    cuda.syncthreads()
    if t == 0:
        acc = float32(0)
        for j in range(min(8, n - i)):
            acc += s[j]
        out[cuda.blockIdx.x] = acc


@right("prefix_sum")
def block_sum_of_neighbours(out, a, n):
    s = cuda.shared.array(8, float32)
    t = cuda.threadIdx.x
    i = cuda.blockIdx.x * 8 + t
    s[t] = a[i] if i < n else float32(0)
    cuda.syncthreads()
    for level in range(3):
        step = 1 << level
        if t % (2 * step) == 0:
            s[t] += s[t + step]
        cuda.syncthreads()
    if t == 7:
        out[cuda.blockIdx.x] = s[0]


right_c(
    "prefix_sum",
    """__global__ void sum_blocks(float *out, const float *a, int n) {
    const int i = blockIdx.x * 8 + threadIdx.x;
    float acc = i < n ? a[i] : 0.0f;
    for (int half = 4; half > 0; half /= 2)
        acc += __shfl_down_sync(0xff, acc, half);
    if (threadIdx.x == 0) out[blockIdx.x] = acc;
}""",
)


@wrong("prefix_sum", says="no barrier between")
def block_sum_no_first_barrier(out, a, n):
    s = cuda.shared.array(8, float32)
    t = cuda.threadIdx.x
    i = cuda.blockIdx.x * 8 + t
    s[t] = a[i] if i < n else float32(0)
    half = 4
    while half > 0:
        if t < half:
            s[t] += s[t + half]
        cuda.syncthreads()
        half //= 2
    if t == 0:
        out[cuda.blockIdx.x] = s[0]


@wrong("prefix_sum", says="no barrier between")
def block_sum_one_barrier(out, a, n):
    s = cuda.shared.array(8, float32)
    t = cuda.threadIdx.x
    i = cuda.blockIdx.x * 8 + t
    s[t] = a[i] if i < n else float32(0)
    cuda.syncthreads()
    half = 4
    while half > 0:
        if t < half:
            s[t] += s[t + half]
        half //= 2
    if t == 0:
        out[cuda.blockIdx.x] = s[0]


@wrong("prefix_sum", says="barrier")
def block_sum_barrier_of_some(out, a, n):
    s = cuda.shared.array(8, float32)
    t = cuda.threadIdx.x
    i = cuda.blockIdx.x * 8 + t
    s[t] = a[i] if i < n else float32(0)
    cuda.syncthreads()
    half = 4
    while half > 0:
        if t < half:
            s[t] += s[t + half]
            cuda.syncthreads()
        half //= 2
    if t == 0:
        out[cuda.blockIdx.x] = s[0]


@wrong("prefix_sum", says="no barrier between")
def block_sum_everyone_adds(out, a, n):
    s = cuda.shared.array(8, float32)
    t = cuda.threadIdx.x
    i = cuda.blockIdx.x * 8 + t
    s[t] = a[i] if i < n else float32(0)
    half = 4
    while half > 0:
        cuda.syncthreads()
        if t + half < 8:
            s[t] += s[t + half]
        half //= 2
    if t == 0:
        out[cuda.blockIdx.x] = s[0]


@wrong("prefix_sum", says="every second number of a left out")
def block_sum_a_round_less(out, a, n):
    s = cuda.shared.array(8, float32)
    t = cuda.threadIdx.x
    i = cuda.blockIdx.x * 8 + t
    s[t] = a[i] if i < n else float32(0)
    half = 4
    while half > 1:
        cuda.syncthreads()
        if t < half:
            s[t] += s[t + half]
        half //= 2
    if t == 0:
        out[cuda.blockIdx.x] = s[0]


@wrong("prefix_sum", says="missing guard")
def block_sum_no_guard(out, a, n):
    s = cuda.shared.array(8, float32)
    t = cuda.threadIdx.x
    s[t] = a[cuda.blockIdx.x * 8 + t]
    half = 4
    while half > 0:
        cuda.syncthreads()
        if t < half:
            s[t] += s[t + half]
        half //= 2
    if t == 0:
        out[cuda.blockIdx.x] = s[0]


@wrong("prefix_sum", says="no thread of its block has written")
def block_sum_no_zeros(out, a, n):
    s = cuda.shared.array(8, float32)
    t = cuda.threadIdx.x
    i = cuda.blockIdx.x * 8 + t
    if i < n:
        s[t] = a[i]
    half = 4
    while half > 0:
        cuda.syncthreads()
        if t < half:
            s[t] += s[t + half]
        half //= 2
    if t == 0:
        out[cuda.blockIdx.x] = s[0]


@wrong("prefix_sum", says="one block is enough for n: does threadIdx stand")
def block_sum_of_the_first(out, a, n):
    s = cuda.shared.array(8, float32)
    t = cuda.threadIdx.x
    s[t] = a[t] if t < n else float32(0)
    half = 4
    while half > 0:
        cuda.syncthreads()
        if t < half:
            s[t] += s[t + half]
        half //= 2
    if t == 0:
        out[cuda.blockIdx.x] = s[0]


@wrong("prefix_sum", says=r"block 0 writes out\[0\].*block 1 writes it")
def block_sum_into_the_first(out, a, n):
    s = cuda.shared.array(8, float32)
    t = cuda.threadIdx.x
    i = cuda.blockIdx.x * 8 + t
    s[t] = a[i] if i < n else float32(0)
    half = 4
    while half > 0:
        cuda.syncthreads()
        if t < half:
            s[t] += s[t + half]
        half //= 2
    if t == 0:
        out[0] = s[0]


@wrong("prefix_sum", says="1 thread", where=False)
def block_sum_by_one_thread(out, a, n):
    if cuda.threadIdx.x == 0:
        first = cuda.blockIdx.x * 8
        acc = float32(0)
        for i in range(first, min(first + 8, n)):
            acc += a[i]
        out[cuda.blockIdx.x] = acc


wrong_c(
    "prefix_sum",
    """__global__ void sum_blocks(float *out, const float *a, int n) {
    __shared__ float s[8];
    const int t = threadIdx.x, i = blockIdx.x * 8 + t;
    s[t] = i < n ? a[i] : 0.0f;
    for (int half = 4; half > 0; half /= 2) {
        if (t < half) {
            __syncthreads();
            s[t] += s[t + half];
        }
    }
    if (t == 0) out[blockIdx.x] = s[0];
}""",
    says="barrier",
)


# ---- axis_sum --------------------------------------------------------------------


@right("axis_sum")
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


# ---- matmul_nt -------------------------------------------------------------------


@right("matmul_nt")
def nt_without_tiles(c, a, b, m, n, k):
    row = cuda.blockIdx.y * 3 + cuda.threadIdx.y
    col = cuda.blockIdx.x * 3 + cuda.threadIdx.x
    if row < m and col < n:
        acc = float32(0)
        for i in range(k):
            acc += a[row * k + i] * b[col * k + i]
        c[row * n + col] = acc


@right("matmul_nt")
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


@wrong("matmul_nt", says="one block is enough|global index is due")
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


# ---- matmul_budget ---------------------------------------------------------------


@right("matmul_budget")
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


# ---- argmax ----------------------------------------------------------------------


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


@wrong("argmax", says="choice among equals: .*the first of them is due")
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


@wrong("argmax", says="behind the end of the row")
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


@wrong("argmax", says="a place in the flat array")
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


@wrong("argmax", says="behind the end of the row")
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


@wrong("argmax", says=r"out\[3\] is 0, want 3")
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
    says=r"out\[3\] is 0, want 3",
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


# ---- softmax ---------------------------------------------------------------------


@right("softmax")
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


@wrong("softmax", says=r"out\[0, 0\] is .*want")
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


@wrong("softmax", says="number on the way grown too large")
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


@wrong("softmax", says="number on the way grown too large")
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


@wrong("softmax", says="reads 156 elements of a .*allows 12", where=False)
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
