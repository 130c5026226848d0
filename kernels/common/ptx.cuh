/* ptx.cuh -- the few instructions that CUDA C cannot express: products of
 * fragments on tensor cores, copies that bypass the registers, and kernels that
 * overlap.
 *
 * Most inline PTX of the kernels is in this file. On the CPU target each
 * function has a plain twin with the same result: the lanes of a warp exchange
 * their values by shuffles. So kernels for tensor cores can be checked without
 * a GPU.
 *
 * A fragment is the part of a small matrix that one lane holds. Below, g = lane
 * / 4 and t = lane % 4; for 16-bit types a register holds two neighbours along
 * k.
 *
 *     a (16,k)  a[0]: row g, a[1]: row g + 8, at column t (16 bits: 2t, 2t + 1)
 *               a[2], a[3]: the same rows, half of k further right
 *     b (k,8)   b[0]: column g, at row t (2t, 2t + 1); b[1]: half of k further
 *     c (16,8)  c[0], c[1]: row g, columns 2t, 2t + 1; c[2], c[3]: row g + 8
 *
 * Source:  PTX ISA, "Warp-level matrix instructions". */
#ifndef WEFT_PTX_CUH
#define WEFT_PTX_CUH
#ifndef __CUDACC_RTC__ // NVRTC, which compiles a notebook's cell, has no host
                       // headers
#include "internal.cuh"
#endif
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#define PTX_INLINE static __device__ __forceinline__

#ifdef SIMT_H // on the CPU target, in the library or in a separate program
#define PTX_TWIN 1
#define PTX_ARCH 0
#elif defined(__CUDA_ARCH__)
#define PTX_TWIN 0
#define PTX_ARCH __CUDA_ARCH__
#else
#define PTX_TWIN 0 // nvcc parses device code for the host as well
#define PTX_ARCH 0
#endif

#if PTX_TWIN
#include "../simt/runtime/asynchronous.h"
#endif

/* ---- programmatic dependent launch -------------------------------------- */

/* Wait until the previous kernels have ended and their stores are visible.
 * Without the launch attribute this is true from the start. */
PTX_INLINE void pdl_wait() {
#if PTX_ARCH >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* Allow the next kernel to start; it runs until its own pdl_wait(). */
PTX_INLINE void pdl_trigger() {
#if PTX_ARCH >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/* ---- maxima -------------------------------------------------------------- */

/* Return max(x, 0). A NaN stays a NaN, so that the loss shows that a model has
 * diverged; fmaxf() would turn it into 0. */
PTX_INLINE float relu(float x) {
#if PTX_ARCH >= 800
    float y;
    asm("max.NaN.f32 %0, %1, 0f00000000;" : "=f"(y) : "f"(x));
    return y;
#else
    return x < 0.0f ? 0.0f : x;
#endif
}

/* Return the larger of two numbers, or a NaN if one of them is a NaN; fmaxf()
 * would return the other one. */
PTX_INLINE float max_nan(float a, float b) {
#if PTX_ARCH >= 800
    float y;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
    return y;
#else
    return a != a || a > b ? a : b;
#endif
}

/* ---- bits of a warp ------------------------------------------------------ */

/* Return the lanes of the warp in which bit BIT of `word` equals the caller's.
 * In this form, ptxas loads seven predicates with one instruction, and inverts
 * a ballot under its predicate. Eight bits then take 22 instructions instead of
 * 56. */
template <int BIT> PTX_INLINE unsigned equal_bit(unsigned word) {
#if PTX_TWIN
    const bool is_set = word >> BIT & 1;
    const unsigned lanes = __ballot_sync(0xffffffff, is_set);
    return is_set ? lanes : ~lanes;
#else
    unsigned lanes;
    asm volatile("{\n\t.reg .pred set;\n\t.reg .b32 bit;\n\t"
                 "and.b32 bit, %1, %2;\n\t"
                 "setp.ne.u32 set, bit, 0;\n\t"
                 "vote.sync.ballot.b32 %0, set, 0xffffffff;\n\t"
                 "@!set not.b32 %0, %0;\n\t}"
                 : "=r"(lanes)
                 : "r"(word), "n"(1 << BIT));
    return lanes;
#endif
}

/* Return a & b & c in one instruction. */
PTX_INLINE unsigned and3(unsigned a, unsigned b, unsigned c) {
#if PTX_TWIN
    return a & b & c;
#else
    unsigned all;
    asm("lop3.b32 %0, %1, %2, %3, 0x80;" : "=r"(all) : "r"(a), "r"(b), "r"(c));
    return all;
#endif
}

/* ---- multiply-adds in a fixed order ------------------------------------- */

/* Add a * b to *sum. The compiler keeps these calls in order. The register file
 * has two banks. An instruction that reads two registers of one bank waits a
 * cycle, unless an earlier instruction has left one of them in the reuse
 * cache. So the order of the calls determines how often instructions wait. */
PTX_INLINE void multiply_add(float *sum, float a, float b) {
#if PTX_TWIN
    *sum += a * b;
#else
    asm volatile("fma.rn.f32 %0, %1, %2, %0;" : "+f"(*sum) : "f"(a), "f"(b));
#endif
}

/* ---- asynchronous copies into shared memory ------------------------------ */

/* Start copying 16 bytes; both addresses must be multiples of 16. */
PTX_INLINE void copy16_async(void *shared, const void *global) {
#if PTX_TWIN
    simt::copy_later(shared, global, 16, 0);
#elif PTX_ARCH >= 800
    const unsigned to = (unsigned)__cvta_generic_to_shared(shared);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to),
                 "l"(global)
                 : "memory");
#else
    *(float4 *)shared = *(const float4 *)global;
#endif
}

/* Close a group: all copies issued since the last commit. */
PTX_INLINE void copy_commit() {
#if PTX_TWIN
    simt::later_commit(simt::COPIES);
#elif PTX_ARCH >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/* Wait until at most the N newest of this thread's groups are in flight. The
 * copies are visible to other threads after the next barrier. */
template <int N> PTX_INLINE void copy_wait() {
#if PTX_TWIN
    simt::later_wait(simt::COPIES, N);
#elif PTX_ARCH >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
#endif
}

/* ---- loads --------------------------------------------------------------- */

/* Load 16 bytes of a row. The L2 cache fetches 256 bytes of the row, because
 * other threads read the bytes that follow. */
PTX_INLINE float4 load16_ahead(const float *global) {
#if PTX_ARCH >= 800
    float4 v;
    asm volatile("ld.global.L2::256B.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                 : "l"(global));
    return v;
#else
    return *(const float4 *)global;
#endif
}

/* ---- rounding ----------------------------------------------------------- */

/* Round to the nearest tf32 (10 bits of mantissa); ties go away from zero. */
PTX_INLINE float round_tf32(float x) {
#if PTX_ARCH >= 800
    unsigned bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
    return __uint_as_float(bits);
#else
    if (x != x) return x;
    return __uint_as_float((__float_as_uint(x) + 0x1000u) & 0xffffe000u);
#endif
}

/* Round to the nearest tf32, ties to even, as TMA does. */
PTX_INLINE float even_tf32(float x) {
    const unsigned bits = __float_as_uint(x), even = bits >> 13 & 1;
    if (x != x) return x;
    return __uint_as_float((bits + 0xfffu + even) & 0xffffe000u);
}

/* ---- fragments from shared memory --------------------------------------- */

/* Load four matrices of 8 rows of 16 bytes. Lane i passes the address of row i
 * % 8 of matrix i / 8; r[m] receives bytes 4t .. 4t + 3 of row g of matrix
 * m. */
PTX_INLINE void ldmatrix_x4(uint32_t r[4], const void *row) {
#if PTX_TWIN
    const int lane = (int)(threadIdx.x % 32);
    for (int m = 0; m < 4; m++) {
        const uint64_t from =
            __shfl_sync(0xffffffffu, (uint64_t)row, 8 * m + lane / 4);
        r[m] = ((const uint32_t *)from)[lane % 4];
    }
    __syncwarp(); // a lane that overwrites the rows next must wait for all
                  // lanes
#elif PTX_ARCH >= 750
    const unsigned at = (unsigned)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 "
                 "{%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at));
#endif
}

/* Load the same matrices, as 8 x 8 numbers of 16 bits, transposed: r[m]
 * receives numbers 2t and 2t + 1 of COLUMN g. */
PTX_INLINE void ldmatrix_x4_trans(uint32_t r[4], const void *row) {
#if PTX_TWIN
    const int lane = (int)(threadIdx.x % 32);
    for (int m = 0; m < 4; m++) {
        const int upper = 8 * m + lane % 4 * 2;
        const uint64_t from = __shfl_sync(0xffffffffu, (uint64_t)row, upper);
        const uint64_t next =
            __shfl_sync(0xffffffffu, (uint64_t)row, upper + 1);
        r[m] = ((const uint16_t *)from)[lane / 4] |
               (uint32_t)((const uint16_t *)next)[lane / 4] << 16;
    }
    __syncwarp();
#elif PTX_ARCH >= 750
    const unsigned at = (unsigned)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 "
                 "{%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at));
#endif
}

/* ---- tensor cores: c += a b --------------------------------------------- */

#if PTX_TWIN
/* Return number `i` of a register, which holds one number (tf32) or two. */
enum ptx_format { PTX_TF32, PTX_BF16, PTX_F16 };
static inline double ptx_number(enum ptx_format format, uint32_t word, int i) {
    if (format == PTX_TF32) return __uint_as_float(word & 0xffffe000u);
    const unsigned short bits = (unsigned short)(word >> 16 * i);
    return format == PTX_BF16 ? simt::BFloat16::to_float(bits)
                              : simt::Binary16::to_float(bits);
}

/* Return the dot product along k of one row of a and one column of b. Four
 * lanes hold one part each; both halves of k share one 64-bit word. */
static inline double ptx_dot(enum ptx_format format, const uint64_t a[4],
                             const uint64_t b[4]) {
    double sum = 0;
    for (int lane = 0; lane < 4; lane++)
        for (int half = 0; half < 2; half++)
            for (int i = 0; i < (format == PTX_TF32 ? 1 : 2); i++)
                sum += ptx_number(format, a[lane] >> 32 * half, i) *
                       ptx_number(format, b[lane] >> 32 * half, i);
    return sum;
}

static inline void ptx_mma(enum ptx_format format, float c[4],
                           const uint32_t a[4], const uint32_t b[2]) {
    const int lane = (int)(threadIdx.x % 32), g = lane / 4, t = lane % 4;
    const uint64_t upper = a[0] | (uint64_t)a[2] << 32;
    const uint64_t lower = a[1] | (uint64_t)a[3] << 32;
    const uint64_t both = b[0] | (uint64_t)b[1] << 32;
    uint64_t row[2][4], column[2][4];
    for (int i = 0; i < 4; i++) {
        row[0][i] = __shfl_sync(0xffffffffu, upper, 4 * g + i);
        row[1][i] = __shfl_sync(0xffffffffu, lower, 4 * g + i);
        column[0][i] = __shfl_sync(0xffffffffu, both, 4 * (2 * t) + i);
        column[1][i] = __shfl_sync(0xffffffffu, both, 4 * (2 * t + 1) + i);
    }
    for (int i = 0; i < 4; i++)
        c[i] = (float)(c[i] + ptx_dot(format, row[i / 2], column[i % 2]));
}
#endif

/* Multiply a (16,8) by b (8,8). Both must already be rounded, since the
 * hardware truncates. The instruction needs sm_80. */
PTX_INLINE void mma_tf32(float c[4], const uint32_t a[4], const uint32_t b[2]) {
#if PTX_TWIN
    ptx_mma(PTX_TF32, c, a, b);
#elif PTX_ARCH >= 800
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]),
                   "r"(b[1]));
#else
    __trap(); // unreachable: the launcher rejects such a device
#endif
}

/* Multiply a (16,16) by b (16,8). The instruction needs sm_80. */
PTX_INLINE void mma_bf16(float c[4], const uint32_t a[4], const uint32_t b[2]) {
#if PTX_TWIN
    ptx_mma(PTX_BF16, c, a, b);
#elif PTX_ARCH >= 800
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]),
                   "r"(b[1]));
#else
    __trap();
#endif
}

/* Multiply a (16,16) by b (16,8). On sm_75, one instruction does only half of
 * this (k = 8). */
PTX_INLINE void mma_f16(float c[4], const uint32_t a[4], const uint32_t b[2]) {
#if PTX_TWIN
    ptx_mma(PTX_F16, c, a, b);
#elif PTX_ARCH >= 800
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]),
                   "r"(b[1]));
#elif PTX_ARCH >= 750
    for (int half = 0; half < 2; half++)
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 "
                     "{%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                     : "r"(a[2 * half]), "r"(a[2 * half + 1]), "r"(b[half]));
#else
    __trap();
#endif
}
#endif
