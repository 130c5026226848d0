/* tma_launch.cuh -- code that launches the kernels of rungs 11 and 12. */
#ifndef WEFT_MATMUL_TMA_LAUNCH_CUH
#define WEFT_MATMUL_TMA_LAUNCH_CUH
#include "awkward_sizes.h"
#include "tma_multiply.cuh"

/* Return the number of blocks of S that the device holds at the same time. */
template <class S> static inline int blocks_at_once(void) {
    return matmul_multiprocessors() * S::BLOCKS;
}

/* The number of multiply-adds that a piece must save to be worthwhile. Adding a
 * piece took about 6 us on an H200, in which time a multiprocessor does this
 * many multiply-adds. */
enum { WORTH_CUTTING = 1200000 };

template <class S> static inline struct work work_of(const struct product *q) {
    return divide(q, S::BM, S::BN, BK, blocks_at_once<S>(), WORTH_CUTTING);
}

template <class S> static inline size_t tma_scratch(const struct product *q) {
    const struct work w = work_of<S>(q);
    return work_bytes(&w, S::BM, S::BN, blocks_at_once<S>());
}

/* Make the TMA maps of q's operands for tiles of shape S. Returns a
 * weft_status. */
template <class S>
static inline int map_operands(const struct product *q, tensor_map *a_map,
                               tensor_map *b_map) {
    const struct extras *x = &q->extras;
    const size_t m = (size_t)q->m, n = (size_t)q->n, k = (size_t)q->k;
    const size_t batch = (size_t)q->batch;
    const struct tensor a = {TENSOR_FLOAT, q->a,  k,        m,
                             x->pitch_a,   batch, x->step_a};
    const struct tensor b = {TENSOR_FLOAT, q->b,  n,        k,
                             x->pitch_b,   batch, x->step_b};
    WEFT_TRY(tensor_map_make(a_map, &a, {BK, S::BM, 1}));
    return tensor_map_make(b_map, &b, {S::BN, BK, 0});
}

#endif
