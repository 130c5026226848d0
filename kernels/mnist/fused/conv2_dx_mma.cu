/* conv2_dx_mma.cu -- conv2's data gradient on tensor cores, in tf32, bf16 or
 * fp16, reduced to the sums that conv1 needs.
 *
 * Idea:    compute dp1 = dy convolved with the mirrored weights
 *          (conv_tiles.cuh), 64 channels in and 32 out. dy is built in shared
 *          memory (dy_lines.cuh). dp1 also goes to shared memory, and from
 *          there into conv1's winner sums (winners.cuh). Neither array is ever
 *          in global memory.
 * Limit:   the construction of dy and the sums of winners, before and after the
 *          products; other blocks on the multiprocessor fill the gaps.
 * Shared:  tf32 185 KB, 16 bits 110 KB. */
/* g++: -O1 */
#include "conv_tiles.cuh"
#include "dx_tiles.cuh"
#include "dy_lines.cuh"
#include "launch.cuh"

struct dx_arrays {
    struct dy_arrays dy;
    const void *weights; /* (9,32,64), mirrored */
    const uint8_t *code1;
    const struct fused_run *run;
    float *winners; /* (slot,10,32) */
    float mean, std;
    int batch;
};

/* The shape of a block. WARPS_M warps share the windows, WARPS_N the channels
 * of a block. A warp has MINE groups of 8 windows and TILES tiles of 8
 * channels. */
template <enum precision P_, int WARPS_M_, int WARPS_N_, int MINE_, int TILES_,
          int BLOCKS_>
struct dx_shape {
    static const enum precision P = P_;
    typedef typename element<P_>::T T;
    enum {
        BLOCKS = BLOCKS_, /* blocks per multiprocessor */
        WARPS_M = WARPS_M_,
        MINE = MINE_,
        TILES = TILES_,
        WARPS = WARPS_M_ * WARPS_N_,
        THREADS = 32 * WARPS,
        CHANNELS = 8 * TILES * WARPS_N_, /* channels per block */
        PARTS = C1 / CHANNELS,           /* blocks that share an image */
        PITCH = CHANNELS + 4,            // neighbouring windows are 8 banks
                                         // apart
        DY = lines<T, C2>::BYTES,
        WEIGHTS = TAPS * CHANNELS * weight_rows<T, C2>::ROW,
        DP1 = PIXELS2 * PITCH * (int)sizeof(float),
        STAGE = dy_stage<T>::BYTES,
        IMAGE_BYTES = IMAGE_SIZE * (int)sizeof(float),
        BYTES = WEIGHTS + DY + DP1 + STAGE + IMAGE_BYTES + PIXELS1 +
            (int)sizeof(struct dy_numbers),
    };
    static_assert(2 * 8 * dy_scratch<THREADS>::DOUBLES <= DP1,
                  "dp1's memory first holds the sums");
    static_assert(THREADS >= PIXELS1 / 4, "a thread loads four pixels");
};

/* Add the block's sums in the order of the warps, and store them in a slot
 * (10,32), beginning with channel `first`. */
template <class S>
static __device__ __forceinline__ void
store_winners(float *slot, float *scratch, float sums[SUMS], int first,
              int lane, int warp) {
    __syncthreads();
    for (int i = 0; i < SUMS; i++) {
        if (S::CHANNELS == 16)
            sums[i] += __shfl_xor_sync(0xffffffffu, sums[i], 16);
        if (lane < S::CHANNELS)
            scratch[(warp * SUMS + i) * S::CHANNELS + lane] = sums[i];
    }
    __syncthreads();
    for (int i = threadIdx.x; i < SUMS * S::CHANNELS; i += S::THREADS) {
        float total = 0.0f;
        for (int w = 0; w < S::WARPS; w++)
            total += scratch[w * SUMS * S::CHANNELS + i];
        slot[i / S::CHANNELS * C1 + first + i % S::CHANNELS] = total;
    }
}

/* Compute the winner sums of the batch. PARTS consecutive blocks share an
 * image. */
template <class S>
static __global__ void __launch_bounds__(S::THREADS, S::BLOCKS)
    conv2_dx(struct dx_arrays a) {
    typedef typename S::T T;
    extern __shared__ __align__(128) char memory[];
    char *rows = memory, *dy = rows + S::WEIGHTS, *stage = dy + S::DY;
    float *dp1 = (float *)(stage + S::STAGE);
    float *image_s = dp1 + S::DP1 / sizeof(float);
    struct dy_numbers *numbers = (struct dy_numbers *)(image_s + IMAGE_SIZE);
    unsigned *pixels = (unsigned *)(numbers + 1); // four pixels to a word
    const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
    const int group = warp % S::WARPS_M * S::MINE;
    const int row = warp / S::WARPS_M * S::TILES * 8;
    const int first = blockIdx.x % S::PARTS * S::CHANNELS;
    const int stride = gridDim.x / S::PARTS;
    int image = blockIdx.x / S::PARTS;

    // Earlier kernels wrote c2 and its sums, so no wait is needed.
    fetch_c2<T, S::THREADS>(dy, a.dy, image);
    copy_weights<T, float, C2, S::CHANNELS, C1, S::THREADS>(
        rows, (const T *)a.weights, first);
    zero_border<T, C2, S::THREADS>(dy);
    // Pixels pass through a register and are loaded long before they are used.
    // The number of the next image is loaded even earlier.
    const unsigned *images = (const unsigned *)a.run->images;
    const int32_t *order = a.run->order + a.run->first;
    const int own = min(thread, PIXELS1 / 4 - 1);
    unsigned four = images[(size_t)order[image] * (PIXELS1 / 4) + own];
    int following = image + stride < a.batch ? order[image + stride] : 0;
    pdl_wait();
    pdl_trigger();
    fetch_dp2<T, S::THREADS>(stage, a.dy, image);
    copy_commit();
    dy_prepare<S::THREADS>(numbers, (double *)dp1, a.dy.sources);

    float sums[SUMS];
    for (int i = 0; i < SUMS; i++) sums[i] = 0.0f;
    for (;;) {
        if (thread < PIXELS1 / 4) pixels[thread] = four;
        copy_wait<0>();
        __syncthreads(); // copies are complete; dp1 and the image have been
                         // read
        load_image(image_s, (const uint8_t *)pixels, a.mean, a.std, thread,
                   S::THREADS);
        make_dy<S::P, S::THREADS>(dy, stage, numbers);
        __syncthreads(); // dy is complete
        float acc[S::MINE][2][S::TILES][4];
        zero<S::MINE, S::TILES>(acc);
        enum { LEFT = S::MINE > 1 ? S::MINE - 1 : 1 };
        if (group + S::MINE <= GROUPS)
            conv_tiles<S::P, C2, S::MINE, S::TILES, S::CHANNELS>(
                acc, dy, group, rows, row, lane);
        else
            conv_tiles<S::P, C2, LEFT, S::TILES, S::CHANNELS>(acc, dy, group,
                                                              rows, row, lane);
        store_dp1<S::MINE, S::TILES, S::PITCH>(dp1, acc, group, row, lane);
        __syncthreads(); // dp1 is complete; dy has been read
        const int next = image + stride;
        if (next < a.batch) { // these loads are in flight while winners are
                              // added
            fetch_c2<T, S::THREADS>(dy, a.dy, next);
            fetch_dp2<T, S::THREADS>(stage, a.dy, next);
            copy_commit();
            four = images[(size_t)following * (PIXELS1 / 4) + own];
            if (next + stride < a.batch) following = order[next + stride];
        }
        add_winners<S::CHANNELS, S::PITCH, S::WARPS>(
            sums, dp1, a.code1 + (size_t)image * PIXELS2 * C1 + first, C1,
            image_s, lane, warp);
        if (next >= a.batch) break;
        image = next;
    }
    store_winners<S>(a.winners + blockIdx.x / S::PARTS * WINNERS, dp1, sums,
                     first, lane, warp);
}

template <class S>
static int start(struct fused *f, int batch, int slots, cudaStream_t stream) {
    const struct dx_arrays a = {
        dy_arrays_of(f, batch), f->conv2_b, f->code1, f->run,
        f->winners.data,        f->mean,    f->std,   batch};
    f->winners.count = slots;
    LAUNCH(f, conv2_dx<S>, slots * S::PARTS, S::THREADS, S::BYTES, stream, a);
    return WEFT_OK;
}

template <enum precision P>
static int start(struct fused *f, int batch, cudaStream_t stream) {
    typedef dx_shape<P, GROUPS, 1, 1, 4, P == TF32 ? 1 : 2> shape;
    int slots = shape::BLOCKS * f->blocks;
    if (slots > WINNER_SLOTS) slots = WINNER_SLOTS;
    return start<shape>(f, batch, slots < batch ? slots : batch, stream);
}

int fused_conv2_dx_mma(struct fused *f, int batch, cudaStream_t stream) {
    // For a small batch, one kernel computes dx and dw.
    if (batch <= f->blocks && batch <= DW2_SLOTS)
        return fused_conv2_back_mma(f, batch, stream);
    switch (f->precision) {
    case TF32: return start<TF32>(f, batch, stream);
    case BF16: return start<BF16>(f, batch, stream);
    case FP16: return start<FP16>(f, batch, stream);
    default:
        return weft_fail(WEFT_EINVAL, "conv2_dx: fp32 needs no tensor cores");
    }
}
