/* conv2_mma.cu -- conv2's forward pass on tensor cores, in tf32, bf16 or fp16.
 *
 * Idea:    a block keeps an image with its border and the weights of its output
 *          channels in shared memory, and conv_tiles.cuh multiplies them. One
 *          thread obtains all four pixels of its windows, so the pool's winners
 *          and BN2's sums come from registers. c2 is written once and never
 *          read for a reduction. A block takes half of the channels. For small
 *          batches it takes one image, so that 64 images keep 128
 *          multiprocessors busy. For large ones it takes image after image, and
 *          copies the next one while this one is multiplied. The weights are
 *          loaded once. Of the two blocks that a multiprocessor holds, one
 *          stores its results while the other multiplies.
 * Limit:   for large batches, tensor cores and the loads of the weights'
 *          fragments; for small ones, the time until the image arrives.
 * Shared:  tf32 68 KB (small), 100 KB (large); 16 bits 34 KB, 50 KB.
 *
 * Statistics and winners are computed from c2 as stored, rounded to T. */
/* g++: -O1 */
#include "conv_tiles.cuh"
#include "launch.cuh"

struct conv2_arrays {
    const void *p1, *weights; /* (batch,196,32), (9,64,32) */
    const float *gamma;       /* BN2's weight (64) */
    void *c2, *m2;            /* (batch,196,64), (batch,49,64) */
    uint8_t *code2;           /* (batch,49,64) */
    float *sum2;              /* (slot,2,64) */
    int batch;
};

/* The shape of a block. WARPS_M warps share the windows, WARPS_N the channels.
 * A warp has MINE groups of 8 windows and TILES tiles of 8 channels. */
template <enum precision P_, int WARPS_M_, int WARPS_N_, int MINE_, int TILES_,
          int BUFFERS_, int BLOCKS_>
struct conv2_shape {
    static const enum precision P = P_;
    typedef typename element<P_>::T T;
    enum {
        WARPS_M = WARPS_M_,
        WARPS_N = WARPS_N_,
        MINE = MINE_,
        TILES = TILES_,
        BUFFERS = BUFFERS_,
        BLOCKS = BLOCKS_, /* blocks per multiprocessor */
        THREADS = 32 * WARPS_M * WARPS_N,
        CHANNELS = 8 * TILES * WARPS_N, /* channels per block */
        PARTS = C2 / CHANNELS,          /* number of blocks that share an
                                         * image */
        IMAGE = lines<T, C1>::BYTES,
        WEIGHTS = TAPS * CHANNELS * weight_rows<T, C1>::ROW,
        BYTES = WEIGHTS + BUFFERS * IMAGE,
    };
};

/* Return the index of the winner among a window's four values, the first of
 * equal ones. */
static __device__ __forceinline__ int winner_of(const float v[4], float gamma) {
    int code = 0;
    float best = v[0];
#pragma unroll
    for (int i = 1; i < 4; i++) {
        const bool wins = gamma > 0.0f ? v[i] > best : v[i] < best;
        if (wins && gamma != 0.0f) code = i, best = v[i];
    }
    return code;
}

/* Store one window's results v[pixel][channel], a chunk of neighbouring
 * channels per pixel, and add them to the sums. */
template <enum precision P>
static __device__ __forceinline__ void
store_window(const struct conv2_arrays &to, int image, int window, int channel,
             float v[4][CHUNK / sizeof(typename element<P>::T)], float *sum,
             float *square, const float *gamma) {
    typedef typename element<P>::T T;
    enum { N = CHUNK / (int)sizeof(T) };
    T winners[N];
    uint32_t codes[N / 4];
#pragma unroll
    for (int i = 0; i < N / 4; i++) codes[i] = 0;
    const int y = window / SIDE3 * 2, x = window % SIDE3 * 2;
#pragma unroll
    for (int pixel = 0; pixel < 4; pixel++) {
        const int place = (y + pixel / 2) * SIDE2 + x + pixel % 2;
        T *c2 = (T *)to.c2 + ((size_t)image * PIXELS2 + place) * C2 + channel;
        T stored[N];
#pragma unroll
        for (int i = 0; i < N; i++) {
            // No tensor core reads the c2 of tf32, so it is stored as an
            // unrounded float.
            stored[i] = narrow<P == TF32 ? FP32 : P>(v[pixel][i]);
            v[pixel][i] = widen(stored[i]);
            sum[i] += v[pixel][i];
            square[i] = fmaf(v[pixel][i], v[pixel][i], square[i]);
        }
        store_chunk(c2, stored);
    }
#pragma unroll
    for (int i = 0; i < N; i++) {
        const float four[4] = {v[0][i], v[1][i], v[2][i], v[3][i]};
        const int code = winner_of(four, gamma[i]);
        codes[i / 4] |= (uint32_t)code << 8 * (i % 4);
        float best = four[0];
#pragma unroll
        for (int k = 1; k < 4; k++) best = code == k ? four[k] : best;
        winners[i] = narrow<P == TF32 ? FP32 : P>(best);
    }
    const size_t pooled = ((size_t)image * PIXELS3 + window) * C2 + channel;
    store_chunk((T *)to.m2 + pooled, winners);
    uint32_t *code2 = (uint32_t *)(to.code2 + pooled);
    if (N == 4) code2[0] = codes[0];
    if (N == 8) *(uint2 *)code2 = make_uint2(codes[0], codes[N / 4 - 1]);
}

/* Store the block's sums in its slot, added over the 8 lanes that have the same
 * channels, then over the warps in order. `scratch` has (2,WARPS_M,CHANNELS)
 * floats. */
template <class S>
static __device__ __forceinline__ void
store_sums(float *slot, float *scratch, const float *sum, const float *square,
           int warp_m, int warp_n, int lane, int first) {
    enum { N = 2 * S::TILES };
    __syncthreads(); // no thread reads the image any more
#pragma unroll
    for (int i = 0; i < N; i++) {
        float both[2] = {sum[i], square[i]};
        for (int which = 0; which < 2; which++) {
            for (int other = 4; other < 32; other *= 2)
                both[which] += __shfl_xor_sync(0xffffffffu, both[which], other);
            if (lane >= 4) continue;
            const int tile = warp_n * S::TILES + i / 2;
            const int channel =
                channel_of<typename S::T>(8 * tile + 2 * lane + i % 2);
            scratch[(which * S::WARPS_M + warp_m) * S::CHANNELS + channel] =
                both[which];
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < 2 * S::CHANNELS; i += S::THREADS) {
        const int which = i / S::CHANNELS, channel = i % S::CHANNELS;
        float total = 0.0f;
        for (int m = 0; m < S::WARPS_M; m++)
            total += scratch[(which * S::WARPS_M + m) * S::CHANNELS + channel];
        slot[which * C2 + first + channel] = total;
    }
}

/* Compute conv2's forward pass. PARTS consecutive blocks share an
 * image. */
template <class S>
static __global__ void __launch_bounds__(S::THREADS, S::BLOCKS)
    conv2_forward(struct conv2_arrays a) {
    typedef typename S::T T;
    enum { N = CHUNK / (int)sizeof(T), RUN = N / 2 }; // RUN: tiles of a chunk
    extern __shared__ __align__(128) char memory[];
    char *rows = memory, *images = memory + S::WEIGHTS;
    const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
    const int warp_m = warp % S::WARPS_M, warp_n = warp / S::WARPS_M;
    const int first = blockIdx.x % S::PARTS * S::CHANNELS;
    const int stride = gridDim.x / S::PARTS;

    copy_weights<T, T, C1, S::CHANNELS, C2, S::THREADS>(
        rows, (const T *)a.weights, first);
    for (int i = 0; i < S::BUFFERS; i++)
        zero_border<T, C1, S::THREADS>(images + i * S::IMAGE);
    // Gamma and the sums of this thread's channels, chunk by chunk.
    float gamma[2 * S::TILES], sum[2 * S::TILES], square[2 * S::TILES];
#pragma unroll
    for (int i = 0; i < 2 * S::TILES; i++) {
        const int row = 8 * (warp_n * S::TILES + i / 2) + lane % 4 * 2 + i % 2;
        gamma[i] = a.gamma[first + channel_of<T>(row)];
        sum[i] = square[i] = 0.0f;
    }
    pdl_wait();
    pdl_trigger();

    int image = blockIdx.x / S::PARTS, buffer = 0;
    const T *p1 = (const T *)a.p1;
    if (image < a.batch)
        copy_image<T, C1, S::THREADS>(images,
                                      p1 + (size_t)image * PIXELS2 * C1);
    copy_commit();
    for (; image < a.batch; image += stride) {
        const int next = image + stride;
        if (S::BUFFERS == 2 && next < a.batch)
            copy_image<T, C1, S::THREADS>(images + (buffer ^ 1) * S::IMAGE,
                                          p1 + (size_t)next * PIXELS2 * C1);
        copy_commit(); // empty if there is no next image
        copy_wait<1>();
        __syncthreads(); // this image is complete
        float acc[S::MINE][2][S::TILES][4];
        zero<S::MINE, S::TILES>(acc);
        const char *input = images + buffer * S::IMAGE;
        const int group = warp_m * S::MINE, row = warp_n * S::TILES * 8;
        // Two copies of the loop cost less than a test inside it. The test
        // would delay one tap's loads until the previous tap's products are
        // complete.
        enum { LEFT = S::MINE > 1 ? S::MINE - 1 : 1 };
        if (group + S::MINE <= GROUPS)
            conv_tiles<S::P, C1, S::MINE, S::TILES, S::CHANNELS>(
                acc, input, group, rows, row, lane);
        else
            conv_tiles<S::P, C1, LEFT, S::TILES, S::CHANNELS>(acc, input, group,
                                                              rows, row, lane);
#pragma unroll
        for (int m = 0; m < S::MINE; m++) {
            const int window = (group + m) * GROUP + lane / 4;
            if (window >= PIXELS3) continue;
#pragma unroll
            for (int j = 0; j < S::TILES; j += RUN) {
                float v[4][N];
#pragma unroll
                for (int i = 0; i < 4 * N; i++)
                    v[i / N][i % N] =
                        acc[m][i / N / 2][j + i % N / 2][i / N % 2 * 2 + i % 2];
                const int column = row + 8 * j + lane % 4 * 2;
                store_window<S::P>(a, image, window,
                                   first + channel_of<T>(column), v,
                                   sum + 2 * j, square + 2 * j, gamma + 2 * j);
            }
        }
        if (S::BUFFERS == 2) buffer ^= 1;
        if (S::BUFFERS == 2) __syncthreads(); // all threads have read the image
    }
    store_sums<S>(a.sum2 + blockIdx.x / S::PARTS * 2 * C2, (float *)images, sum,
                  square, warp_m, warp_n, lane, first);
}

template <class S>
static int start(struct fused *f, int batch, int slots, cudaStream_t stream) {
    const struct conv2_arrays a = {f->p1, f->conv2_f, f->params + BN2_W, f->c2,
                                   f->m2, f->code2,   f->sum2.data,      batch};
    f->sum2.count = slots;
    LAUNCH(f, conv2_forward<S>, slots * S::PARTS, S::THREADS, S::BYTES, stream,
           a);
    return WEFT_OK;
}

template <enum precision P>
static int start(struct fused *f, int batch, cudaStream_t stream) {
    typedef conv2_shape<P, GROUPS, 1, 1, 4, 1, 1> small;
    typedef conv2_shape<P, 4, 1, 2, 4, 2, 2> large;
    if (batch <= f->blocks) return start<small>(f, batch, batch, stream);
    return start<large>(f, batch, f->blocks, stream);
}

int fused_conv2_mma(struct fused *f, int batch, cudaStream_t stream) {
    switch (f->precision) {
    case TF32: return start<TF32>(f, batch, stream);
    case BF16: return start<BF16>(f, batch, stream);
    case FP16: return start<FP16>(f, batch, stream);
    default: return weft_fail(WEFT_EINVAL, "conv2: fp32 needs no tensor cores");
    }
}
