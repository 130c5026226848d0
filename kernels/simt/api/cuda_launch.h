/* cuda_launch.h -- launches by function, properties of a kernel, and occupancy.
 *
 * A launch by function receives its arguments as pointers, so the kernel's type
 * must be known. In cudaLaunchKernel(add, ...), the type is that of the kernel.
 * If a program casts a kernel to `void *`, rewrite.py inserts a call of
 * simt::typed(), which records the type. */
#ifndef SIMT_CUDA_LAUNCH_H
#define SIMT_CUDA_LAUNCH_H
#include "cuda_device.h"
#include "driver_types.h"

namespace simt {

/* A function that calls the kernel at `function` with *arguments[0],
 * *arguments[1], ... */
typedef void (*Invoke)(const void *function, void **arguments);

#pragma GCC visibility push(default)
/* Record the function that calls the kernel at `function`. */
void remember(const void *function, Invoke invoke);
/* Return that function, or NULL if it is unknown. */
Invoke invoke_of(const void *function);
/* Launch the kernel. Return the error of this launch, or an error if `invoke`
 * is NULL. */
cudaError_t launch_by_function(const void *function, Invoke invoke,
                               const cudaLaunchConfig_t *config,
                               void **arguments);
#pragma GCC visibility pop

template <class T> struct Plain {
    typedef T type;
};
template <class T> struct Plain<T &> {
    typedef T type;
};

template <class... P, size_t... I>
void call_with(void (*kernel)(P...), void **arguments, Indices<I...>) {
    (void)arguments; // unused if there are no arguments
    kernel(*(typename Plain<P>::type *)arguments[I]...);
}

template <class... P> void invoke(const void *function, void **arguments) {
    call_with((void (*)(P...))function, arguments,
              Indices<__integer_pack(sizeof...(P))...>());
}

/* Return `kernel` itself, and record the function that calls it. */
template <class... P> void (*typed(void (*kernel)(P...)))(P...) {
    remember((const void *)kernel, invoke<P...>);
    return kernel;
}
template <class T> T &&typed(T &&other) { return (T &&)other; }

} // namespace simt

#pragma GCC visibility push(default)

cudaError_t cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block,
                             void **arguments, size_t shared = 0,
                             cudaStream_t stream = 0);
/* All blocks run at the same time, so that grid.sync() can wait for them. Their
 * number is limited to cudaOccupancyMaxActiveBlocksPerMultiprocessor() times
 * the number of the device's multiprocessors. */
cudaError_t cudaLaunchCooperativeKernel(const void *kernel, dim3 grid,
                                        dim3 block, void **arguments,
                                        size_t shared = 0,
                                        cudaStream_t stream = 0);
/* Only the attribute for cooperative launches has an effect. Clusters of more
 * than one block are rejected. All other attributes are ignored. */
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config,
                                const void *kernel, void **arguments);

/* Registers are not counted on a CPU, so numRegs is 0. sharedSizeBytes is known
 * after the kernel's first launch. */
cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes,
                                  const void *kernel);
cudaError_t cudaFuncSetAttribute(const void *kernel,
                                 enum cudaFuncAttribute attribute, int value);
cudaError_t cudaFuncSetCacheConfig(const void *kernel,
                                   enum cudaFuncCache config);
cudaError_t cudaFuncSetSharedMemConfig(const void *kernel,
                                       enum cudaSharedMemConfig config);
cudaError_t cudaFuncGetName(const char **name, const void *kernel);

/* The rules are those of an sm_90, apart from registers. A multiprocessor has
 * room for 2048 threads, 64 warps and 32 blocks. It has 228 KB of shared
 * memory, 1 KB of which is reserved per block. */
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int *blocks, const void *kernel, int block_size, size_t dynamic_shared,
    unsigned flags);
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(
    int *blocks, const void *kernel, int block_size, size_t dynamic_shared);
cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t *bytes,
                                                      const void *kernel,
                                                      int blocks,
                                                      int block_size);
#pragma GCC visibility pop

/* ---- the same functions with the kernel itself --------------------------- */

template <class... P>
cudaError_t cudaLaunchKernel(void (*kernel)(P...), dim3 grid, dim3 block,
                             void **arguments, size_t shared = 0,
                             cudaStream_t stream = 0) {
    const void *function = (const void *)simt::typed(kernel);
    return cudaLaunchKernel(function, grid, block, arguments, shared, stream);
}
template <class... P>
cudaError_t cudaLaunchCooperativeKernel(void (*kernel)(P...), dim3 grid,
                                        dim3 block, void **arguments,
                                        size_t shared = 0,
                                        cudaStream_t stream = 0) {
    const void *function = (const void *)simt::typed(kernel);
    return cudaLaunchCooperativeKernel(function, grid, block, arguments, shared,
                                       stream);
}
template <class... P>
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config,
                                void (*kernel)(P...), void **arguments) {
    const void *function = (const void *)simt::typed(kernel);
    return cudaLaunchKernelExC(config, function, arguments);
}

namespace simt {
/* The arguments after conversion to the parameters' types. */
template <class... P> struct Values {
    static cudaError_t launch(const cudaLaunchConfig_t *config,
                              void (*kernel)(P...), P... values) {
        void *arguments[] = {(void *)__builtin_addressof(values)..., nullptr};
        return launch_by_function((const void *)kernel, invoke<P...>, config,
                                  arguments);
    }
};
} // namespace simt

template <class... P, class... A>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *config,
                               void (*kernel)(P...), A &&...arguments) {
    return simt::Values<P...>::launch(config, kernel, (A &&)arguments...);
}

template <class... P>
cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes,
                                  void (*kernel)(P...)) {
    return cudaFuncGetAttributes(attributes, (const void *)kernel);
}
template <class... P>
cudaError_t cudaFuncSetAttribute(void (*kernel)(P...),
                                 enum cudaFuncAttribute attribute, int value) {
    return cudaFuncSetAttribute((const void *)kernel, attribute, value);
}
template <class... P>
cudaError_t cudaFuncSetCacheConfig(void (*kernel)(P...),
                                   enum cudaFuncCache config) {
    return cudaFuncSetCacheConfig((const void *)kernel, config);
}
template <class... P>
cudaError_t cudaFuncSetSharedMemConfig(void (*kernel)(P...),
                                       enum cudaSharedMemConfig config) {
    return cudaFuncSetSharedMemConfig((const void *)kernel, config);
}
template <class... P>
cudaError_t cudaFuncGetName(const char **name, void (*kernel)(P...)) {
    return cudaFuncGetName(name, (const void *)kernel);
}
template <class... P>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(
    int *blocks, void (*kernel)(P...), int block_size, size_t dynamic_shared) {
    return cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        blocks, (const void *)kernel, block_size, dynamic_shared);
}
template <class... P>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int *blocks, void (*kernel)(P...), int block_size, size_t dynamic_shared,
    unsigned flags) {
    return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        blocks, (const void *)kernel, block_size, dynamic_shared, flags);
}
template <class... P>
cudaError_t
cudaOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, void (*kernel)(P...),
                                          int blocks, int block_size) {
    return cudaOccupancyAvailableDynamicSMemPerBlock(
        bytes, (const void *)kernel, blocks, block_size);
}

/* Find the block size with which a multiprocessor runs the most threads at the
 * same time, and the number of such blocks that fill the device. Of several
 * equally good sizes, the largest is chosen. `shared_of` returns the bytes of
 * dynamic shared memory for a block size. */
template <class Kernel, class SharedOf>
cudaError_t cudaOccupancyMaxPotentialBlockSizeVariableSMemWithFlags(
    int *min_grid, int *block_size, Kernel kernel, SharedOf shared_of,
    int limit = 0, unsigned flags = 0) {
    int best = 0, processors = 0;
    if (!min_grid || !block_size) return cudaErrorInvalidValue;
    cudaError_t error =
        cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0);
    int size = limit <= 0 || limit > 1024 ? 1024 : limit;
    for (; size > 0 && !error; size = (size - 1) / simt::WARP * simt::WARP) {
        int blocks = 0;
        error = cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
            &blocks, kernel, size, shared_of(size), flags);
        if (error || blocks * size <= best) continue;
        best = blocks * size;
        *block_size = size;
        *min_grid = blocks * processors;
    }
    return error;
}
template <class Kernel, class SharedOf>
cudaError_t cudaOccupancyMaxPotentialBlockSizeVariableSMem(int *min_grid,
                                                           int *block_size,
                                                           Kernel kernel,
                                                           SharedOf shared_of,
                                                           int limit = 0) {
    return cudaOccupancyMaxPotentialBlockSizeVariableSMemWithFlags(
        min_grid, block_size, kernel, shared_of, limit);
}
template <class Kernel>
cudaError_t cudaOccupancyMaxPotentialBlockSizeWithFlags(
    int *min_grid, int *block_size, Kernel kernel, size_t dynamic_shared = 0,
    int limit = 0, unsigned flags = 0) {
    return cudaOccupancyMaxPotentialBlockSizeVariableSMemWithFlags(
        min_grid, block_size, kernel,
        [dynamic_shared](int) { return dynamic_shared; }, limit, flags);
}
template <class Kernel>
cudaError_t cudaOccupancyMaxPotentialBlockSize(int *min_grid, int *block_size,
                                               Kernel kernel,
                                               size_t dynamic_shared = 0,
                                               int limit = 0) {
    return cudaOccupancyMaxPotentialBlockSizeWithFlags(
        min_grid, block_size, kernel, dynamic_shared, limit);
}
#endif
