/* math.cu -- functions and intrinsics that need no #include. */
#include <cuda_runtime.h>
#include <stdio.h>

#define EXPORT extern "C" __attribute__((visibility("default")))
typedef unsigned long long u64;

/* Call CUDA's own functions and some of the C library's with one number. */
static __global__ void doubles(double *out, const double *x, int n) {
    const int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n) return;
    const double v = x[t], p = fabs(v) - floor(fabs(v)); // 0 <= p < 1
    double *row = out + 20 * t;
    *row++ = rsqrt(fabs(v));
    *row++ = rcbrt(v);
    *row++ = sinpi(v);
    *row++ = cospi(v);
    *row++ = erfinv(p);
    *row++ = erfcinv(2 * p);
    *row++ = erfcx(v);
    *row++ = normcdf(v);
    *row++ = normcdfinv(p);
    *row++ = cyl_bessel_i0(v);
    *row++ = cyl_bessel_i1(v);
    *row++ = j0(v);
    *row++ = exp10(v / 10);
    *row++ = norm3d(v, 2.0, 1.0);
    *row++ = rnorm4d(v, p, 1.0, 2.0);
    *row++ = rhypot(v, 3.0);
    double s, c;
    sincospi(v, &s, &c);
    *row++ = s + 2 * c;
    sincos(v, &s, &c);
    *row++ = s + 2 * c;
    *row++ = remainder(v, 1.5) + copysign(3.0, v) + fdim(v, 1.0);
    *row++ = scalbn(v, 3) + logb(v) + ilogb(v) + (double)llrint(v);
}

EXPORT int run_doubles(double *out, const double *x, int n) {
    doubles<<<(n + 63) / 64, 64>>>(out, x, n);
    return cudaGetLastError();
}

/* Call the same functions by their float names, and overloads. */
static __global__ void floats(float *out, const float *x, int n) {
    const int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n) return;
    const float v = x[t], p = fabsf(v) - floorf(fabsf(v));
    float *row = out + 20 * t;
    *row++ = rsqrtf(fabsf(v));
    *row++ = rcbrt(v);
    *row++ = sinpif(v);
    *row++ = cospi(v);
    *row++ = erfinvf(p);
    *row++ = erfcinvf(2 * p);
    *row++ = erfcxf(v);
    *row++ = normcdff(v);
    *row++ = normcdfinv(p);
    *row++ = cyl_bessel_i0f(v);
    *row++ = cyl_bessel_i1f(v);
    *row++ = j0f(v);
    *row++ = exp10f(v / 10);
    *row++ = norm3df(v, 2.0f, 1.0f);
    *row++ = rnorm4df(v, p, 1.0f, 2.0f);
    *row++ = rhypotf(v, 3.0f);
    float s, c;
    sincospif(v, &s, &c);
    *row++ = s + 2 * c;
    __sincosf(v, &s, &c);
    *row++ = s + 2 * c;
    *row++ = remainderf(v, 1.5f) + copysignf(3.0f, v) + fdimf(v, 1.0f);
    *row++ = scalbnf(v, 3) + logbf(v) + ilogbf(v) + (float)llrintf(v);
}

EXPORT int run_floats(float *out, const float *x, int n) {
    floats<<<(n + 63) / 64, 64>>>(out, x, n);
    return cudaGetLastError();
}

/* For each pair x, y: + - * / fma 1/x sqrt, each rounded in four ways. */
#define ROUNDED(row, mode)       \
    row[0] = ADD(mode)(x, y);    \
    row[1] = SUB(mode)(x, y);    \
    row[2] = MUL(mode)(x, y);    \
    row[3] = DIV(mode)(x, y);    \
    row[4] = FMA(mode)(x, y, x); \
    row[5] = RCP(mode)(x);       \
    row[6] = SQRT(mode)(x < 0 ? -x : x);

#define ADD(mode) __fadd_##mode
#define SUB(mode) __fsub_##mode
#define MUL(mode) __fmul_##mode
#define DIV(mode) __fdiv_##mode
#define FMA(mode) __fmaf_##mode
#define RCP(mode) __frcp_##mode
#define SQRT(mode) __fsqrt_##mode
static __global__ void rounded_floats(float *out, const float *a,
                                      const float *b) {
    const float x = a[threadIdx.x], y = b[threadIdx.x];
    float *row = out + 28 * threadIdx.x;
    ROUNDED(row, rn)
    row += 7;
    ROUNDED(row, rz)
    row += 7;
    ROUNDED(row, ru)
    row += 7;
    ROUNDED(row, rd)
}
#undef ADD
#undef SUB
#undef MUL
#undef DIV
#undef FMA
#undef RCP
#undef SQRT
#define ADD(mode) __dadd_##mode
#define SUB(mode) __dsub_##mode
#define MUL(mode) __dmul_##mode
#define DIV(mode) __ddiv_##mode
#define FMA(mode) __fma_##mode
#define RCP(mode) __drcp_##mode
#define SQRT(mode) __dsqrt_##mode
static __global__ void rounded_doubles(double *out, const double *a,
                                       const double *b) {
    const double x = a[threadIdx.x], y = b[threadIdx.x];
    double *row = out + 28 * threadIdx.x;
    ROUNDED(row, rn)
    row += 7;
    ROUNDED(row, rz)
    row += 7;
    ROUNDED(row, ru)
    row += 7;
    ROUNDED(row, rd)
}

EXPORT int run_rounded(float *f, double *d, const float *fa, const float *fb,
                       const double *da, const double *db, int n) {
    rounded_floats<<<1, n>>>(f, fa, fb);
    rounded_doubles<<<1, n>>>(d, da, db);
    return cudaGetLastError();
}

/* Convert floating point to integers and back, with values out of range. */
static __global__ void conversions(long long *out, float *back, const double *x,
                                   const long long *n) {
    const double d = x[threadIdx.x];
    const float f = (float)d;
    long long *row = out + 12 * threadIdx.x;
    *row++ = __float2int_rn(f), *row++ = __float2int_rz(f);
    *row++ = __float2int_ru(f), *row++ = __float2int_rd(f);
    *row++ = __double2int_rn(d), *row++ = __double2uint_rz(d);
    *row++ = __float2uint_rn(f), *row++ = __double2ll_rd(d);
    *row++ = (long long)__double2ull_ru(d), *row++ = __float2ll_rn(f);
    *row++ = __double2hiint(d), *row++ = __double2loint(d);
    const long long i = n[threadIdx.x];
    float *to = back + 8 * threadIdx.x;
    *to++ = __ll2float_rn(i), *to++ = __ll2float_rz(i);
    *to++ = __ll2float_ru(i), *to++ = __ll2float_rd(i);
    *to++ = __ull2float_rz((u64)i), *to++ = __ull2float_ru((u64)i);
    *to++ = __int2float_rd((int)i), *to++ = __double2float_ru(d);
}

EXPORT int run_conversions(long long *out, float *back, const double *x,
                           const long long *n, int count) {
    conversions<<<1, count>>>(out, back, x, n);
    return cudaGetLastError();
}

static __global__ void bits(unsigned *out, const unsigned *a,
                            const unsigned *b) {
    const unsigned x = a[threadIdx.x], y = b[threadIdx.x];
    unsigned *row = out + 36 * threadIdx.x;
    *row++ = __popc(x), *row++ = __clz(x), *row++ = __ffs(x);
    *row++ = __brev(x), *row++ = __popcll((u64)x << 32 | y);
    *row++ = __clzll(x), *row++ = __ffsll((u64)x << 32);
    *row++ = (unsigned)(__brevll((u64)x << 32 | y) >> 32);
    *row++ = __byte_perm(x, y, 0x5270), *row++ = __byte_perm(x, y, y);
    *row++ = __funnelshift_l(x, y, 36), *row++ = __funnelshift_r(x, y, 7);
    *row++ = __funnelshift_lc(x, y, 36), *row++ = __funnelshift_rc(x, y, 9);
    *row++ = __mulhi(x, y), *row++ = __umulhi(x, y);
    *row++ = (unsigned)__mul64hi((u64)x << 32, (u64)y << 32);
    *row++ = __mul24(x, y), *row++ = __umul24(x, y);
    *row++ = __sad(x, y, 5), *row++ = __usad(x, y, 5);
    *row++ = __hadd((int)x, (int)y), *row++ = __urhadd(x, y);
    *row++ = __dp4a(x, y, 3u), *row++ = __dp4a((int)x, (int)y, 3);
    *row++ = __vadd4(x, y), *row++ = __vsubss2(x, y);
    *row++ = __vmaxs4(x, y), *row++ = __vavgu4(x, y);
    *row++ = __vcmpgtu4(x, y), *row++ = __vsetles2(x, y);
    *row++ = __vsadu4(x, y), *row++ = __vabsdiffs2(x, y);
    *row++ = __vnegss4(x), *row++ = __vaddus2(x, y);
    *row++ = __fns(x, 3, 2);
}

EXPORT int run_bits(unsigned *out, const unsigned *a, const unsigned *b,
                    int n) {
    bits<<<1, n>>>(out, a, b);
    return cudaGetLastError();
}

/* Call min() and max() with mixed types, abs() and tests with all types. */
static __global__ void overloads(double *out) {
    const float f = -1.5f, nan = __int_as_float(0x7fffffff);
    const double d = -2.5;
    const short s = -3;
    const size_t z = 7;
    *out++ = min(-1, 2u), *out++ = max(-1ll, 2ll), *out++ = min(f, d);
    *out++ = max(z, (size_t)9), *out++ = min(s, s), *out++ = max(nan, f);
    *out++ = abs(f), *out++ = abs(d), *out++ = abs(s), *out++ = abs(-4ll);
    *out++ = isnan(nan) + 2 * isinf(d) + 4 * isfinite(f) + 8 * signbit(f);
    *out++ = pow(2.0f, 3) + pow(f, 2.0f) + sqrt(4.0f) + floor(f) + fma(f, f, f);
    *out++ = llmax(3, -4) + umin(3u, 4u) + fmaxf(nan, 5.0f);
}

EXPORT int run_overloads(double *out) {
    overloads<<<1, 1>>>(out);
    return cudaGetLastError();
}

/* Memory operations and output of device code. */
struct Node {
    int value;
    Node *next;
};

static __global__ void memory(int *out, const int *in, unsigned short *flags) {
    const int t = threadIdx.x;
    Node *list = 0;
    for (int i = 0; i <= t; i++) list = new Node{__ldg(in + i), list};
    int *copy = (int *)malloc(64 * sizeof(int));
    memset(copy, 0, 64 * sizeof(int));
    memcpy(copy, in, (t + 1) * sizeof(int));
    int sum = 0;
    while (list) {
        Node *next = list->next;
        sum += list->value;
        delete list;
        list = next;
    }
#pragma unroll
    for (int i = 0; i < 64; i++) sum -= copy[i];
    free(copy);
    __builtin_assume(t < 64);
    __stcg(out + t, sum + t);
    unsigned short seen, old = flags[t % 2];
    do { // count in 16 bits
        seen = old;
        old = atomicCAS(&flags[t % 2], seen, (unsigned short)(seen + 1));
    } while (old != seen);
    atomicAdd_block(out + 64, 1);
    atomicMax_system(out + 65, t);
    if (t == 5) printf("thread %d of %u: %.2f\n", t, blockDim.x, 0.25);
}

EXPORT int run_memory(int *out, const int *in, unsigned short *flags) {
    memory<<<1, 64>>>(out, in, flags);
    return cudaGetLastError();
}
