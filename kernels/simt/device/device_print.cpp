/* device_print.cpp -- printf() in a kernel.
 *
 * The text is formatted before stdout is locked. Otherwise, a thread could
 * fault while it holds the lock, because of an invalid pointer for %s. It would
 * then leave its code and hold the lock forever. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "../runtime/runtime.h"

enum { SHORT = 1024 }; // length of texts that need no allocation

static std::atomic<size_t> most_printed;

/* Count the printed bytes, and end the launch if they exceed the limit. */
static void count(size_t size) {
    simt::Worker *worker = simt::this_worker;
    const size_t most = most_printed.load(std::memory_order_relaxed);
    if (!most || worker->job->printed.fetch_add(size) + size <= most) return;
    simt::note_fault(worker, simt::here(), SIMT_FAULT_EXCEPTION,
                     cudaErrorLaunchFailure, "printed more than %zu MB",
                     most >> 20);
    simt::abandon(worker);
}

static int print(const char *text, int size) {
    return fwrite(text, 1, (size_t)size, stdout) == (size_t)size ? size : -1;
}

static int print_long(int size, const char *format, va_list args) {
    char *text = (char *)malloc((size_t)size + 1);
    if (!text) return -1;
    vsnprintf(text, (size_t)size + 1, format, args);
    const int printed = print(text, size);
    free(text);
    return printed;
}

extern "C" __attribute__((visibility("default"), format(printf, 1, 2))) int
simt_printf(const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    char text[SHORT];
    int size;
    if (!simt::this_worker)
        size = vprintf(format, args); // called by the host
    else if ((size = vsnprintf(text, SHORT, format, args)) >= 0) {
        count((size_t)size);
        size =
            size < SHORT ? print(text, size) : print_long(size, format, again);
    }
    va_end(again);
    va_end(args);
    return size;
}

extern "C" void simt_set_most_printed(size_t bytes) { most_printed = bytes; }
