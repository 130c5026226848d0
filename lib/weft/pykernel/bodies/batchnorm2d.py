"""Batch norm and its gradients: the naive rung of kernels/batchnorm2d/."""

import math

from numpy import float32

from ... import cuda
from .threads import THREADS


def block_sum(value, partial):
    """The sum of `value` over the block's threads, the same to all of them.

    partial: THREADS floats of shared memory.
    """
    tid = cuda.threadIdx.x
    partial[tid] = value
    cuda.syncthreads()  # all values are there
    half = THREADS // 2
    while half > 0:
        if tid < half:
            partial[tid] += partial[tid + half]
        cuda.syncthreads()  # before the next round reads this one's sums
        half //= 2
    sum = partial[0]
    cuda.syncthreads()  # all have read: partial may be used again
    return sum


def element(i, k, c, plane):
    """Where element i of channel k lies; plane = h * w."""
    return (i // plane * c + k) * plane + i % plane


def batchnorm2d_stats(mean, rstd, x, n, c, plane, eps):
    """mean (c) and rstd (c) of x. One block per channel; eps is float32."""
    partial = cuda.shared.array(THREADS, float32)
    k = cuda.blockIdx.x
    count = n * plane

    sum = float32(0)
    for i in range(cuda.threadIdx.x, count, THREADS):
        sum += x[element(i, k, c, plane)]
    m = block_sum(sum, partial) / float32(count)

    squares = float32(0)
    for i in range(cuda.threadIdx.x, count, THREADS):
        distance = x[element(i, k, c, plane)] - m
        squares += distance * distance
    var = block_sum(squares, partial) / float32(count)

    if cuda.threadIdx.x == 0:
        mean[k] = m
        rstd[k] = float32(1) / math.sqrt(var + eps)


def batchnorm2d(y, x, weight, bias, mean, rstd, n, c, plane):
    """y from x (n,c,plane) and its statistics. One thread per element."""
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if i >= n * c * plane:
        return
    k = i // plane % c
    y[i] = (x[i] - mean[k]) * rstd[k] * weight[k] + bias[k]


def batchnorm2d_sums(dweight, dbias, dy, x, mean, rstd, n, c, plane):
    """dbias (c) = sum of dy, dweight (c) = sum of dy * (x - mean) * rstd.

    One block per channel.
    """
    partial = cuda.shared.array(THREADS, float32)
    k = cuda.blockIdx.x
    count = n * plane

    sum = float32(0)
    products = float32(0)
    for i in range(cuda.threadIdx.x, count, THREADS):
        at = element(i, k, c, plane)
        sum += dy[at]
        products += dy[at] * ((x[at] - mean[k]) * rstd[k])
    sum = block_sum(sum, partial)
    products = block_sum(products, partial)

    if cuda.threadIdx.x == 0:
        dbias[k] = sum
        dweight[k] = products


def batchnorm2d_dx(dx, dweight, dbias, dy, x, weight, mean, rstd, n, c, plane):
    """dx: x acts on y itself, on the mean and on the spread.

    Hence the mean of dy goes, and the part along xhat. One thread per element.
    """
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if i >= n * c * plane:
        return
    k = i // plane % c
    count = float32(n * plane)
    xhat = (x[i] - mean[k]) * rstd[k]
    dx[i] = weight[k] * rstd[k] * (dy[i] - dbias[k] / count - xhat * dweight[k] / count)
