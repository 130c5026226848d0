/* copies.cu -- asynchronous copies that a kernel uses before it waits for them,
 * regardless of barriers: cp.async, TMA, wgmma. */
#include "../../../../kernels/matmul/wgmma.cuh"
#include "../cases.h"
#include <cuda_pipeline.h>

enum { N = 64, ROWS = 16, COLS = 32, BOX = ROWS * COLS, BYTES = 4 * BOX };

__global__ void without_a_wait(int *out, const int *x) {
    __shared__ __align__(16) int s[4 * N];
    const int t = threadIdx.x;
    __pipeline_memcpy_async(&s[4 * t], &x[4 * t], 16); // OTHER
    __pipeline_commit();
    __syncthreads();
    out[t] = s[4 * N - 1 - t]; // FAULT: unwaited, s
}
CASE(a_barrier_instead_of_a_wait) {
    without_a_wait<<<1, N>>>(unwritten<int>(N), values<int>(4 * N));
    return launched();
}

__global__ void own_copy(int *out, const int *x) {
    __shared__ __align__(16) int s[4 * N];
    const int t = threadIdx.x;
    copy16_async(&s[4 * t], &x[4 * t]); // OTHER
    copy_commit();
    out[t] = s[4 * t + 1]; // FAULT: unwaited, thread 0, s[1]
    copy_wait<0>();
}
CASE(a_wait_that_comes_too_late) {
    own_copy<<<1, N>>>(unwritten<int>(N), values<int>(4 * N));
    return launched();
}

__global__ void too_few(int *out, const int *x, int tiles) {
    __shared__ __align__(16) int s[2][4 * N];
    const int t = threadIdx.x;
    int sum = 0;
    for (int k = 0; k < tiles; k++) {
        __pipeline_memcpy_async(&s[k % 2][4 * t], &x[4 * t], 16); // OTHER
        __pipeline_commit();
        __pipeline_wait_prior(1); // 0 would be right: this copy is needed now
        __syncthreads();
        sum += s[k % 2][t]; // FAULT: unwaited, s
        __syncthreads();
    }
    __pipeline_wait_prior(0);
    out[t] = sum;
}
CASE(a_wait_for_too_few_groups) {
    too_few<<<1, N>>>(unwritten<int>(N), values<int>(4 * N), 4);
    return launched();
}

__global__ void not_committed(int *out, const int *x) {
    __shared__ __align__(16) int s[4 * N];
    const int t = threadIdx.x;
    copy16_async(&s[4 * t], &x[4 * t]); // OTHER
    copy_wait<0>();
    __syncthreads();
    out[t] = s[t]; // FAULT: unwaited, s
}
CASE(copies_of_no_group) {
    not_committed<<<1, N>>>(unwritten<int>(N), values<int>(4 * N));
    return launched();
}

__global__ void before_the_wait(int *out, const int *x) {
    __shared__ __align__(16) int s[4 * N];
    const int t = threadIdx.x;
    copy16_async(&s[4 * t], &x[4 * t]); // OTHER
    copy_commit();
    __syncthreads(); // useless before the wait
    copy_wait<0>();
    out[t] = s[4 * N - 1 - t]; // FAULT: race|unwaited, s
}
CASE(a_barrier_before_the_wait) {
    before_the_wait<<<1, N>>>(unwritten<int>(N), values<int>(4 * N));
    return launched();
}

__global__ void written_over(int *out, const int *x) {
    __shared__ __align__(16) int s[4 * N];
    const int t = threadIdx.x;
    copy16_async(&s[4 * t], &x[4 * t]); // OTHER
    copy_commit();
    s[4 * t + 3] = 0; // FAULT: unwaited, thread 0, s[3]
    copy_wait<0>();
    out[t] = s[4 * t + 3];
}
CASE(a_write_under_a_copy) {
    written_over<<<1, N>>>(unwritten<int>(N), values<int>(4 * N));
    return launched();
}

/* ---- TMA ---------------------------------------------------------------- */

/* Describe ROWS x COLS floats at x. */
static tensor_map map_of(const float *x) {
    const struct tensor array = {TENSOR_FLOAT, x, COLS, ROWS, COLS, 1, 0};
    return {array, {COLS, ROWS, 0}};
}

PTX_INLINE void begin_barrier(mbarrier *bar) {
    if (threadIdx.x == 0) {
        mbarrier_init(bar, 1);
        fence_barrier_init();
    }
    __syncthreads();
}

__global__ void box_without_a_wait(float *out,
                                   const __grid_constant__ tensor_map map) {
    __shared__ __align__(128) float box_s[BOX];
    __shared__ mbarrier full;
    const int t = threadIdx.x;
    begin_barrier(&full);
    if (t == 0) {
        mbarrier_expect(&full, BYTES);
        tma_load(box_s, &map, &full, 0, 0, 0); // OTHER
    }
    __syncthreads();
    out[t] = box_s[t]; // FAULT: unwaited, box_s
    mbarrier_wait(&full, 0);
}
CASE(a_box_that_only_a_barrier_precedes) {
    box_without_a_wait<<<1, N>>>(unwritten<float>(N),
                                 map_of(values<float>(BOX)));
    return launched();
}

__global__ void one_waits(float *out, const __grid_constant__ tensor_map map) {
    __shared__ __align__(128) float box_s[BOX];
    __shared__ mbarrier full;
    const int t = threadIdx.x;
    begin_barrier(&full);
    if (t == 0) {
        mbarrier_expect(&full, BYTES);
        tma_load(box_s, &map, &full, 0, 0, 0); // OTHER
    }
    __syncthreads();
    if (t == 0) mbarrier_wait(&full, 0); // the other threads do not wait
    out[t] = box_s[t];                   // FAULT: race|unwaited, box_s
}
CASE(a_box_that_one_waits_for) {
    one_waits<<<1, N>>>(unwritten<float>(N), map_of(values<float>(BOX)));
    return launched();
}

__global__ void wrong_phase(float *out, const __grid_constant__ tensor_map map,
                            int boxes) {
    __shared__ __align__(128) float box_s[BOX];
    __shared__ mbarrier full;
    const int t = threadIdx.x;
    float sum = 0;
    begin_barrier(&full);
    for (int i = 0; i < boxes; i++) {
        if (t == 0) {
            mbarrier_expect(&full, BYTES);
            tma_load(box_s, &map, &full, 0, 0, 0); // OTHER
        }
        mbarrier_wait(&full, 0); // must be i & 1
        sum += box_s[t];         // FAULT: unwaited|race, box_s
        __syncthreads();
    }
    out[t] = sum;
}
CASE(a_phase_that_was_over_before) {
    wrong_phase<<<1, N>>>(unwritten<float>(N), map_of(values<float>(BOX)), 2);
    return launched();
}

__global__ void stored(const __grid_constant__ tensor_map map, int times) {
    __shared__ __align__(128) float box_s[BOX];
    const int t = threadIdx.x;
    for (int i = 0; i < times; i++) {
        // Thread 0 must wait here, and a barrier must follow.
        box_s[t] = (float)i; // FAULT: unwaited, box_s
        for (int j = t + N; j < BOX; j += N) box_s[j] = 0; // OTHER
        fence_proxy_async();
        __syncthreads();
        if (t == 0) {
            tma_store(&map, box_s, 0, 0, 0); // OTHER
            tma_store_commit();
        }
        __syncthreads();
    }
    if (t == 0) tma_store_wait<0>();
}
CASE(a_box_written_while_it_is_stored) {
    stored<<<1, N>>>(map_of(unwritten<float>(BOX)), 2);
    return launched();
}

__global__ void left(const __grid_constant__ tensor_map map) {
    __shared__ __align__(128) float box_s[BOX];
    for (int j = threadIdx.x; j < BOX; j += N) box_s[j] = 0;
    fence_proxy_async();
    __syncthreads();
    if (threadIdx.x) return;
    tma_store(&map, box_s, 0, 0, 0); // FAULT: unwaited, thread 0, box_s[0]
    tma_store_commit();
}
CASE(a_box_whose_block_ends) {
    left<<<1, N>>>(map_of(unwritten<float>(BOX)));
    return launched();
}

/* ---- wgmma -------------------------------------------------------------- */

/* c (64,64) = a a^T for 64 rows of 8 tf32, all 1. */
__global__ void operand_written(float *out) {
    extern __shared__ char raw_s[];
    float *const a_s = (float *)aligned_1024(raw_s);
    const int t = threadIdx.x;
    for (int j = t; j < 64 * 32; j += 128) a_s[j] = 1;
    fence_proxy_async();
    __syncthreads();
    float c[32];
    wgmma_fence();
    const uint64_t tile = wgmma_tile(a_s, 0);
    wgmma<float, 1, 1>(c, tile, tile, 0); // OTHER
    wgmma_commit();
    for (int j = t; j < 64 * 32; j += 128) a_s[j] = 2; // FAULT: race, raw_s
    wgmma_wait<0>();
    for (int i = 0; i < 32; i++) out[128 * i + t] = c[i];
}
CASE(a_factor_written_before_the_product) {
    operand_written<<<1, 128, 64 * 128 + 1024>>>(unwritten<float>(64 * 64));
    return launched();
}
