/* conv2_back_fp32.cu -- conv2's backward pass in strict fp32.
 *
 * Idea:    the gradients of the input (conv2_dx_fp32.cuh) and of the weights
 *          (conv2_dw_fp32.cuh) do not depend on each other. With a small batch,
 *          each kernel mostly waits, so one launch computes both. Of the two
 *          blocks on a multiprocessor, one multiplies while the other waits.
 *          The gain is small: on an H200, 64 images took 32.9 us instead of
 *          33.9, and with an early start (PDL) 31.1 instead of 31.7. With 256
 *          images one launch is slower, 106 us instead of 95, so larger batches
 *          use two.
 * Limit:   two warps per quarter of an SM, which take all of its registers.
 * Shared:  98.7 KB per block, of which conv2_dw uses 56.6.
 * Lesson:  notebooks/15b_mnist_gpu.ipynb. */
/* g++: -O1 */
#include "conv2_dw_fp32.cuh"
#include "conv2_dx_fp32.cuh"
#include "launch.cuh"

template <int COT, int SPLIT, int BLOCKS, int STAGES>
static __global__ void __launch_bounds__(dx_shape<COT, SPLIT>::THREADS, BLOCKS)
    conv2_dx_fp32(struct conv2_dx_arrays a) {
    extern __shared__ __align__(16) float shared[];
    conv2_dx_block<COT, SPLIT, STAGES, DY_STORE>(shared, a, blockIdx.x,
                                                 gridDim.x);
}

template <int GROUPS, int BLOCKS, int STAGES>
static __global__ void __launch_bounds__(GROUPS *DW_GROUP, BLOCKS)
    conv2_dw_fp32(struct conv2_dw_arrays a) {
    extern __shared__ __align__(16) float shared[];
    conv2_dw_block<GROUPS, STAGES, DY_LOAD>(shared, a, blockIdx.x, gridDim.x);
}

/* The first half of the grid computes dx, and the second half computes dw. The
 * blocks of a wave go to all multiprocessors before any of these gets a second
 * block, so each gets one block of each half. */
enum { BACK_COT = 16, BACK_SPLIT = 4 };
static_assert((int)dx_shape<BACK_COT, BACK_SPLIT>::THREADS == (int)DW_GROUP,
              "one launch");
static __global__ void __launch_bounds__(DW_GROUP, 2)
    conv2_back_fp32(struct conv2_dx_arrays dx, struct conv2_dw_arrays dw) {
    extern __shared__ __align__(16) float shared[];
    const int half = gridDim.x / 2, block = blockIdx.x;
    if (block < half)
        conv2_dx_block<BACK_COT, BACK_SPLIT, 1, DY_COMPUTE>(shared, dx, block,
                                                            half);
    else
        conv2_dw_block<1, 1, DY_COMPUTE>(shared, dw, block - half, half);
}

template <int COT, int SPLIT, int BLOCKS, int STAGES>
static int launch_conv2_dx(struct fused *f, int batch, cudaStream_t stream) {
    typedef dx_shape<COT, SPLIT> S;
    enum { CUTS = C1 / COT };
    const int slots = smallest(f->blocks * BLOCKS / CUTS, batch, WINNER_SLOTS);
    f->winners.count = slots;
    LAUNCH(f, (conv2_dx_fp32<COT, SPLIT, BLOCKS, STAGES>), slots * CUTS,
           S::THREADS, (S::FIXED + STAGES * S::WORK) * sizeof(float), stream,
           conv2_dx_arrays_of(f, batch));
    return WEFT_OK;
}

template <int GROUPS, int BLOCKS, int STAGES>
static int launch_conv2_dw(struct fused *f, int batch, cudaStream_t stream) {
    const int slots = smallest(f->blocks * BLOCKS / DW_CUTS, batch, DW2_SLOTS);
    f->dw2.count = slots;
    LAUNCH(f, (conv2_dw_fp32<GROUPS, BLOCKS, STAGES>), slots * DW_CUTS,
           GROUPS * DW_GROUP, (DW_NUMBERS + STAGES * DW_STAGE) * sizeof(float),
           stream, conv2_dw_arrays_of(f, batch));
    return WEFT_OK;
}

static int launch_conv2_back(struct fused *f, int batch, cudaStream_t stream) {
    typedef dx_shape<BACK_COT, BACK_SPLIT> S;
    enum { CUTS = C1 / BACK_COT, FLOATS = S::FIXED + S::WORK };
    static_assert((int)CUTS == (int)DW_CUTS, "equal numbers of blocks");
    static_assert(FLOATS >= DW_NUMBERS + DW_STAGE, "no room for dw");
    const int slots = smallest(f->blocks / CUTS, batch, DW2_SLOTS);
    f->winners.count = f->dw2.count = slots;
    f->dw2_made = 1;
    LAUNCH_PAIRS(f, conv2_back_fp32, 2 * slots * CUTS, DW_GROUP,
                 FLOATS * sizeof(float), stream, conv2_dx_arrays_of(f, batch),
                 conv2_dw_arrays_of(f, batch));
    return WEFT_OK;
}

int fused_conv2_dx(struct fused *f, int batch, cudaStream_t stream) {
    f->dw2_made = 0;
    if (f->precision != FP32) return fused_conv2_dx_mma(f, batch, stream);
    if (f->winograd) return fused_conv2_dx_winograd(f, batch, stream);
    if (2 * batch <= f->blocks) return launch_conv2_back(f, batch, stream);
    if (has_large_blocks())
        return launch_conv2_dx<32, 4, 1, 2>(f, batch, stream);
    return launch_conv2_dx<16, 4, 2, 1>(f, batch, stream);
}

int fused_conv2_dw(struct fused *f, int batch, cudaStream_t stream) {
    if (f->precision != FP32) return fused_conv2_dw_mma(f, batch, stream);
    if (f->winograd) return fused_conv2_dw_winograd(f, batch, stream);
    if (has_large_blocks()) return launch_conv2_dw<2, 1, 2>(f, batch, stream);
    return launch_conv2_dw<2, 2, 1>(f, batch, stream);
}
