"""Answers to the puzzle histogram_private."""

from numpy import int32

from weft import cuda

from .. import right, right_c, wrong, wrong_c


@right("histogram_private", taught=True)
def strides_over_the_counts(counts, a, n):
    mine = cuda.shared.array(8, int32)
    for k in range(cuda.threadIdx.x, 8, cuda.blockDim.x):
        mine[k] = 0
    cuda.syncthreads()
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if i < n:
        cuda.atomic.add(mine, a[i], 1)
    cuda.syncthreads()
    for k in range(cuda.threadIdx.x, 8, cuda.blockDim.x):
        if mine[k] > 0:
            cuda.atomic.add(counts, k, mine[k])


right_c(
    "histogram_private",
    """__global__ void in_shared(int *counts, const int *a, int n) {
    __shared__ int mine[8];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadIdx.x < 8) mine[threadIdx.x] = 0;
    __syncthreads();
    if (i < n) atomicAdd(&mine[a[i]], 1);
    __syncthreads();
    if (threadIdx.x < 8) atomicAdd(&counts[threadIdx.x], mine[threadIdx.x]);
}""",
)


@wrong("histogram_private", says="32 atomic updates of counts.*allows 16", where=False)
def straight_to_global(counts, a, n):
    i = cuda.grid(1)
    if i < n:
        cuda.atomic.add(counts, a[i], 1)


@wrong("histogram_private", says="mine.*no thread of its block has written")
def not_zeroed(counts, a, n):
    t, i = cuda.threadIdx.x, cuda.grid(1)
    mine = cuda.shared.array(8, int32)
    if i < n:
        cuda.atomic.add(mine, a[i], 1)
    cuda.syncthreads()
    if t < 8:
        cuda.atomic.add(counts, t, mine[t])


@wrong("histogram_private", says="mine.*no barrier")
def no_barrier_after_zeros(counts, a, n):
    t, i = cuda.threadIdx.x, cuda.grid(1)
    mine = cuda.shared.array(8, int32)
    if t < 8:
        mine[t] = 0
    if i < n:
        cuda.atomic.add(mine, a[i], 1)
    cuda.syncthreads()
    if t < 8:
        cuda.atomic.add(counts, t, mine[t])


@wrong("histogram_private", says="mine.*no barrier")
def no_barrier_before_handing_in(counts, a, n):
    t, i = cuda.threadIdx.x, cuda.grid(1)
    mine = cuda.shared.array(8, int32)
    if t < 8:
        mine[t] = 0
    cuda.syncthreads()
    if i < n:
        cuda.atomic.add(mine, a[i], 1)
    if t < 8:
        cuda.atomic.add(counts, t, mine[t])


@wrong("histogram_private", says="blocks run in any order")
def stored_by_each_block(counts, a, n):
    t, i = cuda.threadIdx.x, cuda.grid(1)
    mine = cuda.shared.array(8, int32)
    if t < 8:
        mine[t] = 0
    cuda.syncthreads()
    if i < n:
        cuda.atomic.add(mine, a[i], 1)
    cuda.syncthreads()
    if t < 8:
        counts[t] = mine[t]


@wrong("histogram_private", says="No thread wrote counts")
def returns_before_the_barrier(counts, a, n):
    t, i = cuda.threadIdx.x, cuda.grid(1)
    mine = cuda.shared.array(8, int32)
    if t < 8:
        mine[t] = 0
    cuda.syncthreads()
    if i >= n:
        return
    cuda.atomic.add(mine, a[i], 1)
    cuda.syncthreads()
    if t < 8:
        cuda.atomic.add(counts, t, mine[t])


@wrong("histogram_private", says=r"reads mine\[.*while thread")
def not_atomic_in_shared(counts, a, n):
    t, i = cuda.threadIdx.x, cuda.grid(1)
    mine = cuda.shared.array(8, int32)
    if t < 8:
        mine[t] = 0
    cuda.syncthreads()
    if i < n:
        mine[a[i]] += 1
    cuda.syncthreads()
    if t < 8:
        cuda.atomic.add(counts, t, mine[t])


@wrong("histogram_private", says="1 thread in each request to a", where=False)
def one_counts_for_its_block(counts, a, n):
    mine = cuda.shared.array(8, int32)
    if cuda.threadIdx.x == 0:
        for k in range(8):
            mine[k] = 0
        i = cuda.grid(1)
        for k in range(i, min(i + cuda.blockDim.x, n)):
            mine[a[k]] += 1
        for k in range(8):
            cuda.atomic.add(counts, k, mine[k])


@wrong("histogram_private", says="block 64.*mine.*no barrier")
def waits_for_its_warp(counts, a, n):
    t, i = cuda.threadIdx.x, cuda.grid(1)
    mine = cuda.shared.array(8, int32)
    if t < 8:
        mine[t] = 0
    cuda.syncwarp()
    if i < n:
        cuda.atomic.add(mine, a[i], 1)
    cuda.syncwarp()
    if t < 8:
        cuda.atomic.add(counts, t, mine[t])


wrong_c(
    "histogram_private",
    """__global__ void hands_in_too_early(int *counts, const int *a, int n) {
    __shared__ int mine[8];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadIdx.x < 8) mine[threadIdx.x] = 0;
    __syncthreads();
    if (i < n) atomicAdd(&mine[a[i]], 1);
    if (threadIdx.x < 8) atomicAdd(&counts[threadIdx.x], mine[threadIdx.x]);
}""",
    says=r"reads mine\[.*no barrier",
)


@wrong("histogram_private", says="makes 16 atomic updates .* block 64", where=False)
def handed_in_by_each_warp(counts, a, n):
    t, i = cuda.threadIdx.x, cuda.grid(1)
    mine = cuda.shared.array(16, int32)  # 8 counts for each of two warps
    first = t // 32 * 8
    if t < 16:
        mine[t] = 0
    cuda.syncthreads()
    if i < n:
        cuda.atomic.add(mine, first + a[i], 1)
    cuda.syncthreads()
    if t % 32 < 8:
        cuda.atomic.add(counts, t % 32, mine[first + t % 32])
