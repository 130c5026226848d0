"""Describe softmax, layernorm and rmsnorm: PyTorch twins, cases and sizes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F

from ..op import Bench, Op
from . import Answer, Case, U, autograd, random, sum_bound

# ---- softmax -----------------------------------------------------------------------


def softmax(x):
    """Return the softmax of x (rows, cols) along its last dimension.

    x may have any number of dimensions before the last; the result keeps them. A row
    with a NaN, or whose maximum is an infinity, becomes NaN, as in PyTorch.
    """
    return F.softmax(x, -1)


SOFTMAX = Op(
    softmax,
    {"x": "*rows, cols", "y": "*rows, cols"},
    only={"dim": -1},
    bench=Bench(
        *("cols", (1024, 4096, 16384), {"rows": lambda cols: 2**26 // max(1024, cols)}),
        counted={"rows": lambda cols: max(1, 2**16 // cols)},
        on_gpu={"rows": lambda cols: 2**28 // max(1024, cols)},
        beside_copy=True,
    ),
)

_SOFTMAX_SHAPES = (
    *((1, 1), (3, 1), (5, 2), (2, 31), (9, 32), (3, 33), (4, 127), (2, 128), (2, 129)),
    *((7, 255), (2, 257), (2, 1000), (2, 1023), (1, 1024), (2, 1025), (1, 4100)),
    *((1, 3000), (1, 3001), (1, 8191), (1, 10_001), (1, 16_384), (1, 16_385)),
    *((1, 26_003), (1, 65_537)),
)


def softmax_cases(generator) -> Iterator[Case]:
    for rows, cols in _SOFTMAX_SHAPES:
        x, dy = 3 * random(generator, rows, cols), random(generator, rows, cols)
        title = f"rows={rows}, cols={cols}"
        for case in (
            _make_softmax_forward(title, x),
            _make_softmax_backward(title, dy, x.softmax(-1)),
        ):
            case.every_order = cols < 4096
            yield case
    x = random(generator, 5, 70)
    yield _make_softmax_forward("large numbers", 1000 + 30 * x)
    yield _make_softmax_forward("tiny results", 100 * x)
    yield _make_softmax_forward("infinities", _with_infinities(x))
    case = _make_softmax_forward("shifted by 1", x[:, :64].contiguous())
    case.shift = {"x": 1}
    yield case


def bound_softmax(x: torch.Tensor) -> torch.Tensor:
    """Return an error bound for each number of softmax(x).

    The quotient adds 4 u. If a row is computed in parts, the factor that rescales a
    part adds another step. Below 2^-126, a float is a multiple of 2^-149. Two products
    are rounded there.
    """
    y, relative, total = bound_powers(x)
    return y * (relative + total + 4 * U) + 2.0**-147


def bound_powers(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return softmax(x) in float64, and bounds of relative errors in float32.

    The first bounds are those of the exponentials (rows, cols), and the second ones
    those of their sums (rows, 1).

    With d = maximum - x, the subtraction is off by u d, which exp() turns into a
    relative error. exp() itself is off by 2 units in the last place, or 4 u. Rungs
    reach the maximum in steps; the exponents add up to d, so their errors add up to
    those of one subtraction. A step has an exp(), a product and an addition, which add
    6 u. There are at most as many steps as numbers. The sum's error is the weighted
    mean of its terms' errors.
    """
    depth = (x.amax(-1, keepdim=True) - x).double()
    y = x.double().softmax(-1)
    term = (2.02 * torch.where(y > 0, depth, 0.0) + 6.1 * (x.shape[-1] + 2)) * U
    return y, term, (y * term).sum(-1, keepdim=True)


def _make_softmax_forward(title: str, x: torch.Tensor) -> Case:
    return SOFTMAX.case(
        title, {"x": x}, {"y": Answer(x.double().softmax(-1), bound_softmax(x))}
    )


def _make_softmax_backward(title: str, dy: torch.Tensor, y: torch.Tensor) -> Case:
    wide = y.double()
    products = dy.double() * wide
    dot = products.sum(-1, keepdim=True)
    size = sum_bound(y.shape[-1], products.abs().sum(-1, keepdim=True))
    bound = wide * (1.01 * size + 2.02 * U * (dy.double() - dot).abs()) + 2.0**-149
    inputs = {"dy": dy, "y": y}
    return SOFTMAX.case(
        title, inputs, {"dx": Answer(wide * (dy.double() - dot), bound)}
    )


def _with_infinities(x: torch.Tensor) -> torch.Tensor:
    """Return x with infinities of both signs, a row of minus infinity, and a NaN."""
    x = x.clone()
    infinity = float("inf")
    x[0, 3], x[1, ::2], x[2], x[3, 7] = infinity, -infinity, -infinity, float("nan")
    return x


# ---- layernorm ---------------------------------------------------------------------

LAYERNORM_EPS = 1e-5


def layernorm(x, weight=None, bias=None, residual=None, eps=LAYERNORM_EPS):
    """Return (s - mean) / sqrt(var + eps) * weight + bias, where s = x + residual.

    mean and the biased variance are those of each row of s (rows, cols). weight and
    bias are (cols). x may have any number of dimensions before the last; residual has
    the shape of x. The result keeps the shape.
    """
    s = x if residual is None else x + residual
    return F.layer_norm(s, s.shape[-1:], weight, bias, eps)


def choose_rows(cols: int) -> int:
    """Return the number of rows, of `cols` numbers each, for counts of traffic.

    A block that takes several rows reads weight and bias once. Its rows must be far
    larger than both.
    """
    return max(64, 2 ** (19 if cols <= 8192 else 23) // cols)


LAYERNORM = Op(
    layernorm,
    {
        **{"x": "*rows, cols", "weight": "cols", "bias": "cols"},
        **{"residual": "*rows, cols", "y": "*rows, cols", "total": "*rows, cols"},
        **{"mean": "rows", "rstd": "rows"},
    },
    skipped=("dx", "dresidual", "dweight", "dbias"),
    extra={"total": "residual"},
    bench=Bench(
        *("cols", (1024, 4096, 16384), {"rows": lambda cols: 2**26 // max(1024, cols)}),
        counted={"rows": choose_rows},
        on_gpu={"rows": lambda cols: 2**28 // max(1024, cols)},
        beside_copy=True,
    ),
)

_NORM_SHAPES = (  # rows, columns, and an offset added to x
    *((1, 1, 0.0), (3, 1, 0.0), (5, 2, 0.0), (2, 31, 0.0), (9, 32, 100.0)),
    *((3, 33, 0.0), (70, 127, 0.0), (2, 128, -3.0), (2, 129, 0.0), (130, 12, 0.0)),
    *((2, 257, 0.0), (2, 1000, 0.0), (19, 1024, 0.0), (2, 1025, 10.0), (2, 4100, 0.0)),
    *((2, 3000, 0.0), (3, 3001, 0.0), (1, 8191, 0.0), (3, 10_001, 0.0)),
    *((3, 16_384, 1.0), (1, 16_385, 0.0), (1, 26_003, 0.0), (1, 65_537, 0.0)),
)
_NORM_KINDS = ("", "weight", "weight residual")


def layernorm_cases(generator) -> Iterator[Case]:
    yield from _make_norm_cases(LAYERNORM, True, LAYERNORM_EPS, generator)


def _make_norm_cases(op: Any, centred: bool, eps: float, generator) -> Iterator[Case]:
    """Yield cases of layernorm (centred) or rmsnorm, with and without options."""
    for turn, (rows, cols, offset) in enumerate(_NORM_SHAPES):
        kind = _NORM_KINDS[turn % 3] if cols > 1000 else ""
        for options in [kind] if cols > 1000 else _NORM_KINDS:
            x = random(generator, rows, cols) + offset
            names = ["weight", "bias"] if "weight" in options else []
            scales = {
                n: random(generator, cols) for n in names if centred or n[0] == "w"
            }
            other = random(generator, rows, cols) if "residual" in options else None
            dy = random(generator, rows, cols)
            title = f"rows={rows} cols={cols} offset={offset} {options}".rstrip()
            call = _NormCall(op, centred, eps, title, x, other, scales, dy)
            for case in (call.forward(), call.backward()):
                case.every_order = cols < 4096
                yield case


class _NormCall:
    """One call: its arrays, and the moments of its rows in float64 with bounds."""

    def __init__(self, op, centred, eps, title, x, residual, scales, dy):
        self.op, self.centred, self.eps, self.title = op, centred, eps, title
        self.x, self.residual, self.scales, self.dy = x, residual, scales, dy
        self.total = x if residual is None else x + residual
        wide, count = self.total.double(), x.shape[1]
        size = wide.abs().mean(1, keepdim=True)
        self.mean = wide.mean(1, keepdim=True) if centred else 0 * size
        self.mean_bound = 1.01 * (count + 2) * U * size + 1e-38 if centred else 0 * size
        spread = (wide - self.mean).square().mean(1, keepdim=True)
        # A sum of (x - m)^2 about a mean m with error d is the exact sum plus count
        # d^2. Each term has 3 roundings, and the sum adds `count` more. Each merged
        # moment has its own mean with such an error, and 4 roundings per merge.
        spread_bound = 1.01 * (5 * count + 4) * U * spread + 4 * self.mean_bound**2
        self.rstd = (spread + eps).rsqrt()
        relative = 0.51 * spread_bound / (spread + eps) + 4 * U
        self.rstd_bound = self.rstd * relative

    @property
    def weight(self) -> torch.Tensor:
        ones = torch.ones(self.x.shape[1])
        return self.scales.get("weight", ones).double()

    def forward(self) -> Case:
        wide = self.total.double()
        bias = self.scales.get("bias", torch.zeros(1)).double()
        scaled = (wide - self.mean) * self.rstd * self.weight
        bound = self.weight.abs() * (self.rstd + self.rstd_bound) * self.mean_bound
        bound = bound + scaled.abs() * (self.rstd_bound / self.rstd + 5 * U)
        bound = bound + 2 * U * (scaled + bias).abs() + 1e-38
        answers = {"y": Answer(scaled + bias, bound)}
        if self.residual is not None:
            answers["total"] = Answer(wide)
        answers |= self._name_moments(self._make_answer)
        names = ["weight", "bias"] if self.centred else ["weight"]
        inputs = {"x": self.x, "residual": self.residual}
        inputs |= {name: self.scales.get(name) for name in names}
        return self.op.case(self.title, inputs, answers, eps=self.eps)

    def backward(self) -> Case:
        """Return a case for autograd's gradients, with moments rounded to float32."""
        scales = [self.weight, torch.zeros_like(self.weight)][: 1 + self.centred]
        wide, count = self.total.double(), self.x.shape[1]

        def compute(x, weight, bias=0.0):
            mean = x.mean(1, keepdim=True) if self.centred else 0.0
            spread = (x - mean).square().mean(1, keepdim=True)
            return (x - mean) * (spread + self.eps).rsqrt() * weight + bias

        _, (dx, *gradients) = autograd(compute, [self.total, *scales], self.dy)
        size = self.dy.double().abs()
        xhat = (wide - self.mean) * self.rstd
        hat_bound = 4 * U * xhat.abs() + 1.01 * U * (self.mean.abs() * self.rstd)
        answers = {"dx": Answer(dx, self._bound_dx(xhat, hat_bound, count))}
        if self.residual is not None:
            answers["dresidual"] = answers["dx"]
        rows = len(self.x)
        sums = sum_bound(rows + 2, (size * xhat.abs()).sum(0))
        bounds = [sums + (size * hat_bound).sum(0), sum_bound(rows, size.sum(0))]
        names = ["dweight", "dbias"]
        for name, gradient, bound in zip(names, gradients, bounds):
            answers[name] = Answer(gradient, bound)
        inputs = {"dy": self.dy, "weight": self.scales.get("weight")}
        known = {"x": self.x, "total": None}
        if self.residual is not None:
            known = {"x": None, "total": self.total}
        inputs |= known | self._name_moments(lambda value, _: value[:, 0].float())
        return self.op.case(self.title, inputs, answers)

    def _bound_dx(self, xhat, hat_bound, count: int) -> torch.Tensor:
        """Return the bound of rstd * (g - mean(g) - xhat * mean(g * xhat))."""
        g = self.dy.double() * self.weight
        size, scaled = g.abs(), (g * xhat).abs()
        plain_mean = g.mean(1, keepdim=True).abs() * self.centred
        scaled_mean = (g * xhat).mean(1, keepdim=True).abs()
        plain_bound = sum_bound(count + 2, size.mean(1, keepdim=True)) * self.centred
        scaled_bound = sum_bound(count + 4, scaled.mean(1, keepdim=True))
        scaled_bound = scaled_bound + (size * hat_bound).mean(1, keepdim=True)
        inner = (
            8 * U * (size + plain_mean + xhat.abs() * scaled_mean)
            + plain_bound
            + (xhat.abs() + hat_bound) * scaled_bound
            + hat_bound * scaled_mean
        )
        return self.rstd * (1 + 4 * U) * inner + 1e-38

    def _make_answer(self, value, bound) -> Answer:
        return Answer(value[:, 0], bound[:, 0])

    def _name_moments(self, make) -> dict[str, Any]:
        """Return make(value, bound) of the mean, if it is used, and of rstd."""
        moments = {"rstd": make(self.rstd, self.rstd_bound)}
        if self.centred:
            moments["mean"] = make(self.mean, self.mean_bound)
        return moments


# ---- rmsnorm -----------------------------------------------------------------------

RMSNORM_EPS = 2.0**-23  # PyTorch's default for float32


def rmsnorm(x, weight=None, residual=None, eps=RMSNORM_EPS):
    """Return s / sqrt(mean(s^2) + eps) * weight, where s = x + residual.

    The mean is that of each row of s (rows, cols). weight is (cols). x may have any
    number of dimensions before the last; residual has the shape of x. The result keeps
    the shape.
    """
    s = x if residual is None else x + residual
    return F.rms_norm(s, s.shape[-1:], weight, eps)


RMSNORM = Op(
    rmsnorm,
    {
        **{"x": "*rows, cols", "weight": "cols", "residual": "*rows, cols"},
        **{"y": "*rows, cols", "total": "*rows, cols", "rstd": "rows"},
    },
    skipped=("dx", "dresidual", "dweight"),
    extra={"total": "residual"},
    bench=LAYERNORM.bench,
)


def rmsnorm_cases(generator) -> Iterator[Case]:
    yield from _make_norm_cases(RMSNORM, False, RMSNORM_EPS, generator)
