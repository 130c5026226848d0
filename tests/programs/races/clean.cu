// Kernels that seem to have a race, but have none.
#include "cases.h"

#define TID ((int)threadIdx.x)

// ---- a block ----------------------------------------------------------------

__global__ void map(int *x) {
    int i = blockIdx.x * blockDim.x + TID;
    x[i] = x[i] * 2 + 1;
}
CASE(map) {
    map<<<8, 128>>>(memory);
    map<<<4, 256>>>(memory); // other blocks write later
}

__global__ void transposed(int *out) {
    __shared__ int s[256];
    for (int i = 0; i < 4; i++) {
        s[TID] = TID;
        __syncthreads();
        out[blockIdx.x * 256 + TID] += s[255 - TID];
        __syncthreads();
    }
}
CASE(transposed) { transposed<<<4, 256>>>(memory); }

__global__ void same_value(int *out) { out[0] = 1; }
CASE(same_value) { same_value<<<16, 256>>>(memory); }

__global__ void same_bool(int *out) {
    __shared__ bool any;
    if (TID == 0) any = false;
    __syncthreads();
    if (TID % 3) any = true;
    __syncthreads();
    out[blockIdx.x] = any;
}
CASE(same_bool) { same_bool<<<4, 256>>>(memory); }

__global__ void same_wide(double2 *out) { out[0] = make_double2(3, 4); }
CASE(same_wide) { same_wide<<<4, 64>>>((double2 *)memory); }

__global__ void bytes(unsigned char *out) {
    __shared__ unsigned char s[256];
    s[TID] = (unsigned char)TID;
    __syncthreads();
    out[blockIdx.x * 250 + TID] = s[TID ^ 1];
}
CASE(bytes) { bytes<<<4, 250>>>((unsigned char *)memory); }

__global__ void own_bytes(unsigned char *x) { // four threads share a word
    unsigned char mine = x[TID];
    x[TID] = (unsigned char)(mine + 1);
    x[TID] = (unsigned char)(x[TID] * 2);
}
CASE(own_bytes) { own_bytes<<<1, 256>>>((unsigned char *)memory); }

__global__ void halves(unsigned short *x) {
    __shared__ unsigned short s[128];
    s[TID] = (unsigned short)TID;
    __syncthreads();
    x[blockIdx.x * 128 + TID] = s[127 - TID];
}
CASE(halves) { halves<<<3, 128>>>((unsigned short *)memory); }

__global__ void bytes_then_words(int *out) {
    __shared__ __align__(4) unsigned char s[256];
    s[TID] = 1;
    __syncthreads();
    if (TID < 64) ((int *)s)[TID] += 1;
    __syncthreads();
    out[TID] = s[255 - TID];
}
CASE(bytes_then_words) { bytes_then_words<<<1, 256>>>(memory); }

__global__ void early_leave(int *out) {
    __shared__ int s[256];
    s[TID] = TID;
    if (TID >= 200) return;
    __syncthreads();
    out[TID] = s[255 - TID];
}
CASE(early_leave) { early_leave<<<1, 256>>>(memory); }

__global__ void counted(int *out) {
    __shared__ int count;
    if (TID == 0) count = 0;
    __syncthreads();
    atomicAdd(&count, 1);
    __syncthreads();
    if (TID == 0) out[blockIdx.x] = count;
}
CASE(counted) { counted<<<4, 256>>>(memory); }

// ---- a warp -----------------------------------------------------------------

__global__ void tree_of_a_warp(int *out) {
    __shared__ int s[64];
    int lane = TID % 32, *mine = s + TID / 32 * 32;
    mine[lane] = TID;
    __syncwarp();
    for (int half = 16; half; half /= 2) {
        int v = lane < half ? mine[lane + half] : 0;
        __syncwarp();
        if (lane < half) mine[lane] += v;
        __syncwarp();
    }
    if (lane == 0) out[TID / 32] = mine[0];
}
CASE(tree_of_a_warp) { tree_of_a_warp<<<1, 64>>>(memory); }

__global__ void read_by_many(int *out) {
    __shared__ int s;
    if (TID == 0) s = 1;
    __syncwarp();
    for (int i = 0; i < 4; i++) {
        out[TID] += s;
        __syncwarp();
        if (TID == i) s = i;
        __syncwarp();
    }
}
CASE(read_by_many) { read_by_many<<<1, 32>>>(memory); }

__global__ void half_warps(int *out) {
    __shared__ int s[64];
    auto tile = cg::tiled_partition<16>(cg::this_thread_block());
    int *mine = s + TID / 16 * 16, lane = (int)tile.thread_rank();
    mine[lane] = TID;
    tile.sync();
    int sum = mine[15 - lane];
    tile.sync();
    if (lane == 0) mine[3] = 7;
    tile.sync();
    out[TID] = sum + mine[3];
}
CASE(half_warps) { half_warps<<<1, 64>>>(memory); }

__global__ void partial_masks(int *out) {
    __shared__ int s[32];
    s[TID] = 0;
    __syncwarp();
    if (TID < 12) {
        s[TID] = TID;
        int v = __shfl_down_sync(0xfff, TID, 1); // it waits for these lanes
        s[11 - TID] += v;
    }
    __syncwarp();
    out[TID] = s[31 - TID];
}
CASE(partial_masks) { partial_masks<<<1, 32>>>(memory); }

__global__ void ended_lanes(int *out) {
    __shared__ int s[32];
    s[TID] = TID;
    if (TID >= 20) return;
    __syncwarp();
    out[TID] = s[31 - TID];
}
CASE(ended_lanes) { ended_lanes<<<1, 32>>>(memory); }

__global__ void lock_step(int *out) { // code as before 2017
    __shared__ int s[256];
    s[TID] = TID;
    __syncthreads();
    for (int half = 128; half > 32; half /= 2) {
        if (TID < half) s[TID] += s[TID + half];
        __syncthreads();
    }
    if (TID < 32) {
        volatile int *v = s;
        v[TID] += v[TID + 32];
        v[TID] += v[TID + 16];
        v[TID] += v[TID + 8];
        v[TID] += v[TID + 4];
        v[TID] += v[TID + 2];
        v[TID] += v[TID + 1];
    }
    if (TID == 0) out[blockIdx.x] = s[0];
}
CASE(lock_step) { lock_step<<<2, 256>>>(memory); }

__global__ void vote(int *out) {
    __shared__ int s[32];
    s[TID] = TID;
    if (__any_sync(~0u, TID == 5)) out[TID] = s[31 - TID];
}
CASE(vote) { vote<<<1, 32>>>(memory); }

__global__ void coalesced(int *out) {
    __shared__ int s[32];
    if (TID % 2) {
        auto group = cg::coalesced_threads();
        s[group.thread_rank()] = TID;
        group.sync();
        out[TID] = s[group.size() - 1 - group.thread_rank()];
    }
}
CASE(coalesced) { coalesced<<<1, 32>>>(memory); }

// ---- threads of a block that wait for some others ---------------------------

__global__ void barrier_object(int *out) {
    __shared__ cuda::barrier<cuda::thread_scope_block> bar;
    __shared__ int s[128];
    if (TID == 0) init(&bar, blockDim.x);
    __syncthreads();
    for (int i = 0; i < 3; i++) {
        s[TID] = TID + i;
        bar.arrive_and_wait();
        out[blockIdx.x * 128 + TID] += s[127 - TID];
        bar.arrive_and_wait();
    }
}
CASE(barrier_object) { barrier_object<<<2, 128>>>(memory); }

struct Total {
    int *s;
    __device__ void operator()() { // all threads have written before
        int sum = 0;
        for (int i = 0; i < 64; i++) sum += s[i];
        s[64] = sum;
    }
};
__global__ void barrier_that_completes(int *out) {
    __shared__ cuda::barrier<cuda::thread_scope_block, Total> bar;
    __shared__ int s[65];
    if (TID == 0) init(&bar, 64, Total{s});
    __syncthreads();
    for (int i = 0; i < 5; i++) {
        s[TID] = TID + i;
        bar.arrive_and_wait();
        out[TID] = s[64] + s[63 - TID];
        auto token = bar.arrive();
        while (!bar.try_wait(static_cast<decltype(token) &&>(token)));
    }
}
CASE(barrier_that_completes) { barrier_that_completes<<<1, 64>>>(memory); }

__global__ void producer(int *out) { // warp 0 fills s, and the others read it
    __shared__ cuda::barrier<cuda::thread_scope_block> full, empty;
    __shared__ int s[32];
    if (TID == 0) init(&full, 128), init(&empty, 128);
    __syncthreads();
    for (int i = 0; i < 4; i++)
        if (TID < 32) {
            s[TID] = i * 100 + TID;
            (void)full.arrive();
            empty.arrive_and_wait();
        } else {
            full.arrive_and_wait();
            out[blockIdx.x * 128 + TID] += s[TID % 32] + s[31 - TID % 32];
            (void)empty.arrive();
        }
}
CASE(producer) { producer<<<2, 128>>>(memory); }

__global__ void flag_in_block(int *out) {
    __shared__ int data;
    __shared__ volatile int flag;
    if (TID == 0) flag = 0;
    __syncthreads();
    if (TID == 0) {
        data = 42;
        __threadfence_block();
        flag = 1;
    } else if (TID == 64) {
        while (flag == 0) {
        }
        __threadfence_block();
        out[blockIdx.x] = data;
    }
}
CASE(flag_in_block) { flag_in_block<<<2, 96>>>(memory); }

__global__ void ticket_in_block(int *out) {
    __shared__ int count, parts[4];
    if (TID == 0) count = 0;
    __syncthreads();
    if (TID % 32 == 0) {
        parts[TID / 32] = TID;
        __threadfence_block();
        if (atomicAdd(&count, 1) == 3) {
            for (int i = 0; i < 4; i++) out[blockIdx.x] += parts[i];
            count = 0;
        }
    }
}
CASE(ticket_in_block) { ticket_in_block<<<2, 128>>>(memory); }

__global__ void big_tiles(int *out) {
    __shared__ int s[128];
    __shared__ cg::block_tile_memory<128> scratch;
    auto block = cg::this_thread_block(scratch);
    auto tile = cg::tiled_partition<64>(block);
    int *mine = s + TID / 64 * 64, rank = (int)tile.thread_rank();
    mine[rank] = TID;
    tile.sync();
    out[blockIdx.x * 128 + TID] = mine[63 - rank] + tile.shfl_xor(TID, 32);
}
CASE(big_tiles) { big_tiles<<<2, 128>>>(memory); }

// ---- blocks -----------------------------------------------------------------

__global__ void last_block(int *m, int *parts, int *count) {
    __shared__ int s[64];
    __shared__ bool last;
    s[TID] = TID;
    __syncthreads();
    for (int half = 32; half; half /= 2) {
        if (TID < half) s[TID] += s[TID + half];
        __syncthreads();
    }
    if (TID == 0) {
        parts[blockIdx.x] = s[0];
        __threadfence();
        last = atomicAdd(count, 1) == (int)gridDim.x - 1;
    }
    __syncthreads();
    if (last && TID == 0) {
        for (int i = 0; i < (int)gridDim.x; i++) m[0] += parts[i];
        *count = 0; // prepares the next launch
    }
}
CASE(last_block) {
    last_block<<<16, 64>>>(memory, memory + 64, memory + 32);
    last_block<<<16, 64>>>(memory, memory + 64, memory + 32);
}

__global__ void all_fence(int *m) { // all threads write and fence; one counts
    __shared__ bool last;
    int *parts = m + 1024;
    parts[blockIdx.x * 64 + TID] = TID;
    __threadfence();
    __syncthreads();
    if (TID == 0) last = atomicAdd(m + 32, 1) == (int)gridDim.x - 1;
    __syncthreads();
    if (last)
        for (int i = TID; i < 64 * (int)gridDim.x; i += 64)
            atomicAdd(m, parts[i]);
}
CASE(all_fence) { all_fence<<<8, 64>>>(memory); }

__global__ void warp_fence(int *m) { // the same within a warp
    int *parts = m + 1024;
    parts[blockIdx.x * 32 + TID] = TID;
    __threadfence();
    __syncwarp();
    int ticket = TID ? 0 : atomicAdd(m + 32, 1);
    if (__shfl_sync(~0u, ticket, 0) == (int)gridDim.x - 1)
        for (int i = TID; i < 32 * (int)gridDim.x; i += 32)
            atomicAdd(m, parts[i]);
}
CASE(warp_fence) { warp_fence<<<8, 32>>>(memory); }

__global__ void volatile_flag(int *m) {
    volatile int *flag = m + 8;
    if (blockIdx.x == 0 && TID == 0) {
        m[0] = 42;
        __threadfence();
        *flag = 1;
    }
    if (blockIdx.x == 1) {
        if (TID == 0)
            while (*flag == 0) {
            }
        __syncthreads();
        m[64 + TID] = m[0];
    }
}
CASE(volatile_flag) { volatile_flag<<<2, 32>>>(memory); }

__global__ void spin_lock(int *m) {
    if (TID == 0) {
        while (atomicCAS(m + 32, 0, 1) != 0) {
        }
        __threadfence();
        m[0] += 1;
        m[1] = m[0] * 2;
        __threadfence();
        atomicExch(m + 32, 0);
    }
}
CASE(spin_lock) { spin_lock<<<16, 32>>>(memory); }

__global__ void lock_of_every_thread(int *m) {
    for (bool done = false; !done;)
        if (atomicCAS(m + 32, 0, 1) == 0) {
            m[0] += 1;
            __threadfence();
            atomicExch(m + 32, 0);
            done = true;
        }
}
CASE(lock_of_every_thread) { lock_of_every_thread<<<2, 48>>>(memory); }

__global__ void tickets(int *m) { // blocks are served in turn
    if (TID) return;
    int mine = atomicAdd(m + 32, 1);
    volatile int *serving = m + 64;
    while (*serving != mine) {
    }
    m[0] = m[0] * 3 + mine;
    __threadfence();
    *serving = mine + 1;
}
CASE(tickets) { tickets<<<8, 32>>>(memory); }

__global__ void look_back(int *m) { // a scan in one pass
    __shared__ int before, block;
    int *sums = m + 64;
    volatile int *state = m + 128;
    if (TID == 0) block = atomicAdd(m + 32, 1);
    __syncthreads();
    if (TID == 0) {
        sums[block] = block + 1;
        __threadfence();
        state[block] = 1;
        int sum = 0;
        for (int b = block - 1; b >= 0; b--) {
            while (state[b] == 0) {
            }
            __threadfence();
            sum += sums[b];
        }
        before = sum;
    }
    __syncthreads();
    m[1024 + block * 32 + TID] = before + TID;
}
CASE(look_back) { look_back<<<12, 32>>>(memory); }

__global__ void chain(int *m) { // each block continues where the last one ended
    volatile int *flag = m + 64;
    if (TID) return;
    int me = atomicAdd(m + 32, 1);
    if (me) {
        while (flag[me - 1] == 0) {
        }
        __threadfence();
    }
    m[256] += 1; // all previous blocks have written this
    if (me == 7) m[257] = m[300];
    if (me == 0) m[300] = 5;
    __threadfence();
    flag[me] = 1;
}
CASE(chain) { chain<<<8, 32>>>(memory); }

__global__ void acquire_release(int *m) {
    cuda::atomic_ref<int, cuda::thread_scope_device> flag(m[32]);
    if (blockIdx.x == 0) {
        m[TID] = TID;
        __syncthreads();
        if (TID == 0) flag.store(1, cuda::memory_order_release);
    } else {
        if (TID == 0)
            while (flag.load(cuda::memory_order_acquire) == 0) {
            }
        __syncthreads();
        m[64 + TID] = m[31 - TID];
    }
}
CASE(acquire_release) { acquire_release<<<2, 32>>>(memory); }

__global__ void fence_object(int *m) {
    cuda::atomic_ref<int, cuda::thread_scope_device> flag(m[32]);
    if (TID) return;
    if (blockIdx.x == 0) {
        m[0] = 42;
        cuda::atomic_thread_fence(cuda::memory_order_release,
                                  cuda::thread_scope_device);
        flag.store(1, cuda::memory_order_relaxed);
    } else {
        while (flag.load(cuda::memory_order_relaxed) == 0) {
        }
        cuda::atomic_thread_fence(cuda::memory_order_acquire,
                                  cuda::thread_scope_device);
        m[64] = m[0];
    }
}
CASE(fence_object) { fence_object<<<2, 32>>>(memory); }

__global__ void grid_wide(int *m) {
    cg::grid_group grid = cg::this_grid();
    int i = (int)grid.thread_rank(), n = (int)grid.size();
    for (int round = 0; round < 3; round++) {
        m[i] = round;
        grid.sync();
        m[1024 + i] += m[(i + 64) % n];
        grid.sync();
    }
}
CASE(grid_wide) {
    void *args[] = {&memory};
    cudaLaunchCooperativeKernel((void *)grid_wide, 3, 64, args, 0, 0);
}

__global__ void histogram(int *m) {
    __shared__ int bins[16];
    if (TID < 16) bins[TID] = 0;
    __syncthreads();
    atomicAdd(&bins[TID * 7 % 16], 1);
    __syncthreads();
    if (TID < 16) atomicAdd(m + TID, bins[TID]);
}
CASE(histogram) { histogram<<<8, 128>>>(memory); }

__global__ void mixed_atomics(float *m) {
    atomicAdd(m, 1.0f);
    atomicMax((int *)m + 1, TID);
    atomicCAS((int *)m + 2, 0, 1);
    atomicExch((int *)m + 3, TID);
}
CASE(mixed_atomics) { mixed_atomics<<<4, 64>>>((float *)memory); }

__device__ int counter;
__device__ int table[256];
__global__ void device_variables(int *out) {
    table[blockIdx.x * 64 + TID] = TID;
    if (TID == 0) atomicAdd(&counter, 1);
}
__global__ void read_variables(int *out) {
    out[blockIdx.x * 64 + TID] = table[255 - TID] + counter;
}
CASE(device_variables) {
    device_variables<<<4, 64>>>(memory);
    read_variables<<<4, 64>>>(memory);
}

__global__ void own_heap(int *out) { // other threads reuse freed memory
    int *mine = (int *)malloc(64);
    for (int i = 0; i < 16; i++) mine[i] = TID;
    out[blockIdx.x * 32 + TID] = mine[7];
    free(mine);
}
CASE(own_heap) { own_heap<<<8, 32>>>(memory); }

__global__ void read_only(const int *x, int *out) {
    int sum = 0;
    for (int i = 0; i < 64; i++) sum += x[i];
    out[blockIdx.x * 64 + TID] = sum;
}
CASE(read_only) { read_only<<<8, 64>>>(memory, memory + 1024); }
