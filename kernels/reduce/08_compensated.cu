/* 08_compensated.cu -- reduce, rung 8: the errors are added, too.
 *
 * Before:     every addition rounds, and the errors of rungs 1 to 7 grow with
 *             the number of additions.
 * Idea:       the rounding error of a + b is itself a float, which six
 *             additions compute (Knuth's two-sum). Each thread also adds up the
 *             errors of its sum; at the end, their sum corrects the result. So
 *             the sum is as good as one with twice the digits, rounded
 *             once (Ogita, Rump and Oishi, Accurate Sum
 *             and Dot Product, 2005, algorithm Sum2).
 * Prediction: the speed of rung 6. A number needs 7 additions. An H200 loads
 *             1.2e12 numbers per second. Their 8.4e12 additions are a quarter
 *             of the device's maximum.
 * Limit:      the memory's bandwidth. */
#include "reduce.cuh"

/* A sum, and the sum of its rounding errors. */
struct exact {
    float sum, error;
};

/* Return a + b and the rounding error of this sum. */
static __device__ __forceinline__ exact add_exactly(float a, float b) {
    const float sum = __fadd_rn(a, b), rounded = __fadd_rn(sum, -a);
    const float lost = __fadd_rn(a, -__fadd_rn(sum, -rounded));
    return {sum, __fadd_rn(lost, __fadd_rn(b, -rounded))};
}

static __device__ __forceinline__ exact join(exact a, exact b) {
    const exact total = add_exactly(a.sum, b.sum);
    return {total.sum, total.error + (a.error + b.error)};
}

static __device__ __forceinline__ void add_number(exact *total, float number) {
    const exact next = add_exactly(total->sum, number);
    *total = {next.sum, total->error + next.error};
}

static __device__ __forceinline__ exact join_lanes(exact value) {
    for (int distance = WARP / 2; distance > 0; distance /= 2) {
        const float sum = __shfl_xor_sync(0xffffffff, value.sum, distance);
        const float error = __shfl_xor_sync(0xffffffff, value.error, distance);
        value = join(value, {sum, error});
    }
    return value;
}

/* Return to the first warp the sum over the block, like add_threads(). */
static __device__ exact join_threads(exact value, exact sums_s[WARPS]) {
    const int lane = threadIdx.x % WARP;
    value = join_lanes(value);
    if (lane == 0) sums_s[threadIdx.x / WARP] = value;
    __syncthreads(); // the sums of all warps are stored
    return join_lanes(lane < WARPS ? sums_s[lane] : exact{-0.0f, 0.0f});
}

static __device__ exact join_own(const float *x, size_t count) {
    const bool aligned = is_aligned(x);
    const size_t step = (size_t)gridDim.x * THREADS, fours = CEIL_DIV(count, 4);
    exact sums[4];
    for (exact &sum : sums) sum = {-0.0f, 0.0f};
    for (size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x; i < fours;
         i += step) {
        const float4 four = four_at(x, i, count, aligned);
        add_number(&sums[0], four.x), add_number(&sums[1], four.y);
        add_number(&sums[2], four.z), add_number(&sums[3], four.w);
    }
    return join(join(sums[0], sums[1]), join(sums[2], sums[3]));
}

static __global__ void __launch_bounds__(THREADS, RESIDENT)
    add_exact(float *sum, exact *partials, unsigned *arrived, const float *x,
              size_t count) {
    __shared__ bool last_s;
    __shared__ exact sums_s[WARPS];
    const exact total = join_threads(join_own(x, count), sums_s);
    if (threadIdx.x == 0) partials[blockIdx.x] = total;
    if (!arrive_last(arrived, &last_s)) return;
    exact rest = {-0.0f, 0.0f};
    for (unsigned i = threadIdx.x; i < gridDim.x; i += THREADS)
        rest = join(rest, partials[i]);
    rest = join_threads(rest, sums_s);
    if (threadIdx.x > 0) return;
    // After an infinity or an overflow, the error is a NaN and means nothing.
    *sum = isfinite(rest.sum) ? rest.sum + rest.error : rest.sum;
}

int reduce_compensated(const struct reduction *r) {
    const unsigned blocks =
        reduce_grid(r, add_exact, CEIL_DIV(r->count, 4 * THREADS));
    scratch partials(r->stream);
    WEFT_TRY(
        partials.claim("reduce", blocks * sizeof(exact) + sizeof(unsigned)));
    exact *sums = (exact *)partials.memory;
    unsigned *arrived = (unsigned *)(sums + blocks);
    WEFT_CUDA_TRY(cudaMemsetAsync(arrived, 0, sizeof *arrived, r->stream));
    add_exact<<<blocks, THREADS, 0, r->stream>>>(r->sum, sums, arrived, r->x,
                                                 r->count);
    WEFT_LAUNCHED(add_exact);
    return WEFT_OK;
}
