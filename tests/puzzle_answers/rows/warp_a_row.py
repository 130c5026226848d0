"""Answers to the puzzle warp_a_row."""

import math

import numpy as np
from numpy import float32

from weft import cuda

from .. import right, right_c, wrong, wrong_c


@right("warp_a_row")
def maximum_first(out, a, cols):
    lane = cuda.threadIdx.x
    first = cuda.blockIdx.x * cols
    most, total = float32(-np.inf), float32(0)
    for col in range(lane, cols, 32):
        x = a[first + col]
        if x > most:
            total = total * math.exp(most - x)
            most = x
        total += math.exp(x - most)
    row = most
    for half in range(5):
        row = max(row, cuda.shfl_xor_sync(0xFFFFFFFF, row, 1 << half))
    total *= math.exp(most - row)  # a lane without numbers computes 0 * exp(-inf)
    for half in range(5):
        total += cuda.shfl_xor_sync(0xFFFFFFFF, total, 1 << half)
    for col in range(lane, cols, 32):
        out[first + col] = math.exp(a[first + col] - row) / total


right_c(
    "warp_a_row",
    """__global__ void soften(float *out, const float *a, int cols) {
    a += blockIdx.x * cols, out += blockIdx.x * cols;
    float most = -INFINITY, total = 0;
    for (int i = threadIdx.x; i < cols; i += 32) {
        float now = fmaxf(most, a[i]);
        total = total * expf(most - now) + expf(a[i] - now);
        most = now;
    }
    for (int d = 1; d < 32; d *= 2) {
        float other = __shfl_xor_sync(~0u, most, d), now = fmaxf(most, other);
        float extra = __shfl_xor_sync(~0u, total, d);
        if (most < now) total *= expf(most - now);
        if (other < now) extra *= expf(other - now);
        total += extra, most = now;
    }
    for (int i = threadIdx.x; i < cols; i += 32) out[i] = expf(a[i] - most) / total;
}""",
)

START = """__global__ void soften(float *out, const float *a, int cols) {
    a += blockIdx.x * cols, out += blockIdx.x * cols;
    float most = -INFINITY, total = 0;
    for (int i = threadIdx.x; i < cols; i += 32) {
        float x = a[i], now = fmaxf(most, x);
        total = total * expf(most - now) + expf(x - now);
        most = now;
    }
"""
END = """
    for (int i = threadIdx.x; i < cols; i += 32) out[i] = expf(a[i] - most) / total;
}"""


@wrong("warp_a_row", says=r"out\[0, 0\] is nan")
def empty_lanes_make_nan(out, a, cols):
    lane = cuda.threadIdx.x
    first = cuda.blockIdx.x * cols
    most, total = float32(-np.inf), float32(0)
    for col in range(lane, cols, 32):
        x = a[first + col]
        if x > most:
            total = total * math.exp(most - x)
            most = x
        total += math.exp(x - most)
    for half in range(5):
        other = cuda.shfl_xor_sync(0xFFFFFFFF, most, 16 >> half)
        extra = cuda.shfl_xor_sync(0xFFFFFFFF, total, 16 >> half)
        new = max(most, other)
        total = total * math.exp(most - new) + extra * math.exp(other - new)
        most = new
    for col in range(lane, cols, 32):
        out[first + col] = math.exp(a[first + col] - most) / total


@wrong("warp_a_row", says=r"out\[0, \d+\] is .*expected")
def only_lane_0_has_the_row(out, a, cols):
    lane = cuda.threadIdx.x
    first = cuda.blockIdx.x * cols
    most, total = float32(-np.inf), float32(0)
    for col in range(lane, cols, 32):
        x = a[first + col]
        if x > most:
            total = total * math.exp(most - x)
            most = x
        total += math.exp(x - most)
    for half in range(5):
        other = cuda.shfl_down_sync(0xFFFFFFFF, most, 16 >> half)
        extra = cuda.shfl_down_sync(0xFFFFFFFF, total, 16 >> half)
        new = max(most, other)
        if extra + total > 0:
            total = total * math.exp(most - new) + extra * math.exp(other - new)
        most = new
    for col in range(lane, cols, 32):
        out[first + col] = math.exp(a[first + col] - most) / total


@wrong("warp_a_row", says=r"out\[0, \d+\] is .*expected")
def sums_of_other_maxima(out, a, cols):
    lane = cuda.threadIdx.x
    first = cuda.blockIdx.x * cols
    most, total = float32(-np.inf), float32(0)
    for col in range(lane, cols, 32):
        x = a[first + col]
        if x > most:
            total = total * math.exp(most - x)
            most = x
        total += math.exp(x - most)
    for half in range(5):
        most = max(most, cuda.shfl_xor_sync(0xFFFFFFFF, most, 16 >> half))
        total += cuda.shfl_xor_sync(0xFFFFFFFF, total, 16 >> half)
    for col in range(lane, cols, 32):
        out[first + col] = math.exp(a[first + col] - most) / total


@wrong("warp_a_row", says=r"out\[0, \d+\] is .*expected")
def four_exchanges(out, a, cols):
    lane = cuda.threadIdx.x
    first = cuda.blockIdx.x * cols
    most, total = float32(-np.inf), float32(0)
    for col in range(lane, cols, 32):
        x = a[first + col]
        if x > most:
            total = total * math.exp(most - x)
            most = x
        total += math.exp(x - most)
    for half in range(4):
        other = cuda.shfl_xor_sync(0xFFFFFFFF, most, 16 >> half)
        extra = cuda.shfl_xor_sync(0xFFFFFFFF, total, 16 >> half)
        new = max(most, other)
        if extra + total > 0:
            total = total * math.exp(most - new) + extra * math.exp(other - new)
        most = new
    for col in range(lane, cols, 32):
        out[first + col] = math.exp(a[first + col] - most) / total


@wrong("warp_a_row", says=r"reads .* elements of a", where=False)
def every_lane_reads_the_row(out, a, cols):
    lane = cuda.threadIdx.x
    first = cuda.blockIdx.x * cols
    most, total = float32(-np.inf), float32(0)
    for col in range(cols):
        most = max(most, a[first + col])
    for col in range(cols):
        total += math.exp(a[first + col] - most)
    for col in range(lane, cols, 32):
        out[first + col] = math.exp(a[first + col] - most) / total


wrong_c(
    "warp_a_row",
    START
    + """    if (threadIdx.x < cols)
        for (int d = 1; d < 32; d *= 2) {
            float other = __shfl_xor_sync(~0u, most, d), now = fmaxf(most, other);
            float extra = __shfl_xor_sync(~0u, total, d);
            total = total * expf(most - now) + extra * expf(other - now);
            most = now;
        }"""
    + END,
    says=r"lane|thread",
)
