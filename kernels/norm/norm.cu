/* norm.cu -- selects the rung of a layernorm or an rmsnorm. */
#include "../common/cluster.cuh"
#include "../common/split.cuh"
#include "norm.cuh"

/* The longest rows, in numbers, of the fastest rung on an H200: in the
 * registers of a warp, a block or a cluster. With two arrays, the rows of a
 * block and of a cluster are half as long, and those of a warp are twice as
 * long. */
enum { IN_WARP = 512, IN_BLOCK = 32768, IN_CLUSTER = 8 * IN_BLOCK };

/* Return the fastest rung whose blocks keep a row in registers, or NORM_TUNED
 * if the row is too long. The rung keeps `arrays` arrays of rows. */
static int choose_registers(unsigned cols, unsigned arrays) {
    const bool clusters = count_cluster() > 1;
    if (cols <= IN_WARP * arrays) return NORM_WARP_A_ROW;
    if (cols <= IN_BLOCK / arrays) return NORM_ROW_IN_REGISTERS;
    if (clusters && cols <= IN_CLUSTER / arrays) return NORM_CLUSTER_A_ROW;
    return NORM_TUNED;
}

/* Return the rung for a shape if a block keeps `arrays` arrays of rows, and
 * `scales` of the arrays weight and bias. */
static int choose(int rung, unsigned rows, unsigned cols, unsigned arrays,
                  unsigned scales) {
    if (rung != NORM_TUNED) return rung;
    const int found = choose_registers(cols, arrays);
    if (found == NORM_WARP_A_ROW) return found;
    if (are_few(rows, cols)) return NORM_SPLIT_ROWS;
    if (found != NORM_TUNED) return found;
    return must_split(rows, cols, arrays + scales) ? NORM_SPLIT_ROWS
                                                   : NORM_ROW_IN_SHARED;
}

int weft_norm(const char *op, int rung, const normal &n, cudaStream_t stream) {
    switch (choose(rung, n.rows, n.cols, 1, !!n.weight + !!n.bias)) {
    case NORM_THREAD_A_ROW: return norm_thread_a_row(n, stream);
    case NORM_WARP_A_ROW: return norm_warp_a_row(n, stream);
    case NORM_BLOCK_A_ROW: return norm_block_a_row(n, stream);
    case NORM_ROW_IN_SHARED: return norm_row_in_shared(n, stream);
    case NORM_SPLIT_ROWS: return norm_split_rows(op, n, stream);
    case NORM_ROW_IN_REGISTERS: return norm_row_in_registers(n, stream);
    case NORM_CLUSTER_A_ROW: return norm_cluster_a_row(op, n, stream);
    }
    return WEFT_OK;
}

static int differentiate_rows(const char *op, int rung,
                              const normal_backward &n, cudaStream_t stream) {
    switch (choose(rung, n.rows, n.cols, 2, 0)) {
    case NORM_THREAD_A_ROW: return norm_thread_a_row_backward(n, stream);
    case NORM_WARP_A_ROW: return norm_warp_a_row_backward(n, stream);
    case NORM_BLOCK_A_ROW: return norm_block_a_row_backward(n, stream);
    case NORM_ROW_IN_SHARED: return norm_row_in_shared_backward(n, stream);
    case NORM_SPLIT_ROWS: return norm_split_rows_backward(op, n, stream);
    case NORM_ROW_IN_REGISTERS:
        return norm_row_in_registers_backward(n, stream);
    case NORM_CLUSTER_A_ROW: return norm_cluster_a_row_backward(op, n, stream);
    }
    return WEFT_OK;
}

int weft_norm_backward(const char *op, int rung, const normal_backward &n,
                       cudaStream_t stream) {
    if (n.dx || n.dresidual) WEFT_TRY(differentiate_rows(op, rung, n, stream));
    return norm_weights(op, n, stream);
}
