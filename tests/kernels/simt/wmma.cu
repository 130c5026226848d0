/* wmma.cu -- products of a warp's matrices, by nvcuda::wmma. */
#include <mma.h>

#define EXPORT extern "C" __attribute__((visibility("default")))
using namespace nvcuda;

/* Each warp computes d = 2 (a/2 b + c), with a's rows lda apart and so on. Warp
 * w takes the w-th of consecutive matrices. */
template <class T, class Stored, class C, int m, int n, int k, class A, class B>
static __global__ void product(C *d, const Stored *a, const Stored *b,
                               const C *c, int lda, int ldb, int ldc,
                               wmma::layout_t layout) {
    const bool a_rows = wmma::simt_is_row_major<A>::value;
    const bool b_rows = wmma::simt_is_row_major<B>::value;
    const int warp = threadIdx.x / 32;
    const int size = ldc * (layout == wmma::mem_row_major ? m : n);
    a += warp * lda * (a_rows ? m : k);
    b += warp * ldb * (b_rows ? k : n);
    wmma::fragment<wmma::matrix_a, m, n, k, T, A> a_f;
    wmma::fragment<wmma::matrix_b, m, n, k, T, B> b_f;
    wmma::fragment<wmma::accumulator, m, n, k, C> sum;
    wmma::load_matrix_sync(a_f, a, lda);
    wmma::load_matrix_sync(b_f, b, ldb);
    wmma::load_matrix_sync(sum, c + warp * size, ldc, layout);
    for (int i = 0; i < a_f.num_elements; i++)
        a_f.x[i] = Stored(0.5f * (float)a_f.x[i]);
    wmma::mma_sync(sum, a_f, b_f, sum);
    for (int i = 0; i < sum.num_elements; i++)
        sum.x[i] = C(2.0f * (float)sum.x[i]);
    wmma::store_matrix_sync(d + warp * size, sum, ldc, layout);
}

template <class T, class Stored, class C, int m, int n, int k, class A, class B>
static int run(C *d, const Stored *a, const Stored *b, const C *c, int lda,
               int ldb, int ldc, int layout) {
    product<T, Stored, C, m, n, k, A, B>
        <<<1, 64>>>(d, a, b, c, lda, ldb, ldc, (wmma::layout_t)layout);
    return cudaGetLastError();
}

#define RUN(name, T, Stored, C, m, n, k, A, B)                                 \
    EXPORT int run_##name##_##m##_##n##_##k##_##A##_##B(                       \
        C *d, const Stored *a, const Stored *b, const C *c, int lda, int ldb,  \
        int ldc, int layout) {                                                 \
        return run<T, Stored, C, m, n, k, wmma::A, wmma::B>(d, a, b, c, lda,   \
                                                            ldb, ldc, layout); \
    }
#define RUN_TWO(name, T, Stored, C, m, n, k)               \
    RUN(name, T, Stored, C, m, n, k, row_major, col_major) \
    RUN(name, T, Stored, C, m, n, k, col_major, row_major)
RUN_TWO(half, half, half, float, 16, 16, 16)
RUN(half, half, half, float, 16, 16, 16, row_major, row_major)
RUN(half, half, half, float, 16, 16, 16, col_major, col_major)
RUN_TWO(half, half, half, float, 32, 8, 16)
RUN_TWO(halves, half, half, half, 8, 32, 16)
RUN_TWO(bf16, nv_bfloat16, nv_bfloat16, float, 16, 16, 16)
RUN_TWO(bf16, nv_bfloat16, nv_bfloat16, float, 32, 8, 16)
RUN_TWO(bf16, nv_bfloat16, nv_bfloat16, float, 8, 32, 16)
RUN_TWO(tf32, wmma::precision::tf32, float, float, 16, 16, 8)

/* out[i] = x[i] rounded to tf32. */
static __global__ void rounded(float *out, const float *x, int n) {
    const int i = threadIdx.x;
    if (i < n) out[i] = wmma::__float_to_tf32(x[i]);
}
EXPORT int run_rounded(float *out, const float *x, int n) {
    rounded<<<1, n>>>(out, x, n);
    return cudaGetLastError();
}

/* Load with invalid arguments from one thread. */
static __global__ void misused(float *x, int ldm, int skew, int own, int gone) {
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> f;
    if ((int)threadIdx.x >= 32 - gone) return;
    wmma::load_matrix_sync(f, x + skew + own * (threadIdx.x == 5), ldm,
                           wmma::mem_row_major);
    wmma::store_matrix_sync(x, f, 16, wmma::mem_col_major);
}
EXPORT int run_misused(float *x, int ldm, int skew, int own, int gone) {
    misused<<<1, 32>>>(x, ldm, skew, own, gone);
    const int error = cudaDeviceSynchronize();
    cudaGetLastError(); // clear the error for the next launch of this process
    return error;
}

/* These kernels need not be fast, and -O1 compiles them sooner than -O3. */
/* g++: -O1 */
