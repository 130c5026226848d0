"""Answers to the exercises of 10_backwards.ipynb, and mistakes that must not pass."""

import numpy as np


def leaky_relu_backward(dy, x, slope):
    return np.where(x > 0, dy, slope * dy)


def squared_error_backward(dloss, y, target):
    return 2 * (y - target) * dloss / y.size


def strided_dweight(dy, x, weight, stride):
    dweight = np.zeros_like(weight)
    for c in range(len(dy)):
        dweight += dy[c] * x[c * stride : c * stride + len(weight)]
    return dweight


def centre_backward(dy, x):
    return dy - dy.mean(axis=1, keepdims=True)


MISTAKES = {
    "leaky_relu_backward": [
        lambda dy, x, slope: dy * (x > 0),  # plain ReLU
        lambda dy, x, slope: np.where(dy > 0, dy, slope * dy),  # the wrong gate
        lambda dy, x, slope: np.full_like(x, np.nan),
    ],
    "squared_error_backward": [
        lambda dloss, y, target: 2 * (y - target) / y.size,  # without dloss
        lambda dloss, y, target: 2 * (y - target) * dloss / len(y),  # rows only
        lambda dloss, y, target: (y - target) * dloss / y.size,  # without the 2
    ],
    "strided_dweight": [
        lambda dy, x, weight, stride: strided_dweight(dy, x, weight, 1),
        lambda dy, x, weight, stride: strided_dweight(dy, x, weight, stride)[::-1],
        lambda dy, x, weight, stride: dy,  # the wrong shape
    ],
    "centre_backward": [
        lambda dy, x: dy - dy.sum(axis=1, keepdims=True),  # without 1/n
        lambda dy, x: dy - dy.mean(axis=0, keepdims=True),  # over the wrong axis
        lambda dy, x: dy,
    ],
}
