"""Answers to the puzzle conv1d."""

from numpy import float32

from weft import cuda

from .. import right, right_c, wrong


@right("conv1d", taught=True)
def conv_with_zeros_in_the_halo(out, a, b, n, k):
    a_s = cuda.shared.array(11, float32)
    b_s = cuda.shared.array(4, float32)
    t = cuda.threadIdx.x
    i = cuda.blockIdx.x * 8 + t
    a_s[t] = a[i] if i < n else float32(0)
    if t < 3:
        a_s[t + 8] = a[i + 8] if t < k - 1 and i + 8 < n else float32(0)
    if t < k:
        b_s[t] = b[t]
    cuda.syncthreads()
    acc = float32(0)
    for j in range(k):
        acc += a_s[t + j] * b_s[j]
    if i < n:
        out[i] = acc


@right("conv1d", taught=True)
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


@wrong("conv1d", says="block's end without its neighbors")
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
