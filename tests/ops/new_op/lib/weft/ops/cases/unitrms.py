"""unitrms in PyTorch, with the cases and sizes for its checks and timings."""

from __future__ import annotations

from collections.abc import Iterator

import torch.nn.functional as F

from ..op import Bench, Op
from . import Answer, Case, U, random, sum_bound


def unitrms(x, weight, eps=1e-6):
    """Divide rows of x (n,d) by the root of their mean square + eps, times weight."""
    return F.rms_norm(x, weight.shape, weight, eps)


UNITRMS = Op(
    unitrms,
    {"x": "n, d", "weight": "d", "y": "n, d", "rstd": "n"},
    bench=Bench("n", (64, 256), {"d": 1024}),
)

_SIZES = [(1, 1), (2, 3), (5, 7), (3, 64), (33, 65), (4, 257)]  # (n, d) of each case


def unitrms_cases(generator) -> Iterator[Case]:
    for n, d in _SIZES:
        x, dy = random(generator, n, d), random(generator, n, d)
        weight = random(generator, d)
        yield _forward(f"n={n} d={d}", x, weight, 1e-6)
        yield _backward(f"n={n} d={d}", x, weight, dy, 1e-6)


def _rstd(x, eps):
    return (x.double().square().mean(1) + eps).rsqrt()


def _forward(title, x, weight, eps) -> Case:
    want, rstd = unitrms(x.double(), weight.double(), eps), _rstd(x, eps)
    # The roundings are those of a sum of d squares, its root, the quotient and two
    # products.
    relative = 0.51 * (x.shape[1] + 3) * U + 4 * U
    answers = {
        "y": Answer(want, want.abs() * (relative + 3 * U) + 1e-38),
        "rstd": Answer(rstd, rstd * relative),
    }
    return UNITRMS.case(title, {"x": x, "weight": weight}, answers, eps=eps)


def _backward(title, x, weight, dy, eps) -> Case:
    """Return a case for the formula, since rstd arrives rounded to float32."""
    n, d = x.shape
    rstd = _rstd(x, eps).float()
    scale, xhat = rstd.double()[:, None], x.double() * rstd.double()[:, None]
    scaled = dy.double() * weight.double()
    mean = (scaled * xhat).mean(1, keepdim=True)
    mean_bound = sum_bound(d + 4, (scaled * xhat).abs().mean(1, keepdim=True))
    inner = 4 * U * scaled.abs() + xhat.abs() * (mean_bound + 6 * U * mean.abs())
    products = dy.double() * xhat
    answers = {
        "dx": Answer(scale * (scaled - xhat * mean), scale * inner + 1e-38),
        "dweight": Answer(products.sum(0), sum_bound(n + 3, products.abs().sum(0))),
    }
    return UNITRMS.case(
        title, {"dy": dy, "x": x, "weight": weight, "rstd": rstd}, answers
    )
