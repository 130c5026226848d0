"""max(x, 0) and its gradient: the naive rung of kernels/relu.cu."""

from numpy import float32

from ... import cuda


def relu(y, x, count):
    """y (count) = max(x, 0). One thread per element."""
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if i >= count:
        return
    # Asked this way round, a NaN, which compares false, stays a NaN.
    y[i] = float32(0) if x[i] < float32(0) else x[i]


def relu_dx(dx, dy, y, count):
    """dx (count): dy where y is above 0. One thread per element."""
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if i >= count:
        return
    dx[i] = dy[i] if y[i] > float32(0) else float32(0)
