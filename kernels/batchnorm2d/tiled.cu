/* tiled.cu -- batch norm, rung "tiled".
 *
 * Before:  in rung naive, each thread waits for one float, divides 64-bit
 *          numbers to find the next one, and waits again.
 * Idea:    use the same two passes with four times as many threads. They load 4
 *          floats at a time, have several loads in flight, and step through the
 *          images without a division; shuffles sum within a warp.
 * Limit:   one block per channel as before, so 32 channels get the bandwidth of
 *          32 multiprocessors, though the second pass finds x in the L2 cache.
 * Error:   the same as that of rung naive, with n*h*w / 1024 terms in a row.
 * Lesson:  notebooks/15b_mnist_gpu.ipynb */
#include "tiled.h"

#include <math.h>

#include "common/checks.cuh"
#include "common/tiles.cuh"

enum { MANY = 1024, LOADS = 4 }; // threads; loads in flight per thread

/* A thread's walk over one channel's values in all images, in pieces of WIDTH
 * floats. The block's threads process adjacent pieces, then all move MANY
 * pieces further on. */
struct walk {
    size_t pieces;       // number of pieces in a plane
    size_t image, piece; // current position of the walk
};

static __device__ struct walk start(size_t pieces) {
    return {pieces, threadIdx.x / pieces, threadIdx.x % pieces};
}

static __device__ void advance(struct walk *at, const struct walk *by) {
    at->image += by->image, at->piece += by->piece;
    if (at->piece >= at->pieces) at->piece -= at->pieces, at->image++;
}

/* Return the walk's position in an array of c channels; block k walks channel
 * k. */
static __device__ size_t place(const struct walk *at, int c) {
    return (at->image * c + blockIdx.x) * at->pieces + at->piece;
}

/* WIDTH floats that are loaded and stored with one instruction. */
template <int WIDTH> struct __align__(WIDTH * sizeof(float)) piece {
    float v[WIDTH];
};

/* Load the walk's next LOADS pieces of an array of c channels, all in flight at
 * the same time. Returns the number of pieces loaded, which is below LOADS only
 * at the end of the walk. */
template <int WIDTH>
static __device__ __forceinline__ int
load(piece<WIDTH> pieces[LOADS], const float *from, struct walk *at,
     const struct walk *by, size_t images, int c) {
    int got = 0;
#pragma unroll
    for (int i = 0; i < LOADS; i++) {
        pieces[i] = {};
        if (at->image < images) {
            pieces[i] = ((const piece<WIDTH> *)from)[place(at, c)];
            got++;
        }
        advance(at, by);
    }
    return got;
}

/* Compute mean (c) and rstd (c) of x with one block per channel. */
template <int WIDTH>
static __global__ void batchnorm2d_tiled_stats(float *mean, float *rstd,
                                               const float *x, int n, int c,
                                               size_t plane, float eps) {
    __shared__ float partial_s[2][32];
    const size_t images = n, pieces = plane / WIDTH;
    const struct walk by = {pieces, MANY / pieces, MANY % pieces};

    float m = 0.0f;
    for (int pass = 0; pass < 2; pass++) { // pass 0 sums x, pass 1 sums (x -
                                           // m)^2
        float sum = 0.0f;
        struct walk at = start(pieces);
        while (at.image < images) {
            piece<WIDTH> x_r[LOADS];
            const int got = load(x_r, x, &at, &by, images, c);
#pragma unroll
            for (int i = 0; i < LOADS; i++)
                for (int j = 0; j < WIDTH; j++) {
                    const float value = x_r[i].v[j] - m; // m is 0 in pass 0
                    if (i < got) sum += pass ? value * value : value;
                }
        }
        sum = block_total(sum, partial_s[pass]) / (images * plane);
        if (pass == 0) m = sum;
        if (pass == 1 && threadIdx.x == 0) {
            mean[blockIdx.x] = m;
            rstd[blockIdx.x] = 1.0f / sqrtf(sum + eps);
        }
    }
}

/* Compute y from x and its statistics. One thread handles one piece. */
template <int WIDTH>
static __global__ void batchnorm2d_tiled(float *y, const float *x,
                                         const float *weight, const float *bias,
                                         const float *mean, const float *rstd,
                                         size_t pieces, int c, size_t plane) {
    const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= pieces) return;
    const size_t k = i / (plane / WIDTH) % c;
    const float m = mean[k], r = rstd[k], w = weight[k], b = bias[k];
    piece<WIDTH> x_r = ((const piece<WIDTH> *)x)[i];
    for (int j = 0; j < WIDTH; j++) x_r.v[j] = (x_r.v[j] - m) * r * w + b;
    ((piece<WIDTH> *)y)[i] = x_r;
}

/* Compute dbias (c) and dweight (c), as in rung naive. One block handles one
 * channel. */
template <int WIDTH>
static __global__ void
batchnorm2d_tiled_sums(float *dweight, float *dbias, const float *dy,
                       const float *x, const float *mean, const float *rstd,
                       int n, int c, size_t plane) {
    __shared__ float partial_s[2][32];
    const size_t images = n, pieces = plane / WIDTH;
    const struct walk by = {pieces, MANY / pieces, MANY % pieces};
    const float m = mean[blockIdx.x], r = rstd[blockIdx.x];

    float sum = 0.0f, products = 0.0f;
    struct walk at = start(pieces);
    while (at.image < images) {
        piece<WIDTH> dy_r[LOADS], x_r[LOADS];
        struct walk same = at;
        const int got = load(dy_r, dy, &same, &by, images, c);
        load(x_r, x, &at, &by, images, c);
#pragma unroll
        for (int i = 0; i < LOADS; i++)
            for (int j = 0; j < WIDTH; j++)
                if (i < got) {
                    sum += dy_r[i].v[j];
                    products += dy_r[i].v[j] * ((x_r[i].v[j] - m) * r);
                }
    }
    sum = block_total(sum, partial_s[0]);
    products = block_total(products, partial_s[1]);
    if (threadIdx.x == 0) {
        dbias[blockIdx.x] = sum;
        dweight[blockIdx.x] = products;
    }
}

/* Compute dx, as in rung naive. One thread handles one piece. */
template <int WIDTH>
static __global__ void
batchnorm2d_tiled_dx(float *dx, const float *dweight, const float *dbias,
                     const float *dy, const float *x, const float *weight,
                     const float *mean, const float *rstd, size_t pieces, int n,
                     int c, size_t plane) {
    const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= pieces) return;
    const size_t k = i / (plane / WIDTH) % c, count = n * plane;
    const float m = mean[k], r = rstd[k], scale = weight[k] * r;
    const float along_1 = dbias[k] / count, along_xhat = dweight[k] / count;
    const piece<WIDTH> dy_r = ((const piece<WIDTH> *)dy)[i];
    const piece<WIDTH> x_r = ((const piece<WIDTH> *)x)[i];
    piece<WIDTH> dx_r;
    for (int j = 0; j < WIDTH; j++)
        dx_r.v[j] =
            scale * (dy_r.v[j] - along_1 - (x_r.v[j] - m) * r * along_xhat);
    ((piece<WIDTH> *)dx)[i] = dx_r;
}

/* Return whether planes and arrays are aligned for loads of 4 floats. */
static int fours(size_t plane, const void *a, const void *b, const void *c) {
    const uintptr_t all = (uintptr_t)a | (uintptr_t)b | (uintptr_t)c;
    return plane % 4 == 0 && all % (4 * sizeof(float)) == 0;
}

template <int WIDTH>
static int launch_tiled(float *y, float *mean, float *rstd, const float *x,
                        const float *weight, const float *bias, int n, int c,
                        size_t plane, float eps, cudaStream_t stream) {
    const size_t pieces = (size_t)n * c * plane / WIDTH;
    batchnorm2d_tiled_stats<WIDTH>
        <<<c, MANY, 0, stream>>>(mean, rstd, x, n, c, plane, eps);
    WEFT_LAUNCHED(batchnorm2d_tiled_stats);
    batchnorm2d_tiled<WIDTH><<<blocks_for(pieces), THREADS, 0, stream>>>(
        y, x, weight, bias, mean, rstd, pieces, c, plane);
    WEFT_LAUNCHED(batchnorm2d_tiled);
    return WEFT_OK;
}

template <int WIDTH>
static int launch_tiled_backward(float *dx, float *dweight, float *dbias,
                                 const float *dy, const float *x,
                                 const float *weight, const float *mean,
                                 const float *rstd, int n, int c, size_t plane,
                                 cudaStream_t stream) {
    const size_t pieces = (size_t)n * c * plane / WIDTH;
    batchnorm2d_tiled_sums<WIDTH><<<c, MANY, 0, stream>>>(
        dweight, dbias, dy, x, mean, rstd, n, c, plane);
    WEFT_LAUNCHED(batchnorm2d_tiled_sums);
    batchnorm2d_tiled_dx<WIDTH><<<blocks_for(pieces), THREADS, 0, stream>>>(
        dx, dweight, dbias, dy, x, weight, mean, rstd, pieces, n, c, plane);
    WEFT_LAUNCHED(batchnorm2d_tiled_dx);
    return WEFT_OK;
}

int batchnorm2d_tiled_forward(float *y, float *mean, float *rstd,
                              const float *x, const float *weight,
                              const float *bias, int n, int c, size_t plane,
                              float eps, cudaStream_t stream) {
    return (fours(plane, x, y, y) ? launch_tiled<4>
                                  : launch_tiled<1>)(y, mean, rstd, x, weight,
                                                     bias, n, c, plane, eps,
                                                     stream);
}

int batchnorm2d_tiled_backward(float *dx, float *dweight, float *dbias,
                               const float *dy, const float *x,
                               const float *weight, const float *mean,
                               const float *rstd, int n, int c, size_t plane,
                               cudaStream_t stream) {
    return (fours(plane, dx, dy, x)
                ? launch_tiled_backward<4>
                : launch_tiled_backward<1>)(dx, dweight, dbias, dy, x, weight,
                                            mean, rstd, n, c, plane, stream);
}
