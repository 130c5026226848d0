"""linear in PyTorch, with the cases and sizes for its checks and timings."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import torch.nn.functional as F

from ..op import Bench, Op
from . import Answer, Case, absolute, autograd, random, sum_bound


def linear(x, weight, bias=None):
    """Return x (n,in) @ weight (out,in)^T + bias (out) -> (n,out).

    x may have any number of dimensions before the last; the result keeps them.
    """
    return F.linear(x, weight, bias)


OP = Op(
    linear,
    {"x": "*n, in", "weight": "out, in", "bias": "out", "y": "*n, out"},
    skipped=("dx", "dweight", "dbias"),
)
BENCH = Bench(
    *("n", (64, 256), {"in": 3136, "out": 128}),
    flop=lambda sizes: 2.0 * sizes["n"] * sizes["in"] * sizes["out"],
)

_SIZES = [
    *[(1, 1, 1), (2, 3, 1), (1, 2, 3), (5, 7, 11), (16, 17, 15), (33, 31, 65)],
    *[(64, 128, 10), (70, 257, 33)],
]


def cases(generator) -> Iterator[Case]:
    for (n, ins, outs), with_bias in itertools.product(_SIZES, (True, False)):
        x, weight = random(generator, n, ins), random(generator, outs, ins)
        bias = random(generator, outs) if with_bias else None
        dy = random(generator, n, outs)
        title = f"n={n} in={ins} out={outs} bias={with_bias}"
        forward, backward = autograd(F.linear, [x, weight, bias], dy)
        size, sizes = autograd(F.linear, absolute(x, weight, bias), dy.abs())
        yield _linear_forward(title, x, weight, bias, forward, size)
        yield _linear_backward(title, x, weight, dy, with_bias, backward, sizes)


def _linear_forward(title, x, weight, bias, want, size) -> Case:
    answers = {"y": Answer(want, sum_bound(x.shape[1] + 1, size))}
    return OP.case(title, {"x": x, "weight": weight, "bias": bias}, answers)


def _linear_backward(title, x, weight, dy, all_three, want, size) -> Case:
    n, outs = dy.shape
    terms = {"dx": outs, "dweight": n, "dbias": n}
    answers = {
        name: Answer(w, sum_bound(k, s))
        for (name, k), w, s in zip(terms.items(), want, size)
        if all_three or name == "dweight"
    }
    return OP.case(title, {"dy": dy, "x": x, "weight": weight}, answers)
