/* update.cu -- the end of a step: sums over slots, SGD, and the advance to the
 * next batch.
 *
 * Idea:    this kernel adds up the slots that many blocks have stored, in a
 *          fixed order, so the same seed gives the same bits. It then updates
 *          each parameter immediately, together with the copies that the next
 *          step's kernels read. There is one launch, and a block's role is the
 *          set of parameters that it updates.
 * Limit:   a separate launch for a kernel that does little except read. At
 *          B = 64, also conv1's path from sums over slots through the new
 *          weights to the next step's batch norm (update_conv1.cuh); for larger
 *          batches, the reads of conv2's slots (up to 9 MB) and of fc1's.
 * Lesson:  notebooks/15b_mnist_gpu.ipynb */
#include "element.cuh"
#include "launch.cuh"
#include "update_conv1.cuh"

enum { WARPS = THREADS / 32 };

/* The number of blocks of each role, in the order of the roles. */
enum {
    CONV2_EACH = 128, /* weights per block: a tap, 4 outputs, all 32 inputs */
    CONV2_BLOCKS = TAPS * C2 * C1 / CONV2_EACH,
    BN2_EACH = 8, /* channels per block */
    BN2_BLOCKS = C2 / BN2_EACH,
    HEAD_EACH = 32, /* sums per block */
    HEAD_BLOCKS = (HEAD + HEAD_EACH - 1) / HEAD_EACH,
    FC1_EACH = 4 * THREADS, /* weights per block, four per thread */
    FC1_BLOCKS = HIDDEN * FEATURES / FC1_EACH,
};

/* ---- conv2's weights ----------------------------------------------------- */

/* Store weight (tap,oc,ic) in the layouts of its two copies; see fused.h. */
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
    const int first = block * CONV2_EACH, index = first + threadIdx.x;
    const bool mine = threadIdx.x < CONV2_EACH;
    const float old = mine ? s->params[CONV2_W + index] : 0.0f;
    float sum[4] = {};
    const float *from = dw2.data + first + 4 * lane;
    for (int s0 = warp; s0 < dw2.count; s0 += UNDER_WAY * WARPS) {
        float part[UNDER_WAY][4] = {};
#pragma unroll
        for (int j = 0; j < UNDER_WAY; j++) {
            const int slot = s0 + j * WARPS;
            if (slot < dw2.count)
                load4(part[j], from + (size_t)slot * (TAPS * C2 * C1));
        }
#pragma unroll
        for (int j = 0; j < UNDER_WAY; j++)
            for (int k = 0; k < 4; k++) sum[k] += part[j][k];
    }
    put4(&parts_s[warp][4 * lane], sum);
    __syncthreads();
    if (!mine) return;
    float total = 0.0f;
    for (int w = 0; w < WARPS; w++) total += parts_s[w][threadIdx.x];
    shadow_conv2<P>(conv2_f, conv2_b, index,
                    sgd(s, CONV2_W + index, old, total));
}

/* ---- batch norm 2 -------------------------------------------------------- */

static __device__ void update_bn2(const struct step *s, const struct slots sum2,
                                  const struct slots sum4, int block) {
    __shared__ double parts_s[THREADS];
    __shared__ double forward_s[2 * BN2_EACH], backward_s[2 * BN2_EACH];
    const int first = block * BN2_EACH, i = threadIdx.x;
    const float gamma = i < BN2_EACH ? s->params[BN2_W + first + i] : 0.0f;
    const float beta = i < BN2_EACH ? s->params[BN2_B + first + i] : 0.0f;
    const struct columns columns = {first, BN2_EACH, 2, C2};
    column_sums(forward_s, parts_s, sum2, 2 * C2, columns);
    column_sums(backward_s, parts_s, sum4, 2 * C2, columns);
    if (i >= BN2_EACH) return;
    const double count = (double)s->batch * PIXELS2;
    const double mean = forward_s[i] / count;
    const double var = forward_s[BN2_EACH + i] / count - mean * mean;
    const double rstd = rsqrt((var > 0 ? var : 0) + s->eps);
    const double dbeta = backward_s[i];
    const double dgamma = rstd * (backward_s[BN2_EACH + i] - mean * dbeta);
    sgd(s, BN2_W + first + i, gamma, (float)dgamma);
    sgd(s, BN2_B + first + i, beta, (float)dbeta);
    s->grads[CONV2_B + first + i] = 0.0f; // batch norm removes the bias
}

/* ---- conv1 and batch norm 1 ---------------------------------------------- */

static __device__ void update_conv1(const struct step *s, const struct fused *f,
                                    const struct bn1_from next, int block) {
    __shared__ struct conv1_shared conv1_s;
    conv1_role(&conv1_s, s, f->winners, bn1_of(f), next, f->ahead, block);
}

/* ---- the linear layers --------------------------------------------------- */

/* Update fc2 and fc1's bias, store the loss, then advance the run to the next
 * batch. No other block of this kernel may read the run. */
static __device__ void update_head(const struct step *s,
                                   const struct slots head,
                                   struct fused_run *run, int block) {
    __shared__ double parts_s[THREADS], sums_s[HEAD_EACH];
    const int first = block * HEAD_EACH, i = first + (int)threadIdx.x;
    const int width = HEAD - first < HEAD_EACH ? HEAD - first : HEAD_EACH;
    const int fc2 = CLASSES * HIDDEN + CLASSES; // weights, then biases
    const int index = i < fc2 ? FC2_W + i : FC1_B + i - fc2;
    const bool mine = (int)threadIdx.x < width && i < fc2 + HIDDEN;
    const float old = mine ? s->params[index] : 0.0f;
    const struct columns columns = {first, width, 1, 0};
    column_sums(sums_s, parts_s, head, HEAD, columns);
    if ((int)threadIdx.x >= width) return;
    const float sum = (float)sums_s[threadIdx.x];
    if (mine) {
        sgd(s, index, old, sum);
    } else {
        run->losses[run->step % run->ring] = sum / s->batch;
        run->step += 1;
        run->first += run->batch; // s->batch may be that of all workers
    }
}

/* Update four weights of fc1; fc1_s is NULL if the kernels read params
 * directly. */
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
    update(const struct fused f, const struct bn1_from next, int batch) {
    typedef typename element<P>::T T;
    pdl_wait();
    pdl_trigger();
    const struct step s = {f.params, f.grads, f.run->lr, (float)batch, f.eps};
    int block = blockIdx.x;
    // The roles with the longest paths come first, so that they do not delay
    // the end.
    if (block < BN1_BLOCKS) return update_conv1(&s, &f, next, block);
    if ((block -= BN1_BLOCKS) < BN2_BLOCKS)
        return update_bn2(&s, f.sum2, f.sum4, block);
    if ((block -= BN2_BLOCKS) < CONV2_BLOCKS)
        return update_conv2<P>(&s, f.dw2, (T *)f.conv2_f, (T *)f.conv2_b,
                               block);
    if ((block -= CONV2_BLOCKS) < HEAD_BLOCKS)
        return update_head(&s, f.head, f.run, block);
    update_fc1<P>(&s, f.dfc1, P == FP32 ? NULL : (T *)f.fc1_s,
                  block - HEAD_BLOCKS);
}

/* Write the copies of conv2's and fc1's weights that the kernels read. A
 * thread's weights are gridDim.x * THREADS apart. */
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
    if (P != FP32) // for FP32, the kernels read params directly
        for (int i = from; i < HIDDEN * FEATURES; i += stride)
            fc1_s[i] = narrow<P>(params[FC1_W + i]);
}

template <enum precision P>
static int launch_update(struct fused *f, int batch, cudaStream_t stream) {
    // With a single slot, fc1_back has already updated fc1.
    const int blocks = BN1_BLOCKS + BN2_BLOCKS + CONV2_BLOCKS + HEAD_BLOCKS +
                       (f->dfc1.count > 1 ? FC1_BLOCKS : 0);
    LAUNCH(f, update<P>, blocks, THREADS, 0, stream, *f, bn1_from(f, batch),
           batch);
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
