/* scratch.cuh -- memory that a launcher needs only during its kernels. */
#ifndef WEFT_SCRATCH_CUH
#define WEFT_SCRATCH_CUH
#include "internal.cuh"

/* Memory for partial results, which belongs to the launch's stream. */
struct scratch {
    void *memory = NULL;
    cudaStream_t stream;

    explicit scratch(cudaStream_t stream_) : stream(stream_) {}
    scratch(const scratch &) = delete;
    ~scratch() {
        if (memory) cudaFreeAsync(memory, stream);
    }
    /* Allocate `bytes` for `op`, and return a weft_status. */
    int claim(const char *op, size_t bytes) {
        const cudaError_t error = cudaMallocAsync(&memory, bytes, stream);
        if (error == cudaSuccess) return WEFT_OK;
        cudaGetLastError(); // clear the error, which is not sticky
        if (error != cudaErrorMemoryAllocation)
            return weft_cuda_fail(error, "cudaMallocAsync");
        return weft_fail(WEFT_ENOMEM,
                         "%s: out of memory: %zu bytes for partial results", op,
                         bytes);
    }
};

#endif
