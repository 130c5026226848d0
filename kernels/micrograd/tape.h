/* tape.h -- the tape, its entries, and a rung's functions for each entry.
 *
 * tape.cu appends entries and walks their array. memory.cu owns the memory.
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
    int mark;       /* backward: the loss depends on it; reset: it stays */
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

/* An array on the target that belongs to no entry. */
struct tape_buffer {
    void *data;
    size_t bytes;
};

struct weft_tape {
    const struct tape_impl *impl;
    int matmul, sgd; /* the rungs of the lab's ops */
    int device;
    int has_gradients; /* whether backward() ran since the last reset */
    struct tape_entry *entries;
    int count, capacity;
    int64_t next_id;
    struct tape_buffer *pool; /* memory of freed entries */
    int pool_count, pool_capacity;
    size_t used_bytes, pool_bytes;
};

/* memory.cu */

/* Make room for one more element of `size` bytes in *array, which has `count`
 * elements and room for *capacity. */
int tape_grow(void **array, int count, int *capacity, size_t size);

/* Store in *pointer an array of `count` numbers of 4 bytes, from the pool or
 * newly allocated, and set every byte to `fill`. */
int tape_take(struct weft_tape *tape, void *pointer, size_t count, int fill,
              weft_stream stream);

/* Return an array of `count` numbers to the pool. NULL is allowed. */
void tape_give_back(struct weft_tape *tape, void *data, size_t count);

/* Return the number of elements of an entry's value. */
size_t tape_elements(const struct tape_entry *entry);

/* Return an entry's arrays to the pool. Its operands must still be entries. */
void tape_release(struct weft_tape *tape, const struct tape_entry *entry);

extern const struct tape_impl tape_kernels;   /* kernels.cu */
extern const struct tape_impl tape_reference; /* reference/tape.c */

#ifdef __cplusplus
}
#endif
#endif
