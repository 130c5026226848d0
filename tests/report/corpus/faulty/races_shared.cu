/* races_shared.cu -- races between the threads of a block. */
#include "../cases.h"
#include <cuda_pipeline.h>

enum { N = 64, TILE = 8 };

__global__ void no_first_barrier(float *c, const float *a, const float *b,
                                 int n) {
    __shared__ float a_s[TILE][TILE], b_s[TILE][TILE];
    const int tx = threadIdx.x, ty = threadIdx.y;
    float sum = 0;
    for (int k0 = 0; k0 < n; k0 += TILE) {
        a_s[ty][tx] = a[ty * n + k0 + tx];      // OTHER
        b_s[ty][tx] = b[(k0 + ty) * TILE + tx]; // OTHER
        for (int i = 0; i < TILE; i++)
            sum += a_s[ty][i] * b_s[i][tx]; // FAULT: race
        __syncthreads();
    }
    c[ty * TILE + tx] = sum;
}
CASE(matmul_without_its_first_barrier) {
    float *c = unwritten<float>(N), *a = values<float>(2 * N);
    no_first_barrier<<<1, dim3(TILE, TILE)>>>(c, a, values<float>(2 * N), 16);
    return launched();
}

__global__ void no_second_barrier(float *c, const float *a, const float *b,
                                  int n) {
    __shared__ float a_s[TILE][TILE], b_s[TILE][TILE];
    const int tx = threadIdx.x, ty = threadIdx.y;
    float sum = 0;
    for (int k0 = 0; k0 < n; k0 += TILE) {
        a_s[ty][tx] = a[ty * n + k0 + tx];      // OTHER
        b_s[ty][tx] = b[(k0 + ty) * TILE + tx]; // OTHER
        __syncthreads();
        for (int i = 0; i < TILE; i++)
            sum += a_s[ty][i] * b_s[i][tx]; // FAULT: race
    }
    c[ty * TILE + tx] = sum;
}
CASE(matmul_without_its_second_barrier) {
    float *c = unwritten<float>(N), *a = values<float>(2 * N);
    no_second_barrier<<<1, dim3(TILE, TILE)>>>(c, a, values<float>(2 * N), 16);
    return launched();
}

__global__ void shift(float *out, const float *x) {
    __shared__ float s[N + 1];
    const int t = threadIdx.x;
    s[t] = x[t];
    if (t == 0) s[N] = 0;
    __syncthreads();
    s[t] = s[t + 1]; // FAULT: race, s
    __syncthreads();
    out[t] = s[t];
}
CASE(shift_in_place) {
    shift<<<1, N>>>(unwritten<float>(N), values<float>(N));
    return launched();
}

__global__ void sum_without(float *out, const float *x) {
    __shared__ float s[N];
    const int t = threadIdx.x;
    s[t] = x[t];
    __syncthreads();
    for (int step = N / 2; step; step /= 2)
        if (t < step) s[t] += s[t + step]; // FAULT: race, s
    if (t == 0) *out = s[0];
}
CASE(reduction_without_barriers) {
    sum_without<<<1, N>>>(unwritten<float>(1), values<float>(N));
    return launched();
}

__global__ void lockstep(float *out, const float *x) {
    __shared__ float s[N];
    const int t = threadIdx.x;
    s[t] = x[t];
    __syncthreads();
    if (t < 32) {
        s[t] += s[t + 32]; // OTHER
        s[t] += s[t + 16]; // FAULT: race, s
        s[t] += s[t + 8];  // OTHER
        s[t] += s[t + 4];  // OTHER
        s[t] += s[t + 2];  // OTHER
        s[t] += s[t + 1];  // OTHER
    }
    if (t == 0) *out = s[0];
}
CASE(warp_synchronous_without_volatile) {
    lockstep<<<1, N>>>(unwritten<float>(1), values<float>(N));
    return launched();
}

__global__ void histogram(int *out, const int *x) {
    __shared__ int bins[8];
    const int t = threadIdx.x;
    if (t < 8) bins[t] = 0;
    __syncthreads();
    bins[x[t] % 8]++; // FAULT: race|conflict, bins
    __syncthreads();
    if (t < 8) out[t] = bins[t];
}
CASE(histogram_without_atomics) {
    histogram<<<1, N>>>(unwritten<int>(8), values<int>(N));
    return launched();
}

__global__ void two_buffers(float *out, const float *x, int tiles) {
    __shared__ float s[2][N];
    const int t = threadIdx.x;
    float sum = 0;
    for (int k = 0; k < tiles; k++) {
        s[0][t] = x[k * N + t]; // OTHER
        __syncthreads();
        sum += s[0][N - 1 - t]; // FAULT: race
        s[1][t] = sum;          // its own place: no race
    }
    out[t] = s[1][t];
}
CASE(one_of_two_buffers) {
    two_buffers<<<1, N>>>(unwritten<float>(N), values<float>(4 * N), 4);
    return launched();
}

__global__ void double_buffer(float *out, const float *x, int tiles) {
    __shared__ float s[2][N];
    const int t = threadIdx.x;
    float sum = 0;
    s[0][t] = x[t]; // OTHER
    for (int k = 0; k < tiles; k++) {
        if (k % 2 == 0) __syncthreads(); // meant: in every turn
        if (k + 1 < tiles) s[(k + 1) % 2][t] = x[(k + 1) * N + t]; // OTHER
        sum += s[k % 2][N - 1 - t]; // FAULT: race
    }
    out[t] = sum;
}
CASE(double_buffering_with_half_the_barriers) {
    double_buffer<<<1, N>>>(unwritten<float>(N), values<float>(4 * N), 4);
    return launched();
}

__global__ void exchange(float *out, const float *x) {
    __shared__ float s[32];
    const int lane = threadIdx.x;
    s[lane] = x[lane];       // OTHER
    out[lane] = s[lane ^ 1]; // FAULT: race, s
}
CASE(neighbours_of_one_warp) {
    exchange<<<1, 32>>>(unwritten<float>(32), values<float>(32));
    return launched();
}

__global__ void wrong_width(float *out, const float *x) {
    __shared__ float s[N];
    const int t = threadIdx.x;
    s[t] = x[t]; // OTHER
    __syncwarp();
    out[t] = s[t ^ 32]; // FAULT: race, s
}
CASE(a_warps_barrier_for_two_warps) {
    wrong_width<<<1, N>>>(unwritten<float>(N), values<float>(N));
    return launched();
}

__global__ void half_mask(float *out, const float *x) {
    __shared__ float s[32];
    const int lane = threadIdx.x;
    s[lane] = x[lane]; // OTHER
    __syncwarp(lane < 16 ? 0xffff : 0xffff0000);
    out[lane] = s[lane ^ 16]; // FAULT: race, s
}
CASE(a_barrier_of_each_half_warp) {
    half_mask<<<1, 32>>>(unwritten<float>(32), values<float>(32));
    return launched();
}

struct Cell {
    unsigned char low : 4, high : 4;
};
__global__ void halves_of_a_byte(unsigned char *out) {
    __shared__ Cell cells[16];
    const int t = threadIdx.x;
    if (t < 16) cells[t].low = cells[t].high = 0;
    __syncthreads();
    if (t < 32) {
        if (t % 2)
            cells[t / 2].high = t % 16; // FAULT: race|conflict, cells
        else
            cells[t / 2].low = t % 16; // OTHER
    }
    __syncthreads();
    if (t < 16) out[t] = cells[t].low;
}
CASE(two_bit_fields_of_a_byte) {
    halves_of_a_byte<<<1, N>>>(unwritten<unsigned char>(16));
    return launched();
}

__global__ void set_bits(unsigned *out, const int *x) {
    __shared__ unsigned bits[2];
    const int t = threadIdx.x;
    if (t < 2) bits[t] = 0;
    __syncthreads();
    if (x[t] > 15) bits[t / 32] |= 1u << t % 32; // FAULT: race|conflict, bits
    __syncthreads();
    if (t < 2) out[t] = bits[t];
}
CASE(bits_set_without_atomics) {
    set_bits<<<1, N>>>(unwritten<unsigned>(2), values<int>(N));
    return launched();
}

__global__ void leader(float *out, const float *x) {
    __shared__ float scale;
    const int t = threadIdx.x;
    if (t == 0) scale = x[0]; // OTHER
    out[t] = x[t] * scale;    // FAULT: race, scale
}
CASE(a_leader_without_a_barrier) {
    leader<<<1, N>>>(unwritten<float>(N), values<float>(N));
    return launched();
}

__device__ float block_sum(float value, float *sums) {
    for (int step = 16; step; step /= 2)
        value += __shfl_down_sync(~0u, value, step);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = value; // OTHER
    __syncthreads();
    return sums[0] + sums[1]; // FAULT: race
}
__global__ void variance(float *out, const float *x) {
    __shared__ float sums[2];
    const float mean = block_sum(x[threadIdx.x], sums) / N;
    const float d = x[threadIdx.x] - mean;
    out[threadIdx.x] =
        block_sum(d * d, sums) / N; // its first store is too early
}
CASE(a_block_sum_used_twice) {
    variance<<<1, N>>>(unwritten<float>(N), values<float>(N));
    return launched();
}

__global__ void scan(int *out, const int *x) {
    __shared__ int s[N];
    const int t = threadIdx.x;
    s[t] = x[t];
    __syncthreads();
    for (int step = 1; step < N; step *= 2) {
        if (t >= step) s[t] += s[t - step]; // FAULT: race, s
        __syncthreads();
    }
    out[t] = s[t];
}
CASE(scan_in_place) {
    scan<<<1, N>>>(unwritten<int>(N), values<int>(N));
    return launched();
}

__global__ void bitonic(int *x) {
    __shared__ int s[N];
    const int t = threadIdx.x;
    s[t] = x[t];
    __syncthreads();
    for (int size = 2; size <= N; size *= 2)
        for (int step = size / 2; step; step /= 2) {
            const int other = t ^ step;
            if (other > t) {
                const int a = s[t], b = s[other]; // FAULT: race|conflict, s
                if ((a > b) == !(t & size)) {
                    s[t] = b;     // OTHER
                    s[other] = a; // OTHER
                }
            }
        }
    __syncthreads();
    x[t] = s[t];
}
CASE(bitonic_sort_without_barriers) {
    bitonic<<<1, N>>>(values<int>(N));
    return launched();
}

__global__ void transpose(float *out, const float *a) {
    __shared__ float s[TILE][TILE];
    const int tx = threadIdx.x, ty = threadIdx.y;
    s[ty][tx] = a[ty * TILE + tx];
    __syncthreads();
    s[tx][ty] = s[ty][tx]; // FAULT: race
    __syncthreads();
    out[ty * TILE + tx] = s[ty][tx];
}
CASE(transpose_in_place) {
    transpose<<<1, dim3(TILE, TILE)>>>(unwritten<float>(N), values<float>(N));
    return launched();
}

__global__ void last_flag(int *out) {
    __shared__ int total;
    const int t = threadIdx.x;
    if (t == 0) total = 0;
    __syncthreads();
    atomicAdd(&total, 1);       // OTHER
    if (t == 0) out[0] = total; // FAULT: race, total[0]
}
CASE(a_plain_look_at_a_counter) {
    last_flag<<<1, N>>>(unwritten<int>(1));
    return launched();
}

__global__ void pair(int *out) {
    __shared__ int s[2];
    const int t = threadIdx.x;
    if (t == 3) s[0] = 7;       // OTHER
    if (t == 40) out[0] = s[0]; // FAULT: race, block 0, threads 40 and 3, s[0]
}
CASE(just_two_threads) {
    pair<<<1, N>>>(unwritten<int>(1));
    return launched();
}

__global__ void ids(int *out) {
    __shared__ int who;
    who = threadIdx.x; // FAULT: conflict, who
    __syncthreads();
    out[threadIdx.x] = who;
}
CASE(all_write_their_own_number) {
    ids<<<1, N>>>(unwritten<int>(N));
    return launched();
}

__global__ void wrong_index(float *out, const float *x) {
    __shared__ float s[N];
    const int t = threadIdx.x;
    s[t / 2] = x[t]; // FAULT: conflict, s
    __syncthreads();
    if (t < N / 2) out[t] = s[t];
}
CASE(two_threads_for_one_place) {
    wrong_index<<<1, N>>>(unwritten<float>(N), values<float>(N));
    return launched();
}

__global__ void bytes_and_words(unsigned *out) {
    __shared__ unsigned word;
    unsigned char *bytes = (unsigned char *)&word;
    if (threadIdx.x == 0) word = 0;     // FAULT: conflict, threads 0 and 1
    if (threadIdx.x == 1) bytes[2] = 1; // OTHER
    __syncthreads();
    out[threadIdx.x] = word;
}
CASE(a_word_and_one_of_its_bytes) {
    bytes_and_words<<<1, 32>>>(unwritten<unsigned>(32));
    return launched();
}

/* A separate function of the program, in a separate section. */
template <int SIZE> __device__ __noinline__ void fold(int *s, int t) {
    if (t < SIZE) s[t] += s[t + SIZE]; // FAULT: race, s
}
__global__ void folded(int *out, const int *x) {
    __shared__ int s[N]; // fold() reads it too soon
    const int t = threadIdx.x;
    s[t] = x[t]; // OTHER
    fold<N / 2>(s, t);
    __syncthreads();
    if (t == 0) *out = s[0];
}
CASE(a_template_function_without_a_barrier) {
    folded<<<1, N>>>(unwritten<int>(1), values<int>(N));
    return launched();
}

/* A thread waits only for its own copies. */
__global__ void waits_alone(int *out, const int *x) {
    __shared__ __align__(16) int s[4 * N];
    const int t = threadIdx.x;
    __pipeline_memcpy_async(&s[4 * t], &x[4 * t], 16); // OTHER
    __pipeline_commit();
    __pipeline_wait_prior(0);  // without a barrier
    out[t] = s[4 * N - 1 - t]; // FAULT: race, s
}
CASE(copies_of_others_without_a_barrier) {
    waits_alone<<<1, N>>>(unwritten<int>(N), values<int>(4 * N));
    return launched();
}
