/* awkward.h -- products for which a big tile is wrong, and what their rungs
 * share: c has few columns (12_narrow.cu), few rows (12_short.cu), or few of
 * both (12_split_k.cu).
 *
 * Where c has too few blocks for all multiprocessors, k is cut into parts: each
 * part's sums go to the scratch memory as a matrix of its own, and a second
 * kernel (partials.cu) adds them, always in the same order. */
#ifndef WEFT_MATMUL_AWKWARD_H
#define WEFT_MATMUL_AWKWARD_H
#include "matmul.h"

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

#endif
