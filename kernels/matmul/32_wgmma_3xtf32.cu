/* 32_wgmma_3xtf32.cu -- matmul with the accuracy of fp32 on the tensor cores of
 * sm_90: rung wgmma_3xtf32.
 *
 * Before:  tf32 has 10 bits of mantissa, fp32 has 23.
 * Idea:    split x into hi + lo, where hi is the part of x that tf32 holds and
 *          lo = x - hi exactly (13 bits). Then a b = lo hi + hi lo + hi hi +
 *          (lo lo, dropped). These are three products on tensor cores, which
 *          are eight times as fast as the ordinary cores. wgmma reads a from
 *          registers, where it is split on the way. There, x itself serves as
 *          hi, since tensor cores ignore the low 13 bits. b comes from shared
 *          memory: TMA rounds it to hi. A preceding pass writes the lo of b to
 *          the scratch memory; otherwise m / 128 blocks would each compute it
 *          again. Tensor cores truncate towards zero where fp32 rounds, so the
 *          sums of 32 of k are added up in ordinary registers.
 * Error:   relative to the sum of absolute products, lo lo is below 2^-21. Of
 *          lo's 13 bits, tf32 holds 11 from the first 1, so less than 3 *
 *          2^-23 of each factor is lost. The 12 sums by tensor cores lose less
 *          than 2^-21 each, of 32 products only, and the k / 32 additions lose
 *          2^-24 each. The total is at most
 *             2^-17 + k / 32 * 2^-24
 *          Infinities make lo a NaN, so elements whose result is NaN are
 *          computed again, one by one.
 * Prediction: a stage takes 3 * 512 cycles of the tensor cores. So 4096 takes
 *          794 us at 1.98 GHz, 3.4 times as fast as fp32. The pass reads and
 *          writes 64 MB of b in 32 us. Shared memory delivers 128 bytes a
 *          cycle. wgmma reads b for each product, 96 KB a stage; with TMA's 48
 *          KB and a's 16 KB, shared memory is busy for 1280 of 1536 cycles.
 * Measured: H200, cool, b stored (n,k), versus cuBLAS fp32: 4096 1002 us, 2.64;
 *          8192 7756 us, 2.65, since its 31.03 rounds of tiles are cut along k.
 *          The tensor pipe is busy 97 % of the kernel (ncu, 4096). Errors
 *          3.9e-7 and 4.4e-7; cuBLAS has 1.15e-6 and 1.6e-6. Tried: speed
 *          relative to cuBLAS fp32 at 4096 and 8192, in a run where the card
 *          was faster with all kernels on tensor cores:
 *           lo of b made in the kernel, by four warps  2.48  2.48
 *           by the pass, hi cut out of b by wgmma      2.62  2.66
 *           by the pass, hi rounded by TMA: this file  2.74  2.78
 *           the last without the pass                  2.83  2.83
 *          Zero bits save power, which explains the gain in the third line.
 *          Sums over 64 steps of k are as fast, with an error of 5.8e-7. b
 *          stored (k,n) is copied first. Other attempts: splitting warps that
 *          also transpose b, 2.03; c^T = b^T a^T as in rung wgmma_tf32, 2.23
 *          and 2.29; halves of lo from the two blocks of a cluster, 2.37;
 *          consumers that take turns storing and multiplying, 2.33.
 * Limit:   power (running rung wgmma_tf32 three times would be no faster), and
 *          the pass.
 * Lesson:  notebooks/08c_matmul_tensor_cores.ipynb */
/* g++: -O1 */
#include "wgmma_launch.cuh"

/* Tiles of BM x BN. A stage holds a, hi of b, and lo of b. */
template <int BN_> struct shape {
    typedef operand<float, BM, 1> a;
    typedef operand<float, BN_, 1> b;
    enum {
        BN = BN_,
        LOADED = (int)a::BYTES + 2 * (int)b::BYTES,
        STAGE = LOADED,
        STAGES = BN_ == 128 ? 4 : 6,
        BOXES = 2,            // boxes of c for each consumer
        OUT = STAGES * STAGE, // byte offset of these boxes
        RING = OUT + 2 * BOXES * OUT_BYTES,
        SHARED = 1024 + RING + 2 * STAGES * 8,
    };
};

/* Load the calling thread's part of 64 rows x 32 of k. These are hi and lo of
 * `a` for four steps of k, in the layout of wgmma_tf32(). Lanes 4 g + t read
 * chunk 2 q or 2 q + 1 of rows g. The swizzle puts the eight chunks into
 * different banks. x itself serves as hi, since the tensor cores ignore the low
 * 13 bits. */
[[maybe_unused]] static __device__ __forceinline__ void
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
            const float upper = __uint_as_float(hi[q][i] & 0xffffe000u);
            lo[q][i] = __float_as_uint(x - upper);
        }
}

/* Compute the sums of a stage's products in `part`. */
template <class S>
static __device__ __forceinline__ void
multiply(float (&part)[S::BN / 2], const char *a_s, const char *b_s) {
    uint32_t hi[4][4], lo[4][4];
    split_a(hi, lo, a_s);
    const uint64_t b_hi = wgmma_tile(b_s, 0);
    const uint64_t b_lo = wgmma_tile(b_s + S::b::BYTES, 0);
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

/* Recompute in fp32 those elements of the calling thread's part that are
 * NaN. */
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

/* Do the work of a consumer warpgroup: OWN_ROWS rows of every piece. */
template <class S>
static __device__ __forceinline__ void
consume(float *c, const tensor_map *c_map, const float *a, const float *b,
        char *stages, mbarrier *full, mbarrier *empty, const struct tiles &t,
        const struct extras &x) {
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
                        a_s + S::a::BYTES);
            release(&empty[at.stage], t.cluster);
#pragma unroll
            for (int j = 0; j < S::BN / 2; j++) sum[j] += part[j];
            at.next();
        }
        mend(sum, a, b, p, t, x);
        store_piece<S, 0>(c, c_map, stages + S::OUT, sum, p, t, x);
    }
}

/* Compute c (m,n) = a (m,k) @ b (k,n), for every matrix of the batch. b is
 * stored (n,k). */
template <class S>
static __global__ void __launch_bounds__(WGMMA_THREADS, 1)
    matmul_wgmma_3xtf32(float *c, const float *a, const float *b,
                        const __grid_constant__ tensor_map a_map,
                        const __grid_constant__ tensor_map b_map,
                        const __grid_constant__ tensor_map lo_map,
                        const __grid_constant__ tensor_map c_map,
                        struct tiles t, struct extras x) {
    extern __shared__ char raw[];
    char *const stages = aligned_1024(raw);
    mbarrier *const full = (mbarrier *)(stages + S::RING);
    mbarrier *const empty = full + S::STAGES;
    start_ring<S::STAGES>(full, empty, &a_map, &b_map, t.cluster);
    if (threadIdx.x < WARPGROUP) {
        registers_down<PRODUCER_REGISTERS>();
        if (threadIdx.x == 0)
            produce<S>(&a_map, &b_map, stages, full, empty, t, &lo_map);
    } else {
        registers_up<CONSUMER_REGISTERS>();
        consume<S>(c, &c_map, a, b, stages, full, empty, t, x);
    }
    end_ring(t.cluster);
}

/* Complete the tiles whose k was divided into parts, from the parts' sums. */
template <int BN>
static __global__ void __launch_bounds__(ADDERS)
    matmul_wgmma_3xtf32_add(float *c, int groups, struct tiles t,
                            struct extras x) {
    add_sums<BN, 0>(c, groups, t, x);
}

/* ---- lo of b ------------------------------------------------------------- */

/* Return x minus its value as rounded by TMA, or NaN if that value is infinite,
 * so that mend() can detect it in the sum. */
static __device__ __forceinline__ float low_part(float x) {
    const float hi = even_tf32(x);
    return x - hi + 0.0f * hi;
}

/* A block of the pass has LOW_WIDE x LOW_HIGH threads, each with LOW_ROWS
 * rows. */
enum { LOW_WIDE = 128, LOW_HIGH = 2, LOW_ROWS = 8 };

/* Compute lo (rows,pitch) of b (rows,pitch_b) for k numbers of each row. Each
 * thread keeps eight loads in flight. */
static __global__ void __launch_bounds__(LOW_WIDE *LOW_HIGH)
    matmul_low_parts(float *lo, const float *b, int rows, int k, size_t pitch,
                     size_t pitch_b, size_t step_b) {
    pdl_wait(); // b has been written, and earlier kernels have read lo
    const int wide = CEIL_DIV(k, LOW_WIDE);
    const int across = (int)(blockIdx.x % wide) * LOW_WIDE + (int)threadIdx.x;
    const int row0 = (int)(blockIdx.x / wide) * LOW_HIGH * LOW_ROWS +
                     (int)threadIdx.y * LOW_ROWS;
    if (across >= k) return;
    b += blockIdx.y * step_b + across;
    lo += blockIdx.y * rows * pitch + across;
    float x[LOW_ROWS];
#pragma unroll
    for (int i = 0; i < LOW_ROWS; i++)
        x[i] = row0 + i < rows ? b[(row0 + i) * pitch_b] : 0.0f;
#pragma unroll
    for (int i = 0; i < LOW_ROWS; i++)
        if (row0 + i < rows) lo[(row0 + i) * pitch] = low_part(x[i]);
}

/* Return the layout of lo in the scratch memory, after the sums of the parts.
 * It is the layout of b, but rows are a multiple of 16 bytes and have no gaps
 * between them. */
static struct tensor low_array(const struct product *q, size_t sums) {
    const size_t pitch = (size_t)CEIL_DIV(q->k, 4) * 4, step = pitch * q->n;
    const int moves = q->batch > 1 && q->extras.step_b;
    return {TENSOR_TF32,     (char *)q->scratch + sums,
            (size_t)q->k,    (size_t)q->n,
            pitch,           (size_t)(moves ? q->batch : 1),
            moves ? step : 0};
}

static int make_low(const struct product *q, const struct tensor &lo,
                    cudaStream_t stream) {
    const dim3 block(LOW_WIDE, LOW_HIGH);
    const dim3 grid((unsigned)(CEIL_DIV(q->k, LOW_WIDE) *
                               CEIL_DIV(q->n, LOW_HIGH * LOW_ROWS)),
                    (unsigned)lo.batch);
    return launch_kernel({"matmul_low_parts", grid, block, 0, stream, 1},
                         matmul_low_parts, (float *)lo.data,
                         (const float *)q->b, q->n, q->k, lo.pitch,
                         q->extras.pitch_b, q->extras.step_b);
}

/* ---- launching ----------------------------------------------------------- */

static const struct making how = {4, shape<128>::a::BK, 1, 128,
                                  1, {1000.0, 1600.0}};

template <class S>
static int launch_shape(const struct product *q, struct tiles t,
                        cudaStream_t stream) {
    if constexpr (WGMMA_RUNS) {
        const struct tensor lo = low_array(q, sums_bytes(t));
        tensor_map a_map, b_map, lo_map, c_map;
        WEFT_TRY(S::a::make_map(&a_map, TENSOR_FLOAT, q->a, q->m, q->k,
                                q->extras.pitch_a, q->batch, q->extras.step_a,
                                1));
        WEFT_TRY(S::b::make_map(&b_map, TENSOR_TF32, q->b, q->n, q->k,
                                q->extras.pitch_b, q->batch, q->extras.step_b,
                                t.cluster));
        WEFT_TRY(S::b::make_map(&lo_map, TENSOR_TF32, lo.data, q->n, q->k,
                                lo.pitch, q->batch, lo.step, t.cluster));
        WEFT_TRY(make_c_map(&c_map, q, 0, &t));
        WEFT_TRY(make_low(q, lo, stream));
        WEFT_TRY(launch_tiles("matmul_wgmma_3xtf32", matmul_wgmma_3xtf32<S>,
                              WGMMA_THREADS, t, S::SHARED, stream, q->c,
                              (const float *)q->a, (const float *)q->b, a_map,
                              b_map, lo_map, c_map, t, q->extras));
        return add_parts(q, t, matmul_wgmma_3xtf32_add<S::BN>, stream);
    } else {
        return no_wgmma();
    }
}

static struct tiles tiles_of(const struct product *q) {
    return best_tiles(q, &how, matmul_multiprocessors());
}

static int launch(const struct product *q, cudaStream_t stream) {
    const struct tiles t = tiles_of(q);
    return t.width == 64 ? launch_shape<shape<64>>(q, t, stream)
                         : launch_shape<shape<128>>(q, t, stream);
}

static size_t scratch(const struct product *q) {
    const struct tensor lo = low_array(q, 0);
    const size_t floats = lo.batch * lo.rows * lo.pitch;
    return sums_bytes(tiles_of(q)) + floats * sizeof(float);
}

double matmul_wgmma_3xtf32_us(const struct product *q) {
    const double low = 8.0 * q->n * q->k * low_array(q, 0).batch; // in bytes
    return best_us(q, &how) + 1 + low / (30e3 * matmul_multiprocessors());
}

MATMUL_RUNG(wgmma_3xtf32,
            "three tf32 products for one of fp32's accuracy, split on the way",
            "3xtf32", WGMMA_TARGETS, 90, B_BY_N | ALIGNED, launch, scratch)
