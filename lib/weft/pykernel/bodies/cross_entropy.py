"""Softmax and loss, and their gradient: the naive rung of kernels/cross_entropy.cu."""

import math

from numpy import float32

from ... import cuda
from .threads import THREADS


def row_max(x, first, classes):
    """The largest of x[first .. first + classes)."""
    most = x[first]
    for j in range(1, classes):
        most = x[first + j] if x[first + j] > most else most
    return most


def row_sum(x, first, classes, most):
    """The sum of exp(x - most) over the same."""
    total = float32(0)
    for j in range(classes):
        total += math.exp(x[first + j] - most)
    return total


def cross_entropy(prob, logits, n, classes):
    """prob (n,classes) = softmax of logits. One thread per row."""
    row = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if row >= n:
        return
    x = row * classes
    most = row_max(logits, x, classes)
    sum = row_sum(logits, x, classes, most)
    for j in range(classes):
        prob[x + j] = math.exp(logits[x + j] - most) / sum


def cross_entropy_loss(loss, logits, target, n, classes):
    """loss (1) = the mean of the rows' losses. target (n) is int64. One block."""
    partial = cuda.shared.array(THREADS, float32)
    tid = cuda.threadIdx.x

    acc = float32(0)
    for row in range(tid, n, THREADS):
        x = row * classes
        most = row_max(logits, x, classes)
        sum = row_sum(logits, x, classes, most)
        # A kernel cannot refuse a target, but it must not hide a bad one.
        bad = target[row] < 0 or target[row] >= classes
        acc += (
            float32(math.nan)
            if bad
            else math.log(sum) - (logits[x + target[row]] - most)
        )
    partial[tid] = acc
    cuda.syncthreads()  # all sums are there
    half = THREADS // 2
    while half > 0:
        if tid < half:
            partial[tid] += partial[tid + half]
        cuda.syncthreads()  # before the next round reads this one's sums
        half //= 2
    if tid == 0:
        loss[0] = partial[0] / float32(n)


def cross_entropy_dlogits(dlogits, dloss, prob, target, n, classes):
    """dlogits = (prob - onehot(target)) * dloss / n. One thread per element."""
    index = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if index >= n * classes:
        return
    col = index % classes
    wanted = target[index // classes]
    bad = wanted < 0 or wanted >= classes
    onehot = float32(math.nan) if bad else float32(1) if col == wanted else float32(0)
    dlogits[index] = (prob[index] - onehot) * (dloss[0] / float32(n))
