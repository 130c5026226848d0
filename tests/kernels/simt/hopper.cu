/* hopper.cu -- the CPU twins of kernels/common/hopper.cuh: boxes that TMA
   moves, and a ring of stages between a thread that fills it and warps that
   empty it.
 */
#include "common/hopper.cuh"

#define EXPORT extern "C" __attribute__((visibility("default")))

enum { ROWS = 16, STAGES = 3, CONSUMERS = 64 };

/* out (box): the bytes of one box in the order of shared memory. */
static __global__ void one_box(char *out,
                               const __grid_constant__ tensor_map map,
                               int bytes, int col, int row, int z) {
    extern __shared__ char raw_s[];
    __shared__ mbarrier full;
    char *const box_s = aligned_1024(raw_s);
    if (threadIdx.x == 0) {
        mbarrier_init(&full, 1);
        fence_barrier_init();
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        mbarrier_expect(&full, (unsigned)bytes);
        tma_load(box_s, &map, &full, col, row, z);
    }
    mbarrier_wait(&full, 0);
    for (int i = threadIdx.x; i < bytes; i += blockDim.x) out[i] = box_s[i];
}

EXPORT int run_one_box(char *out, const void *data, int type, int cols,
                       int rows, int pitch, int batch, int step, int box_cols,
                       int swizzle, int col, int row, int z) {
    const struct tensor t = {
        (enum tensor_type)type, data,          (size_t)cols, (size_t)rows,
        (size_t)pitch,          (size_t)batch, (size_t)step};
    tensor_map map;
    cudaGetLastError(); // another test of the process may have left an error
    WEFT_TRY(tensor_map_make(&map, &t, {box_cols, ROWS, swizzle}));
    const int bytes = box_cols * ROWS * (int)tensor_element(t.type);
    one_box<<<1, 64, bytes + 1024>>>(out, map, bytes, col, row, z);
    return cudaGetLastError();
}

/* One thread loads `bytes` bytes into shared memory and stores them. */
static __global__ void one_piece(char *out, const char *in, unsigned bytes) {
    __shared__ __align__(16) char piece_s[1 << 14];
    __shared__ mbarrier full;
    mbarrier_init(&full, 1);
    fence_barrier_init();
    mbarrier_expect(&full, bytes);
    bulk_load(piece_s, in, &full, bytes);
    mbarrier_wait(&full, 0);
    bulk_store(out, piece_s, bytes);
    tma_store_commit();
    tma_store_wait<0>();
}

EXPORT int run_one_piece(char *out, const char *in, int bytes) {
    one_piece<<<1, 1>>>(out, in, (unsigned)bytes);
    return cudaGetLastError();
}

/* Store twice the loaded numbers, through a ring: x (rows,cols) arrives in
 * boxes of ROWS x 32 floats. The last warp fills the ring, two warps double the
 * numbers, and then the first thread stores them. */
static __global__ void __launch_bounds__(CONSUMERS + 32)
    doubled(const __grid_constant__ tensor_map to,
            const __grid_constant__ tensor_map from, int boxes) {
    extern __shared__ char raw_s[];
    __shared__ mbarrier full[STAGES], empty[STAGES];
    float *const ring_s = (float *)aligned_1024(raw_s);
    float *const out_s = ring_s + STAGES * ROWS * 32;
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) {
            mbarrier_init(&full[s], 1);
            mbarrier_init(&empty[s], CONSUMERS);
        }
        fence_barrier_init();
    }
    __syncthreads();
    if (threadIdx.x >= CONSUMERS) {
        registers_down<40>();
        if (threadIdx.x != CONSUMERS) return;
        for (int i = 0; i < boxes; i++) {
            const int s = i % STAGES;
            mbarrier_wait(&empty[s], (i / STAGES & 1) ^ 1);
            mbarrier_expect(&full[s], ROWS * 32 * sizeof(float));
            tma_load(ring_s + s * ROWS * 32, &from, &full[s], 32 * i, 0, 0);
        }
        return;
    }
    registers_up<232>();
    for (int i = 0; i < boxes; i++) {
        const int s = i % STAGES;
        mbarrier_wait(&full[s], i / STAGES & 1);
        if (threadIdx.x == 0) tma_store_wait<0>(); // the last box is stored
        named_barrier(1, CONSUMERS);
        for (int j = threadIdx.x; j < ROWS * 32; j += CONSUMERS)
            out_s[j] = 2 * ring_s[s * ROWS * 32 + j];
        mbarrier_arrive(&empty[s]);
        fence_proxy_async();
        named_barrier(1, CONSUMERS);
        if (threadIdx.x == 0) {
            tma_store(&to, out_s, 32 * i, 0, 0);
            tma_store_commit();
        }
    }
    if (threadIdx.x == 0) tma_store_wait<0>();
}

EXPORT int run_doubled(float *out, const float *x, int rows, int cols) {
    const size_t m = (size_t)rows, n = (size_t)cols;
    const struct tensor from = {TENSOR_FLOAT, x, n, m, n, 1, 0};
    const struct tensor to = {TENSOR_FLOAT, out, n, m, n, 1, 0};
    tensor_map in_map, out_map;
    WEFT_TRY(tensor_map_make(&in_map, &from, {32, ROWS, 1}));
    WEFT_TRY(tensor_map_make(&out_map, &to, {32, ROWS, 1}));
    const size_t bytes = (STAGES + 1) * ROWS * 32 * sizeof(float) + 1024;
    doubled<<<1, CONSUMERS + 32, bytes>>>(out_map, in_map, CEIL_DIV(cols, 32));
    return cudaGetLastError();
}

EXPORT const char *last_error(void) { return weft_last_error(); }

/* These kernels need not be fast, and -O1 compiles them sooner than -O3. */
/* g++: -O1 */
