/* 31_wgmma_tf32.cu -- matmul on the tensor cores of sm_90, floats rounded to
 * tf32: rung wgmma_tf32.
 *
 * Before:  rung wgmma_bf16 takes numbers of 16 bits, 8 of them mantissa.
 * Idea:    the same kernel. tf32 keeps 10 bits of mantissa in a float's place:
 *          a stage's 128 bytes of a row are 32 of k instead of 64, and take as
 *          long. TMA rounds to the nearest as it loads; the tensor cores would
 *          cut the other bits off, which doubles the error.
 * Predict: half of wgmma_bf16's speed, less b's copy where it lies (k,n).
 * Measured: H200, cool, b stored (n,k), over the better of cuBLAS's layouts,
 *          before wgmma_store.cuh. 4096: 340 us, 0.99; 8192: 2678 us, 0.993;
 *          2048: 0.98; 1024: 1.23; 5120x256x5120: 0.74.
 * Limit:   tf32 tiles must have k along their rows, so b stored (k,n) is
 *          copied first (pack.h): 8 k n bytes, 30 us at 4096.
 * Error:   2^-11 of each factor, so at most 2^-10 of the sum of absolute
 *          products (rms 3e-4 of random ones).
 * Lesson:  notebooks/08c_matmul_tensor_cores.ipynb
 */
#include "wgmma_launch.cuh"

/* Tiles of BM x BN. */
template <int BN_> struct shape {
    typedef operand<float, BM, 1> a;
    typedef operand<float, BN_, 1> b;
    enum {
        BN = BN_,
        LOADED = (int)a::BYTES + (int)b::BYTES,
        STAGE = LOADED,
        STAGES = BN_ == 256 ? 4 : 6,
        BOXES = 2,            // of c, for each consumer
        OUT = STAGES * STAGE, // where they lie
        RING = OUT + 2 * BOXES * OUT_BYTES,
        SHARED = 1024 + RING + 2 * STAGES * 8,
    };
};

/* A warpgroup: OWN_ROWS of every tile. */
template <class S>
static __device__ __forceinline__ void
consume(float *c, const tensor_map *c_map, char *stages, mbarrier *full,
        mbarrier *empty, const struct tiles &t, const struct extras &x) {
    place<S::STAGES> at;
    const int consumer = (int)threadIdx.x / WARPGROUP - 1;
    for (int i = first_tile(t); i < t.count; i += tile_step(t)) {
        float acc[S::BN / 2];
        mbarrier *before = NULL;
        for (int step = 0; step < t.k_steps; step++) {
            mbarrier_wait(&full[at.stage], at.parity);
            const char *const a_s = stages + at.stage * S::STAGE;
            // 64 rows of a take as many bytes, whichever way they lie.
            const uint64_t a =
                wgmma_tile(a_s + consumer * OWN_ROWS * WGMMA_ROW, S::a::APART);
            const uint64_t b = wgmma_tile(a_s + S::a::BYTES, S::b::APART);
            wgmma_fence();
#pragma unroll
            for (int q = 0; q < 4; q++)
                wgmma<float, 1, 1>(acc, wgmma_step(a, q * S::a::K_STEP),
                                   wgmma_step(b, q * S::b::K_STEP),
                                   step + q > 0);
            wgmma_commit();
            // This stage's products run while we wait for the next stage; those
            // of the one before are done.
            wgmma_wait<1>();
            if (before) release(before, t.cluster);
            before = &empty[at.stage];
            at.next();
        }
        wgmma_wait<0>();
        release(before, t.cluster);
        store_tile<S>(c, c_map, stages + S::OUT, acc, tile_at(t, i, S::BN), t,
                      x);
    }
}

/* c (m,n) = a (m,k) @ b (k,n), for every matrix of the batch. */
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
    start_ring<S::STAGES>(full, empty, t.cluster);
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

/* ---- launching ----------------------------------------------------------- */

template <class S>
static int launch_shape(const struct product *q, int sms, int cluster,
                        cudaStream_t stream) {
    const struct tiles t = cut(q, S::BN, S::a::BK, cluster);
    tensor_map a_map, b_map, c_map;
    WEFT_TRY(S::a::make_map(&a_map, TENSOR_TF32, q->a, q->m, q->k,
                            q->extras.pitch_a, q->batch, q->extras.step_a, 1));
    WEFT_TRY(S::b::make_map(&b_map, TENSOR_TF32, q->b, q->n, q->k,
                            q->extras.pitch_b, q->batch, q->extras.step_b,
                            cluster));
    WEFT_TRY(make_c_map(&c_map, q));
    return launch_tiles("matmul_wgmma_tf32", matmul_wgmma_tf32<S>,
                        WGMMA_THREADS, t, sms, S::SHARED, stream, q->c, a_map,
                        b_map, c_map, t, q->extras);
}

static int launch(const struct product *q, cudaStream_t stream) {
    enum { BK = shape<256>::a::BK };
    int sms;
    WEFT_TRY(multiprocessors(&sms));
    switch (best_width(q, BK, sms)) {
    case 256:
        return launch_shape<shape<256>>(q, sms, best_cluster(q, 256, BK, sms),
                                        stream);
    case 128: return launch_shape<shape<128>>(q, sms, 1, stream);
    default: return launch_shape<shape<64>>(q, sms, 1, stream);
    }
}

MATMUL_RUNG(wgmma_tf32, "wgmma and TMA, which rounds floats to tf32 on the way",
            "tf32", WGMMA_TARGETS, 90, B_BY_N | ALIGNED, launch, NULL)
