/* moments.cu -- sums over the batch's 3x3 patches, for conv1's batch norm.
 *
 * Idea:    conv1's mean and variance follow from 70 sums over the images, which
 *          are exact because they are integers (moments.cuh). So no pass over
 *          conv1's output is needed.
 * Limit:   at B = 64, the launch and the latency from order to image to sum;
 *          for larger batches, dp4a. */
#include "bn1.cuh"
#include "common/ptx.cuh"
#include "launch.cuh"

enum { WARPS = 8 };

static __global__ void __launch_bounds__(WARPS * 32)
    moments(moment *slots, const struct fused_run *run, int batch) {
    __shared__ unsigned warps_s[WARPS * MOMENTS];
    pdl_wait();
    pdl_trigger();
    moments_role(slots, warps_s, run, run->first, batch, blockIdx.x, gridDim.x,
                 WARPS);
}

/* Compute conv1's batch norm from the sums. If a step came before, update() has
 * done this already. A block has two channels. */
enum { BN1_THREADS = 96 };
static __global__ void __launch_bounds__(BN1_THREADS)
    first_bn1(struct bn1 *to, const struct bn1_from from, const float *params) {
    __shared__ struct bn1_scratch scratch_s;
    __shared__ struct patch_sums patch_s;
    __shared__ float w_s[BN1_EACH][TAPS];
    const int i = threadIdx.x, first = blockIdx.x * BN1_EACH;
    if (i < BN1_EACH * TAPS)
        w_s[i / TAPS][i % TAPS] =
            params[CONV1_W + i % TAPS * C1 + first + i / TAPS];
    pdl_wait();
    pdl_trigger();
    bn1_add_slots(&scratch_s, &from, i);
    __syncthreads();
    bn1_zones(&scratch_s, i);
    __syncthreads();
    bn1_patches(&patch_s, &scratch_s, &from, i);
    __syncthreads();
    const int warp = i / 32, channel = first + warp;
    bn1_keep(to, &patch_s, blockIdx.x, i);
    if (warp < BN1_EACH)
        bn1_channel(to, channel, &patch_s, w_s[warp], params[BN1_W + channel],
                    params[BN1_B + channel], &from, i % 32);
}

int fused_patches(struct fused *f, int batch, cudaStream_t stream) {
    const int blocks = moment_blocks(f, batch, WARPS);
    WEFT_REQUIRE(batch <= blocks * WARPS * 80,
                 "mnist: a batch of %d, the sums for batch norm hold %d", batch,
                 blocks * WARPS * 80);
    f->moments.count = blocks;
    LAUNCH(f, moments, blocks, WARPS * 32, 0, stream, (moment *)f->moments.data,
           f->run, batch);
    return WEFT_OK;
}

int fused_bn1(struct fused *f, int batch, cudaStream_t stream) {
    LAUNCH(f, first_bn1, BN1_BLOCKS, BN1_THREADS, 0, stream, bn1_of(f),
           bn1_from(f, batch), (const float *)f->params);
    return WEFT_OK;
}
