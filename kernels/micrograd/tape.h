/* tape.h -- an entry of the tape, and what a rung implements for each entry.
 *
 * tape.cu owns the entries and their memory, and walks the array of entries.
 * kernels.cu computes an entry with a kernel on the target, and
 * reference/tape.c with plain C. Matrix products and updates are the lab's ops
 * in both. */
#ifndef WEFT_TAPE_H
#define WEFT_TAPE_H
#include "../weft.h"
#ifdef __cplusplus
extern "C" {
#endif

/* One entry: a tensor, or the result of an operation. All pointers are to the
 * target's memory. */
struct tape_entry {
    int64_t id;
    int op;         /* enum weft_tape_op */
    int rows, cols; /* the shape of value and grad */
    int a, b;       /* indices of the operands' entries; -1: none */
    int reached;    /* whether the loss of the backward pass depends on it */
    float *value;
    float *grad;     /* NULL: nothing before this entry needs a gradient */
    int32_t *target; /* (rows of a), only for WEFT_TAPE_NLL */
};

/* The functions of a rung. a and b are the entries of y's operands; b is NULL
 * if the operation has only one. */
struct tape_impl {
    /* Compute y->value from a->value and b->value. */
    int (*forward)(const struct tape_entry *y, const struct tape_entry *a,
                   const struct tape_entry *b, weft_stream stream);
    /* Add the shares of y->grad to a->grad and to b->grad. Skip those that are
     * NULL; both may be the same array. */
    int (*backward)(const struct tape_entry *y, const struct tape_entry *a,
                    const struct tape_entry *b, weft_stream stream);
};

extern const struct tape_impl tape_kernels;   /* kernels.cu */
extern const struct tape_impl tape_reference; /* reference/tape.c */

#ifdef __cplusplus
}
#endif
#endif
