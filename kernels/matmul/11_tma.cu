/* 11_tma.cu -- matmul: the tensor memory accelerator fills the ring.
 *
 * Before:  the threads of the pipeline rung copy the tiles themselves.
 * Idea:    one thread asks TMA for whole boxes.
 * Lesson:  notebooks/08b_matmul_pipeline.ipynb
 */
/* nvcc: -Xptxas=-O1 */
#include "tma_tile.cuh"

template <class S>
static __global__ void __launch_bounds__(S::THREADS, S::BLOCKS)
    matmul_tma(float *c, const __grid_constant__ tensor_map a_map,
               const __grid_constant__ tensor_map b_map, int m, int n,
               const struct extras x, const struct work w) {
    extern __shared__ char raw_s[];
    __shared__ mbarrier full_s[S::STAGES], empty_s[S::STAGES];
    struct box box = {};          // thread 0's: the next to load
    __shared__ unsigned before_s; // of add_pieces()
    struct ring<S> ring = {(float *)aligned_1024(raw_s), full_s, empty_s, 0, 0};
    if (threadIdx.x == 0) {
        start_ring(ring);
        first_box<S>(&box, w, x);
    }
    __syncthreads();
    pdl_wait(); // what came before has written a and b
    if (threadIdx.x == 0)
#pragma unroll 1
        for (int s = 0; s < S::STAGES - 1; s++)
            fill_stage<S>(&box, ring, s, 0, &a_map, &b_map, w, x);

    const struct own own = own_part<S>();
    float acc[TM][TN];
    float4 a_r[2][TM], b_r[2][TN / 4];
    const int pieces = pieces_of_block(w);
    if (!pieces) return;
    mbarrier_wait(&ring.full[0], 0);
    open_stage<S>(a_r[0], b_r[0], ring.stage(), own);
    for (int i = 0; i < pieces; i++) {
        const struct piece piece = piece_at(w, i);
        clear(acc);
        for (int left = piece.last - piece.first; left > 0; left--) {
            const int slot = ring.slot;
            // The stage before this one is the next to be filled.
            if (threadIdx.x == 0)
                fill_stage<S>(&box, ring, slot ? slot - 1 : S::STAGES - 1,
                              slot ? ring.parity ^ 1 : ring.parity, &a_map,
                              &b_map, w, x);
            multiply_stage<S>(acc, a_r, b_r, ring.stage(), own, [&] {
                if (left > 1 || i + 1 < pieces) {
                    ring.next();
                    mbarrier_wait(&ring.full[ring.slot], ring.parity);
                }
                return ring.stage();
            });
            __syncwarp();
            if (threadIdx.x % 32 == 0) mbarrier_arrive(&ring.empty[slot]);
        }
        if (piece.last - piece.first < w.steps &&
            !add_pieces<TM, TN>(acc, piece, w, &before_s))
            continue;
        const struct place at = place_of<S::BM, S::BN>(piece.tile, w);
        store_rows<S, TM>(c + at.z * x.step_c, m, n, at.row0, at.col0, own, acc,
                          x);
    }
}

template <class S>
static int tma_launch(const struct product *q, cudaStream_t stream) {
    tensor_map a_map, b_map;
    WEFT_TRY(map_operands<S>(q, &a_map, &b_map));
    struct work w = work_of<S>(q);
    WEFT_TRY(work_place(&w, q->scratch, stream));
    const int most = blocks_at_once<S>();
    const int blocks = w.units || w.tiles > most ? most : w.tiles;
    return launch_tma(w.units == 0, "matmul_tma", matmul_tma<S>, blocks,
                      S::THREADS, S::SHARED_BYTES, stream, q->c, a_map, b_map,
                      q->m, q->n, q->extras, w);
}

typedef shape<8, 1, 1, 4, 1> large; // 256 x 128, one block a multiprocessor
typedef shape<4, 1, 1, 3, 2> pairs; // 128 x 128, two: one stores while the
                                    // other multiplies

MATMUL_RUNG(tma, "the tensor memory accelerator fills the ring", "fp32",
            WEFT_CPU | WEFT_CUDA, 90, ALIGNED, tma_launch<large>,
            tma_scratch<large>)

/* Not in the ladder: for 13_tuned.cu. */
MATMUL_RUNG(tma_pairs, "two smaller tiles a multiprocessor", "fp32",
            WEFT_CPU | WEFT_CUDA, 90, ALIGNED, tma_launch<pairs>,
            tma_scratch<pairs>)
