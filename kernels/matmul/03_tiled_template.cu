/* 03_tiled_template.cu -- rung 3 with the tile's width as a template argument.
 *
 * Before:      03_tiled.cu has one width; 03_tiled_runtime.cu accepts any width
 *              but is slow.
 * Idea:        the compiler generates a kernel for each width that is launched.
 *              Narrow products get blocks with fewer idle threads.
 * Prediction:  at TILE 32 exactly the instructions of 03_tiled.cu.
 * Measured:    H200, 4096^3: 8.4 TFLOP/s, the same as 03_tiled.cu.
 * Limit:       the same as in 03_tiled.cu. In addition, each width is more code
 *              to compile and load.
 * Lesson:      notebooks/08a_matmul_tiles.ipynb */
#include "matmul.h"

/* Compute c (m,n) = a (m,k) @ b (k,n), row-major. One thread computes one
 * element of c. */
template <int TILE>
static __global__ void matmul_tiled_template(float *c, const float *a,
                                             const float *b, int m, int n,
                                             int k, struct extras x) {
    __shared__ float a_s[TILE][TILE], b_s[TILE][TILE];
    own_matrix(&c, &a, &b, x);
    const int tx = threadIdx.x, ty = threadIdx.y;
    const unsigned row = blockIdx.y * TILE + ty;
    const unsigned col = blockIdx.x * TILE + tx;

    float acc = 0.0f;
    for (unsigned k0 = 0; k0 < (unsigned)k; k0 += TILE) {
        // No thread returns early at an edge, since its neighbours read the
        // tile elements that it loads.
        a_s[ty][tx] = load_or_zero(a, m, k, row, k0 + tx);
        b_s[ty][tx] = load_or_zero(b, k, n, k0 + ty, col);
        __syncthreads(); // wait until both tiles are complete
        for (int i = 0; i < TILE; i++) acc += a_s[ty][i] * b_s[i][tx];
        __syncthreads(); // wait until both tiles have been read
    }
    if (row < (unsigned)m && col < (unsigned)n) store(c, n, row, col, acc, x);
}

template <int TILE>
static int launch_tiles(const struct product *q, cudaStream_t stream) {
    const dim3 block(TILE, TILE);
    const dim3 grid = matmul_grid(q, TILE, TILE);
    matmul_tiled_template<TILE><<<grid, block, 0, stream>>>(
        q->c, (const float *)q->a, (const float *)q->b, q->m, q->n, q->k,
        q->extras);
    WEFT_LAUNCHED(matmul_tiled_template);
    return WEFT_OK;
}

/* Launch blocks of TILE * TILE threads: 1024, or fewer if m or n is small. */
static int launch(const struct product *q, cudaStream_t stream) {
    const int side = q->m < q->n ? q->m : q->n;
    if (side <= 8) return launch_tiles<8>(q, stream);
    if (side <= 16) return launch_tiles<16>(q, stream);
    return launch_tiles<32>(q, stream);
}

MATMUL_RUNG(tiled_template, "tiles, their width a template's", "fp32",
            WEFT_CPU | WEFT_CUDA, 0, PLAIN, launch, NULL)
