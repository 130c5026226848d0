/* lt.c -- a product by cuBLASLt, whose heuristics propose several algorithms,
 * and the same product with an epilogue: c = relu(a @ b + bias) in one kernel.
 * Manual: https://docs.nvidia.com/cuda/cublas/#using-the-cublaslt-api */
#include <stdlib.h>

#include "vendor.h"

// clang-format off
/* cdef: cuBLASLt's declarations, and ours */
struct lt_proposal { uint64_t algo[8]; size_t workspace; int state; float waves; int reserved[4]; };
int cublasLtCreate(void **handle);
int cublasLtMatmulDescCreate(void **desc, int compute_type, int scale_type);
int cublasLtMatmulDescSetAttribute(void *desc, int name, const void *value, size_t bytes);
int cublasLtMatrixLayoutCreate(void **layout, int type, uint64_t rows, uint64_t cols, int64_t ld);
int cublasLtMatmulPreferenceCreate(void **pref);
int cublasLtMatmulPreferenceSetAttribute(void *pref, int name, const void *value, size_t bytes);
int cublasLtMatmulAlgoGetHeuristic(void *handle, void *desc, void *a, void *b, void *c, void *d, void *pref, int most, struct lt_proposal *proposals, int *count);
int cublasLtMatmul(void *handle, void *desc, const void *alpha, const void *a, void *a_layout, const void *b, void *b_layout, const void *beta, const void *c, void *c_layout, void *d, void *d_layout, const void *algo, void *workspace, size_t bytes, void *stream);

int lt_matmul(void **plan, const struct product *p); /* bias may be NULL */
/* cdef: ... to here. */
// clang-format on

enum { R_32F = 0, COMPUTE_32F = 68, EPILOGUE = 7, BIAS_POINTER = 8, MOST = 8 };
enum { RELU_BIAS = 6, MAX_WORKSPACE_BYTES = 1, NOT_SUPPORTED = 15 };
static const float one = 1, zero = 0;

struct plan {
    void *handle, *desc, *a, *b, *c, *pref; /* all column-major, as in blas.c */
    struct lt_proposal proposals[MOST];
    int count, epilogue;
};

static int create(struct plan *l, const struct product *p) {
    TRY(cublasLtCreate(&l->handle));
    TRY(cublasLtMatmulDescCreate(&l->desc, COMPUTE_32F, R_32F));
    TRY(cublasLtMatrixLayoutCreate(&l->a, R_32F, p->k, p->m, p->k));
    TRY(cublasLtMatrixLayoutCreate(&l->b, R_32F, p->n, p->k, p->n));
    TRY(cublasLtMatrixLayoutCreate(&l->c, R_32F, p->n, p->m, p->n));
    TRY(cublasLtMatmulPreferenceCreate(&l->pref));
    TRY(cublasLtMatmulPreferenceSetAttribute(l->pref, MAX_WORKSPACE_BYTES,
                                             &p->bytes, sizeof p->bytes));
    l->epilogue = RELU_BIAS;
    if (p->bias)
        TRY(cublasLtMatmulDescSetAttribute(l->desc, EPILOGUE, &l->epilogue, 4));
    if (p->bias)
        TRY(cublasLtMatmulDescSetAttribute(l->desc, BIAS_POINTER, &p->bias, 8));
    return cublasLtMatmulAlgoGetHeuristic(l->handle, l->desc, l->b, l->a, l->c,
                                          l->c, l->pref, MOST, l->proposals,
                                          &l->count);
}

int lt_matmul(void **plan, const struct product *p) {
    if (!*plan) TRY(create(*plan = calloc(1, sizeof(struct plan)), p));
    const struct plan *l = *plan;
    if (p->choice >= l->count) return NOT_SUPPORTED;
    return cublasLtMatmul(
        l->handle, l->desc, &one, p->b, l->b, p->a, l->a, &zero, p->c, l->c,
        p->c, l->c, l->proposals[p->choice].algo, p->workspace, p->bytes, NULL);
}
