/* barriers.cu -- barriers that only some threads of a block reach, and threads
 * that wait for one another forever. */
#include "../cases.h"

enum { N = 64 };

__global__ void in_branch(float *out, const float *x) {
    __shared__ float s[N];
    const int t = threadIdx.x;
    s[t] = x[t];
    if (t < 16) __syncthreads(); // FAULT: barrier, block 0
    s[t] += 1;
    __syncthreads(); // OTHER
    out[t] = s[t];
}
CASE(barrier_in_a_branch) {
    in_branch<<<1, N>>>(unwritten<float>(N), values<float>(N));
    return launched();
}

__global__ void two_barriers(float *out, const float *x) {
    __shared__ float s[N];
    const int t = threadIdx.x;
    if (t % 2) {
        s[t] = x[t];
        __syncthreads(); // FAULT: barrier
    } else {
        s[t] = -x[t];
        __syncthreads(); // FAULT: barrier
    }
    out[t] = s[t];
}
CASE(a_barrier_in_each_branch) {
    two_barriers<<<1, N>>>(unwritten<float>(N), values<float>(N));
    return launched();
}

__global__ void last_of_all(float *out) {
    const int t = threadIdx.x;
    if (t < 8) __syncthreads(); // FAULT: barrier, block 0
    out[t] = t;
}
CASE(a_barrier_that_the_others_never_need) {
    last_of_all<<<1, N>>>(unwritten<float>(N));
    return launched();
}

__global__ void leaves_and_branches(float *out, int n) {
    const int t = threadIdx.x;
    if (t >= n) return;
    out[t] = t;
    if (t < 8) __syncthreads(); // FAULT: barrier
}
CASE(a_return_is_no_excuse_for_the_others) {
    leaves_and_branches<<<1, N>>>(unwritten<float>(N), 40);
    return launched();
}

__global__ void uneven_loop(float *out) {
    __shared__ float s[N];
    const int t = threadIdx.x;
    s[t] = t;
    for (int k = 0; k < 1 + t % 2; k++) {
        s[t] += 1;
        __syncthreads(); // FAULT: barrier
    }
    out[t] = s[t];
    __syncthreads(); // OTHER
    out[t] += 1;
}
CASE(as_many_barriers_as_the_thread_likes) {
    uneven_loop<<<1, N>>>(unwritten<float>(N));
    return launched();
}

__global__ void reduce(float *out, const float *x) {
    __shared__ float s[N];
    const int t = threadIdx.x;
    s[t] = x[t];
    __syncthreads();
    for (int step = N / 2; step; step /= 2)
        if (t < step) {
            s[t] += s[t + step];
            __syncthreads(); // FAULT: barrier
        }
    if (t == 0) *out = s[0];
}
CASE(a_reduction_with_its_barrier_in_the_branch) {
    reduce<<<1, N>>>(unwritten<float>(1), values<float>(N));
    return launched();
}

__global__ void guarded(float *out, const float *x, int n) {
    __shared__ float s[N];
    const int t = threadIdx.x, i = blockIdx.x * N + t;
    if (i < n) {
        s[t] = x[i];
        __syncthreads(); // FAULT: barrier, block 1
        out[i] = s[t];
    } else {
        s[t] = 0;
    }
    __syncthreads(); // OTHER
    if (i < n) out[i] += s[t];
}
CASE(a_barrier_under_the_guard) {
    guarded<<<2, N>>>(unwritten<float>(2 * N), values<float>(2 * N), 100);
    return launched();
}

__global__ void cases_of_a_switch(int *out) {
    __shared__ int s[N];
    const int t = threadIdx.x;
    switch (t % 3) {
    case 0:
        s[t] = 1;
        __syncthreads(); // FAULT: barrier
        break;
    case 1: s[t] = 2; break;
    default: s[t] = 3;
    }
    __syncthreads(); // OTHER
    out[t] = s[t];
}
CASE(a_barrier_in_a_case) {
    cases_of_a_switch<<<1, N>>>(unwritten<int>(N));
    return launched();
}

__device__ void helper(int *s) {
    s[threadIdx.x] += 1;
    __syncthreads(); // FAULT: barrier
}
__global__ void calls(int *out) {
    __shared__ int s[N];
    s[threadIdx.x] = 0;
    if (threadIdx.x >= 32) helper(s);
    __syncthreads(); // OTHER
    out[threadIdx.x] = s[threadIdx.x];
}
CASE(a_barrier_in_a_function) {
    calls<<<1, N>>>(unwritten<int>(N));
    return launched();
}

__global__ void counted(int *out) {
    const int t = threadIdx.x;
    int many = 0;
    if (t < 8) many = __syncthreads_count(t % 2); // FAULT: barrier
    __syncthreads();                              // OTHER
    out[t] = many;
}
CASE(a_counting_barrier_in_a_branch) {
    counted<<<1, N>>>(unwritten<int>(N));
    return launched();
}

// ---- deadlocks ----

__global__ void shuffles(int *out) {
    const int lane = threadIdx.x;
    int value = lane;
    if (lane < 16)
        value = __shfl_sync(~0u, value, 0); // FAULT: deadlock, block 0
    __syncthreads();                        // OTHER
    out[lane] = value;
}
CASE(a_shuffle_that_half_a_warp_reaches) {
    shuffles<<<1, 32>>>(unwritten<int>(32));
    return launched();
}

__global__ void warp_barriers(int *out) {
    const int lane = threadIdx.x;
    if (lane % 2)
        __syncwarp(); // FAULT: deadlock
    else
        __syncthreads(); // OTHER
    out[lane] = lane;
}
CASE(two_kinds_of_barrier) {
    warp_barriers<<<1, 32>>>(unwritten<int>(32));
    return launched();
}

__global__ void masks(int *out) {
    const int lane = threadIdx.x;
    unsigned mask = 0xffff;
    if (lane == 7) mask = 0xff;
    if (lane < 16) out[lane] = __shfl_sync(mask, lane, 0); // FAULT: deadlock
}
CASE(masks_that_disagree) {
    masks<<<1, 32>>>(unwritten<int>(32));
    return launched();
}

__global__ void unnamed(int *out) {
    const int lane = threadIdx.x;
    out[lane] = __any_sync(0xffff, lane); // FAULT: deadlock, thread 16
}
CASE(a_lane_that_its_mask_does_not_name) {
    unnamed<<<1, 17>>>(unwritten<int>(17));
    return launched();
}

__global__ void vote_or_shuffle(int *out) {
    const int lane = threadIdx.x;
    if (lane % 2)
        out[lane] = __shfl_sync(~0u, lane, 0); // FAULT: deadlock
    else
        out[lane] = __any_sync(~0u, lane); // FAULT: deadlock, thread 0
}
CASE(a_vote_and_a_shuffle) {
    vote_or_shuffle<<<1, 32>>>(unwritten<int>(32));
    return launched();
}

// ---- absent lanes ----

__global__ void sums(int *out, int n) {
    const int i = threadIdx.x;
    if (i < n) {
        int value = i;
        for (int o = 16; o; o /= 2)
            value += __shfl_down_sync(~0u, value, o); // FAULT: absent-lane
        if (i % 32 == 0) out[i / 32] = value;
    }
}
CASE(a_sum_inside_the_guard) {
    sums<<<1, 64>>>(unwritten<int>(2), 40);
    return launched();
}

__global__ void votes(unsigned *out, int n) {
    const int i = threadIdx.x;
    if (i < n) out[i] = __ballot_sync(~0u, i & 1); // FAULT: absent-lane
}
CASE(a_vote_inside_the_guard) {
    votes<<<1, 32>>>(unwritten<unsigned>(32), 20);
    return launched();
}

__global__ void matches(unsigned *out) {
    const int i = threadIdx.x;
    if (i >= 16) out[i] = __match_any_sync(~0u, i & 1); // FAULT: absent-lane
}
CASE(a_match_that_half_a_warp_reaches) {
    matches<<<1, 32>>>(unwritten<unsigned>(32));
    return launched();
}
