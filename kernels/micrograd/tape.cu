/* tape.cu -- weft_tape: operations on matrices, recorded in one array.
 *
 * Each operation appends an entry: its result, and the indices of its operands.
 * An operand is always before its result, so the array is in topological order
 * without a sort. The backward pass is a loop from the loss to entry 0.
 *
 * Lesson:  notebooks/10b_micrograd.ipynb */
#include "tape.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/checks.cuh"
#include "common/internal.cuh"

WEFT_RUNGS({"micrograd", "reference", "plain C, one loop per entry", "fp32",
            WEFT_CPU, 0},
           {"micrograd", "kernels", "one launch per entry", "fp32",
            WEFT_CPU | WEFT_CUDA, 0});

enum { REFERENCE, KERNELS };

static const char *const names[] = {"tensor",      "add",    "add_row",
                                    "mul",         "matmul", "relu",
                                    "log_softmax", "sum",    "nll"};

const char *weft_tape_op_name(int op) {
    return op >= 0 && op < COUNT_OF(names) ? names[op] : NULL;
}

/* ---- entries ------------------------------------------------------------- */

/* Return the index of the entry with this id, or -1. Ids rise along the
 * array. */
static int find(const struct weft_tape *tape, int64_t id) {
    int low = 0, high = tape->count;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        if (tape->entries[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < tape->count && tape->entries[low].id == id ? low : -1;
}

/* Begin a function that uses a tape. Until it returns, its device is current
 * and Ctrl-C is watched. */
struct tape_visit {
    struct weft_watch watch;
    int outside, device;
    cudaError_t error;

    explicit tape_visit(const struct weft_tape *tape)
        : outside(0), device(tape->device) {
        error = cudaGetDevice(&outside);
        if (!error && outside != device) error = cudaSetDevice(device);
    }
    ~tape_visit() {
        if (outside != device) cudaSetDevice(outside);
    }
};

#define VISIT(tape)                                       \
    WEFT_REQUIRE(tape, "%s: the tape is NULL", __func__); \
    struct tape_visit visit_(tape);                       \
    if (visit_.error) return weft_cuda_fail(visit_.error, __func__)

/* Find the entry with this id, or fail with a message that names the
 * operation. */
#define FIND(index, tape, what, id)                                            \
    const int index = find(tape, id);                                          \
    WEFT_REQUIRE(index >= 0,                                                   \
                 "%s: tensor %lld is not on this tape, which has %d entries; " \
                 "a reset frees tensors",                                      \
                 what, (long long)(id), (tape)->count)

/* Append an entry with uninitialised values, all NaN, and with zero gradients
 * if it needs any. After a failure the tape is unchanged. */
static int append(struct weft_tape *tape, struct tape_entry entry,
                  int needs_grad, weft_stream stream) {
    WEFT_REQUIRE(tape->count < INT32_MAX / 2, "weft_tape: %d entries are full",
                 tape->count);
    WEFT_TRY(tape_grow((void **)&tape->entries, tape->count, &tape->capacity,
                       sizeof *tape->entries));
    entry.id = tape->next_id;
    const size_t count = tape_elements(&entry);
    int status = tape_take(tape, &entry.value, count, 0xff, stream);
    if (!status && needs_grad)
        status = tape_take(tape, &entry.grad, count, 0, stream);
    if (status) {
        tape_give_back(tape, entry.value, count);
        tape_give_back(tape, entry.grad, count);
        return status;
    }
    tape->entries[tape->count++] = entry;
    tape->next_id++;
    return WEFT_OK;
}

/* Remove the last entry, whose computation failed. */
static int undo(struct weft_tape *tape, int status) {
    tape_release(tape, &tape->entries[--tape->count]);
    return status;
}

int weft_tape_tensor(weft_tape *tape, int64_t *id, const float *in, int rows,
                     int cols, int needs_grad, weft_stream stream) {
    VISIT(tape);
    CHECK_SIZE(rows);
    CHECK_SIZE(cols);
    CHECK_COUNT(in, (double)rows * cols);
    CHECK_ARRAY(in);
    CHECK_ARRAY(id);
    const struct tape_entry tensor = {
        0, WEFT_TAPE_TENSOR, rows, cols, -1, -1, 0, NULL, NULL, NULL};
    WEFT_TRY(append(tape, tensor, needs_grad, stream));
    const struct tape_entry *entry = &tape->entries[tape->count - 1];
    const cudaError_t error =
        cudaMemcpyAsync(entry->value, in, tape_elements(entry) * sizeof *in,
                        cudaMemcpyHostToDevice, weft_cuda_stream(stream));
    if (error) return undo(tape, weft_cuda_fail(error, "cudaMemcpyAsync"));
    *id = entry->id;
    return WEFT_OK;
}

/* Store the shape of an operation's result in *y, or reject the shapes of its
 * operands. b is NULL if it has only one. */
static int infer_shape(struct tape_entry *y, const struct tape_entry *a,
                       const struct tape_entry *b) {
    const char *const name = names[y->op];
    y->rows = a->rows, y->cols = a->cols;
    switch (y->op) {
    case WEFT_TAPE_ADD:
    case WEFT_TAPE_MUL:
        WEFT_REQUIRE(a->rows == b->rows && a->cols == b->cols,
                     "%s: shapes (%d,%d) and (%d,%d), want equal shapes", name,
                     a->rows, a->cols, b->rows, b->cols);
        break;
    case WEFT_TAPE_ADD_ROW:
        WEFT_REQUIRE(b->rows == 1 && a->cols == b->cols,
                     "%s: shapes (%d,%d) and (%d,%d), want (rows,cols) and "
                     "(1,cols)",
                     name, a->rows, a->cols, b->rows, b->cols);
        break;
    case WEFT_TAPE_MATMUL:
        WEFT_REQUIRE(a->cols == b->rows,
                     "%s: shapes (%d,%d) and (%d,%d), want (m,k) and (k,n)",
                     name, a->rows, a->cols, b->rows, b->cols);
        y->cols = b->cols;
        WEFT_REQUIRE((double)y->rows * y->cols <= MAX_ELEMENTS,
                     "%s: shapes (%d,%d) and (%d,%d) give %.0f elements, at "
                     "most %.0f",
                     name, a->rows, a->cols, b->rows, b->cols,
                     (double)y->rows * y->cols, MAX_ELEMENTS);
        break;
    case WEFT_TAPE_SUM:
    case WEFT_TAPE_NLL: y->rows = y->cols = 1; break;
    }
    return WEFT_OK;
}

/* Compute c (m,n) = a (m,k) @ b (k,n) + beta * c. The pool receives the
 * workspace at once, since later work on the stream waits for the product. */
static int multiply(struct weft_tape *tape, float *c, const float *a,
                    const float *b, int m, int n, int k, int trans_a,
                    int trans_b, float beta, weft_stream stream) {
    struct weft_matmul_options options = {};
    options.trans_a = trans_a, options.trans_b = trans_b;
    options.alpha = 1.0f, options.beta = beta;
    size_t bytes = 0;
    WEFT_TRY(
        weft_matmul_workspace(tape->matmul, &bytes, a, b, m, n, k, &options));
    const size_t count = CEIL_DIV(bytes, 4);
    if (count)
        WEFT_TRY(tape_take(tape, &options.workspace, count, 0xff, stream));
    options.workspace_bytes = bytes;
    const int status =
        weft_matmul(tape->matmul, c, a, b, m, n, k, &options, stream);
    tape_give_back(tape, options.workspace, count);
    return status;
}

/* Check the columns in the host array `target`, and copy them to y->target. */
static int copy_targets(struct weft_tape *tape, struct tape_entry *y,
                        const int32_t *target, const struct tape_entry *a,
                        weft_stream stream) {
    for (int i = 0; i < a->rows; i++)
        WEFT_REQUIRE(target[i] >= 0 && target[i] < a->cols,
                     "nll: target[%d] = %d, want 0 to %d", i, (int)target[i],
                     a->cols - 1);
    WEFT_TRY(tape_take(tape, &y->target, a->rows, 0xff, stream));
    WEFT_CUDA_TRY(cudaMemcpyAsync(y->target, target, a->rows * sizeof *target,
                                  cudaMemcpyHostToDevice,
                                  weft_cuda_stream(stream)));
    return WEFT_OK;
}

static int compute(struct weft_tape *tape, struct tape_entry *y,
                   const int32_t *target, weft_stream stream) {
    const struct tape_entry *a = &tape->entries[y->a];
    const struct tape_entry *b = y->b < 0 ? NULL : &tape->entries[y->b];
    if (y->op == WEFT_TAPE_MATMUL)
        return multiply(tape, y->value, a->value, b->value, a->rows, b->cols,
                        a->cols, 0, 0, 0.0f, stream);
    if (target) WEFT_TRY(copy_targets(tape, y, target, a, stream));
    return tape->impl->forward(y, a, b, stream);
}

int weft_tape_record(weft_tape *tape, int64_t *id, int op, int64_t a, int64_t b,
                     const int32_t *target, weft_stream stream) {
    VISIT(tape);
    CHECK_ARRAY(id);
    WEFT_REQUIRE(op > WEFT_TAPE_TENSOR && op <= WEFT_TAPE_NLL,
                 "weft_tape_record: op = %d, want %d to %d", op, WEFT_TAPE_ADD,
                 WEFT_TAPE_NLL);
    const int two = op <= WEFT_TAPE_MATMUL;
    FIND(first, tape, names[op], a);
    FIND(second, tape, names[op], two ? b : a);
    WEFT_REQUIRE(op != WEFT_TAPE_NLL || target, "nll: target is NULL");
    const struct tape_entry *left = &tape->entries[first];
    const struct tape_entry *right = two ? &tape->entries[second] : NULL;
    struct tape_entry result = {0, op,   0,    0,   first, two ? second : -1,
                                0, NULL, NULL, NULL};
    WEFT_TRY(infer_shape(&result, left, right));
    const int needs_grad = left->grad || (right && right->grad);
    WEFT_TRY(append(tape, result, needs_grad, stream));
    struct tape_entry *y = &tape->entries[tape->count - 1];
    const int status =
        compute(tape, y, op == WEFT_TAPE_NLL ? target : NULL, stream);
    if (status) return undo(tape, status);
    *id = y->id;
    return WEFT_OK;
}

/* ---- backward ------------------------------------------------------------ */

/* Add the shares of an entry's gradient to its operands' gradients. */
static int send_back(struct weft_tape *tape, const struct tape_entry *y,
                     weft_stream stream) {
    const struct tape_entry *a = &tape->entries[y->a];
    const struct tape_entry *b = y->b < 0 ? NULL : &tape->entries[y->b];
    if (y->op != WEFT_TAPE_MATMUL) return tape->impl->backward(y, a, b, stream);
    // With a beta of 1, the product is added to the gradient.
    if (a->grad) // da (m,k) += dy (m,n) @ b (k,n)^T
        WEFT_TRY(multiply(tape, a->grad, y->grad, b->value, a->rows, a->cols,
                          b->cols, 0, 1, 1.0f, stream));
    if (b->grad) // db (k,n) += a (m,k)^T @ dy (m,n)
        WEFT_TRY(multiply(tape, b->grad, a->value, y->grad, b->rows, b->cols,
                          a->rows, 1, 0, 1.0f, stream));
    return WEFT_OK;
}

int weft_tape_backward(weft_tape *tape, int64_t loss, weft_stream stream) {
    VISIT(tape);
    FIND(last, tape, "backward", loss);
    struct tape_entry *const entries = tape->entries;
    WEFT_REQUIRE(entries[last].rows == 1 && entries[last].cols == 1,
                 "backward: the loss has shape (%d,%d), want (1,1)",
                 entries[last].rows, entries[last].cols);
    WEFT_REQUIRE(entries[last].grad,
                 "backward: tensor %lld depends on no tensor with a gradient",
                 (long long)loss);
    WEFT_REQUIRE(!tape->has_gradients,
                 "backward: called twice; gradients would be added to those of "
                 "the first call: reset the tape in between");
    tape->has_gradients = 1;
    const float one = 1.0f;
    WEFT_CUDA_TRY(cudaMemcpyAsync(entries[last].grad, &one, sizeof one,
                                  cudaMemcpyHostToDevice,
                                  weft_cuda_stream(stream)));
    for (int i = 0; i < last; i++) entries[i].mark = 0;
    entries[last].mark = 1;
    for (int i = last; i >= 0; i--) {
        const struct tape_entry *y = &entries[i];
        // An entry that the loss does not depend on has a zero gradient, which
        // times an infinity would be NaN.
        if (!y->mark || !y->grad || y->op == WEFT_TAPE_TENSOR) continue;
        WEFT_TRY(send_back(tape, y, stream));
        entries[y->a].mark = 1;
        if (y->b >= 0) entries[y->b].mark = 1;
    }
    return WEFT_OK;
}

int weft_tape_step(weft_tape *tape, float lr, weft_stream stream) {
    VISIT(tape);
    WEFT_REQUIRE(isfinite(lr), "step: lr = %g, want a finite number", lr);
    WEFT_REQUIRE(tape->has_gradients,
                 "step: there are no gradients before backward");
    for (int i = 0; i < tape->count; i++) {
        const struct tape_entry *entry = &tape->entries[i];
        if (entry->op == WEFT_TAPE_TENSOR && entry->grad)
            WEFT_TRY(weft_sgd(tape->sgd, entry->value, entry->grad,
                              tape_elements(entry), lr, stream));
    }
    return WEFT_OK;
}

int weft_tape_reset(weft_tape *tape, const int64_t *keep, int count,
                    weft_stream stream) {
    VISIT(tape);
    WEFT_REQUIRE(count >= 0, "reset: count = %d, want at least 0", count);
    WEFT_REQUIRE(keep || !count, "reset: keep is NULL");
    for (int i = 0; i < tape->count; i++) tape->entries[i].mark = 0;
    for (int i = 0; i < count; i++) {
        FIND(index, tape, "reset", keep[i]);
        WEFT_REQUIRE(tape->entries[index].op == WEFT_TAPE_TENSOR,
                     "reset: tensor %lld is the result of %s; only tensors "
                     "that were not computed can be kept",
                     (long long)keep[i], names[tape->entries[index].op]);
        tape->entries[index].mark = 1;
    }
    // Results come after their operands, so tape_release() still finds the
    // latter.
    for (int i = tape->count - 1; i >= 0; i--)
        if (!tape->entries[i].mark) tape_release(tape, &tape->entries[i]);
    int end = 0;
    for (int i = 0; i < tape->count; i++)
        if (tape->entries[i].mark) tape->entries[end++] = tape->entries[i];
    tape->count = end;
    tape->has_gradients = 0;
    for (int i = 0; i < end; i++)
        if (tape->entries[i].grad)
            WEFT_CUDA_TRY(cudaMemsetAsync(tape->entries[i].grad, 0,
                                          tape_elements(&tape->entries[i]) *
                                              sizeof(float),
                                          weft_cuda_stream(stream)));
    return WEFT_OK;
}

/* ---- reading ------------------------------------------------------------- */

int weft_tape_count(const weft_tape *tape) { return tape ? tape->count : 0; }

size_t weft_tape_bytes(const weft_tape *tape, size_t *pool) {
    if (pool) *pool = tape ? tape->pool_bytes : 0;
    return tape ? tape->used_bytes : 0;
}

int weft_tape_look(weft_tape *tape, int index, struct weft_tape_entry *entry) {
    VISIT(tape);
    CHECK_ARRAY(entry);
    WEFT_REQUIRE(index >= 0 && index < tape->count,
                 "%s: entry %d, the tape has %d", __func__, index, tape->count);
    const struct tape_entry *from = &tape->entries[index];
    entry->id = from->id;
    entry->a = from->a < 0 ? -1 : tape->entries[from->a].id;
    entry->b = from->b < 0 ? -1 : tape->entries[from->b].id;
    entry->op = from->op;
    entry->rows = from->rows;
    entry->cols = from->cols;
    entry->needs_grad = from->grad != NULL;
    return WEFT_OK;
}

int weft_tape_get(weft_tape *tape, int kind, int64_t id, float *out,
                  size_t count, weft_stream stream) {
    VISIT(tape);
    CHECK_ARRAY(out);
    WEFT_REQUIRE(kind == WEFT_TAPE_VALUE || kind == WEFT_TAPE_GRADIENT,
                 "%s: kind = %d, want 0 (value) or 1 (gradient)", __func__,
                 kind);
    FIND(index, tape, kind ? "gradient" : "value", id);
    const struct tape_entry *entry = &tape->entries[index];
    WEFT_REQUIRE(count == tape_elements(entry),
                 "%s: %zu floats for tensor %lld, which has %zu", __func__,
                 count, (long long)id, tape_elements(entry));
    WEFT_REQUIRE(kind == WEFT_TAPE_VALUE || entry->grad,
                 "gradient: tensor %lld depends on no tensor with a gradient",
                 (long long)id);
    WEFT_REQUIRE(kind == WEFT_TAPE_VALUE || tape->has_gradients,
                 "gradient: there are no gradients before backward");
    WEFT_CUDA_TRY(cudaMemcpyAsync(
        out, kind == WEFT_TAPE_VALUE ? entry->value : entry->grad,
        count * sizeof *out, cudaMemcpyDeviceToHost, weft_cuda_stream(stream)));
    return weft_sync(stream);
}

/* ---- creating and freeing ------------------------------------------------ */

/* Find the index of `rung` among the rungs of the lab's op `op`. */
static int find_rung(int *index, const char *op, const char *rung) {
    int count, seen = 0;
    const struct weft_rung *table = weft_rungs(&count);
    for (int i = 0; i < count; i++) {
        if (strcmp(table[i].op, op)) continue;
        if (!strcmp(table[i].rung, rung)) {
            *index = seen;
            return WEFT_OK;
        }
        seen++;
    }
    return weft_fail(WEFT_EINVAL, "micrograd: %s has no rung '%s' among its %d",
                     op, rung, seen);
}

static int build(struct weft_tape *tape, int rung) {
    const int plain = rung == REFERENCE;
#ifdef __CUDACC__
    tape->impl = &tape_kernels;
#else
    tape->impl = plain ? &tape_reference : &tape_kernels;
#endif
    WEFT_TRY(
        find_rung(&tape->matmul, "matmul", plain ? "reference" : "coalesced"));
    WEFT_TRY(find_rung(&tape->sgd, "sgd", plain ? "reference" : "naive"));
    WEFT_CUDA_TRY(cudaGetDevice(&tape->device));
    return WEFT_OK;
}

int weft_tape_create(weft_tape **tape, int rung, weft_stream stream) {
    WEFT_REQUIRE(tape, "weft_tape_create: tape is NULL");
    *tape = NULL;
    WEFT_CHECK_RUNG(rung);
    (void)stream;
    weft_tape *const empty = (weft_tape *)calloc(1, sizeof *empty);
    if (!empty)
        return weft_fail(WEFT_ENOMEM, "weft_tape_create: %zu bytes needed",
                         sizeof *empty);
    const int status = build(empty, rung);
    if (status)
        free(empty);
    else
        *tape = empty;
    return status;
}

void weft_tape_destroy(weft_tape *tape) {
    if (!tape) return;
    int outside = tape->device;
    cudaGetDevice(&outside);
    if (outside != tape->device) cudaSetDevice(tape->device);
    cudaDeviceSynchronize(); // kernels may still use the memory
    for (int i = tape->count - 1; i >= 0; i--)
        tape_release(tape, &tape->entries[i]);
    for (int i = 0; i < tape->pool_count; i++) cudaFree(tape->pool[i].data);
    if (outside != tape->device) cudaSetDevice(outside);
    free(tape->entries);
    free(tape->pool);
    free(tape);
}
