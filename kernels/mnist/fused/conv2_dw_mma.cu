/* conv2_dw_mma.cu -- the gradient of conv2's weights on tensor cores, in tf32,
 * bf16 or fp16.
 *
 * Idea:    compute the products of dw_tiles.cuh image after image, and copy the
 *          next image during the products of this one. Each half of the warps
 *          takes every other group of windows. The halves' sums are added at
 *          the end, and each block stores a slot of sums.
 * Limit:   tensor cores, and the construction of dy before the products.
 * Shared:  tf32 208 KB, 16 bits 106 KB. */
/* g++: -O1 */
#include "dw_tiles.cuh"
#include "dy_lines.cuh"
#include "launch.cuh"

struct dw_arrays {
    struct dy_arrays dy;
    const void *p1; /* T (batch,196,32) */
    float *dw2;     /* (slot,9,64,32) */
    int batch;
};

/* The shape of a block, which has all output channels and room for two
 * images. */
template <enum precision P_> struct dw_shape {
    static const enum precision P = P_;
    typedef typename element<P_>::T T;
    enum {
        TILES = C2 / 16, /* m-tiles */
        WARPS_N = C1 / 8,
        WARPS_K = 2,
        THREADS = 32 * WARPS_N * WARPS_K,
        DY = lines<T, C2>::BYTES,
        BUFFER = DY + lines<T, C1>::BYTES, /* offset of dy, then p1 */
        IMAGES = 2 * BUFFER,
        STAGE = dy_stage<T>::BYTES,
        BYTES = IMAGES + STAGE + (int)sizeof(struct dy_numbers),
    };
    static_assert(8 * dy_scratch<THREADS>::DOUBLES <= BUFFER,
                  "the sums over slots fit where the second image will be");
};

/* Store the sums of both halves of the warps in the block's slot. This handles
 * half of the m-tiles at a time, since no more fit in the memory of the
 * images. */
template <class S>
static __device__ __forceinline__ void
store_dw(float *slot, float *scratch, float acc[S::TILES][TAPS][4], int channel,
         int warp_k, int lane) {
    enum { AT_ONCE = S::TILES / 2, HALF = S::THREADS / 2 };
    static_assert(AT_ONCE * TAPS * HALF * 16 <= S::IMAGES, "scratch");
    const int own = threadIdx.x % HALF;
#pragma unroll
    for (int part = 0; part < S::TILES; part += AT_ONCE) {
        __syncthreads();
#pragma unroll
        for (int i = 0; i < AT_ONCE * TAPS; i++)
            if (warp_k == 1)
                put4(scratch + (i * HALF + own) * 4,
                     acc[part + i / TAPS][i % TAPS]);
        __syncthreads();
        if (warp_k == 1) continue;
#pragma unroll
        for (int i = 0; i < AT_ONCE * TAPS; i++) {
            float other[4], *v = acc[part + i / TAPS][i % TAPS];
            load4(other, scratch + (i * HALF + own) * 4);
            const int oc = (part + i / TAPS) * 16 + lane / 4;
            float *to =
                slot + ((i % TAPS) * C2 + oc) * C1 + channel + lane % 4 * 2;
            *(float2 *)to = make_float2(v[0] + other[0], v[1] + other[1]);
            *(float2 *)(to + 8 * C1) =
                make_float2(v[2] + other[2], v[3] + other[3]);
        }
    }
}

/* Start copying image `index` and the inputs of its dy. */
template <class S>
static __device__ __forceinline__ void
fetch(char *dy, char *stage, const struct dw_arrays &a, int index) {
    typedef typename S::T T;
    fetch_c2<T, S::THREADS>(dy, a.dy, index);
    fetch_dp2<T, S::THREADS>(stage, a.dy, index);
    copy_image<T, C1, S::THREADS>(dy + S::DY, (const T *)a.p1 +
                                                  (size_t)index * PIXELS2 * C1);
    copy_commit();
}

/* Compute dw. A block processes every gridDim.x-th image. */
template <class S>
static __global__ void __launch_bounds__(S::THREADS)
    conv2_dw(struct dw_arrays a) {
    typedef typename S::T T;
    extern __shared__ __align__(128) char memory[];
    char *stage = memory + S::IMAGES;
    struct dy_numbers *numbers = (struct dy_numbers *)(stage + S::STAGE);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int channel = warp % S::WARPS_N * 8, warp_k = warp / S::WARPS_N;
    const int stride = gridDim.x;
    int image = blockIdx.x, buffer = 0;

    // The previous kernel, conv2_dx, wrote nothing that this kernel reads.
    fetch<S>(memory, stage, a, image);
    dy_prepare<S::THREADS>(numbers, (double *)(memory + S::BUFFER),
                           a.dy.sources);
    for (int i = 0; i < 2; i++) {
        zero_border<T, C2, S::THREADS>(memory + i * S::BUFFER);
        zero_border<T, C1, S::THREADS>(memory + i * S::BUFFER + S::DY);
    }
    pdl_wait();
    pdl_trigger();

    float acc[S::TILES][TAPS][4];
#pragma unroll
    for (int i = 0; i < S::TILES * TAPS * 4; i++) (&acc[0][0][0])[i] = 0.0f;
    for (;;) {
        char *dy = memory + buffer * S::BUFFER;
        copy_wait<0>();
        __syncthreads(); // all copies are complete
        make_dy<S::P, S::THREADS>(dy, stage, numbers);
        __syncthreads(); // dy is complete; the stage and the other image have
                         // been read
        const int next = image + stride;
        if (next < a.batch)
            fetch<S>(memory + (buffer ^ 1) * S::BUFFER, stage, a, next);
#pragma unroll 1
        for (int group = warp_k; group < GROUPS; group += S::WARPS_K)
            add_group<S::P, S::TILES>(acc, dy, 0, dy + S::DY, channel, group,
                                      lane);
        if (next >= a.batch) break;
        buffer ^= 1;
        image = next;
    }
    store_dw<S>(a.dw2 + (size_t)blockIdx.x * TAPS * C2 * C1, (float *)memory,
                acc, channel, warp_k, lane);
}

template <enum precision P>
static int start(struct fused *f, int batch, cudaStream_t stream) {
    typedef dw_shape<P> S;
    const struct dw_arrays a = {dy_arrays_of(f, batch), f->p1, f->dw2.data,
                                batch};
    int slots = f->blocks < DW2_SLOTS ? f->blocks : DW2_SLOTS;
    if (slots > batch) slots = batch;
    f->dw2.count = slots;
    LAUNCH(f, conv2_dw<S>, slots, S::THREADS, S::BYTES, stream, a);
    return WEFT_OK;
}

int fused_conv2_dw_mma(struct fused *f, int batch, cudaStream_t stream) {
    switch (f->precision) {
    case TF32: return start<TF32>(f, batch, stream);
    case BF16: return start<BF16>(f, batch, stream);
    case FP16: return start<FP16>(f, batch, stream);
    default:
        return weft_fail(WEFT_EINVAL, "conv2_dw: fp32 needs no tensor cores");
    }
}
