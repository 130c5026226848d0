/* 07_tma.cu -- transpose, rung 7: the TMA fetches and stores the tiles.
 *
 * Before:     a thread of rung 6 computes an address for each 16 bytes, and
 *             moves each number through shared memory by itself.
 * Idea:       one thread requests a tile of 64 x 64 as two boxes, and sends the
 *             transposed tile as two boxes. In between, a thread transposes a
 *             square of 4 x 4 in registers: four loads of 16 bytes, a barrier,
 *             and four stores to the same 16 KB. TMA swizzles the boxes, and
 *             eight lanes take squares along a diagonal, so that their 16-byte
 *             chunks use all banks in both directions. Tiles follow one
 *             another down the columns of x, so blocks that run at the same
 *             time write consecutive parts of y's rows. On an H200, a matrix
 *             of 16384 x 16384 moves at 4095 GB/s in this order, and at 3870
 *             along the rows of x.
 * Prediction: a quarter of rung 6's instructions for shared memory, and no
 *             checks of edges, for the same sectors. The 8 blocks on a
 *             multiprocessor keep 128 KB in flight.
 * Limit:      the memory. The rung needs compute capability 9.0; rows must
 *             begin at multiples of 16 bytes, or rung 5 runs. */
#include "transpose.cuh"

#include "common/hopper.cuh"

/* A tile has SIDE rows of SIDE floats: two boxes of SIDE rows of 128 bytes. */
enum { SIDE = 64, WIDTH = 32, SQUARE = 4, BOX = SIDE * WIDTH * 4 };

/* Return the address of the 16 bytes at chunk `chunk` (0 to 15) of row `row` of
 * a tile. */
static __device__ __forceinline__ float4 *chunk_at(char *tile, unsigned row,
                                                   unsigned chunk) {
    const unsigned at = row * 128 + chunk % 8 * 16;
    return (float4 *)(tile + chunk / 8 * BOX + swizzled(at));
}

/* Transpose a tile in place; each of 256 threads has a square of 4 x 4. */
static __device__ __forceinline__ void transpose_squares(char *tile) {
    const unsigned t = threadIdx.x;
    // A square's place in its quadrant of 8 x 8, on a diagonal, and in the
    // tile.
    const unsigned col = t % 8, row = col ^ t / 8 % 8;
    const unsigned across = t / 64 % 2 * 8 + col, down = t / 128 * 8 + row;
    float4 v[SQUARE];
#pragma unroll
    for (int i = 0; i < SQUARE; i++)
        v[i] = *chunk_at(tile, SQUARE * down + i, across);
    __syncthreads(); // all squares are in registers
    *chunk_at(tile, SQUARE * across, down) =
        make_float4(v[0].x, v[1].x, v[2].x, v[3].x);
    *chunk_at(tile, SQUARE * across + 1, down) =
        make_float4(v[0].y, v[1].y, v[2].y, v[3].y);
    *chunk_at(tile, SQUARE * across + 2, down) =
        make_float4(v[0].z, v[1].z, v[2].z, v[3].z);
    *chunk_at(tile, SQUARE * across + 3, down) =
        make_float4(v[0].w, v[1].w, v[2].w, v[3].w);
}

static __global__ void __launch_bounds__(256)
    transpose_tma(const __grid_constant__ tensor_map y,
                  const __grid_constant__ tensor_map x, unsigned tiles_down) {
    extern __shared__ char raw_s[];
    __shared__ mbarrier arrived_s;
    char *tile = aligned_1024(raw_s);
    const int row = (int)(blockIdx.x % tiles_down * SIDE);
    const int col = (int)(blockIdx.x / tiles_down * SIDE);
    if (threadIdx.x == 0) {
        mbarrier_init(&arrived_s, 1);
        fence_barrier_init();
        mbarrier_expect(&arrived_s, 2 * BOX);
        tma_load(tile, &x, &arrived_s, col, row, 0);
        tma_load(tile + BOX, &x, &arrived_s, col + WIDTH, row, 0);
    }
    __syncthreads(); // the barrier is initialised
    mbarrier_wait(&arrived_s, 0);
    transpose_squares(tile);
    fence_proxy_async();
    __syncthreads(); // the transposed tile is complete
    if (threadIdx.x) return;
    tma_store(&y, tile, row, col, 0);
    tma_store(&y, tile + BOX, row + WIDTH, col, 0);
    tma_store_commit();
    tma_store_wait<0>(); // the tile is read before the block ends
}

/* Make the map of a matrix for boxes of SIDE rows and WIDTH columns. */
static int map_matrix(tensor_map *map, const float *data, size_t rows,
                      size_t cols) {
    const struct tensor t = {TENSOR_FLOAT, data, cols, rows, cols, 1, 0};
    return tensor_map_make(map, &t, {WIDTH, SIDE, 1});
}

int transpose_by_tma(const struct matrix *m) {
    if (!rows_are_aligned(m)) return transpose_by_strips(m);
    tensor_map y, x;
    WEFT_TRY(map_matrix(&y, m->y, m->cols, m->rows));
    WEFT_TRY(map_matrix(&x, m->x, m->rows, m->cols));
    const unsigned down = CEIL_DIV(m->rows, SIDE);
    const size_t tiles = (size_t)down * CEIL_DIV(m->cols, SIDE);
    transpose_tma<<<(unsigned)tiles, 256, 2 * BOX + 1024, m->stream>>>(y, x,
                                                                       down);
    WEFT_LAUNCHED(transpose_tma);
    return WEFT_OK;
}
