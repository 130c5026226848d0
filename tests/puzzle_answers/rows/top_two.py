"""Answers to the puzzle top_two."""

import numpy as np
from numpy import float32

from weft import cuda

from .. import right, right_c, wrong, wrong_c


@right("top_two")
def by_cases(out, a, cols):
    lane = cuda.threadIdx.x
    row = cuda.blockIdx.x
    most, second = float32(-np.inf), float32(-np.inf)
    for col in range(lane, cols, 32):
        x = a[row * cols + col]
        if x > most:
            second = most
            most = x
        elif x > second:
            second = x
    for half in range(5):
        other = cuda.shfl_down_sync(0xFFFFFFFF, most, 16 >> half)
        extra = cuda.shfl_down_sync(0xFFFFFFFF, second, 16 >> half)
        if other > most:
            second = max(most, extra)
            most = other
        else:
            second = max(second, other)
    if lane == 0:
        out[2 * row] = most
        out[2 * row + 1] = second


right_c(
    "top_two",
    """__global__ void find(float *out, const float *a, int cols) {
    float most = -INFINITY, second = -INFINITY;
    for (int i = threadIdx.x; i < cols; i += 32) {
        float x = a[blockIdx.x * cols + i];
        second = fmaxf(second, fminf(most, x));
        most = fmaxf(most, x);
    }
    for (int d = 1; d < 32; d *= 2) {
        float other = __shfl_xor_sync(~0u, most, d);
        float extra = __shfl_xor_sync(~0u, second, d);
        second = fmaxf(fmaxf(second, extra), fminf(most, other));
        most = fmaxf(most, other);
    }
    if (threadIdx.x == 0) out[2 * blockIdx.x] = most;
    if (threadIdx.x == 1) out[2 * blockIdx.x + 1] = second;
}""",
)


@wrong("top_two", says=r"out\[\d+, 1\] is .*expected")
def the_loser_is_forgotten(out, a, cols):
    lane = cuda.threadIdx.x
    row = cuda.blockIdx.x
    most, second = float32(-np.inf), float32(-np.inf)
    for col in range(lane, cols, 32):
        x = a[row * cols + col]
        second = max(second, min(most, x))
        most = max(most, x)
    for half in range(5):
        other = cuda.shfl_xor_sync(0xFFFFFFFF, most, 16 >> half)
        extra = cuda.shfl_xor_sync(0xFFFFFFFF, second, 16 >> half)
        second = max(second, extra)
        most = max(most, other)
    if lane == 0:
        out[2 * row] = most
        out[2 * row + 1] = second


@wrong("top_two", says=r"out\[\d+, 1\] is .*expected")
def equal_numbers_count_once(out, a, cols):
    lane = cuda.threadIdx.x
    row = cuda.blockIdx.x
    most, second = float32(-np.inf), float32(-np.inf)
    for col in range(lane, cols, 32):
        x = a[row * cols + col]
        if x > most:
            second = most
            most = x
        elif x > second and x < most:
            second = x
    for half in range(5):
        other = cuda.shfl_xor_sync(0xFFFFFFFF, most, 16 >> half)
        extra = cuda.shfl_xor_sync(0xFFFFFFFF, second, 16 >> half)
        low = min(most, other)
        if low < max(most, other):
            second = max(second, low)
        second = max(second, extra)
        most = max(most, other)
    if lane == 0:
        out[2 * row] = most
        out[2 * row + 1] = second


@wrong("top_two", says=r"out\[\d+, [01]\] is .*expected")
def starts_from_zero(out, a, cols):
    lane = cuda.threadIdx.x
    row = cuda.blockIdx.x
    most, second = float32(0), float32(0)
    for col in range(lane, cols, 32):
        x = a[row * cols + col]
        second = max(second, min(most, x))
        most = max(most, x)
    for half in range(5):
        other = cuda.shfl_xor_sync(0xFFFFFFFF, most, 16 >> half)
        extra = cuda.shfl_xor_sync(0xFFFFFFFF, second, 16 >> half)
        second = max(max(second, extra), min(most, other))
        most = max(most, other)
    if lane == 0:
        out[2 * row] = most
        out[2 * row + 1] = second


@wrong("top_two", says=r"out\[\d+, [01]\] is .*expected")
def one_number_per_lane(out, a, cols):
    lane = cuda.threadIdx.x
    row = cuda.blockIdx.x
    most, second = float32(-np.inf), float32(-np.inf)
    if lane < cols:
        most = a[row * cols + lane]
    for half in range(5):
        other = cuda.shfl_xor_sync(0xFFFFFFFF, most, 16 >> half)
        extra = cuda.shfl_xor_sync(0xFFFFFFFF, second, 16 >> half)
        second = max(max(second, extra), min(most, other))
        most = max(most, other)
    if lane == 0:
        out[2 * row] = most
        out[2 * row + 1] = second


@wrong("top_two", says=r"reads .* elements of a.*allows", where=False)
def two_passes(out, a, cols):
    lane = cuda.threadIdx.x
    row = cuda.blockIdx.x
    most, second = float32(-np.inf), float32(-np.inf)
    for col in range(lane, cols, 32):
        most = max(most, a[row * cols + col])
    place = np.int32(-1)
    for col in range(lane, cols, 32):
        x = a[row * cols + col]
        if x == most and place < 0:
            place = col
        else:
            second = max(second, x)
    for half in range(5):
        other = cuda.shfl_xor_sync(0xFFFFFFFF, most, 16 >> half)
        extra = cuda.shfl_xor_sync(0xFFFFFFFF, second, 16 >> half)
        second = max(max(second, extra), min(most, other))
        most = max(most, other)
    if lane == 0:
        out[2 * row] = most
        out[2 * row + 1] = second


wrong_c(
    "top_two",
    """__global__ void find(float *out, const float *a, int cols) {
    float most = -INFINITY, second = -INFINITY;
    for (int i = threadIdx.x; i < cols; i += 32) {
        float x = a[blockIdx.x * cols + i];
        most = fmaxf(most, x);
        second = fmaxf(second, fminf(most, x));
    }
    for (int d = 1; d < 32; d *= 2) {
        float other = __shfl_xor_sync(~0u, most, d);
        float extra = __shfl_xor_sync(~0u, second, d);
        second = fmaxf(fmaxf(second, extra), fminf(most, other));
        most = fmaxf(most, other);
    }
    if (threadIdx.x) return;
    out[2 * blockIdx.x] = most, out[2 * blockIdx.x + 1] = second;
}""",
    says=r"out\[\d+, 1\] is .*expected",
)
