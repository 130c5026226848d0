/* nvtx.cuh -- named ranges on a profiler's timeline. WEFT_RANGE("step") marks
 * the time from the macro to the end of the scope. Nsight Systems draws the
 * range above the kernels launched in that time, and `ncu --nvtx --nvtx-include
 * "step/"` profiles only these kernels. Without a profiler, a range costs a few
 * nanoseconds. On the CPU, or if the toolkit has no NVTX, it compiles to
 * nothing. */
#ifndef WEFT_NVTX_CUH
#define WEFT_NVTX_CUH

#if defined(__CUDACC__) && __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>

struct weft_range {
    explicit weft_range(const char *name) { nvtxRangePushA(name); }
    ~weft_range() { nvtxRangePop(); }
    weft_range(const weft_range &) = delete;
};
#else
struct weft_range {
    explicit weft_range(const char *) {}
};
#endif

#define WEFT_RANGE(name)            \
    struct weft_range range_(name); \
    (void)range_

#endif
