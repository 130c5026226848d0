"""Answers to the puzzle fusion."""

from numpy import float32

from weft import cuda

from .. import right, right_c, wrong


@right("fusion", taught=True)
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


@wrong("fusion", says="reads 16 elements of y.*none", where=False)
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


@wrong("fusion", says="reads 32 elements of x.*16", where=False)
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
