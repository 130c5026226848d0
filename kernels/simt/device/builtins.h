/* builtins.h -- CUDA's keywords, built-in variables and barriers. */
#ifndef SIMT_BUILTINS_H
#define SIMT_BUILTINS_H
#include "../api/cuda_api.h"
#include "../runtime/engine.h"

/* rewrite.py puts SIMT_BODY and SIMT_END around the body of every kernel and
 * removes `__global__`. If the word remains, the kernel is in an included file,
 * which is not rewritten. Such a kernel must not be called. */
#define __global__                                                           \
    __attribute__((noinline,                                                 \
                   error("this kernel is defined in an included file: only " \
                         "kernels of the .cu file itself are rewritten for " \
                         "the CPU")))
#define SIMT_BODY SIMT_BODY_TAKING([=])
/* SIMT_BODY with explicit captures, in which references stay references. */
#ifdef SIMT_CHECK
#define SIMT_BODY_TAKING(...) SIMT_LAUNCH(__VA_ARGS__)
/* Record a kernel's named parameters, before SIMT_BODY. For a and b, the
 * arguments are "a, b", a, b. */
#define SIMT_PARAMETERS(...)     \
    SIMT_KERNEL(__func__, true); \
    simt::parameters(&simt_kernel, __VA_ARGS__);
#else
#define SIMT_BODY_TAKING(...)     \
    SIMT_KERNEL(__func__, false); \
    SIMT_LAUNCH(__VA_ARGS__)
#define SIMT_PARAMETERS(...)
#endif
/* Mark where a thread reaches the end of a kernel's body, and where it returns
 * from a device function before that function's end; see check_at_barrier(). */
#ifdef SIMT_CHECK
#define SIMT_AT_END simt::checked_end();
#define SIMT_LEAVES simt::leaves();
#else
#define SIMT_AT_END
#define SIMT_LEAVES
#endif
#define SIMT_KERNEL(name, checked)                                    \
    static simt::Kernel simt_kernel = {name, 0, 0, checked, 0, 0, 0}; \
    if (simt::asked(&simt_kernel)) return
#define SIMT_LAUNCH(...)       \
    simt::launch(&simt_kernel, \
                 __VA_ARGS__() mutable __attribute__((always_inline)) {
#define SIMT_END \
    SIMT_AT_END  \
    });

/* Declare shared arrays. The members of the struct before `site` are the arrays
 * of one __shared__ declaration, each in SIMT_NAMED. */
#ifdef SIMT_CHECK
#define SIMT_SHARED(site, type, ...)                                  \
    static simt::SharedSite site;                                     \
    static const simt::SharedMember site##_members[] = {__VA_ARGS__}; \
    type &site##_arrays = simt::shared<type>(&site, site##_members)
#define SIMT_NAMED(Arrays, name)                                           \
    {#name, __builtin_offsetof(Arrays, name), sizeof(((Arrays *)0)->name), \
     sizeof(typename simt::ElementOf<decltype(Arrays::name)>::type),       \
     simt::sides_of<decltype(Arrays::name)>()},
#define SIMT_CALLED(name) = {#name}
/* List the device variables in a file of a whole program, as " a b ". */
#define SIMT_DEVICE_NAMES(names)                                   \
    __attribute__((constructor)) static void simt_device_names() { \
        simt::checked_device_names(names);                         \
    }
#else
#define SIMT_SHARED(site, type, ...) \
    static simt::SharedSite site;    \
    type &site##_arrays = simt::shared<type>(&site)
#define SIMT_CALLED(name)
#define SIMT_DEVICE_NAMES(names)
#endif

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
#define SIMT_NOINLINE __attribute__((noinline)) /* instead of __noinline__ */

namespace simt {

/* threadIdx and similar variables are empty objects, not macros, since a
 * program may have variables and fields of these names. `threadIdx.x` converts
 * to unsigned. rewrite.py replaces it with simt::x(threadIdx), which is
 * unsigned where that matters (min(), printf()). */
#define SIMT_BUILTIN(Name, Vector, value)                               \
    struct Name {                                                       \
        struct X {                                                      \
            operator unsigned() const { return peek((value).x); }       \
        } x;                                                            \
        struct Y {                                                      \
            operator unsigned() const { return peek((value).y); }       \
        } y;                                                            \
        struct Z {                                                      \
            operator unsigned() const { return peek((value).z); }       \
        } z;                                                            \
        operator Vector() const {                                       \
            return {peek((value).x), peek((value).y), peek((value).z)}; \
        }                                                               \
    };                                                                  \
    SIMT_INLINE unsigned x(const Name &) { return peek((value).x); }    \
    SIMT_INLINE unsigned y(const Name &) { return peek((value).y); }    \
    SIMT_INLINE unsigned z(const Name &) { return peek((value).z); }

SIMT_BUILTIN(ThreadIdx, uint3, here()->thread.index)
SIMT_BUILTIN(BlockIdx, uint3, peek(here()->block)->index)
SIMT_BUILTIN(BlockDim, dim3, peek(here()->block)->block_dim)
SIMT_BUILTIN(GridDim, dim3, peek(here()->block)->grid_dim)
#undef SIMT_BUILTIN

/* Return a component of a program's own variable that has a built-in's name. */
template <class V> SIMT_INLINE auto x(V &v) -> decltype((v.x)) { return v.x; }
template <class V> SIMT_INLINE auto y(V &v) -> decltype((v.y)) { return v.y; }
template <class V> SIMT_INLINE auto z(V &v) -> decltype((v.z)) { return v.z; }

} // namespace simt

inline constexpr simt::ThreadIdx threadIdx{};
inline constexpr simt::BlockIdx blockIdx{};
inline constexpr simt::BlockDim blockDim{};
inline constexpr simt::GridDim gridDim{};
inline constexpr int warpSize = simt::WARP;

/* The source position of a barrier, for the watch build, so that two barriers
 * in a branch are distinct. */
#ifdef SIMT_CHECK
#define SIMT_WHERE \
    const char *file = __builtin_FILE(), unsigned line = __builtin_LINE()
#define SIMT_AND_WHERE , SIMT_WHERE
#define SIMT_THERE , file, line
#define SIMT_PLACE file, line
#else
#define SIMT_WHERE
#define SIMT_AND_WHERE
#define SIMT_THERE
#define SIMT_PLACE
#endif

SIMT_INLINE void __syncthreads(SIMT_WHERE) { simt::barrier(0 SIMT_THERE); }

/* Synchronise like __syncthreads(), and return the number of threads whose
 * predicate is not 0. */
SIMT_INLINE int __syncthreads_count(int predicate SIMT_AND_WHERE) {
    return simt::barrier(predicate != 0 SIMT_THERE);
}

/* Synchronise like __syncthreads(), and return whether any predicate (_or) or
 * every predicate (_and) is not 0. */
SIMT_INLINE int __syncthreads_or(int predicate SIMT_AND_WHERE) {
    return simt::barrier(predicate != 0 SIMT_THERE) != 0;
}
SIMT_INLINE int __syncthreads_and(int predicate SIMT_AND_WHERE) {
    return simt::barrier(predicate == 0 SIMT_THERE) == 0;
}

#ifdef SIMT_CHECK
SIMT_INLINE void __threadfence() { simt::checked_fence(true); }
SIMT_INLINE void __threadfence_block() { simt::checked_fence(false); }
#else
SIMT_INLINE void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
SIMT_INLINE void __threadfence_block() { __threadfence(); }
#endif
SIMT_INLINE void __threadfence_system() { __threadfence(); }

/* End the launch with an error. On a GPU, the second function wakes a
 * debugger. */
SIMT_INLINE void __trap() { simt::trap(); }
SIMT_INLINE void __brkpt() { simt::trap(); }

/* Let other threads run; the requested time is ignored. */
SIMT_INLINE void __nanosleep(unsigned) { simt::spin(simt::here()); }

/* Programmatic dependent launch. In this runtime a kernel begins when the
 * previous one is over, so there is nothing to wait for and nothing to
 * trigger. */
SIMT_INLINE void cudaGridDependencySynchronize() {}
SIMT_INLINE void cudaTriggerProgrammaticLaunchCompletion() {}

/* Return a counter that grows with time, in nanoseconds instead of cycles. */
SIMT_INLINE long long clock64() { return simt_nanoseconds(); }

#endif
