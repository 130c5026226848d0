/* tma_launch.cuh -- how rungs 11 and 12 launch their kernels. */
#ifndef WEFT_MATMUL_TMA_LAUNCH_CUH
#define WEFT_MATMUL_TMA_LAUNCH_CUH
#include "awkward_sizes.h"
#include "tma_multiply.cuh"

/* Return how many blocks of S the device holds at once. */
template <class S> static inline int blocks_at_once(void) {
    return matmul_multiprocessors() * S::BLOCKS;
}

/* Adding up pieces took about 6 us a piece on an H200: the time in which a
 * multiprocessor does this many multiply-adds. */
enum { WORTH_CUTTING = 1200000 };

template <class S> static inline struct work work_of(const struct product *q) {
    return divide(q, S::BM, S::BN, BK, blocks_at_once<S>(), WORTH_CUTTING);
}

template <class S> static inline size_t tma_scratch(const struct product *q) {
    const struct work w = work_of<S>(q);
    return work_bytes(&w, S::BM, S::BN, blocks_at_once<S>());
}

/* Make the maps of q's operands for tiles of shape S. */
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
