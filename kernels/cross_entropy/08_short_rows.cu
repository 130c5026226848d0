/* 08_short_rows.cu -- cross_entropy, rung 8: many short rows in shared memory.
 *
 * Idea:    a row of ten logits keeps few lanes of a warp busy. A block copies
 *          256 neighbouring rows to shared memory, so that its loads and stores
 *          coalesce, and each thread computes one row there. Rows are an odd
 *          number of floats apart, so that the threads of a warp read different
 *          banks. The block also adds the losses of its rows: one number for
 *          256 rows, and no second launch if the batch has no more rows than
 *          that.
 * Limit:   rows of more than 32 logits, which rung 3 computes. A block's rows
 *          take up to 33 KB of shared memory.
 * Error:   the sum of a row is added in sequence, as in the definition.
 * Lesson:  notebooks/09b_rows.ipynb */
#include "cross_entropy.cuh"

/* Replace a row of logits with their exponentials, and return its pair. */
static __device__ __forceinline__ pair shrink_row(float *x_s,
                                                  unsigned classes) {
    pair found = no_pair();
    for (unsigned i = 0; i < classes; i++)
        found.most = fmaxf(found.most, x_s[i]);
    for (unsigned i = 0; i < classes; i++) {
        x_s[i] = shrink(x_s[i], found.most);
        found.sum += x_s[i];
    }
    return found;
}

static __global__ void __launch_bounds__(THREADS)
    score_short_rows(float *loss, float *prob, const float *logits,
                     row_losses losses, unsigned n) {
    __shared__ float sums_s[WARPS];
    extern __shared__ float rows_s[];
    const unsigned classes = losses.classes, pad = 1 - classes % 2;
    const size_t row = (size_t)blockIdx.x * THREADS + threadIdx.x;
    const size_t first = (size_t)blockIdx.x * THREADS * classes;
    const unsigned count =
        min(n - blockIdx.x * THREADS, (unsigned)THREADS) * classes;
#pragma unroll 4
    for (unsigned i = threadIdx.x; i < count; i += THREADS)
        rows_s[i + i / classes * pad] = logits[first + i];
    __syncthreads(); // all rows are in shared memory
    float own = 0.0f;
    if (row < n) {
        float *const x_s = rows_s + threadIdx.x * (classes + pad);
        const float logit = losses.find_logit(row, x_s);
        const pair found = shrink_row(x_s, classes);
        const float factor = invert(found);
        for (unsigned i = 0; i < classes; i++) x_s[i] *= factor;
        own = find_loss(logit, found);
    }
    __syncthreads(); // the softmax of all rows is in shared memory
#pragma unroll 4
    for (unsigned i = threadIdx.x; i < count; i += THREADS)
        prob[first + i] = rows_s[i + i / classes * pad];
    own = add_threads(own, sums_s);
    if (threadIdx.x == 0) {
        if (gridDim.x == 1)
            *loss = own / n;
        else
            losses.losses[blockIdx.x] = own;
    }
}

int cross_entropy_short(const scoring *s) {
    const size_t bytes = THREADS * (s->classes | 1) * sizeof(float);
    score_short_rows<<<blocks_for(s->n), THREADS, bytes, s->stream>>>(
        s->loss, s->prob, s->logits, s->rows(), s->n);
    WEFT_LAUNCHED(score_short_rows);
    return WEFT_OK;
}
