/* 01_naive.cu -- cross_entropy, rung 1: a thread per row, then one block.
 *
 * Idea:    one thread per row writes its probabilities. Then one block adds the
 *          rows' losses in a tree in shared memory: blocks cannot wait for
 *          each other within a launch. One block always adds in the same
 *          order.
 * Limit:   neighbouring threads read rows that are `classes` apart, so loads do
 *          not coalesce; maximum and sum are computed twice, and one block uses
 *          only one multiprocessor. For 10 classes the launches cost more than
 *          all of these.
 * Error:   a thread adds n / THREADS losses in sequence, and the tree adds
 *          log2(THREADS) more; log and exp err by a few times 2^-24.
 * Lesson:  notebooks/10a_backwards.ipynb */
#include "cross_entropy.cuh"

/* Find the maximum of x[0..classes) and the sum of exp(x - maximum), and store
 * them in *largest and *sum. */
static __device__ void row_sums(float *largest, float *sum, const float *x,
                                int classes) {
    float most = x[0];
    for (int j = 1; j < classes; j++) most = x[j] > most ? x[j] : most;
    float total = 0.0f;
    for (int j = 0; j < classes; j++) total += expf(x[j] - most);
    *largest = most;
    *sum = total;
}

/* Compute prob (n,classes) = softmax of logits. One thread computes one row. */
static __global__ void cross_entropy_naive(float *prob, const float *logits,
                                           int n, int classes) {
    const size_t row = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= (size_t)n) return;
    const float *x = logits + row * classes;
    float most, sum;
    row_sums(&most, &sum, x, classes);
    for (int j = 0; j < classes; j++)
        prob[row * classes + j] = expf(x[j] - most) / sum;
}

/* Compute loss (1) = the mean of the rows' losses, with a single block. */
static __global__ void cross_entropy_naive_loss(float *loss,
                                                const float *logits,
                                                const int64_t *target, int n,
                                                int classes) {
    __shared__ float partial[THREADS];
    const int tid = threadIdx.x;

    float acc = 0.0f;
    for (size_t row = tid; row < (size_t)n; row += THREADS) {
        const float *x = logits + row * classes;
        float most, sum;
        row_sums(&most, &sum, x, classes);
        // A kernel cannot reject a target, but it must not hide a bad one.
        const int bad = target[row] < 0 || target[row] >= classes;
        acc += bad ? NAN : logf(sum) - (x[target[row]] - most);
    }
    partial[tid] = acc;
    __syncthreads(); // all sums are stored
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (tid < half) partial[tid] += partial[tid + half];
        __syncthreads(); // the sums of this round are complete
    }
    if (tid == 0) *loss = partial[0] / n;
}

/* Compute dlogits (n,classes) = (prob - onehot(target)) * dloss / n. One thread
 * computes one element. */
static __global__ void cross_entropy_naive_dlogits(float *dlogits,
                                                   const float *dloss,
                                                   const float *prob,
                                                   const int64_t *target, int n,
                                                   int classes) {
    const size_t index = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= (size_t)n * classes) return;
    const int64_t col = (int64_t)(index % classes);
    const int64_t wanted = target[index / classes];
    const int bad = wanted < 0 || wanted >= classes;
    const float onehot = bad ? NAN : col == wanted ? 1.0f : 0.0f;
    dlogits[index] = (prob[index] - onehot) * ((dloss ? *dloss : 1.0f) / n);
}

int cross_entropy_naive(const scoring *s) {
    cross_entropy_naive<<<blocks_for(s->n), THREADS, 0, s->stream>>>(
        s->prob, s->logits, s->n, s->classes);
    WEFT_LAUNCHED(cross_entropy_naive);
    cross_entropy_naive_loss<<<1, THREADS, 0, s->stream>>>(
        s->loss, s->logits, s->target, s->n, s->classes);
    WEFT_LAUNCHED(cross_entropy_naive_loss);
    return WEFT_OK;
}

int cross_entropy_naive_backward(const gradient *g) {
    cross_entropy_naive_dlogits<<<blocks_for((size_t)g->n * g->classes),
                                  THREADS, 0, g->stream>>>(
        g->dlogits, g->dloss, g->prob, g->target, g->n, g->classes);
    WEFT_LAUNCHED(cross_entropy_naive_dlogits);
    return WEFT_OK;
}
