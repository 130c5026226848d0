/* device_matrix.h -- small matrices that the lanes of a warp hold together: the
 * basis of mma.h.
 *
 * A fragment of an operand is spread over the lanes in the order of memory,
 * without gaps. Lane 0 has the first elements, and lane 1 has the next ones. If
 * the fragment has room for more elements than the matrix has, the elements
 * repeat. So a lane loads runs of up to 16 bytes. An accumulator is cut into
 * tiles of 8 x 8, of which each lane has two neighbours in a row. A GPU uses
 * another, unspecified layout, so a program may only apply one operation to all
 * elements of a fragment. */
#ifndef SIMT_DEVICE_MATRIX_H
#define SIMT_DEVICE_MATRIX_H
#include "simt.h"

namespace simt {

/* The sizes of a product and the layout of its operands' fragments. */
struct MatrixShape {
    int m, n, k;
    int a_each, b_each; /* number of elements of a and of b per lane */
    bool a_by_rows, b_by_rows;
};

/* A lane's part of a and b, as floats, which represent every element of these
 * types exactly. */
struct MatrixOffer {
    float a[16], b[16];
};

/* Return the row or the column of element i of this lane's accumulator, which
 * has `rows` rows. */
SIMT_INLINE int accumulator_row(int i, int rows) {
    return (int)lane() / 4 + i / 2 % (rows / 8) * 8;
}
SIMT_INLINE int accumulator_col(int i, int rows) {
    return (int)lane() % 4 * 2 + i % 2 + i / 2 / (rows / 8) * 8;
}

/* A type for the `bytes` bytes that a lane moves at a time. */
template <int bytes> struct MatrixRun;
template <> struct MatrixRun<16> {
    typedef long long type __attribute__((vector_size(16), may_alias));
};
template <> struct MatrixRun<8> {
    typedef long long __attribute__((may_alias)) type;
};
template <> struct MatrixRun<4> {
    typedef int __attribute__((may_alias)) type;
};
template <int bytes> SIMT_INLINE void move_run(void *to, const void *from) {
    typedef typename MatrixRun<bytes>::type Run;
    *(Run *)to = *(const Run *)from;
}

#pragma GCC visibility push(default)

/* End the launch with a fault if `name` receives arguments that no GPU accepts.
 * The address must be a multiple of 32 bytes. The distance between rows (or
 * columns), `ldm` elements of `size` bytes, must be a multiple of 16
 * bytes. */
void check_matrix(const char *name, const void *at, unsigned ldm,
                  unsigned size);
/* End the launch with a fault if lanes are missing or pass different addresses
 * or strides. `here`: the lanes that have arrived; `same`: the lanes with lane
 * 0's arguments. */
void check_matrix_lanes(const char *name, unsigned here, unsigned same);

/* Offer this lane's values to the other lanes, until all have called
 * matrix_sum(). */
void offer_matrices(const MatrixOffer *mine);
/* Return element (row,col) of c + a b, exact except for double's rounding;
 * `sum` is the element of c. */
double matrix_sum(const MatrixShape &shape, int row, int col, double sum);

#pragma GCC visibility pop

/* Wait for all lanes of the warp, which must have the same arguments. This is
 * inlined only in the watch build, which needs the line of the call. Other
 * builds compile in half the time without inlining. */
#ifdef SIMT_CHECK
SIMT_INLINE
#else
inline
#endif
void meet_for_matrix(const char *name, const void *at, unsigned ldm) {
    const uint64_t mine = (uint64_t)at ^ (uint64_t)ldm << 48;
    const uint64_t first = shuffle(0xffffffffu, mine, 0);
    const unsigned same = __ballot_sync(0xffffffffu, mine == first);
    if (SIMT_UNLIKELY(same != 0xffffffffu))
        check_matrix_lanes(name, __ballot_sync(0xffffffffu, 1), same);
}

} // namespace simt
#endif
