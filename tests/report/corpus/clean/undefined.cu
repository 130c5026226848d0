/* undefined.cu -- shifts and conversions with the same result everywhere. */
#include <limits.h>

#include "../cases.h"

enum { N = 32 };

__global__ void shifts(unsigned *out, int k) {
    const unsigned i = threadIdx.x;
    out[i] = 1u << i | 0xffffffffu >> (31 - i);
    if (k < 32) out[i] ^= out[i] << k;
    out[i] ^= 0u << k ^ (unsigned)((unsigned long long)i << k >> k);
    out[i] ^= __funnelshift_rc(out[i], 0, k); // CUDA defines this
}
CASE(shifts_by_less_than_the_width) {
    unsigned *out = unwritten<unsigned>(N);
    shifts<<<1, N>>>(out, 40);
    return equal(out, N, [](int i) {
        return (unsigned)((2ull << i) - 1) ^ (unsigned)i;
    });
}

__global__ void ends(int *out, const float *x, float far) {
    const int i = threadIdx.x;
    out[i] = (int)-2147483648.0f == INT_MIN && (unsigned char)255.9f == 255;
    out[i] += (unsigned char)(-0.9f * (x[i] == x[i])) == 0;
    out[i] += __float2int_rz(far) == INT_MAX && __float2uint_rz(-far) == 0;
    out[i] += (short)fminf(far, 32767.0f) == 32767;
}
CASE(conversions_that_fit) {
    int *out = unwritten<int>(N);
    ends<<<1, N>>>(out, values<float>(N), 1e12f);
    return equal(out, N, [](int) { return 4; });
}

__global__ void overflow(int *out, int most) { // an int wraps, as on a GPU
    out[threadIdx.x] = most + 1 + (int)threadIdx.x < 0;
}
CASE(ints_that_wrap) {
    int *out = unwritten<int>(N);
    overflow<<<1, N>>>(out, INT_MAX);
    return equal(out, N, [](int) { return 1; });
}

CASE(what_the_host_shifts) { // the host's code is not checked
    volatile int count = 40;
    return ((1 << count) | 1) & 1;
}
