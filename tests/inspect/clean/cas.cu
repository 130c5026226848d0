/* cas.cu -- the CUDA guide's way to an atomic operation that a GPU lacks: its
 * first look is a plain one, and compare-and-swap puts it right. */
#include "../cases.h"

__device__ double add(double *address, double value) {
    unsigned long long *word = (unsigned long long *)address, seen = *word, old;
    do {
        old = seen;
        seen = atomicCAS(
            word, old, __double_as_longlong(value + __longlong_as_double(old)));
    } while (seen != old);
    return __longlong_as_double(seen);
}
__global__ void add_doubles(double *sum, const double *x) {
    add(sum, x[blockIdx.x * blockDim.x + threadIdx.x]);
}
CASE(atomic_cas_on_a_double) {
    double *sum = zeros<double>(1);
    add_doubles<<<3, 32>>>(sum, values<double>(96));
    int want = 0;
    for (int i = 0; i < 96; i++) want += value_at(i);
    return equal(sum, 1, [=](int) { return want; });
}
