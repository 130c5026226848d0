/* races_global.cu -- races in global memory: in a block, and between blocks. */
#include "../cases.h"

enum { N = 64 };

__global__ void in_block(float *x, float *out) {
    const int t = threadIdx.x;
    x[t] = 2 * t;          // OTHER
    out[t] = x[N - 1 - t]; // FAULT: race, block 0, x
}
CASE(global_memory_without_a_barrier) {
    in_block<<<1, N>>>(unwritten<float>(N), unwritten<float>(N));
    return launched();
}

__global__ void neighbours(float *x, int n) {
    const int i = blockIdx.x;
    if (i + 1 < n) x[i] = x[i] + x[i + 1]; // FAULT: race, x
}
CASE(a_neighbouring_blocks_element) {
    neighbours<<<8, 1>>>(values<float>(8), 8);
    return launched();
}

__global__ void halo(float *x) {
    __shared__ float s[34];
    const int t = threadIdx.x, n = gridDim.x * blockDim.x;
    const int i = blockIdx.x * blockDim.x + t;
    s[t + 1] = x[i];
    if (t == 0) s[0] = x[(i + n - 1) % n]; // FAULT: race, x
    if (t == 31) s[33] = x[(i + 1) % n];   // FAULT: race, x
    __syncthreads();
    x[i] = s[t] + s[t + 1] + s[t + 2]; // OTHER
}
CASE(stencil_in_place) {
    halo<<<4, 32>>>(values<float>(128));
    return launched();
}

__global__ void counts(int *counter) {
    ++*counter; // FAULT: race, counter[0]
}
CASE(a_counter_of_all_blocks) {
    counts<<<8, 1>>>(zeros<int>(1));
    return launched();
}

__global__ void counts_threads(int *counter) {
    *counter += 2; // FAULT: race|conflict, block 0, counter[0]
}
CASE(a_counter_of_a_block) {
    counts_threads<<<1, N>>>(zeros<int>(1));
    return launched();
}

__global__ void last_block(float *out, float *part, const float *x,
                           unsigned *done) {
    part[blockIdx.x] = x[blockIdx.x];          // OTHER
    if (atomicAdd(done, 1) + 1 == gridDim.x) { // no __threadfence() before it
        float sum = 0;
        for (unsigned b = 0; b < gridDim.x; b++)
            sum += part[b]; // FAULT: race, part
        *out = sum;
    }
}
CASE(last_block_without_a_fence) {
    unsigned *done = zeros<unsigned>(1);
    last_block<<<8, 1>>>(unwritten<float>(1), unwritten<float>(8),
                         values<float>(8), done);
    return launched();
}

__global__ void hand_over(int *data, volatile int *flag, int *out) {
    if (blockIdx.x == 0) {
        *data = 42; // OTHER
        *flag = 1;  // no __threadfence() before it
    } else {
        while (!*flag) __nanosleep(100);
        *out = *data; // FAULT: race, blocks 0 and 1, data[0]
    }
}
CASE(a_flag_without_a_fence) {
    hand_over<<<2, 1>>>(unwritten<int>(1), zeros<int>(1), unwritten<int>(1));
    return launched();
}

__global__ void nobody_waits(int *data, int *out) {
    if (blockIdx.x == 0) *data = 2;    // OTHER
    if (blockIdx.x == 3) *out = *data; // FAULT: race, blocks 0 and 3, data[0]
}
CASE(nobody_waits) {
    nobody_waits<<<4, 1>>>(unwritten<int>(1), unwritten<int>(1));
    return launched();
}

__global__ void maximum(int *best, const int *x) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (x[i] > *best) // OTHER
        *best = x[i]; // FAULT: race|conflict, best[0]
}
CASE(a_maximum_without_atomics) {
    maximum<<<1, N>>>(zeros<int>(1), values<int>(N));
    return launched();
}

__global__ void scatter(float *out, const float *x, const int *where) {
    const int t = threadIdx.x;
    out[where[t] % 16] += x[t]; // FAULT: race|conflict, out
}
CASE(scatter_without_atomics) {
    scatter<<<1, N>>>(zeros<float>(16), values<float>(N), values<int>(N));
    return launched();
}

__global__ void overlap(int *out) {
    const int first = blockIdx.x * 8;
    for (int i = 0; i <= 8; i++)         // meant: <
        out[first + i] = blockIdx.x + 1; // FAULT: race, out
}
CASE(blocks_that_overlap) {
    overlap<<<4, 1>>>(unwritten<int>(33));
    return launched();
}

__global__ void own_number(int *out) {
    *out = blockIdx.x; // FAULT: race, out[0]
}
CASE(every_block_writes_its_number) {
    own_number<<<4, 1>>>(unwritten<int>(1));
    return launched();
}

__global__ void same_column(float *out, const float *a) {
    const int col = threadIdx.x;
    out[col] = a[blockIdx.x * 8 + col]; // FAULT: race, out
}
CASE(blocks_write_one_row) {
    same_column<<<2, 8>>>(unwritten<float>(8), values<float>(16));
    return launched();
}

__global__ void unlock_early(int *lock, int *sum) {
    while (atomicCAS(lock, 0, 1)) __nanosleep(50);
    *sum += 1;           // FAULT: race, sum[0]
    atomicExch(lock, 0); // no __threadfence() before it
}
CASE(a_lock_without_fences) {
    unlock_early<<<4, 1>>>(zeros<int>(1), zeros<int>(1));
    return launched();
}

__global__ void aliased(float *out, const float *x) {
    const int t = threadIdx.x;
    out[t] = x[(t + 1) % N]; // FAULT: race
}
CASE(one_array_twice) {
    float *x = values<float>(N);
    aliased<<<1, N>>>(x, x);
    return launched();
}

__device__ int ticket;
__global__ void tickets(int *out) {
    out[blockIdx.x] = ticket++; // FAULT: race, ticket
}
CASE(a_device_variable_counted_up) {
    tickets<<<4, 1>>>(unwritten<int>(4));
    return launched();
}

__global__ void in_place(float *a, int n) {
    const int row = threadIdx.y, col = threadIdx.x;
    if (row < col) {
        const float upper = a[row * n + col]; // OTHER
        a[row * n + col] = a[col * n + row];  // OTHER
        a[col * n + row] = upper;             // OTHER
    }
    a[row * n + col] *= 2; // FAULT: race|conflict, a
}
CASE(transposed_and_scaled_too_soon) {
    in_place<<<1, dim3(8, 8)>>>(values<float>(64), 8);
    return launched();
}

__global__ void odd_even(int *x, int n) {
    const int i = 2 * threadIdx.x;
    for (int phase = 0; phase < 2; phase++) {
        const int at = i + phase;
        if (at + 1 < n) {
            const int a = x[at], b = x[at + 1]; // FAULT: race|conflict, x
            x[at] = min(a, b);                  // OTHER
            x[at + 1] = max(a, b);              // OTHER
        }
    }
}
CASE(odd_even_sort_without_a_barrier) {
    odd_even<<<1, N>>>(values<int>(2 * N), 2 * N);
    return launched();
}
