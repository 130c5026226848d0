/* awkward_sizes.h -- products for which a big tile is wrong, and what their
 * rungs share: c has few columns (12_narrow.cu), few rows (12_short.cu), or few
 * of both (12_split_k.cu).
 *
 * Where c has too few blocks for all multiprocessors, k is cut into parts: each
 * part's sums go to the scratch memory as a matrix of its own, and a second
 * kernel (partials.cu) adds them, always in the same order. */
#ifndef WEFT_MATMUL_AWKWARD_H
#define WEFT_MATMUL_AWKWARD_H
#include "common/ptx.cuh"
#include "matmul.h"

#include <string.h>

/* How k is cut: part i is [i * depth, (i + 1) * depth), the last one to k. */
struct k_parts {
    int parts, depth;
};

/* Cut q's k for a kernel of `blocks` blocks a part, so that there are about
 * `wanted` blocks: into whole steps, at least `least` of k a part. */
struct k_parts matmul_k_parts(const struct product *q, double blocks,
                              double wanted, int step, int least);

/* Bytes of scratch memory for that many parts of c; 0 for one. */
size_t matmul_partials_bytes(const struct product *q, int parts);

/* q as the kernel of a part shall see it: with more than one it stores plain
 * sums to the scratch memory; *step_part: elements from part to part. */
struct product matmul_part_of(const struct product *q, int parts,
                              size_t *step_part);

/* c = finish(the parts' sums); nothing where there is one part. */
int matmul_add_partials(const struct product *q, int parts,
                        cudaStream_t stream);

/* The current device's multiprocessors. */
int matmul_multiprocessors(void);

/* About how many microseconds the product takes by each of the three rungs,
 * from rates measured on an H200 and this device's multiprocessors: for who
 * picks one (40_tuned.cu). */
template <typename T> double matmul_narrow_us(const struct product *q);
template <typename T> double matmul_short_us(const struct product *q);
double matmul_split_k_us(const struct product *q);

/* The same of rung pipeline, where a and b lie as it wants them. */
double matmul_pipeline_us(const struct product *q);

/* ---- on its side: c^T = b^T @ a^T ---------------------------------------- */

/* q with its operands swapped: n rows, m columns. Where a lies transposed, a
 * narrow product on its side is a short one whose b lies as it should, and the
 * other way round; so each of the two kernels has a flag that says that c is
 * the transpose of what it makes, and copies of large operands are spared. */
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

/* The product by the kernel of 12_narrow.cu, whose a must lie as it should, or
 * of 12_short.cu, whose b must; with `on_side` c is stored transposed. And the
 * scratch memory that they want. T: what a and b hold, float, __half or
 * __nv_bfloat16. */
template <typename T>
int matmul_narrow_run(const struct product *q, int on_side,
                      cudaStream_t stream);
template <typename T>
int matmul_short_run(const struct product *q, int on_side, cudaStream_t stream);
template <typename T> size_t matmul_narrow_scratch(const struct product *q);
template <typename T> size_t matmul_short_scratch(const struct product *q);

/* Whether `each` numbers may be loaded at once wherever a row of a matrix
 * starts, `along` numbers long. */
template <typename T>
static inline int has_vectors(const void *array, size_t pitch, size_t step,
                              int along, int batch, int each) {
    return (size_t)array % (each * sizeof(T)) == 0 && pitch % each == 0 &&
           along % each == 0 && (batch == 1 || step % each == 0);
}

/* Launch kernel(c, a, b, m, n, k, depth, step_part, flags..., extras) for all
 * parts of k, then add them up; with `on_side` c is stored transposed. */
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

/* Some numbers of a row, in registers as they lie in memory. */
template <typename T, int COUNT> struct numbers {
    T at[COUNT];

    /* Zeros, which add nothing to a sum of products. */
    __device__ __forceinline__ numbers() {
#pragma unroll
        for (int i = 0; i < COUNT; i++) at[i] = T(0.0f);
    }
    /* By one load of 8 or 16 bytes. */
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

/* COUNT numbers of one k, those from the `there`-th on zeros, `apart` from each
 * other: all loads are under way before one is waited for. */
template <int COUNT, typename T>
static __device__ __forceinline__ void
load_across(float (&to)[COUNT], const T *from, int there, size_t apart) {
#pragma unroll
    for (int i = 0; i < COUNT; i++)
        to[i] = i < there ? (float)from[i * apart] : 0.0f;
}

/* store() of element (row,col) of what the kernel makes (m,n). */
static __device__ __forceinline__ void
store_either_way(float *c, int m, int n, size_t row, size_t col, float sum,
                 int on_side, const struct extras &x) {
    if (on_side)
        store(c, m, col, row, sum, x);
    else
        store(c, n, row, col, sum, x);
}

#endif
