/* start.cpp -- linked into every whole program: runs before its main().
 *
 * A fault is the program's own business, as under nvcc: after one, every call
 * gives the same error. The environment holds what `weft run` was told. */
#include <stdlib.h>

#include "../simt_runtime.h"

extern "C" __attribute__((weak)) void simt_set_sticky(int sticky);
extern "C" void simt_set_strict(int strict);

__attribute__((constructor)) static void start() {
    if (simt_set_sticky) simt_set_sticky(1);
    simt_set_strict(1);
    const char *threads = getenv("WEFT_RUN_THREADS");
    if (threads) simt_set_threads(atoi(threads));
    const char *order = getenv("WEFT_RUN_ORDER");
    if (order) simt_set_order(atoi(order));
    const char *limit = getenv("WEFT_RUN_LAUNCH_MS");
    if (limit) simt_set_timeout(atoi(limit));
}
