/* conv2_dw_mma.cu -- the gradient of conv2's weights on tensor cores, in tf32,
 * bf16 or fp16.
 *
 * Idea:    dw_tiles.cuh's products, of image after image: the next one is
 *          copied while this one is multiplied. Half of the warps takes every
 *          other group of windows; the halves are added at the end, and each
 *          block leaves a slot of sums.
 * Binds:   tensor cores, and building dy before them.
 * Shared:  tf32 208 KB, 16 bits 106 KB. */
#include "dw_tiles.cuh"
#include "dy_lines.cuh"
#include "launch.cuh"

struct dw_arrays {
    struct dy_arrays dy;
    const void *p1; /* T (batch,196,32) */
    float *dw2;     /* (slot,9,64,32) */
    int batch;
};

/* CHANNELS output channels a block; with two BUFFERS the next image is copied
 * while this one is multiplied. */
template <enum precision P_, int CHANNELS_, int BUFFERS_> struct dw_shape {
    static const enum precision P = P_;
    typedef typename element<P_>::T T;
    enum {
        CHANNELS = CHANNELS_,
        PARTS = C2 / CHANNELS, /* blocks that share an image */
        TILES = CHANNELS / 16, /* m-tiles */
        WARPS_N = C1 / 8,
        WARPS_K = 2,
        THREADS = 32 * WARPS_N * WARPS_K,
        BUFFERS = BUFFERS_,
        DY = lines<T, CHANNELS>::BYTES,
        P1 = lines<T, C1>::BYTES,
        IMAGES = BUFFERS * (DY + P1),
        STAGE = dy_stage<T, CHANNELS>::BYTES,
        // The sums over slots, for which the second images' place is free.
        SCRATCH = 2 * 8 * dy_scratch<THREADS>::DOUBLES,
        BYTES = IMAGES + STAGE + (int)sizeof(struct dy_numbers) +
            (BUFFERS == 1 ? SCRATCH : 0),
    };
    static_assert(BUFFERS == 1 || SCRATCH <= DY + P1, "scratch");
};

/* The sums of both halves of the warps to the block's slot. Half of the m-tiles
 * at a time: that much fits where the images were. */
template <class S>
static __device__ __forceinline__ void
store_dw(float *slot, float *scratch, float acc[S::TILES][TAPS][4], int first,
         int channel, int warp_k, int lane) {
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
            const int oc = first + (part + i / TAPS) * 16 + lane / 4;
            float *to =
                slot + ((i % TAPS) * C2 + oc) * C1 + channel + lane % 4 * 2;
            *(float2 *)to = make_float2(v[0] + other[0], v[1] + other[1]);
            *(float2 *)(to + 8 * C1) =
                make_float2(v[2] + other[2], v[3] + other[3]);
        }
    }
}

/* Start copying image `index`, and what its dy is made of. */
template <class S>
static __device__ __forceinline__ void
fetch(char *dy, char *stage, const struct dw_arrays &a, int index, int first) {
    typedef typename S::T T;
    fetch_c2<T, S::CHANNELS, S::THREADS>(dy, a.dy, index, first);
    fetch_dp2<T, S::CHANNELS, S::THREADS>(stage, a.dy, index, first);
    copy_image<T, C1, C1, S::THREADS>(
        dy + S::DY, (const T *)a.p1 + (size_t)index * PIXELS2 * C1);
    copy_commit();
}

/* Blocks part, part + PARTS, ... share the images among them. */
template <class S>
static __global__ void __launch_bounds__(S::THREADS)
    conv2_dw(struct dw_arrays a) {
    typedef typename S::T T;
    enum { BUFFER = S::DY + S::P1 }; // dy, then p1
    extern __shared__ __align__(128) char memory[];
    char *stage = memory + S::IMAGES;
    struct dy_numbers *numbers = (struct dy_numbers *)(stage + S::STAGE);
    char *scratch = S::BUFFERS == 2 ? memory + BUFFER : (char *)(numbers + 1);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int channel = warp % S::WARPS_N * 8, warp_k = warp / S::WARPS_N;
    const int first = blockIdx.x % S::PARTS * S::CHANNELS;
    const int stride = gridDim.x / S::PARTS;
    int image = blockIdx.x / S::PARTS, buffer = 0;

    // The kernel just before, conv2_dx, wrote nothing that is read here.
    fetch<S>(memory, stage, a, image, first);
    dy_prepare<S::THREADS>(numbers, (double *)scratch, a.dy.sources);
    for (int i = 0; i < S::BUFFERS; i++) {
        zero_border<T, S::CHANNELS, S::THREADS>(memory + i * BUFFER);
        zero_border<T, C1, S::THREADS>(memory + i * BUFFER + S::DY);
    }
    pdl_wait();
    pdl_trigger();

    float acc[S::TILES][TAPS][4];
#pragma unroll
    for (int i = 0; i < S::TILES * TAPS * 4; i++) (&acc[0][0][0])[i] = 0.0f;
    for (;;) {
        char *dy = memory + buffer * BUFFER;
        copy_wait<0>();
        __syncthreads(); // copies are complete
        make_dy<S::P, S::CHANNELS, S::THREADS>(dy, stage, numbers, first);
        __syncthreads(); // dy is complete, the stage and the other image read
        const int next = image + stride;
        if (S::BUFFERS == 2 && next < a.batch)
            fetch<S>(memory + (buffer ^ 1) * BUFFER, stage, a, next, first);
#pragma unroll 1
        for (int group = warp_k; group < GROUPS; group += S::WARPS_K)
            add_group<S::P, S::CHANNELS, S::TILES>(acc, dy, 0, dy + S::DY,
                                                   channel, group, lane);
        if (next >= a.batch) break;
        if (S::BUFFERS == 1) {
            __syncthreads(); // both have been read
            fetch<S>(memory, stage, a, next, first);
        } else {
            buffer ^= 1;
        }
        image = next;
    }
    store_dw<S>(a.dw2 + (size_t)(blockIdx.x / S::PARTS) * TAPS * C2 * C1,
                (float *)memory, acc, first, channel, warp_k, lane);
}

template <class S>
static int start(struct fused *f, int batch, int slots, cudaStream_t stream) {
    const struct dw_arrays a = {dy_arrays_of(f, batch), f->p1, f->dw2.data,
                                batch};
    f->dw2.count = slots;
    LAUNCH(f, conv2_dw<S>, slots * S::PARTS, S::THREADS, S::BYTES, stream, a);
    return WEFT_OK;
}

template <enum precision P>
static int start(struct fused *f, int batch, cudaStream_t stream) {
    const int most = f->blocks < DW2_SLOTS ? f->blocks : DW2_SLOTS;
    return start<dw_shape<P, 64, 2>>(f, batch, most < batch ? most : batch,
                                     stream);
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
