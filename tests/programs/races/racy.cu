// Kernels with one race each, which is found in every order of threads.
#include "cases.h"

#define TID ((int)threadIdx.x)

// ---- a block without a necessary barrier ------------------------------------

__global__ void no_barrier(int *out) {
    __shared__ int s[256];
    s[TID] = TID;
    out[TID] = s[255 - TID];
}
CASE(no_barrier) { no_barrier<<<1, 256>>>(memory); }

__global__ void no_second_barrier(int *out) {
    __shared__ int s[256];
    for (int i = 0; i < 4; i++) {
        s[TID] = i;
        __syncthreads();
        out[TID] += s[255 - TID];
    }
}
CASE(no_second_barrier) { no_second_barrier<<<2, 256>>>(memory); }

__global__ void reduction(int *out) {
    __shared__ int s[256];
    s[TID] = TID;
    __syncthreads();
    for (int half = 128; half; half /= 2)
        if (TID < half) s[TID] += s[TID + half];
    if (TID == 0) out[blockIdx.x] = s[0];
}
CASE(reduction) { reduction<<<2, 256>>>(memory); }

__global__ void next_door(int *x) {
    int other = x[(TID + 1) % 256];
    x[TID] = other + 1;
}
CASE(next_door) { next_door<<<1, 256>>>(memory); }

__global__ void in_step(int *out) { // one warp, but nothing keeps it in step
    __shared__ int s[32];
    s[TID] = TID;
    out[TID] = s[31 - TID];
}
CASE(in_step) { in_step<<<1, 32>>>(memory); }

__global__ void different_values(int *out) { out[0] = TID; }
CASE(different_values) { different_values<<<1, 64>>>(memory); }

__global__ void two_values(int *out) {
    if (TID == 3 || TID == 200) out[7] = TID == 3 ? 1 : 2;
}
CASE(two_values) { two_values<<<1, 256>>>(memory); }

__global__ void plain_count(int *out) { out[0] += 1; }
CASE(plain_count) { plain_count<<<1, 64>>>(memory); }

__global__ void bytes(unsigned char *out) {
    __shared__ unsigned char s[256];
    s[TID] = (unsigned char)TID;
    out[TID] = s[TID ^ 1];
}
CASE(bytes) { bytes<<<1, 256>>>((unsigned char *)memory); }

__global__ void word_over_bytes(int *out) {
    __shared__ __align__(4) unsigned char s[256];
    s[TID] = 1;
    if (TID % 4 == 0) out[TID / 4] = *(int *)(s + TID);
}
CASE(word_over_bytes) { word_over_bytes<<<1, 256>>>(memory); }

__global__ void vectors(float4 *out) {
    __shared__ float4 s[64];
    s[TID] = make_float4(TID, 0, 0, 0);
    out[TID] = s[63 - TID];
}
CASE(vectors) { vectors<<<1, 64>>>((float4 *)memory); }

__global__ void part_of_vector(float *out) {
    __shared__ __align__(16) float s[256];
    s[TID] = TID;
    if (TID < 64) ((float4 *)out)[TID] = ((float4 *)s)[TID];
}
CASE(part_of_vector) { part_of_vector<<<1, 256>>>((float *)memory); }

__global__ void many_readers(int *out) { // all read, the last one writes
    __shared__ int s;
    if (TID == 0) s = 5;
    __syncthreads();
    out[TID] = s;
    if (TID == 255) s = 6;
}
CASE(many_readers) { many_readers<<<1, 256>>>(memory); }

__global__ void first_writes(int *out) {
    __shared__ int s;
    if (TID == 0) s = 5;
    __syncthreads();
    out[TID] = s;
    if (TID == 0) s = 6;
}
CASE(first_writes) { first_writes<<<1, 256>>>(memory); }

// ---- a warp -----------------------------------------------------------------

__global__ void half_synchronised(int *out) {
    __shared__ int s[32];
    s[TID] = TID;
    if (TID < 16)
        __syncwarp(0x0000ffff);
    else
        __syncwarp(0xffff0000);
    out[TID] = s[(TID + 16) % 32]; // the other half's numbers
}
CASE(half_synchronised) { half_synchronised<<<1, 32>>>(memory); }

__global__ void warp_for_block(int *out) {
    __shared__ int s[64];
    s[TID] = TID;
    __syncwarp();
    out[TID] = s[63 - TID]; // the other warp's numbers
}
CASE(warp_for_block) { warp_for_block<<<1, 64>>>(memory); }

__global__ void tree_of_a_warp(int *out) {
    __shared__ int s[32];
    s[TID] = TID;
    __syncwarp();
    for (int half = 16; half; half /= 2)
        if (TID < half) s[TID] += s[TID + half];
    if (TID == 0) out[0] = s[0];
}
CASE(tree_of_a_warp) { tree_of_a_warp<<<1, 32>>>(memory); }

__global__ void after_shuffle(int *out) {
    __shared__ int s[32];
    int v = __shfl_down_sync(~0u, TID, 1);
    s[TID] = v;
    out[TID] = s[(TID + 1) % 32];
}
CASE(after_shuffle) { after_shuffle<<<1, 32>>>(memory); }

// ---- atomics ----------------------------------------------------------------

__global__ void late_zero(int *out) { // no thread waits for the cleared count
    __shared__ int count;
    if (TID == 0) count = 0;
    atomicAdd(&count, 1);
    __syncthreads();
    out[TID] = count;
}
CASE(late_zero) { late_zero<<<1, 256>>>(memory); }

__global__ void early_look(int *out) {
    __shared__ int count;
    if (TID == 0) count = 0;
    __syncthreads();
    atomicAdd(&count, 1);
    if (TID == 0) out[0] = count;
}
CASE(early_look) { early_look<<<1, 256>>>(memory); }

__global__ void plain_maximum(int *out) {
    if (TID > out[0]) atomicMax(out, TID);
}
CASE(plain_maximum) { plain_maximum<<<2, 64>>>(memory); }

// ---- blocks -----------------------------------------------------------------

__global__ void blocks_write(int *out) { out[TID] = (int)blockIdx.x; }
CASE(blocks_write) { blocks_write<<<4, 64>>>(memory); }

__global__ void neighbour_block(int *x) {
    int i = blockIdx.x * blockDim.x + TID;
    int next = x[(i + 1) % (gridDim.x * blockDim.x)];
    __syncthreads();
    x[i] = next + 1;
}
CASE(neighbour_block) { neighbour_block<<<4, 64>>>(memory); }

__global__ void add_up(int *out) {
    if (TID == 0) out[0] += (int)blockIdx.x;
}
CASE(add_up) { add_up<<<8, 32>>>(memory); }

template <bool fence, bool inside_block>
__device__ void last_block(int *out, int *parts, int *count) {
    __shared__ bool last;
    if (TID == 0) {
        parts[blockIdx.x] = (int)blockIdx.x;
        if (fence) __threadfence();
        if (inside_block) __threadfence_block();
        last = atomicAdd(count, 1) == (int)gridDim.x - 1;
    }
    __syncthreads();
    if (last && TID == 0) {
        int sum = 0;
        for (int i = 0; i < (int)gridDim.x; i++) sum += parts[i];
        out[0] = sum;
    }
}
__global__ void last_block_without_fence(int *m) {
    last_block<false, false>(m, m + 64, m + 32);
}
CASE(last_block_without_fence) { last_block_without_fence<<<8, 64>>>(memory); }

__global__ void last_block_with_small_fence(int *m) {
    last_block<false, true>(m, m + 64, m + 32);
}
CASE(last_block_with_small_fence) {
    last_block_with_small_fence<<<8, 64>>>(memory);
}

__global__ void fence_too_early(int *m) {
    __shared__ bool last;
    int *parts = m + 64;
    if (TID == 0) {
        __threadfence();
        parts[blockIdx.x] = (int)blockIdx.x;
        last = atomicAdd(m + 32, 1) == (int)gridDim.x - 1;
    }
    __syncthreads();
    if (last && TID == 0)
        for (int i = 0; i < (int)gridDim.x; i++) m[0] += parts[i];
}
CASE(fence_too_early) { fence_too_early<<<8, 64>>>(memory); }

__global__ void fence_of_one(int *m) { // only thread 0's writes are fenced
    __shared__ bool last;
    int *parts = m + 64;
    parts[blockIdx.x * 64 + TID] = 1;
    if (TID == 0) __threadfence();
    __syncthreads();
    if (TID == 0) last = atomicAdd(m + 32, 1) == (int)gridDim.x - 1;
    __syncthreads();
    if (last)
        for (int i = TID; i < 64 * (int)gridDim.x; i += 64)
            atomicAdd(m, parts[i]);
}
CASE(fence_of_one) { fence_of_one<<<4, 64>>>(memory); }

__global__ void flag_without_fence(int *m) {
    volatile int *flag = m + 8;
    if (blockIdx.x == 0 && TID == 0) {
        m[0] = 42;
        *flag = 1;
    }
    if (blockIdx.x == 1 && TID == 0) {
        while (*flag == 0) {
        }
        m[64] = m[0];
    }
}
CASE(flag_without_fence) { flag_without_fence<<<2, 32>>>(memory); }

__global__ void lock_without_fence(int *m) {
    if (TID == 0) {
        while (atomicCAS(m + 32, 0, 1) != 0) {
        }
        m[0] += 1;
        atomicExch(m + 32, 0);
    }
}
CASE(lock_without_fence) { lock_without_fence<<<4, 32>>>(memory); }

__global__ void relaxed(int *m) {
    cuda::atomic_ref<int, cuda::thread_scope_device> flag(m[32]);
    if (TID) return;
    if (blockIdx.x == 0) {
        m[0] = 42;
        flag.store(1, cuda::memory_order_relaxed);
    } else {
        while (flag.load(cuda::memory_order_relaxed) == 0) {
        }
        m[64] = m[0];
    }
}
CASE(relaxed) { relaxed<<<2, 32>>>(memory); }

__global__ void block_for_grid(int *m) { // __syncthreads() stops only its block
    int i = blockIdx.x * blockDim.x + TID;
    m[i] = i;
    __syncthreads();
    m[1024 + i] = m[(i + 64) % 256];
}
CASE(block_for_grid) { block_for_grid<<<4, 64>>>(memory); }

__global__ void one_grid_sync_short(int *m) {
    cg::grid_group grid = cg::this_grid();
    int i = (int)grid.thread_rank(), n = (int)grid.size();
    for (int round = 0; round < 3; round++) {
        m[i] = round;
        grid.sync();
        m[1024 + i] += m[(i + 64) % n];
    }
}
CASE(one_grid_sync_short) {
    void *args[] = {&memory};
    cudaLaunchCooperativeKernel((void *)one_grid_sync_short, 2, 64, args, 0, 0);
}

__device__ int variable;
__global__ void device_variable(int *) { variable = (int)blockIdx.x; }
CASE(device_variable) { device_variable<<<4, 32>>>(memory); }

__global__ void half_warps(int *out) { // tiles of 16 wait only for their lanes
    __shared__ int s[32];
    auto tile = cg::tiled_partition<16>(cg::this_thread_block());
    s[TID] = TID;
    tile.sync();
    out[TID] = s[31 - TID];
}
CASE(half_warps) { half_warps<<<1, 32>>>(memory); }

__global__ void arrive_only(int *out) {
    __shared__ cuda::barrier<cuda::thread_scope_block> bar;
    __shared__ int s[64];
    if (TID == 0) init(&bar, 64);
    __syncthreads();
    s[TID] = TID;
    auto token = bar.arrive();
    out[TID] = s[63 - TID]; // reads before the wait
    bar.wait(static_cast<decltype(token) &&>(token));
}
CASE(arrive_only) { arrive_only<<<1, 64>>>(memory); }

// The last thread to arrive continues immediately. The others' wait orders its
// work before the arrival, but not its later work.
__global__ void one_phase_short(int *out) {
    __shared__ cuda::barrier<cuda::thread_scope_block> bar;
    __shared__ int s[64];
    if (TID == 0) init(&bar, 64);
    __syncthreads();
    s[TID] = TID;
    bar.arrive_and_wait();
    const int other = s[63 - TID];
    s[TID] = 2 * other; // writes without a wait
    bar.arrive_and_wait();
    out[TID] = s[63 - TID];
}
CASE(one_phase_short) { one_phase_short<<<1, 64>>>(memory); }
