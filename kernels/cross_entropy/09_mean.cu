/* 09_mean.cu -- the mean of the rows' losses, for all rungs from `online` on.
 *
 * Idea:    a second launch, which starts while the first one ends. A block adds
 *          4096 losses, and the last block adds the sums of all blocks in their
 *          order, whichever block is last. So the order of all additions
 *          depends only on the number of losses, and every GPU gives the same
 *          bits.
 * Limit:   the last block adds n / 4096 sums alone.
 * Error:   a thread adds 16 losses in sequence; two trees add the rest. */
#include "cross_entropy.cuh"

#include "common/last_block.cuh"
#include "common/ptx.cuh"

enum { PIECE = 16 * THREADS }; // losses that a block adds

/* Return to each thread the sum of x[0 .. count), in an order that depends only
 * on `count`. */
static __device__ __forceinline__ float add_all(const float *x, unsigned count,
                                                float (&sums_s)[WARPS]) {
    float own = 0.0f;
#pragma unroll 16
    for (unsigned i = threadIdx.x; i < count; i += THREADS) own += x[i];
    return add_threads(own, sums_s);
}

static __global__ void __launch_bounds__(THREADS)
    average(float *loss, float *sums, unsigned *arrived, const float *losses,
            unsigned count, unsigned n) {
    __shared__ float sums_s[WARPS];
    __shared__ bool last_s;
    const unsigned first = blockIdx.x * PIECE;
    pdl_wait(); // all losses are stored
    float sum =
        add_all(losses + first, min(count - first, (unsigned)PIECE), sums_s);
    if (gridDim.x > 1) {
        if (threadIdx.x == 0) sums[blockIdx.x] = sum;
        if (!arrive_last(arrived, &last_s)) return;
        sum = add_all(sums, gridDim.x, sums_s);
    }
    if (threadIdx.x == 0) *loss = sum / n;
}

static unsigned count_pieces(unsigned losses) {
    return CEIL_DIV(losses, (unsigned)PIECE);
}

int cross_entropy_claim(scoring *s, scratch *memory) {
    const size_t floats = (size_t)s->n + count_pieces(s->n) + 1;
    WEFT_TRY(memory->claim("cross_entropy", floats * sizeof(float)));
    s->losses = (float *)memory->memory;
    s->sums = s->losses + s->n;
    s->arrived = (unsigned *)(s->sums + count_pieces(s->n));
    if (count_pieces(s->n) > 1)
        WEFT_CUDA_TRY(
            cudaMemsetAsync(s->arrived, 0, sizeof *s->arrived, s->stream));
    return WEFT_OK;
}

int cross_entropy_mean(const scoring *s, unsigned count) {
    const struct launch l = {"average", count_pieces(count), THREADS,
                             0,         s->stream,           1};
    return launch_kernel(l, average, s->loss, s->sums, s->arrived, s->losses,
                         count, s->n);
}
