/* grids.cu -- correct cooperation of the blocks of a grid. */
#include <cooperative_groups.h>

#include "../cases.h"

namespace cg = cooperative_groups;

enum { N = 64 };

static int sum_of(int count) {
    int sum = 0;
    for (int i = 0; i < count; i++) sum += value_at(i);
    return sum;
}

// ---- the last block sums up ----

__device__ unsigned finished;
__global__ void fence_reduction(int *out, int *part, const int *x, int n) {
    __shared__ int s[N];
    __shared__ bool last;
    const int t = threadIdx.x, i = blockIdx.x * N + t;
    s[t] = i < n ? x[i] : 0;
    __syncthreads();
    for (int step = N / 2; step; step /= 2) {
        if (t < step) s[t] += s[t + step];
        __syncthreads();
    }
    if (t == 0) {
        part[blockIdx.x] = s[0];
        __threadfence();
        const unsigned ticket = atomicInc(&finished, gridDim.x);
        last = ticket == gridDim.x - 1;
    }
    __syncthreads();
    if (last) {
        int sum = 0;
        for (int b = t; b < gridDim.x; b += N) sum += part[b];
        s[t] = sum;
        __syncthreads();
        for (int step = N / 2; step; step /= 2) {
            if (t < step) s[t] += s[t + step];
            __syncthreads();
        }
        if (t == 0) *out = s[0], finished = 0; // prepares the next launch
    }
}
CASE(last_block_reduction) {
    int *out = unwritten<int>(1), *part = unwritten<int>(5);
    for (int i = 0; i < 2; i++)
        fence_reduction<<<5, N>>>(out, part, values<int>(300), 300);
    return equal(out, 1, [](int) { return sum_of(300); });
}

__global__ void all_fence(int *out, int *part, unsigned *done) {
    __shared__ unsigned ticket;
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    part[i] = 3 * i;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) ticket = atomicAdd(done, 1);
    __syncthreads();
    if (ticket == gridDim.x - 1)
        for (int k = threadIdx.x; k < gridDim.x * blockDim.x; k += blockDim.x)
            out[k] = part[k];
}
CASE(every_thread_fences_one_takes_the_ticket) {
    int *out = unwritten<int>(4 * 16), *part = unwritten<int>(4 * 16);
    all_fence<<<4, 16>>>(out, part, zeros<unsigned>(1));
    return equal(out, 4 * 16, [](int i) { return 3 * i; });
}

__global__ void barrier_then_fence(int *out, int *part, unsigned *done) {
    __shared__ bool last;
    part[blockIdx.x * 16 + threadIdx.x] = threadIdx.x;
    __syncthreads();
    if (threadIdx.x == 0) { // its fence covers writes before the barrier
        __threadfence();
        last = atomicAdd(done, 1) == gridDim.x - 1;
        __threadfence();
    }
    __syncthreads();
    if (last && threadIdx.x == 1) {
        int sum = 0;
        for (int k = 0; k < gridDim.x * 16; k++) sum += part[k];
        *out = sum;
    }
}
CASE(one_thread_fences_for_its_block) {
    int *out = unwritten<int>(1), *part = unwritten<int>(4 * 16);
    barrier_then_fence<<<4, 16>>>(out, part, zeros<unsigned>(1));
    return equal(out, 1, [](int) { return 4 * 120; });
}

// ---- locks, tickets and flags ----

__global__ void spin_lock(int *lock, int *sum) {
    if (threadIdx.x == 0) {
        while (atomicCAS(lock, 0, 1)) __nanosleep(20);
        __threadfence();
        *sum += blockIdx.x + 1;
        __threadfence();
        atomicExch(lock, 0);
    }
}
CASE(a_lock_for_each_blocks_leader) {
    int *sum = zeros<int>(1);
    spin_lock<<<6, 32>>>(zeros<int>(1), sum);
    return equal(sum, 1, [](int) { return 21; });
}

__global__ void lock_of_lanes(int *lock, int *sum) {
    bool done = false;
    while (!done) {
        if (atomicCAS(lock, 0, 1) == 0) {
            __threadfence();
            *sum += 1;
            __threadfence();
            atomicExch(lock, 0);
            done = true;
        }
    }
}
CASE(a_lock_for_every_lane) {
    int *sum = zeros<int>(1);
    lock_of_lanes<<<2, 32>>>(zeros<int>(1), sum);
    return equal(sum, 1, [](int) { return 64; });
}

__global__ void volatile_lock(int *lock, volatile int *sum) {
    if (threadIdx.x) return;
    while (atomicExch(lock, 1)) __nanosleep(20);
    __threadfence();
    *sum = *sum + 1;
    __threadfence();
    *(volatile int *)lock = 0;
}
CASE(a_lock_that_a_plain_store_opens) {
    int *sum = zeros<int>(1);
    volatile_lock<<<5, 32>>>(zeros<int>(1), sum);
    return equal(sum, 1, [](int) { return 5; });
}

__global__ void in_turn(unsigned *next, unsigned *serving, int *order) {
    const unsigned mine = atomicAdd(next, 1);
    while (atomicAdd(serving, 0) != mine) __nanosleep(20);
    __threadfence();
    order[0] = order[0] * 2 % 1000 + 1;
    __threadfence();
    atomicAdd(serving, 1);
}
CASE(a_ticket_lock) {
    int *order = zeros<int>(1), want = 0;
    for (int i = 0; i < 8; i++) want = want * 2 % 1000 + 1;
    in_turn<<<8, 1>>>(zeros<unsigned>(1), zeros<unsigned>(1), order);
    return equal(order, 1, [=](int) { return want; });
}

__global__ void hand_over(int *data, volatile int *flag, int *out) {
    const int b = blockIdx.x;
    if (b) {
        while (!flag[b - 1]) __nanosleep(20);
        __threadfence();
        data[b] = data[b - 1] + b;
    } else {
        data[0] = 5;
    }
    __threadfence();
    flag[b] = 1;
    if (b == gridDim.x - 1) *out = data[b];
}
CASE(flags_from_block_to_block) {
    int *out = unwritten<int>(1);
    hand_over<<<4, 1>>>(unwritten<int>(4), zeros<int>(4), out);
    return equal(out, 1, [](int) { return 11; });
}

__global__ void within_a_block(int *out) {
    __shared__ volatile int ready;
    __shared__ int data[32];
    const int t = threadIdx.x;
    if (t == 0) ready = 0;
    __syncthreads();
    if (t < 32) {
        data[t] = t * t;
        __syncwarp();
        __threadfence_block();
        if (t == 0) ready = 1;
    } else {
        while (!ready);
        __threadfence_block();
        out[t - 32] = data[63 - t];
    }
}
CASE(a_flag_from_warp_to_warp) {
    int *out = unwritten<int>(32);
    within_a_block<<<1, N>>>(out);
    return equal(out, 32, [](int i) { return (31 - i) * (31 - i); });
}

// ---- decoupled look-back ----

enum { EMPTY, PART, WHOLE };
__global__ void look_back(int *out, const int *x, int *part, int *whole,
                          volatile int *state, unsigned *ticket) {
    __shared__ int block, before;
    const int t = threadIdx.x;
    if (t == 0) block = atomicAdd(ticket, 1);
    __syncthreads();
    const int i = block * 32 + t;
    int sum = x[i];
    for (int step = 1; step < 32; step *= 2) {
        const int left = __shfl_up_sync(~0u, sum, step);
        if (t >= step) sum += left;
    }
    if (t == 31) {
        part[block] = sum;
        __threadfence();
        state[block] = PART;
        int earlier = 0;
        for (int b = block - 1; b >= 0; b--) {
            int seen;
            while ((seen = state[b]) == EMPTY);
            __threadfence();
            earlier += seen == WHOLE ? whole[b] : part[b];
            if (seen == WHOLE) break;
        }
        whole[block] = earlier + sum;
        __threadfence();
        state[block] = WHOLE;
        before = earlier;
    }
    __syncthreads();
    out[i] = before + sum;
}
CASE(look_back_scan) {
    int *out = unwritten<int>(192);
    look_back<<<6, 32>>>(out, values<int>(192), unwritten<int>(6),
                         unwritten<int>(6), zeros<int>(6), zeros<unsigned>(1));
    return equal(out, 192, [](int i) { return sum_of(i + 1); });
}

__global__ void packed_look_back(int *out, const int *x,
                                 unsigned long long *state, unsigned *ticket) {
    const int block = atomicAdd(ticket, 1);
    const int sum = x[block];
    atomicExch(&state[block],
               1ull << 32 | (unsigned)sum); // flag and value in one number
    int before = 0;
    for (int b = block - 1; b >= 0;) {
        const unsigned long long seen = atomicAdd(&state[b], 0ull);
        if (seen >> 32 == 0) continue;
        before += (int)seen;
        if (seen >> 32 == 2) break;
        b--;
    }
    atomicExch(&state[block], 2ull << 32 | (unsigned)(before + sum));
    out[block] = before + sum;
}
CASE(look_back_scan_in_one_word) {
    int *out = unwritten<int>(12);
    packed_look_back<<<12, 1>>>(out, values<int>(12),
                                zeros<unsigned long long>(12),
                                zeros<unsigned>(1));
    return equal(out, 12, [](int i) { return sum_of(i + 1); });
}

__global__ void volatile_words(int *out, const int *x,
                               volatile unsigned long long *state) {
    const int block = blockIdx.x;
    unsigned long long before = 1ull << 32;
    if (block)
        while (!((before = state[block - 1]) >> 32));
    const unsigned sum = (unsigned)before + x[block];
    state[block] = 1ull << 32 | sum;
    out[block] = sum;
}
CASE(a_chain_of_volatile_words) {
    int *out = unwritten<int>(6);
    volatile_words<<<6, 1>>>(out, values<int>(6), zeros<unsigned long long>(6));
    return equal(out, 6, [](int i) { return sum_of(i + 1); });
}

// ---- barriers of the whole grid ----

__device__ void grid_barrier(unsigned *arrived, unsigned turn) {
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(arrived, 1);
        while (atomicAdd(arrived, 0) < turn * gridDim.x) __nanosleep(20);
        __threadfence();
    }
    __syncthreads();
}
__global__ void ping_pong(int *a, int *b, unsigned *arrived) {
    const int n = gridDim.x * blockDim.x,
              i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int turn = 1; turn <= 4; turn++) {
        b[i] = a[(i + 1) % n];
        grid_barrier(arrived, turn);
        int *c = a;
        a = b, b = c;
    }
}
CASE(a_grid_barrier_by_hand) {
    int *a = values<int>(96), *b = unwritten<int>(96);
    ping_pong<<<3, 32>>>(a, b, zeros<unsigned>(1));
    return equal(a, 96, [](int i) { return value_at((i + 4) % 96); });
}

__global__ void life(unsigned char *a, unsigned char *b, int side, int turns) {
    cg::grid_group grid = cg::this_grid();
    for (int turn = 0; turn < turns; turn++) {
        for (int i = grid.thread_rank(); i < side * side; i += grid.size()) {
            const int row = i / side, col = i % side;
            int alive = 0;
            for (int dy = side - 1; dy <= side + 1; dy++)
                for (int dx = side - 1; dx <= side + 1; dx++)
                    alive += a[(row + dy) % side * side + (col + dx) % side];
            alive -= a[i];
            b[i] = alive == 3 || (alive == 2 && a[i]);
        }
        grid.sync();
        unsigned char *c = a;
        a = b, b = c;
    }
}
CASE(game_of_life_with_grid_sync) {
    int side = 16, turns = 4;
    unsigned char h[256] = {}, *a, *b = unwritten<unsigned char>(256);
    for (int i : {1, 18, 32, 33, 34}) h[i] = 1; // a glider
    cudaMalloc(&a, 256);
    cudaMemcpy(a, h, 256, cudaMemcpyHostToDevice);
    void *args[] = {&a, &b, &side, &turns};
    cudaLaunchCooperativeKernel((void *)life, dim3(2), dim3(32), args, 0, 0);
    return equal(a, 256,
                 [&](int i) { // after four turns, it is one down and one right
                     return h[(i / 16 + 15) % 16 * 16 + (i % 16 + 15) % 16];
                 });
}

__global__ void life_step(const int *a, int *b, int side) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= side * side) return;
    int alive = 0;
    for (int dy = side - 1; dy <= side + 1; dy++)
        for (int dx = side - 1; dx <= side + 1; dx++)
            alive += a[(i / side + dy) % side * side + (i + dx) % side];
    alive -= a[i];
    b[i] = alive == 3 || (alive == 2 && a[i]);
}
CASE(game_of_life_with_two_grids) {
    int h[256] = {}, *a = unwritten<int>(256), *b = unwritten<int>(256);
    for (int i : {1, 18, 32, 33, 34}) h[i] = 1;
    cudaMemcpy(a, h, sizeof h, cudaMemcpyHostToDevice);
    for (int turn = 0; turn < 4; turn++) {
        life_step<<<4, N>>>(turn % 2 ? b : a, turn % 2 ? a : b, 16);
    }
    return equal(a, 256, [&](int i) {
        return h[(i / 16 + 15) % 16 * 16 + (i % 16 + 15) % 16];
    });
}

// ---- atomics ----

__global__ void histogram(unsigned *bins, const int *x, int n) {
    __shared__ unsigned s[32];
    if (threadIdx.x < 32) s[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * N + threadIdx.x; i < n; i += gridDim.x * N)
        atomicAdd(&s[x[i]], 1u);
    __syncthreads();
    if (threadIdx.x < 32) atomicAdd(&bins[threadIdx.x], s[threadIdx.x]);
}
CASE(histogram_in_two_steps) {
    unsigned *bins = zeros<unsigned>(32);
    histogram<<<3, N>>>(bins, values<int>(310), 310);
    return equal(bins, 32, [](int i) { return i ? 10 : 0; });
}

__global__ void flag_by_many(int *found, const int *x, int wanted) {
    if (x[blockIdx.x * blockDim.x + threadIdx.x] == wanted) *found = 1;
}
CASE(blocks_raise_one_flag) {
    int *found = zeros<int>(1);
    flag_by_many<<<4, 32>>>(found, values<int>(128), 7);
    return equal(found, 1, [](int) { return 1; });
}

__global__ void extremes(int *out, const int *x) {
    const int v = x[blockIdx.x * blockDim.x + threadIdx.x];
    atomicMin(&out[0], v);
    atomicMax(&out[1], v);
    atomicOr((unsigned *)&out[2], 1u << v % 8);
    atomicXor(&out[3], v);
    atomicSub(&out[4], v);
}
CASE(other_atomics) {
    int h[5] = {99, 0, 0, 0, 0}, *out = unwritten<int>(5), all = 0;
    cudaMemcpy(out, h, sizeof h, cudaMemcpyHostToDevice);
    extremes<<<3, 32>>>(out, values<int>(96));
    for (int i = 0; i < 96; i++) all ^= value_at(i);
    const int want[] = {1, 31, 255, all, -sum_of(96)};
    return equal(out, 5, [=](int i) { return want[i]; });
}

__global__ void claim(int *slots, int *winner, int n) {
    const int me = blockIdx.x * blockDim.x + threadIdx.x;
    for (int i = me % n;; i = (i + 1) % n)
        if (atomicCAS(&slots[i], -1, me) == -1) {
            winner[i] = me; // only this thread writes here
            return;
        }
}
CASE(places_in_a_hash_table) {
    int *slots = unwritten<int>(N), *winner = unwritten<int>(N), sum = 0;
    cudaMemset(slots, -1, N * sizeof(int));
    claim<<<2, 32>>>(slots, winner, N);
    const int *h = fetch(winner, N);
    for (int i = 0; i < N; i++) sum += h[i];
    return sum == N * (N - 1) / 2;
}

__global__ void disjoint(float *x, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n;
         i += gridDim.x * blockDim.x) {
        x[i] += 1;
        x[i] *= 2;
    }
}
CASE(each_its_own_in_a_grid_stride_loop) {
    float *x = values<float>(300);
    disjoint<<<2, N>>>(x, 300);
    return equal(x, 300, [](int i) { return 2 * (value_at(i) + 1); });
}
