/* main.cu -- a program of four files. */
#include <cstdio>

#include "part.cuh"
#include "shapes.cuh"

int main() {
    float *p, h[6];
    int *q, twice;
    cudaMalloc(&p, sizeof h);
    cudaMalloc(&q, sizeof twice);
    fill<float><<<1, 2, 8>>>(p, 3.0f);
    ramp<<<1, 2>>>(p + 2);
    ramp_elsewhere(p + 4);
    of_part<<<1, 1>>>(q);
    cudaMemcpy(h, p, sizeof h, cudaMemcpyDeviceToHost);
    cudaMemcpy(&twice, q, sizeof twice, cudaMemcpyDeviceToHost);
    for (float x : h) printf("%g ", x);
    printf("%d %d %d\n", twice, in_cpp(Point{3}), in_c(4));
    return OFFSET;
}
