"""A step of gradient descent: the naive rung of kernels/sgd.cu."""

from ... import cuda


def sgd(param, grad, count, lr):
    """param (count) -= lr * grad; lr is float32. One thread per parameter."""
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if i < count:
        param[i] -= lr * grad[i]
