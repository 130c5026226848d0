/* update.cu -- the end of a step: sums over slots, SGD, and on to the next
 * batch.
 *
 * Idea:    what many blocks left in slots is added up here, in a fixed order,
 * so that the same seed gives the same bits. Each parameter then takes its step
 * at once, and with it the copies that the next step's kernels read. One
 * launch; which parameters a block has is its role. Limit:   a kernel of its
 * own, though it does little but read. Binds:   at B = 64 the launch, and
 * reading conv2's slots (up to 9 MB).
 *
 * conv1's gradients come from its winners (winners.cuh) and the patches' sums
 * (moments.cuh). With d the gradient of the winners' batch norm output, zero
 * elsewhere, S[tap] = sum of d * patch[tap], N places in the batch and
 * y = w . p, batch norm's backward pass gives
 *
 *     dbeta = sum d,  dgamma = rstd (sum d y - mean dbeta) where sum d y = w .
 * S dy    = gamma rstd (d - dbeta / N - (y - mean) rstd dgamma / N)
 *
 * and dw[tap] = sum of dy * p[tap] over all places is then
 *
 *     gamma rstd (S[tap] - dbeta / N P[tap]
 *                        - rstd dgamma / N (sum_j w[j] PP[j][tap] - mean
 * P[tap]))
 *
 * with P and PP the sums over the batch of p[tap] and p[j] p[tap]. */
#include "element.cuh"
#include "launch.cuh"
#include "moments.cuh"
#include "winners.cuh"

enum { THREADS = 256, WARPS = THREADS / 32 };

/* The blocks of each role, one role after the other. */
enum {
    CONV2_EACH = 128, /* weights a block: a tap, 4 output and all 32 inputs */
    CONV2_BLOCKS = TAPS * C2 * C1 / CONV2_EACH,
    BN2_EACH = 8, /* channels */
    BN2_BLOCKS = C2 / BN2_EACH,
    CONV1_EACH = 2, /* channels */
    CONV1_BLOCKS = C1 / CONV1_EACH,
    HEAD_EACH = 32, /* sums */
    HEAD_BLOCKS = (HEAD + HEAD_EACH - 1) / HEAD_EACH,
    FC1_EACH = 4 * THREADS, /* weights, four a thread */
    FC1_BLOCKS = HIDDEN * FEATURES / FC1_EACH,
};

/* What is the same for all roles. */
struct step {
    float *params, *grads;
    float lr, batch, eps;
};

/* `sum` is the gradient of the sum over the batch. Returns the new parameter.
 */
static __device__ __forceinline__ float sgd(const struct step *s, int index,
                                            float sum) {
    const float grad = sum / s->batch;
    const float param = s->params[index] - s->lr * grad;
    s->grads[index] = grad;
    return s->params[index] = param;
}

/* ---- adding up few columns ----------------------------------------------- */

/* sums_s[k] = sum over the slots of column k, in double; there are runs * width
 * columns: `width` neighbours, then as many `pitch` further on, and so on. The
 * block's threads share the slots; each adds its own in order, then the
 * threads' parts are added in order. */
static __device__ void column_sums(double *sums_s, double parts_s[THREADS],
                                   const struct slots from, int slot_size,
                                   int first, int width, int runs, int pitch) {
    const int columns = width * runs, groups = THREADS / columns;
    const int k = threadIdx.x % columns, group = threadIdx.x / columns;
    const float *column = from.data + first + k / width * pitch + k % width;
    double sum = 0;
    if (group < groups) {
#pragma unroll 8
        for (int s = group; s < from.count; s += groups)
            sum += column[(size_t)s * slot_size];
    }
    parts_s[threadIdx.x] = sum;
    __syncthreads();
    if (group == 0) {
        for (int g = 1; g < groups; g++) sum += parts_s[g * columns + k];
        sums_s[k] = sum;
    }
    __syncthreads();
}

/* ---- conv2's weights ----------------------------------------------------- */

/* Weight (tap,oc,ic) in the layouts of its two copies; see fused.h. */
template <enum precision P>
static __device__ __forceinline__ void
shadow_conv2(typename element<P>::T *conv2_f, typename element<P>::T *conv2_b,
             int index, float w) {
    const int tap = index / (C2 * C1), oc = index / C1 % C2, ic = index % C1;
    const typename element<P>::T narrowed = narrow<P>(w);
    if (P == FP32) {
        conv2_f[(ic * TAPS + tap) * C2 + oc] = narrowed;
        conv2_b[(oc * TAPS + 8 - tap) * C1 + ic] = narrowed;
    } else {
        conv2_f[index] = narrowed;
        conv2_b[((8 - tap) * C1 + ic) * C2 + oc] = narrowed;
    }
}

template <enum precision P>
static __device__ void
update_conv2(const struct step *s, const struct slots dw2,
             typename element<P>::T *conv2_f, typename element<P>::T *conv2_b,
             int block) {
    __shared__ float parts_s[WARPS][CONV2_EACH];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int first = block * CONV2_EACH;
    float sum[4] = {};
#pragma unroll 8 // loads under way at a time
    for (int slot = warp; slot < dw2.count; slot += WARPS) {
        float part[4];
        load4(part,
              dw2.data + (size_t)slot * (TAPS * C2 * C1) + first + 4 * lane);
        for (int k = 0; k < 4; k++) sum[k] += part[k];
    }
    put4(&parts_s[warp][4 * lane], sum);
    __syncthreads();
    if (threadIdx.x >= CONV2_EACH) return;
    float total = 0.0f;
    for (int w = 0; w < WARPS; w++) total += parts_s[w][threadIdx.x];
    const int index = first + threadIdx.x;
    shadow_conv2<P>(conv2_f, conv2_b, index, sgd(s, CONV2_W + index, total));
}

/* ---- batch norm 2 -------------------------------------------------------- */

static __device__ void update_bn2(const struct step *s, const struct slots sum2,
                                  const struct slots sum4, int block) {
    __shared__ double parts_s[THREADS];
    __shared__ double forward_s[2 * BN2_EACH], backward_s[2 * BN2_EACH];
    const int first = block * BN2_EACH, i = threadIdx.x;
    column_sums(forward_s, parts_s, sum2, 2 * C2, first, BN2_EACH, 2, C2);
    column_sums(backward_s, parts_s, sum4, 2 * C2, first, BN2_EACH, 2, C2);
    if (i >= BN2_EACH) return;
    const double count = (double)s->batch * PIXELS2;
    const double mean = forward_s[i] / count;
    const double var = forward_s[BN2_EACH + i] / count - mean * mean;
    const double rstd = rsqrt((var > 0 ? var : 0) + s->eps);
    const double dbeta = backward_s[i];
    const double dgamma = rstd * (backward_s[BN2_EACH + i] - mean * dbeta);
    sgd(s, BN2_W + first + i, (float)dgamma);
    sgd(s, BN2_B + first + i, (float)dbeta);
    s->grads[CONV2_B + first + i] = 0.0f; // batch norm takes a bias away
}

/* ---- conv1 and batch norm 1 ---------------------------------------------- */

/* Gradients of one channel: of weight `tap`, and of batch norm's two. S are the
 * winners' ten sums, `stride` apart. */
struct conv1_grads {
    double dw, dgamma, dbeta;
};

static __device__ struct conv1_grads
conv1_backward(const double *S, int stride, const struct patch_sums *patch_s,
               const float w[TAPS], double gamma, int tap, double count,
               double eps) {
    double mean, rstd, dy = 0, row = 0;
    patch_statistics(&mean, &rstd, patch_s, w, count, eps);
    for (int j = 0; j < TAPS; j++) {
        dy += w[j] * S[j * stride];
        row += w[j] * patch_s->pp[j < tap ? pair_of(j, tap) : pair_of(tap, j)];
    }
    struct conv1_grads g;
    const double p = patch_s->p[tap];
    g.dbeta = S[TAPS * stride];
    g.dgamma = rstd * (dy - mean * g.dbeta);
    g.dw = gamma * rstd *
           (S[tap * stride] - g.dbeta / count * p -
            rstd * g.dgamma / count * (row - mean * p));
    return g;
}

static __device__ void update_conv1(const struct step *s,
                                    const struct slots winners,
                                    const struct patch_sums *patches,
                                    int block) {
    __shared__ double parts_s[THREADS], sums_s[SUMS * CONV1_EACH];
    __shared__ struct patch_sums patch_s;
    const int i = threadIdx.x, first = block * CONV1_EACH;
    if (i < TAPS + PAIRS)
        ((double *)&patch_s)[i] = ((const double *)patches)[i];
    column_sums(sums_s, parts_s, winners, WINNERS, first, CONV1_EACH, SUMS, C1);

    const int c = i % CONV1_EACH, tap = i / CONV1_EACH, channel = first + c;
    const bool mine = tap < TAPS;
    struct conv1_grads g = {};
    if (mine) {
        float w[TAPS];
        for (int j = 0; j < TAPS; j++)
            w[j] = s->params[CONV1_W + j * C1 + channel];
        g = conv1_backward(sums_s + c, CONV1_EACH, &patch_s, w,
                           s->params[BN1_W + channel], tap,
                           (double)s->batch * PIXELS1, s->eps);
    }
    __syncthreads(); // all have read the weights
    if (!mine) return;
    sgd(s, CONV1_W + tap * C1 + channel, (float)g.dw);
    if (tap) return;
    sgd(s, BN1_W + channel, (float)g.dgamma);
    sgd(s, BN1_B + channel, (float)g.dbeta);
    s->grads[CONV1_B + channel] = 0.0f;
}

/* ---- the linear layers --------------------------------------------------- */

/* fc2, fc1's bias, the loss; then on to the next batch, which nobody else in
 * this kernel may look at. */
static __device__ void update_head(const struct step *s,
                                   const struct slots head,
                                   struct fused_run *run, int block) {
    __shared__ double parts_s[THREADS], sums_s[HEAD_EACH];
    const int first = block * HEAD_EACH, i = first + (int)threadIdx.x;
    const int width = HEAD - first < HEAD_EACH ? HEAD - first : HEAD_EACH;
    column_sums(sums_s, parts_s, head, HEAD, first, width, 1, 0);
    if ((int)threadIdx.x >= width) return;
    const int fc2 = CLASSES * HIDDEN + CLASSES; // weights, then biases
    const float sum = (float)sums_s[threadIdx.x];
    if (i < fc2) {
        sgd(s, FC2_W + i, sum);
    } else if (i < fc2 + HIDDEN) {
        sgd(s, FC1_B + i - fc2, sum);
    } else {
        run->losses[run->step % run->ring] = sum / s->batch;
        run->step += 1;
        run->first += (int)s->batch;
    }
}

/* Four weights of fc1; fc1_s is NULL where params themselves are read. */
template <enum precision P>
static __device__ void update_fc1(const struct step *s, const struct slots dfc1,
                                  typename element<P>::T *fc1_s, int block) {
    const int index = block * FC1_EACH + 4 * (int)threadIdx.x;
    float sum[4] = {}, w[4];
#pragma unroll 4
    for (int slot = 0; slot < dfc1.count; slot++) {
        float part[4];
        load4(part, dfc1.data + (size_t)slot * (HIDDEN * FEATURES) + index);
        for (int k = 0; k < 4; k++) sum[k] += part[k];
    }
    load4(w, s->params + FC1_W + index);
    for (int k = 0; k < 4; k++) sum[k] /= s->batch, w[k] -= s->lr * sum[k];
    put4(s->grads + FC1_W + index, sum);
    put4(s->params + FC1_W + index, w);
    if (fc1_s) store4<P>(fc1_s + index, w);
}

/* ---- the kernels --------------------------------------------------------- */

template <enum precision P>
static __global__ void __launch_bounds__(THREADS)
    update(const struct fused f, int batch) {
    typedef typename element<P>::T T;
    pdl_wait();
    pdl_trigger();
    const struct step s = {f.params, f.grads, f.run->lr, (float)batch, f.eps};
    int block = blockIdx.x;
    // The roles with the longest way to go come first.
    if (block < CONV1_BLOCKS)
        return update_conv1(&s, f.winners, patch_sums_of(&f), block);
    if ((block -= CONV1_BLOCKS) < BN2_BLOCKS)
        return update_bn2(&s, f.sum2, f.sum4, block);
    if ((block -= BN2_BLOCKS) < CONV2_BLOCKS)
        return update_conv2<P>(&s, f.dw2, (T *)f.conv2_f, (T *)f.conv2_b,
                               block);
    if ((block -= CONV2_BLOCKS) < HEAD_BLOCKS)
        return update_head(&s, f.head, f.run, block);
    update_fc1<P>(&s, f.dfc1, P == FP32 ? NULL : (T *)f.fc1_s,
                  block - HEAD_BLOCKS);
}

/* Copies of the parameters; a thread takes weights THREADS * blocks apart. */
template <enum precision P>
static __global__ void __launch_bounds__(THREADS)
    shadows(typename element<P>::T *conv2_f, typename element<P>::T *conv2_b,
            typename element<P>::T *fc1_s, const float *params) {
    const int stride = gridDim.x * THREADS;
    const int from = blockIdx.x * THREADS + threadIdx.x;
    pdl_wait();
    pdl_trigger();
    for (int i = from; i < TAPS * C2 * C1; i += stride)
        shadow_conv2<P>(conv2_f, conv2_b, i, params[CONV2_W + i]);
    if (P != FP32) // there params themselves are read
        for (int i = from; i < HIDDEN * FEATURES; i += stride)
            fc1_s[i] = narrow<P>(params[FC1_W + i]);
}

template <enum precision P>
static int launch_update(struct fused *f, int batch, cudaStream_t stream) {
    // With one slot fc1_back has updated fc1 itself.
    const int blocks = CONV1_BLOCKS + BN2_BLOCKS + CONV2_BLOCKS + HEAD_BLOCKS +
                       (f->dfc1.count > 1 ? FC1_BLOCKS : 0);
    LAUNCH(f, update<P>, blocks, THREADS, 0, stream, *f, batch);
    return WEFT_OK;
}

template <enum precision P>
static int launch_shadows(struct fused *f, cudaStream_t stream) {
    typedef typename element<P>::T T;
    LAUNCH(f, shadows<P>, 4 * f->blocks, THREADS, 0, stream, (T *)f->conv2_f,
           (T *)f->conv2_b, (T *)f->fc1_s, (const float *)f->params);
    return WEFT_OK;
}

int fused_update(struct fused *f, int batch, cudaStream_t stream) {
    switch (f->precision) {
    case FP32: return launch_update<FP32>(f, batch, stream);
    case TF32: return launch_update<TF32>(f, batch, stream);
    case BF16: return launch_update<BF16>(f, batch, stream);
    case FP16: return launch_update<FP16>(f, batch, stream);
    }
    return weft_fail(WEFT_EINVAL, "mnist: update in precision %d",
                     f->precision);
}

int fused_shadows(struct fused *f, cudaStream_t stream) {
    switch (f->precision) {
    case FP32: return launch_shadows<FP32>(f, stream);
    case TF32: return launch_shadows<TF32>(f, stream);
    case BF16: return launch_shadows<BF16>(f, stream);
    case FP16: return launch_shadows<FP16>(f, stream);
    }
    return weft_fail(WEFT_EINVAL, "mnist: shadows in precision %d",
                     f->precision);
}
