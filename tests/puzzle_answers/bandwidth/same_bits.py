"""Answers to the puzzle same_bits."""

from numpy import float32

from weft import cuda

from .. import right, right_c, wrong, wrong_c


@right("same_bits")
def across_the_warp(sums, a, n):
    lane = cuda.threadIdx.x
    piece = cuda.blockIdx.x
    while 32 * piece < n:
        v = float32(0)
        if 32 * piece + lane < n:
            v = a[32 * piece + lane]
        half = 16
        while half > 0:
            v += cuda.shfl_xor_sync(0xFFFFFFFF, v, half)
            half //= 2
        if lane == 0:
            sums[piece] = v
        piece += cuda.gridDim.x


right_c(
    "same_bits",
    """__global__ void fixed(float *sums, const float *a, int n) {
    for (int first = 32 * blockIdx.x; first < n; first += 32 * gridDim.x) {
        int i = first + threadIdx.x;
        float v = i < n ? a[i] : 0;
        for (int d = 16; d; d >>= 1) v += __shfl_xor_sync(~0u, v, d);
        if (threadIdx.x == 0) sums[first / 32] = v;
    }
}""",
)


@wrong("same_bits", says=r"sums\[\d+\] is .*expected")
def neighbours_first(sums, a, n):
    lane = cuda.threadIdx.x
    for piece in range(cuda.blockIdx.x, (n + 31) // 32, cuda.gridDim.x):
        i = 32 * piece + lane
        v = a[i] if i < n else float32(0)
        for step in range(5):
            v += cuda.shfl_xor_sync(0xFFFFFFFF, v, 1 << step)
        if lane == 0:
            sums[piece] = v


@wrong("same_bits", says=r"written|guard")
def one_piece_each(sums, a, n):
    lane = cuda.threadIdx.x
    i = cuda.grid(1)
    v = a[i] if i < n else float32(0)
    for half in range(5):
        v += cuda.shfl_down_sync(0xFFFFFFFF, v, 16 >> half)
    if lane == 0:
        sums[cuda.blockIdx.x] = v


@wrong("same_bits", says=r"sums\[\d+\] is .*expected|1 thread in each request")
def in_a_row(sums, a, n):
    for piece in range(cuda.blockIdx.x, (n + 31) // 32, cuda.gridDim.x):
        if cuda.threadIdx.x == 0:
            v = float32(0)
            for i in range(32 * piece, min(32 * piece + 32, n)):
                v += a[i]
            sums[piece] = v


@wrong("same_bits", says=r"No thread wrote sums\[2\]")
def whole_pieces_only(sums, a, n):
    lane = cuda.threadIdx.x
    for piece in range(cuda.blockIdx.x, n // 32, cuda.gridDim.x):
        v = a[32 * piece + lane]
        for half in range(5):
            v += cuda.shfl_down_sync(0xFFFFFFFF, v, 16 >> half)
        if lane == 0:
            sums[piece] = v


wrong_c(
    "same_bits",
    """__global__ void atomics(float *sums, const float *a, int n) {
    int lane = threadIdx.x;
    for (int p = blockIdx.x; p < (n + 31) / 32; p += gridDim.x) {
        if (lane == 0) sums[p] = 0;
        __syncwarp();
        if (32 * p + lane < n) atomicAdd(sums + p, a[32 * p + lane]);
    }
}""",
    says=r"sums\[\d+\] is .*expected|atomic",
)
