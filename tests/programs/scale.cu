/* scale.cu -- multiplies numbers from stdin by argv[1]; exits with argv[2]. */
#include <cstdio>
#include <cstdlib>
#include <vector>

__global__ void scale(float *x, float factor, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= factor;
}

int main(int argc, char **argv) {
    std::vector<float> host;
    for (float x; scanf("%f", &x) == 1;) host.push_back(x);
    const int n = host.size();
    float *device;
    cudaMalloc(&device, n * sizeof(float));
    cudaMemcpy(device, host.data(), n * sizeof(float), cudaMemcpyHostToDevice);
    scale<<<(n + 31) / 32, 32>>>(device, atof(argv[1]), n);
    cudaMemcpy(host.data(), device, n * sizeof(float), cudaMemcpyDeviceToHost);
    printf("%s %d:", argv[0], argc);
    for (float x : host) printf(" %g", x);
    printf("\n");
    fprintf(stderr, "%d numbers\n", n);
    if (FILE *file = fopen("scale.out", "w")) fclose(file);
    if (argc > 2 && atoi(argv[2]) < 0) abort();
    return argc > 2 ? atoi(argv[2]) : 0;
}
