/* wmma_tile.cuh -- the kernel of the wmma rungs for all of their precisions.
 *
 * wmma is the CUDA C++ interface of the tensor cores: a warp loads a fragment
 * of 16 x 16 from shared memory, multiplies two and adds a third. CUDA does not
 * specify which lane holds which element. So c passes through shared memory,
 * too, where a thread can find its rows and columns.
 *
 * Block:   8 warps, 2 down and 4 across, compute BM x BN elements of c. A warp
 *          has 4 x 2 fragments of sums (64 registers) and loads 4 fragments of
 *          a and 2 of b for 8 products. That is 3 loads for 4 products, whereas
 *          a single fragment takes 2 loads per product.
 * Banks:   rows of a tile are 16 bytes longer than a multiple of 128, so that 8
 *          rows of 16 bytes use all 32 banks. The b of tf32 is read word by
 *          word, so its rows are 32 bytes longer: 4 rows of 8 words.
 * Flight:  the next tiles are loaded into registers while the current ones are
 *          multiplied. */
#ifndef WEFT_WMMA_TILE_CUH
#define WEFT_WMMA_TILE_CUH
#include "common/ptx.cuh"
#include "matmul.h"

#include <mma.h>

namespace wmma = nvcuda::wmma;

enum {
    BM = 128,
    BN = 128,
    BK = 32,
    WARPS_M = 2,
    WARPS_N = 4,
    THREADS = WARPS_M * WARPS_N * 32,
    SIDE = 16,                    // rows and columns of a fragment of sums
    DOWN = BM / WARPS_M / SIDE,   // fragments per warp
    ACROSS = BN / WARPS_N / SIDE, //
};

/* Types and sizes that depend on the precision. P::stored is the numbers'
 * type in memory, P::element is wmma's name for it, P::K the depth of a
 * product. */
template <class P> struct wmma_tile {
    typedef typename P::stored T;
    enum {
        EACH = 16 / sizeof(T), // numbers in 16 bytes
        PITCH_A = BK + EACH,
        PITCH_B = BN + 8,
        ROW_A = BK / EACH, // 16-byte pieces in a row
        ROW_B = BN / EACH,
        LOADS_A = BM * ROW_A / THREADS,
        LOADS_B = BK * ROW_B / THREADS,
        BYTES = (BM * PITCH_A + BK * PITCH_B) * (int)sizeof(T),
    };
    static_assert(BYTES >= THREADS / 32 * SIDE * SIDE * 4,
                  "every warp's fragment of sums fits in the tiles' space");
};

/* Load this thread's LOADS 16-byte pieces of a tile at (row0,col0) of a matrix
 * (rows,cols), whose rows end in zeros. Pieces outside the matrix are zeros. */
template <int LOADS, int IN_ROW, class T>
static __device__ __forceinline__ void fetch(uint4 v[LOADS], const T *from,
                                             size_t pitch, int rows, int cols,
                                             unsigned row0, unsigned col0) {
#pragma unroll
    for (int i = 0; i < LOADS; i++) {
        const int at = threadIdx.x + i * THREADS;
        const unsigned row = row0 + at / IN_ROW;
        const unsigned col = col0 + at % IN_ROW * (unsigned)(16 / sizeof(T));
        v[i] = row < (unsigned)rows && col < (unsigned)cols
                   ? *(const uint4 *)(from + row * pitch + col)
                   : make_uint4(0, 0, 0, 0);
    }
}

/* Store the pieces that fetch() loaded in a tile in shared memory, converted
 * for the tensor cores. */
template <class P, int LOADS, int IN_ROW>
static __device__ __forceinline__ void put(typename P::stored *tile, int pitch,
                                           const uint4 v[LOADS]) {
    const int each = 16 / sizeof(typename P::stored);
#pragma unroll
    for (int i = 0; i < LOADS; i++) {
        const int at = threadIdx.x + i * THREADS;
        *(uint4 *)(tile + at / IN_ROW * pitch + at % IN_ROW * each) =
            P::ready(v[i]);
    }
}

/* Add this warp's part of a_s (BM,BK) @ b_s (BK,BN) to the sums. */
template <class P, class SUM>
static __device__ __forceinline__ void multiply(SUM sums[DOWN][ACROSS],
                                                const typename P::stored *a_s,
                                                const typename P::stored *b_s) {
    typedef wmma_tile<P> tile;
    typedef typename P::element E;
    const int warp = threadIdx.x / 32;
    a_s += warp / WARPS_N * DOWN * SIDE * tile::PITCH_A;
    b_s += warp % WARPS_N * ACROSS * SIDE;
#pragma unroll
    for (int k = 0; k < BK; k += P::K) {
        wmma::fragment<wmma::matrix_a, SIDE, SIDE, P::K, E, wmma::row_major>
            a_f[DOWN];
        wmma::fragment<wmma::matrix_b, SIDE, SIDE, P::K, E, wmma::row_major>
            b_f;
#pragma unroll
        for (int i = 0; i < DOWN; i++)
            wmma::load_matrix_sync(a_f[i], a_s + i * SIDE * tile::PITCH_A + k,
                                   tile::PITCH_A);
#pragma unroll
        for (int j = 0; j < ACROSS; j++) {
            wmma::load_matrix_sync(b_f, b_s + k * tile::PITCH_B + j * SIDE,
                                   tile::PITCH_B);
#pragma unroll
            for (int i = 0; i < DOWN; i++)
                wmma::mma_sync(sums[i][j], a_f[i], b_f, sums[i][j]);
        }
    }
}

/* Store the warp's sums to c, a fragment at a time, through the warp's SIDE x
 * SIDE floats of shared memory. */
template <class SUM>
static __device__ __forceinline__ void
store_sums(float *c, int m, int n, const SUM sums[DOWN][ACROSS], float *own,
           const struct extras &x) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const size_t row0 = (size_t)blockIdx.y * BM + warp / WARPS_N * DOWN * SIDE;
    const size_t col0 =
        (size_t)blockIdx.x * BN + warp % WARPS_N * ACROSS * SIDE;
    const int row = lane / 4, col = lane % 4 * 4;
#pragma unroll
    for (int i = 0; i < DOWN; i++)
#pragma unroll
        for (int j = 0; j < ACROSS; j++) {
            wmma::store_matrix_sync(own, sums[i][j], SIDE, wmma::mem_row_major);
            __syncwarp(); // the fragment is complete ...
            for (int half = 0; half < SIDE; half += SIDE / 2)
                store4(c, m, n, row0 + i * SIDE + half + row,
                       col0 + j * SIDE + col, own + (half + row) * SIDE + col,
                       x);
            __syncwarp(); // ... and has been read
        }
}

/* Compute the block's tile of c (m,n) = a (m,k) @ b (k,n), row-major, aligned
 * as ALIGNED requires. `shared` has wmma_tile<P>::BYTES bytes at a multiple of
 * 32. */
template <class P>
static __device__ __forceinline__ void
wmma_block(void *shared, float *c, const typename P::stored *a,
           const typename P::stored *b, int m, int n, int k,
           const struct extras &x) {
    typedef wmma_tile<P> tile;
    typename P::stored *const a_s = (typename P::stored *)shared;
    typename P::stored *const b_s = a_s + BM * tile::PITCH_A;
    own_matrix(&c, &a, &b, x);
    const unsigned row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;

    wmma::fragment<wmma::accumulator, SIDE, SIDE, P::K, float> sums[DOWN]
                                                                   [ACROSS];
#pragma unroll
    for (int i = 0; i < DOWN; i++)
#pragma unroll
        for (int j = 0; j < ACROSS; j++) wmma::fill_fragment(sums[i][j], 0.0f);

    uint4 a_v[tile::LOADS_A], b_v[tile::LOADS_B];
    fetch<tile::LOADS_A, tile::ROW_A>(a_v, a, x.pitch_a, m, k, row0, 0);
    fetch<tile::LOADS_B, tile::ROW_B>(b_v, b, x.pitch_b, k, n, 0, col0);
    for (unsigned k0 = BK; k0 < (unsigned)k + BK; k0 += BK) {
        put<P, tile::LOADS_A, tile::ROW_A>(a_s, tile::PITCH_A, a_v);
        put<P, tile::LOADS_B, tile::ROW_B>(b_s, tile::PITCH_B, b_v);
        __syncthreads(); // the tiles are complete ...
        // Load the next tiles; past the end of k they are zeros and unused.
        fetch<tile::LOADS_A, tile::ROW_A>(a_v, a, x.pitch_a, m, k, row0, k0);
        fetch<tile::LOADS_B, tile::ROW_B>(b_v, b, x.pitch_b, k, n, k0, col0);
        multiply<P>(sums, a_s, b_s);
        __syncthreads(); // ... and have been read
    }
    float *const own = (float *)shared + threadIdx.x / 32 * SIDE * SIDE;
    store_sums(c, m, n, sums, own, x);
}

#endif
