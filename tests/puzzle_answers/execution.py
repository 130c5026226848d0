"""Answers to the puzzles of lesson 07b: warps, histograms, scans, compaction."""

import numpy as np
from numpy import float32, int32

from weft import cuda

from . import right, right_c, wrong, wrong_c

ALL = 0xFFFFFFFF

# ---- divergence ----------------------------------------------------------------------


@right("divergence")
def halves_of_the_grid(out, a):
    me, half = cuda.grid(1), cuda.gridsize(1) // 2
    if me < half:
        out[2 * me] = np.sin(a[2 * me])
    else:
        i = 2 * (me - half) + 1
        out[i] = np.cos(a[i])


@right("divergence")
def both_and_choose(out, a):
    i = cuda.grid(1)
    v = a[i]
    out[i] = cuda.selp(i % 2 == 0, np.sin(v), np.cos(v))


right_c(
    "divergence",
    """__global__ void every_second_warp(float *out, const float *a) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int lane = i % 32, warp = i / 32;
    int mine = warp / 2 * 64 + 2 * lane + warp % 2;
    if (warp % 2)
        out[mine] = cosf(a[mine]);
    else
        out[mine] = sinf(a[mine]);
}""",
)


@wrong("divergence", says="lanes.*at least 32", where=False)
def still_by_lane(out, a):
    i = cuda.grid(1)
    if i % 2 == 1:
        out[i] = np.cos(a[i])
    else:
        out[i] = np.sin(a[i])


@wrong("divergence", says=r"out\[1\]")
def only_the_branch_moved(out, a):
    i = cuda.grid(1)
    if i % 64 < 32:
        out[i] = np.sin(a[i])
    else:
        out[i] = np.cos(a[i])


@wrong("divergence", says=r"out\[0\]")
def sides_swapped(out, a):
    t = cuda.threadIdx.x % 64
    i = cuda.grid(1) - t + 2 * (t % 32) + t // 32
    if t < 32:
        out[i] = np.cos(a[i])
    else:
        out[i] = np.sin(a[i])


@wrong("divergence", says="chance")
def one_pair_of_warps(out, a):
    t = cuda.threadIdx.x
    i = cuda.blockIdx.x * cuda.blockDim.x + 2 * (t % 32) + t // 32
    if t < 32:
        out[i] = np.sin(a[i])
    else:
        out[i] = np.cos(a[i])


@wrong("divergence", says="threadIdx")
def first_block_only(out, a):
    t = cuda.threadIdx.x % 64
    i = cuda.threadIdx.x - t + 2 * (t % 32) + t // 32
    if t < 32:
        out[i] = np.sin(a[i])
    else:
        out[i] = np.cos(a[i])


# ---- warp_sum ------------------------------------------------------------------------


@right("warp_sum")
def by_xor(out, a, n):
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    v = a[i] if i < n else float32(0)
    bits = 1
    while bits < 32:
        v += cuda.shfl_xor_sync(ALL, v, bits)
        bits *= 2
    if cuda.laneid == 0 and i < n:
        out[i // 32] = v


right_c(
    "warp_sum",
    """__global__ void by_down(float *out, const float *a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = i < n ? a[i] : 0;
    for (int half = 16; half > 0; half /= 2)
        v += __shfl_down_sync(0xFFFFFFFF, v, half);
    if (i % 32 == 0 && i < n) out[i / 32] = v;
}""",
)


@wrong("warp_sum", says=r"out\[0\]")
def leaves_before_the_shuffle(out, a, n):
    i = cuda.grid(1)
    if i < n:
        v = a[i]
        half = 16
        while half > 0:
            v += cuda.shfl_down_sync(ALL, v, half)
            half //= 2
        if i % 32 == 0:
            out[i // 32] = v


@wrong("warp_sum", says=r"out\[0\]")
def one_round_short(out, a, n):
    i = cuda.grid(1)
    v = float32(0)
    if i < n:
        v = a[i]
    half = 16
    while half > 1:
        v += cuda.shfl_down_sync(ALL, v, half)
        half //= 2
    if i % 32 == 0 and i < n:
        out[i // 32] = v


@wrong("warp_sum", says="chance")
def every_lane_writes(out, a, n):
    i = cuda.grid(1)
    v = float32(0)
    if i < n:
        v = a[i]
    half = 16
    while half > 0:
        v += cuda.shfl_down_sync(ALL, v, half)
        half //= 2
    if i < n:
        out[i // 32] = v


@wrong("warp_sum", says="block 1 writes it")
def warp_of_the_block(out, a, n):
    i = cuda.grid(1)
    v = float32(0)
    if i < n:
        v = a[i]
    half = 16
    while half > 0:
        v += cuda.shfl_down_sync(ALL, v, half)
        half //= 2
    if i % 32 == 0 and i < n:
        out[cuda.threadIdx.x // 32] = v


@wrong("warp_sum", says="guard")
def warps_past_the_end(out, a, n):
    i = cuda.grid(1)
    v = float32(0)
    if i < n:
        v = a[i]
    half = 16
    while half > 0:
        v += cuda.shfl_down_sync(ALL, v, half)
        half //= 2
    if i % 32 == 0:
        out[i // 32] = v


@wrong("warp_sum", says="1 thread.*each request to a", where=False)
def first_lane_does_it(out, a, n):
    i = cuda.grid(1)
    if i % 32 == 0 and i < n:
        total = float32(0)
        for k in range(i, min(i + 32, n)):
            total += a[k]
        out[i // 32] = total


@wrong("warp_sum", says="makes 32 atomic updates .*allows none", where=False)
def by_atomics(out, a, n):
    i = cuda.grid(1)
    if i < n and i % 32 == 0:
        out[i // 32] = 0
    cuda.syncwarp()
    if i < n:
        cuda.atomic.add(out, i // 32, a[i])


wrong_c(
    "warp_sum",
    """__global__ void through_shared(float *out, const float *a, int n) {
    __shared__ float s[128];
    int i = blockIdx.x * blockDim.x + threadIdx.x, t = threadIdx.x;
    s[t] = i < n ? a[i] : 0;
    for (int half = 16; half > 0; half /= 2) {
        __syncthreads();
        if (t % 32 < half) s[t] += s[t + half];
    }
    if (i % 32 == 0 && i < n) out[i / 32] = s[t];
}""",
    says="shared",
    where=False,
)

# ---- histogram -----------------------------------------------------------------------


@right("histogram")
def private_at_once(counts, a, n):
    mine = cuda.shared.array(8, int32)
    if cuda.threadIdx.x < 8:
        mine[cuda.threadIdx.x] = 0
    cuda.syncthreads()
    for i in range(cuda.grid(1), n, cuda.gridsize(1)):
        cuda.atomic.add(mine, a[i], 1)
    cuda.syncthreads()
    if cuda.threadIdx.x < 8:
        cuda.atomic.add(counts, cuda.threadIdx.x, mine[cuda.threadIdx.x])


right_c(
    "histogram",
    """__global__ void count(int *counts, const int *a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    atomicAdd(counts + a[i], 1);
}""",
)


@wrong("histogram", says=r"reads counts\[.*while thread")
def not_atomic(counts, a, n):
    i = cuda.grid(1)
    if i < n:
        counts[a[i]] += 1


@wrong("histogram", says="guard.*would be 97, the last is 96")
def atomic_without_guard(counts, a, n):
    i = cuda.grid(1)
    cuda.atomic.add(counts, a[i], 1)


@wrong("histogram", says=r"counts\[0\] is 6, want 3")
def first_block_again(counts, a, n):
    i = cuda.threadIdx.x
    if i < n:
        cuda.atomic.add(counts, a[i], 1)


@wrong("histogram", says="leaves some out: 15 in all, for 16")
def last_one_forgotten(counts, a, n):
    i = cuda.grid(1)
    if i < n - 1:
        cuda.atomic.add(counts, a[i], 1)


@wrong("histogram", says="reads 128.*allows 16", where=False)
def a_thread_for_each_count(counts, a, n):
    k = cuda.grid(1)
    if k < 8:
        times = 0
        for i in range(n):
            if a[i] == k:
                times += 1
        counts[k] = times


@wrong("histogram", says="too many: 58 in all, for 16")
def adds_the_number(counts, a, n):
    i = cuda.grid(1)
    if i < n:
        cuda.atomic.add(counts, i % 8, a[i])


@wrong("histogram", says="1 thread in each request to a", where=False)
def one_counts_all(counts, a, n):
    if cuda.grid(1) == 0:
        for i in range(n):
            counts[a[i]] += 1


wrong_c(
    "histogram",
    """__global__ void plain_add(int *counts, const int *a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) counts[a[i]]++;
}""",
    says=r"reads counts\[.*no barrier",
)


# ---- histogram_private ---------------------------------------------------------------


@right("histogram_private")
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


@wrong("histogram_private", says="30 atomic updates of counts.*allows 16", where=False)
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


# ---- scan_blocks ---------------------------------------------------------------------


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


@wrong("scan_blocks", says=r"No thread wrote totals\[")
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


# ---- scan_add ------------------------------------------------------------------------


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


# ---- compact -------------------------------------------------------------------------


@right("compact")
def counted_in_shared(out, a, begin, n):
    keeps = cuda.shared.array(32, int32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    keeps[t] = 0
    if i < n and a[i] > 0:
        keeps[t] = 1
    cuda.syncthreads()
    if keeps[t] == 1:
        before = 0
        for k in range(t):
            before += keeps[k]
        out[begin[cuda.blockIdx.x] + before] = a[i]


right_c(
    "compact",
    """__global__ void by_votes(float *out, const float *a, const int *begin, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = i < n ? a[i] : 0;
    unsigned who = __ballot_sync(0xFFFFFFFF, v > 0);
    int before = __popc(who & ((1u << threadIdx.x) - 1));
    if (v > 0) out[begin[blockIdx.x] + before] = v;
}""",
)


@wrong("compact", says="goes too far")
def with_gaps(out, a, begin, n):
    i = cuda.grid(1)
    if i < n and a[i] > 0:
        out[i] = a[i]


@wrong("compact", says="block 1 writes it")
def every_block_from_0(out, a, begin, n):
    i = cuda.grid(1)
    v = float32(0)
    if i < n:
        v = a[i]
    votes = cuda.ballot_sync(ALL, v > 0)
    if v > 0:
        out[cuda.popc(votes & cuda.lanemask_lt())] = v


@wrong("compact", says="goes too far")
def counts_itself(out, a, begin, n):
    i = cuda.grid(1)
    v = float32(0)
    if i < n:
        v = a[i]
    votes = cuda.ballot_sync(ALL, v > 0)
    below = (2 << cuda.threadIdx.x) - 1
    if v > 0:
        out[begin[cuda.blockIdx.x] + cuda.popc(votes & below)] = v


@wrong("compact", says="block 1 writes it")
def keeps_zeros(out, a, begin, n):
    i = cuda.grid(1)
    v = float32(-1)
    if i < n:
        v = a[i]
    votes = cuda.ballot_sync(ALL, v >= 0)
    if v >= 0:
        out[begin[cuda.blockIdx.x] + cuda.popc(votes & cuda.lanemask_lt())] = v


@right("compact")  # lanes that have ended take no part in a vote
def vote_inside_the_guard(out, a, begin, n):
    i = cuda.grid(1)
    if i < n:
        votes = cuda.ballot_sync(ALL, a[i] > 0)
        if a[i] > 0:
            before = cuda.popc(votes & cuda.lanemask_lt())
            out[begin[cuda.blockIdx.x] + before] = a[i]


@wrong("compact", says="race.*in reverse")
def in_any_order(out, a, begin, n):
    taken = cuda.shared.array(1, int32)
    if cuda.threadIdx.x == 0:
        taken[0] = 0
    cuda.syncthreads()
    i = cuda.grid(1)
    if i < n and a[i] > 0:
        out[begin[cuda.blockIdx.x] + cuda.atomic.add(taken, 0, 1)] = a[i]


@wrong("compact", says=r"out\[1\] is 1.75, want 0.5")
def one_or_more(out, a, begin, n):
    i = cuda.grid(1)
    v = a[i] if i < n else float32(0)
    votes = cuda.ballot_sync(ALL, v >= 1)
    if v >= 1:
        before = cuda.popc(votes & cuda.lanemask_lt())
        out[begin[cuda.blockIdx.x] + before] = v


@wrong("compact", says="reads 410 elements of a", where=False)
def counts_those_before(out, a, begin, n):
    i = cuda.grid(1)
    v = a[i] if i < n else float32(0)
    if v > 0:
        place = begin[cuda.blockIdx.x]
        for k in range(cuda.blockIdx.x * 32, i):
            if a[k] > 0:
                place += 1
        out[place] = v


@wrong("compact", says="1 thread in each request to a", where=False)
def one_keeps_all(out, a, begin, n):
    place = 0
    if cuda.grid(1) == 0:
        for k in range(n):
            if a[k] > 0:
                out[place] = a[k]
                place += 1


wrong_c(
    "compact",
    """__global__ void short_mask(float *out, const float *a, const int *begin, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = i < n ? a[i] : 0;
    unsigned who = __ballot_sync(0xFFFFFFFF, v > 0);
    int before = __popc(who & ((1u << threadIdx.x) - 1) & 0xFFFF);
    if (v > 0) out[begin[blockIdx.x] + before] = v;
}""",
    says="chance",
)
