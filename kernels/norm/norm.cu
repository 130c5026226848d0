/* norm.cu -- selects the rung of a layernorm or an rmsnorm. */
#include "norm.cuh"

/* Return the rung that suits rows of `cols` numbers. */
static int choose(int rung, unsigned cols) {
    if (rung != NORM_TUNED) return rung;
    return cols <= IN_REGISTERS ? NORM_WARP_A_ROW : NORM_ROW_IN_SHARED;
}

int weft_norm(int rung, const normal &n, cudaStream_t stream) {
    switch (choose(rung, n.cols)) {
    case NORM_THREAD_A_ROW: return norm_thread_a_row(n, stream);
    case NORM_WARP_A_ROW: return norm_warp_a_row(n, stream);
    case NORM_BLOCK_A_ROW: return norm_block_a_row(n, stream);
    case NORM_ROW_IN_SHARED: return norm_row_in_shared(n, stream);
    }
    return WEFT_OK;
}

static int differentiate_rows(int rung, const normal_backward &n,
                              cudaStream_t stream) {
    switch (choose(rung, n.cols)) {
    case NORM_THREAD_A_ROW: return norm_thread_a_row_backward(n, stream);
    case NORM_WARP_A_ROW: return norm_warp_a_row_backward(n, stream);
    case NORM_BLOCK_A_ROW: return norm_block_a_row_backward(n, stream);
    case NORM_ROW_IN_SHARED: return norm_row_in_shared_backward(n, stream);
    }
    return WEFT_OK;
}

int weft_norm_backward(const char *op, int rung, const normal_backward &n,
                       cudaStream_t stream) {
    if (n.dx || n.dresidual) WEFT_TRY(differentiate_rows(rung, n, stream));
    return norm_weights(op, n, stream);
}
