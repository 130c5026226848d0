/* topk.cu -- the k largest numbers of each row: rungs and their launcher.
 *
 * A selection reads every number once and writes k values and indices per row.
 * Sorting a row is one way to select; the rungs find ways to read most numbers
 * only once. */
#include "topk.cuh"

#include "reference/reference.h"

#define EVERYWHERE (WEFT_CPU | WEFT_CUDA)

WEFT_RUNGS({"topk", "reference", "plain C, vectors against a threshold", "fp32",
            WEFT_CPU, 0},
           {"topk", "sort", "sort each row in full", "fp32", EVERYWHERE, 0},
           {"topk", "heap_a_warp", "a warp keeps the best so far", "fp32",
            EVERYWHERE, 0},
           {"topk", "radix_select", "a reading of x for each digit", "fp32",
            EVERYWHERE, 0},
           {"topk", "filtered", "a sample's floor leaves few candidates",
            "fp32", EVERYWHERE, 0},
           {"topk", "batched", "a row stays on the chip", "fp32", EVERYWHERE,
            0});

enum { REFERENCE, SORT, HEAP_A_WARP, RADIX_SELECT, FILTERED, BATCHED };

/* An entry has 32 bits for the column, and counts of a row must not overflow.
 * A grid has at most 2^31 - 1 blocks, one per row. */
static const size_t MOST_COLS = 4294967295, MOST_ROWS = 2147483647;

/* Check the sizes for both launchers. */
static int check_sizes(const char *function, size_t rows, size_t cols,
                       size_t k) {
    WEFT_REQUIRE(rows >= 1 && rows <= MOST_ROWS,
                 "%s: rows = %zu, want 1 to %zu", function, rows, MOST_ROWS);
    WEFT_REQUIRE(cols >= 1 && cols <= MOST_COLS,
                 "%s: cols = %zu, want 1 to %zu", function, cols, MOST_COLS);
    WEFT_REQUIRE(k >= 1 && k <= cols,
                 "%s: k = %zu, want 1 to %zu, the number of columns", function,
                 k, cols);
    const double count = (double)rows * (double)cols;
    WEFT_REQUIRE(count <= MAX_ELEMENTS,
                 "%s: x would have %.0f elements, at most %.0f", function,
                 count, MAX_ELEMENTS);
    return WEFT_OK;
}

int weft_topk(int rung, float *values, int64_t *indices, const float *x,
              size_t rows, size_t cols, size_t k, weft_stream stream) {
    WEFT_CHECK_RUNG(rung);
    WEFT_TRY(check_sizes(__func__, rows, cols, k));
    CHECK_ARRAY(values);
    CHECK_ARRAY(indices);
    CHECK_ARRAY(x);
    const struct selection s = {
        values, indices, x, rows, cols, k, weft_cuda_stream(stream)};
    switch (rung) {
    case REFERENCE:
        return WEFT_REFERENCE(
            topk_reference(values, indices, x, rows, cols, k));
    case SORT: return topk_sort(&s);
    case HEAP_A_WARP: return topk_heap(&s);
    case RADIX_SELECT: return topk_radix(&s);
    case FILTERED: return topk_filtered(&s);
    case BATCHED: return topk_batched(&s);
    }
    return WEFT_OK;
}

/* Write dvalues to dx, which is 0, with a thread per value. */
static __global__ void scatter_values(float *dx, const float *dvalues,
                                      const int64_t *indices, size_t rows,
                                      size_t cols, size_t k) {
    const size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= rows * k) return;
    float *const row = dx + i / k * cols;
    const bool bad = indices[i] < 0 || (size_t)indices[i] >= cols;
    if (!bad) row[indices[i]] = dvalues[i];
    // A kernel cannot reject an index, but it must not hide a bad one.
    for (size_t col = 0; bad && col < cols; col++) row[col] = NAN;
}

int weft_topk_backward(int rung, float *dx, const float *dvalues,
                       const int64_t *indices, size_t rows, size_t cols,
                       size_t k, weft_stream stream) {
    const cudaStream_t queue = weft_cuda_stream(stream);
    WEFT_CHECK_RUNG(rung);
    WEFT_TRY(check_sizes(__func__, rows, cols, k));
    CHECK_ARRAY(dx);
    CHECK_ARRAY(dvalues);
    CHECK_ARRAY(indices);
#ifndef __CUDACC__
    for (size_t i = 0; i < rows * k; i++)
        WEFT_REQUIRE(indices[i] >= 0 && (size_t)indices[i] < cols,
                     "%s: indices[%zu] = %lld, want 0 to %zu", __func__, i,
                     (long long)indices[i], cols - 1);
#endif
    if (rung == REFERENCE)
        return WEFT_REFERENCE(
            topk_reference_backward(dx, dvalues, indices, rows, cols, k));
    WEFT_CUDA_TRY(cudaMemsetAsync(dx, 0, rows * cols * sizeof *dx, queue));
    scatter_values<<<blocks_for(rows * k), THREADS, 0, queue>>>(
        dx, dvalues, indices, rows, cols, k);
    WEFT_LAUNCHED(scatter_values);
    return WEFT_OK;
}
