/* cross_entropy.cuh -- the rungs of cross_entropy, and the code that they
 * share.
 *
 * All rungs but `naive` compute softmax with the pieces of softmax/. Such a
 * piece finds the pair of a row: its maximum, and its sum of exponentials. The
 * pair also determines the row's loss. */
#ifndef WEFT_CROSS_ENTROPY_CUH
#define WEFT_CROSS_ENTROPY_CUH
#include "common/scratch.cuh"
#include "softmax/softmax.cuh"

enum { SHORT = 32 }; // maximum number of logits in a row of `short_rows`

/* Return the loss of a row. The logarithm of the probability itself would be
 * infinite if the probability were too small for a float. Like the softmax, the
 * loss is NaN if the row's maximum is infinite. */
static __device__ __forceinline__ float find_loss(float logit, pair row) {
    return logf(row.sum + (row.most - row.most)) - (logit - row.most);
}

/* The losses of rows, which a kernel stores, and the targets that determine
 * them. */
struct row_losses {
    float *losses; // (n)
    const int64_t *target;
    unsigned classes;

    /* Return the logit of the row's target, or NaN if the target is not a
     * class: a kernel cannot reject a target, but it must not hide a bad
     * one. */
    __device__ __forceinline__ float find_logit(size_t row,
                                                const float *x) const {
        const int64_t wanted = target[row];
        return wanted >= 0 && wanted < classes ? x[wanted] : NAN;
    }
    /* Store the loss of row x, whose pair is `found`. */
    __device__ __forceinline__ void store(size_t row, const float *x,
                                          pair found) const {
        losses[row] = find_loss(find_logit(row, x), found);
    }
};

/* The arguments of weft_cross_entropy(), which the rungs receive. */
struct scoring {
    float *loss;         // (1)
    float *prob;         // (n,classes)
    const float *logits; // (n,classes)
    const int64_t *target;
    unsigned n, classes;
    cudaStream_t stream;
    // Memory from cross_entropy_claim().
    float *losses, *sums; // (n) losses, and the sums of pieces of them
    unsigned *arrived;    // blocks that have stored a sum; 0 at first

    row_losses rows() const { return {losses, target, classes}; }
    /* Return whether every row begins at a multiple of 16 bytes. */
    bool is_wide() const {
        return rows_are_aligned(prob, logits, logits, classes);
    }
};

/* The arguments of weft_cross_entropy_backward(). */
struct gradient {
    float *dlogits;     // (n,classes)
    const float *dloss; // (1), or NULL for 1
    const float *prob;  // (n,classes)
    const int64_t *target;
    unsigned n, classes;
    cudaStream_t stream;
};

/* Queue the work of a rung; each returns a weft_status. `naive` stores the
 * mean. The others store the losses of all rows, but `short_rows` stores the
 * sum of the losses of each 256 rows, or the mean if there are at most 256
 * rows. */
int cross_entropy_naive(const scoring *s);
int cross_entropy_naive_backward(const gradient *g);
int cross_entropy_online(const scoring *s);
int cross_entropy_warp(const scoring *s);
int cross_entropy_block(const scoring *s);
int cross_entropy_split(const scoring *s);
int cross_entropy_registers(const scoring *s);
int cross_entropy_cluster(const scoring *s);
int cross_entropy_short(const scoring *s);
int cross_entropy_backward(const gradient *g);

/* Claim memory for the losses of all rows. Returns a weft_status. */
int cross_entropy_claim(scoring *s, scratch *memory);

/* Queue the mean: loss = (the sum of `count` losses) / n. A loss belongs to a
 * row or to several rows. The order of the additions depends only on
 * `count`. */
int cross_entropy_mean(const scoring *s, unsigned count);

#endif
