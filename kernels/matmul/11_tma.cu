/* 11_tma.cu -- matmul: one thread requests whole tiles, and the last round is
 * divided among all blocks.
 *
 * Before:  in the pipeline rung every thread computes addresses and copies 16
 *          bytes at a time, which takes instructions from the multiply-adds.
 *          Tiles are processed in rounds of one per multiprocessor, and the
 *          last round is not full.
 * Idea:    1. The tensor memory accelerator (TMA) copies boxes. Thread 0
 *             requests them, and a barrier that counts bytes signals their
 *             arrival: ../common/hopper.cuh describes the ring. TMA fills in
 *             zeros beyond the edges.
 *          2. a keeps its layout, rows along k: TMA swizzles its 16-byte
 *             chunks, so that a thread reads four steps of k per load without
 *             conflicts.
 *          3. The multiply-adds run back and forth, in an order that the
 *             compiler must keep: see multiply() in tma_multiply.cuh.
 *          4. The last round's tiles are cut along k: see tma_work.cuh.
 * Prediction: of 536 instructions for four steps of k, 512 are multiply-adds:
 *          95 % of the peak at most. Gain from cutting: 4096 has 512 tiles,
 *          3.88 rounds of 132 instead of 4: 3 %. 5120x256x5120 has 6.06 rounds
 *          instead of 7: 15 %.
 * Measured: H200: 4096^3 55.9 TFLOP/s; cuBLAS reaches 51.4. Through rung tuned:
 *          8192^3 56.1 (51.3); 5120x256x5120, as tma_pairs, 49.3 (40.9). In
 *          SASS, 55 of 1024 multiply-adds wait for a bank. Tried in an earlier
 *          version (H200, TFLOP/s): cutting, 4096 52.9 -> 53.9, 8192 52.9 ->
 *          54.5, 5120x256x5120 44.7 -> 45.3, where k is too short for much
 *          gain. A fence in each step of multiply() gave 53.9 at 4096. One a_r
 *          and fewer addresses instead of fences gave 55.6. Reading half of a_r
 *          later, with one fence, gives the present speed. Some orders with 29
 *          to 49 waiting multiply-adds were slower.
 * Limit:   tiles of 256 x 128 read least. A c of 1024 x 1024 has only 32 of
 *          them, so most multiprocessors get a piece of one at best.
 * Lesson:  notebooks/08b_matmul_pipeline.ipynb */
/* g++: -O1 */
/* nvcc: -Xptxas=-O1 */
#include "tma_launch.cuh"

template <class S>
static __global__ void __launch_bounds__(S::THREADS, S::BLOCKS)
    matmul_tma(float *c, const __grid_constant__ tensor_map a_map,
               const __grid_constant__ tensor_map b_map, int m, int n,
               const struct extras x, const struct work w) {
    extern __shared__ char raw_s[];
    __shared__ mbarrier full_s[S::STAGES], empty_s[S::STAGES];
    struct box box = {};          // the next box that thread 0 loads
    __shared__ unsigned before_s; // for add_pieces()
    struct ring<S> ring = {(float *)aligned_1024(raw_s), full_s, empty_s, 0, 0};
    if (threadIdx.x == 0) {
        start_ring(ring);
        first_box<S>(&box, w, x);
    }
    __syncthreads();
    pdl_wait(); // earlier kernels have written a and b
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
    struct places at = open_stage<S>(a_r[0], b_r[0], ring.stage(), own);
    for (int i = 0; i < pieces; i++) {
        const struct piece piece = piece_at(w, i);
        clear(acc);
        for (int left = piece.last - piece.first; left > 0; left--) {
            const int slot = ring.slot;
            // Fill the stage that precedes this one in the ring.
            if (threadIdx.x == 0)
                fill_stage<S>(&box, ring, slot ? slot - 1 : S::STAGES - 1,
                              slot ? ring.parity ^ 1 : ring.parity, &a_map,
                              &b_map, w, x);
            multiply_stage<S>(acc, a_r, b_r, &at, own, [&] {
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
            !add_pieces<TM, TN>(acc, blockIdx.x, piece, w, &before_s))
            continue;
        const struct place to = place_of<S::BM, S::BN>(piece.tile, w);
        store_rows<S, TM>(c + to.z * x.step_c, m, n, to.row0, to.col0, own, acc,
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
    const struct launch how = {"matmul_tma",     dim3((unsigned)blocks),
                               dim3(S::THREADS), S::SHARED_BYTES,
                               stream,           w.units == 0};
    return launch_kernel(how, matmul_tma<S>, q->c, a_map, b_map, q->m, q->n,
                         q->extras, w);
}

typedef shape<8, 1, 1, 4, 1> large; // 256 x 128, one block per multiprocessor
typedef shape<4, 1, 1, 3, 2> pairs; // 128 x 128, two: one stores while the
                                    // other multiplies

MATMUL_RUNG(tma, "the tensor memory accelerator fills the ring", "fp32",
            WEFT_CPU | WEFT_CUDA, 90, ALIGNED, tma_launch<large>,
            tma_scratch<large>)

/* This rung is not on the ladder; 40_tuned.cu uses it. */
MATMUL_RUNG(tma_pairs, "two smaller tiles a multiprocessor", "fp32",
            WEFT_CPU | WEFT_CUDA, 90, ALIGNED, tma_launch<pairs>,
            tma_scratch<pairs>)
