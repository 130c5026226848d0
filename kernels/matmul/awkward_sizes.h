/* awkward_sizes.h -- code shared by the rungs for products that do not suit
 * large tiles: c has few columns (12_narrow.cu), few rows (12_short.cu), or few
 * of both (12_split_k.cu).
 *
 * If c has too few blocks for all multiprocessors, k is cut into parts. Each
 * part stores its sums in the scratch memory as a separate matrix. A second
 * kernel (partials.cu) adds them, always in the same order. */
#ifndef WEFT_MATMUL_AWKWARD_H
#define WEFT_MATMUL_AWKWARD_H
#include "common/ptx.cuh"
#include "matmul.h"

#include <string.h>

/* How k is cut: part i is [i * depth, (i + 1) * depth), and the last part ends
 * at k. */
struct k_parts {
    int parts, depth;
};

/* Cut q's k into enough parts for about `wanted` blocks of a kernel that
 * launches `blocks` per part. The depth of a part is a multiple of `step`, at
 * least `least`. */
struct k_parts matmul_k_parts(const struct product *q, double blocks,
                              double wanted, int step, int least);

/* Return the bytes of scratch memory for `parts` parts of c, or 0 for a single
 * part. */
size_t matmul_partials_bytes(const struct product *q, int parts);

/* Return the product that the kernel receives for one part of q. With more than
 * one part, the kernel stores plain sums in the scratch memory. *step_part
 * receives the number of elements from part to part. */
struct product matmul_part_of(const struct product *q, int parts,
                              size_t *step_part);

/* Compute c = finish(the sum of the parts), or do nothing for one part. Returns
 * a weft_status. */
int matmul_add_partials(const struct product *q, int parts,
                        cudaStream_t stream);

/* Return the number of the current device's multiprocessors. */
int matmul_multiprocessors(void);

/* Estimate the product's time in microseconds for each of the three rungs, from
 * rates measured on an H200 and this device's number of multiprocessors.
 * 40_tuned.cu selects a rung by these times. */
template <typename T> double matmul_narrow_us(const struct product *q);
template <typename T> double matmul_short_us(const struct product *q);
double matmul_split_k_us(const struct product *q);

/* Estimate the time of rung pipeline in the same way, without copies of a and
 * b. */
double matmul_pipeline_us(const struct product *q);

/* ---- on its side: c^T = b^T @ a^T ---------------------------------------- */

/* Return q with its operands swapped; the result has n rows and m columns. If a
 * is transposed, a narrow product becomes a short one with b in the right
 * layout, and vice versa. So both kernels have a flag that makes them store c
 * transposed, which avoids copies of large operands. */
static inline struct product matmul_on_its_side(const struct product *q) {
    struct product side = *q;
    side.a = q->b, side.b = q->a;
    side.m = q->n, side.n = q->m;
    side.trans_a = !q->trans_b, side.trans_b = !q->trans_a;
    side.extras.step_a = q->extras.step_b;
    side.extras.step_b = q->extras.step_a;
    side.extras.pitch_a = q->extras.pitch_b;
    side.extras.pitch_b = q->extras.pitch_a;
    return side;
}

/* Compute the product with the kernel of 12_narrow.cu, if a is not
 * transposed, or of 12_short.cu, if b is not. With `on_side`, store c
 * transposed. The other two functions return the bytes of scratch
 * memory needed. T is the type of a and b: float, __half or
 * __nv_bfloat16. */
template <typename T>
int matmul_narrow_run(const struct product *q, int on_side,
                      cudaStream_t stream);
template <typename T>
int matmul_short_run(const struct product *q, int on_side, cudaStream_t stream);
template <typename T> size_t matmul_narrow_scratch(const struct product *q);
template <typename T> size_t matmul_short_scratch(const struct product *q);

/* Return whether one load can fetch `each` numbers at the start of every row of
 * `along` numbers, in every matrix. */
template <typename T>
static inline int has_vectors(const void *array, size_t pitch, size_t step,
                              int along, int batch, int each) {
    return (size_t)array % (each * sizeof(T)) == 0 && pitch % each == 0 &&
           along % each == 0 && (batch == 1 || step % each == 0);
}

/* Launch kernel(c, a, b, m, n, k, depth, step_part, flags..., extras) for all
 * parts of k, then add up the parts. With `on_side` c is stored transposed. */
template <class... P, class... A>
static int launch_parts(const char *name, void (*kernel)(P...), dim3 grid,
                        int threads, const struct product *q,
                        struct k_parts cut, int on_side, cudaStream_t stream,
                        A... flags) {
    size_t step_part;
    const struct product part = matmul_part_of(q, cut.parts, &step_part);
    WEFT_TRY(launch_kernel({name, grid, dim3((unsigned)threads), 0, stream, 1},
                           kernel, part.c, q->a, q->b, q->m, q->n, q->k,
                           cut.depth, step_part, flags..., part.extras));
    const struct product whole = on_side ? matmul_on_its_side(q) : *q;
    return matmul_add_partials(&whole, cut.parts, stream);
}

/* ---- in a kernel --------------------------------------------------------- */

/* COUNT numbers of a row, in registers, in the order of memory. */
template <typename T, int COUNT> struct numbers {
    T at[COUNT];

    /* Initialise with zeros, which add nothing to a sum of products. */
    __device__ __forceinline__ numbers() {
#pragma unroll
        for (int i = 0; i < COUNT; i++) at[i] = T(0.0f);
    }
    /* Load the numbers with one instruction of 8 or 16 bytes. */
    __device__ __forceinline__ void load(const T *from) {
        if constexpr (sizeof(at) == 16) {
            const float4 bits = load16_ahead((const float *)from);
            memcpy(at, &bits, sizeof(at));
        } else {
            const float2 bits = *(const float2 *)from;
            memcpy(at, &bits, sizeof(at));
        }
    }
};

/* Load COUNT numbers of one k that are `apart` from each other; numbers at or
 * past `there` are zeros. All loads start before the first is used. */
template <int COUNT, typename T>
static __device__ __forceinline__ void
load_across(float (&to)[COUNT], const T *from, int there, size_t apart) {
#pragma unroll
    for (int i = 0; i < COUNT; i++)
        to[i] = i < there ? (float)from[i * apart] : 0.0f;
}

/* Store element (row,col) of the kernel's result (m,n), which is c or its
 * transpose. */
static __device__ __forceinline__ void
store_either_way(float *c, int m, int n, size_t row, size_t col, float sum,
                 int on_side, const struct extras &x) {
    if (on_side)
        store(c, m, col, row, sum, x);
    else
        store(c, n, row, col, sum, x);
}

#endif
