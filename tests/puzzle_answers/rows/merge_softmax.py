"""Answers to the puzzle merge_softmax."""

import math

from numpy import float32

from weft import cuda

from .. import right, right_c, wrong, wrong_c


@right("merge_softmax")
def both_shrink(out, a, b, n):
    i = cuda.grid(1)
    if i < n:
        left, right_one = a[2 * i], b[2 * i]
        most = max(left, right_one)
        total = float32(0)
        if left > -math.inf:
            total += a[2 * i + 1] * math.exp(left - most)
        if right_one > -math.inf:
            total += b[2 * i + 1] * math.exp(right_one - most)
        out[2 * i] = most
        out[2 * i + 1] = total


right_c(
    "merge_softmax",
    """__global__ void merge(float *out, const float *a, const float *b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float2 x = ((const float2 *)a)[i], y = ((const float2 *)b)[i];
    float2 large = x.x > y.x ? x : y, small = x.x > y.x ? y : x;
    float factor = large.x == small.x ? 1 : expf(small.x - large.x);
    out[2 * i] = large.x;
    out[2 * i + 1] = large.y + small.y * factor;
}""",
)


@wrong("merge_softmax", says=r"(?s)out\[\d+, 1\] is nan.*undefined operation")
def empty_parts_make_nan(out, a, b, n):
    i = cuda.grid(1)
    if i < n:
        most = max(a[2 * i], b[2 * i])
        left = a[2 * i + 1] * math.exp(a[2 * i] - most)
        out[2 * i] = most
        out[2 * i + 1] = left + b[2 * i + 1] * math.exp(b[2 * i] - most)


@wrong("merge_softmax", says=r"out\[\d+, 1\] is .*expected")
def sums_without_shrinking(out, a, b, n):
    i = cuda.grid(1)
    if i < n:
        out[2 * i] = max(a[2 * i], b[2 * i])
        out[2 * i + 1] = a[2 * i + 1] + b[2 * i + 1]


@wrong("merge_softmax", says=r"out\[\d+, 1\] is .*expected")
def shrinks_the_larger_one(out, a, b, n):
    i = cuda.grid(1)
    if i < n:
        most, total = a[2 * i], a[2 * i + 1]
        less, extra = b[2 * i], b[2 * i + 1]
        if most < less:
            most, less = less, most
        if less < most:
            extra *= math.exp(less - most)
        out[2 * i] = most
        out[2 * i + 1] = total + extra


@wrong("merge_softmax", says=r"out\[\d+, 1\] is .*expected")
def one_side_only(out, a, b, n):
    i = cuda.grid(1)
    if i < n:
        most, total = a[2 * i], a[2 * i + 1]
        less, extra = b[2 * i], b[2 * i + 1]
        if less < most:
            extra *= math.exp(less - most)
        out[2 * i] = max(most, less)
        out[2 * i + 1] = total + extra


@wrong("merge_softmax", says="guard")
def no_guard(out, a, b, n):
    i = cuda.grid(1)
    most, total = a[2 * i], a[2 * i + 1]
    less, extra = b[2 * i], b[2 * i + 1]
    if most < less:
        most, total, less, extra = less, extra, most, total
    if less < most:
        extra *= math.exp(less - most)
    out[2 * i] = most
    out[2 * i + 1] = total + extra


wrong_c(
    "merge_softmax",
    """__global__ void merge(float *out, const float *a, const float *b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float most = fmaxf(a[2 * i], b[2 * i]);
    out[2 * i] = most;
    out[2 * i + 1] = (a[2 * i + 1] * expf(a[2 * i]) + b[2 * i + 1] * expf(b[2 * i]))
                     / expf(most);
}""",
    says=r"out\[\d+, 1\] is .*expected",
)
