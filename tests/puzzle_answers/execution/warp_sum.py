"""Answers to the puzzle warp_sum."""

from numpy import float32

from weft import cuda

from .. import right, right_c, wrong, wrong_c

ALL = 0xFFFFFFFF


@right("warp_sum", taught=True)
def by_xor(out, a, n):
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    v = a[i] if i < n else float32(0)
    bits = 1
    while bits < 32:
        v += cuda.shfl_xor_sync(ALL, v, bits)
        bits *= 2
    if cuda.laneid == 0 and i < n:
        out[i // 32] = v


right_c(
    "warp_sum",
    """__global__ void by_down(float *out, const float *a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = i < n ? a[i] : 0;
    for (int half = 16; half > 0; half /= 2)
        v += __shfl_down_sync(0xFFFFFFFF, v, half);
    if (i % 32 == 0 && i < n) out[i / 32] = v;
}""",
)


@wrong("warp_sum", says="lane 0 reads lane 16, which takes no part")
def leaves_before_the_shuffle(out, a, n):
    i = cuda.grid(1)
    if i < n:
        v = a[i]
        half = 16
        while half > 0:
            v += cuda.shfl_down_sync(ALL, v, half)
            half //= 2
        if i % 32 == 0:
            out[i // 32] = v


@wrong("warp_sum", says=r"out\[0\]")
def one_round_short(out, a, n):
    i = cuda.grid(1)
    v = float32(0)
    if i < n:
        v = a[i]
    half = 16
    while half > 1:
        v += cuda.shfl_down_sync(ALL, v, half)
        half //= 2
    if i % 32 == 0 and i < n:
        out[i // 32] = v


@wrong("warp_sum", says="chance")
def every_lane_writes(out, a, n):
    i = cuda.grid(1)
    v = float32(0)
    if i < n:
        v = a[i]
    half = 16
    while half > 0:
        v += cuda.shfl_down_sync(ALL, v, half)
        half //= 2
    if i < n:
        out[i // 32] = v


@wrong("warp_sum", says="block 1 writes it")
def warp_of_the_block(out, a, n):
    i = cuda.grid(1)
    v = float32(0)
    if i < n:
        v = a[i]
    half = 16
    while half > 0:
        v += cuda.shfl_down_sync(ALL, v, half)
        half //= 2
    if i % 32 == 0 and i < n:
        out[cuda.threadIdx.x // 32] = v


@wrong("warp_sum", says="guard")
def warps_past_the_end(out, a, n):
    i = cuda.grid(1)
    v = float32(0)
    if i < n:
        v = a[i]
    half = 16
    while half > 0:
        v += cuda.shfl_down_sync(ALL, v, half)
        half //= 2
    if i % 32 == 0:
        out[i // 32] = v


@wrong("warp_sum", says="1 thread.*each request to a", where=False)
def first_lane_does_it(out, a, n):
    i = cuda.grid(1)
    if i % 32 == 0 and i < n:
        total = float32(0)
        for k in range(i, min(i + 32, n)):
            total += a[k]
        out[i // 32] = total


@wrong("warp_sum", says="makes 32 atomic updates .*allows none", where=False)
def by_atomics(out, a, n):
    i = cuda.grid(1)
    if i < n and i % 32 == 0:
        out[i // 32] = 0
    cuda.syncwarp()
    if i < n:
        cuda.atomic.add(out, i // 32, a[i])


wrong_c(
    "warp_sum",
    """__global__ void through_shared(float *out, const float *a, int n) {
    __shared__ float s[128];
    int i = blockIdx.x * blockDim.x + threadIdx.x, t = threadIdx.x;
    s[t] = i < n ? a[i] : 0;
    for (int half = 16; half > 0; half /= 2) {
        __syncthreads();
        if (t % 32 < half) s[t] += s[t + half];
    }
    if (i % 32 == 0 && i < n) out[i / 32] = s[t];
}""",
    says="shared",
    where=False,
)


@wrong("warp_sum", says="n=1025")
def only_a_block_of_warps(out, a, n):
    i = cuda.grid(1)
    v = float32(0)
    if i < n:
        v = a[i]
    half = 16
    while half > 0:
        v += cuda.shfl_down_sync(0xFFFFFFFF, v, half)
        half //= 2
    if i < n and i % 32 == 0 and i < 1024:
        out[i // 32] = v
