/* fc1_back.cu -- both gradients of the first linear layer in one kernel.
 *
 *     dp2[b][k]  = sum over o of dh[b][o] w[o][k], where BN2's output was > 0
 *     dfc1[o][k] = sum over b of dh[b][o] a[b][k], a = relu(bn2(m2))
 *
 * Idea:    a block owns FEATURES of k, some pixels times some channels, with
 *          all 128 rows of their weights, and goes through its part of the
 *          batch 64 images at a time: m2 is read once for a, for the mask and
 *          for the sums that BN2's backward needs (of dp2 and of dp2 * m2). All
 *          but dh is older than the kernel before this one, so it loads early.
 *          With the whole batch in one block nobody else holds part of its
 *          gradient, and nobody else reads its weights: it makes their step
 *          itself and dfc1 is never stored.
 * FP32:    4 x 4 numbers of dp2 and 8 x 4 of dfc1 a thread; small blocks split
 *          both sums in SLICES.
 * Others:  mma.sync. Three of the four operands lie with the summed index down
 *          the rows, which fragments.cuh reads across.
 * Banks:   rows are PAD longer: FP32 4 floats (float4s of neighbouring rows),
 *          TF32 8 floats (8 columns x 4 rows of a fragment), others 16 bytes
 *          (ldmatrix). For TF32 the rows of dh, 136 floats, meet two by two in
 *          ldmatrix: one of its two readers had to.
 * Limit:   at 64 images the waits: weights, dh, the update's stores. Above,
 * FP32 reads shared memory as long as it multiplies, the others wait for m2 and
 * dp2. Lesson:  notebooks/15_mnist.ipynb
 */
#include "bn2.cuh"
#include "fragments.cuh"
#include "launch.cuh"

template <enum precision PRECISION, int PIXELS_, int CHANNELS_>
struct back_tile {
    typedef typename element<PRECISION>::T T;
    static const enum precision P = PRECISION;
    enum {
        THREADS = 256,
        ROWS = 64, // images at a time
        PIXELS = PIXELS_,
        CHANNELS = CHANNELS_,
        GROUPS = C2 / CHANNELS,
        PLACES = (PIXELS3 + PIXELS - 1) / PIXELS,
        WIDTH = PIXELS * CHANNELS, // features
        PAD = PRECISION == FP32 ? 4 : 8,
        PITCH = WIDTH + PAD, // of weights and activations
        DH_PITCH = HIDDEN + PAD,
        OUT_PITCH = WIDTH + 8, // of dp2
        QUADS = WIDTH / 4,     // of a row
        STRIDE = THREADS / QUADS,
        LOADS = ROWS / STRIDE, // quads of m2 that a thread takes
        // FP32: 16 x QUADS threads have work; the others take part of the sum.
        SLICES = PRECISION == FP32 ? THREADS / (16 * QUADS) : 1,
        OUT_FLOATS = SLICES * ROWS * OUT_PITCH,
        BYTES = ((HIDDEN + ROWS) * PITCH + ROWS * DH_PITCH) * (int)sizeof(T) +
            OUT_FLOATS * 4,
    };
    static_assert(SLICES >= 1 && THREADS % QUADS == 0, "work for all threads");
    static_assert(sizeof(bn2_affine<THREADS, CHANNELS>) <= OUT_FLOATS * 4,
                  "the statistics fit where dp2 will be");
};

struct back_arguments {
    const void *m2, *dh;
    struct bn2_sources bn2;
    const struct fused_run *run;
    void *dp2;
    float *sum4, *dfc1;
    float *params, *grads; /* of fc1's weights */
    void *shadow;
    int batch;
    int parts; /* of the batch; 1: update the weights */
};

/* Where a block's arrays lie in its shared memory, and what it owns. */
template <class TILE> struct back_block {
    typedef typename TILE::T T;
    T *weights, *a, *dh; /* (128,WIDTH), (64,WIDTH), (64,128) */
    float *out;          /* (SLICES,64,WIDTH): dp2 before its mask */
    int pixel, channel;  /* the first */

    __device__ __forceinline__ explicit back_block(void *shared) {
        out = (float *)shared; // first: it begins as bn2_affine's doubles
        weights = (T *)(out + TILE::OUT_FLOATS);
        a = weights + HIDDEN * TILE::PITCH;
        dh = a + TILE::ROWS * TILE::PITCH;
        pixel = blockIdx.x / TILE::GROUPS * TILE::PIXELS;
        channel = blockIdx.x % TILE::GROUPS * TILE::CHANNELS;
    }
    /* Feature i of the block is one of the last pixel's neighbours or there is
     * no such pixel; where it lies in a row of 3136. */
    __device__ __forceinline__ bool exists(int i) const {
        return pixel + i / TILE::CHANNELS < PIXELS3;
    }
    __device__ __forceinline__ int feature(int i) const {
        return (pixel + i / TILE::CHANNELS) * C2 + channel + i % TILE::CHANNELS;
    }
};

/* ---- loading ------------------------------------------------------------- */

static __device__ __forceinline__ void back_zero16(void *shared) {
    *(float4 *)shared = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
}

template <class TILE>
static __device__ __forceinline__ void
back_copy_weights(const struct back_block<TILE> &block, const void *from) {
    typedef typename TILE::T T;
    enum { EACH = 16 / sizeof(T), PIECES = TILE::WIDTH / EACH };
    for (int i = threadIdx.x; i < HIDDEN * PIECES; i += TILE::THREADS) {
        const int o = i / PIECES, k = i % PIECES * EACH;
        T *to = block.weights + o * TILE::PITCH + k;
        if (block.exists(k))
            copy16_async(to, (const T *)from + (size_t)o * FEATURES +
                                 block.feature(k));
        else
            back_zero16(to);
    }
    copy_commit();
}

/* dh of 64 images from `first` on; past the batch zeros, which add nothing. */
template <class TILE>
static __device__ __forceinline__ void
back_copy_dh(const struct back_block<TILE> &block, const void *from, int first,
             int batch) {
    typedef typename TILE::T T;
    enum { EACH = 16 / sizeof(T), PIECES = HIDDEN / EACH };
    for (int i = threadIdx.x; i < TILE::ROWS * PIECES; i += TILE::THREADS) {
        const int row = i / PIECES, o = i % PIECES * EACH;
        T *to = block.dh + row * TILE::DH_PITCH + o;
        if (first + row < batch)
            copy16_async(to,
                         (const T *)from + (size_t)(first + row) * HIDDEN + o);
        else
            back_zero16(to);
    }
    copy_commit();
}

/* This thread's quads of m2: one place in a row, LOADS rows STRIDE apart. */
template <class TILE>
static __device__ __forceinline__ void
back_fetch(struct quad<typename TILE::T> *quads,
           const struct back_block<TILE> &block, const void *m2, int first,
           int batch) {
    const int k = threadIdx.x % TILE::QUADS * 4;
    first += threadIdx.x / TILE::QUADS;
#pragma unroll
    for (int i = 0; i < TILE::LOADS; i++) {
        const int row = first + i * TILE::STRIDE;
        quads[i] = {};
        if (row < batch && block.exists(k))
            quad_load(&quads[i], (const typename TILE::T *)m2 +
                                     (size_t)row * FEATURES + block.feature(k));
    }
}

/* The same quads through BN2 and ReLU to shared memory. */
template <class TILE>
static __device__ __forceinline__ void
back_place(const struct back_block<TILE> &block,
           const struct quad<typename TILE::T> *quads, const float scale[4],
           const float shift[4]) {
    const int k = threadIdx.x % TILE::QUADS * 4;
#pragma unroll
    for (int i = 0; i < TILE::LOADS; i++) {
        const int row = threadIdx.x / TILE::QUADS + i * TILE::STRIDE;
        float v[4];
        quad_widen(v, quads[i]);
        for (int j = 0; j < 4; j++)
            v[j] = fmaxf(bn2_value(v[j], scale[j], shift[j]), 0.0f);
        store4<TILE::P>(block.a + row * TILE::PITCH + k, v);
    }
}

/* ---- dp2's mask and its sums --------------------------------------------- */

struct back_sums {
    float dp2[4], dp2_m2[4];
};

/* dp2 of this thread's quads (the same as of m2) from `out` to memory, rounded
 * where T is narrower; what is summed is what was stored. */
template <class TILE>
static __device__ __forceinline__ void
back_store_dp2(const struct back_block<TILE> &block, struct back_sums *sums,
               void *dp2, const struct quad<typename TILE::T> *quads,
               const float scale[4], const float shift[4], int first,
               int batch) {
    typedef typename TILE::T T;
    // No tensor core reads dp2 itself, so TF32 keeps it as it is.
    const enum precision KEPT = TILE::P == TF32 ? FP32 : TILE::P;
    const int k = threadIdx.x % TILE::QUADS * 4;
    if (!block.exists(k)) return;
#pragma unroll
    for (int i = 0; i < TILE::LOADS; i++) {
        const int row = threadIdx.x / TILE::QUADS + i * TILE::STRIDE;
        if (first + row >= batch) break;
        const float *at = block.out + row * TILE::OUT_PITCH + k;
        float v[4], part[4], m2[4];
        quad_widen(m2, quads[i]);
        load4(v, at);
        for (int s = 1; s < TILE::SLICES; s++) {
            load4(part, at + s * TILE::ROWS * TILE::OUT_PITCH);
            for (int j = 0; j < 4; j++) v[j] += part[j];
        }
        T kept[4];
        for (int j = 0; j < 4; j++) {
            const bool on = bn2_value(m2[j], scale[j], shift[j]) > 0.0f;
            kept[j] = narrow<KEPT>(on ? v[j] : 0.0f);
            v[j] = widen(kept[j]);
            sums->dp2[j] += v[j];
            sums->dp2_m2[j] = fmaf(v[j], m2[j], sums->dp2_m2[j]);
        }
        put4((T *)dp2 + (size_t)(first + row) * FEATURES + block.feature(k),
             kept);
    }
}

/* The block's sums to its channels of its slot of sum4: lanes that hold the
 * same channels meet by shuffles, warps in `shared`. */
template <class TILE>
static __device__ __forceinline__ void
back_store_sums(const struct back_block<TILE> &block, struct back_sums *sums,
                float *shared, float *slot) {
    enum { QUADS = TILE::CHANNELS / 4, WARPS = TILE::THREADS / 32 };
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int step = QUADS; step < 32; step *= 2)
        for (int j = 0; j < 4; j++) {
            sums->dp2[j] += __shfl_xor_sync(0xffffffffu, sums->dp2[j], step);
            sums->dp2_m2[j] +=
                __shfl_xor_sync(0xffffffffu, sums->dp2_m2[j], step);
        }
    __syncthreads(); // dp2 has been read from there
    if (lane < QUADS) {
        float *part = shared + warp * 2 * TILE::CHANNELS + 4 * lane;
        put4(part, sums->dp2);
        put4(part + TILE::CHANNELS, sums->dp2_m2);
    }
    __syncthreads();
    if (threadIdx.x < 2 * TILE::CHANNELS) {
        const int which = threadIdx.x / TILE::CHANNELS;
        float sum = 0.0f;
        for (int w = 0; w < WARPS; w++)
            sum += shared[w * 2 * TILE::CHANNELS + threadIdx.x];
        slot[which * C2 + block.channel + threadIdx.x % TILE::CHANNELS] = sum;
    }
}

/* ---- dfc1 or the step of the weights ------------------------------------- */

/* What becomes of a sum of dfc1: N neighbours (2 or 4) of row o from k on. */
template <class TILE, int N>
static __device__ __forceinline__ void
back_finish(const struct back_block<TILE> &block,
            const struct back_arguments &to, const float *old, const float *sum,
            float rate, int o, int k) {
    if (!block.exists(k)) return;
    const size_t at = (size_t)o * FEATURES + block.feature(k);
    float *out = to.dfc1 + (size_t)blockIdx.y * HIDDEN * FEATURES + at;
    float v[N], weight[N];
    if (to.parts == 1) {
        out = to.grads + at;
        for (int j = 0; j < N; j++) v[j] = sum[j] / to.batch;
        for (int j = 0; j < N; j++) weight[j] = old[j] - rate * v[j];
    } else {
        for (int j = 0; j < N; j++) v[j] = sum[j];
    }
    if (N == 4)
        *(float4 *)out = make_float4(v[0], v[1], v[N - 2], v[N - 1]);
    else
        *(float2 *)out = make_float2(v[0], v[1]);
    if (to.parts > 1) return;
    for (int j = 0; j < N; j += 2)
        *(float2 *)(to.params + at + j) = make_float2(weight[j], weight[j + 1]);
    if (TILE::P != FP32)
        for (int j = 0; j < N; j++)
            ((typename TILE::T *)to.shadow)[at + j] =
                narrow<TILE::P>(weight[j]);
}

/* ---- FP32: multiply-adds ------------------------------------------------- */

/* 16 threads down times QUADS across, in SLICES of the summed index. A warp
 * stands 4 x 8: its loads are 8 neighbouring float4 or 4 that many lanes ask.
 */
template <class TILE> struct back_ffma {
    enum { SLICES = TILE::SLICES, DOWN = 16, WARPS_ACROSS = TILE::QUADS / 8 };
    float sum[2][4][4]; /* dfc1: rows 4 row + (0..3) and 64 more; a quad of k */
    int row, k, slice;

    __device__ __forceinline__ explicit back_ffma() {
        const int lane = threadIdx.x % 32;
        const int warp = threadIdx.x % (DOWN * TILE::QUADS) / 32;
        slice = threadIdx.x / (DOWN * TILE::QUADS);
        k = (lane % 8 + 8 * (warp % WARPS_ACROSS)) * 4;
        row = lane / 8 + 4 * (warp / WARPS_ACROSS);
        for (int h = 0; h < 2; h++)
            for (int i = 0; i < 4; i++)
                for (int j = 0; j < 4; j++) sum[h][i][j] = 0.0f;
    }
    __device__ __forceinline__ void read_old(const struct back_block<TILE> &,
                                             const struct back_arguments &) {}

    /* Images row, row + 16, ... of dp2, a slice of its sum over o. */
    __device__ __forceinline__ void dp2(const struct back_block<TILE> &block) {
        enum { STEPS = HIDDEN / SLICES };
        const float *dh = block.dh + row * TILE::DH_PITCH + slice * STEPS;
        const float *w = block.weights + slice * STEPS * TILE::PITCH + k;
        float out[4][4] = {};
#pragma unroll 2
        for (int o = 0; o < STEPS; o += 4) {
            float left[4][4], right[4][4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                load4(left[i], dh + i * DOWN * TILE::DH_PITCH + o);
                load4(right[i], w + (o + i) * TILE::PITCH);
            }
#pragma unroll
            for (int e = 0; e < 4; e++)
#pragma unroll
                for (int i = 0; i < 4; i++)
#pragma unroll
                    for (int j = 0; j < 4; j++)
                        out[i][j] = fmaf(left[i][e], right[e][j], out[i][j]);
        }
        float *to = block.out + slice * TILE::ROWS * TILE::OUT_PITCH;
        for (int i = 0; i < 4; i++)
            put4(to + (row + i * DOWN) * TILE::OUT_PITCH + k, out[i]);
    }

    /* += a slice of these images' sum. */
    __device__ __forceinline__ void dfc1(const struct back_block<TILE> &block) {
        enum { STEPS = TILE::ROWS / SLICES };
        const float *dh = block.dh + slice * STEPS * TILE::DH_PITCH + 4 * row;
        const float *a = block.a + slice * STEPS * TILE::PITCH + k;
#pragma unroll 4
        for (int b = 0; b < STEPS; b++) {
            float left[2][4], right[4];
            load4(left[0], dh + b * TILE::DH_PITCH);
            load4(left[1], dh + b * TILE::DH_PITCH + 64);
            load4(right, a + b * TILE::PITCH);
#pragma unroll
            for (int h = 0; h < 2; h++)
#pragma unroll
                for (int i = 0; i < 4; i++)
#pragma unroll
                    for (int j = 0; j < 4; j++)
                        sum[h][i][j] = fmaf(left[h][i], right[j], sum[h][i][j]);
        }
    }

    /* Two slices exchange the half that the other finishes. */
    __device__ __forceinline__ void finish(const struct back_block<TILE> &block,
                                           const struct back_arguments &to,
                                           float rate) {
        static_assert(SLICES <= 2, "halves");
        static_assert(TILE::OUT_FLOATS >= 16 * TILE::THREADS || SLICES == 1,
                      "room");
        enum { PER_SLICE = TILE::THREADS / SLICES };
        const int mine = threadIdx.x, other = mine ^ PER_SLICE;
        if (SLICES == 2) {
            __syncthreads();
            for (int i = 0; i < 4; i++)
                for (int j = 0; j < 4; j++)
                    block.out[(4 * i + j) * TILE::THREADS + mine] =
                        sum[slice ? 0 : 1][i][j];
            __syncthreads();
        }
#pragma unroll
        for (int h = 0; h < 2; h++) {
            if (SLICES == 2 && h != slice) continue;
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int o = 64 * h + 4 * row + i;
                if (SLICES == 2)
                    for (int j = 0; j < 4; j++)
                        sum[h][i][j] +=
                            block.out[(4 * i + j) * TILE::THREADS + other];
                float old[4]; // FP32's shared weights are the parameters
                load4(old, block.weights + o * TILE::PITCH + k);
                back_finish<TILE, 4>(block, to, old, sum[h][i], rate, o, k);
            }
        }
    }
};

/* ---- TF32, BF16, FP16: tensor cores -------------------------------------- */

/* Warps stand 4 x 2: 16 images of dp2, 32 rows of dfc1; half of the features,
 * in TILES of 8. */
template <class TILE> struct back_mma {
    typedef typename TILE::T T;
    enum { TILES = TILE::WIDTH / 16, K = k_step<T>::K };
    static_assert(TILES % 2 == 0, "fragments of weights come in pairs");
    float sum[2][TILES][4], old[2][TILES][4];
    int down, k;

    __device__ __forceinline__ explicit back_mma() {
        const int warp = threadIdx.x / 32;
        down = warp / 2;
        k = warp % 2 * TILE::WIDTH / 2;
        for (int i = 0; i < 2; i++)
            for (int j = 0; j < TILES; j++)
                for (int e = 0; e < 4; e++) sum[i][j][e] = 0.0f;
    }
    /* Row and column of this lane's numbers e = 2 half + (0, 1). */
    __device__ __forceinline__ int row_of(int i, int half) const {
        return down * 32 + i * 16 + half * 8 + threadIdx.x % 32 / 4;
    }
    __device__ __forceinline__ int column_of(int j) const {
        return k + j * 8 + threadIdx.x % 4 * 2;
    }

    /* The weights in float, which the update needs: a block of few features has
     * registers to ask for them long before it does. */
    __device__ __forceinline__ void
    read_old(const struct back_block<TILE> &block,
             const struct back_arguments &from) {
        if (from.parts > 1) return;
#pragma unroll
        for (int i = 0; i < 2; i++)
#pragma unroll
            for (int j = 0; j < TILES; j++)
                for (int half = 0; half < 2; half++) {
                    if (!block.exists(column_of(j))) continue;
                    const float2 two =
                        *(const float2 *)(from.params +
                                          (size_t)row_of(i, half) * FEATURES +
                                          block.feature(column_of(j)));
                    old[i][j][2 * half] = two.x;
                    old[i][j][2 * half + 1] = two.y;
                }
    }

    __device__ __forceinline__ void dp2(const struct back_block<TILE> &block) {
        const T *dh = block.dh + down * 16 * TILE::DH_PITCH;
        float out[TILES][4] = {};
#pragma unroll 4
        for (int o = 0; o < HIDDEN; o += K) {
            uint32_t left[4], right[TILES / 2][4];
            fragment_rows(left, dh + o, TILE::DH_PITCH);
#pragma unroll
            for (int j = 0; j < TILES / 2; j++)
                fragment_columns_across(
                    right[j], block.weights + o * TILE::PITCH + k + j * 16,
                    TILE::PITCH);
#pragma unroll
            for (int j = 0; j < TILES; j++)
                mma<TILE::P>(out[j], left, right[j / 2] + j % 2 * 2);
        }
        const int row = down * 16 + threadIdx.x % 32 / 4;
#pragma unroll
        for (int j = 0; j < TILES; j++)
            for (int half = 0; half < 2; half++)
                *(float2 *)(block.out + (row + half * 8) * TILE::OUT_PITCH +
                            column_of(j)) =
                    make_float2(out[j][2 * half], out[j][2 * half + 1]);
    }

    __device__ __forceinline__ void dfc1(const struct back_block<TILE> &block) {
        const T *dh = block.dh + down * 32;
#pragma unroll 2
        for (int b = 0; b < TILE::ROWS; b += K) {
            uint32_t left[2][4], right[TILES / 2][4];
#pragma unroll
            for (int i = 0; i < 2; i++)
                fragment_rows_across(left[i], dh + b * TILE::DH_PITCH + i * 16,
                                     TILE::DH_PITCH);
#pragma unroll
            for (int j = 0; j < TILES / 2; j++)
                fragment_columns_across(right[j],
                                        block.a + b * TILE::PITCH + k + j * 16,
                                        TILE::PITCH);
#pragma unroll
            for (int i = 0; i < 2; i++)
#pragma unroll
                for (int j = 0; j < TILES; j++)
                    mma<TILE::P>(sum[i][j], left[i], right[j / 2] + j % 2 * 2);
        }
    }

    __device__ __forceinline__ void finish(const struct back_block<TILE> &block,
                                           const struct back_arguments &to,
                                           float rate) {
        if (TILES > 2) read_old(block, to);
#pragma unroll
        for (int i = 0; i < 2; i++)
#pragma unroll
            for (int j = 0; j < TILES; j++)
                for (int half = 0; half < 2; half++)
                    back_finish<TILE, 2>(block, to, old[i][j] + 2 * half,
                                         sum[i][j] + 2 * half, rate,
                                         row_of(i, half), column_of(j));
    }
};

/* ---- the kernel ---------------------------------------------------------- */

/* Block (features, part of the batch): chunks of 64 images part, part + parts,
 * and so on. */
template <class TILE, class PRODUCT>
static __global__ void __launch_bounds__(TILE::THREADS, 2)
    fc1_backward(const struct back_arguments from) {
    extern __shared__ __align__(16) unsigned char back_shared[];
    typedef bn2_affine<TILE::THREADS, TILE::CHANNELS> affine_type;
    const struct back_block<TILE> block(back_shared);
    affine_type *affine = (affine_type *)back_shared;
    struct back_sums sums = {};
    struct quad<typename TILE::T> quads[TILE::LOADS];
    float scale[4], shift[4];
    PRODUCT product;

    // All of this is older than the kernel before this one.
    const int step = TILE::ROWS * from.parts;
    int first = TILE::ROWS * blockIdx.y;
    back_copy_weights(block, from.shadow);
    back_fetch<TILE>(quads, block, from.m2, first, from.batch);
    if (TILE::WIDTH <= 32) product.read_old(block, from);
    const float rate = from.run->lr;
    bn2_prepare(affine, from.bn2, block.channel);
    load4(scale, affine->scale + threadIdx.x % (TILE::CHANNELS / 4) * 4);
    load4(shift, affine->shift + threadIdx.x % (TILE::CHANNELS / 4) * 4);
    pdl_wait();
    pdl_trigger();
    back_copy_dh(block, from.dh, first, from.batch);

    for (; first < from.batch; first += step) {
        back_place<TILE>(block, quads, scale, shift);
        copy_wait<0>();
        __syncthreads(); // a, dh and the first time the weights are complete
        product.dp2(block);
        product.dfc1(block);
        __syncthreads(); // dp2 is complete, a and dh are read
        back_copy_dh(block, from.dh, first + step, from.batch);
        back_store_dp2<TILE>(block, &sums, from.dp2, quads, scale, shift, first,
                             from.batch);
        back_fetch<TILE>(quads, block, from.m2, first + step, from.batch);
    }
    const int slot =
        blockIdx.x / TILE::GROUPS * from.parts + blockIdx.y; // of sum4
    back_store_sums(block, &sums, block.out, from.sum4 + slot * 2 * C2);
    product.finish(block, from, rate);
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

/* Few images: 104 blocks of 4 pixels x 8 channels. Many: 49 blocks of a pixel
 * for each part of the batch, two on a multiprocessor. */
enum { BACK_FEW = 512 };

static int back_parts(const struct fused *f, int batch) {
    const int parts = 2 * f->blocks / PIXELS3, most = dfc1_slots(batch);
    return parts < 1 ? 1 : parts < most ? parts : most;
}

template <enum precision P>
static int back_on_tensor_cores(struct fused *f, int batch,
                                cudaStream_t stream) {
    typedef back_tile<P, 4, 8> FEW;
    typedef back_tile<P, 1, 64> MANY;
    const int parts = back_parts(f, batch);
    if (batch <= BACK_FEW)
        return back_run<FEW, back_mma<FEW>>(f, batch, parts, stream);
    return back_run<MANY, back_mma<MANY>>(f, batch, parts, stream);
}

int fused_fc1_back(struct fused *f, int batch, cudaStream_t stream) {
    typedef back_tile<FP32, 4, 8> FEW;
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
