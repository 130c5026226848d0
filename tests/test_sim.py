"""The simulator: what kernels compute, and what is written down about them."""

import numpy as np
import pytest
import torch

from weft import ArgumentError, KernelFault, bodies, cuda, sim

TILE = 4
LOOKUP = np.arange(10, dtype=np.float32) ** 2


def random(*shape) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape, np.float32)


def double(y, x, n):
    i = cuda.grid(1)
    if i < n:
        y[i] = 2 * x[i]


def test_a_map_with_a_guard():
    x, y = random(100), np.zeros(100, np.float32)
    report = sim(double)[4, 32](y, x, 100)
    assert (y == 2 * x).all() and report.ok
    assert report.counters.reads["x"] == report.counters.writes["y"] == 100


@pytest.mark.parametrize("checks", [True, False])
@pytest.mark.parametrize("order", ["forward", "reverse", "shuffled", 7])
@pytest.mark.parametrize("kernel", [bodies.matmul, bodies.matmul_tiled])
def test_matmul(kernel, order, checks):
    m, n, k = 17, 20, 33
    a, b, c = random(m, k), random(k, n), np.full((m, n), np.nan, np.float32)
    args = c.reshape(-1), a.reshape(-1), b.reshape(-1), m, n, k
    report = sim(kernel, order=order, checks=checks)[(2, 2), (16, 16)](*args)
    bound = 1.01 * k * 2.0**-24 * (abs(a).astype(float) @ abs(b))
    assert (abs(c - a.astype(float) @ b) <= bound).all()
    assert report.ok, report
