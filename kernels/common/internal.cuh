/* internal.cuh -- the header that every .cu of the library includes, directly
 * or through another header. It includes the public header and the CUDA runtime
 * (under g++, the SIMT runtime). Its macros check a launcher's arguments and
 * report failures. */
#ifndef WEFT_INTERNAL_CUH
#define WEFT_INTERNAL_CUH
#include <cuda_runtime.h> // under g++, simt/include has this header

#include "../weft.h"
#include "nvtx.cuh"
#ifndef __CUDACC__
#include "../simt/simt_runtime.h"
#endif

#ifdef __CUDACC__
#define WEFT_TARGET WEFT_CUDA
#else
#define WEFT_TARGET WEFT_CPU
#endif

#define CEIL_DIV(a, b) (((a) + (b) - 1) / (b))
#define COUNT_OF(array) ((int)(sizeof(array) / sizeof((array)[0])))

#ifdef __cplusplus
extern "C" {
#endif

/* Record a printf-style message for weft_last_error() and return `status`. */
int weft_fail(int status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Record a message about a failed CUDA call and return the status that
 * corresponds to `error`. */
int weft_cuda_fail(cudaError_t error, const char *what);

/* Add `count` lines to the table that weft_rungs() returns. */
void weft_register_rungs(const struct weft_rung *lines, int count);

#ifndef __CUDACC__
/* Make OpenMP use the number of threads set by weft_set_threads(). Returns the
 * number that it used before, which weft_team_end() restores. */
int weft_team_begin(void);
void weft_team_end(int outside);
#endif

/* Return WEFT_OK if `rung` is an index of `lines` that runs on this target and
 * device, else WEFT_EINVAL. */
int weft_check_rung(const struct weft_rung *lines, int count, int rung);

#ifdef __cplusplus
}
#endif

static inline cudaStream_t weft_cuda_stream(weft_stream stream) {
    return (cudaStream_t)stream;
}

/* Define an op's lines of the rung table, in the file of its launcher:
 *
 *     WEFT_RUNGS({"relu", "reference", ...}, {"relu", "naive", ...});
 *
 * This defines `rungs[]`, in the order that `rung` indexes, and registers
 * it. */
#define WEFT_RUNGS(...)                                             \
    static const struct weft_rung rungs[] = {__VA_ARGS__};          \
    __attribute__((constructor)) static void register_rungs(void) { \
        weft_register_rungs(rungs, COUNT_OF(rungs));                \
    }

#ifdef __CUDACC__
struct weft_watch {};
#else
/* The state of a call on the CPU. During the call, OpenMP uses the number of
 * threads set by weft_set_threads(), and Ctrl-C ends the call.
 * weft_interrupted() and every running launch detect the signal, and the
 * caller's own handler runs too. */
struct weft_watch {
    int outside; /* OpenMP's number of threads outside the call */

    weft_watch() : outside(weft_team_begin()) { simt_watch_begin(); }
    ~weft_watch() {
        simt_watch_end();
        weft_team_end(outside);
    }
};
#endif

/* Begin a launcher: reject a rung that cannot run on this target. Until the
 * launcher returns, watch for Ctrl-C and show its range on a profiler's
 * timeline. */
#define WEFT_CHECK_RUNG(rung) \
    WEFT_RANGE(__func__);     \
    struct weft_watch watch_; \
    (void)watch_;             \
    WEFT_TRY(weft_check_rung(rungs, COUNT_OF(rungs), rung))

/* Reject bad arguments: WEFT_REQUIRE(n > 0, "relu: n = %d, want > 0", n). */
#define WEFT_REQUIRE(condition, ...)                                  \
    do {                                                              \
        if (!(condition)) return weft_fail(WEFT_EINVAL, __VA_ARGS__); \
    } while (0)

/* Return the status of another weft function if it failed. */
#define WEFT_TRY(call)               \
    do {                             \
        int status_ = (call);        \
        if (status_) return status_; \
    } while (0)

/* Return the status of a CUDA call if it failed. */
#define WEFT_CUDA_TRY(call)                                              \
    do {                                                                 \
        cudaError_t error_ = (call);                                     \
        if (error_ != cudaSuccess) return weft_cuda_fail(error_, #call); \
    } while (0)

/* Return the status of a launch if it failed; use it after <<<>>>. */
#define WEFT_LAUNCHED(kernel)                                              \
    do {                                                                   \
        cudaError_t error_ = cudaGetLastError();                           \
        if (error_ != cudaSuccess) return weft_cuda_fail(error_, #kernel); \
    } while (0)

/* Call a plain C rung (kernels/reference/). Such rungs exist only in the CPU
 * build. In the GPU build, weft_check_rung() rejects such a rung before this
 * code runs. */
#ifdef __CUDACC__
#define WEFT_REFERENCE(call) weft_fail(WEFT_EINVAL, "no reference rung here")
#else
#define WEFT_REFERENCE(call) (call)
#endif

#endif
