/* 10_backward.cu -- the gradient of cross_entropy, for all rungs from `online`
 * on.
 *
 * Idea:    to the memory, the matrix is a single array. A block takes 4096
 *          neighbouring elements of it, four loads of 16 bytes per thread, even
 *          if rows begin at odd addresses. One 64-bit division finds the row of
 *          the block's first element, and one 32-bit division finds that of a
 *          group of four.
 * Limit:   the memory's bandwidth: one read and one write, as in a copy.
 * Error:   the bits of `naive`: one subtraction and one product per element.
 * Lesson:  notebooks/10a_backwards.ipynb */
#include "cross_entropy.cuh"

enum { FOURS = 4, TILE = 4 * FOURS * THREADS };

/* Compute the gradient of `count` elements, starting at column `col` of the
 * first row. dlogits and prob point to that element, and target to that row. */
template <bool WIDE>
static __device__ __forceinline__ void
differentiate_tile(float *dlogits, const float *prob, const int64_t *target,
                   unsigned col, unsigned count, unsigned classes,
                   float factor) {
    const sharer<WIDE> thread = {threadIdx.x, THREADS};
    four own[FOURS];
#pragma unroll
    for (int j = 0; j < FOURS; j++) own[j] = thread.load(prob, j, count, 0.0f);
#pragma unroll
    for (int j = 0; j < FOURS; j++) {
        unsigned row = 0, at = 0;
        int64_t wanted = 0;
#pragma unroll
        for (int k = 0; k < 4; k++) {
            const unsigned i = (unsigned)thread.find(j, k);
            if (i >= count) break;
            if (k == 0 || !WIDE || ++at == classes) {
                row = (col + i) / classes, at = (col + i) % classes;
                wanted = target[row];
                if (wanted < 0 || wanted >= classes) wanted = -1;
            }
            const float onehot = wanted < 0 ? NAN : at == wanted ? 1.0f : 0.0f;
            own[j].at[k] = (own[j].at[k] - onehot) * factor;
        }
        thread.store(dlogits, j, count, own[j]);
    }
}

static __global__ void __launch_bounds__(THREADS)
    differentiate(float *dlogits, const float *dloss, const float *prob,
                  const int64_t *target, unsigned n, unsigned classes,
                  bool aligned) {
    const size_t first = (size_t)blockIdx.x * TILE, row = first / classes;
    const unsigned count =
        min((size_t)n * classes - first, (size_t)TILE); // of the tile
    const unsigned col = first % classes;
    const float factor = (dloss ? *dloss : 1.0f) / n;
    dlogits += first, prob += first, target += row;
    if (aligned && count == TILE)
        differentiate_tile<true>(dlogits, prob, target, col, TILE, classes,
                                 factor);
    else
        differentiate_tile<false>(dlogits, prob, target, col, count, classes,
                                  factor);
}

int cross_entropy_backward(const gradient *g) {
    const size_t count = (size_t)g->n * g->classes;
    const bool aligned = are_aligned(g->dlogits, g->prob, g->prob);
    differentiate<<<(unsigned)CEIL_DIV(count, TILE), THREADS, 0, g->stream>>>(
        g->dlogits, g->dloss, g->prob, g->target, g->n, g->classes, aligned);
    WEFT_LAUNCHED(differentiate);
    return WEFT_OK;
}
