/* moments.cu -- sums over the batch's 3x3 patches, for conv1's batch norm.
 *
 * Idea:    moments.cuh: conv1's mean and variance follow from 70 sums over the
 *          images, which are exact, being integers. No pass over its output.
 * Binds:   at B = 64 the launch and the way from order to image to sum; then
 *          dp4a. */
#include "launch.cuh"
#include "moments.cuh"
#include "ptx.cuh"

enum { WARPS = 8 };

static __global__ void __launch_bounds__(WARPS * 32)
    moments(moment *slots, const struct fused_run *run, int batch) {
    __shared__ unsigned warps_s[WARPS * MOMENTS];
    pdl_wait();
    pdl_trigger();
    moments_role(slots, warps_s, run, run->first, batch, blockIdx.x, gridDim.x,
                 WARPS);
}

int fused_moments(struct fused *f, int batch, cudaStream_t stream) {
    const int blocks = moment_blocks(f, batch, WARPS);
    WEFT_REQUIRE(batch <= blocks * WARPS * 80,
                 "mnist: a batch of %d, the sums for batch norm hold %d", batch,
                 blocks * WARPS * 80);
    f->moments.count = blocks;
    LAUNCH(f, moments, blocks, WARPS * 32, 0, stream, (moment *)f->moments.data,
           f->run, batch);
    return WEFT_OK;
}
