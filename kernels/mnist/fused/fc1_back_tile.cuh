/* fc1_back_tile.cuh -- the data, loads and stores of a block of fc1's backward
 * pass (fc1_back.cu).
 *
 * Banks:   each row is followed by PAD unused numbers: 4 floats for FP32
 *          (float4s of neighbouring rows), 8 floats for TF32 (8 columns x 4
 *          rows of a fragment), 16 bytes for others (ldmatrix). For TF32 the
 *          rows of dh, 136 floats, collide in pairs in ldmatrix, since no pitch
 *          suits both of dh's readers. */
#ifndef WEFT_FC1_BACK_TILE_CUH
#define WEFT_FC1_BACK_TILE_CUH
#include "bn2.cuh"
#include "fragments.cuh"

template <enum precision PRECISION, int PIXELS_, int CHANNELS_>
struct back_tile {
    typedef typename element<PRECISION>::T T;
    static const enum precision P = PRECISION;
    enum {
        THREADS = 256,
        ROWS = 64, // images processed at a time
        PIXELS = PIXELS_,
        CHANNELS = CHANNELS_,
        GROUPS = C2 / CHANNELS,
        PLACES = (PIXELS3 + PIXELS - 1) / PIXELS,
        WIDTH = PIXELS * CHANNELS, // features
        PAD = PRECISION == FP32 ? 4 : 8,
        PITCH = WIDTH + PAD, // pitch of weights and activations
        DH_PITCH = HIDDEN + PAD,
        // pitch of dp2: FP32's lanes write two neighbouring rows at the same
        // time
        OUT_PITCH = WIDTH + (PRECISION == FP32 ? 16 : 8),
        QUADS = WIDTH / 4, // quads in a row
        STRIDE = THREADS / QUADS,
        LOADS = ROWS / STRIDE,   // quads of m2 per thread
        STEPS = HIDDEN / STRIDE, // quads of dfc1 per thread
        // With FP32, the product occupies 16 x QUADS threads. Each further
        // group of threads computes a slice of the sum.
        SLICES = PRECISION == FP32 ? THREADS / (16 * QUADS) : 1,
        OUT_FLOATS = SLICES * ROWS * OUT_PITCH,
        STAGE_FLOATS = SLICES * HIDDEN * PITCH,
        SUM_FLOATS = THREADS / 32 * 2 * CHANNELS,
        // FP32 still needs its weights while dfc1 is staged.
        STAGE_ROOM = ((PRECISION == FP32 ? ROWS : HIDDEN + ROWS) * PITCH +
                      ROWS * DH_PITCH) *
            (int)sizeof(T),
        BYTES = ((HIDDEN + ROWS) * PITCH + ROWS * DH_PITCH) * (int)sizeof(T) +
            OUT_FLOATS * 4,
    };
    static_assert(SLICES >= 1 && THREADS % QUADS == 0, "work for all threads");
    static_assert(sizeof(bn2_affine<THREADS, CHANNELS>) <= OUT_FLOATS * 4,
                  "the statistics fit where dp2 will be");
    static_assert((STAGE_FLOATS + SUM_FLOATS) * 4 <= STAGE_ROOM,
                  "dfc1 and the sums fit where their inputs were");
};

struct back_arguments {
    const void *m2, *dh;
    struct bn2_sources bn2;
    const struct fused_run *run;
    void *dp2;
    float *sum4, *dfc1;
    float *params, *grads; /* parameters and gradients of fc1's weights */
    void *shadow;
    int batch;
    int parts; /* parts of the batch; with 1, the kernel updates the weights */
};

/* The addresses of a block's arrays in its shared memory, and the block's share
 * of the work. */
template <class TILE> struct back_block {
    typedef typename TILE::T T;
    T *weights, *a, *dh; /* (128,WIDTH), (64,WIDTH), (64,128) */
    float *out;          /* (SLICES,64,WIDTH): dp2 before its mask */
    int pixel, channel;  /* the block's first pixel and channel */

    __device__ __forceinline__ explicit back_block(void *shared) {
        out = (float *)shared; // first, since it initially holds the doubles of
                               // bn2_affine
        weights = (T *)(out + TILE::OUT_FLOATS);
        a = weights + HIDDEN * TILE::PITCH;
        dh = a + TILE::ROWS * TILE::PITCH;
        pixel = blockIdx.x / TILE::GROUPS * TILE::PIXELS;
        channel = blockIdx.x % TILE::GROUPS * TILE::CHANNELS;
    }
    /* Return the address of the stage, (SLICES,128,WIDTH) and the warps' sums,
     * which overlays the other arrays after they have been read. */
    __device__ __forceinline__ float *stage() const {
        return (float *)(TILE::P == FP32 ? a : weights);
    }
    /* exists() returns whether feature i of the block exists: its pixel may
     * be past the last one. feature() returns its position in a row of
     * 3136. */
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

/* Copy dh of 64 images, beginning with `first`. Images past the batch are
 * zeros, which add nothing. */
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

/* Load this thread's quads of m2: the same place in LOADS rows that are STRIDE
 * apart. */
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

/* Store the quads of back_fetch() in shared memory after applying BN2 and
 * ReLU. */
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
            v[j] = relu(bn2_value(v[j], scale[j], shift[j]));
        store4<TILE::P>(block.a + row * TILE::PITCH + k, v);
    }
}

/* ---- dp2's mask and its sums --------------------------------------------- */

struct back_sums {
    float dp2[4], dp2_m2[4];
};

/* Store dp2 of this thread's quads (the same quads as of m2) from `out` in
 * memory, rounded if T is narrower. The sums use the stored values. */
template <class TILE>
static __device__ __forceinline__ void
back_store_dp2(const struct back_block<TILE> &block, struct back_sums *sums,
               void *dp2, const struct quad<typename TILE::T> *quads,
               const float scale[4], const float shift[4], int first,
               int batch) {
    typedef typename TILE::T T;
    // No tensor core reads dp2 itself, so TF32 stores it unrounded.
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

/* Store the sums of each warp in shared memory. Shuffles combine the lanes that
 * have the same channels. */
template <class TILE>
static __device__ __forceinline__ void back_put_sums(struct back_sums *sums,
                                                     float *shared) {
    enum { QUADS = TILE::CHANNELS / 4 };
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int step = QUADS; step < 32; step *= 2)
        for (int j = 0; j < 4; j++) {
            sums->dp2[j] += __shfl_xor_sync(0xffffffffu, sums->dp2[j], step);
            sums->dp2_m2[j] +=
                __shfl_xor_sync(0xffffffffu, sums->dp2_m2[j], step);
        }
    if (lane < QUADS) {
        float *part = shared + warp * 2 * TILE::CHANNELS + 4 * lane;
        put4(part, sums->dp2);
        put4(part + TILE::CHANNELS, sums->dp2_m2);
    }
}

/* Store the sums of back_put_sums() in the block's channels of its slot of
 * sum4. */
template <class TILE>
static __device__ __forceinline__ void
back_store_sums(const struct back_block<TILE> &block, const float *shared,
                float *slot) {
    if (threadIdx.x >= 2 * TILE::CHANNELS) return;
    const int which = threadIdx.x / TILE::CHANNELS;
    float sum = 0.0f;
    for (int w = 0; w < TILE::THREADS / 32; w++)
        sum += shared[w * 2 * TILE::CHANNELS + threadIdx.x];
    slot[which * C2 + block.channel + threadIdx.x % TILE::CHANNELS] = sum;
}

/* ---- dfc1 or the update of the weights ---------------------------------- */

/* Load the weights in float, for the update: this thread's quads, at the same
 * place in STEPS rows that are STRIDE apart. FP32 has the weights in shared
 * memory. */
template <class TILE>
static __device__ __forceinline__ void
back_read_old(float (*old)[4], const struct back_block<TILE> &block,
              const struct back_arguments &from) {
    const int k = threadIdx.x % TILE::QUADS * 4;
    const int row = threadIdx.x / TILE::QUADS;
    if (TILE::P != FP32 && from.parts == 1 && block.exists(k))
#pragma unroll
        for (int i = 0; i < TILE::STEPS; i++)
            load4(old[i], from.params +
                              (size_t)(row + i * TILE::STRIDE) * FEATURES +
                              block.feature(k));
}

/* Add up the slices of dfc1 in stage(), and store the sums in memory or update
 * the weights. */
template <class TILE>
static __device__ __forceinline__ void
back_finish(const struct back_block<TILE> &block,
            const struct back_arguments &to, float (*old)[4], float rate) {
    const int k = threadIdx.x % TILE::QUADS * 4;
    const float scale = to.parts == 1 ? 1.0f / to.batch : 1.0f;
    float *out = to.parts == 1
                     ? to.grads
                     : to.dfc1 + (size_t)blockIdx.y * HIDDEN * FEATURES;
    if (!block.exists(k)) return;
#pragma unroll
    for (int i = 0; i < TILE::STEPS; i++) {
        const int o = threadIdx.x / TILE::QUADS + i * TILE::STRIDE;
        const size_t at = (size_t)o * FEATURES + block.feature(k);
        float sum[4], part[4];
        load4(sum, block.stage() + o * TILE::PITCH + k);
        for (int s = 1; s < TILE::SLICES; s++) {
            load4(part, block.stage() + (s * HIDDEN + o) * TILE::PITCH + k);
            for (int j = 0; j < 4; j++) sum[j] += part[j];
        }
        for (int j = 0; j < 4; j++) sum[j] *= scale;
        put4(out + at, sum);
        if (to.parts > 1) continue;
        if (TILE::P == FP32)
            load4(old[i], (const float *)block.weights + o * TILE::PITCH + k);
        for (int j = 0; j < 4; j++) old[i][j] -= rate * sum[j];
        put4(to.params + at, old[i]);
        if (TILE::P != FP32)
            store4<TILE::P>((typename TILE::T *)to.shadow + at, old[i]);
    }
}

#endif
