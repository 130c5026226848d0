/* faults.cu -- one fault for each sanitizer, after a barrier: on a fiber. */
#define EXPORT extern "C" __attribute__((visibility("default")))

__global__ void overrun(int *x, int n) {
    __syncthreads();
    if (threadIdx.x == 3) x[n] = 1;
}
__global__ void shift(int *x, int by) {
    __syncthreads();
    x[threadIdx.x] = 1 << by;
}
__global__ void race(int *x) {
    __syncthreads();
    for (int i = 0; i < 1000; i++) *x += i;
}

EXPORT int run_overrun() {
    int *x = new int[8];
    overrun<<<1, 32>>>(x, 8);
    return cudaDeviceSynchronize();
}
EXPORT int run_shift() {
    static int x[32];
    shift<<<1, 32>>>(x, 40);
    return cudaDeviceSynchronize();
}
EXPORT int run_race() {
    static int x;
    race<<<64, 256>>>(&x);
    return cudaDeviceSynchronize();
}
