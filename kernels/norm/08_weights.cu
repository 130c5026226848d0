/* 08_weights.cu -- the gradients of weight and bias, in a fixed order.
 *
 * dweight is the sum of dy * xhat over the rows, dbias that of dy.
 *
 * Idea:       a block adds PIECE rows of 256 columns, a column per thread, so
 *             loads are coalesced and no atomic is needed. Every piece's sums
 *             are stored, and pieces of these are added in the same way until
 *             one is left. So the order of the additions depends on the number
 *             of rows only: every grid, device and target yields the same bits.
 * Prediction: one more read of dy and x. The sums are a 64th of it.
 * Limit:      that read; the rows' own gradients read the same numbers. */
#include "norm.cuh"

enum { PIECE = 64 };

/* Store the sums of a piece of rows: sums (2,pieces,cols), for dweight and
 * dbias. */
static __global__ void add_rows(float *sums, normal_backward n, size_t pieces) {
    const size_t col = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (col >= n.cols) return;
    for (size_t piece = blockIdx.y; piece < pieces; piece += gridDim.y) {
        const size_t end = (piece + 1) * PIECE;
        float scaled = 0.0f, plain = 0.0f;
        for (size_t row = piece * PIECE; row < end && row < n.rows; row++) {
            const size_t i = row * n.cols + col;
            const float mean = n.mean ? n.mean[row] : 0.0f;
            plain += n.dy[i];
            scaled += n.dy[i] * ((n.x[i] - mean) * n.rstd[row]);
        }
        sums[piece * n.cols + col] = scaled;
        sums[(pieces + piece) * n.cols + col] = plain;
    }
}

/* Store the sums of pieces of `from` (2,count,cols) in `to` (2,pieces,cols). */
static __global__ void add_pieces(float *to, const float *from, size_t count,
                                  size_t pieces, unsigned cols) {
    const size_t col = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (col >= cols) return;
    for (size_t i = blockIdx.y; i < 2 * pieces; i += gridDim.y) {
        const size_t half = i / pieces, end = (i % pieces + 1) * PIECE;
        float sum = 0.0f;
        for (size_t p = i % pieces * PIECE; p < end && p < count; p++)
            sum += from[(half * count + p) * cols + col];
        to[i * cols + col] = sum;
    }
}

/* Compute n.dweight and n.dbias, unless both are NULL. */
int norm_weights(const char *op, const normal_backward &n,
                 cudaStream_t stream) {
    if (!n.dweight && !n.dbias) return WEFT_OK;
    size_t pieces = CEIL_DIV((size_t)n.rows, PIECE), all = 2 * pieces;
    for (size_t left = pieces; left > 1; all += 2 * left)
        left = CEIL_DIV(left, PIECE);
    scratch memory(stream);
    WEFT_TRY(memory.claim(op, all * n.cols * sizeof(float)));
    float *sums = (float *)memory.memory;
    const unsigned across = blocks_for(n.cols), down = 65535;
    const dim3 grid(across, (unsigned)(pieces < down ? pieces : down));
    add_rows<<<grid, THREADS, 0, stream>>>(sums, n, pieces);
    WEFT_LAUNCHED(add_rows);
    while (pieces > 1) {
        const size_t count = pieces;
        float *const from = sums;
        pieces = CEIL_DIV(count, PIECE);
        sums += 2 * count * n.cols;
        const dim3 less(across,
                        (unsigned)(2 * pieces < down ? 2 * pieces : down));
        add_pieces<<<less, THREADS, 0, stream>>>(sums, from, count, pieces,
                                                 n.cols);
        WEFT_LAUNCHED(add_pieces);
    }
    const size_t bytes = n.cols * sizeof(float);
    const auto to = cudaMemcpyDeviceToDevice;
    if (n.dweight)
        WEFT_CUDA_TRY(cudaMemcpyAsync(n.dweight, sums, bytes, to, stream));
    if (n.dbias)
        WEFT_CUDA_TRY(
            cudaMemcpyAsync(n.dbias, sums + n.cols, bytes, to, stream));
    return WEFT_OK;
}
