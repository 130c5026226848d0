/* 00_plain_c.cu -- matmul, the rungs in plain C, for the CPU only.
 *
 * These rungs form a separate ladder with the same idea: reuse data while it is
 * close. The rungs ijk, ikj, blocked and simd are ../reference/matmul_<name>.c;
 * reference is ../reference/matmul.c. Like every rung, each file opens with the
 * previous bottleneck, a prediction and a limit. The figures come from
 *
 *     python -m weft bench matmul --device cpu
 *         --json notebooks/results/matmul_amd_epyc.json
 *
 * on an AMD EPYC with AVX-512.
 *
 * Lesson:      notebooks/08a_matmul_tiles.ipynb */
#include "matmul.h"

#include "../reference/reference.h"

typedef int multiply_one(float *c, const float *a, const float *b, int m, int n,
                         int k, const struct weft_matmul_options *options);

/* Multiply every matrix of q's batch with `multiply`. */
[[maybe_unused]] static int multiply_each(const struct product *q,
                                          multiply_one *multiply) {
    struct weft_matmul_options options = {};
    options.trans_a = q->trans_a;
    options.trans_b = q->trans_b;
    options.alpha = q->extras.alpha;
    options.beta = q->extras.beta;
    options.bias = q->extras.bias;
    options.relu = q->extras.relu;
    for (int i = 0; i < q->batch; i++)
        WEFT_TRY(multiply(q->c + i * q->extras.step_c,
                          (const float *)q->a + i * q->extras.step_a,
                          (const float *)q->b + i * q->extras.step_b, q->m,
                          q->n, q->k, &options));
    return WEFT_OK;
}

#define PLAIN_C(name, function, idea)                                          \
    static int launch_##name(const struct product *q, cudaStream_t) {          \
        (void)q;                                                               \
        return WEFT_REFERENCE(multiply_each(q, function));                     \
    }                                                                          \
    MATMUL_RUNG(name, idea, "fp32", WEFT_CPU, 0, ANY_A | ANY_B, launch_##name, \
                NULL)

PLAIN_C(ijk, matmul_ijk, "plain C, the definition")
PLAIN_C(ikj, matmul_ikj, "plain C, rows instead of columns of b")
PLAIN_C(blocked, matmul_blocked, "plain C, a block of b that the cache keeps")
PLAIN_C(simd, matmul_simd, "plain C, packed strips, a tile of c in registers")
PLAIN_C(reference, matmul_reference,
        "plain C, packed and blocked for all caches, threaded")
