/* rungs.cuh -- the code that a packed op's library adds to the op's sources.
 *
 * `python -m weft package OP` compiles this file with the functions that the
 * package exports. */
#include <string.h>

#include "common/launch.cuh"
/* Return the index of the rung that native.Library.rung() would choose. */
static int choose_rung(const char *op) {
#ifdef __CUDACC__
    const int sm = 10 * device_has(cudaDevAttrComputeCapabilityMajor) +
                   device_has(cudaDevAttrComputeCapabilityMinor);
#else
    const int sm = 1000;
#endif
    int count = 0, index = -1, chosen = 0;
    const struct weft_rung *rows = weft_rungs(&count);
    for (int i = 0; i < count; i++) {
        if (strcmp(rows[i].op, op)) continue;
        index++;
        if (!(rows[i].targets & WEFT_TARGET) || rows[i].sm > sm ||
            strcmp(rows[i].precision, "fp32"))
            continue;
        chosen = index;
        if (!strcmp(rows[i].rung, "reference")) break;
    }
    return chosen;
}

extern "C" __attribute__((visibility("default"))) const char *
weft_packed_error(int) {
    return weft_last_error();
}

#ifndef __CUDACC__
/* The plain C rungs call OpenMP, whose library other machines may lack. These
 * functions replace it, and the rungs use one thread. */
extern "C" int omp_get_max_threads(void) { return 1; }
extern "C" int omp_get_num_procs(void) { return 1; }
extern "C" int omp_get_num_threads(void) { return 1; }
extern "C" int omp_get_thread_num(void) { return 0; }
extern "C" void omp_set_num_threads(int) {}
#endif
