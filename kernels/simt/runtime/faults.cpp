/* faults.cpp -- failures of launches: the first fault of a launch is kept, and
 * reported to the thread that launched it. */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../watch/launch.h"
#include "../watch/memory.h"
#include "runtime.h"

namespace simt::SIMT_FIBERS {

static thread_local simt_fault last;
static thread_local cudaError_t unreported;
static std::atomic<bool> sticky;
static std::atomic<int> stuck; // the error while errors are sticky
static std::atomic<int> warnings;

static void set_index(unsigned *out, uint3 index) {
    out[0] = index.x, out[1] = index.y, out[2] = index.z;
}

simt_fault *note_fault(Worker *worker, const Fiber *self, int kind,
                       cudaError_t error, const char *format, ...) {
    Job *job = worker->job;
    if (job->failed.exchange(true)) return 0;
    // Report an endless kernel at its last step: the signal that ended it may
    // have arrived anywhere in the functions that it calls.
    if (kind == SIMT_FAULT_TIMEOUT || kind == SIMT_FAULT_DEADLOCK)
        worker->stopped_at = 0;
    if (worker->checker) job->fault_pc = check_step(worker);
    simt_fault *fault = &job->fault;
    *fault = {};
    fault->kind = kind;
    fault->error = error;
    fault->write = -1;
    memset(fault->block, 0xff, sizeof fault->block);
    memset(fault->thread, 0xff, sizeof fault->thread);
    snprintf(fault->kernel, sizeof fault->kernel, "%s", job->kernel->name);
    const size_t size = sizeof fault->text;
    size_t at = (size_t)snprintf(fault->text, size, "%s: ", fault->kernel);
    if (self) {
        set_index(fault->block, worker->index);
        set_index(fault->thread, self->thread.index);
        const unsigned *b = fault->block, *t = fault->thread;
        at += (size_t)snprintf(fault->text + at, size - at,
                               "block (%u,%u,%u), thread (%u,%u,%u): ", b[0],
                               b[1], b[2], t[0], t[1], t[2]);
    }
    va_list args;
    va_start(args, format);
    vsnprintf(fault->text + at, size - at, format, args);
    va_end(args);
    return fault;
}

/* Print a line on stderr. `inspect`: the command that shows more, or NULL. */
static void print(const char *text, const char *inspect) {
    warnings++;
    // This does not use stderr, whose lock may be held by a thread that was
    // ended inside fprintf().
    if (inspect)
        dprintf(2, "weft: %s. To see the line: %s\n", text, inspect);
    else
        dprintf(2, "weft: %s\n", text);
}

void warn(const char *format, ...) {
    char text[500];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    print(text, getenv("WEFT_RUN_INSPECT")); // set by weft run
}

void report_fault(const simt_fault *fault) {
    last = *fault;
    const cudaError_t error = (cudaError_t)fault->error;
    set_error(error);
    if (fault->kind == SIMT_FAULT_LAUNCH) return; // nothing ran
    unreported = error;
    if (!sticky.load()) return;
    stuck = error;
    if (fault->kind == SIMT_FAULT_LIBRARY) return print(fault->text, 0);
    if (checking()) return; // weft inspect reports more
    // The host might not check for errors, and the errors that it receives name
    // neither the kernel nor the thread.
    if (fault->kind == SIMT_FAULT_ASSERT)
        warnings++; // assert() has already printed a line
    else
        warn("%s", fault->text);
}

cudaError_t sticky_error() { return (cudaError_t)stuck.load(); }

cudaError_t pending_error() {
    if (const cudaError_t error = sticky_error()) return error;
    const cudaError_t error = unreported;
    unreported = cudaSuccess;
    return error;
}

void trap() {
    Worker *worker = this_worker;
    if (!worker) __builtin_trap(); // host code fails as usual
    note_fault(worker, here(), SIMT_FAULT_TRAP, cudaErrorLaunchFailure,
               "__trap()");
    abandon(worker);
}

} // namespace simt::SIMT_FIBERS

using namespace simt;

extern "C" const struct simt_fault *simt_last_launch_fault(void) {
    return &last;
}

extern "C" void simt_clear_fault(void) {
    last = {};
    unreported = cudaSuccess;
    stuck = 0;
    (void)cudaGetLastError();
}

extern "C" const char *simt_last_fault(void) { return last.text; }

/* Copy an expression in the form in which the program has it: threadIdx.x
 * instead of simt::x(threadIdx). */
static void as_written(const char *expression, char *out, size_t size) {
    char *const end = out + size - 1;
    while (*expression && out < end) {
        char axis, name[16];
        int length = 0;
        sscanf(expression, "simt::%c(%15[A-Za-z])%n", &axis, name, &length);
        if (!length) {
            *out++ = *expression++;
            continue;
        }
        const int put = snprintf(out, (size_t)(end - out), "%s.%c", name, axis);
        out += put < end - out ? put : end - out;
        expression += length;
    }
    *out = 0;
}

extern "C" __attribute__((visibility("default"), noreturn)) void
simt_assert_failed(const char *expression, const char *file, unsigned line,
                   const char *function) {
    Worker *worker = this_worker;
    if (!worker) __assert_fail(expression, file, line, function);
    const Fiber *self = here();
    const uint3 b = worker->index, t = self->thread.index;
    // Omit the lambda, which is the body of a kernel in this runtime and does
    // not appear in CUDA's message.
    const char *lambda = strstr(function, "::<lambda");
    const int length = (int)(lambda ? lambda - function : strlen(function));
    char written[400];
    as_written(expression, written, sizeof written);
    char text[1024]; // one write keeps the lines of several threads whole
    const int size = snprintf(text, sizeof text,
                              "%s:%u: %.*s: block: [%u,%u,%u], thread: "
                              "[%u,%u,%u] Assertion `%s` failed.\n",
                              file, line, length, function, b.x, b.y, b.z, t.x,
                              t.y, t.z, written);
    const int most = (int)sizeof text - 1;
    if (write(2, text, (size_t)(size < most ? size : most)) < 0) {
        // The write fails if nothing reads stderr, but the launch also reports
        // the assertion.
    }
    note_fault(worker, self, SIMT_FAULT_ASSERT, cudaErrorAssert,
               "assertion `%s` failed (%s:%u)", written, file, line);
    abandon(worker);
}

extern "C" int simt_warnings(void) { return warnings.load(); }

extern "C" void simt_set_sticky(int on) { sticky = on != 0; }

extern "C" int simt_on_device(void) { return this_worker != 0; }
