/* 32_wgmma_3xtf32.cu -- matmul in fp32's accuracy on the tensor cores of sm_90:
 * rung wgmma_3xtf32.
 *
 * Before:  tf32 has 10 bits of mantissa where fp32 has 23.
 * Idea:    x = hi + lo, hi the part of x that tf32 holds, lo = x - hi exactly
 *          (13 bits left). Then a b = lo hi + hi lo + hi hi + (lo lo, dropped):
 *          three products on tensor cores, which are eight times as fast as
 *          the ordinary cores. Nobody makes hi: tensor cores do not look at
 *          the low 13 bits, so x itself is hi to them. lo of a is made in
 *          registers, from which wgmma takes a; lo of b in shared memory, by
 *          a fourth warpgroup: no pass over memory beforehand.
 *          Tensor cores cut bits off where fp32 rounds, always downwards, so
 *          the sums of 32 of k are added up in ordinary registers.
 * Error:   of the sum of absolute products: lo lo is below 2^-20; of lo's 13
 *          bits tf32 holds 11 from the first 1 on, below 3 * 2^-23 lost of
 *          each factor; 12 sums of tensor cores below 2^-21 each, of 32
 *          products only; k / 32 additions, 2^-24 each. At most
 *              2^-17 + k / 32 * 2^-24
 *          Infinities: inf * lo may be NaN where inf * x is not, so elements
 *          that come out NaN are computed again, one by one.
 * Predict: a stage is 3 * 512 cycles of the tensor cores, 4096 takes 794 us
 *          at 1.98 GHz, 3.4 times as fast as fp32. Shared memory gives 128
 *          bytes a cycle; wgmma reads b for each product, 96 KB a stage, and
 *          with TMA's 32, a's 16 and b's splitting 32 it is busy for 1408 of
 *          1536 cycles.
 * Measured: H200, cool, over cuBLAS fp32, b stored (n,k). Three warps beside
 *          the producer split each stage together: 2.32 at 4096. A box for
 *          each of the three: 2.46. The fourth warpgroup: 2.46 (1091 us), 2.49
 *          at 8192; error 5.9e-7 where cuBLAS has 1.15e-6. b stored (k,n) is
 *          copied first: 2.39 and 2.45. Splitters that transpose b as well:
 *          2.03; c^T = b^T a^T as rung wgmma_tf32 does: 2.23 and 2.29.
 * Limit:   who splits b, and shared memory.
 * Lesson:  notebooks/08c_matmul_tensor_cores.ipynb
 */
/* g++: -O1 */
#include "wgmma_launch.cuh"

/* Tiles of BM x BN. A stage: a, b, and lo of b. */
template <int BN_> struct shape {
    typedef operand<float, BM, 1> a;
    typedef operand<float, BN_, 1> b;
    enum {
        BN = BN_,
        SPLITS = BN_ / 32, // boxes of b
        LOADED = (int)a::BYTES + (int)b::BYTES,
        STAGE = LOADED + (int)b::BYTES,
        STAGES = BN_ == 128 ? 4 : 6,
        BOXES = 2,            // of c, for each consumer
        OUT = STAGES * STAGE, // where they lie
        RING = OUT + 2 * BOXES * OUT_BYTES,
        SHARED = 1024 + RING + 3 * STAGES * 8,
    };
};

enum {
    // b is split in boxes of 32 columns by 32 of k, each by one warp.
    BOX = 32 * WGMMA_ROW,
    SPLITTERS = 4, // warps of the block's last warpgroup
    THREADS = WGMMA_THREADS + WARPGROUP,
    // 65536 for four warpgroups: 128 each at the start
    SPLITTER_REGISTERS = 40,
    MULTIPLIER_REGISTERS = 208,
};

/* What tf32 cuts off; of an infinity nothing. */
static __device__ __forceinline__ float low_part(float x) {
    const unsigned bits = __float_as_uint(x);
    const float rest = x - __uint_as_float(bits & 0xffffe000u);
    return (bits & 0x7fffffffu) == 0x7f800000u ? 0.0f : rest;
}

/* The splitters: lo of b, stage after stage. It lies as b does, whatever the
 * swizzle is. */
template <class S>
static __device__ __forceinline__ void
split_b(char *stages, mbarrier *full, mbarrier *split, const struct tiles &t) {
    place<S::STAGES> at;
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32 % 4;
    for (int i = first_piece(t); i < pieces(t); i += piece_step(t)) {
        const struct piece p = piece_at(t, i, S::BN);
        for (int step = p.first; step < p.last; step++) {
            mbarrier_wait(&full[at.stage], at.parity);
            char *const b_s = stages + at.stage * S::STAGE + S::a::BYTES;
            for (int box = warp; box < S::SPLITS; box += SPLITTERS) {
                const float4 *const from = (const float4 *)(b_s + box * BOX);
                float4 *const to = (float4 *)(b_s + S::b::BYTES + box * BOX);
#pragma unroll
                for (int j = lane; j < BOX / 16; j += 32) {
                    const float4 x = from[j];
                    to[j] = make_float4(low_part(x.x), low_part(x.y),
                                        low_part(x.z), low_part(x.w));
                }
                fence_proxy_async(); // wgmma reads it
                __syncwarp();
                if (lane == 0) mbarrier_arrive(&split[at.stage]);
            }
            at.next();
        }
    }
}

/* The calling thread's part of 64 rows x 32 of k: hi and lo of a for the four
 * products, as wgmma_tf32() wants them. Lanes 4 g + t read chunk 2 q or 2 q + 1
 * of rows g: the swizzle puts the eight chunks into different banks. */
static __device__ __forceinline__ void
split_a(uint32_t hi[4][4], uint32_t lo[4][4], const char *a_s) {
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32 % 4;
    const int g = lane / 4, t = lane % 4;
    const char *const row = a_s + (16 * warp + g) * WGMMA_ROW + t * 4;
#pragma unroll
    for (int q = 0; q < 4; q++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int chunk = (2 * q + i / 2) ^ g;
            const float x =
                *(const float *)(row + i % 2 * WGMMA_GROUP + chunk * 16);
            hi[q][i] = __float_as_uint(x);
            lo[q][i] = __float_as_uint(low_part(x));
        }
}

/* part = the products of a stage. */
template <class S>
static __device__ __forceinline__ void
multiply(float (&part)[S::BN / 2], const char *a_s, const char *b_s,
         mbarrier *split, unsigned parity) {
    uint32_t hi[4][4], lo[4][4];
    split_a(hi, lo, a_s);
    const uint64_t b_hi = wgmma_tile(b_s, 0);
    const uint64_t b_lo = wgmma_tile(b_s + S::b::BYTES, 0);
    mbarrier_wait(split, parity);
    wgmma_fence();
#pragma unroll
    for (int q = 0; q < 4; q++) {
        const int step = q * S::b::K_STEP;
        wgmma_tf32(part, lo[q], wgmma_step(b_hi, step), q > 0);
        wgmma_tf32(part, hi[q], wgmma_step(b_lo, step), 1);
        wgmma_tf32(part, hi[q], wgmma_step(b_hi, step), 1);
    }
    wgmma_commit();
    wgmma_wait<0>();
}

/* Compute again, as fp32 says, what is NaN in the calling thread's part. */
template <int COUNT>
static __device__ __forceinline__ void
mend(float (&sum)[COUNT], const float *a, const float *b, const struct piece &p,
     const struct tiles &t, const struct extras &x) {
    unsigned long long odd = 0;
#pragma unroll
    for (int i = 0; i < COUNT; i++)
        if (sum[i] != sum[i]) odd |= 1ull << i;
    const spot<0> own(p.at, t, (int)threadIdx.x - WARPGROUP);
    enum { BK = WGMMA_ROW / sizeof(float) };
    const int end = p.last * BK < t.k ? p.last * BK : t.k;
    for (; odd; odd &= odd - 1) {
        const int i = __ffsll((long long)odd) - 1;
        if (!own.inside(i)) continue;
        const float *const left =
            a + p.at.item * x.step_a + (own.row + own.down(i)) * x.pitch_a;
        const float *const right =
            b + p.at.item * x.step_b + (own.col + own.along(i)) * x.pitch_b;
        float again = 0.0f;
#pragma unroll 1
        for (int k = p.first * BK; k < end; k++) again += left[k] * right[k];
#pragma unroll
        for (int j = 0; j < COUNT; j++) sum[j] = j == i ? again : sum[j];
    }
}

/* A warpgroup: OWN_ROWS of every piece. */
template <class S>
static __device__ __forceinline__ void
consume(float *c, const tensor_map *c_map, const float *a, const float *b,
        char *stages, mbarrier *full, mbarrier *empty, mbarrier *split,
        const struct tiles &t, const struct extras &x) {
    place<S::STAGES> at;
    const int consumer = (int)threadIdx.x / WARPGROUP - 1;
    for (int i = first_piece(t); i < pieces(t); i += piece_step(t)) {
        const struct piece p = piece_at(t, i, S::BN);
        float sum[S::BN / 2] = {};
        for (int step = p.first; step < p.last; step++) {
            float part[S::BN / 2];
            mbarrier_wait(&full[at.stage], at.parity);
            const char *const a_s = stages + at.stage * S::STAGE;
            multiply<S>(part, a_s + consumer * OWN_ROWS * WGMMA_ROW,
                        a_s + S::a::BYTES, &split[at.stage], at.parity);
            release(&empty[at.stage], t.cluster);
#pragma unroll
            for (int j = 0; j < S::BN / 2; j++) sum[j] += part[j];
            at.next();
        }
        mend(sum, a, b, p, t, x);
        store_piece<S, 0>(c, c_map, stages + S::OUT, sum, p, t, x);
    }
}

/* c (m,n) = a (m,k) @ b (k,n), for every matrix of the batch; b stored (n,k).
 */
template <class S>
static __global__ void __launch_bounds__(THREADS, 1)
    matmul_wgmma_3xtf32(float *c, const float *a, const float *b,
                        const __grid_constant__ tensor_map a_map,
                        const __grid_constant__ tensor_map b_map,
                        const __grid_constant__ tensor_map c_map,
                        struct tiles t, struct extras x) {
    extern __shared__ char raw[];
    char *const stages = aligned_1024(raw);
    mbarrier *const full = (mbarrier *)(stages + S::RING);
    mbarrier *const empty = full + S::STAGES, *const split = empty + S::STAGES;
    if (threadIdx.x == 0)
        for (int i = 0; i < S::STAGES; i++) mbarrier_init(&split[i], S::SPLITS);
    start_ring<S::STAGES>(full, empty, &a_map, &b_map, t.cluster);
    if (threadIdx.x < WARPGROUP) {
        registers_down<PRODUCER_REGISTERS>();
        if (threadIdx.x == 0)
            produce<S>(&a_map, &b_map, stages, full, empty, t);
    } else if (threadIdx.x >= WGMMA_THREADS) {
        registers_down<SPLITTER_REGISTERS>();
        split_b<S>(stages, full, split, t);
    } else {
        registers_up<MULTIPLIER_REGISTERS>();
        consume<S>(c, &c_map, a, b, stages, full, empty, split, t, x);
    }
    end_ring(t.cluster);
}

/* And, of tiles whose k was in parts, from their sums. */
template <int BN>
static __global__ void __launch_bounds__(ADDERS)
    matmul_wgmma_3xtf32_add(float *c, int groups, struct tiles t,
                            struct extras x) {
    add_sums<BN, 0>(c, groups, t, x);
}

/* ---- launching ----------------------------------------------------------- */

static const struct making how = {4, shape<128>::a::BK, 1, 128,
                                  1, {1000.0, 1900.0}};

template <class S>
static int launch_shape(const struct product *q, struct tiles t,
                        cudaStream_t stream) {
    tensor_map a_map, b_map, c_map;
    WEFT_TRY(S::a::make_map(&a_map, TENSOR_FLOAT, q->a, q->m, q->k,
                            q->extras.pitch_a, q->batch, q->extras.step_a, 1));
    WEFT_TRY(S::b::make_map(&b_map, TENSOR_FLOAT, q->b, q->n, q->k,
                            q->extras.pitch_b, q->batch, q->extras.step_b,
                            t.cluster));
    WEFT_TRY(make_c_map(&c_map, q, 0, &t));
    WEFT_TRY(launch_tiles("matmul_wgmma_3xtf32", matmul_wgmma_3xtf32<S>,
                          THREADS, t, S::SHARED, stream, q->c,
                          (const float *)q->a, (const float *)q->b, a_map,
                          b_map, c_map, t, q->extras));
    return add_parts(q, t, matmul_wgmma_3xtf32_add<S::BN>, stream);
}

static struct tiles tiles_of(const struct product *q) {
    return best_tiles(q, &how, multiprocessors());
}

static int launch(const struct product *q, cudaStream_t stream) {
    const struct tiles t = tiles_of(q);
    return t.width == 64 ? launch_shape<shape<64>>(q, t, stream)
                         : launch_shape<shape<128>>(q, t, stream);
}

static size_t scratch(const struct product *q) {
    return sums_bytes(tiles_of(q));
}

double matmul_wgmma_3xtf32_us(const struct product *q) {
    return best_us(q, &how);
}

MATMUL_RUNG(wgmma_3xtf32,
            "three tf32 products for one of fp32's accuracy, split on the way",
            "3xtf32", WGMMA_TARGETS, 90, B_BY_N | ALIGNED, launch, scratch)
