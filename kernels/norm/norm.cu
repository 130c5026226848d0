/* norm.cu -- selects the rung of a layernorm or an rmsnorm. */
#include "../common/split.cuh"
#include "norm.cuh"

/* Return the rung for a shape of which a block keeps `arrays` arrays. */
static int choose(int rung, unsigned rows, unsigned cols, unsigned arrays) {
    if (rung != NORM_TUNED) return rung;
    if (cols <= IN_REGISTERS) return NORM_WARP_A_ROW;
    return must_split(rows, cols, arrays) ? NORM_SPLIT_ROWS
                                          : NORM_ROW_IN_SHARED;
}

int weft_norm(const char *op, int rung, const normal &n, cudaStream_t stream) {
    switch (choose(rung, n.rows, n.cols, 1 + !!n.weight + !!n.bias)) {
    case NORM_THREAD_A_ROW: return norm_thread_a_row(n, stream);
    case NORM_WARP_A_ROW: return norm_warp_a_row(n, stream);
    case NORM_BLOCK_A_ROW: return norm_block_a_row(n, stream);
    case NORM_ROW_IN_SHARED: return norm_row_in_shared(n, stream);
    case NORM_SPLIT_ROWS: return norm_split_rows(op, n, stream);
    }
    return WEFT_OK;
}

static int differentiate_rows(const char *op, int rung,
                              const normal_backward &n, cudaStream_t stream) {
    switch (choose(rung, n.rows, n.cols, 2)) {
    case NORM_THREAD_A_ROW: return norm_thread_a_row_backward(n, stream);
    case NORM_WARP_A_ROW: return norm_warp_a_row_backward(n, stream);
    case NORM_BLOCK_A_ROW: return norm_block_a_row_backward(n, stream);
    case NORM_ROW_IN_SHARED: return norm_row_in_shared_backward(n, stream);
    case NORM_SPLIT_ROWS: return norm_split_rows_backward(op, n, stream);
    }
    return WEFT_OK;
}

int weft_norm_backward(const char *op, int rung, const normal_backward &n,
                       cudaStream_t stream) {
    if (n.dx || n.dresidual) WEFT_TRY(differentiate_rows(op, rung, n, stream));
    return norm_weights(op, n, stream);
}
