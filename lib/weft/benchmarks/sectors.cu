/* sectors.cu -- reads of equally many sectors in different places, for `weft
 * bench sectors`.
 *
 * A thread reads one float in each of EACH sectors. No sector is read twice, so
 * no cache can help. Both kernels request equally many sectors in equally many
 * requests, so any difference in time comes from the places of the sectors.
 *
 * Lesson:  notebooks/07a_memory.ipynb, "What sectors leave out".
 */
enum { EACH = 8, FLOATS = 8 }; // sectors per thread; floats per sector

/* Return a pseudorandom permutation of the numbers with `bits` bits: each step
 * is invertible. */
static __device__ unsigned scatter(unsigned k, int bits) {
    const unsigned mask = bits < 32 ? (1u << bits) - 1 : ~0u;
    const int half = (bits + 1) / 2;
    k = (k * 0x9e3779b1u) & mask;
    k ^= k >> half;
    k = (k * 0x85ebca6bu) & mask;
    return k ^ (k >> half);
}

/* sums (threads) = sums over every `stride`-th sector of x, in order. */
__global__ void read_in_order(float *sums, const float *x, int stride) {
    float sum = 0.0f;
#pragma unroll
    for (int j = 0; j < EACH; j++) {
        const size_t k = (blockIdx.x * EACH + j) * blockDim.x + threadIdx.x;
        sum += x[k * stride * FLOATS];
    }
    sums[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

/* sums (threads) = sums over runs of 2^run_bits adjacent sectors, each at one
 * of 2^slot_bits places, spread over x. */
__global__ void read_scattered(float *sums, const float *x, int run_bits,
                               int slot_bits) {
    float sum = 0.0f;
#pragma unroll
    for (int j = 0; j < EACH; j++) {
        const unsigned k = (blockIdx.x * EACH + j) * blockDim.x + threadIdx.x;
        const size_t slot = scatter(k >> run_bits, slot_bits);
        const size_t place = (slot << run_bits) + (k & ((1u << run_bits) - 1));
        sum += x[place * FLOATS];
    }
    sums[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
