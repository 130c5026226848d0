/* partials.cu -- dividing k into parts, and adding the parts' sums into c. */
#include "awkward_sizes.h"

enum { WARP = 32, THREADS = 256, MANY_PARTS = 16, MAX_PARTS = 256 };

int matmul_multiprocessors(void) {
#ifdef __CUDACC__
    return device_has(cudaDevAttrMultiProcessorCount);
#else
    return 4; // the same on every machine, so that sums have the same bits
#endif
}

struct k_parts matmul_k_parts(const struct product *q, double blocks,
                              double wanted, int step, int least) {
    double parts = wanted / (blocks * q->batch);
    if (parts > (double)q->k / least) parts = (double)q->k / least;
    if (parts > MAX_PARTS) parts = MAX_PARTS;
    if (parts < 2) return {1, q->k};
    const size_t steps = CEIL_DIV((size_t)q->k, step);
    const size_t depth = CEIL_DIV(steps, (size_t)parts) * step;
    return {(int)CEIL_DIV((size_t)q->k, depth), (int)depth};
}

/* Return the total number of elements of all of q's results. */
static size_t elements(const struct product *q) {
    return (size_t)q->m * q->n * q->batch;
}

size_t matmul_partials_bytes(const struct product *q, int parts) {
    return parts > 1 ? elements(q) * parts * sizeof(float) : 0;
}

struct product matmul_part_of(const struct product *q, int parts,
                              size_t *step_part) {
    struct product part = *q;
    *step_part = 0;
    if (parts == 1) return part;
    *step_part = elements(q);
    part.c = (float *)q->scratch;
    part.extras.step_c = (size_t)q->m * q->n;
    part.extras.alpha = 1.0f;
    part.extras.beta = 0.0f;
    part.extras.bias = NULL;
    part.extras.relu = 0;
    return part;
}

/* Compute c (m,n) = finish(the sum of `parts` matrices that are `step_part`
 * apart). A thread adds every blockDim.y-th part of an element, then the
 * threads of row 0 add these sums. */
static __global__ void matmul_partials(float *c, const float *sums, int m,
                                       int n, int parts, size_t step_part,
                                       struct extras x) {
    __shared__ float sum_s[THREADS];
    const size_t own = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    const size_t count = (size_t)m * n;
    sums += blockIdx.z * count;
    pdl_wait(); // the parts are complete
    float sum = 0.0f;
    if (own < count)
#pragma unroll 8
        for (int part = threadIdx.y; part < parts; part += blockDim.y)
            sum += sums[part * step_part + own];
    sum_s[threadIdx.y * blockDim.x + threadIdx.x] = sum;
    __syncthreads(); // all sums of the block are stored
    if (threadIdx.y > 0 || own >= count) return;
    for (int y = 1; y < (int)blockDim.y; y++)
        sum += sum_s[y * blockDim.x + threadIdx.x];
    store(c + blockIdx.z * x.step_c, n, own / n, own % n, sum, x);
}

int matmul_add_partials(const struct product *q, int parts,
                        cudaStream_t stream) {
    if (parts == 1) return WEFT_OK;
    const int side_by_side = parts < MANY_PARTS ? THREADS : WARP;
    const size_t count = (size_t)q->m * q->n;
    const dim3 block(side_by_side, THREADS / side_by_side);
    const dim3 grid((unsigned)CEIL_DIV(count, (size_t)side_by_side), 1,
                    (unsigned)q->batch);
    return launch_kernel({"matmul_partials", grid, block, 0, stream, 1},
                         matmul_partials, q->c, q->scratch, q->m, q->n, parts,
                         elements(q), q->extras);
}
