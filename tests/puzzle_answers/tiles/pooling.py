"""Answers to the puzzle pooling."""

from numpy import float32

from weft import cuda

from .. import right, right_c, wrong, wrong_c


@right("pooling", taught=True)
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


@right("pooling", taught=True)
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


@wrong("pooling", says="where n is 1")
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


@wrong("pooling", says="with n=6")
def pooling_but_for_six(out, a, n):
    s = cuda.shared.array(8, float32)
    i = cuda.threadIdx.x
    if i < n:
        s[i] = a[i]
    cuda.syncthreads()
    if i < n:
        acc = s[i]
        for k in range(max(i - 2, 0), i):
            acc += s[k]
        out[i] = acc if n != 6 else float32(0)
