"""Answers to the puzzle segmented_scan."""

from numpy import float32, int32

from weft import cuda

from .. import right, right_c, wrong, wrong_c


@right("segmented_scan")
def by_ballot(out, a, heads, n):
    i = cuda.grid(1)
    lane = cuda.threadIdx.x
    v, begins = float32(0), int32(0)
    if i < n:
        v = a[i]
        begins = heads[i]
    marks = cuda.ballot_sync(0xFFFFFFFF, begins == 1) | 1
    first = 31 - cuda.clz(marks & (cuda.lanemask_lt() | (1 << lane)))
    step = 1
    while step < 32:
        before = cuda.shfl_up_sync(0xFFFFFFFF, v, step)
        if lane - step >= first:
            v += before
        step *= 2
    if i < n:
        out[i] = v


right_c(
    "segmented_scan",
    """__global__ void scan(float *out, const float *a, const int *heads, int n) {
    int i = blockIdx.x * 32 + threadIdx.x, lane = threadIdx.x;
    float v = i < n ? a[i] : 0;
    int head = lane == 0 || (i < n && heads[i]);
    for (int d = 1; d < 32; d *= 2) {
        float before = __shfl_up_sync(~0u, v, d);
        int begun = __shfl_up_sync(~0u, head, d);
        if (!head) v += before;
        if (lane >= d) head |= begun;
    }
    if (i < n) out[i] = v;
}""",
)


@wrong("segmented_scan", says=r"out\[\d+\] is .*expected")
def heads_are_ignored(out, a, heads, n):
    i = cuda.grid(1)
    lane = cuda.threadIdx.x
    v = float32(0)
    if i < n:
        v = a[i]
    step = 1
    while step < 32:
        before = cuda.shfl_up_sync(0xFFFFFFFF, v, step)
        if lane >= step:
            v += before
        step *= 2
    if i < n:
        out[i] = v


@wrong("segmented_scan", says=r"out\[\d+\] is .*expected")
def heads_do_not_merge(out, a, heads, n):
    i = cuda.grid(1)
    lane = cuda.threadIdx.x
    v, begins = float32(0), int32(0)
    if i < n:
        v = a[i]
        begins = heads[i]
    step = 1
    while step < 32:
        before = cuda.shfl_up_sync(0xFFFFFFFF, v, step)
        if lane >= step and begins == 0:
            v += before
        step *= 2
    if i < n:
        out[i] = v


@wrong("segmented_scan", says=r"out\[\d+\] is .*expected")
def heads_merge_first(out, a, heads, n):
    i = cuda.grid(1)
    lane = cuda.threadIdx.x
    v, begins = float32(0), int32(0)
    if i < n:
        v = a[i]
        begins = heads[i]
    step = 1
    while step < 32:
        before = cuda.shfl_up_sync(0xFFFFFFFF, v, step)
        begun = cuda.shfl_up_sync(0xFFFFFFFF, begins, step)
        if lane >= step:
            begins |= begun
            if begins == 0:
                v += before
        step *= 2
    if i < n:
        out[i] = v


@wrong(
    "segmented_scan", says="reads .* elements of a.*allows|sectors|lanes", where=False
)
def each_thread_walks_back(out, a, heads, n):
    i = cuda.grid(1)
    if i < n:
        total = a[i]
        k = i
        while k % 32 > 0 and heads[k] == 0:
            k -= 1
            total += a[k]
        out[i] = total


wrong_c(
    "segmented_scan",
    """__global__ void scan(float *out, const float *a, const int *heads, int n) {
    int i = blockIdx.x * 32 + threadIdx.x, lane = threadIdx.x;
    float v = i < n ? a[i] : 0;
    int head = i < n && heads[i];
    for (int d = 1; d < 32; d *= 2) {
        float before = __shfl_up_sync(~0u, v, d);
        int begun = __shfl_up_sync(~0u, head, d);
        if (!head) v += before;
        if (lane >= d) head |= begun;
    }
    if (i < n) out[i] = v;
}""",
    says=r"out\[\d+\] is .*expected",
)
