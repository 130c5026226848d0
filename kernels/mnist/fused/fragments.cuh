/* fragments.cuh -- the tensor cores' operands from shared memory, for any
 * precision: the type selects the instructions of ptx.cuh. A step of k is 32
 * bytes, 8 numbers of tf32 or 16 of 16 bits, so one loop serves all types. */
#ifndef WEFT_FRAGMENTS_CUH
#define WEFT_FRAGMENTS_CUH
#include "element.cuh"

template <class T> struct k_step {
    enum { K = 32 / (int)sizeof(T), HALF = K / 2 };
};

/* Four neighbouring numbers in registers, as stored in memory. */
template <class T> struct quad {
    uint2 bits;
};
template <> struct quad<float> {
    float4 bits;
};
template <class T>
static __device__ __forceinline__ void quad_load(struct quad<T> *to,
                                                 const T *from) {
    *to = *(const struct quad<T> *)from;
}
template <class T>
static __device__ __forceinline__ void quad_widen(float v[4],
                                                  const struct quad<T> &from) {
    load4(v, (const T *)&from);
}

/* Return this lane's row or column in a warp of 4 x 8 lanes, for multiply-adds
 * from shared memory. A load of 16 bytes per lane serves 16 lanes at a time if
 * neighbours (lane ^ 1 or lane ^ 2, the same for all) read the same bytes.
 * Otherwise, it serves 8 lanes. So neighbours share their column, and every
 * second pair shares its row. */
static __device__ __forceinline__ int lane_row() {
    const int lane = threadIdx.x % 32;
    return lane % 2 + lane / 16 * 2;
}
static __device__ __forceinline__ int lane_column() {
    return threadIdx.x % 32 / 2 % 8;
}

/* Load the fragment `a` (16,K) from shared memory, where row m begins at from +
 * m * pitch. There are no bank conflicts if the starts of eight successive
 * rows, modulo 128 bytes, are in eight different groups of 16 bytes. */
template <class T>
static __device__ __forceinline__ void fragment_rows(uint32_t a[4],
                                                     const T *from, int pitch) {
    const int lane = threadIdx.x % 32;
    ldmatrix_x4(a, from + lane % 16 * pitch + lane / 16 * k_step<T>::HALF);
}

/* Load two neighbouring fragments `b` (K,8), each of which is the transpose of
 * 8 rows. Column n begins at from + n * pitch. b[0..2) is the first fragment,
 * and b[2..4) is the second. */
template <class T>
static __device__ __forceinline__ void
fragment_columns(uint32_t b[4], const T *from, int pitch) {
    const int lane = threadIdx.x % 32;
    ldmatrix_x4(b, from + (lane % 8 + lane / 16 * 8) * pitch +
                       lane / 8 % 2 * k_step<T>::HALF);
}

/* Load the fragment `a` (16,K) if its columns are rows of shared memory: column
 * k begins at from + k * pitch. For tf32, there is no instruction for that, so
 * four loads of one number are necessary. They are free of bank conflicts if
 * pitch is 8 more than a multiple of 32. */
static __device__ __forceinline__ void
fragment_rows_across(uint32_t a[4], const float *from, int pitch) {
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    from += t * pitch + g;
    a[0] = __float_as_uint(from[0]);
    a[1] = __float_as_uint(from[8]);
    a[2] = __float_as_uint(from[4 * pitch]);
    a[3] = __float_as_uint(from[4 * pitch + 8]);
}
template <class T>
static __device__ __forceinline__ void
fragment_rows_across(uint32_t a[4], const T *from, int pitch) {
    const int lane = threadIdx.x % 32;
    ldmatrix_x4_trans(a, from + (lane % 8 + lane / 16 * 8) * pitch +
                             lane / 8 % 2 * 8);
}

/* Load two neighbouring fragments `b` (K,8) without transposing them: row k is
 * at from + k * pitch. */
static __device__ __forceinline__ void
fragment_columns_across(uint32_t b[4], const float *from, int pitch) {
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    from += t * pitch + g;
    b[0] = __float_as_uint(from[0]);
    b[1] = __float_as_uint(from[4 * pitch]);
    b[2] = __float_as_uint(from[8]);
    b[3] = __float_as_uint(from[4 * pitch + 8]);
}
template <class T>
static __device__ __forceinline__ void
fragment_columns_across(uint32_t b[4], const T *from, int pitch) {
    const int lane = threadIdx.x % 32;
    ldmatrix_x4_trans(b, from + lane % 16 * pitch + lane / 16 * 8);
}

#endif
