/* 04_vector.cu -- reduce, rung 4: loads of four, several in flight.
 *
 * Before:     a thread of rung 3 loads 4 bytes, then waits for its block.
 * Idea:       launch as many blocks as run at the same time; each walks through
 *             x. A thread loads four numbers at a time and has four such loads
 *             in flight: 64 bytes instead of 4.
 * Prediction: the memory's bandwidth. 1536 threads of a multiprocessor (39
 *             registers each) keep up to 96 KB in flight. At 4.8 TB/s and 700
 *             ns per load, each of 132 multiprocessors needs 25 KB. With 4
 *             bytes per thread, 2048 threads keep 8 KB.
 * Limit:      each block ends with an atomic addition. The blocks end in an
 *             order that varies, and so do the last bits of the sum. */
#include "reduce.cuh"

static __global__ void __launch_bounds__(THREADS, RESIDENT)
    add_vectors(float *sum, const float *x, size_t count) {
    __shared__ float sums_s[WARPS];
    const float total = add_threads(add_own(x, count), sums_s);
    if (threadIdx.x == 0) atomicAdd(sum, total);
}

int reduce_vector(const struct reduction *r) {
    const unsigned blocks =
        reduce_grid(r, add_vectors, CEIL_DIV(r->count, 4 * THREADS));
    WEFT_CUDA_TRY(cudaMemsetAsync(r->sum, 0, sizeof(float), r->stream));
    add_vectors<<<blocks, THREADS, 0, r->stream>>>(r->sum, r->x, r->count);
    WEFT_LAUNCHED(add_vectors);
    return WEFT_OK;
}
