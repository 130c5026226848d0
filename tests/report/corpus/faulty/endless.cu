/* endless.cu -- kernels that never end. */
#include "../cases.h"

__global__ void stands_still(const float *x, float *out, int n) {
    float sum = 0;
    for (int i = 0; i < n;) sum += x[i]; // FAULT: hang
    out[threadIdx.x] = sum;              // i++ is missing
}
CASE(a_loop_that_stands_still) {
    stands_still<<<1, 2>>>(values<float>(8), unwritten<float>(2), 8);
    return launched();
}

__global__ void search(int *out, const int *sorted, int n, int wanted) {
    int low = 0, high = n;
    while (low < high) {                     // FAULT: hang
        const int middle = (low + high) / 2; // OTHER
        if (sorted[middle] <= wanted)        // OTHER
            low = middle;                    // OTHER (meant: middle + 1)
        else
            high = middle; // OTHER
    }
    *out = low;
}
CASE(a_search_that_keeps_its_middle) {
    search<<<1, 1>>>(unwritten<int>(1), zeros<int>(8), 8, 3);
    return launched();
}

__global__ void waits(volatile int *flag, int *out) {
    while (!*flag) // FAULT: hang|deadlock
        ;
    *out = 1;
}
CASE(a_flag_that_nobody_raises) {
    waits<<<1, 2>>>(zeros<int>(1), unwritten<int>(1));
    return launched();
}

__global__ void too_many(unsigned *arrived, int *out) {
    atomicAdd(arrived, 1);
    while (atomicAdd(arrived, 0) < gridDim.x + 1) // FAULT: hang|deadlock
        __nanosleep(100);                         // OTHER
    *out = 1;
}
CASE(a_grid_barrier_that_counts_one_too_many) {
    too_many<<<2, 1>>>(zeros<unsigned>(1), unwritten<int>(1));
    return launched();
}

__global__ void ring(const int *next, int *out) {
    int hops = 0;
    for (int at = next[0]; at != -1; at = next[at]) hops++; // FAULT: hang
    *out = hops;
}
CASE(a_list_that_is_a_ring) {
    ring<<<1, 1>>>(zeros<int>(4), unwritten<int>(1));
    return launched();
}

__global__ void lock_and_wait(int *lock, int *sum) {
    while (atomicCAS(lock, 0, 1)) // FAULT: deadlock|hang
        ;
    *sum += 1;
    __threadfence();
    __syncthreads(); // OTHER
    atomicExch(lock, 0);
}
CASE(a_barrier_while_holding_a_lock) {
    lock_and_wait<<<1, 32>>>(zeros<int>(1), zeros<int>(1));
    return launched();
}
