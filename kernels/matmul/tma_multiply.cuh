/* tma_multiply.cuh -- a thread's multiply-adds of a stage in rungs 11 and 12.
 *
 * A warp computes 32 x 128 elements of c, and each thread 8 x 16 of these. For
 * each step of k a thread reads 16 numbers of b. For every four steps it reads
 * four numbers of each of its 8 rows of a. Together these are 24 loads of 16
 * bytes for 512 multiply-adds. */
#ifndef WEFT_MATMUL_TMA_MULTIPLY_CUH
#define WEFT_MATMUL_TMA_MULTIPLY_CUH
#include "tma_tile.cuh"

/* The elements that the thread computes: rows row + 8 i, columns col + 32 (j /
 * 4) + j % 4 of the tile. Lanes 0 to 7 of a warp differ in col, so they read
 * the same numbers of a (broadcast) and 128 contiguous bytes of b. */
struct own {
    int row, col, group;
};

template <class S> static __device__ __forceinline__ struct own own_part() {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int in_group = warp % (S::WARPS / S::GROUPS);
    const int warp_m = in_group % S::ROWS_OF_WARPS;
    const int warp_n = in_group / S::ROWS_OF_WARPS;
    // Two warps share 64 rows. A thread's rows are 8 apart, so that row % 8, by
    // which their chunks are swizzled, is the same for all.
    return {warp_m / 2 * 64 + warp_m % 2 * 4 + lane / 8,
            warp_n * WARP_COLS + lane % 8 * 4,
            S::GROUPS == 1 ? 0 : warp / (S::WARPS / S::GROUPS)};
}

#if PTX_TWIN
typedef size_t address; // an address in shared memory
PTX_INLINE address address_of(const void *shared) { return (address)shared; }
#else
typedef unsigned address;
PTX_INLINE address address_of(const void *shared) {
    return shared_address(shared);
}
#endif

PTX_INLINE float4 read4(address at) {
#if PTX_TWIN
    return *(const float4 *)at;
#else
    float4 v;
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                 : "r"(at));
    return v;
#endif
}

/* The addresses at which a thread reads in a stage. Quad q of its first row of
 * `a` (four steps along k) is at a ^ q * QUAD_BYTES: TMA swizzles the chunks of
 * a row by exclusive or. Row r of b is at b + r * BN * 4. */
struct places {
    address a, b;
};
enum { QUAD_BYTES = QUAD * 4 };

template <class S>
static __device__ __forceinline__ struct places
places_in(const float *stage, const struct own &own) {
    const address at = address_of(stage);
    return {at + own.row * BK * 4 + own.row % 8 * QUAD_BYTES,
            at + S::A_FLOATS * 4 + own.col * 4};
}

/* Read four steps along k of row i of the thread's rows of a. */
static __device__ __forceinline__ float4 read_a(address at, int i) {
    return read4(at + i * 8 * BK * 4);
}
/* Read columns 4 j to 4 j + 3 of the thread's columns of b. */
static __device__ __forceinline__ float4 read_b(address at, int j) {
    return read4(at + j * 32 * 4);
}

static __device__ __forceinline__ float part(const float4 &v, int i) {
    return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

/* Return the q-th column of row i in step kk of a quad. The order runs back and
 * forth, so that a row begins with the column where the previous one ended.
 * That column must be even where kk is even, so the last two columns of a row
 * may be swapped: see multiply(). */
PTX_INLINE constexpr int column_of(int i, int q, int kk) {
    const int j = i % 2 ? TN - 1 - q : q;
    if (kk % 2 == 0) return j >= TN - 2 ? 2 * TN - 3 - j : j;
    return j < 2 ? 1 - j : j;
}

/* Do one step of k: TM x TN multiply-adds, in exactly this order. The register
 * file has two banks, of even and odd registers, and an instruction that reads
 * two registers of one bank waits a cycle. A row's number of a stays cached
 * through the row, so the banks of b and of the sum must differ. The compiler
 * ensures that: column j of b is in bank j % 2; its sums are in the other. At
 * the end of a row, the number of b stays cached instead. Then the new number
 * of `a`, in bank kk % 2, must not share the sum's bank. So j % 2 == kk % 2 is
 * required there. */
template <class After>
static __device__ __forceinline__ void
multiply(float acc[TM][TN], const float4 a_r[TM], const float4 b_r[TN / 4],
         int kk, After after_row) {
#pragma unroll
    for (int i = 0; i < TM; i++) {
#pragma unroll
        for (int q = 0; q < TN; q++) {
            const int j = column_of(i, q, kk);
            multiply_add(&acc[i][j], part(a_r[i], kk), part(b_r[j / 4], j % 4));
        }
        after_row(i);
    }
}

/* Read the first numbers that the thread multiplies in a stage. */
template <class S>
static __device__ __forceinline__ struct places
open_stage(float4 a_r[TM], float4 b_r[TN / 4], const float *stage,
           const struct own &own) {
    const struct places at = places_in<S>(stage, own);
    const address first = own.group * (BK / QUAD / S::GROUPS) * QUAD_BYTES;
#pragma unroll
    for (int i = 0; i < TM; i++) a_r[i] = read_a(at.a ^ first, i);
#pragma unroll
    for (int j = 0; j < TN / 4; j++) b_r[j] = read_b(at.b + first * S::BN, j);
    return at;
}

/* Read rows i to end - 1 of a quad of a. */
static __device__ __forceinline__ void read_rows(float4 a_r[TM], address at,
                                                 int i, int end) {
#pragma unroll
    for (; i < end; i++) a_r[i] = read_a(at, i);
}

/* Multiply all steps of the stage at `at` that belong to the thread's group.
 * a_r[0] and b_r[0] hold the operands of the first step. On return they hold
 * the operands of the first step of the stage that next() returns, and `at` is
 * the place of that stage.
 *
 * The operands of the next step are loaded during this step's multiply-adds. A
 * single group has one a_r. It reloads half of the rows after their last
 * multiply-adds, which gives ptxas more choice in placing the sums. The other
 * half follows when the next quad begins, long before these rows are needed.
 * Several groups wait for a stage four times as often, and read all rows ahead
 * into a second a_r.
 *
 * pdl_trigger() serves as a fence across which ptxas moves no multiply-add. (A
 * kernel that starts early because of it waits in pdl_wait().) With one group,
 * one fence per pass was faster than none. With several groups, it was faster
 * than one fence per step. */
template <class S, class Next>
static __device__ __forceinline__ void
multiply_stage(float acc[TM][TN], float4 a_r[2][TM], float4 b_r[2][TN / 4],
               struct places *at, const struct own &own, Next next) {
    enum { QUADS = BK / QUAD / S::GROUPS, AT_ONCE = 2, HALF = TM / 2 };
    const bool ahead = S::GROUPS > 1;
    const address first = own.group * QUADS * QUAD_BYTES;
    const address end = first + QUADS * QUAD_BYTES;
    address quad = first;
    // Two quads are about 17 KB of code. Four quads, 34 KB, took 6 % longer
    // because they do not fit in the instruction cache.
#pragma unroll 1
    do {
        const struct places here = {at->a ^ quad, at->b + quad * S::BN};
#pragma unroll
        for (int kk = 0; kk < AT_ONCE * QUAD; kk++) {
            const bool begins = kk % QUAD == 0, ends = kk % QUAD == QUAD - 1;
            const bool last = kk == AT_ONCE * QUAD - 1;
            float4 *const a_now = a_r[ahead ? kk / QUAD : 0];
            float4 *const a_then = a_r[ahead ? 1 - kk / QUAD : 0];
            float4 *const b_then = b_r[1 - kk % 2];
            struct places then = {here.a ^ (kk + 1) / QUAD * QUAD_BYTES,
                                  here.b + (kk + 1) * S::BN * 4};
            if (ahead && last) pdl_trigger();
            if (last) {
                quad += AT_ONCE * QUAD_BYTES;
                address q = quad;
                if (QUADS == AT_ONCE || quad == end) {
                    *at = places_in<S>(next(), own);
                    q = first;
                }
                then = {at->a ^ q, at->b + q * S::BN};
            }
            if (ahead && ends) read_rows(a_then, then.a, 0, TM);
            if (!ahead && begins)
                read_rows(a_now, here.a ^ kk / QUAD * QUAD_BYTES, HALF, TM);
#pragma unroll
            for (int j = 0; ahead && j < TN / 4; j++)
                b_then[j] = read_b(then.b, j);
            multiply(acc, a_now, b_r[kk % 2], kk % QUAD, [&](int i) {
                if (ahead) return;
                if (i < TN / 4) b_then[i] = read_b(then.b, i);
                if (ends && i == HALF - 1) read_rows(a_then, then.a, 0, HALF);
                if (last && i == HALF) pdl_trigger();
            });
        }
    } while (QUADS != AT_ONCE && quad != end);
}

/* ---- the kernel -------------------------------------------------------- */

static __device__ __forceinline__ void clear(float acc[TM][TN]) {
#pragma unroll
    for (int i = 0; i < TM; i++)
#pragma unroll
        for (int j = 0; j < TN; j++) acc[i][j] = 0.0f;
}

/* Store ROWS rows of the thread's part of the tile at (row0,col0): row `row`
 * and every 8th row after it. */
template <class S, int ROWS>
static __device__ __forceinline__ void
store_rows(float *c, int m, int n, int row0, int col0, const struct own &own,
           float acc[ROWS][TN], const struct extras &x) {
    const size_t col = (size_t)col0 + own.col;
    size_t row = (size_t)row0 + own.row;
    // Without this product, the sums would have to be in four consecutive
    // registers throughout, in the banks of b.
    struct extras rest = x;
    rest.alpha = 1.0f;
#pragma unroll
    for (int i = 0; i < ROWS; i++)
#pragma unroll
        for (int j = 0; j < TN; j++) acc[i][j] *= x.alpha;
    if (x.beta == 0.0f && !x.bias && !x.relu &&
        row + 8 * (ROWS - 1) < (size_t)m && col0 + S::BN <= n &&
        takes_vectors(c, n)) {
        float *const out = c + row * n + col;
#pragma unroll
        for (int i = 0; i < ROWS; i++)
#pragma unroll
            for (int j = 0; j < TN; j += 4)
                __stcs((float4 *)(out + (size_t)i * 8 * n + j * 8),
                       make_float4(acc[i][j], acc[i][j + 1], acc[i][j + 2],
                                   acc[i][j + 3]));
        return;
    }
    // This path handles edges and operations beyond alpha. Its code is large,
    // so it exists only once. The rows move to the front because registers
    // cannot be indexed.
#pragma unroll 1
    for (int i = 0; i < ROWS; i++, row += 8) {
#pragma unroll
        for (int j = 0; j < TN; j += 4)
            store4(c, m, n, row, col + j * 8, &acc[0][j], rest);
#pragma unroll
        for (int next = 1; next < ROWS; next++)
#pragma unroll
            for (int j = 0; j < TN; j++) acc[next - 1][j] = acc[next][j];
    }
}

#endif
