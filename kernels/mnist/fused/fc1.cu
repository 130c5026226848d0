/* fc1.cu -- the first linear layer, from conv2's raw pooled output.
 *
 * Idea:    BN2 and its ReLU are applied while a tile moves from memory to
 *          shared memory, so their output is never stored. The sum over 3136
 *          features is divided among blocks, each of which stores its part in a
 *          slot of `hidden`. Without that, a batch of 64 has only 64 x 128
 *          outputs, too few for a GPU. A slot covers some pixels and a GROUP of
 *          their channels. So its blocks need the statistics of few channels,
 *          and each block adds these up.
 * FP32:    a thread owns TALL x WIDE outputs and reads four steps of k in one
 *          load. Small tiles also divide k among a block's warps.
 * Others:  mma.sync; both operands have k along the row, as ldmatrix requires.
 * Limit:   at 64 images, the launch and one memory latency; for 1024 images or
 *          more, the issue of FFMA, or the tensor pipe and the reads of m2.
 * Lesson:  notebooks/15b_mnist_gpu.ipynb */
/* g++: -O1 */
#include "fc1_tile.cuh"
#include "launch.cuh"

/* ---- FP32: multiply-adds ------------------------------------------------- */

/* The product with TALL x WIDE outputs per thread. A thread's rows are ROWS /
 * TALL apart and its outputs OUTS / WIDE apart, so neighbouring lanes read
 * neighbouring rows. */
template <class TILE, int TALL, int WIDE> struct fc1_ffma_product {
    enum {
        DOWN = TILE::ROWS / TALL, // threads of one slice of k
        ACROSS = TILE::OUTS / WIDE,
        SLICES = TILE::THREADS / (DOWN * ACROSS),
        STEPS = TILE::QUADS / SLICES,
        OUT_PITCH = TILE::OUTS + 8, // four rows of eight lanes cover all banks
    };
    static_assert(TILE::QUADS % SLICES == 0, "whole steps");
    static_assert(SLICES * TILE::ROWS * OUT_PITCH * 4 <= TILE::BYTES, "room");
    float sum[TALL][WIDE];
    int row, out, slice;

    __device__ __forceinline__ fc1_ffma_product() {
        const int warp = threadIdx.x % (DOWN * ACROSS) / 32;
        slice = threadIdx.x / (DOWN * ACROSS);
        out = lane_column() + 8 * (warp % (ACROSS / 8));
        row = lane_row() + 4 * (warp / (ACROSS / 8));
        for (int i = 0; i < TALL; i++)
            for (int j = 0; j < WIDE; j++) sum[i][j] = 0.0f;
    }

    __device__ __forceinline__ void add(const float *a, const float *w) {
        a += row * TILE::PITCH + slice * STEPS * 4;
        w += out * TILE::PITCH + slice * STEPS * 4;
#pragma unroll 1 // the loads of one step take 4 (TALL + WIDE) registers
        for (int k = 0; k < STEPS * 4; k += 4) {
            float right[WIDE][4];
#pragma unroll
            for (int j = 0; j < WIDE; j++)
                load4(right[j], w + j * ACROSS * TILE::PITCH + k);
#pragma unroll
            for (int i = 0; i < TALL; i++) {
                float left[4];
                load4(left, a + i * DOWN * TILE::PITCH + k);
#pragma unroll
                for (int j = 0; j < WIDE; j++)
#pragma unroll
                    for (int e = 0; e < 4; e++)
                        sum[i][j] = fmaf(left[e], right[j][e], sum[i][j]);
            }
        }
    }

    /* Store the result through shared memory, where the slices of k are
     * added. */
    __device__ __forceinline__ void store(float *hidden, float *shared,
                                          int rows) {
        __syncthreads(); // the tiles have been read
        float *mine = shared + slice * TILE::ROWS * OUT_PITCH;
#pragma unroll
        for (int i = 0; i < TALL; i++)
#pragma unroll
            for (int j = 0; j < WIDE; j++)
                mine[(row + i * DOWN) * OUT_PITCH + out + j * ACROSS] =
                    sum[i][j];
        __syncthreads();
        for (int i = threadIdx.x; i < TILE::ROWS * TILE::OUTS / 4;
             i += TILE::THREADS) {
            const int at = i / (TILE::OUTS / 4), o = i % (TILE::OUTS / 4) * 4;
            float total[4], part[4];
            load4(total, shared + at * OUT_PITCH + o);
            for (int s = 1; s < SLICES; s++) {
                load4(part, shared + (s * TILE::ROWS + at) * OUT_PITCH + o);
                for (int e = 0; e < 4; e++) total[e] += part[e];
            }
            if (at < rows) put4(hidden + at * HIDDEN + o, total);
        }
    }
};

/* ---- TF32, BF16, FP16: tensor cores -------------------------------------- */

/* The product, computed by a grid of DOWN x ACROSS warps. A warp owns TALL x
 * WIDE tiles of 16 x 8. */
template <class TILE, int DOWN> struct fc1_mma_product {
    typedef typename TILE::T T;
    enum {
        ACROSS = TILE::THREADS / 32 / DOWN,
        TALL = TILE::ROWS / DOWN / 16,
        WIDE = TILE::OUTS / ACROSS / 8,
    };
    static_assert(WIDE % 2 == 0, "ldmatrix loads two tiles of weights");
    float sum[TALL][WIDE][4];
    int row, out; // first row and output of the warp

    __device__ __forceinline__ fc1_mma_product() {
        const int warp = threadIdx.x / 32;
        row = warp / ACROSS * TALL * 16;
        out = warp % ACROSS * WIDE * 8;
        for (int i = 0; i < TALL; i++)
            for (int j = 0; j < WIDE; j++)
                for (int e = 0; e < 4; e++) sum[i][j][e] = 0.0f;
    }

    __device__ __forceinline__ void add(const T *a, const T *w) {
        a += row * TILE::PITCH;
        w += out * TILE::PITCH;
#pragma unroll
        for (int k = 0; k < TILE::STEP; k += k_step<T>::K) {
            uint32_t left[TALL][4], right[WIDE / 2][4];
#pragma unroll
            for (int i = 0; i < TALL; i++)
                fragment_rows(left[i], a + i * 16 * TILE::PITCH + k,
                              TILE::PITCH);
#pragma unroll
            for (int j = 0; j < WIDE / 2; j++)
                fragment_columns(right[j], w + j * 16 * TILE::PITCH + k,
                                 TILE::PITCH);
#pragma unroll
            for (int i = 0; i < TALL; i++)
#pragma unroll
                for (int j = 0; j < WIDE; j++)
                    mma<TILE::P>(sum[i][j], left[i], right[j / 2] + j % 2 * 2);
        }
    }

    __device__ __forceinline__ void store(float *hidden, T *, int rows) {
        const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
        for (int i = 0; i < TALL; i++)
#pragma unroll
            for (int j = 0; j < WIDE; j++)
                for (int half = 0; half < 2; half++) {
                    const int at = row + i * 16 + half * 8 + g;
                    const int o = out + j * 8 + 2 * t;
                    if (at < rows)
                        *(float2 *)(hidden + at * HIDDEN + o) = make_float2(
                            sum[i][j][2 * half], sum[i][j][2 * half + 1]);
                }
    }
};

/* ---- the kernel ---------------------------------------------------------- */

/* Compute block (row tile, output tile, slot). */
template <class TILE, class PRODUCT>
static __global__ void __launch_bounds__(TILE::THREADS, 2)
    fc1_forward(const struct fc1_arguments from) {
    extern __shared__ __align__(16) unsigned char fc1_shared[];
    __shared__ struct bn2_affine<TILE::THREADS, TILE::CHANNELS> affine;
    typename TILE::T *shared = (typename TILE::T *)fc1_shared;
    PRODUCT product;
    fc1_accumulate<TILE>(product, shared, &affine, from);
    const int first_row = blockIdx.x * TILE::ROWS;
    float *hidden = from.hidden +
                    ((size_t)blockIdx.z * from.batch + first_row) * HIDDEN +
                    blockIdx.y * TILE::OUTS;
    product.store(hidden, shared, from.batch - first_row);
}

template <class TILE, class PRODUCT>
static int fc1_run(struct fused *f, int batch, int parts, cudaStream_t stream) {
    struct fc1_arguments from;
    from.m2 = f->m2;
    from.weights = f->fc1_s;
    from.bn2 = bn2_from(f, batch);
    from.hidden = f->hidden.data;
    from.batch = batch;
    from.parts = parts;
    f->hidden.count = parts * TILE::GROUPS;
    const dim3 grid(CEIL_DIV(batch, TILE::ROWS), HIDDEN / TILE::OUTS,
                    f->hidden.count);
    LAUNCH(f, (fc1_forward<TILE, PRODUCT>), grid, TILE::THREADS, TILE::BYTES,
           stream, from);
    return WEFT_OK;
}

/* With few images there are 28 slots of 7 pixels x 16 channels, all loaded at
 * the same time. With more images, there are fewer slots, each a loop over k.
 * Tiles are 64 x 64 until there are enough larger ones, which read less per
 * product. The thresholds are measured on an H200. */
enum { FC1_FEW = 128, FC1_MANY = 2048, FC1_MANY_16_BITS = 4096 };

/* Return the number of parts into which the pixels are split, so that every
 * multiprocessor has `each` blocks, limited by the room for slots. */
template <class TILE>
static int fc1_parts(const struct fused *f, int batch, int each) {
    const int most = hidden_slots(batch) / TILE::GROUPS;
    const int blocks =
        CEIL_DIV(batch, TILE::ROWS) * (HIDDEN / TILE::OUTS) * TILE::GROUPS;
    const int parts = each * f->blocks / blocks;
    return parts < 1 ? 1 : parts < most ? parts : most;
}

template <enum precision P>
static int fc1_on_tensor_cores(struct fused *f, int batch,
                               cudaStream_t stream) {
    enum {
        CHANNELS = P == TF32 ? 32 : 64,
        OUTS = P == TF32 ? 128 : 64,
        EACH = P == TF32 ? 1 : 2,
        MOST = P == TF32 ? FC1_MANY : FC1_MANY_16_BITS,
    };
    typedef fc1_tile<P, 64, 32, 7, 16, 1> FEW;
    typedef fc1_tile<P, 64, 64, 1, CHANNELS, 2> SOME;
    typedef fc1_tile<P, 128, OUTS, 1, CHANNELS, 2> MANY;
    if (batch <= FC1_FEW)
        return fc1_run<FEW, fc1_mma_product<FEW, 4>>(f, batch, 7, stream);
    if (batch <= MOST)
        return fc1_run<SOME, fc1_mma_product<SOME, 2>>(
            f, batch, fc1_parts<SOME>(f, batch, EACH), stream);
    return fc1_run<MANY, fc1_mma_product<MANY, OUTS == 128 ? 2 : 4>>(
        f, batch, fc1_parts<MANY>(f, batch, 2), stream);
}

int fused_fc1(struct fused *f, int batch, cudaStream_t stream) {
    typedef fc1_tile<FP32, 64, 32, 7, 16, 1> FEW;
    typedef fc1_tile<FP32, 64, 64, 1, 32, 2> SOME;
    typedef fc1_tile<FP32, 128, 64, 1, 32, 2> MANY;
    switch (f->precision) {
    case TF32: return fc1_on_tensor_cores<TF32>(f, batch, stream);
    case BF16: return fc1_on_tensor_cores<BF16>(f, batch, stream);
    case FP16: return fc1_on_tensor_cores<FP16>(f, batch, stream);
    default: break;
    }
    if (batch <= FC1_FEW)
        return fc1_run<FEW, fc1_ffma_product<FEW, 4, 4>>(f, batch, 7, stream);
    if (batch <= FC1_MANY)
        return fc1_run<SOME, fc1_ffma_product<SOME, 8, 4>>(
            f, batch, fc1_parts<SOME>(f, batch, 1), stream);
    return fc1_run<MANY, fc1_ffma_product<MANY, 8, 4>>(
        f, batch, fc1_parts<MANY>(f, batch, 2), stream);
}
