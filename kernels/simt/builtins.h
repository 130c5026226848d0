/* builtins.h -- CUDA's keywords, built-in variables and barriers. */
#ifndef SIMT_BUILTINS_H
#define SIMT_BUILTINS_H
#include "cuda_api.h"
#include "engine.h"

/* rewrite.py puts SIMT_BODY and SIMT_END around the body of every kernel and
 * takes `__global__` away. What is left of it stands in a file that was
 * included and so not rewritten: that kernel must not be called. */
#define __global__                                                           \
    __attribute__((noinline,                                                 \
                   error("this kernel is defined in an included file: only " \
                         "kernels of the .cu file itself are rewritten for " \
                         "the CPU")))
#define SIMT_BODY SIMT_BODY_TAKING([=])
/* The same with captures of its own: references stay references. */
#define SIMT_BODY_TAKING(...)                           \
    static simt::Kernel simt_kernel = {__func__, 0, 0}; \
    if (simt::asked(&simt_kernel)) return;              \
    simt::launch(&simt_kernel,                             \
                 __VA_ARGS__() mutable __attribute__((always_inline)) {
#define SIMT_END \
    });

/* The members of the struct that stands before `site` are the arrays of one
 * __shared__ declaration. */
#define SIMT_SHARED(site, type)   \
    static simt::SharedSite site; \
    type &site##_arrays = simt::shared<type>(&site)

#define __device__
#define __host__
#define __constant__
#define __managed__
#define __grid_constant__
#define __launch_bounds__(...)
#define __maxnreg__(...)
#define __cluster_dims__(...) \
    _Pragma("GCC error \"clusters are not simulated on the CPU\"")
#define __forceinline__ inline __attribute__((always_inline))
#define __align__(bytes) __attribute__((aligned(bytes)))
#define SIMT_NOINLINE __attribute__((noinline)) /* rewritten __noinline__ */

namespace simt {

/* threadIdx and its like are empty objects, not macros: a program may have
 * variables and fields of these names. Where the compiler sees one of them,
 * `threadIdx.x` reads as an unsigned; and since rewrite.py has turned it into
 * simt::x(threadIdx), an unsigned where that matters (min(), printf()). */
#define SIMT_BUILTIN(Name, Vector, value)                      \
    struct Name {                                              \
        struct X {                                             \
            operator unsigned() const { return (value).x; }    \
        } x;                                                   \
        struct Y {                                             \
            operator unsigned() const { return (value).y; }    \
        } y;                                                   \
        struct Z {                                             \
            operator unsigned() const { return (value).z; }    \
        } z;                                                   \
        operator Vector() const { return value; }              \
    };                                                         \
    SIMT_INLINE unsigned x(const Name &) { return (value).x; } \
    SIMT_INLINE unsigned y(const Name &) { return (value).y; } \
    SIMT_INLINE unsigned z(const Name &) { return (value).z; }

SIMT_BUILTIN(ThreadIdx, uint3, here()->thread.index)
SIMT_BUILTIN(BlockIdx, uint3, here()->block->index)
SIMT_BUILTIN(BlockDim, dim3, here()->block->block_dim)
SIMT_BUILTIN(GridDim, dim3, here()->block->grid_dim)
#undef SIMT_BUILTIN

/* The same for a program's own variables of these names. */
template <class V> SIMT_INLINE auto x(V &v) -> decltype((v.x)) { return v.x; }
template <class V> SIMT_INLINE auto y(V &v) -> decltype((v.y)) { return v.y; }
template <class V> SIMT_INLINE auto z(V &v) -> decltype((v.z)) { return v.z; }

} // namespace simt

inline constexpr simt::ThreadIdx threadIdx{};
inline constexpr simt::BlockIdx blockIdx{};
inline constexpr simt::BlockDim blockDim{};
inline constexpr simt::GridDim gridDim{};
inline constexpr int warpSize = simt::WARP;

SIMT_INLINE void __syncthreads() { simt::barrier(); }

/* As __syncthreads(); the number of threads whose predicate is not 0 ... */
SIMT_INLINE int __syncthreads_count(int predicate) {
    return simt::barrier(predicate != 0);
}

/* ... whether there is one, and whether all are. */
SIMT_INLINE int __syncthreads_or(int predicate) {
    return simt::barrier(predicate != 0) != 0;
}
SIMT_INLINE int __syncthreads_and(int predicate) {
    return simt::barrier(predicate == 0) == 0;
}

SIMT_INLINE void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
SIMT_INLINE void __threadfence_block() { __threadfence(); }
SIMT_INLINE void __threadfence_system() { __threadfence(); }

/* End the launch with an error; the second wakes a debugger on a GPU. */
SIMT_INLINE void __trap() { simt::trap(); }
SIMT_INLINE void __brkpt() { simt::trap(); }

/* Let other threads run; the time asked for is not kept. */
SIMT_INLINE void __nanosleep(unsigned) { simt::spin(simt::here()); }

/* A counter that grows with time: here nanoseconds, not cycles. */
SIMT_INLINE long long clock64() { return simt_nanoseconds(); }

#endif
