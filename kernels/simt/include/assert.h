/* assert.h -- assert() that also works in kernels.
 *
 * The compiler finds this file before the system's header, which <cassert>
 * would include. A failed assertion in a kernel prints CUDA's message and ends
 * the launch with cudaErrorAssert. In host code, assert() is the system's. Like
 * the system's header, this header may be included again after NDEBUG has
 * changed, so it has no guard. */
#include_next <assert.h>
#if defined(__cplusplus) && !defined(NDEBUG)
#undef assert
#ifndef SIMT_ASSERT_H
#define SIMT_ASSERT_H
extern "C" __attribute__((visibility("default"), noreturn, cold)) void
simt_assert_failed(const char *expression, const char *file, unsigned line,
                   const char *function);
#endif
#define assert(...)                                             \
    (static_cast<bool>(__VA_ARGS__)                             \
         ? void(0)                                              \
         : simt_assert_failed(#__VA_ARGS__, __FILE__, __LINE__, \
                              __PRETTY_FUNCTION__))
#endif
