/* undefined.cu -- results that C++ leaves undefined, but a GPU defines. */
#include "../cases.h"

enum { N = 32 };

__global__ void shift_left(int *x, int k) {
    x[threadIdx.x] = (threadIdx.x + 1)
                     << (k + threadIdx.x); // FAULT: undefined, thread 1
}
CASE(a_shift_by_the_width) {
    int *x = zeros<int>(N);
    shift_left<<<1, N>>>(x, 31);
    return launched();
}

__global__ void mask_of(unsigned *x, int n) {
    if (threadIdx.x == 3)
        x[0] = 0xffffffffu >> (32 - n); // FAULT: undefined, thread 3
}
CASE(a_mask_of_no_bits) {
    mask_of<<<1, N>>>(zeros<unsigned>(N), 0);
    return launched();
}

__global__ void shift_back(long long *x, int k) {
    x[threadIdx.x] -= 5;
    x[threadIdx.x] >>= k - 1; // FAULT: undefined, thread 0
}
CASE(a_negative_count) {
    shift_back<<<1, N>>>(zeros<long long>(N), 0);
    return launched();
}

__global__ void grey(unsigned char *out, const float *x, float bias) {
    out[threadIdx.x] = x[threadIdx.x] - bias; // FAULT: undefined, thread 0
}
CASE(a_negative_float_as_unsigned_char) {
    grey<<<1, N>>>(zeros<unsigned char>(N), values<float>(N), 1.0e3f);
    return launched();
}

__global__ void bin(int *out, const float *x, float width) {
    out[threadIdx.x] =
        (int)(x[threadIdx.x] / width); // FAULT: undefined, block 0
}
CASE(a_float_that_is_no_int) {
    bin<<<1, N>>>(zeros<int>(N), values<float>(N), 0);
    return launched();
}

template <class T> __global__ void whole(T *out, const double *x, double by) {
    out[threadIdx.x] = (T)(x[threadIdx.x] + by); // FAULT: undefined
}
CASE(a_double_in_a_template) {
    whole<<<1, N>>>(zeros<unsigned>(N), zeros<double>(N), -1.0);
    return launched();
}
