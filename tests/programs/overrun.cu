/* overrun.cu -- a program that ignores errors. It writes argv[1] elements into
 * an array of 100, and then performs the actions that the other words name. */
#include <iostream>
#include <stdio.h>
#include <stdlib.h>
#include <string>

__global__ void fill(float *out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = 1;
}
__global__ void fill_down(float *out) { out[-1 - (int)threadIdx.x] = 1; }
/* Only the upper half of the blocks prints; another CPU thread runs it. */
__global__ void print(const char *text) {
    if (blockIdx.x >= gridDim.x / 2) printf("%d %s\n", blockIdx.x, text);
}
__global__ void wait(const volatile int *forever) { while (*forever); }

int main(int, char **argv) {
    const int n = atoi(argv[1]);
    std::string then;
    for (int i = 2; argv[i]; i++) then += std::string(argv[i]) + " ";
    const auto is_named = [&](const char *what) {
        return then.find(std::string(what) + " ") != then.npos;
    };
    float *out, *other;
    std::ios::sync_with_stdio(false);
    cudaMalloc(&other, 400);
    cudaMalloc(&out, 400);
    fill<<<(n + 255) / 256, 256>>>(out, n);
    if (is_named("down")) fill_down<<<1, 20>>>(out);
    if (is_named("sync")) cudaDeviceSynchronize();
    if (is_named("free")) cudaFree(out);
    if (is_named("reset")) cudaDeviceReset();
    if (is_named("print")) print<<<9000, 1>>>((const char *)64);
    if (is_named("host")) {
        cudaMallocHost(&out, 400);
        out[128] = 1;
    }
    if (is_named("wait")) {
        int *forever;
        cudaMallocManaged(&forever, sizeof *forever);
        *forever = 1;
        wait<<<1, 1>>>(forever);
    }
    printf("printed\n");
    std::cout << "to its end\n";
    return is_named("status") ? 7 : 0;
}
