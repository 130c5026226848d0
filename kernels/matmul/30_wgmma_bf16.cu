/* 30_wgmma_bf16.cu -- matmul on the tensor cores of sm_90, 16-bit numbers in,
 * float out: rungs wgmma_bf16 and wgmma_fp16.
 *
 * Before:  mma.sync needs its operands in registers: every warp loads them from
 *          shared memory itself, and waits.
 * Idea:    wgmma reads both operands from shared memory, where TMA has put them
 *          in the required order. A warpgroup issues 64 x 256 x 16 at a time
 *          and handles only its sums. wgmma_tile.cuh describes the loads and
 *          the order of the tiles. 16-bit numbers may have either layout, a as
 *          (m,k) or (k,m), b as (k,n) or (n,k): nothing is copied.
 * Prediction: at 4096 there are 512 tiles of 128 x 256 for 132 multiprocessors:
 *          4 turns of 64 stages of 1024 cycles take 132 us at 1.98 GHz. Storing
 *          64 MB of c takes another 16 us at 4.1 TB/s.
 * Measured: H200, cool, speed relative to cuBLAS, same operands: 4096^3 182 us,
 *          0.99; 8192^3, by tuned_bf16, 1403 us, 1.01. With a stored (k,m):
 *          4096 0.996 (0.85 when an earlier version copied a first), 1024 0.71
 *          (0.53). Tried, in a run where these were 177 and 1363 us: without
 *          any stores, 169 and 1354. A loop without branches gains 0.2 %, and
 *          reading every other tile's k from its end 0.3 %. Consumers that take
 *          turns, so that one stores while the other multiplies, gain nothing:
 *          the pipe is busier, but the clock is slower. Clusters of four read a
 *          quarter fewer bytes from L2 but reach 0.83 and 0.94 of cuBLAS, since
 *          only 30 of them fit.
 * Limit:   power: the GPU runs at 1.69 instead of 1.98 GHz, and a round of 120
 *          blocks takes 5 % less time than one of 132. The bytes of the stores
 *          are a second limit.
 * Error:   products are exact; the tensor cores truncate their sums: a few
 *          2^-24 of the largest addend for each instruction.
 * Lesson:  notebooks/08c_matmul_tensor_cores.ipynb */
/* g++: -O1 */
#include "wgmma_launch.cuh"

/* Tiles of BM x BN. A_BY_K and B_BY_K: whether a is stored (m,k) and b
 * (n,k). */
template <typename T, int BN_, int A_BY_K, int B_BY_K> struct shape {
    typedef T element;
    typedef operand<T, BM, A_BY_K> a;
    typedef operand<T, BN_, B_BY_K> b;
    enum {
        BN = BN_,
        A_K = A_BY_K,
        B_K = B_BY_K,
        LOADED = (int)a::BYTES + (int)b::BYTES,
        STAGE = LOADED,
        STAGES = BN_ >= 192 ? 4 : 6,
        BOXES = 2,            // boxes of c for each consumer
        OUT = STAGES * STAGE, // byte offset of these boxes
        RING = OUT + 2 * BOXES * OUT_BYTES,
        SHARED = 1024 + RING + 2 * STAGES * 8,
    };
};

/* Do the work of a consumer warpgroup: OWN_ROWS rows of every piece. */
template <class S>
static __device__ __forceinline__ void
consume(float *c, const tensor_map *c_map, char *stages, mbarrier *full,
        mbarrier *empty, const struct tiles &t, const struct extras &x) {
    place<S::STAGES> at;
    const int consumer =
        __shfl_sync(0xffffffffu, (int)threadIdx.x / WARPGROUP - 1, 0);
    // Other instructions use power that the tensor cores need, so a stage has
    // few. 64 rows of a have the same number of bytes in either layout.
    const uint64_t a_0 =
        wgmma_tile(stages + consumer * OWN_ROWS * WGMMA_ROW, S::a::APART);
    const uint64_t b_0 = wgmma_tile(stages + S::a::BYTES, S::b::APART);
    for (int i = first_piece(t); i < pieces(t); i += piece_step(t)) {
        const struct piece p = piece_at(t, i, S::BN);
        float acc[S::BN / 2];
        int before = -1;
#pragma unroll 1
        for (int step = p.first; step < p.last; step++) {
            mbarrier_wait(&full[at.stage], at.parity);
            const uint64_t a = wgmma_step(a_0, at.stage * S::STAGE);
            const uint64_t b = wgmma_step(b_0, at.stage * S::STAGE);
            wgmma_fence();
#pragma unroll
            for (int q = 0; q < 4; q++)
                wgmma<typename S::element, S::A_K, S::B_K>(
                    acc, wgmma_step(a, q * S::a::K_STEP),
                    wgmma_step(b, q * S::b::K_STEP), step > p.first || q > 0);
            wgmma_commit();
            // This stage's products run while the threads wait for the next
            // stage. The previous stage's products are complete.
            wgmma_wait<1>();
            if (before >= 0) release(&empty[before], t.cluster);
            before = at.stage;
            at.next();
        }
        wgmma_wait<0>();
        release(&empty[before], t.cluster);
        store_piece<S, 0>(c, c_map, stages + S::OUT, acc, p, t, x);
    }
}

/* Compute c (m,n) = a (m,k) @ b (k,n), for every matrix of the batch. */
template <class S>
static __global__ void __launch_bounds__(WGMMA_THREADS, 1)
    matmul_wgmma(float *c, const __grid_constant__ tensor_map a_map,
                 const __grid_constant__ tensor_map b_map,
                 const __grid_constant__ tensor_map c_map, struct tiles t,
                 struct extras x) {
    extern __shared__ char raw[];
    char *const stages = aligned_1024(raw);
    mbarrier *const full = (mbarrier *)(stages + S::RING);
    mbarrier *const empty = full + S::STAGES;
    start_ring<S::STAGES>(full, empty, &a_map, &b_map, t.cluster);
    if (threadIdx.x < WARPGROUP) {
        registers_down<PRODUCER_REGISTERS>();
        if (threadIdx.x == 0)
            produce<S>(&a_map, &b_map, stages, full, empty, t);
    } else {
        registers_up<CONSUMER_REGISTERS>();
        consume<S>(c, &c_map, stages, full, empty, t, x);
    }
    end_ring(t.cluster);
}

/* Complete the tiles whose k was divided into parts, from the parts' sums. */
template <int BN>
static __global__ void __launch_bounds__(ADDERS)
    matmul_wgmma_add(float *c, int groups, struct tiles t, struct extras x) {
    add_sums<BN, 0>(c, groups, t, x);
}

/* ---- launching ----------------------------------------------------------- */

/* The properties for b stored (k,n), then for b stored (n,k). */
static const struct making how[2] = {
    {2, 64, 1, 256, 1, {520.0, 730.0, 850.0, 1024.0}},
    {2, 64, 1, 256, 1, {460.0, 520.0, 850.0, 1024.0}}};

template <class S>
static int launch_shape(const struct product *q, enum tensor_type type,
                        struct tiles t, cudaStream_t stream) {
    if constexpr (WGMMA_RUNS) {
        tensor_map a_map, b_map, c_map;
        WEFT_TRY(S::a::make_map(&a_map, type, q->a, q->m, q->k,
                                q->extras.pitch_a, q->batch, q->extras.step_a,
                                1));
        WEFT_TRY(S::b::make_map(&b_map, type, q->b, q->n, q->k,
                                q->extras.pitch_b, q->batch, q->extras.step_b,
                                t.cluster));
        WEFT_TRY(make_c_map(&c_map, q, 0, &t));
        WEFT_TRY(launch_tiles("matmul_wgmma", matmul_wgmma<S>, WGMMA_THREADS, t,
                              S::SHARED, stream, q->c, a_map, b_map, c_map, t,
                              q->extras));
        return add_parts(q, t, matmul_wgmma_add<S::BN>, stream);
    } else {
        return no_wgmma();
    }
}

static struct tiles tiles_of(const struct product *q) {
    return best_tiles(q, &how[q->trans_b], matmul_multiprocessors());
}

template <typename T, int A_BY_K, int B_BY_K>
static int launch_width(const struct product *q, enum tensor_type type,
                        cudaStream_t stream) {
    const struct tiles t = tiles_of(q);
    switch (t.width) {
    case 256:
        return launch_shape<shape<T, 256, A_BY_K, B_BY_K>>(q, type, t, stream);
    case 192:
        return launch_shape<shape<T, 192, A_BY_K, B_BY_K>>(q, type, t, stream);
    case 128:
        return launch_shape<shape<T, 128, A_BY_K, B_BY_K>>(q, type, t, stream);
    default:
        return launch_shape<shape<T, 64, A_BY_K, B_BY_K>>(q, type, t, stream);
    }
}

template <typename T>
static int launch_layout(const struct product *q, enum tensor_type type,
                         cudaStream_t stream) {
    switch (2 * q->trans_a + q->trans_b) {
    case 0: return launch_width<T, 1, 0>(q, type, stream);
    case 1: return launch_width<T, 1, 1>(q, type, stream);
    case 2: return launch_width<T, 0, 0>(q, type, stream);
    default: return launch_width<T, 0, 1>(q, type, stream);
    }
}

static int launch_bf16(const struct product *q, cudaStream_t stream) {
    return launch_layout<__nv_bfloat16>(q, TENSOR_BF16, stream);
}
static int launch_fp16(const struct product *q, cudaStream_t stream) {
    return launch_layout<__half>(q, TENSOR_F16, stream);
}

static size_t scratch(const struct product *q) {
    return sums_bytes(tiles_of(q));
}

double matmul_wgmma_bf16_us(const struct product *q) {
    return best_us(q, &how[q->trans_b]);
}

MATMUL_RUNG(wgmma_bf16,
            "wgmma and TMA: a warpgroup multiplies from shared memory", "bf16",
            WGMMA_TARGETS, 90, ANY_A | ANY_B | ALIGNED, launch_bf16, scratch)
MATMUL_RUNG(wgmma_fp16,
            "wgmma and TMA: a warpgroup multiplies from shared memory", "fp16",
            WGMMA_TARGETS, 90, ANY_A | ANY_B | ALIGNED, launch_fp16, scratch)
