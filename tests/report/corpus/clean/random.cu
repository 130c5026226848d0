/* random.cu -- random numbers whose states persist between kernels. */
#include <curand_kernel.h>

#include "../cases.h"

enum { N = 64 };

__global__ void seed(curandState *states, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) curand_init(1234, i, 0, &states[i]);
}
__global__ void monte_carlo(curandState *states, int *inside, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    curandState mine = states[i];
    int hits = 0;
    for (int k = 0; k < 20; k++) {
        const float x = curand_uniform(&mine), y = curand_uniform(&mine);
        hits += x * x + y * y <= 1;
    }
    states[i] = mine;
    atomicAdd(inside, hits);
}
CASE(random_numbers) {
    curandState *states = unwritten<curandState>(100);
    int *inside = zeros<int>(1);
    seed<<<2, N>>>(states, 100);
    for (int i = 0; i < 2; i++) monte_carlo<<<2, N>>>(states, inside, 100);
    const double pi = *fetch(inside, 1) / 1000.0;
    return pi > 2.9 && pi < 3.4;
}
