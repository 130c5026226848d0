/* cub.c -- a reduction by CUB with an operator of your own, without nvcc.
 * CUB is a library of templates in C++, but cuda-cccl contains a library of C
 * functions that instantiate them. cccl_device_reduce_build() compiles CUB and
 * the operator's text with NVRTC. The interface is experimental: its structs
 * are passed by value and grow with each release, so vendor.py requires 1.0.2.
 * Source: https://github.com/NVIDIA/cccl, c/parallel/include/cccl/c */
#include <stdlib.h>

#include "vendor.h"

/* cdef: ours */
struct reduction { /* out (1) = the reduction of in (n), float32 */
    float *out;
    const float *in;
    uint64_t n;
    const char *code; /* defines void combine(void *a, void *b, void *out) */
    size_t code_bytes;
    float first;                /* the operator's neutral element */
    int major, minor;           /* the device's compute capability */
    const char *cccl, *toolkit; /* "-I" and the folders of the headers */
    void *workspace;
    size_t bytes;
};
int cub_reduce(void **plan, const struct reduction *r);
/* cdef: ... to here. */

// clang-format off
struct type { size_t bytes, alignment; int kind; };
struct op { int kind; const char *name, *code; size_t code_bytes; int code_kind; size_t bytes, alignment;
            void *state, *extra, *sizes; size_t count; void *kinds; };
struct iterator { size_t bytes, alignment; int kind; struct op advance, dereference; struct type type;
                  void *state, *host_advance; };
struct value { struct type type; const void *state; };
struct build { int cc; void *parts[8]; int determinism; void *policy; };
int cccl_device_reduce_build(struct build *, struct iterator, struct iterator,
                             struct op, struct value, int determinism, int, int,
                             const char *, const char *, const char *,
                             const char *);
int cccl_device_reduce(struct build, void *, size_t *, struct iterator,
                       struct iterator, uint64_t, struct op, struct value,
                       void *stream);

// clang-format on

int cub_reduce(void **plan, const struct reduction *r) {
    const struct type number = {4, 4, 9}; /* float32 */
    const struct op op = {0, "combine", r->code, r->code_bytes, 1, 0, 1, 0, 0,
                          0, 0,         0};
    const struct op none = {0, "", "", 0, 0, 0, 1, 0, 0, 0, 0, 0};
    const struct value first = {number, &r->first};
    struct iterator in = {0, 8, 0, none, none, number, (void *)r->in, 0};
    struct iterator out = {0, 8, 0, none, none, number, r->out, 0};
    size_t bytes = r->bytes;
    if (!*plan)
        TRY(cccl_device_reduce_build(*plan = calloc(1, sizeof(struct build)),
                                     in, out, op, first, 1, r->major, r->minor,
                                     r->cccl, r->cccl, r->cccl, r->toolkit));
    return cccl_device_reduce(*(struct build *)*plan, r->workspace, &bytes, in,
                              out, r->n, op, first, NULL);
}
