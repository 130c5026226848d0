"""Answers to the puzzle scan_blocks."""

from numpy import float32

from weft import cuda

from .. import right, right_c, wrong

ALL = 0xFFFFFFFF


@right("scan_blocks")
def through_shared(out, totals, a, n):
    sums = cuda.shared.array(32, float32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    sums[t] = a[i] if i < n else float32(0)
    cuda.syncthreads()
    step = 1
    while step < 32:
        below = float32(0)
        if t >= step:
            below = sums[t - step]
        cuda.syncthreads()
        sums[t] += below
        cuda.syncthreads()
        step *= 2
    if i < n:
        out[i] = sums[t]
        if t == 0:
            totals[cuda.blockIdx.x] = sums[31]


right_c(
    "scan_blocks",
    """__global__ void by_shuffles(float *out, float *totals, const float *a, int n) {
    int i = blockIdx.x * 32 + threadIdx.x;
    float v = i < n ? a[i] : 0;
    for (int step = 1; step < 32; step *= 2) {
        float below = __shfl_up_sync(0xFFFFFFFF, v, step);
        v += threadIdx.x >= step ? below : 0;
    }
    if (i < n) out[i] = v;
    if (i == min(blockIdx.x * 32 + 31, n - 1)) totals[blockIdx.x] = v;
}""",
)


@wrong("scan_blocks", says=r"out\[0\]")
def lanes_that_add_themselves(out, totals, a, n):
    i, lane = cuda.grid(1), cuda.threadIdx.x
    v = float32(0)
    if i < n:
        v = a[i]
    step = 1
    while step < 32:
        v += cuda.shfl_up_sync(ALL, v, step)
        step *= 2
    if i < n:
        out[i] = v
    if lane == 31 and i - 31 < n:
        totals[cuda.blockIdx.x] = v


@wrong("scan_blocks", says="names lanes 16-31, which take no part")
def shuffle_inside_the_guard(out, totals, a, n):
    i, lane = cuda.grid(1), cuda.threadIdx.x
    if i < n:
        v = a[i]
        step = 1
        while step < 32:
            below = cuda.shfl_up_sync(ALL, v, step)
            if lane >= step:
                v += below
            step *= 2
        out[i] = v
        if lane == 31:
            totals[cuda.blockIdx.x] = v


@wrong("scan_blocks", says="totals")
def last_block_hands_in_nothing(out, totals, a, n):
    i, lane = cuda.grid(1), cuda.threadIdx.x
    v = float32(0)
    if i < n:
        v = a[i]
    step = 1
    while step < 32:
        below = cuda.shfl_up_sync(ALL, v, step)
        if lane >= step:
            v += below
        step *= 2
    if i < n:
        out[i] = v
        if lane == 31:
            totals[cuda.blockIdx.x] = v


@wrong("scan_blocks", says="the one before it")
def without_itself(out, totals, a, n):
    i, lane = cuda.grid(1), cuda.threadIdx.x
    v = float32(0)
    if i < n:
        v = a[i]
    step = 1
    while step < 32:
        below = cuda.shfl_up_sync(ALL, v, step)
        if lane >= step:
            v += below
        step *= 2
    if i < n:
        out[i] = v - a[i]
    if lane == 31 and i - 31 < n:
        totals[cuda.blockIdx.x] = v


@wrong("scan_blocks", says=r"out\[16\] is")
def sixteen_only(out, totals, a, n):
    i, lane = cuda.grid(1), cuda.threadIdx.x
    v = float32(0)
    if i < n:
        v = a[i]
    step = 1
    while step < 16:
        below = cuda.shfl_up_sync(ALL, v, step)
        if lane >= step:
            v += below
        step *= 2
    if i < n:
        out[i] = v
    if lane == 31 and i - 31 < n:
        totals[cuda.blockIdx.x] = v


@wrong("scan_blocks", says="guard")
def totals_of_blocks_past_the_end(out, totals, a, n):
    i, lane = cuda.grid(1), cuda.threadIdx.x
    v = float32(0)
    if i < n:
        v = a[i]
    step = 1
    while step < 32:
        below = cuda.shfl_up_sync(ALL, v, step)
        if lane >= step:
            v += below
        step *= 2
    if i < n:
        out[i] = v
    if lane == 31:
        totals[cuda.blockIdx.x] = v


@wrong("scan_blocks", says="1 thread.*each request to a", where=False)
def one_lane_in_a_row(out, totals, a, n):
    first = cuda.grid(1)
    if cuda.threadIdx.x == 0 and first < n:
        running = float32(0)
        for i in range(first, min(first + 32, n)):
            running += a[i]
            out[i] = running
        totals[cuda.blockIdx.x] = running
