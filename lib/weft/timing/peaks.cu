/* peaks.cu -- the highest rates of copies and multiply-adds on this GPU.
 *
 * Each kernel does only one thing, on operands in registers or, for wgmma, in
 * shared memory. No matrix product can be faster, since it must also fetch its
 * operands. The numbers are random, since zeros need less power and raise the
 * clock. Every sum is stored, so that no compiler removes it. peaks.py
 * evaluates the times. */
#include "common/hopper.cuh"
#include "matmul/wgmma.cuh"

#define EXPORT extern "C" __attribute__((visibility("default")))

enum { THREADS = 256, SUMS = 32, UNROLLED = 8, TILES = 8, STEPS = 4 };

/* Kinds of multiply-adds for peak_run(); KINDS in peaks.py has this order. */
enum kind { FFMA, MMA_TF32, MMA_BF16, MMA_FP16, WGMMA_TF32, WGMMA_BF16, KINDS };

/* Return a number between -1 and 1 that depends on `seed`. */
static __device__ __forceinline__ float random_number(unsigned seed) {
    seed = (seed ^ 61u ^ seed >> 16) * 9u;
    seed = (seed ^ seed >> 4) * 0x27d4eb2du;
    return (float)(int)(seed ^ seed >> 15) * 0x1p-31f;
}

/* to = from, four floats at a time; each block copies one piece. */
static __global__ void copy_floats(float4 *to, const float4 *from,
                                   size_t count) {
    const size_t first = (size_t)blockIdx.x * THREADS * 4 + threadIdx.x;
    float4 values[4];
    for (int i = 0; i < 4; i++)
        if (first + i * THREADS < count) values[i] = from[first + i * THREADS];
    for (int i = 0; i < 4; i++)
        if (first + i * THREADS < count) to[first + i * THREADS] = values[i];
}

/* Read `count` float4 (a power of two) `turns` times, with all threads
 * together. The reads bypass the L1 caches: in each turn, a multiprocessor
 * reads elements that another multiprocessor read before. out: a sum for each
 * thread. */
static __global__ void read_past_l1(float *out, const float4 *from,
                                    unsigned count, int turns) {
    const unsigned thread = blockIdx.x * THREADS + threadIdx.x;
    const unsigned threads = gridDim.x * THREADS;
    float sum[4] = {};
    for (int turn = 0; turn < turns; turn++)
        for (unsigned i = thread; i < count; i += 4 * threads)
#pragma unroll
            for (unsigned j = 0; j < 4; j++) {
                const unsigned at = i + j * threads;
                if (at >= count) break;
                const float4 x = __ldcg(&from[(at + turn * THREADS) % count]);
                sum[j] += x.x + x.y + x.z + x.w;
            }
    out[thread] = sum[0] + sum[1] + sum[2] + sum[3];
}

/* Each thread runs SUMS independent chains of fused multiply-adds, more than
 * enough to hide their latency. x and y stay in the operand cache. */
static __global__ void chain_ffma(float *out, int turns) {
    const int thread = blockIdx.x * THREADS + threadIdx.x;
    const float x = random_number(2 * thread),
                y = random_number(2 * thread + 1);
    float sum[SUMS];
    for (int i = 0; i < SUMS; i++) sum[i] = random_number(thread + i);
    for (int turn = 0; turn < turns; turn++)
#pragma unroll
        for (int repeat = 0; repeat < UNROLLED; repeat++)
#pragma unroll
            for (int i = 0; i < SUMS; i++) sum[i] = fmaf(sum[i], x, y);
    float total = 0.0f;
    for (int i = 0; i < SUMS; i++) total += sum[i];
    out[thread] = total;
}

/* Each warp computes TILES independent sums of 16 x 8 by mma.sync. */
template <enum kind KIND>
static __global__ void chain_mma(float *out, int turns) {
    const int thread = blockIdx.x * THREADS + threadIdx.x;
    uint32_t a[4], b[2];
    for (int i = 0; i < 6; i++) {
        const float x = random_number(thread * 12 + 2 * i);
        const float y = random_number(thread * 12 + 2 * i + 1);
        uint32_t word = __float_as_uint(round_tf32(x));
        if (KIND == MMA_BF16) {
            const __nv_bfloat162 two = __floats2bfloat162_rn(x, y);
            word = *(const uint32_t *)&two;
        } else if (KIND == MMA_FP16) {
            const __half2 two = __floats2half2_rn(x, y);
            word = *(const uint32_t *)&two;
        }
        *(i < 4 ? &a[i] : &b[i - 4]) = word;
    }
    float c[TILES][4] = {};
    for (int turn = 0; turn < turns; turn++)
#pragma unroll
        for (int i = 0; i < TILES; i++) {
            if (KIND == MMA_TF32) mma_tf32(c[i], a, b);
            if (KIND == MMA_BF16) mma_bf16(c[i], a, b);
            if (KIND == MMA_FP16) mma_f16(c[i], a, b);
        }
    float total = 0.0f;
    for (int i = 0; i < TILES; i++)
        for (int j = 0; j < 4; j++) total += c[i][j];
    out[thread] = total;
}

static __device__ __forceinline__ void put(float *to, float x) { *to = x; }
static __device__ __forceinline__ void put(__nv_bfloat16 *to, float x) {
    *to = __float2bfloat16(x);
}

/* Two warpgroups, with 64 x 256 sums each, multiply their tiles of `a` by one
 * tile of `b`. A step uses 32 bytes of a row, and a row of shared memory is
 * long enough for STEPS steps. */
template <typename T>
static __global__ void __launch_bounds__(THREADS)
    chain_wgmma(float *out, int turns) {
    extern __shared__ char memory[];
    char *const tiles = aligned_1024(memory);
    const int count = (2 * 64 + 256) * WGMMA_ROW / (int)sizeof(T);
    for (int i = threadIdx.x; i < count; i += THREADS)
        put((T *)tiles + i, random_number(i));
    fence_proxy_async();
    __syncthreads();
    const int group = threadIdx.x / 128;
    const uint64_t a = wgmma_tile(tiles + group * 64 * WGMMA_ROW, 0);
    const uint64_t b = wgmma_tile(tiles + 2 * 64 * WGMMA_ROW, 0);
    float c[128];
    for (int i = 0; i < 128; i++) c[i] = 0.0f;
    for (int turn = 0; turn < turns; turn++) {
        wgmma_fence();
#pragma unroll
        for (int step = 0; step < STEPS; step++)
            wgmma<T, 1, 1>(c, wgmma_step(a, 32 * step),
                           wgmma_step(b, 32 * step), 1);
        wgmma_commit();
        wgmma_wait<1>();
    }
    wgmma_wait<0>();
    float total = 0.0f;
    for (int i = 0; i < 128; i++) total += c[i];
    out[blockIdx.x * THREADS + threadIdx.x] = total;
}

/* Copy `count` floats, a multiple of 4. */
EXPORT int peak_copy(float *to, const float *from, size_t count,
                     cudaStream_t stream) {
    const unsigned blocks = (unsigned)CEIL_DIV(count / 4, THREADS * 4);
    copy_floats<<<blocks, THREADS, 0, stream>>>(
        (float4 *)to, (const float4 *)from, count / 4);
    return cudaGetLastError();
}

/* out (blocks * 256): the sums of the floats read. count: the number of floats,
 * 4 times a power of two; they must fit in the L2 cache. */
EXPORT int peak_l2(float *out, const float *from, size_t count, int blocks,
                   int turns, cudaStream_t stream) {
    read_past_l1<<<blocks, THREADS, 0, stream>>>(out, (const float4 *)from,
                                                 (unsigned)(count / 4), turns);
    return cudaGetLastError();
}

/* Flops of a block in one turn. */
EXPORT double peak_flops(enum kind kind) {
    const double warps = THREADS / 32.0;
    switch (kind) {
    case FFMA: return 2.0 * THREADS * SUMS * UNROLLED;
    case MMA_TF32: return warps * TILES * 2 * 16 * 8 * 8;
    case MMA_BF16:
    case MMA_FP16: return warps * TILES * 2 * 16 * 8 * 16;
    case WGMMA_TF32: return 2.0 * STEPS * 2 * 64 * 256 * 8;
    case WGMMA_BF16: return 2.0 * STEPS * 2 * 64 * 256 * 16;
    default: return 0.0;
    }
}

/* Number of blocks that fill this GPU once; 0 if no device is current. */
EXPORT int peak_blocks(enum kind kind) {
    int device = 0, sms = 0;
    if (cudaGetDevice(&device)) return 0;
    cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device);
    return kind >= WGMMA_TF32 ? sms : 4 * sms;
}

template <typename T>
static int launch_wgmma(float *out, int blocks, int turns,
                        cudaStream_t stream) {
    const int shared = (2 * 64 + 256) * WGMMA_ROW + 1024;
    const cudaError_t error = cudaFuncSetAttribute(
        chain_wgmma<T>, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
    if (error) return error;
    chain_wgmma<T><<<blocks, THREADS, shared, stream>>>(out, turns);
    return cudaGetLastError();
}

/* Run `turns` turns of a kind on `blocks` blocks; out (blocks * 256): sums. */
EXPORT int peak_run(enum kind kind, float *out, int blocks, int turns,
                    cudaStream_t stream) {
    switch (kind) {
    case FFMA: chain_ffma<<<blocks, THREADS, 0, stream>>>(out, turns); break;
    case MMA_TF32:
        chain_mma<MMA_TF32><<<blocks, THREADS, 0, stream>>>(out, turns);
        break;
    case MMA_BF16:
        chain_mma<MMA_BF16><<<blocks, THREADS, 0, stream>>>(out, turns);
        break;
    case MMA_FP16:
        chain_mma<MMA_FP16><<<blocks, THREADS, 0, stream>>>(out, turns);
        break;
    case WGMMA_TF32: return launch_wgmma<float>(out, blocks, turns, stream);
    case WGMMA_BF16:
        return launch_wgmma<__nv_bfloat16>(out, blocks, turns, stream);
    default: return cudaErrorInvalidValue;
    }
    return cudaGetLastError();
}
