/* cross_entropy.cu -- softmax and the loss, the mean over the batch of -log
 * softmax(logits)[target]: its rungs, their launchers and the choice of a rung.
 *
 * If a row's maximum is subtracted first, the row's largest exponential is
 * exp(0) = 1. So no exponential overflows, and their sum is at least 1. The
 * loss is computed as log(sum) - (logit - maximum). The logarithm of the
 * probability itself would be infinite if the probability were too small for a
 * float.
 *
 * A large vocabulary takes as long as its softmax. */
#include "cross_entropy.cuh"

#include "common/cluster.cuh"
#include "common/split.cuh"
#include "reference/reference.h"

#define EVERYWHERE (WEFT_CPU | WEFT_CUDA)

WEFT_RUNGS({"cross_entropy", "reference", "plain C, a row stays in the cache",
            "fp32", WEFT_CPU, 0},
           {"cross_entropy", "naive",
            "one thread per row, one block for the loss", "fp32", EVERYWHERE,
            0},
           {"cross_entropy", "online", "softmax and loss in one kernel", "fp32",
            EVERYWHERE, 0},
           {"cross_entropy", "warp_a_row", "a warp per row, in registers",
            "fp32", EVERYWHERE, 0},
           {"cross_entropy", "block_a_row", "a block per row, read twice",
            "fp32", EVERYWHERE, 0},
           {"cross_entropy", "split_rows", "several blocks share a row", "fp32",
            EVERYWHERE, 0},
           {"cross_entropy", "row_in_registers", "the row stays in registers",
            "fp32", EVERYWHERE, 0},
           {"cross_entropy", "cluster_a_row",
            "a cluster of blocks shares a row", "fp32", EVERYWHERE, 90},
           {"cross_entropy", "short_rows", "many short rows in shared memory",
            "fp32", EVERYWHERE, 0},
           {"cross_entropy", "tuned", "the rung that suits the shape", "fp32",
            EVERYWHERE, 0});

enum {
    REFERENCE,
    NAIVE,
    ONLINE,
    WARP_A_ROW,
    BLOCK_A_ROW,
    SPLIT_ROWS,
    ROW_IN_REGISTERS,
    CLUSTER_A_ROW,
    SHORT_ROWS,
    TUNED
};

/* The longest rows, in logits, of the rungs that keep a row on the chip. */
enum { IN_WARP = 1024, IN_BLOCK = 32768, IN_CLUSTER = 8 * IN_BLOCK };

/* Return the rung for a shape. `split_rows` handles rows that are too long for
 * the other rungs, and batches of few rows. */
static int choose(unsigned n, unsigned classes) {
    if (classes <= SHORT) return SHORT_ROWS;
    if (classes <= IN_WARP) return WARP_A_ROW;
    if (are_few(n, classes)) return SPLIT_ROWS;
    if (classes <= IN_BLOCK) return ROW_IN_REGISTERS;
    if (classes <= IN_CLUSTER && count_cluster() > 1) return CLUSTER_A_ROW;
    return SPLIT_ROWS;
}

/* Check the sizes for both launchers and, if the host can read them, the
 * targets. */
static int check_rows(const char *function, const int64_t *target, int n,
                      int classes) {
    WEFT_REQUIRE(n >= 1, "%s: n = %d, want at least 1", function, n);
    WEFT_REQUIRE(classes >= 1, "%s: classes = %d, want at least 1", function,
                 classes);
    WEFT_REQUIRE((double)n * classes <= MAX_ELEMENTS,
                 "%s: logits would have %.0f elements, at most %.0f", function,
                 (double)n * classes, MAX_ELEMENTS);
    WEFT_REQUIRE(target, "%s: target is NULL", function);
#ifndef __CUDACC__
    for (int i = 0; i < n; i++)
        WEFT_REQUIRE(target[i] >= 0 && target[i] < classes,
                     "%s: target[%d] = %lld, want 0 to %d", function, i,
                     (long long)target[i], classes - 1);
#endif
    return WEFT_OK;
}

/* Queue the losses of all rows, and their mean. */
static int score(int rung, scoring *s) {
    const unsigned groups = blocks_for(s->n); // groups of rows, for short_rows
    const bool is_short = rung == SHORT_ROWS && s->classes <= SHORT;
    if (is_short && groups == 1) return cross_entropy_short(s);
    scratch memory(s->stream);
    WEFT_TRY(cross_entropy_claim(s, &memory));
    switch (rung) {
    case ONLINE: WEFT_TRY(cross_entropy_online(s)); break;
    case BLOCK_A_ROW: WEFT_TRY(cross_entropy_block(s)); break;
    case SPLIT_ROWS: WEFT_TRY(cross_entropy_split(s)); break;
    case ROW_IN_REGISTERS: WEFT_TRY(cross_entropy_registers(s)); break;
    case CLUSTER_A_ROW: WEFT_TRY(cross_entropy_cluster(s)); break;
    case SHORT_ROWS:
    case WARP_A_ROW:
        WEFT_TRY(is_short ? cross_entropy_short(s) : cross_entropy_warp(s));
    }
    return cross_entropy_mean(s, is_short ? groups : s->n);
}

int weft_cross_entropy(int rung, float *loss, float *prob, const float *logits,
                       const int64_t *target, int n, int classes,
                       weft_stream stream) {
    WEFT_CHECK_RUNG(rung);
    CHECK_ARRAY(loss);
    CHECK_ARRAY(prob);
    CHECK_ARRAY(logits);
    WEFT_TRY(check_rows(__func__, target, n, classes));
    scoring s = {loss,
                 prob,
                 logits,
                 target,
                 (unsigned)n,
                 (unsigned)classes,
                 weft_cuda_stream(stream),
                 NULL,
                 NULL,
                 NULL};
    if (rung == TUNED) rung = choose(s.n, s.classes);
    switch (rung) {
    case REFERENCE:
        return WEFT_REFERENCE(
            cross_entropy_reference(loss, prob, logits, target, n, classes));
    case NAIVE: return cross_entropy_naive(&s);
    }
    return score(rung, &s);
}

int weft_cross_entropy_backward(int rung, float *dlogits, const float *dloss,
                                const float *prob, const int64_t *target, int n,
                                int classes, weft_stream stream) {
    WEFT_CHECK_RUNG(rung);
    CHECK_ARRAY(dlogits);
    CHECK_ARRAY(prob);
    WEFT_TRY(check_rows(__func__, target, n, classes));
    const gradient g = {dlogits,
                        dloss,
                        prob,
                        target,
                        (unsigned)n,
                        (unsigned)classes,
                        weft_cuda_stream(stream)};
    switch (rung) {
    case REFERENCE:
        return WEFT_REFERENCE(cross_entropy_reference_backward(
            dlogits, dloss, prob, target, n, classes));
    case NAIVE: return cross_entropy_naive_backward(&g);
    }
    return cross_entropy_backward(&g);
}
