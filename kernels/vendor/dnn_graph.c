/* dnn_graph.c -- a 3x3 convolution by cuDNN's graph API: describe the layer,
 * let a heuristic propose engines, build a plan, and execute it.
 *
 * Manual: https://docs.nvidia.com/deeplearning/cudnn/backend/latest/ */
#include <stdlib.h>

#include "vendor.h"
// clang-format off
/* cdef: cuDNN's declarations, and ours */
const char *cudnnGetErrorString(int status);
int cudnnCreate(void **handle), cudnnBackendExecute(void *handle, void *plan, void *pack);
int cudnnBackendCreateDescriptor(int kind, void **d), cudnnBackendFinalize(void *d), cudnnBackendDestroyDescriptor(void *d);
int cudnnBackendSetAttribute(void *d, int name, int type, int64_t count, const void *values);
int cudnnBackendGetAttribute(void *d, int name, int type, int64_t most, int64_t *count, void *values);
/* y (n,oc,h,w) = x (n,ic,h,w) convolved with weight (oc,ic,3,3), with a border of zeros, float32 on the device. */
struct convolution { float *y; const float *x, *weight; int64_t n, ic, h, w, oc; void *workspace; int64_t bytes; };
int dnn_convolve(void **plan, const struct convolution *c);
/* cdef: ... to here. */
enum { DATA = 1, INT = 3, REAL, POINTER = 6, MODE, HEURISTIC, DESC = 15, MOST = 8, NOT_SUPPORTED = 3000 };
struct attribute { int name, type; int64_t count; const void *values; }; /* names: enumerators of cudnn_graph.h */
struct plan { void *handle, *x, *w, *y, *conv, *op, *graph, *heuristic, *engines[MOST], *plan, *pack; };
/* Create a descriptor, set its attributes, and finalize it. */
static int make(void **d, int kind, const struct attribute *a) {
    TRY(cudnnBackendCreateDescriptor(kind, d));
    for (; a->count; a++) TRY(cudnnBackendSetAttribute(*d, a->name, a->type, a->count, a->values));
    return cudnnBackendFinalize(*d);
}
#define MAKE(d, kind, ...) make(&(d), kind, (struct attribute[]){__VA_ARGS__, {0}})
static int describe(void **t, int64_t id, int64_t n, int64_t c, int64_t h, int64_t w) {
    const int64_t sizes[] = {n, c, h, w}, steps[] = {c * h * w, h * w, w, 1}, align = 16, fp32 = 0;
    return MAKE(*t, 17, {901, DATA, 1, &fp32}, {902, INT, 4, sizes}, {903, INT, 4, steps}, {906, INT, 1, &id}, {900, INT, 1, &align});
}
static int create(struct plan *l, const struct convolution *c) {
    const int64_t fp32 = 0, cross_correlation = 1, mode_a = 3, two = 2, ones[] = {1, 1}, ids[] = {'x', 'w', 'y'};
    const void *arrays[] = {c->x, c->weight, c->y}; /* in the order of ids */
    const float scales[] = {1, 0}; /* alpha and beta */
    int64_t count = 0, bytes, some;
    TRY(cudnnCreate(&l->handle));
    TRY(describe(&l->w, 'w', c->oc, c->ic, 3, 3));
    TRY(describe(&l->x, 'x', c->n, c->ic, c->h, c->w));
    TRY(describe(&l->y, 'y', c->n, c->oc, c->h, c->w));
    TRY(MAKE(l->conv, 1, {100, DATA, 1, &fp32}, {101, MODE, 1, &cross_correlation}, {106, INT, 1, &two},
             {102, INT, 2, ones}, {103, INT, 2, ones}, {104, INT, 2, ones}, {105, INT, 2, ones}));
    TRY(MAKE(l->op, 10, {702, DESC, 1, &l->conv}, {703, DESC, 1, &l->w}, {704, DESC, 1, &l->x}, {705, DESC, 1, &l->y},
             {700, REAL, 1, scales}, {701, REAL, 1, scales + 1}));
    TRY(MAKE(l->graph, 15, {800, 0, 1, &l->handle}, {801, DESC, 1, &l->op}));
    TRY(MAKE(l->heuristic, 4, {201, DESC, 1, &l->graph}, {200, HEURISTIC, 1, &mode_a}));
    for (int i = 0; i < MOST; i++) TRY(cudnnBackendCreateDescriptor(3, &l->engines[i]));
    TRY(cudnnBackendGetAttribute(l->heuristic, 202, DESC, MOST, &count, l->engines));
    TRY(MAKE(l->pack, 16, {1000, INT, 3, ids}, {1001, POINTER, 3, arrays}, {1003, POINTER, 1, &c->workspace}));
    for (int i = 0; i < count; i++) { /* take the first engine that supports the graph */
        if (MAKE(l->plan, 5, {400, 0, 1, &l->handle}, {401, DESC, 1, &l->engines[i]})) continue;
        if (!cudnnBackendGetAttribute(l->plan, 402, INT, 1, &some, &bytes) && bytes <= c->bytes) return 0;
    }
    return NOT_SUPPORTED;
}
int dnn_convolve(void **plan, const struct convolution *c) {
    if (!*plan) TRY(create(*plan = calloc(1, sizeof(struct plan)), c));
    return cudnnBackendExecute(((struct plan *)*plan)->handle, ((struct plan *)*plan)->plan, ((struct plan *)*plan)->pack);
}
