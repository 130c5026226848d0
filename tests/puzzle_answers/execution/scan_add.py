"""Answers to the puzzle scan_add."""

from numpy import float32

from weft import cuda

from .. import right, right_c, wrong

ALL = 0xFFFFFFFF


@right("scan_add")
def first_thread_tells_all(out, totals, n):
    before = cuda.shared.array(1, float32)
    if cuda.threadIdx.x == 0:
        sum = float32(0)
        for block in range(cuda.blockIdx.x):
            sum += totals[block]
        before[0] = sum
    cuda.syncthreads()
    i = cuda.grid(1)
    if i < n:
        out[i] += before[0]


right_c(
    "scan_add",
    """__global__ void by_xor(float *out, const float *totals, int n) {
    float before = 0;
    for (int block = threadIdx.x; block < blockIdx.x; block += 32)
        before += totals[block];
    for (int bits = 16; bits > 0; bits /= 2)
        before += __shfl_xor_sync(0xFFFFFFFF, before, bits);
    int i = blockIdx.x * 32 + threadIdx.x;
    if (i < n) out[i] += before;
}""",
)


@wrong("scan_add", says="out")
def its_own_total_too(out, totals, n):
    i = cuda.grid(1)
    if i < n:
        before = float32(0)
        for block in range(cuda.blockIdx.x + 1):
            before += totals[block]
        out[i] += before


@wrong("scan_add", says="elements from 64 on are wrong")
def only_the_block_before(out, totals, n):
    i = cuda.grid(1)
    if i < n and cuda.blockIdx.x > 0:
        out[i] += totals[cuda.blockIdx.x - 1]


@wrong("scan_add", says="begins too early")
def minus_one_at_the_first(out, totals, n):
    i = cuda.grid(1)
    if i < n:
        out[i] += totals[cuda.blockIdx.x - 1]


@wrong("scan_add", says="reads 64 elements of totals.*allows 3", where=False)
def everyone_reads_all(out, totals, n):
    i = cuda.grid(1)
    if i < n:
        before = float32(0)
        for block in range(cuda.blockIdx.x):
            before += totals[block]
        out[i] += before


@wrong("scan_add", says=r"out\[33\] is")
def only_lane_0_knows(out, totals, n):
    before = float32(0)
    for block in range(cuda.threadIdx.x, cuda.blockIdx.x, 32):
        before += totals[block]
    half = 16
    while half > 0:
        before += cuda.shfl_down_sync(ALL, before, half)
        half //= 2
    i = cuda.grid(1)
    if i < n:
        out[i] += before


@wrong("scan_add", says="elements from 1056 on are wrong")
def one_total_for_each_lane(out, totals, n):
    i, before, half = cuda.grid(1), float32(0), 16
    if cuda.threadIdx.x < cuda.blockIdx.x:
        before = totals[cuda.threadIdx.x]
    while half > 0:
        before += cuda.shfl_xor_sync(ALL, before, half)
        half //= 2
    if i < n:
        out[i] += before


@wrong("scan_add", says="guard")
def add_without_guard(out, totals, n):
    before = float32(0)
    for block in range(cuda.threadIdx.x, cuda.blockIdx.x, 32):
        before += totals[block]
    half = 16
    while half > 0:
        before += cuda.shfl_xor_sync(ALL, before, half)
        half //= 2
    out[cuda.grid(1)] += before
