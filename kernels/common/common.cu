/* common.cu -- code shared by all libraries of the lab: the last error, the
 * table of rungs, and the few calls that concern a whole device. Each op's
 * library has a copy, so a process may contain several copies. */
#include "internal.cuh"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#ifndef __CUDACC__
#include <omp.h>
#include <pthread.h>

#include "reference/reference.h"
#include "simt/simt_runtime.h"
#endif

/* ---- errors -------------------------------------------------------------- */

static __thread char last_error[512];

const char *weft_last_error(void) { return last_error; }

int weft_fail(int status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(last_error, sizeof last_error, format, args);
    va_end(args);
    return status;
}

#ifdef __CUDACC__
/* Return whether an error destroys the context, so that every further call
 * fails. */
static int context_is_lost(cudaError_t error) {
    switch (error) {
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
    case cudaErrorIllegalInstruction:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorHardwareStackError:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorECCUncorrectable: return 1;
    default: return 0;
    }
}
#endif

int weft_cuda_fail(cudaError_t error, const char *what) {
    // Clear the error, so that the next launch does not report it. A lost
    // context keeps failing even if the error is cleared.
    cudaGetLastError();
    if (error == cudaErrorMemoryAllocation)
        return weft_fail(WEFT_ENOMEM, "%s: out of memory", what);
#ifdef __CUDACC__
    if (context_is_lost(error))
        return weft_fail(WEFT_ELOST, "%s: %s; restart the notebook's kernel",
                         what, cudaGetErrorString(error));
#else
    if (simt_interrupted()) return weft_fail(WEFT_EINTR, "%s: Ctrl-C", what);
    if (error == cudaErrorLaunchTimeout) // a deadlock; the runtime reports its
                                         // location
        return weft_fail(WEFT_ECUDA, "%s: %s", what, simt_last_fault());
#endif
    return weft_fail(WEFT_ECUDA, "%s: %s", what, cudaGetErrorString(error));
}

/* ---- the table of rungs -------------------------------------------------- */

enum { MAX_RUNGS = 512 };
static struct weft_rung table[MAX_RUNGS];
static int table_size;

void weft_register_rungs(const struct weft_rung *lines, int count) {
    // This function runs before main, in link order. An overflowing table would
    // silently lose rungs, so the tests compare it with the sources.
    for (int i = 0; i < count && table_size < MAX_RUNGS; i++)
        table[table_size++] = lines[i];
}

const struct weft_rung *weft_rungs(int *count) {
    *count = table_size;
    return table;
}

#ifdef __CUDACC__
/* Find the current device's compute capability times 10, queried once per
 * device. */
static int device_sm(int *sm) {
    static int known[64];
    int device, major, minor;
    WEFT_CUDA_TRY(cudaGetDevice(&device));
    if (device >= COUNT_OF(known) || !known[device]) {
        WEFT_CUDA_TRY(cudaDeviceGetAttribute(
            &major, cudaDevAttrComputeCapabilityMajor, device));
        WEFT_CUDA_TRY(cudaDeviceGetAttribute(
            &minor, cudaDevAttrComputeCapabilityMinor, device));
        *sm = major * 10 + minor;
        if (device < COUNT_OF(known)) known[device] = *sm;
    } else {
        *sm = known[device];
    }
    return WEFT_OK;
}
#endif

int weft_check_rung(const struct weft_rung *lines, int count, int rung) {
    WEFT_REQUIRE(rung >= 0 && rung < count, "%s has rungs 0 to %d, not %d",
                 lines[0].op, count - 1, rung);
    const struct weft_rung *r = &lines[rung];
    WEFT_REQUIRE(r->targets & WEFT_TARGET,
                 "%s rung '%s' does not run on this target (%s)", r->op,
                 r->rung, WEFT_TARGET == WEFT_CPU ? "cpu" : "cuda");
#ifdef __CUDACC__
    int sm = 0;
    if (r->sm) {
        WEFT_TRY(device_sm(&sm));
        WEFT_REQUIRE(sm >= r->sm,
                     "%s rung '%s' needs compute capability %d.%d, this GPU "
                     "has %d.%d",
                     r->op, r->rung, r->sm / 10, r->sm % 10, sm / 10, sm % 10);
    }
#endif
    return WEFT_OK;
}

/* ---- the device ---------------------------------------------------------- */

int weft_sync(weft_stream stream) {
    WEFT_CUDA_TRY(cudaStreamSynchronize(weft_cuda_stream(stream)));
    return WEFT_OK;
}

#ifdef __CUDACC__
int weft_set_device(int device) {
    WEFT_CUDA_TRY(cudaSetDevice(device));
    return WEFT_OK;
}

int weft_set_threads(int threads) {
    (void)threads;
    return WEFT_OK;
}

int weft_set_order(int order) {
    (void)order;
    return WEFT_OK;
}

#else
int weft_set_device(int device) {
    WEFT_REQUIRE(device == 0, "device %d: the CPU build has only 0", device);
    return WEFT_OK;
}

/* The number of threads of the plain C rungs, or 0 for OpenMP's default.
 * OpenMP's own setting does not suffice. Each thread of the process has a
 * separate one, and PyTorch, whose number of threads must not change, may use
 * the same OpenMP. */
static int team;
static int forked;

static void after_fork(void) {
    // After a fork, the threads of OpenMP's pool no longer exist, and a team of
    // more than one thread would wait for them forever.
    team = forked = 1;
}

__attribute__((constructor)) static void watch_forks(void) {
    pthread_atfork(NULL, NULL, after_fork);
}

int weft_team_begin(void) {
    const int outside = omp_get_max_threads();
    const int threads = __atomic_load_n(&team, __ATOMIC_RELAXED);
    if (threads) omp_set_num_threads(threads);
    return outside;
}

void weft_team_end(int outside) {
    if (outside != omp_get_max_threads()) omp_set_num_threads(outside);
}

int weft_set_threads(int threads) {
    WEFT_REQUIRE(threads >= 0 && threads <= 1024,
                 "threads = %d, want 0 to 1024", threads);
    simt_set_threads(threads);
    __atomic_store_n(&team, forked ? 1 : simt_threads(), __ATOMIC_RELAXED);
    return WEFT_OK;
}

int weft_set_order(int order) {
    WEFT_REQUIRE(order >= 0, "order = %d, want at least 0", order);
    simt_set_order(order);
    return WEFT_OK;
}

int weft_interrupted(void) { return simt_interrupted(); }
#endif
