/* conv2_dw_mma.cu -- the gradient of conv2's weights on tensor cores, in tf32,
 * bf16 or fp16.
 *
 * Idea:    dw (oc; tap, ic) = sum over pixels of dy (pixel, oc) times
 *          p1 (pixel + tap, ic): M = output channels, N = taps and input
 *          channels, K = pixels. A warp has all of the block's output channels
 *          and 8 input channels with all 9 taps. Both operands lie with
 *          channels innermost and are needed with pixels along K: ldmatrix
 *          transposes numbers of 16 bits, tf32 takes single words.
 *          K runs over windows as in conv_tiles.cuh: the 4x4 pixels around 8
 *          windows are loaded once and serve 9 taps of 4 pixels.
 *          Half of the warps takes every other group of windows; the halves
 *          are added at the end, and each block leaves a slot of sums.
 * Binds:   tensor cores, and building dy before them.
 * Shared:  tf32 88 KB (small), 208 KB (large); 16 bits 53 KB, 106 KB. */
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

/* ---- fragments: pixels along K, channels g ------------------------------- */

/* Fragments b of p1's 8 channels from `channel` on, for the 4x4 pixels around
 * each of a group's 8 windows. Numbers of 16 bits: patch[y][x] is the windows
 * at pixel (y,x) and then at (y,x + 1); tf32: windows 0, 2, 4, 6 and then 1, 3,
 * 5, 7 at pixel (y,x). */
template <class T>
static __device__ __forceinline__ void
load_patch(uint32_t patch[4][sizeof(T) == 2 ? 3 : 4][2], const char *p1,
           int group, int channel, int lane) {
    typedef lines<T, C1> at;
    enum { BELOW = SIDE_LINES * at::PIXEL };
    if (sizeof(T) == 2) {
        const int window = min(group * GROUP + lane % 8, PIXELS3 - 1);
        const int y = window / SIDE3 * 2, x = window % SIDE3 * 2;
        const int odd = lane >> 3 & 1, upper = lane >> 4;
#pragma unroll
        for (int row = 0; row < 4; row += 2) {
            // Matrices: pixels 0 to 3 of a row; pixels 1 and 2 of two rows.
            const char *wide = p1 + at::at(y + row, x + lane / 8, channel / 8);
            const char *middle =
                p1 + at::at(y + row + upper, x + 1 + odd, channel / 8);
            uint32_t r[3][4];
            ldmatrix_x4_trans(r[0], wide);
            ldmatrix_x4_trans(r[1], wide + BELOW);
            ldmatrix_x4_trans(r[2], middle);
#pragma unroll
            for (int i = 0; i < 4; i++) {
                patch[row][i / 2 * 2][i % 2] = r[0][i];
                patch[row + 1][i / 2 * 2][i % 2] = r[1][i];
                patch[row + i / 2][1][i % 2] = r[2][i];
            }
        }
    } else {
        // Every other window has another pair of chunks in its line, so that
        // 4 windows of 8 channels are in 32 banks.
        const int c = channel + lane / 4;
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int window =
                min(group * GROUP + lane % 4 * 2 + half, PIXELS3 - 1);
            const int y = window / SIDE3 * 2, x = window % SIDE3 * 2;
#pragma unroll
            for (int i = 0; i < 4; i++) { // four pixels with the same key
                const int row = i / 2 * 2, column = i % 2 * 2;
                const char *four =
                    p1 + at::at(y + row, x + column, c / 4) + c % 4 * 4;
#pragma unroll
                for (int k = 0; k < 4; k++)
                    patch[row + k / 2][column + k % 2][half] =
                        *(const uint32_t *)(four + k / 2 * BELOW +
                                            k % 2 * at::PIXEL);
            }
        }
    }
}

/* The offset in dy of pixel (row,column) of a window. Windows past the last
 * are on the border: zeros, which add nothing. */
template <class T, int CHANNELS>
static __device__ __forceinline__ int dy_at(int window, int row, int column,
                                            int chunk) {
    typedef lines<T, CHANNELS> at;
    const int real = at::at(window / SIDE3 * 2 + 1 + row,
                            window % SIDE3 * 2 + 1 + column, chunk);
    return window < PIXELS3 ? real : at::at(0, 0, chunk);
}

/* Fragments a of all m-tiles: rows are output channels; columns, for 16 bits
 * the 8 windows at pixel (row,0) and then at (row,1), for tf32 the windows
 * 0, 2, 4, 6 and then 1, 3, 5, 7 at pixel (row,column). */
template <class T, int CHANNELS>
static __device__ __forceinline__ void load_dy(uint32_t a[CHANNELS / 16][4],
                                               const char *dy, int group,
                                               int row, int column, int lane) {
    if (sizeof(T) == 2) {
        const int at = dy_at<T, CHANNELS>(group * GROUP + lane % 8, row,
                                          lane >> 4, lane >> 3 & 1);
#pragma unroll
        for (int m = 0; m < CHANNELS / 16; m++)
            ldmatrix_x4_trans(a[m], dy + (at ^ m * 2 * CHUNK));
    } else {
        const int word = (lane >> 2) % 4 * 4;
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int window = group * GROUP + lane % 4 * 2 + half;
            const int at = dy_at<T, CHANNELS>(window, row, column, lane >> 4);
#pragma unroll
            for (int i = 0; i < CHANNELS / 8; i++) { // two chunks each
                const int step = i * 2 * CHUNK;
                const int place = (at ^ step % LINE) + step / LINE * LINE;
                a[i / 2][2 * half + i % 2] =
                    *(const uint32_t *)(dy + place + word);
            }
        }
    }
}

/* ---- the products -------------------------------------------------------- */

/* acc[m-tile][tap] += the products of one group of windows. */
template <class S>
static __device__ __forceinline__ void
add_group(float acc[S::TILES][TAPS][4], const char *dy, const char *p1,
          int group, int channel, int lane) {
    typedef typename S::T T;
    // A fragment of dy has both pixels of a row, or, in tf32, one.
    enum { COLUMNS = sizeof(T) == 2 ? 1 : 2 };
    uint32_t patch[4][2 + COLUMNS][2];
    load_patch<T>(patch, p1, group, channel, lane);
#pragma unroll
    for (int i = 0; i < 2 * COLUMNS; i++) {
        const int row = i / COLUMNS, column = i % COLUMNS;
        uint32_t a[S::TILES][4];
        load_dy<T, S::CHANNELS>(a, dy, group, row, column, lane);
#pragma unroll
        for (int k = 0; k < TAPS * S::TILES; k++) {
            const int tap = k / S::TILES, m = k % S::TILES;
            mma<S::P>(acc[m][tap], a[m],
                      patch[row + tap / 3][column + tap % 3]);
        }
    }
}

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
            add_group<S>(acc, dy, dy + S::DY, group, channel, lane);
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
    // Few slots: who adds them up reads them all.
    const int few = f->blocks / 2 > 0 ? f->blocks / 2 : 1;
    const int most = f->blocks < DW2_SLOTS ? f->blocks : DW2_SLOTS;
    if (batch <= f->blocks)
        return start<dw_shape<P, 32, 1>>(f, batch, batch < few ? batch : few,
                                         stream);
    return start<dw_shape<P, 64, 2>>(f, batch, most, stream);
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
