/* matmul.cu -- the ladder: the list of its rungs, and the path from a call to a
 * rung.
 *
 * Every rung is a separate file in this folder. It opens with the bottleneck of
 * the previous rung, the idea, and the limit that remains: the difference
 * between two neighbouring rungs is the lesson.
 *
 *     00 to 09             plain C, then fp32 on a GPU from slow to fast
 *     10_pipeline, 11_tma  ... copies that run ahead; large products
 *     12_*                 ... if large tiles do not suit: few blocks,
 *                          columns, rows, or both
 *     20_wmma_*, 21_mma_*  tensor cores: by warps, ...
 *     30 to 32             ... by warpgroups (sm_90)
 *     40_tuned             for each precision, picks a rung by the size
 *
 * Code that several of them share:
 *
 *     matmul.h             a rung's line, its arguments, how c is stored
 *     pack.*               operands copied to the layout that a rung takes
 *     awkward_sizes.h, partials.cu
 *                          k in parts, and how these are added; the device;
 *                          estimates of the fp32 rungs for 40_tuned
 *     tma_*                rungs 11 and 12_k_groups: work (which block computes
 *                          which tile), tile (the ring), multiply, launch
 *     wmma_tile, mma_tile, recompute
 *                          rungs 20 and 21
 *     wgmma.cuh            the instruction, on a GPU and on a CPU
 *     wgmma_*              rungs 30 to 32: tile (the ring), store, parts (k in
 *                          parts), launch, us (their estimated time)
 *
 * A new rung is one file (matmul.h describes its contents) and its name in the
 * list below. Within a precision, the list goes from slow to fast. A call
 * without a rung gets the last one of its precision that the GPU can run. */
#include "matmul.h"

#include "common/checks.cuh"
#include "pack.h"

#include <limits.h>

#ifndef MATMUL_LADDER // lib/weft/lessons/ladder/one_rung.py defines a separate
                      // list
#define MATMUL_LADDER(RUNG) \
    RUNG(ijk)               \
    RUNG(ikj)               \
    RUNG(blocked)           \
    RUNG(simd)              \
    RUNG(reference)         \
    RUNG(naive)             \
    RUNG(coalesced)         \
    RUNG(tiled_runtime)     \
    RUNG(tiled)             \
    RUNG(tiled_dynamic)     \
    RUNG(tiled_template)    \
    RUNG(registers_1d)      \
    RUNG(registers_2d)      \
    RUNG(narrow)            \
    RUNG(short)             \
    RUNG(split_k)           \
    RUNG(vectorised)        \
    RUNG(conflict_free)     \
    RUNG(warp_tiles)        \
    RUNG(double_buffer)     \
    RUNG(pipeline)          \
    RUNG(tma)               \
    RUNG(k_groups)          \
    RUNG(tuned)             \
    RUNG(wmma_fp16)         \
    RUNG(mma_fp16)          \
    RUNG(wmma_bf16)         \
    RUNG(mma_bf16)          \
    RUNG(wmma_tf32)         \
    RUNG(mma_tf32)          \
    RUNG(wgmma_fp16)        \
    RUNG(wgmma_bf16)        \
    RUNG(wgmma_tf32)        \
    RUNG(mma_3xtf32)        \
    RUNG(wgmma_3xtf32)      \
    RUNG(tuned_fp16)        \
    RUNG(tuned_bf16)        \
    RUNG(tuned_tf32)        \
    RUNG(tuned_3xtf32)
#endif

#define DECLARE(name) extern const struct matmul_rung matmul_##name##_rung;
MATMUL_LADDER(DECLARE)

#define POINTER(name) &matmul_##name##_rung,
static const struct matmul_rung *const ladder[] = {MATMUL_LADDER(POINTER)};

static struct weft_rung rungs[COUNT_OF(ladder)];

__attribute__((constructor)) static void register_rungs(void) {
    for (int i = 0; i < COUNT_OF(ladder); i++) rungs[i] = ladder[i]->line;
    weft_register_rungs(rungs, COUNT_OF(rungs));
}

/* The limits of a grid: at most MAX_GRID blocks in y and in z. A rung whose
 * blocks compute at least 16 rows of c stays within these limits for up to SLAB
 * rows. */
enum { MAX_GRID = 65535, SLAB = MAX_GRID * 16 };

/* The maximum of n and k: kernels round them up to whole tiles and steps, in an
 * int. */
enum { LONGEST = INT_MAX - 4095 };

/* Return the value of one of the call's options; `options` may be NULL. */
#define OPTION(options, field, otherwise) \
    ((options) ? (options)->field : (otherwise))

/* Collect the arguments of weft_matmul() without checking them. */
static struct product product_of(float *c, const void *a, const void *b, int m,
                                 int n, int k,
                                 const struct weft_matmul_options *options) {
    const int trans_a = OPTION(options, trans_a, 0) != 0;
    const int trans_b = OPTION(options, trans_b, 0) != 0;
    const int batch = OPTION(options, batch, 0);
    struct product q = {
        c, a, b, m, n, k, trans_a, trans_b, batch ? batch : 1, {}, NULL};
    q.extras.step_a = (size_t)OPTION(options, stride_a, 0);
    q.extras.step_b = (size_t)OPTION(options, stride_b, 0);
    q.extras.step_c = (size_t)OPTION(options, stride_c, 0);
    q.extras.pitch_a = (size_t)(trans_a ? m : k);
    q.extras.pitch_b = (size_t)(trans_b ? k : n);
    q.extras.alpha = OPTION(options, alpha, 1.0f);
    q.extras.beta = OPTION(options, beta, 0.0f);
    q.extras.bias = OPTION(options, bias, (const float *)NULL);
    q.extras.relu = OPTION(options, relu, 0) != 0;
    return q;
}

/* Reject a batch with a negative stride. */
#define CHECK_STRIDE(x)                                                \
    WEFT_REQUIRE((ptrdiff_t)q->extras.step_##x >= 0,                   \
                 "%s: stride_%s = %td, want at least 0", __func__, #x, \
                 (ptrdiff_t)q->extras.step_##x)

static int check_arguments(const struct product *q) {
    const int m = q->m, n = q->n, k = q->k, batch = q->batch;
    CHECK_SIZE(m);
    CHECK_SIZE(n);
    CHECK_SIZE(k);
    CHECK_SIZE(batch);
    if (batch > 1) {
        CHECK_STRIDE(a);
        CHECK_STRIDE(b);
        CHECK_STRIDE(c);
    }
    CHECK_COUNT(a, (double)m * k);
    CHECK_COUNT(b, (double)k * n);
    CHECK_COUNT(c, (double)m * n);
    WEFT_REQUIRE(n <= LONGEST && k <= LONGEST,
                 "weft_matmul: n = %d, k = %d, want at most %d", n, k, LONGEST);
    if (batch == 1) return WEFT_OK; // a single matrix needs no steps
    const ptrdiff_t step_a = (ptrdiff_t)q->extras.step_a;
    const ptrdiff_t step_b = (ptrdiff_t)q->extras.step_b;
    const ptrdiff_t step_c = (ptrdiff_t)q->extras.step_c;
    WEFT_REQUIRE(step_a >= 0 && step_b >= 0 && step_c / n >= m,
                 "weft_matmul: stride_a = %td, stride_b = %td, stride_c = %td: "
                 "want at least 0, 0 and m * n = %d * %d",
                 step_a, step_b, step_c, m, n);
    return WEFT_OK;
}

/* Return the bytes that matmul.cu needs for copies plus those that the rung
 * needs. */
static size_t room_for(const struct product *q,
                       const struct matmul_rung *rung) {
    // The rung receives its operands in their final layout, with a placeholder
    // as the address of the copies. Only their layout matters, not their
    // contents.
    struct product packed = *q;
    const size_t copies = matmul_pack_bytes(q, rung);
    matmul_pack_plan(&packed, rung, (void *)256);
    return copies + (rung->scratch ? rung->scratch(&packed) : 0);
}

/* Launch one product of at most SLAB rows and MAX_GRID matrices. */
static int launch(struct product q, const struct matmul_rung *rung, void *room,
                  cudaStream_t stream) {
    const size_t copies = matmul_pack_bytes(&q, rung);
    WEFT_TRY(matmul_pack(&q, rung, room, stream));
    q.scratch = (char *)room + copies;
    return rung->launch(&q, stream);
}

/* Return the slab of q that starts at row `row` and matrix `item`. */
static struct product slab_of(const struct product *q, int row, int item,
                              size_t element) {
    struct product slab = *q;
    const size_t row_a = q->trans_a ? (size_t)row : row * q->extras.pitch_a;
    slab.m = q->m - row < SLAB ? q->m - row : SLAB;
    slab.batch = q->batch - item < MAX_GRID ? q->batch - item : MAX_GRID;
    slab.c += item * q->extras.step_c + (size_t)row * q->n;
    slab.a = (const char *)q->a + (item * q->extras.step_a + row_a) * element;
    slab.b = (const char *)q->b + item * q->extras.step_b * element;
    return slab;
}

int weft_matmul_workspace(int rung, size_t *bytes, const void *a, const void *b,
                          int m, int n, int k,
                          const struct weft_matmul_options *options) {
    WEFT_CHECK_RUNG(rung);
    CHECK_ARRAY(bytes);
    const struct product q = product_of(NULL, a, b, m, n, k, options);
    WEFT_TRY(check_arguments(&q));
    // A smaller slab may need more bytes, if the rung chooses by the size.
    const size_t element = matmul_element(ladder[rung]);
    *bytes = 0;
    for (int item = 0; item < q.batch; item += MAX_GRID)
        for (int row = 0; row < m; row += SLAB) {
            const struct product slab = slab_of(&q, row, item, element);
            const size_t wants = room_for(&slab, ladder[rung]);
            if (wants > *bytes) *bytes = wants;
            if (m - row <= SLAB) break; // row + SLAB may not fit into an int
        }
    return WEFT_OK;
}

int weft_matmul(int rung, float *c, const void *a, const void *b, int m, int n,
                int k, const struct weft_matmul_options *options,
                weft_stream stream) {
    WEFT_CHECK_RUNG(rung);
    const struct product q = product_of(c, a, b, m, n, k, options);
    WEFT_TRY(check_arguments(&q));
    CHECK_ARRAY(c);
    CHECK_ARRAY(a);
    CHECK_ARRAY(b);
    const size_t element = matmul_element(ladder[rung]);
    const size_t has =
        OPTION(options, workspace, (void *)NULL) ? options->workspace_bytes : 0;
    void *const room = has ? options->workspace : NULL;
    for (int item = 0; item < q.batch; item += MAX_GRID)
        for (int row = 0; row < m; row += SLAB) {
            const struct product slab = slab_of(&q, row, item, element);
            const size_t wants = room_for(&slab, ladder[rung]);
            WEFT_REQUIRE(wants <= has,
                         "%s: rung %s wants a workspace of %zu bytes for m = "
                         "%d, n = %d, k = %d, got %zu: see "
                         "weft_matmul_workspace()",
                         __func__, rungs[rung].rung, wants, m, n, k, has);
            WEFT_REQUIRE(!wants || (uintptr_t)room % 256 == 0,
                         "%s: the workspace is at %p, want a multiple of 256",
                         __func__, room);
            WEFT_TRY(
                launch(slab, ladder[rung], room, weft_cuda_stream(stream)));
            if (m - row <= SLAB) break; // row + SLAB may not fit into an int
        }
    return WEFT_OK;
}
