/* conv2_back_mma.cu -- conv2's backward pass for a small batch on tensor cores,
 * in tf32, bf16 or fp16. It computes the gradient of the input, reduced to the
 * sums that conv1 needs, and the gradient of the weights.
 *
 * Idea:    both gradients need dy, which is built once, in shared memory
 *          (dy_lines.cuh). Then some warps convolve it with the mirrored
 *          weights (conv_tiles.cuh: 64 channels in, 16 of dp1 out) while others
 *          multiply 32 of its channels with p1 (dw_tiles.cuh). Two blocks share
 *          an image, and each computes half of both gradients. dp1 goes to
 *          shared memory, from where all warps add it to conv1's winner sums.
 *          Neither dy nor dp1 is ever in global memory. Each half of dw's warps
 *          takes every other group of windows. The halves are added at the end.
 * Measured: one launch instead of two: on an H200, 64 images take 13.3 us
 *          instead of 17.4 in tf32, 9.7 instead of 13.4 in bf16.
 * Limit:   nothing overlaps within a block. For about 256 images or more,
 *          conv2_dx and conv2_dw are faster. Their blocks process several
 *          images and copy the next one during the products.
 * Shared:  tf32 184 KB, 16 bits 110 KB. */
/* g++: -O1 */
#include "conv_tiles.cuh"
#include "dw_tiles.cuh"
#include "dx_tiles.cuh"
#include "dy_lines.cuh"
#include "launch.cuh"

struct back_arrays {
    struct dy_arrays dy;
    const void *weights; /* T (9,32,64), mirrored */
    const void *p1;      /* T (batch,196,32) */
    const uint8_t *code1;
    const struct fused_run *run;
    float *winners; /* (slot,10,32) */
    float *dw2;     /* (slot,9,64,32) */
    float mean, std;
};

template <enum precision P_> struct back_shape {
    static const enum precision P = P_;
    typedef typename element<P_>::T T;
    enum {
        PARTS = 2,           /* blocks that share an image */
        IN = C1 / PARTS,     /* channels of dp1 that a block computes */
        OUT = C2 / PARTS,    /* channels of dy for which a block computes weight
                              * gradients */
        DX_TILES = IN / 8,   /* n-tiles of a warp that computes dx */
        DX_WARPS = GROUPS,   /* number of warps that compute dx; each has a
                              * group of windows */
        DW_TILES = OUT / 16, /* m-tiles of a warp that computes dw */
        DW_WARPS_N = C1 / 8, /* number of warps that compute dw; each has 8
                              * channels of p1 */
        DW_WARPS_K = 2,
        DW_THREADS = 32 * DW_WARPS_N, /* threads in each half of dw's warps */
        WARPS = DX_WARPS + DW_WARPS_N * DW_WARPS_K,
        THREADS = 32 * WARPS,
        ADDING = 14,    /* warps that add up winners, two rows of pixels at a
                         * time */
        PITCH = IN + 4, /* pitch of dp1: neighbouring windows are 8 banks
                         * apart */
        WEIGHTS = TAPS * IN * weight_rows<T, C2>::ROW,
        DY = lines<T, C2>::BYTES,
        P1 = lines<T, C1>::BYTES,
        STAGE = dy_stage<T>::BYTES,
        DP1 = PIXELS2 * PITCH * (int)sizeof(float),
        IMAGE_BYTES = IMAGE_SIZE * (int)sizeof(float),
        CODES = PIXELS2 * IN, /* size in bytes of an image's winners of pool
                               * 1 */
        ALL_SUMS = ADDING * SUMS * IN * (int)sizeof(float),
        BYTES = WEIGHTS + DY + P1 + STAGE + DP1 + IMAGE_BYTES +
            (int)sizeof(struct dy_numbers) + ALL_SUMS + CODES,
        HALF_DW = DW_TILES * TAPS * DW_THREADS * 16, /* size in bytes of the
                                                      * sums of half of dw's
                                                      * warps */
    };
    static_assert(HALF_DW <= DY + P1, "half of dw fits where dy and p1 were");
    static_assert(8 * dy_scratch<THREADS>::DOUBLES <= DP1,
                  "dp1's memory first holds the sums over slots");
};

/* ---- the data gradient --------------------------------------------------- */

/* Store a warp's sums in the warp's part of `scratch` (ADDING,10,IN). */
template <class S>
static __device__ __forceinline__ void
put_sums(float *scratch, float sums[SUMS], int lane, int warp) {
    for (int i = 0; i < SUMS; i++) {
        sums[i] += __shfl_xor_sync(0xffffffffu, sums[i], S::IN);
        if (lane < S::IN) scratch[(warp * SUMS + i) * S::IN + lane] = sums[i];
    }
}

/* Add the block's sums in the order of the warps, and store them in a slot
 * (10,32), beginning with channel `first`. `thread` counts the participating
 * threads from 0. */
template <class S>
static __device__ __forceinline__ void
store_winners(float *slot, const float *scratch, int first, int thread) {
    if (thread >= SUMS * S::IN) return;
    float total = 0.0f;
#pragma unroll
    for (int w = 0; w < S::ADDING; w++)
        total += scratch[w * SUMS * S::IN + thread];
    slot[thread / S::IN * C1 + first + thread % S::IN] = total;
}

/* ---- the weight gradient ------------------------------------------------- */

/* Store the second half's sums in `scratch` for the first half. */
template <class S>
static __device__ __forceinline__ void
put_half(float *scratch, float acc[S::DW_TILES][TAPS][4], int own) {
#pragma unroll
    for (int i = 0; i < S::DW_TILES * TAPS; i++)
        put4(scratch + (i * S::DW_THREADS + own) * 4, acc[i / TAPS][i % TAPS]);
}

/* Store the sums of both halves in a slot (9,64,32), beginning with output
 * channel `first` and input channel `channel`. */
template <class S>
static __device__ __forceinline__ void
store_dw(float *slot, const float *scratch, float acc[S::DW_TILES][TAPS][4],
         int first, int channel, int own, int lane) {
#pragma unroll
    for (int i = 0; i < S::DW_TILES * TAPS; i++) {
        float other[4], *v = acc[i / TAPS][i % TAPS];
        load4(other, scratch + (i * S::DW_THREADS + own) * 4);
        const int oc = first + i / TAPS * 16 + lane / 4;
        float *to = slot + (i % TAPS * C2 + oc) * C1 + channel + lane % 4 * 2;
        *(float2 *)to = make_float2(v[0] + other[0], v[1] + other[1]);
        *(float2 *)(to + 8 * C1) =
            make_float2(v[2] + other[2], v[3] + other[3]);
    }
}

/* ---- both gradients ------------------------------------------------------ */

/* Start copying the winners of an image's channels, beginning with `first`. */
template <class S>
static __device__ __forceinline__ void
copy_codes(uint8_t *codes, const uint8_t *code1, int first) {
    static_assert((int)S::IN == CHUNK && (int)S::THREADS >= PIXELS2,
                  "one copy per thread");
    const int pixel = threadIdx.x;
    if (pixel < PIXELS2)
        copy16_async(codes + pixel * CHUNK, code1 + pixel * C1 + first);
}

/* Compute both gradients for the batch. Blocks 2 i and 2 i + 1 process image
 * i. */
template <class S>
static __global__ void __launch_bounds__(S::THREADS)
    conv2_back(struct back_arrays a) {
    typedef typename S::T T;
    extern __shared__ __align__(128) char memory[];
    char *rows = memory, *dy = rows + S::WEIGHTS, *p1 = dy + S::DY;
    char *stage = p1 + S::P1;
    float *dp1 = (float *)(stage + S::STAGE);
    float *image_s = dp1 + S::DP1 / sizeof(float);
    struct dy_numbers *numbers = (struct dy_numbers *)(image_s + IMAGE_SIZE);
    float *sums_s = (float *)(numbers + 1);
    uint8_t *codes = (uint8_t *)(sums_s + S::ALL_SUMS / sizeof(float));
    const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
    const int dw_thread = thread - 32 * S::DX_WARPS; // negative for threads of
                                                     // dx
    const int half = dw_thread / S::DW_THREADS, own = dw_thread % S::DW_THREADS;
    const int channel = own / 32 * 8;
    const int image = blockIdx.x / S::PARTS, part = blockIdx.x % S::PARTS;
    const size_t at = (size_t)image * PIXELS2 * C1;

    // Before the wait, load data that older kernels have written.
    fetch_c2<T, S::THREADS>(dy, a.dy, image);
    copy_weights<T, float, C2, S::IN, C1, S::THREADS>(
        rows, (const T *)a.weights, part * S::IN);
    copy_image<T, C1, S::THREADS>(p1, (const T *)a.p1 + at);
    copy_codes<S>(codes, a.code1 + at, part * S::IN);
    zero_border<T, C2, S::THREADS>(dy);
    zero_border<T, C1, S::THREADS>(p1);
    load_image(image_s, image_of(a.run, image), a.mean, a.std, thread,
               S::THREADS);
    pdl_wait();
    pdl_trigger();
    fetch_dp2<T, S::THREADS>(stage, a.dy, image);
    copy_commit();
    dy_prepare<S::THREADS>(numbers, (double *)dp1, a.dy.sources);
    copy_wait<0>();
    __syncthreads(); // all copies are complete
    make_dy<S::P, S::THREADS>(dy, stage, numbers);
    __syncthreads(); // dy is complete

    float dw[S::DW_TILES][TAPS][4];
#pragma unroll
    for (int i = 0; i < S::DW_TILES * TAPS * 4; i++) (&dw[0][0][0])[i] = 0.0f;
    if (dw_thread < 0) {
        float acc[1][2][S::DX_TILES][4];
        zero<1, S::DX_TILES>(acc);
        conv_tiles<S::P, C2, 1, S::DX_TILES, S::IN>(acc, dy, warp, rows, 0,
                                                    lane);
        store_dp1<1, S::DX_TILES, S::PITCH>(dp1, acc, warp, 0, lane);
    } else {
        const int first = part * S::OUT * (int)sizeof(T) / CHUNK;
#pragma unroll 1
        for (int group = half; group < GROUPS; group += S::DW_WARPS_K)
            add_group<S::P, S::DW_TILES>(dw, dy, first, p1, channel, group,
                                         lane);
    }
    __syncthreads(); // dp1 is complete; dy and p1 have been read
    if (dw_thread >= S::DW_THREADS) put_half<S>((float *)dy, dw, own);
    if (warp < S::ADDING) {
        float sums[SUMS];
        for (int i = 0; i < SUMS; i++) sums[i] = 0.0f;
        add_winners<S::IN, S::PITCH, S::ADDING>(sums, dp1, codes, S::IN,
                                                image_s, lane, warp);
        put_sums<S>(sums_s, sums, lane, warp);
    }
    __syncthreads();
    if (dw_thread < 0)
        store_winners<S>(a.winners + image * WINNERS, sums_s, part * S::IN,
                         thread);
    else if (half == 0)
        store_dw<S>(a.dw2 + (size_t)image * TAPS * C2 * C1, (const float *)dy,
                    dw, part * S::OUT, channel, own, lane);
}

template <enum precision P>
static int start(struct fused *f, int batch, cudaStream_t stream) {
    typedef back_shape<P> S;
    const struct back_arrays a = {
        dy_arrays_of(f, batch), f->conv2_b,  f->p1,   f->code1, f->run,
        f->winners.data,        f->dw2.data, f->mean, f->std};
    f->winners.count = f->dw2.count = batch;
    f->dw2_made = 1;
    LAUNCH(f, conv2_back<S>, batch * S::PARTS, S::THREADS, S::BYTES, stream, a);
    return WEFT_OK;
}

int fused_conv2_back_mma(struct fused *f, int batch, cudaStream_t stream) {
    switch (f->precision) {
    case TF32: return start<TF32>(f, batch, stream);
    case BF16: return start<BF16>(f, batch, stream);
    case FP16: return start<FP16>(f, batch, stream);
    default:
        return weft_fail(WEFT_EINVAL, "conv2_back: fp32 needs no tensor cores");
    }
}
