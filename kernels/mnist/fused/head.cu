/* head.cu -- from fc1's parts to the loss and back to the gradient of fc1's
 * output: bias, ReLU, the second linear layer, softmax, and all their
 * gradients.
 *
 * Idea:    one warp per image. A lane has 4 of the 128 hidden units. For all
 *          images of the warp, it keeps their columns of fc2's weights and of
 *          the gradient in registers. So only an image's numbers are loaded. A
 *          logit is a sum over the lanes. Shuffles deliver it to every lane, so
 *          each lane computes the softmax without further communication. At the
 *          end the warps of a block combine their sums in shared memory. The
 *          block stores its part of the sums over the batch in a slot.
 * Limit:   at 64 images, three waits for memory, one after the other: the
 *          image's number, its label, and the parts of fc1. At 16384 images,
 *          the reads of fc1's parts and the writes of h and dh.
 * Lesson:  notebooks/15b_mnist_gpu.ipynb */
/* g++: -O1 */
#include "element.cuh"
#include "launch.cuh"
#include "moments.cuh"

#include <math.h>

enum {
    HEAD_FEW_WARPS = 4,   // per block if there are few images: one image each
                          // at 64
    HEAD_MANY_WARPS = 16, // for many images: fewer blocks write fewer slots
    HEAD_FEW = 256,
    /* The positions of the parts of a slot; see fused.h. */
    HEAD_BIAS2 = CLASSES * HIDDEN,
    HEAD_BIAS1 = HEAD_BIAS2 + CLASSES,
    HEAD_LOSS = HEAD_BIAS1 + HIDDEN,
};

struct head_arguments {
    const float *hidden; /* (hidden_count,batch,128) */
    int hidden_count, batch;
    const float *bias1, *weights2, *bias2;
    struct fused_run *run;
    float *h, *logits, *slots;
    void *dh;
    int blocks; /* blocks of the head itself; further blocks work for the next
                 * step */
    moment *moments;
};

/* A lane's sums over its warp's images. */
struct head_sums {
    float weights2[CLASSES][4], bias1[4];
    float bias2; /* lane c < 10: sum for class c */
    float loss;  /* sum of the losses, in lane 0 */
};

/* Return the sum over all lanes to every lane, with the same bits in each. */
static __device__ __forceinline__ float head_sum(float x) {
    for (int step = 16; step > 0; step /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, step);
    return x;
}

/* Compute h[0..4) = relu(fc1) of this lane's units, adding slots in
 * order. */
template <int LOADS>
static __device__ __forceinline__ void
head_hidden(float h[4], const struct head_arguments &from, const float bias[4],
            int image, int lane) {
    const float *at = from.hidden + (size_t)image * HIDDEN + 4 * lane;
    const size_t slot = (size_t)from.batch * HIDDEN;
    for (int j = 0; j < 4; j++) h[j] = bias[j];
    for (int first = 0; first < from.hidden_count; first += LOADS) {
        float parts[LOADS][4]; // load all before adding the first
#pragma unroll
        for (int i = 0; i < LOADS; i++) {
            for (int j = 0; j < 4; j++) parts[i][j] = 0.0f;
            if (first + i < from.hidden_count)
                load4(parts[i], at + (first + i) * slot);
        }
#pragma unroll
        for (int i = 0; i < LOADS; i++)
            for (int j = 0; j < 4; j++) h[j] += parts[i][j];
    }
    for (int j = 0; j < 4; j++) h[j] = relu(h[j]);
}

/* Compute the logits of one image in every lane. */
static __device__ __forceinline__ void
head_logits(float logits[CLASSES], const float h[4],
            const float weights[CLASSES][4], const float *bias) {
#pragma unroll
    for (int c = 0; c < CLASSES; c++) {
        float dot = 0.0f;
        for (int j = 0; j < 4; j++) dot = fmaf(h[j], weights[c][j], dot);
        logits[c] = head_sum(dot) + bias[c];
    }
}

/* Replace the logits with p - onehot, the gradient of the loss, and return the
 * loss. */
static __device__ __forceinline__ float head_softmax(float logits[CLASSES],
                                                     int label) {
    float most = logits[0], sum = 0.0f, mine = 0.0f;
#pragma unroll
    for (int c = 1; c < CLASSES; c++) most = fmaxf(most, logits[c]);
#pragma unroll
    for (int c = 0; c < CLASSES; c++) {
        const float shifted = logits[c] - most; // 0 at the maximum, so exp()
                                                // cannot overflow
        if (c == label) mine = shifted;
        logits[c] = expf(shifted);
        sum += logits[c];
    }
    const float scale = 1.0f / sum;
#pragma unroll
    for (int c = 0; c < CLASSES; c++)
        logits[c] = logits[c] * scale - (c == label ? 1.0f : 0.0f);
    return logf(sum) - mine;
}

/* Compute dh[0..4) from the logits' gradients; add to all sums of gradients. */
static __device__ __forceinline__ void
head_back(float dh[4], struct head_sums *sums, const float h[4],
          const float dlogits[CLASSES], const float weights[CLASSES][4],
          int lane) {
    for (int j = 0; j < 4; j++) dh[j] = 0.0f;
#pragma unroll
    for (int c = 0; c < CLASSES; c++) {
        for (int j = 0; j < 4; j++) {
            dh[j] = fmaf(dlogits[c], weights[c][j], dh[j]);
            sums->weights2[c][j] = fmaf(dlogits[c], h[j], sums->weights2[c][j]);
        }
        if (c == lane) sums->bias2 += dlogits[c];
    }
    for (int j = 0; j < 4; j++) {
        if (!(h[j] > 0.0f)) dh[j] = 0.0f;
        sums->bias1[j] += dh[j];
    }
}

/* ---- the sums of a block ------------------------------------------------- */

/* A lane's sums in shared memory: rows of 32 lanes x 4, then the remaining
 * sums. */
enum {
    HEAD_ROWS = CLASSES + 1,
    HEAD_REST = HEAD_ROWS * HIDDEN,
    HEAD_SHARED = HEAD_REST + 12
};

static __device__ __forceinline__ void
head_put(float *to, const struct head_sums &sums, int lane) {
#pragma unroll
    for (int c = 0; c < CLASSES; c++)
        put4(to + c * HIDDEN + 4 * lane, sums.weights2[c]);
    put4(to + CLASSES * HIDDEN + 4 * lane, sums.bias1);
    if (lane < CLASSES) to[HEAD_REST + lane] = sums.bias2;
    if (lane == 0) to[HEAD_REST + CLASSES] = sums.loss;
}
static __device__ __forceinline__ void head_add(struct head_sums *sums,
                                                const float *from, int lane) {
    float v[4];
#pragma unroll
    for (int c = 0; c < CLASSES; c++) {
        load4(v, from + c * HIDDEN + 4 * lane);
        for (int j = 0; j < 4; j++) sums->weights2[c][j] += v[j];
    }
    load4(v, from + CLASSES * HIDDEN + 4 * lane);
    for (int j = 0; j < 4; j++) sums->bias1[j] += v[j];
    if (lane < CLASSES) sums->bias2 += from[HEAD_REST + lane];
    if (lane == 0) sums->loss += from[HEAD_REST + CLASSES];
}

/* While more than four warps have sums, the sums of the second half of the
 * warps are added to those of the first half. The last four warps' sums are
 * side by side in shared memory, and each number of the block's slot is a sum
 * of four numbers. */
template <int WARPS> struct head_parts {
    enum { COUNT = WARPS > 8 ? WARPS / 2 : 4 };
    float part[COUNT][HEAD_SHARED];
};
template <int WARPS>
static __device__ __forceinline__ void
head_meet(struct head_sums *sums, float (*parts)[HEAD_SHARED], float *slot) {
    static_assert(WARPS % 4 == 0, "four warps remain at the end");
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int half = WARPS / 2; half >= 4; half /= 2) {
        if (warp >= half && warp < 2 * half)
            head_put(parts[warp - half], *sums, lane);
        __syncthreads();
        if (warp < half) head_add(sums, parts[warp], lane);
        __syncthreads();
    }
    if (warp < 4) head_put(parts[warp], *sums, lane);
    __syncthreads();
    for (int i = threadIdx.x; i < HEAD; i += 32 * WARPS) {
        const int at = i < HEAD_BIAS2   ? i
                       : i < HEAD_BIAS1 ? HEAD_REST + i - HEAD_BIAS2
                       : i < HEAD_LOSS  ? HEAD_BIAS2 + i - HEAD_BIAS1
                                        : HEAD_REST + CLASSES;
        slot[i] = (parts[0][at] + parts[1][at]) + (parts[2][at] + parts[3][at]);
    }
}

/* ---- kernels ------------------------------------------------------------- */

static __device__ __forceinline__ void
head_put_logits(const struct head_arguments &to, const float logits[CLASSES],
                int image, int lane) {
#pragma unroll
    for (int c = 0; c < CLASSES; c++)
        if (c == lane) to.logits[image * CLASSES + c] = logits[c];
}

/* Compute the sums that conv1 of the next step needs (moments.cuh). Extra
 * blocks do this, since the head of a small batch leaves most of the GPU idle.
 * All inputs of these blocks are older than the previous kernel. */
template <int WARPS>
static __device__ void head_ahead(const struct head_arguments &from,
                                  unsigned *warps_s, int block, int blocks) {
    const int next = from.run->first + from.batch;
    if (block == 0 && threadIdx.x == 0) from.run->next = next;
    moments_role(from.moments, warps_s, from.run, next, from.batch, block,
                 blocks, WARPS);
}

template <enum precision P, int WARPS>
static __global__ void __launch_bounds__(32 * WARPS)
    head_train(const struct head_arguments from) {
    typedef typename element<P>::T T;
    __shared__ __align__(16) struct head_parts<WARPS> shared;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int warps = from.blocks * WARPS;
    if ((int)blockIdx.x >= from.blocks)
        return head_ahead<WARPS>(from, (unsigned *)&shared,
                                 blockIdx.x - from.blocks,
                                 gridDim.x - from.blocks);
    // The weights and the run are older than the previous kernel.
    float weights[CLASSES][4], bias1[4];
    for (int c = 0; c < CLASSES; c++)
        load4(weights[c], from.weights2 + c * HIDDEN + 4 * lane);
    load4(bias1, from.bias1 + 4 * lane);
    const int32_t *order = from.run->order + from.run->first;
    const uint8_t *labels = from.run->labels;
    struct head_sums sums = {};

    int image = blockIdx.x * WARPS + warp;
    int label = image < from.batch ? labels[order[image]] : 0;
    pdl_wait();
    pdl_trigger();
    while (image < from.batch) {
        float h[4], logits[CLASSES], dh[4];
        const int next = image + warps;
        const int next_label = next < from.batch ? labels[order[next]] : 0;
        head_hidden<WARPS <= 4 ? 28 : 4>(h, from, bias1, image, lane);
        put4(from.h + (size_t)image * HIDDEN + 4 * lane, h);
        head_logits(logits, h, weights, from.bias2);
        head_put_logits(from, logits, image, lane);
        const float loss = head_softmax(logits, label);
        if (lane == 0) sums.loss += loss;
        head_back(dh, &sums, h, logits, weights, lane);
        store4<P>((T *)from.dh + (size_t)image * HIDDEN + 4 * lane, dh);
        image = next;
        label = next_label;
    }
    head_meet<WARPS>(&sums, shared.part,
                     from.slots + (size_t)blockIdx.x * HEAD);
}

/* Compute only the logits. */
static __global__ void __launch_bounds__(32 * HEAD_FEW_WARPS)
    head_forward(const struct head_arguments from) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float weights[CLASSES][4], bias1[4];
    for (int c = 0; c < CLASSES; c++)
        load4(weights[c], from.weights2 + c * HIDDEN + 4 * lane);
    load4(bias1, from.bias1 + 4 * lane);
    pdl_wait();
    pdl_trigger();
    for (int image = blockIdx.x * HEAD_FEW_WARPS + warp; image < from.batch;
         image += gridDim.x * HEAD_FEW_WARPS) {
        float h[4], logits[CLASSES];
        head_hidden<14>(h, from, bias1, image, lane);
        head_logits(logits, h, weights, from.bias2);
        head_put_logits(from, logits, image, lane);
    }
}

template <enum precision P, int WARPS>
static int head_run(struct fused *f, struct head_arguments from,
                    cudaStream_t stream) {
    const int blocks = CEIL_DIV(from.batch, WARPS);
    int grid = from.blocks = blocks < HEAD_SLOTS ? blocks : HEAD_SLOTS;
    f->head.count = from.blocks;
    if (f->ahead) {
        f->moments.count = moment_blocks(f, from.batch, WARPS);
        grid += f->moments.count;
    }
    LAUNCH(f, (head_train<P, WARPS>), grid, 32 * WARPS, 0, stream, from);
    return WEFT_OK;
}
template <enum precision P>
static int head_sized(struct fused *f, const struct head_arguments &from,
                      cudaStream_t stream) {
    return from.batch <= HEAD_FEW
               ? head_run<P, HEAD_FEW_WARPS>(f, from, stream)
               : head_run<P, HEAD_MANY_WARPS>(f, from, stream);
}

int fused_head(struct fused *f, int batch, int train, cudaStream_t stream) {
    struct head_arguments from;
    from.hidden = f->hidden.data;
    from.hidden_count = f->hidden.count;
    from.batch = batch;
    from.bias1 = f->params + FC1_B;
    from.weights2 = f->params + FC2_W;
    from.bias2 = f->params + FC2_B;
    from.run = f->run;
    from.h = f->h;
    from.logits = f->logits;
    from.slots = f->head.data;
    from.moments = (moment *)f->moments.data;
    from.dh = f->dh;
    if (!train) {
        const int blocks = CEIL_DIV(batch, HEAD_FEW_WARPS);
        LAUNCH(f, head_forward, blocks < 8 * f->blocks ? blocks : 8 * f->blocks,
               32 * HEAD_FEW_WARPS, 0, stream, from);
        return WEFT_OK;
    }
    switch (f->precision) {
    case TF32: return head_sized<TF32>(f, from, stream);
    case BF16: return head_sized<BF16>(f, from, stream);
    case FP16: return head_sized<FP16>(f, from, stream);
    default: return head_sized<FP32>(f, from, stream);
    }
}
