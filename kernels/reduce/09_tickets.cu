/* 09_tickets.cu -- reduce, rung 9: blocks take their parts with tickets.
 *
 * Before:     each block of rung 4 adds an equal part of x. Some blocks finish
 *             early, and the device waits for the slowest.
 * Idea:       x is divided into chunks of 64 KB. A block that has added a chunk
 *             takes the next one with a ticket (an atomicAdd), so that all
 *             blocks finish at nearly the same time. It takes the ticket before
 *             it loads its chunk, which hides the latency. The loads of a
 *             thread are 4 KB apart instead of a grid's width.
 * Prediction: the rate of the memory, without rung 4's last 3 %. The tickets
 *             need memory and a fill, so small arrays use rung 4.
 * Measured:   235.7 us for 2^28 numbers, and 235.0 us with CUB. In a program of
 *             its own, without the fill, the kernel took 233.9 us. Tickets for
 *             16 KB took 267 us, and those for 256 KB 238 us (NVIDIA H200,
 *             2026-11-30).
 * Limit:      tickets change from run to run, and so do the last bits of the
 *             sum. */
#include "reduce.cuh"

enum {
    TILE = 4 * LOADS * THREADS, // numbers that a block loads at a time
    CHUNK = 4                   // tiles per ticket
};

/* The shortest array that needs tickets. */
#ifdef __CUDACC__
enum { LEAST_COUNT = 1 << 26 };
#else
enum { LEAST_COUNT = 1 << 14 }; // tests with small arrays reach this kernel
#endif

/* Return the calling thread's sum of the chunks that its block takes. `ticket`
 * is 0 before the launch. */
static __device__ __forceinline__ float
add_chunks(const float *x, size_t count, unsigned *ticket, unsigned next_s[2]) {
    const bool aligned = is_aligned(x);
    const float4 none = make_float4(-0.0f, -0.0f, -0.0f, -0.0f);
    float4 sums[LOADS] = {none, none, none, none};
    size_t chunk = blockIdx.x;
    for (unsigned turn = 0; chunk * (CHUNK * TILE) < count; turn++) {
        if (threadIdx.x == 0)
            next_s[turn % 2] = gridDim.x + atomicAdd(ticket, 1u);
        const size_t first = chunk * (CHUNK * TILE / 4) + threadIdx.x;
        if (aligned && (chunk + 1) * (CHUNK * TILE) <= count) {
            const float4 *fours = (const float4 *)x + first;
#pragma unroll 1
            for (int tile = 0; tile < CHUNK; tile++, fours += TILE / 4) {
#pragma unroll
                for (int j = 0; j < LOADS; j++)
                    sums[j] = add_fours(sums[j], fours[j * THREADS]);
            }
        } else {
#pragma unroll 1
            for (int j = 0; j < CHUNK * LOADS; j++)
                sums[0] = add_fours(
                    sums[0], four_at(x, first + j * THREADS, count, aligned));
        }
        __syncthreads(); // the next ticket is stored
        chunk = next_s[turn % 2];
    }
    const float4 left = add_fours(sums[0], sums[1]);
    return add_four(add_fours(left, add_fours(sums[2], sums[3])));
}

static __global__ void __launch_bounds__(THREADS, RESIDENT)
    add_with_tickets(float *sum, float *partials, unsigned *counters,
                     const float *x, size_t count) {
    __shared__ bool last_s;
    __shared__ unsigned next_s[2];
    __shared__ float sums_s[WARPS];
    const float own = add_chunks(x, count, counters + 1, next_s);
    finish(sum, partials, counters, add_threads(own, sums_s), sums_s, &last_s);
}

int reduce_tickets(const struct reduction *r) {
    if (r->count < LEAST_COUNT) return reduce_vector(r);
    const unsigned blocks =
        reduce_grid(r, add_with_tickets, CEIL_DIV(r->count, CHUNK * TILE));
    scratch partials(r->stream);
    WEFT_TRY(partials.claim("reduce", (blocks + 2) * sizeof(float)));
    float *sums = (float *)partials.memory;
    unsigned *counters = (unsigned *)(sums + blocks);
    WEFT_CUDA_TRY(
        cudaMemsetAsync(counters, 0, 2 * sizeof *counters, r->stream));
    add_with_tickets<<<blocks, THREADS, 0, r->stream>>>(r->sum, sums, counters,
                                                        r->x, r->count);
    WEFT_LAUNCHED(add_with_tickets);
    return WEFT_OK;
}
