/* tiled.cu -- convolution, rung "tiled": as matrix products.
 *
 * Before:  rung naive needs two loads from memory for each multiply-add, and
 *          one thread sums a weight's gradient over the whole batch.
 * Idea:    forward, a convolution is a product of the filters (oc, ic * kh *
 *          kw) and a matrix whose columns hold each output pixel's inputs. That
 *          matrix is never stored ("implicit"). A block takes one position of
 *          the filter after another. At each position, a column is one input
 *          pixel with its channels, which the block stages in shared memory.
 *          The gradient of x is the same product, of dy and the filters rotated
 *          by 180 degrees. dweight has few results and long sums. A block takes
 *          a few results, and its threads share the pixels of the batch, each
 *          with all of the block's results in registers. At the end the
 *          threads' sums are added.
 * Limit:   forward, a pixel is staged once for each of the kh * kw positions,
 *          and nothing is multiplied while loads wait. For dweight, dy is read
 *          ic times from the L2 cache, and with one input channel there are at
 *          most as many blocks as filters.
 * Error:   the same as that of rung naive, but dweight and dbias add fewer
 *          terms in sequence.
 * Lesson:  notebooks/15b_mnist_gpu.ipynb */
#include "tiled.h"

#include "common/tiles.cuh"

/* ---- forward, and the gradient of x -------------------------------------- */

/* The convolution result (n,rows,result_h,result_w) = source (n,depth,h,w)
 * correlated with kh x kw filters, with `pad` zeros above and left of the
 * source. Filter position t of row r and source channel k is weight[r *
 * row_stride + k * depth_stride + t]. If `turned`, positions are counted
 * backwards from the last one. */
struct correlation {
    int n, rows, depth, h, w, result_h, result_w, kh, kw;
    int pad_h, pad_w; // if negative, the source's edge is never read
    size_t row_stride, depth_stride;
    int turned;
};

/* The position at which the calling thread's column of the tile reads the
 * source. */
struct column {
    const float *image; // channel 0 of the column's image
    int row, col;       // source position under the filter's first position
};

static __device__ struct column own_column(const float *source, size_t pixel,
                                           const struct correlation *c) {
    const size_t plane = (size_t)c->result_h * c->result_w;
    const int at = (int)(pixel % plane);
    return {source + pixel / plane * c->depth * c->h * c->w,
            at / c->result_w - c->pad_h, at % c->result_w - c->pad_w};
}

/* Load right_s[k][col] = channel first + k of the column's pixel under position
 * (r,s) of the filter, or zero if that is outside. */
static __device__ void load_pixels(float (*right_s)[RIGHT_PITCH],
                                   const struct column *column, bool exists,
                                   int r, int s, int first, int depth,
                                   const struct correlation *c) {
    const int i = column->row + r, j = column->col + s;
    const bool inside = exists && i >= 0 && i < c->h && j >= 0 && j < c->w;
    const size_t plane = (size_t)c->h * c->w;
    const float *from = column->image + (size_t)i * c->w + j + first * plane;
    const int col = threadIdx.x % TILE_COLS;
    enum { STEP = TILE_THREADS / TILE_COLS };
#pragma unroll
    for (int turn = 0; turn < TILE_DEPTH / STEP; turn++) {
        const int k = turn * STEP + threadIdx.x / TILE_COLS;
        if (k < depth) right_s[k][col] = inside ? from[k * plane] : 0.0f;
    }
}

/* Load left_s[k][row] = the weight of result channel first_row + row and source
 * channel first + k at position `tap`. Lanes take 8 channels of 4 filters. */
static __device__ void load_weights(float (*left_s)[LEFT_PITCH],
                                    const float *weight, int tap, int first_row,
                                    int first, int depth,
                                    const struct correlation *c) {
    const int row_in_4 = threadIdx.x % 4, k_in_8 = threadIdx.x / 4 % 8;
    enum { STEP = TILE_THREADS / 32 };
#pragma unroll
    for (int i = 0; i < TILE_ROWS * TILE_DEPTH / 32 / STEP; i++) {
        const int turn = i * STEP + threadIdx.x / 32;
        const int row = turn % (TILE_ROWS / 4) * 4 + row_in_4;
        const int k = turn / (TILE_ROWS / 4) * 8 + k_in_8;
        if (k < depth)
            left_s[k][row] = first_row + row < c->rows
                                 ? weight[(first_row + row) * c->row_stride +
                                          (first + k) * c->depth_stride + tap]
                                 : 0.0f;
    }
}

/* Compute TILE_ROWS channels of TILE_COLS pixels in each block. The pixels may
 * belong to several images, since they are counted through the whole batch.
 * Neighbouring blocks process the same pixels, so all but the first find them
 * in the cache. */
static __global__ void conv2d_tiled(float *result, const float *source,
                                    const float *weight, const float *bias,
                                    struct correlation c) {
    __shared__ __align__(16) float left_s[TILE_DEPTH][LEFT_PITCH];
    __shared__ __align__(16) float right_s[TILE_DEPTH][RIGHT_PITCH];
    const size_t plane = (size_t)c.result_h * c.result_w, pixels = c.n * plane;
    const int across = (c.rows - 1) / TILE_ROWS + 1, taps = c.kh * c.kw;
    const int first_row = blockIdx.x % across * TILE_ROWS;
    const size_t first_pixel = (size_t)(blockIdx.x / across) * TILE_COLS;
    const size_t pixel = first_pixel + threadIdx.x % TILE_COLS;
    const bool exists = pixel < pixels;
    const struct column column = own_column(source, exists ? pixel : 0, &c);

    float sums[4][4] = {};
    for (int t = 0; t < taps; t++)
        for (int first = 0; first < c.depth; first += TILE_DEPTH) {
            const int rest = c.depth - first;
            const int depth = rest < TILE_DEPTH ? rest : TILE_DEPTH;
            load_weights(left_s, weight, c.turned ? taps - 1 - t : t, first_row,
                         first, depth, &c);
            load_pixels(right_s, &column, exists, t / c.kw, t % c.kw, first,
                        depth, &c);
            __syncthreads(); // both tiles are complete ...
            multiply_tiles(sums, left_s, right_s, depth);
            __syncthreads(); // ... and have been read
        }

    for (int j = 0; j < 4; j++) {
        const size_t mine = first_pixel + own_col() + j;
        if (mine >= pixels) break;
        const size_t at = mine / plane * c.rows * plane + mine % plane;
        for (int i = 0; i < 4; i++) {
            const int row = first_row + own_row() + i;
            if (row < c.rows)
                result[at + row * plane] =
                    sums[i][j] + (bias ? bias[row] : 0.0f);
        }
    }
}

/* ---- the gradient of the weights ----------------------------------------- */

/* An output pixel of the batch. */
struct pixel {
    int image, row, col;
};

static __device__ struct pixel split(int at, int oh, int ow) {
    return {at / ow / oh, at / ow % oh, at % ow};
}

/* Add `by` to *at, without a division. */
static __device__ void advance(struct pixel *at, const struct pixel *by, int oh,
                               int ow) {
    at->col += by->col;
    at->row += by->row;
    at->image += by->image;
    if (at->col >= ow) at->col -= ow, at->row++;
    if (at->row >= oh) at->row -= oh, at->image++;
}

/* Compute dweight (oc,ic,kh,kw). A block computes FILTERS filters, one input
 * channel and TAPS positions. A thread processes every THREADS-th pixel. For
 * each, it reads FILTERS values of dy and TAPS of x, and does FILTERS * TAPS
 * multiply-adds. */
template <int FILTERS, int TAPS, int THREADS>
static __global__ void __launch_bounds__(THREADS)
    conv2d_tiled_dweight(float *dweight, const float *dy, const float *x,
                         struct conv2d_sizes c) {
    __shared__ float sums_s[FILTERS * TAPS][33];
    const int taps = c.kh * c.kw, parts = CEIL_DIV(taps, TAPS);
    const int first_tap = blockIdx.x % parts * TAPS;
    const int channel = blockIdx.x / parts % c.ic;
    const int first_filter = blockIdx.x / parts / c.ic * FILTERS;
    const size_t plane = (size_t)c.h * c.w, result = (size_t)c.oh * c.ow;

    float sums[FILTERS * TAPS] = {};
    const struct pixel by = split(THREADS, c.oh, c.ow);
    struct pixel at = split(threadIdx.x, c.oh, c.ow);
    for (; at.image < c.n; advance(&at, &by, c.oh, c.ow)) {
        const size_t image = at.image;
        const float *from_y = dy + (image * c.oc + first_filter) * result +
                              (size_t)at.row * c.ow + at.col;
        const float *from_x = x + (image * c.ic + channel) * plane;
        float y_r[FILTERS];
#pragma unroll
        for (int f = 0; f < FILTERS; f++)
            y_r[f] = first_filter + f < c.oc ? from_y[f * result] : 0.0f;
#pragma unroll
        for (int t = 0; t < TAPS; t++) {
            const int i = at.row - c.padding + (first_tap + t) / c.kw;
            const int j = at.col - c.padding + (first_tap + t) % c.kw;
            const bool inside = i >= 0 && i < c.h && j >= 0 && j < c.w;
            const float x_r = inside ? from_x[(size_t)i * c.w + j] : 0.0f;
#pragma unroll
            for (int f = 0; f < FILTERS; f++)
                sums[f * TAPS + t] += y_r[f] * x_r;
        }
    }

    const float sum = block_totals<FILTERS * TAPS>(sums, sums_s);
    const int filter = first_filter + threadIdx.x / TAPS;
    const int tap = first_tap + threadIdx.x % TAPS;
    if (threadIdx.x < FILTERS * TAPS && filter < c.oc && tap < taps)
        dweight[((size_t)filter * c.ic + channel) * taps + tap] = sum;
}

enum { SUM_THREADS = 512, SUM_LOADS = 8 };

/* Compute dbias (oc), the sum of dy over images and pixels. Each channel has
 * one block, whose threads keep SUM_LOADS loads in flight. */
static __global__ void conv2d_tiled_dbias(float *dbias, const float *dy, int n,
                                          int oc, int oh, int ow) {
    __shared__ float partial_s[32];
    const struct pixel by = split(SUM_THREADS, oh, ow);
    struct pixel at = split(threadIdx.x, oh, ow);
    float sum = 0.0f;
    while (at.image < n) {
#pragma unroll
        for (int i = 0; i < SUM_LOADS; i++) {
            const size_t image = (size_t)at.image * oc + blockIdx.x;
            sum += at.image < n ? dy[(image * oh + at.row) * ow + at.col] : 0;
            advance(&at, &by, oh, ow);
        }
    }
    sum = block_total(sum, partial_s);
    if (threadIdx.x == 0) dbias[blockIdx.x] = sum;
}

/* ---- launches ------------------------------------------------------------ */

static int correlate(float *result, const float *source, const float *weight,
                     const float *bias, const struct correlation *c,
                     cudaStream_t stream) {
    const size_t pixels = (size_t)c->n * c->result_h * c->result_w;
    const size_t tiles =
        CEIL_DIV(pixels, TILE_COLS) * CEIL_DIV((size_t)c->rows, TILE_ROWS);
    conv2d_tiled<<<(unsigned)tiles, TILE_THREADS, 0, stream>>>(
        result, source, weight, bias, *c);
    WEFT_LAUNCHED(conv2d_tiled);
    return WEFT_OK;
}

int conv2d_tiled_forward(float *y, const float *x, const float *weight,
                         const float *bias, const struct conv2d_sizes *sizes,
                         cudaStream_t stream) {
    const struct conv2d_sizes s = *sizes;
    const size_t taps = (size_t)s.kh * s.kw;
    const struct correlation c = {s.n,       s.oc,        s.ic, s.h,  s.w,
                                  s.oh,      s.ow,        s.kh, s.kw, s.padding,
                                  s.padding, s.ic * taps, taps, 0};
    return correlate(y, x, weight, bias, &c, stream);
}

/* With at most this many blocks, dweight would leave most of a GPU idle. */
enum { FEW_BLOCKS = 32 };

static int launch_dweight(float *dweight, const float *dy, const float *x,
                          const struct conv2d_sizes *s, cudaStream_t stream) {
    const size_t taps = (size_t)s->kh * s->kw;
    const size_t filters = s->oc;
    const size_t blocks = CEIL_DIV(filters, 8) * s->ic * CEIL_DIV(taps, 9);
    if (blocks > FEW_BLOCKS) {
        conv2d_tiled_dweight<8, 9, 256>
            <<<(unsigned)blocks, 256, 0, stream>>>(dweight, dy, x, *s);
    } else { // more blocks, each with fewer results from more threads
        const size_t more = filters * s->ic * CEIL_DIV(taps, 3);
        conv2d_tiled_dweight<1, 3, 1024>
            <<<(unsigned)more, 1024, 0, stream>>>(dweight, dy, x, *s);
    }
    WEFT_LAUNCHED(conv2d_tiled_dweight);
    return WEFT_OK;
}

int conv2d_tiled_backward(float *dx, float *dweight, float *dbias,
                          const float *dy, const float *x, const float *weight,
                          const struct conv2d_sizes *sizes,
                          cudaStream_t stream) {
    const struct conv2d_sizes s = *sizes;
    const size_t taps = (size_t)s.kh * s.kw;
    if (dx) {
        // A filter rotated by 180 degrees starts kh - 1 - padding pixels
        // outside.
        const struct correlation c = {s.n,
                                      s.ic,
                                      s.oc,
                                      s.oh,
                                      s.ow,
                                      s.h,
                                      s.w,
                                      s.kh,
                                      s.kw,
                                      s.kh - 1 - s.padding,
                                      s.kw - 1 - s.padding,
                                      taps,
                                      s.ic * taps,
                                      1};
        WEFT_TRY(correlate(dx, dy, weight, NULL, &c, stream));
    }
    if (dweight) WEFT_TRY(launch_dweight(dweight, dy, x, &s, stream));
    if (dbias) {
        conv2d_tiled_dbias<<<(unsigned)s.oc, SUM_THREADS, 0, stream>>>(
            dbias, dy, s.n, s.oc, s.oh, s.ow);
        WEFT_LAUNCHED(conv2d_tiled_dbias);
    }
    return WEFT_OK;
}
