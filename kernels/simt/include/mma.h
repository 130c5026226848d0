/* mma.h -- replaces the toolkit's header under g++: nvcuda::wmma, the tensor
 * cores' products of small matrices, for half, bfloat16 and tf32.
 *
 * The sums of a product are computed in double and rounded once, when they are
 * stored in the accumulator. A tensor core is less exact, since it truncates
 * instead of rounding. */
#ifndef SIMT_MMA_H
#define SIMT_MMA_H
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "../device/device_matrix.h"

namespace nvcuda {
namespace wmma {

struct row_major;
struct col_major;
struct matrix_a;
struct matrix_b;
struct accumulator;
enum layout_t { mem_row_major, mem_col_major };
namespace precision {
struct tf32;
}

/* ---- the supported fragments -------------------------------------------- */

/* The stored type of an operand of type T, and the number of its `count`
 * elements that each lane stores. Each element of half is stored at least
 * twice. */
template <class T> struct simt_operand {
    static_assert((T *)0 != 0, "wmma: half, __nv_bfloat16 and precision::tf32 "
                               "are simulated, other types are not");
};
template <> struct simt_operand<__half> {
    typedef __half Stored;
    static constexpr int each(int) { return 16; }
    static constexpr int k = 16;
};
template <> struct simt_operand<__nv_bfloat16> {
    typedef __nv_bfloat16 Stored;
    static constexpr int each(int count) { return count / simt::WARP; }
    static constexpr int k = 16;
};
template <> struct simt_operand<precision::tf32> {
    typedef float Stored;
    static constexpr int each(int count) { return count / simt::WARP; }
    static constexpr int k = 8;
};

constexpr bool simt_has_sizes(int m, int n, int k, int wants_k) {
    return k == wants_k &&
           ((m == 16 && n == 16) ||
            (k == 16 && ((m == 32 && n == 8) || (m == 8 && n == 32))));
}

template <class T> struct simt_is_row_major;
template <> struct simt_is_row_major<row_major> {
    static constexpr bool value = true;
};
template <> struct simt_is_row_major<col_major> {
    static constexpr bool value = false;
};

template <class T, class Stored, int count> struct alignas(16) simt_fragment {
    enum { num_elements = count, num_storage_elements = count };
    typedef T element_type;
    typedef Stored storage_element_type;
    Stored x[count];
};

/* Other types (integers, double, 4 bits and 1) are not supported. */
template <class Use, int m, int n, int k, class T, class Layout = void>
class fragment;

template <int m, int n, int k, class T, class Layout>
class fragment<matrix_a, m, n, k, T, Layout>
    : public simt_fragment<T, typename simt_operand<T>::Stored,
                           simt_operand<T>::each(m *k)> {
    static_assert(simt_has_sizes(m, n, k, simt_operand<T>::k),
                  "wmma has no such sizes m, n, k for this type");
};
template <int m, int n, int k, class T, class Layout>
class fragment<matrix_b, m, n, k, T, Layout>
    : public simt_fragment<T, typename simt_operand<T>::Stored,
                           simt_operand<T>::each(k *n)> {
    static_assert(simt_has_sizes(m, n, k, simt_operand<T>::k),
                  "wmma has no such sizes m, n, k for this type");
};
template <int m, int n, int k>
class fragment<accumulator, m, n, k, float>
    : public simt_fragment<float, float, 8> {
    static_assert(simt_has_sizes(m, n, k, k == 8 ? 8 : 16),
                  "wmma has no such sizes m, n, k");
};
template <int m, int n, int k>
class fragment<accumulator, m, n, k, __half>
    : public simt_fragment<__half, __half, 8> {
    static_assert(simt_has_sizes(m, n, k, 16),
                  "wmma has no such sizes m, n, k for half");
};

/* ---- loads and stores --------------------------------------------------- */

/* Load this lane's part of a matrix of `count` elements, whose rows (or
 * columns) have `length` elements and are ldm apart. */
template <int count, int length, class T, class Stored, int each>
SIMT_INLINE void simt_load(simt_fragment<T, Stored, each> &to,
                           const Stored *from, unsigned ldm) {
    constexpr int most = 16 / (int)sizeof(Stored);
    constexpr int run = each < most ? each : most;
    simt::check_matrix("load_matrix_sync", from, ldm, sizeof(Stored));
    simt::meet_for_matrix("load_matrix_sync", from, ldm);
    for (int i = 0; i < each; i += run) {
        const int at = ((int)simt::lane() * each + i) % count;
        simt::move_run<run *(int)sizeof(Stored)>(
            to.x + i, from + (size_t)(at / length) * ldm + at % length);
    }
}

template <int m, int n, int k, class T, class Layout>
SIMT_INLINE void load_matrix_sync(fragment<matrix_a, m, n, k, T, Layout> &a,
                                  const typename simt_operand<T>::Stored *from,
                                  unsigned ldm) {
    constexpr int length = simt_is_row_major<Layout>::value ? k : m;
    simt_load<m * k, length>(a, from, ldm);
}
template <int m, int n, int k, class T, class Layout>
SIMT_INLINE void load_matrix_sync(fragment<matrix_b, m, n, k, T, Layout> &b,
                                  const typename simt_operand<T>::Stored *from,
                                  unsigned ldm) {
    constexpr int length = simt_is_row_major<Layout>::value ? n : k;
    simt_load<k * n, length>(b, from, ldm);
}

/* Call visit(i, offset) for this lane's elements of an accumulator of m rows.
 * Element i is `offset` elements from the start; by rows, element i + 1 follows
 * it. */
template <int m, class Visit>
SIMT_INLINE void simt_visit(unsigned ldm, layout_t layout, const Visit &visit) {
    for (int i = 0; i < 8; i += layout == mem_row_major ? 2 : 1) {
        const size_t row = (size_t)simt::accumulator_row(i, m);
        const size_t col = (size_t)simt::accumulator_col(i, m);
        visit(i, layout == mem_row_major ? row * ldm + col : col * ldm + row);
    }
}

template <int m, int n, int k, class T>
SIMT_INLINE void load_matrix_sync(fragment<accumulator, m, n, k, T> &c,
                                  const T *from, unsigned ldm,
                                  layout_t layout) {
    simt::check_matrix("load_matrix_sync", from, ldm, sizeof(T));
    simt::meet_for_matrix("load_matrix_sync", from, ldm);
    simt_visit<m>(ldm, layout, [&](int i, size_t at) {
        if (layout == mem_row_major)
            simt::move_run<2 * sizeof(T)>(c.x + i, from + at);
        else
            c.x[i] = from[at];
    });
}

template <int m, int n, int k, class T>
SIMT_INLINE void store_matrix_sync(T *to,
                                   const fragment<accumulator, m, n, k, T> &c,
                                   unsigned ldm, layout_t layout) {
    simt::check_matrix("store_matrix_sync", to, ldm, sizeof(T));
    simt::meet_for_matrix("store_matrix_sync", to, ldm);
    simt_visit<m>(ldm, layout, [&](int i, size_t at) {
        if (layout == mem_row_major)
            simt::move_run<2 * sizeof(T)>(to + at, c.x + i);
        else
            to[at] = c.x[i];
    });
}

template <class Use, int m, int n, int k, class T, class Layout>
SIMT_INLINE void fill_fragment(
    fragment<Use, m, n, k, T, Layout> &fragment,
    const typename wmma::fragment<Use, m, n, k, T, Layout>::storage_element_type
        &value) {
    for (auto &element : fragment.x) element = value;
}

/* ---- products ----------------------------------------------------------- */

/* Return x rounded to tf32, as required for elements of precision::tf32. */
SIMT_INLINE float __float_to_tf32(float x) {
    if (x != x) return x;
    return __uint_as_float((__float_as_uint(x) + 0x1000u) & 0xffffe000u);
}

/* Return the value that a tensor core reads for an element. For tf32, the low
 * bits are cut off. */
template <class T, class Stored> SIMT_INLINE float simt_read(Stored x) {
    if (sizeof x < 4) return (float)x;
    return __uint_as_float(__float_as_uint((float)x) & 0xffffe000u);
}

/* Compute d = a b + c. */
template <int m, int n, int k, class T, class A, class B, class D, class C>
SIMT_INLINE void mma_sync(fragment<accumulator, m, n, k, D> &d,
                          const fragment<matrix_a, m, n, k, T, A> &a,
                          const fragment<matrix_b, m, n, k, T, B> &b,
                          const fragment<accumulator, m, n, k, C> &c) {
    static const simt::MatrixShape shape = {m,
                                            n,
                                            k,
                                            a.num_elements,
                                            b.num_elements,
                                            simt_is_row_major<A>::value,
                                            simt_is_row_major<B>::value};
    simt::MatrixOffer mine;
    for (int i = 0; i < a.num_elements; i++) mine.a[i] = simt_read<T>(a.x[i]);
    for (int i = 0; i < b.num_elements; i++) mine.b[i] = simt_read<T>(b.x[i]);
    simt::offer_matrices(&mine);
    simt::meet_for_matrix("mma_sync", 0, 0);
    for (int i = 0; i < 8; i++)
        d.x[i] = D(simt::matrix_sum(shape, simt::accumulator_row(i, m),
                                    simt::accumulator_col(i, m),
                                    (double)(float)c.x[i]));
    __syncwarp(); // `mine` has been read
}

} // namespace wmma
} // namespace nvcuda
#endif
