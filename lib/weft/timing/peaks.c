/* peaks.c -- the highest rates of copies and multiply-adds on this processor.
 *
 * All threads of OpenMP run, with vectors as wide as the registers (simd.h).
 * Every sum is stored, so that no compiler removes it. */
#include "reference/simd.h"

#include <omp.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

/* Independent chains of multiply-adds, whose sums fit in the registers. There
 * are more chains than the latency (4 or 5 cycles) times the two multiply-adds
 * that start in each cycle. */
enum { CHAINS = 12, UNROLLED = 64 };

EXPORT int peak_threads(void) { return omp_get_max_threads(); }

/* Copy `count` floats, one part per thread. */
EXPORT void peak_copy(float *to, const float *from, size_t count) {
#pragma omp parallel
    {
        const size_t threads = (size_t)omp_get_num_threads();
        const size_t thread = (size_t)omp_get_thread_num();
        const size_t first = count * thread / threads;
        const size_t end = count * (thread + 1) / threads;
        memcpy(to + first, from + first, (end - first) * sizeof *to);
    }
}

/* Flops of a thread in one turn. */
EXPORT double peak_flops(void) { return 2.0 * CHAINS * UNROLLED * VLEN; }

/* Run `turns` turns in each thread; out[thread] is the sum of its chains. */
EXPORT void peak_run(float *out, int turns, float x, float y) {
#pragma omp parallel
    {
        vfloat sums[CHAINS];
        for (int i = 0; i < CHAINS; i++) sums[i] = vsplat((float)i);
        const vfloat mul = vsplat(x), add = vsplat(y);
        for (int turn = 0; turn < turns; turn++)
            for (int repeat = 0; repeat < UNROLLED; repeat++)
                for (int i = 0; i < CHAINS; i++) sums[i] = sums[i] * mul + add;
        float total = 0.0f;
        for (int i = 0; i < CHAINS; i++)
            for (int lane = 0; lane < VLEN; lane++) total += sums[i][lane];
        out[omp_get_thread_num()] = total;
    }
}
