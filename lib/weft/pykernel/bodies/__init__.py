"""The lab's kernels as Python functions: one body for sim, numba_jit and cuda_c.

Each stands for the naive rung of kernels/<op>.cu and for gather() of
kernels/mnist/layers.cu, line by line, with the names and the order of arguments of
the .cu: outputs, inputs, sizes. Arrays are flat and contiguous, float32 unless said
otherwise, and none may be missing (where C takes NULL for a bias, pass zeros; for
dloss, a one). Indices are ints: an array has less than 2^31 elements.

    sim(relu)[blocks_for(count), THREADS](y, x, count)

A kernel that says "one block" per something adds up in a tree over exactly THREADS
threads; any other takes blocks of any size.
"""

from .layers import (
    THREADS,
    batchnorm2d,
    batchnorm2d_dx,
    batchnorm2d_stats,
    batchnorm2d_sums,
    block_sum,
    blocks_for,
    conv2d,
    conv2d_dbias,
    conv2d_dweight,
    conv2d_dx,
    cross_entropy,
    cross_entropy_dlogits,
    cross_entropy_loss,
    element,
    gather,
    linear,
    linear_dbias,
    linear_dweight,
    linear_dx,
    maxpool2d,
    maxpool2d_dx,
    relu,
    relu_dx,
    row_max,
    row_sum,
    sgd,
)
from .lessons import TILE, grey, matmul, matmul_tiled

__all__ = [
    "THREADS",
    "TILE",
    "batchnorm2d",
    "batchnorm2d_dx",
    "batchnorm2d_stats",
    "batchnorm2d_sums",
    "block_sum",
    "blocks_for",
    "conv2d",
    "conv2d_dbias",
    "conv2d_dweight",
    "conv2d_dx",
    "cross_entropy",
    "cross_entropy_dlogits",
    "cross_entropy_loss",
    "element",
    "gather",
    "grey",
    "linear",
    "linear_dbias",
    "linear_dweight",
    "linear_dx",
    "matmul",
    "matmul_tiled",
    "maxpool2d",
    "maxpool2d_dx",
    "relu",
    "relu_dx",
    "row_max",
    "row_sum",
    "sgd",
]
