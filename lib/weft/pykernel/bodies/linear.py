"""A fully connected layer and its gradients: kernels/linear.cu, rung naive."""

from numpy import float32

from ... import cuda


def linear(y, x, weight, bias, n, in_, out):
    """y[row][col] = bias[col] + sum over i of x[row][i] * weight[col][i]."""
    index = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if index >= n * out:
        return
    row = index // out
    col = index % out
    acc = bias[col]
    for i in range(in_):
        acc += x[row * in_ + i] * weight[col * in_ + i]
    y[index] = acc


def linear_dx(dx, dy, weight, n, in_, out):
    """dx[row][i] = sum over the outputs of dy[row][col] * weight[col][i]."""
    index = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if index >= n * in_:
        return
    row = index // in_
    i = index % in_
    acc = float32(0)
    for col in range(out):
        acc += dy[row * out + col] * weight[col * in_ + i]
    dx[index] = acc


def linear_dweight(dweight, dy, x, n, in_, out):
    """dweight[col][i] = sum over the batch of dy[row][col] * x[row][i]."""
    index = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if index >= out * in_:
        return
    col = index // in_
    i = index % in_
    acc = float32(0)
    for row in range(n):
        acc += dy[row * out + col] * x[row * in_ + i]
    dweight[index] = acc


def linear_dbias(dbias, dy, n, out):
    """dbias[col] = sum over the batch of dy[row][col]."""
    col = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if col >= out:
        return
    acc = float32(0)
    for row in range(n):
        acc += dy[row * out + col]
    dbias[col] = acc
