"""batchnorm2d in PyTorch, with the cases and sizes for its checks and timings."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F

from ..op import Bench, Op
from . import Answer, Case, U, autograd, column, random, sum_bound

EPS = 1e-5


def batchnorm2d(x, weight, bias, eps=EPS):
    """Return (x - mean) / sqrt(var + eps) * weight + bias, per channel of x (n,c,h,w).

    mean and the biased variance are computed over this batch; there are no running
    statistics. weight and bias are (c). n*h*w must be more than 1.
    """
    return F.batch_norm(x, None, None, weight, bias, True, 0, eps)


OP = Op(
    batchnorm2d,
    {
        **{"x": "n, c, h, w", "weight": "c", "bias": "c"},
        **{"y": "n, c, h, w", "mean": "c", "rstd": "c"},
    },
)
BENCH = Bench("n", (64, 256), {"c": 32, "h": 28, "w": 28})

_SIZES = [  # n, c, h, w, and an offset added to x
    *[(2, 1, 1, 1, 0.0), (1, 3, 1, 2, 0.0), (3, 2, 5, 7, 0.0), (5, 7, 3, 3, 0.0)],
    *[(2, 5, 16, 17, 0.0), (4, 3, 13, 29, 100.0), (1, 33, 4, 4, -3.0)],
]


def cases(generator) -> Iterator[Case]:
    for n, c, h, w, offset in _SIZES:
        x = random(generator, n, c, h, w) + offset
        weight, bias = random(generator, c), random(generator, c)
        dy = random(generator, n, c, h, w)
        title = f"n={n} c={c} h={h} w={w} offset={offset}"
        yield _forward_case(title, x, weight, bias)
        yield _backward_case(title, x, weight, bias, dy)


def _compute_moments(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return mean and rstd (c, float64), and the error bounds of both in float32."""
    count = x.numel() // x.shape[1]
    x64 = x.double()
    mean, var = x64.mean((0, 2, 3)), x64.var((0, 2, 3), unbiased=False)
    mean_bound = 1.01 * (count + 2) * U * x64.abs().mean((0, 2, 3)) + 1e-38
    # A sum of (x - m)^2 about a mean m with error d is the exact sum plus count d^2.
    # Each term has 3 roundings, and the sum has count more.
    var_bound = 1.01 * (count + 4) * U * var + mean_bound**2
    rstd = (var + EPS).rsqrt()
    rstd_bound = rstd * (0.51 * var_bound / (var + EPS) + 4 * U)
    return mean, rstd, mean_bound, rstd_bound


def _forward_case(title, x, weight, bias) -> Case:
    mean, rstd, mean_bound, rstd_bound = _compute_moments(x)
    x64, weight64, bias64 = x.double(), column(weight.double()), column(bias.double())
    centered = x64 - column(mean)
    scaled = centered * column(rstd) * weight64
    want = batchnorm2d(x64, weight.double(), bias.double())
    bound = (
        weight64.abs() * column(rstd + rstd_bound) * column(mean_bound)
        + scaled.abs() * (column(rstd_bound / rstd) + 5 * U)
        # y may be computed as x * scale + (bias - mean * scale), with cancellation.
        + 4 * U * (column(rstd * mean.abs()) * weight64.abs() + bias64.abs())
        + 4 * U * x64.abs() * column(rstd) * weight64.abs()
    )
    answers = {
        "y": Answer(want, bound),
        "mean": Answer(mean, mean_bound),
        "rstd": Answer(rstd, rstd_bound),
    }
    inputs = {"x": x, "weight": weight, "bias": bias}
    return OP.case(title, inputs, answers, eps=EPS)


def _backward_case(title, x, weight, bias, dy) -> Case:
    """Return a case for autograd's gradients, with mean and rstd rounded to float32."""
    count = x.numel() // x.shape[1]
    mean, rstd, _, _ = _compute_moments(x)
    _, (dx, dweight, dbias) = autograd(batchnorm2d, [x, weight, bias], dy)
    size = dy.double().abs()
    xhat = (x.double() - column(mean)) * column(rstd)
    xhat_bound = 4 * U * xhat.abs() + 1.01 * U * column(mean.abs() * rstd)
    dims = (0, 2, 3)
    dbias_bound = sum_bound(count, size.sum(dims))
    dweight_bound = sum_bound(count + 2, (size * xhat.abs()).sum(dims))
    dweight_bound += (size * xhat_bound).sum(dims)
    inner = (
        8 * U * (size + column(dbias.abs() / count))
        + 8 * U * xhat.abs() * column(dweight.abs() / count)
        + column(dbias_bound / count)
        + xhat.abs() * column(dweight_bound / count)
        + xhat_bound * column(dweight.abs() / count)
    )
    bound = column(weight.double().abs() * rstd) * inner + 1e-38
    answers = {
        "dx": Answer(dx, bound),
        "dweight": Answer(dweight, dweight_bound),
        "dbias": Answer(dbias, dbias_bound),
    }
    inputs = {"dy": dy, "x": x, "weight": weight}
    inputs |= {"mean": mean.float(), "rstd": rstd.float()}
    return OP.case(title, inputs, answers)
