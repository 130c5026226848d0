/* cooperative.cu -- cooperative groups: tiles, coalesced threads, the grid. */
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cuda_runtime.h>

#define EXPORT extern "C" __attribute__((visibility("default")))
namespace cg = cooperative_groups;

/* Store a thread's ranks in its block, its tile of SIZE and the tile's half. */
template <int SIZE> static __global__ void ranks(int *out) {
    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<SIZE> tile = cg::tiled_partition<SIZE>(block);
    auto half = cg::tiled_partition<SIZE / 2>(tile);
    int *row = out + 12 * cg::this_grid().thread_rank();
    row[0] = block.thread_rank();
    row[1] = block.size();
    row[2] = block.group_index().x;
    row[3] = block.thread_index().y;
    row[4] = tile.thread_rank();
    row[5] = tile.size();
    row[6] = tile.meta_group_rank();
    row[7] = tile.meta_group_size();
    row[8] = half.thread_rank();
    row[9] = half.meta_group_rank();
    row[10] = half.meta_group_size();
    row[11] = cg::this_grid().size();
}

EXPORT int run_ranks(int *out, int blocks, int x, int y) {
    ranks<8><<<blocks, dim3(x, y)>>>(out);
    return cudaGetLastError();
}

/* Return the sum over a group of any kind, as in NVIDIA's first article. */
static __device__ int sum_of(cg::thread_group g, int *part, int value) {
    const int rank = g.thread_rank();
    for (int step = g.size() / 2; step > 0; step /= 2) {
        part[rank] = value;
        g.sync();
        if (rank < step) value += part[rank + step];
        g.sync();
    }
    return value;
}

static __global__ void group_sums(int *out, const int *x) {
    __shared__ int part[256], totals[64];
    const int t = threadIdx.x;
    cg::thread_block block = cg::this_thread_block();
    const int whole = sum_of(block, part, x[t]);
    if (t == 0) out[0] = whole;
    block.sync();
    cg::thread_group four = cg::tiled_partition(block, 4);
    const int sum = sum_of(four, part + t / 4 * 4, x[t]);
    if (four.thread_rank() == 0) totals[t / 4] = sum;
    cg::sync(block);
    if (t < 64) out[1 + t] = totals[t];
}

EXPORT int run_group_sums(int *out, const int *x) {
    group_sums<<<1, 256>>>(out, x);
    return cudaGetLastError();
}

struct Wide {
    double a[3];
};

/* Tiles on the two sides of a branch run different numbers of collectives. */
template <int SIZE> static __global__ void tiles(int *out, double *wide) {
    const int t = threadIdx.x;
    auto tile = cg::tiled_partition<SIZE>(cg::this_thread_block());
    const int rank = tile.thread_rank();
    int v = t;
    if (tile.meta_group_rank() % 2) {
        for (int i = 0; i < 5; i++) v = tile.shfl(v, (rank + 1) % SIZE);
        tile.sync();
    } else {
        v = cg::reduce(tile, v, cg::plus<int>());
    }
    int *row = out + 10 * t, same;
    row[0] = v;
    row[1] = tile.shfl_up(t, 1);
    row[2] = tile.shfl_down(t, 1);
    row[3] = tile.shfl_xor(t, SIZE / 2);
    row[4] = tile.ballot(rank % 2);
    row[5] = tile.any(t == SIZE) + 2 * tile.all(t < SIZE);
    row[6] = tile.match_any(rank / 2);
    row[7] = tile.match_all(t / SIZE, same) == tile.ballot(1);
    row[7] += 2 * same;
    row[8] = cg::inclusive_scan(tile, t);
    row[9] = cg::exclusive_scan(tile, t, cg::plus<int>());
    Wide w = {{1.5 * t, -t + 0.25, 1e300 * t}};
    w = tile.shfl(w, SIZE - 1);
    for (int i = 0; i < 3; i++) wide[3 * t + i] = w.a[i];
}

EXPORT int run_tiles(int *out, double *wide, int size, int threads) {
    if (size == 4) tiles<4><<<1, threads>>>(out, wide);
    if (size == 16) tiles<16><<<1, threads>>>(out, wide);
    if (size == 32) tiles<32><<<1, threads>>>(out, wide);
    return cudaGetLastError();
}

static __global__ void reductions(int *out, float *f, const int *x) {
    const int t = threadIdx.x;
    auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    int *row = out + 12 * t;
    row[0] = cg::reduce(warp, x[t], cg::less<int>());
    row[1] = cg::reduce(warp, x[t], cg::greater<int>());
    row[2] = cg::reduce(warp, x[t], cg::bit_and<int>());
    row[3] = cg::reduce(warp, x[t], cg::bit_or<int>());
    row[4] = cg::reduce(warp, x[t], cg::bit_xor<int>());
    row[5] = __reduce_add_sync(0xffffffff, x[t]);
    row[6] = __reduce_min_sync(0xffffffff, x[t]);
    row[7] = __reduce_max_sync(0xffffffff, (unsigned)x[t]);
    row[8] = __reduce_xor_sync(0xffffffff, (unsigned)x[t]);
    row[9] = __match_any_sync(0xffffffff, x[t] % 3);
    int same;
    row[10] = __match_all_sync(0xffffffff, x[t] % 3, &same);
    row[11] = same;
    f[t] = cg::reduce(warp, 0.1f * x[t], cg::plus<float>());
}

EXPORT int run_reductions(int *out, float *f, const int *x, int threads) {
    reductions<<<1, threads>>>(out, f, x);
    return cudaGetLastError();
}

/* Threads whose numbers exceed the limit get their places with one atomic. */
static __global__ void keep(int *out, int *count, const int *x, int limit) {
    const int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (x[t] > limit) {
        cg::coalesced_group g = cg::coalesced_threads();
        int first = 0;
        if (g.thread_rank() == 0) first = atomicAdd(count, (int)g.size());
        out[g.shfl(first, 0) + g.thread_rank()] = x[t];
    }
}

EXPORT int run_keep(int *out, int *count, const int *x, int limit, int blocks) {
    keep<<<blocks, 96>>>(out, count, x, limit);
    return cudaGetLastError();
}

/* Form a group of lanes 0, 3, 6, ..., and divide it. */
static __global__ void coalesced(int *out) {
    const int t = threadIdx.x;
    int *row = out + 12 * t;
    if (t % 3) return;
    auto g = cg::coalesced_threads();
    row[0] = g.size();
    row[1] = g.thread_rank();
    row[2] = g.shfl_down(t, 1);
    row[3] = g.ballot(t % 2);
    row[4] = cg::reduce(g, t, cg::plus<int>());
    row[5] = cg::exclusive_scan(g, t);
    auto odd = cg::binary_partition(g, t % 2);
    row[6] = odd.size() + 100 * odd.meta_group_rank();
    row[7] = cg::reduce(odd, t, cg::greater<int>());
    auto label = cg::labeled_partition(g, t % 4);
    row[8] = label.thread_rank() + 100 * label.meta_group_rank() +
             10000 * label.meta_group_size();
    auto pairs = cg::tiled_partition(g, 2);
    row[9] = pairs.shfl(t, 0);
    row[10] = pairs.meta_group_rank();
    row[11] = cg::invoke_one_broadcast(g, [&] { return 7 * t; });
}

EXPORT int run_coalesced(int *out) {
    coalesced<<<1, 32>>>(out);
    return cudaGetLastError();
}

/* Each block copies its row into shared memory and back, reversed. */
static __global__ void reversed(int *out, const int *x, int n) {
    extern __shared__ int row[];
    auto block = cg::this_thread_block();
    cg::memcpy_async(block, row, x + blockIdx.x * n, sizeof(int) * n);
    cg::wait(block);
    for (int i = block.thread_rank(); i < n; i += block.size())
        out[blockIdx.x * n + i] = row[n - 1 - i];
}

EXPORT int run_reversed(int *out, const int *x, int n, int blocks) {
    reversed<<<blocks, 64, n * sizeof(int)>>>(out, x, n);
    return cudaGetLastError();
}

/* Run three rounds. In each, every thread of the grid reads the number that its
 * neighbour, possibly in another block, wrote in the previous round. */
static __global__ void rounds(int *out) {
    cg::grid_group grid = cg::this_grid();
    const int n = grid.size(), t = grid.thread_rank();
    __shared__ int mine[64];
    mine[threadIdx.x] = t;
    int *row = out;
    for (int i = 0; i < 3; i++, row += n) {
        row[t] = mine[threadIdx.x];
        grid.sync();
        mine[threadIdx.x] = row[(t + 1) % n] + 1;
        grid.sync();
        row[t] = mine[threadIdx.x];
    }
}

EXPORT int run_rounds(int *out, int blocks) {
    void *arguments[] = {&out};
    cudaLaunchCooperativeKernel(rounds, dim3(blocks), dim3(64), arguments);
    return cudaGetLastError();
}

static __global__ void grid_is_valid(int *out) {
    *out = cg::this_grid().is_valid();
}

EXPORT int run_grid_is_valid(int *out) {
    grid_is_valid<<<1, 1>>>(out);
    return cudaGetLastError();
}

/* These kernels need not be fast, and -O1 compiles them sooner than -O3. */
/* g++: -O1 */
