/* warps.cu -- correct cooperation of the lanes of a warp. */
#include "../cases.h"

enum { N = 64 };

static int sum_of(int first, int count) {
    int sum = 0;
    for (int i = first; i < first + count; i++) sum += value_at(i);
    return sum;
}

__global__ void old_style(int *out, const int *x) {
    __shared__ volatile int s[N];
    const int t = threadIdx.x;
    s[t] = x[t];
    __syncthreads();
    if (t < 32) {
        s[t] += s[t + 32];
        s[t] += s[t + 16];
        s[t] += s[t + 8];
        s[t] += s[t + 4];
        s[t] += s[t + 2];
        s[t] += s[t + 1];
    }
    if (t == 0) *out = s[0];
}
CASE(volatile_warp_synchronous) {
    int *out = unwritten<int>(1);
    old_style<<<1, N>>>(out, values<int>(N));
    return equal(out, 1, [](int) { return sum_of(0, N); });
}

template <int SIZE> __device__ void warp_reduce(volatile int *s, int t) {
    if (SIZE >= 64) s[t] += s[t + 32];
    if (SIZE >= 32) s[t] += s[t + 16];
    if (SIZE >= 16) s[t] += s[t + 8];
    if (SIZE >= 8) s[t] += s[t + 4];
    if (SIZE >= 4) s[t] += s[t + 2];
    if (SIZE >= 2) s[t] += s[t + 1];
}
__global__ void old_style_function(int *out, const int *x) {
    extern __shared__ int dyn[];
    const int t = threadIdx.x;
    dyn[t] = x[blockIdx.x * 128 + t] + x[blockIdx.x * 128 + t + N];
    __syncthreads();
    if (t < 32) warp_reduce<N>(dyn, t);
    if (t == 0) out[blockIdx.x] = dyn[0];
}
CASE(volatile_warp_synchronous_in_a_template) {
    int *out = unwritten<int>(2);
    old_style_function<<<2, N, N * sizeof(int)>>>(out, values<int>(256));
    return equal(out, 2, [](int b) { return sum_of(128 * b, 128); });
}

__global__ void tree(int *out, const int *x) {
    __shared__ int s[32];
    const int lane = threadIdx.x;
    s[lane] = x[lane];
    __syncwarp();
    for (int step = 16; step; step /= 2) {
        if (lane < step) s[lane] += s[lane + step];
        __syncwarp();
    }
    if (lane == 0) *out = s[0];
}
CASE(a_tree_with_syncwarp) {
    int *out = unwritten<int>(1);
    tree<<<1, 32>>>(out, values<int>(32));
    return equal(out, 1, [](int) { return sum_of(0, 32); });
}

__global__ void tree_of_values(int *out, const int *x) {
    __shared__ int s[32];
    const int lane = threadIdx.x;
    int v = x[lane];
    s[lane] = v;
    __syncwarp();
    v += s[(lane + 16) % 32], __syncwarp();
    s[lane] = v, __syncwarp();
    v += s[(lane + 8) % 32], __syncwarp();
    s[lane] = v, __syncwarp();
    v += s[(lane + 4) % 32], __syncwarp();
    s[lane] = v, __syncwarp();
    v += s[(lane + 2) % 32], __syncwarp();
    s[lane] = v, __syncwarp();
    v += s[(lane + 1) % 32];
    if (lane == 0) *out = v;
}
CASE(reads_and_writes_in_turn) {
    int *out = unwritten<int>(1);
    tree_of_values<<<1, 32>>>(out, values<int>(32));
    return equal(out, 1, [](int) { return sum_of(0, 32); });
}

__global__ void tail(int *out, const int *x, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned mask = __ballot_sync(~0u, i < n);
    if (i >= n) return;
    int sum = x[i];
    for (int step = 16; step; step /= 2) {
        const int other = __shfl_down_sync(mask, sum, step);
        if (threadIdx.x % 32 + step < __popc(mask)) sum += other;
    }
    if (threadIdx.x % 32 == 0) atomicAdd(out, sum);
}
CASE(shuffles_of_the_tail) {
    int *out = zeros<int>(1);
    tail<<<2, N>>>(out, values<int>(83), 83);
    return equal(out, 1, [](int) { return sum_of(0, 83); });
}

__global__ void groups_of_8(int *out, const int *x) {
    const int lane = threadIdx.x % 32;
    if (lane >= 24) return;
    int sum = x[threadIdx.x];
    const unsigned mask = 0xffu << lane / 8 * 8;
    for (int step = 4; step; step /= 2)
        sum += __shfl_xor_sync(mask, sum, step, 8);
    if (lane % 8 == 0) out[threadIdx.x / 32 * 3 + lane / 8] = sum;
}
CASE(trees_within_8_lanes) {
    int *out = unwritten<int>(6);
    groups_of_8<<<1, N>>>(out, values<int>(N));
    return equal(out, 6,
                 [](int i) { return sum_of(i / 3 * 32 + i % 3 * 8, 8); });
}

__global__ void scan(int *out, const int *x) {
    __shared__ int sums[2];
    const int t = threadIdx.x, lane = t % 32;
    int sum = x[t];
    for (int step = 1; step < 32; step *= 2) {
        const int left = __shfl_up_sync(~0u, sum, step);
        if (lane >= step) sum += left;
    }
    if (lane == 31) sums[t / 32] = sum;
    __syncthreads();
    if (t >= 32) sum += sums[0];
    out[t] = sum;
}
CASE(scan_with_shuffles) {
    int *out = unwritten<int>(N);
    scan<<<1, N>>>(out, values<int>(N));
    return equal(out, N, [](int i) { return sum_of(0, i + 1); });
}

__global__ void compact(int *out, int *count, const int *x, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && x[i] > 15) {
        const unsigned mask = __activemask();
        const int leader = __ffs(mask) - 1, lane = threadIdx.x % 32;
        int place = 0;
        if (lane == leader) place = atomicAdd(count, __popc(mask));
        place = __shfl_sync(mask, place, leader);
        out[place + __popc(mask & ((1u << lane) - 1))] = x[i];
    }
}
CASE(warp_aggregated_atomics) {
    int *out = zeros<int>(200), *count = zeros<int>(1), want = 0, sum = 0,
        got = 0;
    compact<<<4, N>>>(out, count, values<int>(200), 200);
    for (int i = 0; i < 200; i++)
        if (value_at(i) > 15) want++, sum += value_at(i);
    const int *h = fetch(out, 200);
    for (int i = 0; i < 200; i++) got += h[i];
    return got == sum && equal(count, 1, [=](int) { return want; });
}

__global__ void matches(unsigned *out, const int *x) {
    const unsigned same = __match_any_sync(~0u, x[threadIdx.x] % 4);
    if (__ffs(same) - 1 == (int)threadIdx.x) atomicAdd(out, __popc(same));
}
CASE(match_any) {
    unsigned *out = zeros<unsigned>(1);
    matches<<<1, 32>>>(out, values<int>(32));
    return equal(out, 1, [](int) { return 32; });
}

__global__ void through_global(int *x) {
    const int lane = threadIdx.x;
    x[lane] = lane;
    __syncwarp();
    const int other = x[31 - lane];
    __syncwarp();
    x[lane] = 2 * other;
}
CASE(a_warp_through_global_memory) {
    int *x = unwritten<int>(32);
    through_global<<<1, 32>>>(x);
    return equal(x, 32, [](int i) { return 2 * (31 - i); });
}

__global__ void shuffle_orders(int *out) {
    __shared__ int s[32];
    const int lane = threadIdx.x;
    s[lane] = lane * lane;
    const int shift = __shfl_sync(~0u, lane, 5); // also synchronizes the warp
    out[lane] = s[(lane + shift) % 32];
}
CASE(a_shuffle_between_store_and_load) {
    int *out = unwritten<int>(32);
    shuffle_orders<<<1, 32>>>(out);
    return equal(out, 32, [](int i) { return (i + 5) % 32 * ((i + 5) % 32); });
}

__global__ void each_warp_its_own(int *out, const int *x) {
    __shared__ int s[4][32];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int k = 0; k < 3; k++) {
        s[warp][lane] = x[k * 128 + threadIdx.x];
        __syncwarp();
        if (lane == 0) {
            int sum = 0;
            for (int i = 0; i < 32; i++) sum += s[warp][i];
            out[k * 4 + warp] = sum;
        }
        __syncwarp();
    }
}
CASE(each_warp_its_own_tile) {
    int *out = unwritten<int>(12);
    each_warp_its_own<<<1, 128>>>(out, values<int>(3 * 128));
    return equal(out, 12, [](int i) { return sum_of(32 * i, 32); });
}

__global__ void divergent(int *out, const int *x) {
    const int lane = threadIdx.x;
    int sum = x[lane];
    if (lane < 16) {
        for (int step = 8; step; step /= 2)
            sum += __shfl_xor_sync(0xffff, sum, step);
    } else {
        for (int step = 8; step; step /= 2)
            sum -= __shfl_xor_sync(0xffff0000, sum, step);
    }
    __syncwarp();
    out[lane] = sum;
}
CASE(two_branches_with_masks_of_their_own) {
    int *out = unwritten<int>(32);
    divergent<<<1, 32>>>(out, values<int>(32));
    return equal(out, 16, [](int) { return sum_of(0, 16); });
}

__global__ void block_reduce(float *out, const float *x, int n) {
    __shared__ float sums[32];
    const int t = threadIdx.x, lane = t % 32, warp = t / 32;
    float sum = 0;
    for (int i = t; i < n; i += blockDim.x) sum += x[i];
    for (int step = 16; step; step /= 2)
        sum += __shfl_down_sync(~0u, sum, step);
    if (lane == 0) sums[warp] = sum;
    __syncthreads();
    sum = t < blockDim.x / 32 ? sums[lane] : 0;
    if (warp == 0)
        for (int step = 16; step; step /= 2)
            sum += __shfl_down_sync(~0u, sum, step);
    if (t == 0) *out = sum;
}
CASE(warps_then_block) {
    float *out = unwritten<float>(1);
    block_reduce<<<1, 128>>>(out, values<float>(500), 500);
    return equal(out, 1, [](int) { return sum_of(0, 500); });
}

__global__ void softmax(float *out, const float *x, int cols) {
    __shared__ float shared[2];
    const int t = threadIdx.x, row = blockIdx.x;
    float largest = -INFINITY;
    for (int i = t; i < cols; i += 32)
        largest = fmaxf(largest, x[row * cols + i]);
    for (int step = 16; step; step /= 2)
        largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, step));
    if (t == 0) shared[0] = largest;
    __syncwarp();
    float sum = 0;
    for (int i = t; i < cols; i += 32)
        sum += expf(x[row * cols + i] - shared[0]);
    for (int step = 16; step; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
    if (t == 31) shared[1] = sum;
    __syncwarp();
    for (int i = t; i < cols; i += 32)
        out[row * cols + i] = expf(x[row * cols + i] - shared[0]) / shared[1];
}
CASE(softmax_of_rows) {
    float *out = unwritten<float>(3 * 70);
    softmax<<<3, 32>>>(out, values<float>(3 * 70), 70);
    const float *h = fetch(out, 3 * 70);
    for (int row = 0; row < 3; row++) {
        double sum = 0;
        for (int i = 0; i < 70; i++) sum += h[row * 70 + i];
        if (!(sum > 0.999 && sum < 1.001)) return false;
    }
    return true;
}

__global__ void layer_norm(float *out, const float *x, int cols) {
    __shared__ float sums[4], squares[4];
    const int t = threadIdx.x, lane = t % 32, warp = t / 32, row = blockIdx.x;
    float sum = 0, square = 0;
    for (int i = t; i < cols; i += blockDim.x) {
        const float v = x[row * cols + i];
        sum += v, square += v * v;
    }
    for (int step = 16; step; step /= 2) {
        sum += __shfl_xor_sync(~0u, sum, step);
        square += __shfl_xor_sync(~0u, square, step);
    }
    if (lane == 0) sums[warp] = sum, squares[warp] = square;
    __syncthreads();
    sum = square = 0;
    for (int i = 0; i < blockDim.x / 32; i++)
        sum += sums[i], square += squares[i];
    const float mean = sum / cols, variance = square / cols - mean * mean;
    for (int i = t; i < cols; i += blockDim.x)
        out[row * cols + i] =
            (x[row * cols + i] - mean) * rsqrtf(variance + 1e-5f);
}
CASE(layer_norm_of_rows) {
    float *out = unwritten<float>(2 * 100);
    layer_norm<<<2, 128>>>(out, values<float>(2 * 100), 100);
    const float *h = fetch(out, 2 * 100);
    double sum = 0, square = 0;
    for (int i = 0; i < 100; i++) sum += h[i], square += h[i] * h[i];
    return sum > -0.01 && sum < 0.01 && square > 99 && square < 101;
}

__global__ void pairs_and_rows(int *out) {
    const int lane = threadIdx.x;
    int sum = lane;
    if (lane == 0 || lane == 16) sum += __shfl_sync(0x10001, sum, 16 - lane);
    if (lane == 1 || lane == 2) sum += __shfl_sync(0x6, sum, 3 - lane);
    if (lane < 2) sum += __shfl_sync(0x3, sum, 1 - lane);
    out[lane] = sum;
}
CASE(masks_that_overlap) {
    int *out = unwritten<int>(32);
    pairs_and_rows<<<1, 32>>>(out);
    return equal(out, 32, [](int i) {
        return i < 2 ? 19 : i == 2 ? 3 : i == 16 ? 16 : i;
    });
}

__global__ void those_who_stay(int *out, int n) {
    const int lane = threadIdx.x;
    if (lane >= n) return;
    int sum = lane;
    for (int step = 1; step < 32; step *= 2) {
        const int other = __shfl_up_sync(~0u, sum, step);
        if (lane >= step) sum += other;
    }
    __syncwarp();
    out[lane] = sum;
}
CASE(a_full_mask_where_some_have_returned) {
    int *out = zeros<int>(32);
    those_who_stay<<<1, 32>>>(out, 20);
    return equal(out, 32, [](int i) { return i < 20 ? i * (i + 1) / 2 : 0; });
}
