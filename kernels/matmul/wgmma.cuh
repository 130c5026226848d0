/* wgmma.cuh -- the tensor cores of sm_90, used by one warpgroup.
 *
 *     c (64,N) += a (64,16 or 8) @ b (16 or 8,N)
 *
 * The 128 threads of a warpgroup issue it together. a and b are in shared
 * memory, where the tensor cores fetch them without the threads' help (a may
 * come from registers instead); c is in registers. The product runs while the
 * threads continue:
 *
 *     wgmma_fence();      registers and shared memory are ready
 *     wgmma(c, a, b, 1);  any number of these
 *     wgmma_commit();     they form a group
 *     wgmma_wait<0>();    at most 0 groups still run; now c may be read
 *
 * Lane 4 g + t of the warpgroup's warp w holds these of c, for each i < N / 8:
 *
 *     c[4i], c[4i + 1]        row 16 w + g,      columns 8 i + 2 t and + 1
 *     c[4i + 2], c[4i + 3]    row 16 w + g + 8,  the same columns
 *
 * A tile in shared memory has rows of 128 bytes, 8 of which form a group of
 * 1024; it starts at a multiple of 1024. The 16-byte chunk j of row r is at
 * place j ^ (r % 8) of its row, so that the chunks j of eight rows are in
 * different banks. TMA writes this "128-byte swizzle". k runs along a row. For
 * 16-bit numbers, m (for b, n) may run along it instead. Then tiles of 64
 * follow each other.
 *
 * On the CPU target each thread computes its part of c from shared memory, in
 * order of k. It does so only in wgmma_wait(), which also waits for the
 * other threads.
 *
 * Source:  PTX ISA, "Asynchronous warpgroup level matrix instructions". */
#ifndef WEFT_WGMMA_CUH
#define WEFT_WGMMA_CUH
#include "../common/hopper.cuh"

// Whether the target has wgmma. Only architecture-specific targets have it:
// sm_90a, not sm_90 or sm_100.
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define WGMMA_HERE 1
#else
#define WGMMA_HERE 0
#endif

/* The targets on which the rungs run. A library for another GPU lists them but
 * has no code for them. */
#if defined(__CUDACC__) && __CUDA_ARCH_LIST__ != 900
#define WGMMA_TARGETS WEFT_CPU
#else
#define WGMMA_TARGETS (WEFT_CPU | WEFT_CUDA)
#endif

enum { WGMMA_ROW = 128, WGMMA_GROUP = 8 * WGMMA_ROW };

/* ---- the place of a tile ------------------------------------------------- */

/* Return the descriptor that wgmma() needs for the tile at `at`, in shared
 * memory. `apart`: if m (for b, n) runs along the rows, the distance in bytes
 * from one tile of 64 to the next. */
PTX_INLINE uint64_t wgmma_tile(const void *at, int apart) {
#if PTX_TWIN
    return (uint64_t)at | (uint64_t)apart / 16 << 48;
#else
    const uint64_t start = __cvta_generic_to_shared(at);
    return (start & 0x3ffff) >> 4             // this field and the next count
                                              // in units of 16 bytes
           | (uint64_t)apart / 16 << 16       // "leading dimension"
           | (uint64_t)WGMMA_GROUP / 16 << 32 // "stride": the next 8 rows
           | (uint64_t)1 << 62;               // 128-byte swizzle
#endif
}

/* Return the descriptor of the tile that starts `bytes` further on. `bytes` is
 * 32 for the next numbers along a row, and 2 WGMMA_GROUP for the next 16
 * rows. */
PTX_INLINE uint64_t wgmma_step(uint64_t tile, int bytes) {
#if PTX_TWIN
    return tile + (uint64_t)bytes;
#else
    // The start is in the lower half. Adding to 32 bits takes fewer
    // instructions.
    return (tile & 0xffffffff00000000) |
           ((uint32_t)tile + (uint32_t)bytes / 16);
#endif
}

/* ---- order --------------------------------------------------------------- */

PTX_INLINE void wgmma_fence() {
#if WGMMA_HERE
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}

PTX_INLINE void wgmma_commit() {
#if PTX_TWIN
    simt::later_commit(simt::PRODUCTS);
#elif WGMMA_HERE
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}

/* Wait until at most the N newest groups of this warpgroup are running. */
template <int N> PTX_INLINE void wgmma_wait() {
#if PTX_TWIN
    simt::later_wait(simt::PRODUCTS, N);
    // Afterwards one thread may report that its warpgroup has read a tile.
    named_barrier(15 - (int)threadIdx.x / 128, 128);
#elif WGMMA_HERE
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
#endif
}

/* ---- the products on the CPU --------------------------------------------- */

#if PTX_TWIN
static inline float wgmma_number(const __nv_bfloat16 *x) {
    return __bfloat162float(*x);
}
static inline float wgmma_number(const __half *x) { return __half2float(*x); }
static inline float wgmma_number(const float *x) { // drops the low 13 bits
    return __uint_as_float(__float_as_uint(*x) & 0xffffe000u);
}

/* Return the address of number `k` of row `row` of a tile. BY_K: whether k runs
 * along the rows. */
template <typename T, int BY_K>
static inline const T *wgmma_place(uint64_t tile, int row, int k) {
    const int along = BY_K ? k : row % 64, down = BY_K ? row : k;
    const uint64_t apart = BY_K ? 0 : (tile >> 48) * 16 * (uint64_t)(row / 64);
    const uint64_t start = tile & 0xffffffffffff;
    const uint64_t at = start + apart + (uint64_t)down * WGMMA_ROW +
                        (uint64_t)along * sizeof(T);
    return (const T *)(at ^ (at >> 7 & 7) << 4);
}
template <typename T, int BY_K>
static inline float wgmma_at(uint64_t tile, int row, int k) {
    return wgmma_number(wgmma_place<T, BY_K>(tile, row, k));
}

/* Compute the calling thread's part of c. a_r: its two rows of a, with K
 * numbers each. */
template <typename T, int B_BY_K, int K, int COUNT>
static inline void wgmma_twin(float (&c)[COUNT], const float (&a_r)[2][K],
                              uint64_t b, int keep) {
    const int t = (int)(threadIdx.x % 4);
    for (int i = 0; i < COUNT; i++) {
        const int col = i / 4 * 8 + 2 * t + i % 2;
        double sum = keep ? c[i] : 0.0;
        for (int k = 0; k < K; k++)
            sum += (double)a_r[i / 2 % 2][k] * wgmma_at<T, B_BY_K>(b, col, k);
        c[i] = (float)sum;
    }
}

template <typename T, int A_BY_K, int B_BY_K, int COUNT>
static inline void wgmma_twin(float (&c)[COUNT], uint64_t a, uint64_t b,
                              int keep) {
    enum { K = 32 / sizeof(T) };
    float a_r[2][K];
    const int row = (int)(threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4);
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < K; k++)
            a_r[i][k] = wgmma_at<T, A_BY_K>(a, row + 8 * i, k);
    wgmma_twin<T, B_BY_K, K>(c, a_r, b, keep);
}

/* Record in the watch build that a product reads `rows` rows of a tile,
 * starting at `row`. */
template <typename T, int BY_K>
static inline void wgmma_reads(const simt::Later &product, uint64_t tile,
                               int row, int rows) {
    enum { K = 32 / sizeof(T), EIGHT = 16 / sizeof(T) };
    for (int r = row; r < row + rows; r += BY_K ? 1 : (int)EIGHT)
        for (int k = 0; k < K; k += BY_K ? (int)EIGHT : 1)
            simt::reads16(
                product,
                (const void *)((uint64_t)wgmma_place<T, BY_K>(tile, r, k) &
                               ~(uint64_t)15));
}

/* A product that a thread has issued and performs when it waits. */
template <typename T, int A_BY_K, int B_BY_K, int COUNT>
struct wgmma_asked : simt::Later {
    float (*c)[COUNT];
    uint64_t a, b;
    int keep;
};
template <int COUNT> struct wgmma_asked_tf32 : simt::Later {
    float (*c)[COUNT];
    float a_r[2][8];
    uint64_t b;
    int keep;
};

template <typename T, int A_BY_K, int B_BY_K, int COUNT>
PTX_INLINE void wgmma_later(float (&c)[COUNT], uint64_t a, uint64_t b,
                            int keep) {
    typedef wgmma_asked<T, A_BY_K, B_BY_K, COUNT> asked;
    const auto now = [](simt::Later *later) {
        const asked &it = *(asked *)later;
        const int row =
            (int)(threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4);
        wgmma_reads<T, A_BY_K>(it, it.a, row, 1);
        wgmma_reads<T, A_BY_K>(it, it.a, row + 8, 1);
        wgmma_reads<T, B_BY_K>(it, it.b, 0, 2 * COUNT);
        const simt::Unseen unseen;
        wgmma_twin<T, A_BY_K, B_BY_K>(*it.c, it.a, it.b, it.keep);
    };
    simt::ask(simt::PRODUCTS,
              asked{{now, NULL, 0, sizeof(asked), 0}, &c, a, b, keep});
}

/* Issue the same product with `a` in registers. Each group of four adjacent
 * lanes holds two rows of a. */
template <int COUNT>
PTX_INLINE void wgmma_later(float (&c)[COUNT], const uint32_t a[4], uint64_t b,
                            int keep) {
    typedef wgmma_asked_tf32<COUNT> asked;
    const auto now = [](simt::Later *later) {
        const asked &it = *(asked *)later;
        wgmma_reads<float, 1>(it, it.b, 0, 2 * COUNT);
        const simt::Unseen unseen;
        wgmma_twin<float, 1, 8>(*it.c, it.a_r, it.b, it.keep);
    };
    asked it = {{now, NULL, 0, sizeof(asked), 0}, &c, {}, b, keep};
    const int g = (int)(threadIdx.x % 32 / 4);
    for (int i = 0; i < 4; i++)
        for (int t = 0; t < 4; t++)
            it.a_r[i % 2][i / 2 * 4 + t] = __uint_as_float(
                __shfl_sync(0xffffffffu, a[i], 4 * g + t) & 0xffffe000u);
    simt::ask(simt::PRODUCTS, it);
}
#endif

/* ---- the products on the GPU --------------------------------------------- */

#if WGMMA_HERE
/* The accumulators are N / 2 operands of the asm, generated in tens: "%30, %31,
 * ..." in its text and "+f"(c[30]), "+f"(c[31]), ... after it. */
#define WGMMA_TEN(t)                                                   \
    "%" #t "0, %" #t "1, %" #t "2, %" #t "3, %" #t "4, %" #t "5, %" #t \
    "6, %" #t "7, %" #t "8, %" #t "9, "
#define WGMMA_00_29 WGMMA_TEN() WGMMA_TEN(1) WGMMA_TEN(2)
#define WGMMA_30_59 WGMMA_TEN(3) WGMMA_TEN(4) WGMMA_TEN(5)
#define WGMMA_60_89 WGMMA_TEN(6) WGMMA_TEN(7) WGMMA_TEN(8)
#define WGMMA_90_119 WGMMA_TEN(9) WGMMA_TEN(10) WGMMA_TEN(11)
#define WGMMA_90_95 "%90, %91, %92, %93, %94, %95"
#define WGMMA_120_127 "%120, %121, %122, %123, %124, %125, %126, %127"
#define WGMMA_TEXT_32 WGMMA_00_29 "%30, %31"
#define WGMMA_TEXT_64 WGMMA_00_29 WGMMA_30_59 "%60, %61, %62, %63"
#define WGMMA_TEXT_96 WGMMA_00_29 WGMMA_30_59 WGMMA_60_89 WGMMA_90_95
#define WGMMA_00_119 WGMMA_00_29 WGMMA_30_59 WGMMA_60_89 WGMMA_90_119
#define WGMMA_TEXT_128 WGMMA_00_119 WGMMA_120_127

#define WGMMA_REGISTERS_4(c, i) \
    "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3])
#define WGMMA_REGISTERS_16(c, i)                          \
    WGMMA_REGISTERS_4(c, i), WGMMA_REGISTERS_4(c, i + 4), \
        WGMMA_REGISTERS_4(c, i + 8), WGMMA_REGISTERS_4(c, i + 12)
#define WGMMA_REGISTERS_32(c, i) \
    WGMMA_REGISTERS_16(c, i), WGMMA_REGISTERS_16(c, i + 16)
#define WGMMA_REGISTERS_64(c, i) \
    WGMMA_REGISTERS_32(c, i), WGMMA_REGISTERS_32(c, i + 32)
#define WGMMA_REGISTERS_96(c, i) \
    WGMMA_REGISTERS_64(c, i), WGMMA_REGISTERS_32(c, i + 64)
#define WGMMA_REGISTERS_128(c, i) \
    WGMMA_REGISTERS_64(c, i), WGMMA_REGISTERS_64(c, i + 64)

/* The text of the asm. With operand `keep` 0 it computes c = a b instead of c
 * += a b. */
#define WGMMA_TEXT(what, text, operands, keep)                          \
    "{ .reg .pred p; setp.ne.b32 p, " keep ", 0; wgmma.mma_async.sync." \
    "aligned." what " {" text "}, " operands ";}"

/* Define overloads of wgmma_ask() with COUNT accumulators: WGMMA_DEFINE_16 for
 * one 16-bit type, WGMMA_DEFINE_8 for tf32, with a in shared memory or in
 * registers. A, B, ... are the asm's names of the operands that follow the
 * accumulators: "%COUNT", "%COUNT + 1", ... */
#define WGMMA_DEFINE_16(type, COUNT, shape, types, A, B, C, D, E)              \
    template <int A_BY_K, int B_BY_K>                                          \
    PTX_INLINE void wgmma_ask(type, float (&c)[COUNT], uint64_t a, uint64_t b, \
                              int keep) {                                      \
        asm volatile(WGMMA_TEXT(shape "k16.f32." types, WGMMA_TEXT_##COUNT,    \
                                A ", " B ", p, 1, 1, " D ", " E, C)            \
                     : WGMMA_REGISTERS_##COUNT(c, 0)                           \
                     : "l"(a), "l"(b), "r"(keep), "n"(!A_BY_K), "n"(!B_BY_K)); \
    }
#define WGMMA_DEFINE_8(COUNT, shape, A, B, C, D, E, F)                        \
    template <int A_BY_K, int B_BY_K>                                         \
    PTX_INLINE void wgmma_ask(float, float (&c)[COUNT], uint64_t a,           \
                              uint64_t b, int keep) {                         \
        asm volatile(WGMMA_TEXT(shape "k8.f32.tf32.tf32", WGMMA_TEXT_##COUNT, \
                                A ", " B ", p, 1, 1", C)                      \
                     : WGMMA_REGISTERS_##COUNT(c, 0)                          \
                     : "l"(a), "l"(b), "r"(keep));                            \
    }                                                                         \
    PTX_INLINE void wgmma_ask(float (&c)[COUNT], const uint32_t (&a)[4],      \
                              uint64_t b, int keep) {                         \
        asm volatile(                                                         \
            WGMMA_TEXT(shape "k8.f32.tf32.tf32", WGMMA_TEXT_##COUNT,          \
                       "{" A ", " B ", " C ", " D "}, " E ", p, 1, 1", F)     \
            : WGMMA_REGISTERS_##COUNT(c, 0)                                   \
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(keep)); \
    }
#define WGMMA_DEFINE(COUNT, shape, A, B, C, D, E, F)                         \
    WGMMA_DEFINE_16(__nv_bfloat16, COUNT, shape, "bf16.bf16", A, B, C, D, E) \
    WGMMA_DEFINE_16(__half, COUNT, shape, "f16.f16", A, B, C, D, E)          \
    WGMMA_DEFINE_8(COUNT, shape, A, B, C, D, E, F)

WGMMA_DEFINE(32, "m64n64", "%32", "%33", "%34", "%35", "%36", "%37")
WGMMA_DEFINE(64, "m64n128", "%64", "%65", "%66", "%67", "%68", "%69")
WGMMA_DEFINE(96, "m64n192", "%96", "%97", "%98", "%99", "%100", "%101")
WGMMA_DEFINE(128, "m64n256", "%128", "%129", "%130", "%131", "%132", "%133")
#endif

/* ---- c = a b + (keep ? c : 0), N = 2 COUNT: 64, 128, 192 or 256 ---------- */

/* T is __nv_bfloat16 or __half (k = 16), or float for tf32 (k = 8), whose low
 * 13 bits the tensor cores ignore. A_BY_K, B_BY_K: whether k runs along the
 * rows of a's and b's tiles, as tf32 requires. */
template <typename T, int A_BY_K, int B_BY_K, int COUNT>
PTX_INLINE void wgmma(float (&c)[COUNT], uint64_t a, uint64_t b, int keep) {
    static_assert(sizeof(T) == 2 || (A_BY_K && B_BY_K), "tf32: k by rows");
#if PTX_TWIN
    wgmma_later<T, A_BY_K, B_BY_K>(c, a, b, keep);
#elif WGMMA_HERE
    wgmma_ask<A_BY_K, B_BY_K>(T(), c, a, b, keep);
#else
    __trap(); // unreachable: the launcher rejects such a device
#endif
}

/* Multiply in tf32 with a (64,8) in registers. Lane 4 g + t of warp w has rows
 * 16 w + g and 16 w + g + 8. Their column t is in a[0] and a[1], and their
 * column t + 4 is in a[2] and a[3]. The registers must not change until
 * wgmma_wait(). */
template <int COUNT>
PTX_INLINE void wgmma_tf32(float (&c)[COUNT], const uint32_t (&a)[4],
                           uint64_t b, int keep) {
#if PTX_TWIN
    wgmma_later(c, a, b, keep);
#elif WGMMA_HERE
    wgmma_ask(c, a, b, keep);
#else
    __trap();
#endif
}
#endif
