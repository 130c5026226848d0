/* half.cu -- half and bfloat16: conversions, arithmetic, pairs. */
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#define EXPORT extern "C" __attribute__((visibility("default")))
typedef unsigned short u16;

static __device__ __forceinline__ half narrow(float x, half) {
    return __float2half(x);
}
static __device__ __forceinline__ nv_bfloat16 narrow(float x, nv_bfloat16) {
    return __float2bfloat16(x);
}
static __device__ __forceinline__ float widen(half x) {
    return __half2float(x);
}
static __device__ __forceinline__ float widen(nv_bfloat16 x) {
    return __bfloat162float(x);
}

/* out[i] is the number whose bits are i. */
template <class T> static __global__ void widened(float *out, const T *x) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = widen(x[i]);
}

/* Round n numbers. */
template <class T>
static __global__ void narrowed(T *out, const float *x, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = narrow(x[i], T());
}

/* Perform eleven operations on three numbers each. */
template <class T>
static __global__ void arithmetic(T *out, const T *a, const T *b, const T *c,
                                  int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const T x = a[i], y = b[i], z = c[i];
    T *row = out + 11 * i;
    row[0] = __hadd_rn(x, y); // g++ must not contract this with the next line
    row[1] = __hsub_rn(x, y);
    row[2] = __hmul_rn(x, y);
    row[3] = x / y;
    row[4] = __hfma(x, y, z);
    row[5] = hsqrt(__habs(x));
    row[6] = __hmax(x, y);
    row[7] = __hmin(x, y);
    row[8] = __hfma_relu(x, y, z);
    row[9] = __hadd_sat(x, y);
    row[10] = -x;
}

/* Store comparisons as bits: == != < > <= >= equ ltu geu nan. */
template <class T>
static __global__ void comparisons(int *out, const T *a, const T *b, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const T x = a[i], y = b[i];
    int bits = (x == y) | (x != y) << 1 | (x < y) << 2 | (x > y) << 3;
    bits |= (x <= y) << 4 | (x >= y) << 5 | __hequ(x, y) << 6;
    bits |= __hltu(x, y) << 7 | __hgeu(x, y) << 8 | __hisnan(x) << 9;
    out[i] = bits;
}

#define RUN(T, name)                                                    \
    EXPORT int run_widened_##name(float *out, const T *x) {             \
        widened<<<256, 256>>>(out, x);                                  \
        return cudaGetLastError();                                      \
    }                                                                   \
    EXPORT int run_narrowed_##name(T *out, const float *x, int n) {     \
        narrowed<<<(n + 255) / 256, 256>>>(out, x, n);                  \
        return cudaGetLastError();                                      \
    }                                                                   \
    EXPORT int run_arithmetic_##name(T *out, const T *a, const T *b,    \
                                     const T *c, int n) {               \
        arithmetic<<<(n + 255) / 256, 256>>>(out, a, b, c, n);          \
        return cudaGetLastError();                                      \
    }                                                                   \
    EXPORT int run_comparisons_##name(int *out, const T *a, const T *b, \
                                      int n) {                          \
        comparisons<<<(n + 255) / 256, 256>>>(out, a, b, n);            \
        return cudaGetLastError();                                      \
    }
RUN(half, half)
RUN(nv_bfloat16, bfloat16)

/* Round floats towards zero, up and down, and doubles to the nearest. */
static __global__ void directed(u16 *out, const double *x, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float f = (float)x[i];
    u16 *row = out + 8 * i;
    row[0] = __half_as_ushort(__float2half_rz(f));
    row[1] = __half_as_ushort(__float2half_ru(f));
    row[2] = __half_as_ushort(__float2half_rd(f));
    row[3] = __half_as_ushort(__double2half(x[i]));
    row[4] = __bfloat16_as_ushort(__float2bfloat16_rz(f));
    row[5] = __bfloat16_as_ushort(__float2bfloat16_ru(f));
    row[6] = __bfloat16_as_ushort(__float2bfloat16_rd(f));
    row[7] = __bfloat16_as_ushort(__double2bfloat16(x[i]));
}

EXPORT int run_directed(u16 *out, const double *x, int n) {
    directed<<<(n + 255) / 256, 256>>>(out, x, n);
    return cudaGetLastError();
}

/* Convert numbers to integers and back. */
static __global__ void integers(int *out, u16 *bits, const half *x,
                                const long long *n) {
    const int i = threadIdx.x;
    int *row = out + 8 * i;
    row[0] = __half2int_rn(x[i]);
    row[1] = __half2int_rz(x[i]);
    row[2] = __half2int_ru(x[i]);
    row[3] = __half2int_rd(x[i]);
    row[4] = __half2short_rn(x[i]);
    row[5] = __half2ushort_rn(x[i]);
    row[6] = (int)x[i];
    row[7] = (bool)x[i];
    u16 *to = bits + 4 * i;
    to[0] = __half_as_ushort(__ll2half_rn(n[i]));
    to[1] = __half_as_ushort(__int2half_rz((int)n[i]));
    to[2] = __bfloat16_as_ushort(__ll2bfloat16_rn(n[i]));
    to[3] = __bfloat16_as_ushort(__ull2bfloat16_rn(n[i]));
}

EXPORT int run_integers(int *out, u16 *bits, const half *x, const long long *n,
                        int count) {
    integers<<<1, count>>>(out, bits, x, n);
    return cudaGetLastError();
}

/* Compute the dot product of two vectors of pairs with shuffles and an atomic,
 * and try other operations on pairs. */
static __global__ void pairs(half *total, half2 *pair, float *out,
                             const half2 *a, const half2 *b) {
    const int t = threadIdx.x;
    half2 sum = __hmul2(a[t], b[t]);
    for (int step = 16; step; step /= 2)
        sum = __hadd2(sum, __shfl_down_sync(0xffffffff, sum, step));
    if (t % 32 == 0) {
        atomicAdd(total, __low2half(sum) + __high2half(sum));
        atomicAdd(pair, __floats2half2_rn(1.0f, 0.5f));
    }
    if (t) return;
    half2 v = make_half2(2.0f, -3.0f), w = __lowhigh2highlow(v);
    v += w;
    const float2 f = __half22float2(h2exp(__hneg2(v)));
    *out++ = f.x;
    *out++ = __low2float(__hmax2(v, w));
    *out++ = __high2float(__hfma2(w, w, __half2half2(1.0f)));
    *out++ = v == __halves2half2(-1.0f, -1.0f);
    *out++ = __heq2_mask(v, w) + (float)__hbgt2(v, w);
    *out++ = __low2float(__hcmadd(w, w, v)) + __high2float(__hge2(v, w));
    half h = 1.5f;
    *out++ = h++;
    *out++ = ++h * h;
    *out++ = (float)hexp(h) + sqrtf(h);
    *out++ = __hlt(h, 4) + 10 * (h > half(4)) + (h ? 100 : 0);
}

EXPORT int run_pairs(half *total, half2 *pair, float *out, const half2 *a,
                     const half2 *b) {
    pairs<<<1, 64>>>(total, pair, out, a, b);
    return cudaGetLastError();
}

/* These kernels need not be fast, and -O1 compiles them sooner than -O3. */
/* g++: -O1 */
