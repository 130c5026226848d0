"""Answers to the puzzle last_block."""

from numpy import float32, int32

from weft import cuda

from .. import right, right_c, wrong, wrong_c


@right("last_block")
def the_whole_block_adds(total, sums, arrived, a, n):
    i = cuda.grid(1)
    t = cuda.threadIdx.x
    is_last = cuda.shared.array(1, int32)
    v = a[i] if i < n else float32(0)
    for half in range(5):
        v += cuda.shfl_down_sync(0xFFFFFFFF, v, 16 >> half)
    if t == 0:
        sums[cuda.blockIdx.x] = v
        cuda.threadfence()
        count = cuda.atomic.add(arrived, 0, 1)
        is_last[0] = 1 if count == cuda.gridDim.x - 1 else 0
        cuda.threadfence()
    cuda.syncthreads()
    if is_last[0] == 1:
        v = float32(0)
        for block in range(t, cuda.gridDim.x, 32):
            v += sums[block]
        for half in range(5):
            v += cuda.shfl_down_sync(0xFFFFFFFF, v, 16 >> half)
        if t == 0:
            total[0] = v


right_c(
    "last_block",
    """__global__ void finish(float *total, float *sums, int *arrived, const float *a,
                       int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = i < n ? a[i] : 0;
    for (int d = 16; d; d /= 2) v += __shfl_down_sync(~0u, v, d);
    if (threadIdx.x) return;
    sums[blockIdx.x] = v;
    __threadfence();
    if (atomicAdd(arrived, 1) + 1 < gridDim.x) return;
    __threadfence();
    float rest = 0;
    for (int b = gridDim.x - 1; b >= 0; b--) rest += sums[b];
    *total = rest;
}""",
)

BLOCK_SUM = """__global__ void finish(float *total, float *sums, int *arrived,
                       const float *a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = i < n ? a[i] : 0;
    for (int d = 16; d; d /= 2) v += __shfl_down_sync(~0u, v, d);
    if (threadIdx.x) return;
"""


@wrong("last_block", says=r"sums\[.*block")
def no_fence(total, sums, arrived, a, n):
    i = cuda.grid(1)
    v = a[i] if i < n else float32(0)
    for half in range(5):
        v += cuda.shfl_down_sync(0xFFFFFFFF, v, 16 >> half)
    if cuda.threadIdx.x == 0:
        sums[cuda.blockIdx.x] = v
        if cuda.atomic.add(arrived, 0, 1) == cuda.gridDim.x - 1:
            v = float32(0)
            for block in range(cuda.gridDim.x):
                v += sums[block]
            total[0] = v


@wrong("last_block", says=r"sums\[.*block")
def fence_after_the_count(total, sums, arrived, a, n):
    i = cuda.grid(1)
    v = a[i] if i < n else float32(0)
    for half in range(5):
        v += cuda.shfl_down_sync(0xFFFFFFFF, v, 16 >> half)
    if cuda.threadIdx.x == 0:
        sums[cuda.blockIdx.x] = v
        count = cuda.atomic.add(arrived, 0, 1)
        cuda.threadfence()
        if count == cuda.gridDim.x - 1:
            v = float32(0)
            for block in range(cuda.gridDim.x):
                v += sums[block]
            total[0] = v


@wrong("last_block", says=r"sums\[")
def the_last_number_is_not_last(total, sums, arrived, a, n):
    i = cuda.grid(1)
    v = a[i] if i < n else float32(0)
    for half in range(5):
        v += cuda.shfl_down_sync(0xFFFFFFFF, v, 16 >> half)
    if cuda.threadIdx.x == 0:
        sums[cuda.blockIdx.x] = v
        cuda.threadfence()
        cuda.atomic.add(arrived, 0, 1)
        cuda.threadfence()
        if cuda.blockIdx.x == cuda.gridDim.x - 1:
            v = float32(0)
            for block in range(cuda.gridDim.x):
                v += sums[block]
            total[0] = v


@wrong("last_block", says=r"No thread wrote total|total\[0\]")
def counts_one_too_far(total, sums, arrived, a, n):
    i = cuda.grid(1)
    v = a[i] if i < n else float32(0)
    for half in range(5):
        v += cuda.shfl_down_sync(0xFFFFFFFF, v, 16 >> half)
    if cuda.threadIdx.x == 0:
        sums[cuda.blockIdx.x] = v
        cuda.threadfence()
        if cuda.atomic.add(arrived, 0, 1) == cuda.gridDim.x:
            cuda.threadfence()
            v = float32(0)
            for block in range(cuda.gridDim.x):
                v += sums[block]
            total[0] = v


@wrong("last_block", says=r"arrived\[0\]")
def plain_count(total, sums, arrived, a, n):
    i = cuda.grid(1)
    v = a[i] if i < n else float32(0)
    for half in range(5):
        v += cuda.shfl_down_sync(0xFFFFFFFF, v, 16 >> half)
    if cuda.threadIdx.x == 0:
        sums[cuda.blockIdx.x] = v
        cuda.threadfence()
        arrived[0] += 1
        if arrived[0] == cuda.gridDim.x:
            total[0] = v


wrong_c(
    "last_block",
    BLOCK_SUM
    + """    sums[blockIdx.x] = v;
    __threadfence_block();
    if (atomicAdd(arrived, 1) + 1 < gridDim.x) return;
    float rest = 0;
    for (int b = 0; b < gridDim.x; b++) rest += sums[b];
    *total = rest;
}""",
    says=r"sums\[",
)
