/* 31_wgmma_tf32.cu -- matmul on the tensor cores of sm_90, floats rounded to
 * tf32: rung wgmma_tf32.
 *
 * Before:  rung wgmma_bf16 takes 16-bit numbers; bfloat16 has 7 bits of
 *          mantissa.
 * Idea:    use the same kernel. tf32 keeps 10 bits of mantissa in the space of
 *          a float. So the 128 bytes of a row in a stage hold 32 steps of k
 *          instead of 64, and a stage takes as long. TMA rounds to the nearest
 *          as it loads, while the tensor cores would truncate, which doubles
 *          the error. In shared memory, tf32 tiles must have k along their
 *          rows. b stored (n,k) meets this requirement; for b stored (k,n) the
 *          kernel computes
 *
 *            c^T = b^T a^T
 *
 *          where a has k along its rows, and b^T passes through registers,
 *          which accept any layout: turned_fragments() of wgmma_tile.cuh.
 * Prediction: half of wgmma_bf16's speed, for either layout of b. Shared memory
 *          is fully busy: loading a stage of b^T, 16 KB, takes 128 of 1024
 *          cycles without bank conflicts (256 with two-way conflicts), as many
 *          as wgmma itself would take. The 64 KB of a take 512 cycles, and
 *          TMA's 48 KB take 384.
 * Measured: H200, cool: us, and speed relative to cuBLAS in its better layout.
 *            b stored (k,n)    b stored (n,k), by tuned_tf32 like row 8192
 *   4096      339  1.00         338  1.00
 *   8192     2662  1.00        2668  1.00
 *          Tried, in a run where 4096 took 328 and 8192 2566: copying b first
 *          takes 372 and 2786. Computing c^T by clusters of two blocks takes
 *          332 and 2607. At 4096, tiles of 128 columns take 412 for (k,n) and
 *          372 for (n,k). 5120x256x5120 takes 63, 0.85.
 * Limit:   shared memory and the stores (see wgmma_store.cuh): 5120x256x5120
 *          has only eight stages per tile to hide its stores.
 * Error:   2^-11 of each factor, so at most 2^-10 of the sum of absolute
 *          products (rms 3e-4 of random ones).
 * Lesson:  notebooks/08c_matmul_tensor_cores.ipynb */
/* g++: -O1 */
#include "wgmma_launch.cuh"

/* Tiles of BM x BN. TURNED: whether they are tiles of c^T, so that a is b^T,
 * stored (k,n). */
template <int BN_, int TURNED_> struct shape {
    typedef operand<float, BM, !TURNED_> a;
    typedef operand<float, BN_, 1> b;
    enum {
        BN = BN_,
        TURNED = TURNED_,
        SETS = TURNED_ ? 2 : 1, // sets of registers for a
        LOADED = (int)a::BYTES + (int)b::BYTES,
        STAGE = LOADED,
        STAGES = BN_ >= 192 ? 4 : 6,
        BOXES = 2,            // boxes of c for each consumer
        OUT = STAGES * STAGE, // byte offset of these boxes
        RING = OUT + 2 * BOXES * OUT_BYTES,
        SHARED = 1024 + RING + 2 * STAGES * 8,
    };
};

/* Start the products of a stage. a_r: the registers from which the products of
 * a turned stage read a. */
template <class S>
static __device__ __forceinline__ void
ask(float (&acc)[S::BN / 2], uint32_t (&a_r)[4][4], const char *a_s,
    const char *b_s, int keep) {
    const uint64_t a = wgmma_tile(a_s, 0), b = wgmma_tile(b_s, 0);
    if (S::TURNED) turned_fragments(a_r, a_s);
    wgmma_fence();
#pragma unroll
    for (int q = 0; q < 4; q++)
        if (S::TURNED)
            wgmma_tf32(acc, a_r[q], wgmma_step(b, q * S::b::K_STEP),
                       keep || q > 0);
        else
            wgmma<float, 1, 1>(acc, wgmma_step(a, q * S::a::K_STEP),
                               wgmma_step(b, q * S::b::K_STEP), keep || q > 0);
    wgmma_commit();
}

/* Do the work of a consumer warpgroup: OWN_ROWS rows of every piece. */
template <class S>
static __device__ __forceinline__ void
consume(float *c, const tensor_map *c_map, char *stages, mbarrier *full,
        mbarrier *empty, const struct tiles &t, const struct extras &x) {
    place<S::STAGES> at;
    const int consumer = (int)threadIdx.x / WARPGROUP - 1;
    for (int i = first_piece(t); i < pieces(t); i += piece_step(t)) {
        const struct piece p = piece_at(t, i, S::BN);
        float acc[S::BN / 2];
        // Products read their registers until they are complete, so there are
        // two sets.
        uint32_t a_r[S::SETS][4][4];
        int before = -1;
        for (int step = p.first; step < p.last; step += S::SETS)
#pragma unroll
            for (int j = 0; j < S::SETS; j++) {
                mbarrier_wait(&full[at.stage], at.parity);
                const char *const a_s = stages + at.stage * S::STAGE;
                // 64 rows of a have the same number of bytes in either layout.
                ask<S>(acc, a_r[j], a_s + consumer * OWN_ROWS * WGMMA_ROW,
                       a_s + S::a::BYTES, step + j > p.first);
                // This stage's products run while the threads wait for the next
                // stage. The previous stage's products are complete.
                wgmma_wait<1>();
                if (before >= 0) release(&empty[before], t.cluster);
                before = at.stage;
                at.next();
            }
        wgmma_wait<0>();
        release(&empty[before], t.cluster);
        store_piece<S, S::TURNED>(c, c_map, stages + S::OUT, acc, p, t, x);
    }
}

/* Compute c (m,n) = a (m,k) @ b (k,n), for every matrix of the batch. */
template <class S>
static __global__ void __launch_bounds__(WGMMA_THREADS, 1)
    matmul_wgmma_tf32(float *c, const __grid_constant__ tensor_map a_map,
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
template <int BN, int TURNED>
static __global__ void __launch_bounds__(ADDERS)
    matmul_wgmma_tf32_add(float *c, int groups, struct tiles t,
                          struct extras x) {
    add_sums<BN, TURNED>(c, groups, t, x);
}

/* ---- launching ----------------------------------------------------------- */

static const struct making straight = {4,   32, 1,
                                       256, 1,  {425.0, 576.0, 850.0, 1024.0}};
static const struct making sideways = {4,   32, 2,
                                       256, 0,  {500.0, 850.0, 850.0, 1024.0}};

/* Return q's tiles. *as receives the product that is computed: q or
 * matmul_on_its_side(q). */
static struct tiles tiles_of(const struct product *q, struct product *as) {
    *as = q->trans_b ? *q : matmul_on_its_side(q);
    return best_tiles(as, q->trans_b ? &straight : &sideways,
                      matmul_multiprocessors());
}

/* Launch the kernel for `q`, which is the product `c` itself or
 * matmul_on_its_side(c). */
template <class S>
static int launch_shape(const struct product *q, const struct product *c,
                        struct tiles t, cudaStream_t stream) {
    if constexpr (WGMMA_RUNS) {
        tensor_map a_map, b_map, c_map;
        WEFT_TRY(S::a::make_map(&a_map, TENSOR_TF32, q->a, q->m, q->k,
                                q->extras.pitch_a, q->batch, q->extras.step_a,
                                1));
        WEFT_TRY(S::b::make_map(&b_map, TENSOR_TF32, q->b, q->n, q->k,
                                q->extras.pitch_b, q->batch, q->extras.step_b,
                                t.cluster));
        WEFT_TRY(make_c_map(&c_map, c, S::TURNED, &t));
        WEFT_TRY(launch_tiles("matmul_wgmma_tf32", matmul_wgmma_tf32<S>,
                              WGMMA_THREADS, t, S::SHARED, stream, q->c, a_map,
                              b_map, c_map, t, q->extras));
        return add_parts(q, t, matmul_wgmma_tf32_add<S::BN, S::TURNED>, stream);
    } else {
        return no_wgmma();
    }
}

template <int TURNED>
static int launch_width(const struct product *q, cudaStream_t stream) {
    struct product as;
    const struct tiles t = tiles_of(q, &as);
    switch (t.width) {
    case 256: return launch_shape<shape<256, TURNED>>(&as, q, t, stream);
    case 192: return launch_shape<shape<192, TURNED>>(&as, q, t, stream);
    case 128: return launch_shape<shape<128, TURNED>>(&as, q, t, stream);
    default: return launch_shape<shape<64, TURNED>>(&as, q, t, stream);
    }
}

static int launch(const struct product *q, cudaStream_t stream) {
    return q->trans_b ? launch_width<0>(q, stream) : launch_width<1>(q, stream);
}

static size_t scratch(const struct product *q) {
    struct product as;
    return sums_bytes(tiles_of(q, &as));
}

double matmul_wgmma_tf32_us(const struct product *q) {
    const struct product as = q->trans_b ? *q : matmul_on_its_side(q);
    return best_us(&as, q->trans_b ? &straight : &sideways);
}

MATMUL_RUNG(wgmma_tf32, "wgmma and TMA, which rounds floats to tf32 on the way",
            "tf32", WGMMA_TARGETS, 90, ANY_B | ALIGNED, launch, scratch)
