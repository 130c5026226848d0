/* groups.cu -- cooperative groups, barrier objects and named flags. */
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cuda/atomic>
#include <cuda/barrier>
#include <cuda/pipeline>
#include <cuda_pipeline.h>

#include "../cases.h"

namespace cg = cooperative_groups;

enum { N = 64 };

static int sum_of(int first, int count) {
    int sum = 0;
    for (int i = first; i < first + count; i++) sum += value_at(i);
    return sum;
}

__global__ void tiles(int *out, const int *x) {
    __shared__ int s[N];
    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<8> tile = cg::tiled_partition<8>(block);
    const int t = block.thread_rank();
    s[t] = x[t];
    tile.sync();
    int sum = s[t ^ 7]; // from the same tile
    for (int step = tile.size() / 2; step; step /= 2)
        sum += tile.shfl_down(sum, step);
    if (tile.thread_rank() == 0) out[tile.meta_group_rank()] = sum;
}
CASE(tiles_of_8) {
    int *out = unwritten<int>(8);
    tiles<<<1, N>>>(out, values<int>(N));
    return equal(out, 8, [](int i) { return sum_of(8 * i, 8); });
}

__global__ void reduces(int *out, const int *x) {
    auto block = cg::this_thread_block();
    auto warp = cg::tiled_partition<32>(block);
    __shared__ int sums[2];
    const int sum = cg::reduce(warp, x[block.thread_rank()], cg::plus<int>());
    if (warp.thread_rank() == 0) sums[warp.meta_group_rank()] = sum;
    block.sync();
    out[block.thread_rank()] = sums[0] + sums[1];
}
CASE(reduce_of_a_group) {
    int *out = unwritten<int>(N);
    reduces<<<1, N>>>(out, values<int>(N));
    return equal(out, N, [](int) { return sum_of(0, N); });
}

__global__ void coalesced(int *out, int *count, const int *x) {
    const int t = threadIdx.x;
    if (x[t] > 15) {
        auto group = cg::coalesced_threads();
        int place = 0;
        if (group.thread_rank() == 0)
            place = atomicAdd(count, (int)group.size());
        place = group.shfl(place, 0) + group.thread_rank();
        out[place] = x[t];
    }
}
CASE(coalesced_threads) {
    int *out = zeros<int>(N), *count = zeros<int>(1), want = 0;
    coalesced<<<1, N>>>(out, count, values<int>(N));
    for (int i = 0; i < N; i++) want += value_at(i) > 15;
    return equal(count, 1, [=](int) { return want; });
}

__global__ void grid_steps(int *data, int n) {
    cg::grid_group grid = cg::this_grid();
    const int i = grid.thread_rank();
    for (int step = 1; step < n; step *= 2) {
        const int left = i >= step ? data[i - step] : 0;
        grid.sync();
        data[i] += left;
        grid.sync();
    }
}
CASE(scan_of_a_grid) {
    int n = 128, *data = values<int>(n);
    void *args[] = {&data, &n};
    cudaLaunchCooperativeKernel((void *)grid_steps, dim3(4), dim3(32), args, 0,
                                0);
    return equal(data, n, [](int i) { return sum_of(0, i + 1); });
}

__global__ void phases(int *out) {
    __shared__ cuda::barrier<cuda::thread_scope_block> bar;
    __shared__ int s[N];
    const int t = threadIdx.x;
    if (t == 0) init(&bar, blockDim.x);
    __syncthreads();
    s[t] = t;
    auto token = bar.arrive();
    bar.wait(std::move(token));
    const int other = s[N - 1 - t];
    bar.arrive_and_wait();
    s[t] = 2 * other;
    bar.arrive_and_wait();
    out[t] = s[N - 1 - t];
}
CASE(a_barrier_object) {
    int *out = unwritten<int>(N);
    phases<<<1, N>>>(out);
    return equal(out, N, [](int i) { return 2 * i; });
}

__global__ void producer(int *out, const int *x, int tiles) {
    using Barrier = cuda::barrier<cuda::thread_scope_block>;
    __shared__ Barrier full[2], empty[2];
    __shared__ int s[2][32];
    const int lane = threadIdx.x % 32;
    if (threadIdx.x == 0)
        for (int i = 0; i < 2; i++) init(&full[i], N), init(&empty[i], N);
    __syncthreads();
    if (threadIdx.x < 32) { // this warp fills the ring
        for (int k = 0; k < tiles; k++) {
            if (k >= 2) empty[k % 2].arrive_and_wait();
            s[k % 2][lane] = x[k * 32 + lane];
            (void)full[k % 2].arrive();
        }
    } else { // the other warp empties it
        int sum = 0;
        for (int k = 0; k < tiles; k++) {
            full[k % 2].arrive_and_wait();
            sum += s[k % 2][31 - lane];
            if (k + 2 < tiles) (void)empty[k % 2].arrive();
        }
        out[lane] = sum;
    }
}
CASE(producer_and_consumer_warps) {
    int *out = unwritten<int>(32);
    producer<<<1, N>>>(out, values<int>(5 * 32), 5);
    return equal(out, 32, [](int i) {
        int sum = 0;
        for (int k = 0; k < 5; k++) sum += value_at(k * 32 + 31 - i);
        return sum;
    });
}

__global__ void pipelined(int *out, const int *x, int tiles) {
    __shared__ int s[2][32];
    auto pipe = cuda::make_pipeline();
    const int t = threadIdx.x;
    int sum = 0;
    for (int k = 0; k < 2; k++) {
        pipe.producer_acquire();
        cuda::memcpy_async(&s[k][t], &x[k * 32 + t], sizeof(int), pipe);
        pipe.producer_commit();
    }
    for (int k = 0; k < tiles; k++) {
        pipe.consumer_wait();
        __syncthreads();
        sum += s[k % 2][31 - t];
        __syncthreads();
        pipe.consumer_release();
        pipe.producer_acquire();
        if (k + 2 < tiles)
            cuda::memcpy_async(&s[k % 2][t], &x[(k + 2) * 32 + t], sizeof(int),
                               pipe);
        pipe.producer_commit();
    }
    out[t] = sum;
}
CASE(a_pipeline_of_copies) {
    int *out = unwritten<int>(32);
    pipelined<<<1, 32>>>(out, values<int>(6 * 32), 6);
    return equal(out, 32, [](int i) {
        int sum = 0;
        for (int k = 0; k < 6; k++) sum += value_at(k * 32 + 31 - i);
        return sum;
    });
}

__global__ void atomic_refs(int *data, int *flag, int *out) {
    cuda::atomic_ref<int, cuda::thread_scope_device> ready(*flag);
    if (blockIdx.x == 0) {
        *data = 9;
        ready.store(1, cuda::memory_order_release);
    } else {
        while (!ready.load(cuda::memory_order_acquire)) __nanosleep(20);
        *out = *data;
    }
}
CASE(release_and_acquire) {
    int *out = unwritten<int>(1);
    atomic_refs<<<2, 1>>>(unwritten<int>(1), zeros<int>(1), out);
    return equal(out, 1, [](int) { return 9; });
}

__global__ void scans(int *out, const int *x) {
    auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    const int t = threadIdx.x;
    out[t] = cg::inclusive_scan(warp, x[t]);
}
CASE(scan_of_a_group) {
    int *out = unwritten<int>(N);
    scans<<<1, N>>>(out, values<int>(N));
    return equal(out, N, [](int i) { return sum_of(i / 32 * 32, i % 32 + 1); });
}

__global__ void partitions(int *out, const int *x) {
    auto block = cg::this_thread_block();
    auto warp = cg::tiled_partition<32>(block);
    auto kind = cg::labeled_partition(warp, x[block.thread_rank()] % 3);
    out[block.thread_rank()] = kind.size();
}
CASE(partitions_by_label) {
    int *out = unwritten<int>(32);
    partitions<<<1, 32>>>(out, values<int>(32));
    return equal(out, 32, [](int i) {
        int same = 0;
        for (int k = 0; k < 32; k++) same += value_at(k) % 3 == value_at(i) % 3;
        return same;
    });
}

__global__ void copy_async(int *out, const int *x) {
    __shared__ __align__(16) int s[N];
    auto block = cg::this_thread_block();
    cg::memcpy_async(block, s, x, sizeof s);
    cg::wait(block);
    out[block.thread_rank()] = s[N - 1 - block.thread_rank()];
}
CASE(copies_of_a_group) {
    int *out = unwritten<int>(N);
    copy_async<<<1, N>>>(out, values<int>(N));
    return equal(out, N, [](int i) { return value_at(N - 1 - i); });
}

__global__ void copy_ahead(int *out, const int *x, int tiles) {
    __shared__ __align__(16) int s[2][N];
    const int t = threadIdx.x, at = 4 * t;
    int sum = 0;
    __pipeline_memcpy_async(&s[0][at], &x[at], sizeof(int4));
    __pipeline_commit();
    for (int k = 0; k < tiles; k++) {
        if (k + 1 < tiles)
            __pipeline_memcpy_async(&s[(k + 1) % 2][at], &x[(k + 1) * N + at],
                                    sizeof(int4));
        __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads();
        sum += s[k % 2][N - 1 - t];
        __syncthreads();
    }
    out[t] = sum;
}
CASE(two_stages_of_16_bytes) {
    int *out = unwritten<int>(N / 4);
    copy_ahead<<<1, N / 4>>>(out, values<int>(3 * N), 3);
    return equal(out, N / 4, [](int i) {
        int sum = 0;
        for (int k = 0; k < 3; k++) sum += value_at((k + 1) * N - 1 - i);
        return sum;
    });
}

/* The last copy loads a tile that no thread needs, which is allowed. */
__global__ void copy_past_the_end(int *out, const int *x, int tiles) {
    __shared__ __align__(16) int s[2][N];
    const int t = threadIdx.x, at = 4 * t;
    int sum = 0;
    __pipeline_memcpy_async(&s[0][at], &x[at], sizeof(int4));
    __pipeline_commit();
    for (int k = 0; k < tiles; k++) {
        __pipeline_memcpy_async(&s[(k + 1) % 2][at], &x[at], sizeof(int4));
        __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads();
        sum += s[k % 2][N - 1 - t];
        __syncthreads();
    }
    out[t] = sum;
}
CASE(a_copy_that_nobody_needs) {
    int *out = unwritten<int>(N / 4);
    copy_past_the_end<<<1, N / 4>>>(out, values<int>(N), 3);
    return equal(out, N / 4, [](int i) { return 3 * value_at(N - 1 - i); });
}

/* Pieces of 4, 8 and 16 bytes; past the end of x, they get 0 without a read. */
__global__ void copy_filled(int *out, const int *x, int n) {
    __shared__ __align__(16) int s[3][N];
    const int t = threadIdx.x;
    for (int i = 0; i < 3; i++) {
        const int wide = 1 << i, at = t * wide;
        if (at >= N) continue;
        const int have = at < n ? min(n - at, wide) : 0;
        __pipeline_memcpy_async(&s[i][at], &x[at], wide * sizeof(int),
                                (wide - have) * sizeof(int));
    }
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    for (int i = 0; i < 3; i++) out[i * N + t] = s[i][N - 1 - t];
}
CASE(copies_filled_with_zeros) {
    const int n = N - 3;
    int *out = unwritten<int>(3 * N);
    copy_filled<<<1, N>>>(out, values<int>(n), n);
    return equal(out, 3 * N, [=](int i) {
        const int from = N - 1 - i % N;
        return from < n ? value_at(from) : 0;
    });
}
