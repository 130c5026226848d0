"""Answers to the puzzle prefix_sum."""

from numpy import float32

from weft import cuda

from .. import right, right_c, wrong, wrong_c


@right("prefix_sum", taught=True)
def block_sum_by_the_lessons_tree(out, a, n):
    s = cuda.shared.array(8, float32)
    t = cuda.threadIdx.x
    i = cuda.blockIdx.x * 8 + t
    s[t] = a[i] if i < n else float32(0)
    half = 8 // 2
    while half > 0:
        cuda.syncthreads()
        if t < half:
            s[t] += s[t + half]
        half //= 2
    if t == 0:
        out[cuda.blockIdx.x] = s[0]


@right("prefix_sum", taught=True)
def block_sum_by_a_tree_that_ends_with_a_barrier(out, a, n):
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


@wrong("prefix_sum", says="without every second number of a")
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


@wrong("prefix_sum", says="one block is enough for n: is threadIdx used")
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


@wrong("prefix_sum", says="1 thread in each read of shared memory", where=False)
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
