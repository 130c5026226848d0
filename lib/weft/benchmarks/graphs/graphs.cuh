/* graphs.cuh -- declarations that graphs.cu and overlap.cu share. */
#ifndef WEFT_BENCH_GRAPHS_CUH
#define WEFT_BENCH_GRAPHS_CUH
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

/* End the program with the place and the reason if a CUDA call failed. */
#define CHECK(call)                                                       \
    do {                                                                  \
        cudaError_t error_ = (call);                                      \
        if (error_ != cudaSuccess) {                                      \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, \
                    cudaGetErrorString(error_));                          \
            exit(1);                                                      \
        }                                                                 \
    } while (0)

extern int samples; /* of each measurement, after a few that are not noted */

/* The host's clock. */
static inline double now_us(void) {
    using namespace std::chrono;
    return duration<double, std::micro>(steady_clock::now().time_since_epoch())
        .count();
}

/* v -> v / 2 + 1, so many times: work for as long as one likes. */
static inline __host__ __device__ float halved(float v, int turns) {
    for (int turn = 0; turn < turns; turn++) v = 0.5f * v + 1;
    return v;
}

/* overlap.cu. */
void time_overlaps(int part, int turns);

#endif
