"""Answers to the puzzle dot."""

from numpy import float32

from weft import cuda

from .. import right, right_c, wrong, wrong_c


@right("dot", taught=True)
def dot_tree(out, a, b, n):
    s = cuda.shared.array(8, float32)
    i = cuda.threadIdx.x
    s[i] = a[i] * b[i] if i < n else float32(0)
    cuda.syncthreads()
    half = 4  # the puzzle's text promises 8 threads for any n
    while half > 0:
        if i < half:
            s[i] += s[i + half]
        cuda.syncthreads()
        half //= 2
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


@wrong("dot", says="the output's initial contents")
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


@wrong("dot", says=r"out\[0\] is 214, expected")
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
