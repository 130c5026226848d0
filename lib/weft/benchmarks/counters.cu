/* counters.cu -- kernels with known costs, for `weft bench counters`.
 *
 * The watch build counts each kernel's costs on the CPU, Nsight Compute counts
 * them on a GPU, and the two must agree. `#pragma unroll 1` keeps the compiler
 * from unrolling loops and merging their accesses. matmul has both forms, to
 * show the effect of merging.
 */
enum { SIDE = 32, THREADS = 256 };

#define GLOBAL_INDEX (blockIdx.x * blockDim.x + threadIdx.x)

// ---- global memory ----------------------------------------------------------

__global__ void coalesced(float *y, const float *x) {
    const int i = GLOBAL_INDEX;
    y[i] = x[i];
}

__global__ void strided(float *y, const float *x, int stride) {
    const int i = GLOBAL_INDEX;
    y[i] = x[stride * i];
}

__global__ void scattered(float *y, const float *x, int stride) {
    const int i = GLOBAL_INDEX;
    y[stride * i] = x[i];
}

__global__ void gather(float *y, const float *x, const int *index) {
    const int i = GLOBAL_INDEX;
    y[i] = x[index[i]];
}

/* The last 7 threads do nothing. */
__global__ void misaligned(float *y, const float *x, int n) {
    const int i = GLOBAL_INDEX;
    if (i < n - 7) y[i] = x[i + 1];
}

__global__ void copy_float4(float4 *y, const float4 *x) {
    const int i = GLOBAL_INDEX;
    y[i] = x[i];
}

__global__ void copy_double(double *y, const double *x) {
    const int i = GLOBAL_INDEX;
    y[i] = x[i];
}

__global__ void copy_bytes(unsigned char *y, const unsigned char *x) {
    const int i = GLOBAL_INDEX;
    y[i] = x[i];
}

// ---- transposes of a square matrix ------------------------------------------

__global__ void transpose_naive(float *y, const float *x, int n) {
    const int row = blockIdx.y * SIDE + threadIdx.y;
    const int col = blockIdx.x * SIDE + threadIdx.x;
    y[col * n + row] = x[row * n + col];
}

__global__ void transpose_tile(float *y, const float *x, int n) {
    __shared__ float s[SIDE][SIDE];
    const int tx = threadIdx.x, ty = threadIdx.y;
    s[ty][tx] = x[(blockIdx.y * SIDE + ty) * n + blockIdx.x * SIDE + tx];
    __syncthreads();
    y[(blockIdx.x * SIDE + ty) * n + blockIdx.y * SIDE + tx] = s[tx][ty];
}

__global__ void transpose_padded(float *y, const float *x, int n) {
    __shared__ float s[SIDE][SIDE + 1];
    const int tx = threadIdx.x, ty = threadIdx.y;
    s[ty][tx] = x[(blockIdx.y * SIDE + ty) * n + blockIdx.x * SIDE + tx];
    __syncthreads();
    y[(blockIdx.x * SIDE + ty) * n + blockIdx.y * SIDE + tx] = s[tx][ty];
}

// ---- shared memory ----------------------------------------------------------

/* Adjacent threads access shared memory `stride` words apart; stride <= 32. */
__global__ void shared_stride(float *y, const float *x, int stride) {
    __shared__ float s[32 * THREADS];
    const int i = GLOBAL_INDEX, at = threadIdx.x * stride;
    s[at] = x[i];
    __syncthreads();
    y[i] = s[at];
}

__global__ void shared_float4(float4 *y, const float4 *x) {
    __shared__ float4 s[THREADS];
    const int i = GLOBAL_INDEX, t = threadIdx.x;
    s[t] = x[i];
    __syncthreads();
    y[i] = s[THREADS - 1 - t];
}

// ---- sums of a block --------------------------------------------------------

/* The adding threads are a growing distance apart, so few are active in each
 * warp. */
__global__ void sum_interleaved(float *y, const float *x) {
    __shared__ float s[THREADS];
    const int t = threadIdx.x;
    s[t] = x[GLOBAL_INDEX];
    __syncthreads();
#pragma unroll 1
    for (int step = 1; step < THREADS; step *= 2) {
        if (t % (2 * step) == 0) s[t] += s[t + step];
        __syncthreads();
    }
    if (t == 0) y[blockIdx.x] = s[0];
}

/* The first threads do the additions. Their addresses are a growing distance
 * apart, which causes bank conflicts. */
__global__ void sum_strided(float *y, const float *x) {
    __shared__ float s[THREADS];
    const int t = threadIdx.x;
    s[t] = x[GLOBAL_INDEX];
    __syncthreads();
#pragma unroll 1
    for (int step = 1; step < THREADS; step *= 2) {
        const int at = 2 * step * t;
        if (at < THREADS) s[at] += s[at + step];
        __syncthreads();
    }
    if (t == 0) y[blockIdx.x] = s[0];
}

/* In each step, the first half of the adding threads adds again, so whole warps
 * are active. */
__global__ void sum_halves(float *y, const float *x) {
    __shared__ float s[THREADS];
    const int t = threadIdx.x;
    s[t] = x[GLOBAL_INDEX];
    __syncthreads();
#pragma unroll 1
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (t < half) s[t] += s[t + half];
        __syncthreads();
    }
    if (t == 0) y[blockIdx.x] = s[0];
}

/* Each warp adds by shuffles, then the first warp adds the warps' sums. Shared
 * memory contains only the warps' sums. */
__global__ void sum_shuffles(float *y, const float *x) {
    __shared__ float s[32];
    const int t = threadIdx.x;
    float sum = x[GLOBAL_INDEX];
    for (int half = 16; half > 0; half /= 2)
        sum += __shfl_down_sync(0xffffffffu, sum, half);
    if (t % 32 == 0) s[t / 32] = sum;
    __syncthreads();
    if (t < THREADS / 32) {
        sum = s[t];
        for (int half = THREADS / 64; half > 0; half /= 2)
            sum += __shfl_down_sync((1u << THREADS / 32) - 1, sum, half);
        if (t == 0) y[blockIdx.x] = sum;
    }
}

// ---- tiled products: c (n,n) = a (n,n) @ b (n,n) ----------------------------

/* UNROLL: unroll factor of the inner loop; 1 prevents unrolling. */
template <int TILE, int UNROLL>
__global__ void matmul(float *c, const float *a, const float *b, int n) {
    __shared__ float a_s[TILE][TILE], b_s[TILE][TILE];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int row = blockIdx.y * TILE + ty, col = blockIdx.x * TILE + tx;
    float acc = 0.0f;
#pragma unroll 1
    for (int k0 = 0; k0 < n; k0 += TILE) {
        a_s[ty][tx] = a[row * n + k0 + tx];
        b_s[ty][tx] = b[(k0 + ty) * n + col];
        __syncthreads();
#pragma unroll UNROLL
        for (int i = 0; i < TILE; i++) acc += a_s[ty][i] * b_s[i][tx];
        __syncthreads();
    }
    c[row * n + col] = acc;
}

// ---- branches ---------------------------------------------------------------

/* Odd and even threads branch differently: 16 of 32 are active at a time. */
__global__ void odd_and_even(float *y, const float *x, int rounds) {
    const int i = GLOBAL_INDEX;
    float v = x[i];
    if (i % 2) {
#pragma unroll 1
        for (int k = 0; k < rounds; k++) v = v * 0.75f + 0.5f;
    } else {
#pragma unroll 1
        for (int k = 0; k < rounds; k++) v = v * v - 0.25f;
    }
    y[i] = v;
}

/* Whole warps branch together, so 32 of 32 are active. There are as many
 * branches as in odd_and_even(). */
__global__ void by_warp(float *y, const float *x, int rounds) {
    const int i = GLOBAL_INDEX;
    float v = x[i];
    if (i / 32 % 2) {
#pragma unroll 1
        for (int k = 0; k < rounds; k++) v = v * 0.75f + 0.5f;
    } else {
#pragma unroll 1
        for (int k = 0; k < rounds; k++) v = v * v - 0.25f;
    }
    y[i] = v;
}

/* Lane l does l * rounds steps: on average, 16 of 32 are active. */
__global__ void by_lane(float *y, const float *x, int rounds) {
    const int i = GLOBAL_INDEX, mine = i % 32 * rounds;
    float v = x[i];
#pragma unroll 1
    for (int k = 0; k < mine; k++) v = v * 0.75f + 0.5f;
    y[i] = v;
}

// ---- atomics ----------------------------------------------------------------

__global__ void atomic_one(int *sum, const int *x) {
    atomicMax(sum, x[GLOBAL_INDEX]);
}

__global__ void atomic_one_float(float *sum, const float *x) {
    atomicAdd(sum, x[GLOBAL_INDEX]);
}

__global__ void atomic_spread(int *sums, const int *x) {
    const int i = GLOBAL_INDEX;
    atomicAdd(&sums[i], x[i]);
}

__global__ void atomic_histogram(int *sums, const int *x, const int *bin) {
    const int i = GLOBAL_INDEX;
    atomicAdd(&sums[bin[i]], x[i]);
}

/* The kernel uses the old value, so the compiler cannot emit a reduction. */
__global__ void atomic_old(int *old, int *sums, const int *x, const int *bin) {
    const int i = GLOBAL_INDEX;
    old[i] = atomicExch(&sums[bin[i]], x[i]);
}

__global__ void atomic_shared(int *sums, const int *x, const int *bin) {
    __shared__ int s[THREADS];
    const int t = threadIdx.x, i = GLOBAL_INDEX;
    s[t] = 0;
    __syncthreads();
    atomicAdd(&s[bin[i] % THREADS], x[i]);
    __syncthreads();
    sums[i] = s[t];
}
