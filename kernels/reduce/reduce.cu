/* reduce.cu -- the sum of an array: its rungs and their launcher.
 *
 * A sum reads every number once and computes almost nothing, so at best it is
 * as fast as the memory. Each rung has a file; each diff shows one idea. */
#include "reduce.cuh"

#include "reference/reference.h"

#define EVERYWHERE (WEFT_CPU | WEFT_CUDA)

WEFT_RUNGS({"reduce", "reference", "plain C, in the order of fixed_order",
            "fp32", WEFT_CPU, 0},
           {"reduce", "atomic", "an atomic addition per number", "fp32",
            EVERYWHERE, 0},
           {"reduce", "tree", "a tree per block in shared memory", "fp32",
            EVERYWHERE, 0},
           {"reduce", "shuffle", "a tree per warp in registers", "fp32",
            EVERYWHERE, 0},
           {"reduce", "vector", "loads of four, four of them in flight", "fp32",
            EVERYWHERE, 0},
           {"reduce", "two_kernels", "a second kernel adds the blocks' sums",
            "fp32", EVERYWHERE, 0},
           {"reduce", "last_block", "the last block adds the blocks' sums",
            "fp32", EVERYWHERE, 0},
           {"reduce", "compensated", "rounding errors are added, too", "fp32",
            EVERYWHERE, 0},
           {"reduce", "tickets", "blocks take chunks with tickets", "fp32",
            EVERYWHERE, 0},
           {"reduce", "fixed_order", "the same bits for every grid", "fp32",
            EVERYWHERE, 0});

enum {
    REFERENCE,
    ATOMIC,
    TREE,
    SHUFFLE,
    VECTOR,
    TWO_KERNELS,
    LAST_BLOCK,
    COMPENSATED,
    TICKETS,
    FIXED_ORDER
};

int weft_reduce(int rung, float *sum, const float *x, size_t count,
                const struct weft_reduce_options *options, weft_stream stream) {
    WEFT_CHECK_RUNG(rung);
    const int blocks = options ? options->blocks : 0;
    WEFT_REQUIRE(count >= 1, "%s: count = 0, want at least 1", __func__);
    WEFT_REQUIRE(blocks >= 0, "%s: blocks = %d, want at least 0", __func__,
                 blocks);
    CHECK_COUNT(x, count);
    CHECK_ARRAY(sum);
    CHECK_ARRAY(x);
    const struct reduction r = {sum, x, count, blocks,
                                weft_cuda_stream(stream)};
    switch (rung) {
    case REFERENCE: return WEFT_REFERENCE(reduce_reference(sum, x, count));
    case ATOMIC: return reduce_atomic(&r);
    case TREE: return reduce_tree(&r);
    case SHUFFLE: return reduce_shuffle(&r);
    case VECTOR: return reduce_vector(&r);
    case TWO_KERNELS: return reduce_two_kernels(&r);
    case LAST_BLOCK: return reduce_last_block(&r);
    case COMPENSATED: return reduce_compensated(&r);
    case TICKETS: return reduce_tickets(&r);
    case FIXED_ORDER: return reduce_fixed_order(&r);
    }
    return WEFT_OK;
}

/* Store *dsum in each of dx's `count` numbers. */
static __global__ void copy_to_each(float *dx, const float *dsum,
                                    size_t count) {
    const size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (i < count) dx[i] = *dsum;
}

int weft_reduce_backward(int rung, float *dx, const float *dsum, size_t count,
                         weft_stream stream) {
    WEFT_CHECK_RUNG(rung);
    WEFT_REQUIRE(count >= 1, "%s: count = 0, want at least 1", __func__);
    CHECK_COUNT(dx, count);
    CHECK_ARRAY(dx);
    CHECK_ARRAY(dsum);
    if (rung == REFERENCE)
        return WEFT_REFERENCE(reduce_reference_backward(dx, dsum, count));
    copy_to_each<<<blocks_for(count), THREADS, 0, weft_cuda_stream(stream)>>>(
        dx, dsum, count);
    WEFT_LAUNCHED(copy_to_each);
    return WEFT_OK;
}
