"""softmax in PyTorch, with the cases and sizes for its checks and timings."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F

from ..op import Bench, Op
from . import Answer, Case, U, random, sum_bound


def softmax(x):
    """Return the softmax of x (rows, cols) along its last dimension.

    x may have any number of dimensions before the last; the result keeps them. A row
    with a NaN, or whose maximum is an infinity, becomes NaN, as in PyTorch.
    """
    return F.softmax(x, -1)


OP = Op(softmax, {"x": "*rows, cols", "y": "*rows, cols"}, only={"dim": -1})
BENCH = Bench(
    *("cols", (1024, 4096, 16384), {"rows": lambda cols: 2**26 // max(1024, cols)}),
    counted={"rows": lambda cols: max(1, 2**16 // cols)},
    on_gpu={"rows": lambda cols: 2**28 // max(1024, cols)},
    beside_copy=True,
)

_SHAPES = (
    *((1, 1), (3, 1), (5, 2), (2, 31), (9, 32), (3, 33), (4, 127), (2, 128), (2, 129)),
    *((7, 255), (2, 257), (2, 1000), (2, 1023), (1, 1024), (2, 1025), (1, 4100)),
    *((1, 3000), (1, 3001), (1, 8191), (1, 10_001), (1, 16_384), (1, 16_385)),
    *((1, 26_003), (1, 65_537)),
)


def cases(generator) -> Iterator[Case]:
    for rows, cols in _SHAPES:
        x, dy = 3 * random(generator, rows, cols), random(generator, rows, cols)
        title = f"rows={rows}, cols={cols}"
        for case in (_forward_case(title, x), _backward_case(title, dy, x.softmax(-1))):
            case.every_order = cols < 4096
            yield case
    x = random(generator, 5, 70)
    yield _forward_case("large numbers", 1000 + 30 * x)
    yield _forward_case("tiny results", 100 * x)
    yield _forward_case("infinities", _with_infinities(x))
    case = _forward_case("shifted by 1", x[:, :64].contiguous())
    case.shift = {"x": 1}
    yield case


def bound_softmax(x: torch.Tensor) -> torch.Tensor:
    """Return an error bound for each number of softmax(x).

    With d = maximum - x, the subtraction is off by u d, which exp() turns into a
    relative error. exp() itself is off by 2 units in the last place, or 4 u. Rungs
    reach the maximum in steps; the exponents add up to d, so their errors add up to
    those of one subtraction. A step has an exp(), a product and an addition, 6 u in
    all, and there are at most as many steps as numbers. The quotient adds 4 u, and a
    part's factor another step. The sum's error is the weighted mean of its terms'
    errors. Below 2^-126, a float is a multiple of 2^-149: two products round there.
    """
    depth = (x.amax(-1, keepdim=True) - x).double()
    y = x.double().softmax(-1)
    term = (2.02 * torch.where(y > 0, depth, 0.0) + 6.1 * (x.shape[-1] + 2)) * U
    return y * (term + (y * term).sum(-1, keepdim=True) + 4 * U) + 2.0**-147


def _forward_case(title: str, x: torch.Tensor) -> Case:
    return OP.case(
        title, {"x": x}, {"y": Answer(x.double().softmax(-1), bound_softmax(x))}
    )


def _backward_case(title: str, dy: torch.Tensor, y: torch.Tensor) -> Case:
    wide = y.double()
    products = dy.double() * wide
    dot = products.sum(-1, keepdim=True)
    size = sum_bound(y.shape[-1], products.abs().sum(-1, keepdim=True))
    bound = wide * (1.01 * size + 2.02 * U * (dy.double() - dot).abs()) + 2.0**-149
    inputs = {"dy": dy, "y": y}
    return OP.case(title, inputs, {"dx": Answer(wide * (dy.double() - dot), bound)})


def _with_infinities(x: torch.Tensor) -> torch.Tensor:
    """Return x with infinities of both signs, a row of minus infinity, and a NaN."""
    x = x.clone()
    infinity = float("inf")
    x[0, 3], x[1, ::2], x[2], x[3, 7] = infinity, -infinity, -infinity, float("nan")
    return x
