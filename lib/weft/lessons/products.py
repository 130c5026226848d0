"""Matrices to multiply in a lesson, and whether a product of them is right."""

from __future__ import annotations

import numpy as np

_random = np.random.default_rng(0)


def product(m: int, n: int, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """c (m,n), all NaN, and random a (m,k) and b (k,n), in float32."""
    shapes = (m, k), (k, n)
    a, b = (_random.standard_normal(shape).astype(np.float32) for shape in shapes)
    return np.full((m, n), np.nan, np.float32), a, b


def close(c: np.ndarray, a: np.ndarray, b: np.ndarray) -> bool:
    """Whether c is a @ b but for what float32 may round in any order of the sums.

    The bound is 1.01 k 2^-24 (|a| @ |b|) for k products (Higham, Accuracy and
    Stability of Numerical Algorithms, section 3.1).
    """
    exact = a.astype(np.float64) @ b
    bound = 1.01 * a.shape[1] * 2**-24 * (abs(a).astype(np.float64) @ abs(b))
    return bool((abs(c - exact) <= bound).all())
