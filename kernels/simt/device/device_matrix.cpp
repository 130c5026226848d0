/* device_matrix.cpp -- products of a warp's matrices, and checks of their
 * use. */
#include "device_matrix.h"

#include "../runtime/runtime.h"

namespace simt {

/* The values that the lanes of the running block offer each other. The block's
 * threads take turns on one CPU thread. */
static thread_local const MatrixOffer *offers[MAX_THREADS];

void offer_matrices(const MatrixOffer *mine) {
    offers[here()->thread.linear] = mine;
}

double matrix_sum(const MatrixShape &shape, int row, int col, double sum) {
    const unsigned thread = here()->thread.linear;
    const MatrixOffer *const *warp = offers + thread / WARP * WARP;
    for (int i = 0; i < shape.k; i++) {
        const int a = shape.a_by_rows ? row * shape.k + i : i * shape.m + row;
        const int b = shape.b_by_rows ? i * shape.n + col : col * shape.k + i;
        sum += (double)warp[a / shape.a_each]->a[a % shape.a_each] *
               (double)warp[b / shape.b_each]->b[b % shape.b_each];
    }
    return sum;
}

void check_matrix(const char *name, const void *at, unsigned ldm,
                  unsigned size) {
    Worker *worker = this_worker;
    if ((uintptr_t)at % 32) {
        simt_fault *fault = note_fault(
            worker, here(), SIMT_FAULT_ADDRESS, cudaErrorMisalignedAddress,
            "misaligned address %p in wmma::%s(): want a multiple "
            "of 32",
            at, name);
        if (fault) fault->address = (uintptr_t)at;
    } else if (ldm % (16 / size)) {
        note_fault(worker, here(), SIMT_FAULT_TRAP, cudaErrorLaunchFailure,
                   "ldm = %u in wmma::%s(): want a multiple of %u elements, "
                   "which are 16 bytes",
                   ldm, name, 16 / size);
    } else {
        return;
    }
    abandon(worker);
}

void check_matrix_lanes(const char *name, unsigned here_, unsigned same) {
    Worker *worker = this_worker;
    if (here_ != 0xffffffffu)
        note_fault(worker, here(), SIMT_FAULT_TRAP, cudaErrorLaunchFailure,
                   "wmma::%s() needs all 32 lanes of a warp, but %d arrived",
                   name, __builtin_popcount(here_));
    else
        note_fault(worker, here(), SIMT_FAULT_TRAP, cudaErrorLaunchFailure,
                   "wmma::%s() needs the same address and ldm from all lanes "
                   "of a warp, but lane %d differs from lane 0",
                   name, __builtin_ctz(~same));
    abandon(worker);
}

} // namespace simt
