/* fc1_back.cu -- both gradients of the first linear layer in one kernel.
 *
 *     dp2[b][k]  = sum over o of dh[b][o] w[o][k], where BN2's output was > 0
 *     dfc1[o][k] = sum over b of dh[b][o] a[b][k], a = relu(bn2(m2))
 *
 * Idea:    a block owns FEATURES of k, some pixels times some channels, with
 *          all 128 rows of their weights. It processes its part of the batch 64
 *          images at a time. m2 is read once for a, for the mask and for the
 *          sums that BN2's backward pass needs (of dp2 and of dp2 * m2). All
 *          inputs except dh are older than the previous kernel, so the block
 *          loads them early. If a block takes the whole batch, no other block
 *          has a part of its gradient or reads its weights. Then the block
 *          updates the weights itself and never stores dfc1.
 * Files:   fc1_back_tile.cuh has a block's data, loads and stores;
 *          fc1_back_product.cuh the two products, by multiply-adds and by
 *          tensor cores; this file the kernel around them.
 * Limit:   at 64 images, the waits for the weights, for dh and for the update's
 *          stores. With more images, FP32 spends as much time reading shared
 *          memory as multiplying, and the other precisions wait for m2 and dp2.
 * Lesson:  notebooks/15b_mnist_gpu.ipynb */
/* g++: -O1 */
#include "fc1_back_product.cuh"
#include "launch.cuh"

/* ---- the kernel ---------------------------------------------------------- */

/* Compute block (features, part of the batch): chunks of 64 images part, part +
 * parts, and so on. */
template <class TILE, class PRODUCT>
static __global__ void __launch_bounds__(TILE::THREADS, 2)
    fc1_backward(const struct back_arguments from) {
    extern __shared__ __align__(16) unsigned char back_shared[];
    typedef bn2_affine<TILE::THREADS, TILE::CHANNELS> affine_type;
    const struct back_block<TILE> block(back_shared);
    affine_type *affine = (affine_type *)back_shared;
    struct back_sums sums = {};
    struct quad<typename TILE::T> quads[TILE::LOADS];
    float old[TILE::STEPS][4], scale[4], shift[4];
    PRODUCT product;

    // All of these inputs are older than the previous kernel.
    const int step = TILE::ROWS * from.parts;
    int first = TILE::ROWS * blockIdx.y;
    back_copy_weights(block, from.shadow);
    back_fetch<TILE>(quads, block, from.m2, first, from.batch);
    // A block of few features has enough registers to load these weights early.
    if (TILE::WIDTH <= 32) back_read_old<TILE>(old, block, from);
    const float rate = from.run->lr;
    bn2_recall(affine, from.bn2, block.channel);
    load4(scale, affine->scale + threadIdx.x % (TILE::CHANNELS / 4) * 4);
    load4(shift, affine->shift + threadIdx.x % (TILE::CHANNELS / 4) * 4);
    pdl_wait();
    pdl_trigger();
    back_copy_dh(block, from.dh, first, from.batch);

    for (; first < from.batch; first += step) {
        const int next = first + step;
        back_place<TILE>(block, quads, scale, shift);
        copy_wait<0>();
        __syncthreads(); // a, dh and, at first, the weights are complete
        product.dp2(block);
        product.dfc1(block);
        __syncthreads(); // dp2 is complete, and no thread still reads a or dh
        if (next < from.batch) back_copy_dh(block, from.dh, next, from.batch);
        back_store_dp2<TILE>(block, &sums, from.dp2, quads, scale, shift, first,
                             from.batch);
        back_fetch<TILE>(quads, block, from.m2, next, from.batch);
    }
    product.put(block.stage());
    back_put_sums<TILE>(&sums, block.stage() + TILE::STAGE_FLOATS);
    if (TILE::WIDTH > 32) back_read_old<TILE>(old, block, from);
    __syncthreads(); // dfc1 and the sums are complete
    back_finish<TILE>(block, from, old, rate);
    const int slot =
        blockIdx.x / TILE::GROUPS * from.parts + blockIdx.y; // slot of sum4
    back_store_sums<TILE>(block, block.stage() + TILE::STAGE_FLOATS,
                          from.sum4 + slot * 2 * C2);
}

template <class TILE, class PRODUCT>
static int back_run(struct fused *f, int batch, int parts,
                    cudaStream_t stream) {
    struct back_arguments from;
    from.m2 = f->m2;
    from.dh = f->dh;
    from.bn2 = bn2_from(f, batch);
    from.run = f->run;
    from.dp2 = f->dp2;
    from.sum4 = f->sum4.data;
    from.dfc1 = f->dfc1.data;
    from.params = f->params + FC1_W;
    from.grads = f->grads + FC1_W;
    from.shadow = f->fc1_s;
    from.batch = batch;
    from.parts = parts;
    f->dfc1.count = parts;
    f->sum4.count = TILE::PLACES * parts;
    LAUNCH(f, (fc1_backward<TILE, PRODUCT>),
           dim3(TILE::PLACES * TILE::GROUPS, parts), TILE::THREADS, TILE::BYTES,
           stream, from);
    return WEFT_OK;
}

/* With few images there are 98 blocks of half a pixel, with twice as many
 * threads. With many there are 49 blocks of a pixel for each part of the batch,
 * two per multiprocessor. */
enum { BACK_FEW = 512 };

static int back_parts(const struct fused *f, int batch) {
    const int parts = 2 * f->blocks / PIXELS3, most = dfc1_slots(batch);
    return parts < 1 ? 1 : parts < most ? parts : most;
}

template <enum precision P>
static int back_on_tensor_cores(struct fused *f, int batch,
                                cudaStream_t stream) {
    typedef back_tile<P, 1, 32> FEW;
    typedef back_tile<P, 1, 64> MANY;
    const int parts = back_parts(f, batch);
    if (batch <= BACK_FEW)
        return back_run<FEW, back_mma<FEW>>(f, batch, parts, stream);
    return back_run<MANY, back_mma<MANY>>(f, batch, parts, stream);
}

int fused_fc1_back(struct fused *f, int batch, cudaStream_t stream) {
    typedef back_tile<FP32, 1, 32> FEW;
    typedef back_tile<FP32, 1, 64> MANY;
    switch (f->precision) {
    case TF32: return back_on_tensor_cores<TF32>(f, batch, stream);
    case BF16: return back_on_tensor_cores<BF16>(f, batch, stream);
    case FP16: return back_on_tensor_cores<FP16>(f, batch, stream);
    default: break;
    }
    const int parts = back_parts(f, batch);
    if (batch <= BACK_FEW)
        return back_run<FEW, back_ffma<FEW>>(f, batch, parts, stream);
    return back_run<MANY, back_ffma<MANY>>(f, batch, parts, stream);
}
