/* blocks.cu -- correct cooperation of the threads of a block. */
#include "../cases.h"

enum { N = 64, TILE = 16 };

__global__ void early_return(float *out, const float *x, int n) {
    __shared__ float s[N];
    const int i = blockIdx.x * N + threadIdx.x;
    if (i >= n) return; // a GPU's barriers omit ended threads
    s[threadIdx.x] = x[i];
    __syncthreads();
    out[i] = s[threadIdx.x] + s[0];
}
CASE(a_guard_before_the_barriers) {
    float *out = unwritten<float>(100);
    early_return<<<2, N>>>(out, values<float>(100), 100);
    return equal(out, 100,
                 [](int i) { return value_at(i) + value_at(i / N * N); });
}

__global__ void matmul(float *c, const float *a, const float *b, int m, int n,
                       int k) {
    __shared__ float a_s[TILE][TILE], b_s[TILE][TILE];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int row = blockIdx.y * TILE + ty, col = blockIdx.x * TILE + tx;
    float sum = 0;
    for (int k0 = 0; k0 < k; k0 += TILE) {
        a_s[ty][tx] = row < m && k0 + tx < k ? a[row * k + k0 + tx] : 0;
        b_s[ty][tx] = k0 + ty < k && col < n ? b[(k0 + ty) * n + col] : 0;
        __syncthreads();
        for (int i = 0; i < TILE; i++) sum += a_s[ty][i] * b_s[i][tx];
        __syncthreads();
    }
    if (row < m && col < n) c[row * n + col] = sum;
}
CASE(matmul_with_edges) {
    const int m = 19, n = 23, k = 21;
    float *c = unwritten<float>(m * n);
    matmul<<<dim3(2, 2), dim3(TILE, TILE)>>>(c, values<float>(m * k),
                                             values<float>(k * n), m, n, k);
    return equal(c, m * n, [=](int i) {
        int sum = 0;
        for (int j = 0; j < k; j++)
            sum += value_at(i / n * k + j) * value_at(j * n + i % n);
        return sum;
    });
}

template <int SIDE>
__global__ void matmul_square(float *c, const float *a, const float *b, int n) {
    __shared__ float a_s[SIDE][SIDE + 1], b_s[SIDE][SIDE];
    const int tx = threadIdx.x, ty = threadIdx.y;
    float sum = 0;
    for (int k0 = 0; k0 < n; k0 += SIDE) {
        a_s[ty][tx] = a[(blockIdx.y * SIDE + ty) * n + k0 + tx];
        b_s[ty][tx] = b[(k0 + ty) * n + blockIdx.x * SIDE + tx];
        __syncthreads();
#pragma unroll
        for (int i = 0; i < SIDE; i++) sum += a_s[ty][i] * b_s[i][tx];
        __syncthreads();
    }
    c[(blockIdx.y * SIDE + ty) * n + blockIdx.x * SIDE + tx] = sum;
}
CASE(matmul_32) {
    const int n = 64;
    float *c = unwritten<float>(n * n);
    matmul_square<32><<<dim3(2, 2), dim3(32, 32)>>>(c, values<float>(n * n),
                                                    values<float>(n * n), n);
    return equal(c, n * n, [=](int i) {
        int sum = 0;
        for (int j = 0; j < n; j++)
            sum += value_at(i / n * n + j) * value_at(j * n + i % n);
        return sum;
    });
}

__global__ void shift(float *out, const float *x) {
    __shared__ float s[N + 1];
    const int t = threadIdx.x;
    s[t] = x[t];
    if (t == 0) s[N] = 0;
    __syncthreads();
    const float right = s[t + 1];
    __syncthreads();
    s[t] = right;
    __syncthreads();
    out[t] = s[t];
}
CASE(shift_in_place_with_two_barriers) {
    float *out = unwritten<float>(N);
    shift<<<1, N>>>(out, values<float>(N));
    return equal(out, N, [](int i) { return i + 1 < N ? value_at(i + 1) : 0; });
}

__global__ void double_buffer(float *out, const float *x, int tiles) {
    __shared__ float s[2][N];
    const int t = threadIdx.x;
    float sum = 0;
    s[0][t] = x[t];
    for (int k = 0; k < tiles; k++) {
        __syncthreads(); // one barrier per turn is enough
        if (k + 1 < tiles) s[(k + 1) % 2][t] = x[(k + 1) * N + t];
        sum += s[k % 2][N - 1 - t];
    }
    out[t] = sum;
}
CASE(double_buffering) {
    float *out = unwritten<float>(N);
    double_buffer<<<1, N>>>(out, values<float>(5 * N), 5);
    return equal(out, N, [](int i) {
        int sum = 0;
        for (int k = 0; k < 5; k++) sum += value_at(k * N + N - 1 - i);
        return sum;
    });
}

__global__ void flags(int *out, const int *x) {
    __shared__ int found;
    const int t = threadIdx.x;
    if (t == 0) found = 0;
    __syncthreads();
    if (x[t] > 20) found = 1; // many threads write the same value
    __syncthreads();
    out[t] = found;
}
CASE(all_raise_one_flag) {
    int *out = unwritten<int>(N);
    flags<<<1, N>>>(out, values<int>(N));
    return equal(out, N, [](int) { return 1; });
}

__global__ void transpose(float *out, const float *a, int rows, int cols) {
    __shared__ float s[TILE][TILE + 1];
    int col = blockIdx.x * TILE + threadIdx.x,
        row = blockIdx.y * TILE + threadIdx.y;
    if (row < rows && col < cols)
        s[threadIdx.y][threadIdx.x] = a[row * cols + col];
    __syncthreads();
    row = blockIdx.x * TILE + threadIdx.y,
    col = blockIdx.y * TILE + threadIdx.x;
    if (row < cols && col < rows)
        out[row * rows + col] = s[threadIdx.x][threadIdx.y];
}
CASE(transpose_of_an_edge) {
    float *out = unwritten<float>(19 * 33);
    transpose<<<dim3(3, 2), dim3(TILE, TILE)>>>(out, values<float>(19 * 33), 19,
                                                33);
    return equal(out, 19 * 33,
                 [](int i) { return value_at(i % 19 * 33 + i / 19); });
}

__global__ void carve(double *out, const float *x, int n) {
    extern __shared__ __align__(16) unsigned char memory[];
    double *sums = (double *)memory;
    float *copy = (float *)(sums + n);
    short *order = (short *)(copy + n);
    unsigned char *flag = (unsigned char *)(order + n);
    const int t = threadIdx.x;
    copy[t] = x[t];
    order[t] = n - 1 - t;
    flag[t] = t % 2;
    __syncthreads();
    sums[t] = copy[order[t]] + flag[order[t]];
    __syncthreads();
    out[t] = sums[n - 1 - t];
}
CASE(dynamic_shared_memory_in_four_parts) {
    double *out = unwritten<double>(N);
    carve<<<1, N, N * (8 + 4 + 2 + 1)>>>(out, values<float>(N), N);
    return equal(out, N, [](int i) { return value_at(i) + i % 2; });
}

__global__ void bytes(unsigned char *out, const int *x) {
    __shared__ unsigned char s[N];
    const int t = threadIdx.x;
    s[t] = (unsigned char)x[t]; // neighbors share a word
    __syncthreads();
    out[t] = s[(t + 1) % N];
}
CASE(bytes_by_neighbouring_threads) {
    unsigned char *out = unwritten<unsigned char>(N);
    bytes<<<1, N>>>(out, values<int>(N));
    return equal(out, N, [](int i) { return value_at((i + 1) % N); });
}

__global__ void bitonic(int *x) {
    __shared__ int s[N];
    const int t = threadIdx.x;
    s[t] = x[t];
    __syncthreads();
    for (int size = 2; size <= N; size *= 2)
        for (int step = size / 2; step; step /= 2) {
            const int other = t ^ step;
            if (other > t && (s[t] > s[other]) == !(t & size)) {
                const int a = s[t];
                s[t] = s[other];
                s[other] = a;
            }
            __syncthreads();
        }
    x[t] = s[t];
}
CASE(bitonic_sort) {
    int *x = values<int>(N);
    bitonic<<<1, N>>>(x);
    const int *h = fetch(x, N);
    for (int i = 1; i < N; i++)
        if (h[i - 1] > h[i]) return false;
    return true;
}

__global__ void odd_even(int *x, int n) {
    for (int phase = 0; phase < n; phase++) {
        const int at = 2 * threadIdx.x + phase % 2;
        if (at + 1 < n && x[at] > x[at + 1]) {
            const int a = x[at];
            x[at] = x[at + 1];
            x[at + 1] = a;
        }
        __syncthreads();
    }
}
CASE(odd_even_sort_in_global_memory) {
    int *x = values<int>(31);
    odd_even<<<1, 16>>>(x, 31);
    return equal(x, 31, [](int i) { return i + 1; });
}

__global__ void scan(int *out, const int *x) {
    __shared__ int s[2][N];
    const int t = threadIdx.x;
    int now = 0;
    s[0][t] = x[t];
    __syncthreads();
    for (int step = 1; step < N; step *= 2) {
        s[1 - now][t] = s[now][t] + (t >= step ? s[now][t - step] : 0);
        now = 1 - now;
        __syncthreads();
    }
    out[t] = s[now][t];
}
CASE(scan_with_two_buffers) {
    int *out = unwritten<int>(N);
    scan<<<1, N>>>(out, values<int>(N));
    return equal(out, N, [](int i) {
        int sum = 0;
        for (int k = 0; k <= i; k++) sum += value_at(k);
        return sum;
    });
}

__global__ void blelloch(int *x) {
    __shared__ int s[2 * N];
    const int t = threadIdx.x;
    int offset = 1;
    s[2 * t] = x[2 * t];
    s[2 * t + 1] = x[2 * t + 1];
    for (int d = N; d > 0; d /= 2) {
        __syncthreads();
        if (t < d) s[offset * (2 * t + 2) - 1] += s[offset * (2 * t + 1) - 1];
        offset *= 2;
    }
    if (t == 0) s[2 * N - 1] = 0;
    for (int d = 1; d < 2 * N; d *= 2) {
        offset /= 2;
        __syncthreads();
        if (t < d) {
            const int left = offset * (2 * t + 1) - 1, right = left + offset;
            const int before = s[left];
            s[left] = s[right];
            s[right] += before;
        }
    }
    __syncthreads();
    x[2 * t] = s[2 * t];
    x[2 * t + 1] = s[2 * t + 1];
}
CASE(scan_up_and_down_a_tree) {
    int *x = values<int>(2 * N);
    blelloch<<<1, N>>>(x);
    return equal(x, 2 * N, [](int i) {
        int sum = 0;
        for (int k = 0; k < i; k++) sum += value_at(k);
        return sum;
    });
}

__global__ void stencil(float *out, const float *x, int n) {
    __shared__ float s[N + 2];
    const int t = threadIdx.x, i = blockIdx.x * N + t;
    s[t + 1] = i < n ? x[i] : 0;
    if (t == 0) s[0] = i ? x[i - 1] : 0;
    if (t == N - 1) s[N + 1] = i + 1 < n ? x[i + 1] : 0;
    __syncthreads();
    if (i < n) out[i] = s[t] + 2 * s[t + 1] + s[t + 2];
}
CASE(stencil_with_a_halo) {
    float *out = unwritten<float>(150);
    stencil<<<3, N>>>(out, values<float>(150), 150);
    return equal(out, 150, [](int i) {
        return (i ? value_at(i - 1) : 0) + 2 * value_at(i) +
               (i < 149 ? value_at(i + 1) : 0);
    });
}

__global__ void votes(int *out, const int *x) {
    const int t = threadIdx.x;
    const int many = __syncthreads_count(x[t] > 15);
    const int any = __syncthreads_or(x[t] == 31),
              all = __syncthreads_and(x[t] > 0);
    out[t] = many + 100 * (any != 0) + 1000 * (all != 0);
}
CASE(barriers_that_count) {
    int *out = unwritten<int>(N);
    votes<<<1, N>>>(out, values<int>(N));
    int many = 0;
    for (int i = 0; i < N; i++) many += value_at(i) > 15;
    return equal(out, N, [=](int) { return many + 1100; });
}

__global__ void uniform_branch(int *out, int n) {
    __shared__ int s[N];
    const int t = threadIdx.x;
    s[t] = t;
    if (blockIdx.x % 2) { // the same branch for all of a block
        __syncthreads();
        s[t] += s[t]; // each thread has its own element
        __syncthreads();
    }
    for (int k = 0; k < (int)blockIdx.x; k++) __syncthreads();
    __syncthreads();
    out[blockIdx.x * N + t] = s[N - 1 - t];
}
CASE(barriers_in_branches_that_all_take) {
    int *out = unwritten<int>(3 * N);
    uniform_branch<<<3, N>>>(out, N);
    return equal(out, 3 * N,
                 [](int i) { return (N - 1 - i % N) * (i / N == 1 ? 2 : 1); });
}

__global__ void one_warp_goes_on(float *out, const float *x) {
    __shared__ float s[4 * 32];
    const int t = threadIdx.x;
    s[t] = x[t];
    __syncthreads();
    if (t >= 32) return;
    float sum = s[t] + s[t + 32] + s[t + 64] + s[t + 96];
    for (int step = 16; step; step /= 2)
        sum += __shfl_down_sync(~0u, sum, step);
    if (t == 0) *out = sum;
}
CASE(the_first_warp_goes_on_alone) {
    float *out = unwritten<float>(1);
    one_warp_goes_on<<<1, 128>>>(out, values<float>(128));
    return equal(out, 1, [](int) {
        int sum = 0;
        for (int i = 0; i < 128; i++) sum += value_at(i);
        return sum;
    });
}

union Space {
    float numbers[N];
    int counts[N];
};
__global__ void reuse(float *out, const float *x) {
    __shared__ Space s;
    const int t = threadIdx.x;
    s.numbers[t] = x[t];
    __syncthreads();
    const float mine = s.numbers[N - 1 - t];
    __syncthreads();
    s.counts[t] = (int)mine;
    __syncthreads();
    out[t] = (float)s.counts[N - 1 - t];
}
CASE(a_union_in_shared_memory) {
    float *out = unwritten<float>(N);
    reuse<<<1, N>>>(out, values<float>(N));
    return equal(out, N, [](int i) { return value_at(i); });
}

__device__ void rounds(float *out, const float *x, int n, float *s) {
    const int t = threadIdx.x;
    if (t >= n) return;
    s[t] = x[t];
    __syncthreads();
    out[t] = s[n - 1 - t];
}
__global__ void leaves_in_a_function(float *out, const float *x, int n) {
    __shared__ float s[N];
    rounds(out, x, n, s);
}
CASE(a_return_in_a_function_before_its_barrier) {
    float *out = zeros<float>(N);
    leaves_in_a_function<<<1, N>>>(out, values<float>(N), 40);
    return equal(out, N, [](int i) { return i < 40 ? value_at(39 - i) : 0; });
}

__global__ void leaves_the_loop(float *out, const float *x, int n) {
    __shared__ float s[N];
    const int t = threadIdx.x;
    float sum = 0;
    for (int k = 0; k < 4; k++) {
        if (k == 2 && t >= n) return;
        s[t] = x[k * N + t];
        __syncthreads();
        sum += s[n - 1 - t % n];
        __syncthreads();
    }
    out[t] = sum;
}
CASE(a_return_in_a_loop_of_barriers) {
    float *out = zeros<float>(N);
    leaves_the_loop<<<1, N>>>(out, values<float>(4 * N), 40);
    return equal(out, N, [](int i) {
        int sum = 0;
        for (int k = 0; k < 4; k++) sum += value_at(k * N + 39 - i);
        return i < 40 ? sum : 0;
    });
}
