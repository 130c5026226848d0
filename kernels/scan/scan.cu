/* scan.cu -- running sums of an array: their rungs and their launchers.
 *
 * A scan reads and writes every number once, so at best it is as fast as a
 * copy. Each rung has a file; each diff shows one idea. */
#include "scan.cuh"

#include "reference/reference.h"

#define EVERYWHERE (WEFT_CPU | WEFT_CUDA)

WEFT_RUNGS({"scan", "reference",
            "plain C, a piece is added and scanned in the cache", "fp32",
            WEFT_CPU, 0},
           {"scan", "kogge_stone", "the distance doubles in each step", "fp32",
            EVERYWHERE, 0},
           {"scan", "brent_kung", "a tree up and the same tree down", "fp32",
            EVERYWHERE, 0},
           {"scan", "shuffle", "a scan per warp in registers", "fp32",
            EVERYWHERE, 0},
           {"scan", "three_kernels", "sums, their scan, and loads of four",
            "fp32", EVERYWHERE, 0},
           {"scan", "chained", "one kernel, each tile waits for the one before",
            "fp32", EVERYWHERE, 0},
           {"scan", "look_back", "a thread adds the sums of earlier tiles",
            "fp32", EVERYWHERE, 0},
           {"scan", "look_back_warp", "a warp reads 32 tiles at the same time",
            "fp32", EVERYWHERE, 0},
           {"scan", "items", "16 numbers per thread, four loads in flight",
            "fp32", EVERYWHERE, 0},
           {"scan", "fallback", "a block computes a sum that is late", "fp32",
            EVERYWHERE, 0},
           {"scan", "fixed_order", "a tree of tiles: always the same bits",
            "fp32", EVERYWHERE, 0},
           {"scan", "bulk", "the same, and tiles arrive while others wait",
            "fp32", EVERYWHERE, 90});

enum {
    REFERENCE,
    KOGGE_STONE,
    BRENT_KUNG,
    SHUFFLE,
    THREE_KERNELS,
    CHAINED,
    LOOK_BACK,
    LOOK_BACK_WARP,
    ITEMS,
    FALLBACK,
    FIXED_ORDER,
    BULK
};

/* Scan the sums with one block, tile after tile. */
static __global__ void __launch_bounds__(THREADS) scan_by_block(scanning s) {
    __shared__ float sums_s[WARPS];
    float earlier = 0.0f;
    for (unsigned tile = 0; tile < CEIL_DIV(s.count, 4 * THREADS); tile++) {
        fours<1> t;
        t.load(s, tile);
        const float total = t.scan(sums_s);
        t.store(s, tile, earlier);
        earlier += total;
        __syncthreads(); // no thread uses sums_s
    }
}

int scan_sums(float *sums, unsigned count, cudaStream_t stream) {
    const scanning s = {sums, sums, count, true, false, stream};
    scan_by_block<<<1, THREADS, 0, stream>>>(s);
    WEFT_LAUNCHED(scan_by_block);
    return WEFT_OK;
}

static int run_scan(int rung, const struct scanning *s) {
    switch (rung) {
    case REFERENCE:
        return WEFT_REFERENCE(
            scan_reference(s->y, s->x, s->count, s->exclusive, s->reverse));
    case KOGGE_STONE: return scan_kogge_stone(s);
    case BRENT_KUNG: return scan_brent_kung(s);
    case SHUFFLE: return scan_shuffle(s);
    case THREE_KERNELS: return scan_three_kernels(s);
    case CHAINED: return scan_chained(s);
    case LOOK_BACK: return scan_look_back(s);
    case LOOK_BACK_WARP: return scan_look_back_warp(s);
    case ITEMS: return scan_items(s);
    case FALLBACK: return scan_fallback(s);
    case FIXED_ORDER: return scan_fixed_order(s);
    case BULK: return scan_bulk(s);
    }
    return WEFT_OK;
}

int weft_scan(int rung, float *y, const float *x, size_t count,
              const struct weft_scan_options *options, weft_stream stream) {
    WEFT_CHECK_RUNG(rung);
    WEFT_REQUIRE(count >= 1, "%s: count = 0, want at least 1", __func__);
    CHECK_COUNT(x, count);
    CHECK_ARRAY(y);
    CHECK_ARRAY(x);
    const struct scanning s = {y,
                               x,
                               count,
                               options && options->exclusive,
                               options && options->reverse,
                               weft_cuda_stream(stream)};
    return run_scan(rung, &s);
}

/* A number's gradient is the sum of the gradients of all results that contain
 * it: a scan from the other end. */
int weft_scan_backward(int rung, float *dx, const float *dy, size_t count,
                       const struct weft_scan_options *options,
                       weft_stream stream) {
    WEFT_CHECK_RUNG(rung);
    WEFT_REQUIRE(count >= 1, "%s: count = 0, want at least 1", __func__);
    CHECK_COUNT(dx, count);
    CHECK_ARRAY(dx);
    CHECK_ARRAY(dy);
    const struct scanning s = {dx,
                               dy,
                               count,
                               options && options->exclusive,
                               !(options && options->reverse),
                               weft_cuda_stream(stream)};
    return run_scan(rung, &s);
}
