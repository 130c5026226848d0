/* unwaited.cu -- copies and products with and without a wait: operations that
 * are late on a GPU are also late here, even without the watch build. */
#include "matmul/wgmma.cuh"

#define EXPORT extern "C" __attribute__((visibility("default")))

enum { N = 64, ROWS = 16, COLS = 32 };

/* out (4 N): x, copied by cp.async; `groups` groups of two may be in flight. */
static __global__ void copied(int *out, const int *x, int groups) {
    __shared__ __align__(16) int s[4 * N];
    const int t = threadIdx.x;
    for (int i = 0; i < 4; i++) s[4 * t + i] = -1;
    copy16_async(&s[4 * t], &x[4 * t]);
    copy_commit();
    copy_commit(); // an empty group
    if (groups == 0) copy_wait<0>();
    if (groups == 1) copy_wait<1>();
    if (groups == 2) copy_wait<2>();
    __syncthreads();
    for (int i = 0; i < 4; i++) out[4 * t + i] = s[4 * t + i];
}
EXPORT int run_copied(int *out, const int *x, int groups) {
    copied<<<1, N>>>(out, x, groups);
    return cudaGetLastError();
}

/* out (ROWS,COLS): x, loaded and stored by TMA, each with or without a wait. */
static __global__ void boxed(const __grid_constant__ tensor_map to,
                             const __grid_constant__ tensor_map from, int in,
                             int back) {
    __shared__ __align__(128) float box_s[ROWS * COLS];
    __shared__ mbarrier full;
    const int t = threadIdx.x;
    for (int i = t; i < ROWS * COLS; i += N) box_s[i] = -1;
    if (t == 0) {
        mbarrier_init(&full, 1);
        fence_barrier_init();
        fence_proxy_async();
    }
    __syncthreads();
    if (t == 0) {
        mbarrier_expect(&full, sizeof box_s);
        tma_load(box_s, &from, &full, 0, 0, 0);
    }
    if (in) mbarrier_wait(&full, 0);
    __syncthreads();
    if (t == 0) {
        tma_store(&to, box_s, 0, 0, 0);
        tma_store_commit();
        if (back) tma_store_wait<0>();
    }
    __syncthreads();
    for (int i = t; i < ROWS * COLS; i += N) box_s[i] = -2;
    __syncthreads();
    if (t == 0) tma_store_wait<0>();
}
EXPORT int run_boxed(float *out, const float *x, int in, int back) {
    const struct tensor from = {TENSOR_FLOAT, x, COLS, ROWS, COLS, 1, 0};
    const struct tensor to = {TENSOR_FLOAT, out, COLS, ROWS, COLS, 1, 0};
    tensor_map maps[2];
    WEFT_TRY(tensor_map_make(&maps[0], &to, {COLS, ROWS, 0}));
    WEFT_TRY(tensor_map_make(&maps[1], &from, {COLS, ROWS, 0}));
    boxed<<<1, N>>>(maps[0], maps[1], in, back);
    return cudaGetLastError();
}

/* out (128): one element of ones (64,8) @ ones (8,64) from each thread, read
 * before or after the wait. */
static __global__ void product(float *out, int wait) {
    extern __shared__ char raw_s[];
    float *const a_s = (float *)aligned_1024(raw_s);
    const int t = threadIdx.x;
    for (int i = t; i < 64 * 32; i += 128) a_s[i] = 1;
    fence_proxy_async();
    __syncthreads();
    float c[32] = {0};
    const uint64_t tile = wgmma_tile(a_s, 0);
    wgmma_fence();
    wgmma<float, 1, 1>(c, tile, tile, 1);
    wgmma_commit();
    if (wait) wgmma_wait<0>();
    out[t] = c[5];
    wgmma_wait<0>();
}
EXPORT int run_product(float *out, int wait) {
    product<<<1, 128, 64 * 128 + 1024>>>(out, wait);
    return cudaGetLastError();
}

/* These kernels need not be fast, and -O1 compiles them sooner than -O3. */
/* g++: -O1 */
