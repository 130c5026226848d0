"""The lab's kernels as Python functions: one body for sim, numba_jit and cuda_c.

Each corresponds line by line to the naive rung of kernels/<op>.cu, or to gather() of
kernels/mnist/layers.cu. Arguments have the names and the order of the .cu file:
outputs, inputs, sizes. Arrays are flat, contiguous and float32, unless stated
otherwise. Every argument is required: where C accepts NULL for a bias, pass zeros; for
dloss, pass a one. Indices are ints, so an array has fewer than 2^31 elements.

    sim(relu)[blocks_for(count), THREADS](y, x, count)

A kernel documented as "one block" per item sums in a tree over exactly THREADS threads.
All other kernels accept blocks of any size.
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
