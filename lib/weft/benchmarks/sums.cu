/* sums.cu -- how tensor cores add: products in half, sums in float.
 *
 * The inputs have 16 bits, so every product is exact in float, and all errors
 * of c come from the additions. tensor.py describes the measurements. */
#include <cuda_fp16.h>
#include <mma.h>

namespace wmma = nvcuda::wmma;

/* c (m,n) = a (m,k) @ b (k,n), all sizes multiples of 16. The tensor core's
 * sums restart after every `every` steps of k, and ordinary additions total
 * them. A warp computes 16 x 16 of c. */
__global__ void promoted(float *c, const __half *a, const __half *b, int n,
                         int k, int every) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> a_f;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> b_f;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sums, totals;
    a += (size_t)blockIdx.y * 16 * k;
    b += blockIdx.x * 16;
    wmma::fill_fragment(sums, 0.0f);
    wmma::fill_fragment(totals, 0.0f);
    for (int k0 = 0; k0 < k; k0 += 16) {
        wmma::load_matrix_sync(a_f, a + k0, k);
        wmma::load_matrix_sync(b_f, b + (size_t)k0 * n, n);
        wmma::mma_sync(sums, a_f, b_f, sums); // adds in a tensor core
        if ((k0 + 16) % every == 0 || k0 + 16 == k) {
            for (int i = 0; i < totals.num_elements; i++)
                totals.x[i] += sums.x[i]; // an ordinary core adds
            wmma::fill_fragment(sums, 0.0f);
        }
    }
    c += (size_t)blockIdx.y * 16 * n + blockIdx.x * 16;
    wmma::store_matrix_sync(c, totals, n, wmma::mem_row_major);
}
