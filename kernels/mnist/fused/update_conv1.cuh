/* update_conv1.cuh -- the role of update() for conv1 and its batch norm: this
 * step's gradients, and the inputs of the next step's conv1.
 *
 * The gradients come from conv1's winners (winners.cuh) and the patches' sums
 * (moments.cuh). Let d be the gradient of the batch norm output at the winners,
 * and zero elsewhere. With S[tap] = sum of d * patch[tap], N places in the
 * batch and y = w . p, batch norm's backward pass gives
 *
 *     dbeta = sum d,  dgamma = rstd (sum d y - mean dbeta), sum d y = w . S
 *     dy    = gamma rstd (d - dbeta / N - (y - mean) rstd dgamma / N)
 *
 * and dw[tap] = sum of dy * p[tap] over all places is then
 *
 *     gamma rstd (S[tap] - dbeta / N P[tap] - rstd dgamma / N Q[tap])
 *     Q[tap] = sum_j w[j] PP[j][tap] - mean P[tap]
 *
 * with P and PP the sums over the batch of p[tap] and p[j] p[tap]. */
#ifndef WEFT_UPDATE_CONV1_H
#define WEFT_UPDATE_CONV1_H
#include "bn1.cuh"
#include "update.cuh"
#include "winners.cuh"

/* A block has two channels. Half of its threads add up the winners. If a step
 * follows, the other half computes the sums over that step's patches. These
 * yield the batch norm of that step as soon as the weights are updated. */
enum { WINNER_THREADS = THREADS / 2 };

struct conv1_shared {
    double parts[WINNER_THREADS], sums[SUMS * BN1_EACH];
    struct patch_sums patches, next;
    struct bn1_scratch scratch;
    float w[BN1_EACH][TAPS], gamma[BN1_EACH], beta[BN1_EACH]; /* old, new */
};

struct conv1_gradients {
    double dw, dgamma, dbeta;
};

/* Compute the gradients of weight `tap` of the block's channel c, and of the
 * channel's batch norm. */
static __device__ __forceinline__ struct conv1_gradients
conv1_backward(const struct conv1_shared *b, int c, int tap, double mean,
               double rstd, double per_place) {
    const double *S = b->sums + c;
    double dy = 0, row = 0;
#pragma unroll
    for (int j = 0; j < TAPS; j++) {
        dy += b->w[c][j] * S[j * BN1_EACH];
        row += b->w[c][j] *
               b->patches.pp[j < tap ? pair_of(j, tap) : pair_of(tap, j)];
    }
    const double p = b->patches.p[tap];
    struct conv1_gradients g;
    g.dbeta = S[TAPS * BN1_EACH];
    g.dgamma = rstd * (dy - mean * g.dbeta);
    g.dw = b->gamma[c] * rstd *
           (S[tap * BN1_EACH] - g.dbeta * per_place * p -
            rstd * g.dgamma * per_place * (row - mean * p));
    return g;
}

/* Load the old parameters of channel first + c into shared memory, with 18
 * threads. */
static __device__ __forceinline__ void conv1_load(struct conv1_shared *b,
                                                  const struct step *s,
                                                  int channel, int c, int tap) {
    b->w[c][tap] = s->params[CONV1_W + tap * C1 + channel];
    if (tap) return;
    b->gamma[c] = s->params[BN1_W + channel];
    b->beta[c] = s->params[BN1_B + channel];
}

/* Replace the old parameters with the new ones. */
static __device__ __forceinline__ void
conv1_store(struct conv1_shared *b, const struct step *s,
            const struct conv1_gradients *g, int channel, int c, int tap) {
    b->w[c][tap] =
        sgd(s, CONV1_W + tap * C1 + channel, b->w[c][tap], (float)g->dw);
    if (tap) return;
    b->gamma[c] = sgd(s, BN1_W + channel, b->gamma[c], (float)g->dgamma);
    b->beta[c] = sgd(s, BN1_B + channel, b->beta[c], (float)g->dbeta);
    s->grads[CONV1_B + channel] = 0.0f; // batch norm removes the bias
}

/* Do the work of the role. If `ahead`, `next` holds the sums of the next batch;
 * b is in shared memory. */
static __device__ __forceinline__ void
conv1_role(struct conv1_shared *b, const struct step *s,
           const struct slots winners, struct bn1 *bn1,
           const struct bn1_from next, int ahead, int block) {
    const int i = threadIdx.x, other = i - WINNER_THREADS;
    const int first = block * BN1_EACH;
    const struct columns columns = {first, BN1_EACH, SUMS, C1};
    const int c = i / TAPS, tap = i % TAPS, channel = first + c;
    const bool mine = c < BN1_EACH; // whether the thread has a weight
    double mean = 0, rstd = 0;
    if (mine) {
        mean = bn1->mean[channel], rstd = bn1->rstd[channel];
        conv1_load(b, s, channel, c, tap);
    }
    if (other < 0)
        column_parts(b->parts, winners, WINNERS, columns, i, WINNER_THREADS);
    else if (ahead)
        bn1_add_slots(&b->scratch, &next, other);
    if (other >= 0 && other < TAPS + PAIRS)
        ((double *)&b->patches)[other] =
            ((const double *)&bn1->patches[block])[other];
    __syncthreads();
    if (other < 0)
        column_total(b->sums, b->parts, columns, i, WINNER_THREADS);
    else if (ahead)
        bn1_zones(&b->scratch, other);
    __syncthreads();
    struct conv1_gradients g = {};
    if (mine)
        g = conv1_backward(b, c, tap, mean, rstd,
                           1.0 / ((double)s->batch * PIXELS1));
    else if (other >= 0 && ahead)
        bn1_patches(&b->next, &b->scratch, &next, other);
    __syncthreads(); // the old weights have been read
    if (mine) conv1_store(b, s, &g, channel, c, tap);
    __syncthreads();
    if (!ahead) return;
    const int warp = i / 32;
    if (warp < BN1_EACH)
        bn1_channel(bn1, first + warp, &b->next, b->w[warp], b->gamma[warp],
                    b->beta[warp], &next, i % 32);
    else
        bn1_keep(bn1, &b->next, block, i - 32 * BN1_EACH);
}

#endif
