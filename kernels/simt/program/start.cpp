/* start.cpp -- code that runs before the main() of every whole program.
 *
 * Faults have the same effect as under nvcc: after a fault, every call returns
 * the same error. In addition, a line on stderr reports the fault, and a
 * program that nevertheless ends normally exits with status 1. The environment
 * holds the options of `weft run`. */
#include <stdlib.h>
#include <unistd.h>

#include "../simt_runtime.h"

extern "C" __attribute__((weak)) void simt_set_sticky(int sticky);
extern "C" void simt_set_strict(int strict);

#ifdef __GLIBC__
static void end(int status, void *) {
    if (!status && simt_warnings()) exit(1); // exit() runs the other handlers
}
#endif

// This is the first of the program's constructors, so its exit handler is the
// last to run.
__attribute__((constructor(101))) static void start() {
#ifdef __GLIBC__
    on_exit(end, 0);
#endif
    simt_tell_host_faults();
    if (isatty(2)) simt_show_life();
    if (simt_set_sticky) simt_set_sticky(1);
    simt_set_strict(1);
    const char *threads = getenv("WEFT_RUN_THREADS");
    if (threads) simt_set_threads(atoi(threads));
    const char *order = getenv("WEFT_RUN_ORDER");
    if (order) simt_set_order(atoi(order));
    const char *limit = getenv("WEFT_RUN_LAUNCH_MS");
    if (limit) simt_set_timeout(atoi(limit));
}
