/* wgmma_parts.cuh -- tiles whose k is divided among several blocks.
 *
 * Before:  at 64x65536x64, c is a single tile, so one multiprocessor of 132
 *          works. At 3000^3 there are 2.2 rounds of tiles, and the third takes
 *          as long as the others.
 * Idea:    if the last round is not full, its tiles are cut along k into parts,
 *          each of which is a unit of work like a tile. A part's sums go to the
 *          scratch memory in the order of the registers, 16 bytes per thread,
 *          with those of neighbours adjacent. A second kernel adds them, always
 *          in the same order, and applies the remaining operations to c.
 * Predict: 64x65536x64 of bf16: 128 parts, 4 us for 16 MB of a and b, 1 for 2
 *          MB of sums in the L2 cache, 2 for the second launch.
 * Measured: H200, bf16, us, before and now: 64x65536x64 267 and 8.8,
 *          256x16384x256 71 and 12.0, 33x8191x257 (its copies included) 44 and
 *          15; 3000^3 110 in three rounds and 96. If the first kernel lets the
 *          second begin early, the blocks of the second crowd the
 *          multiprocessors where no block of the first runs: 11 us instead of
 *          8.8.
 * Limit:   the second launch: for a short product it costs more than idle
 *          multiprocessors do. At 256x16384x256, the 4 MB of sums. */
#ifndef WEFT_WGMMA_PARTS_CUH
#define WEFT_WGMMA_PARTS_CUH
#include "wgmma_store.cuh"

enum {
    CONSUMERS = 2 * WARPGROUP, // number of threads that hold sums
    ADDERS = 256,              // threads per block of the second kernel
    MANY_PARTS = 16,
    GROUPS = 8, // lanes that share a sum of MANY_PARTS or more parts
};

/* Return the address of a part's sums for block `rank` of a cluster. */
template <int BN>
PTX_INLINE float4 *sums_of(const struct tiles &t, int part, int rank) {
    const size_t fours = BM * BN / 4;
    return (float4 *)t.sums + ((size_t)part * t.cluster + rank) * fours;
}

/* Store a consumer's sums of part `part`. The second kernel reads only those
 * inside c. */
template <int BN, int TURNED>
PTX_INLINE void store_part(const float (&acc)[BN / 2], const struct piece &p,
                           const struct tiles &t) {
    const int thread = (int)threadIdx.x - WARPGROUP;
    const spot<TURNED> own(p.at, t, thread);
    float4 *const to = sums_of<BN>(t, p.part, (int)cluster_rank()) + thread;
#pragma unroll
    for (int i = 0; i < BN / 2; i += 4)
        if (own.inside(i))
            to[i / 4 * CONSUMERS] =
                make_float4(acc[i], acc[i + 1], acc[i + 2], acc[i + 3]);
}

/* Store a consumer's part of a tile, or its sums of a part of k. */
template <class S, int TURNED>
PTX_INLINE void store_piece(float *c, const tensor_map *c_map, char *out_s,
                            float (&acc)[S::BN / 2], const struct piece &p,
                            const struct tiles &t, const struct extras &x) {
    if (p.part < 0)
        store_tile<S, TURNED>(c, c_map, out_s, acc, p.at, t, x);
    else
        store_part<S::BN, TURNED>(acc, p, t);
}

/* Compute c (m,n) = finish(sums of the parts) for the tiles that were cut,
 * which blockIdx.y counts. This is the second kernel. A lane computes four
 * neighbouring sums. If there are many parts, `groups` lanes compute the same
 * four sums and divide the parts among them. */
template <int BN, int TURNED>
static __device__ __forceinline__ void
add_sums(float *c, int groups, const struct tiles &t, const struct extras &x) {
    const int cut = (int)blockIdx.y / t.cluster;
    const int rank = (int)blockIdx.y % t.cluster;
    const int thread = (int)(blockIdx.x * ADDERS + threadIdx.x);
    const int side = 32 / groups, lane = thread % 32;
    const int four = thread / 32 * side + lane % side;
    const int i = four / CONSUMERS * 4;
    const struct tile at = tile_at(t, t.whole + cut, rank, BN);
    const spot<TURNED> own(at, t, four % CONSUMERS);
    float sum[4] = {};
    pdl_wait(); // the parts' sums are complete
    if (own.inside(i))
#pragma unroll 8
        for (int part = lane / side; part < t.parts; part += groups) {
            const float4 s = sums_of<BN>(t, cut * t.parts + part, rank)[four];
            sum[0] += s.x, sum[1] += s.y, sum[2] += s.z, sum[3] += s.w;
        }
    for (int mask = side; mask < 32; mask *= 2)
        for (int j = 0; j < 4; j++)
            sum[j] += __shfl_xor_sync(0xffffffffu, sum[j], mask);
    if (lane >= side) return;
    for (int j = 0; j < 4; j++)
        if (own.inside(i + j))
            store(c + at.item * x.step_c, own.cols, own.row + own.down(i + j),
                  own.col + own.along(i + j), sum[j], x);
}

#endif
