/* 00_plain_c.cu -- the plain C rungs, which run on the CPU only. Their code is
 * in kernels/reference/. */
#include "matmul.h"

#include "../reference/reference.h"

/* The options with which a function of kernels/reference/ computes one matrix
 * of q's batch. */
static struct weft_matmul_options options_of(const struct product *q) {
    struct weft_matmul_options options = {};
    options.trans_a = q->trans_a;
    options.trans_b = q->trans_b;
    options.alpha = q->extras.alpha;
    options.beta = q->extras.beta;
    options.bias = q->extras.bias;
    options.relu = q->extras.relu;
    return options;
}

static int launch_reference(const struct product *q, cudaStream_t) {
    const struct weft_matmul_options options = options_of(q);
    (void)options;
    for (int i = 0; i < q->batch; i++) {
        float *const c = q->c + i * q->extras.step_c;
        const float *const a = (const float *)q->a + i * q->extras.step_a;
        const float *const b = (const float *)q->b + i * q->extras.step_b;
        WEFT_TRY(WEFT_REFERENCE(
            matmul_reference(c, a, b, q->m, q->n, q->k, &options)));
        (void)a, (void)b, (void)c;
    }
    return WEFT_OK;
}

MATMUL_RUNG(reference, "plain C, packed and blocked for registers, threaded",
            "fp32", WEFT_CPU, 0, ANY_A | ANY_B, launch_reference, NULL)
