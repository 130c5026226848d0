"""sgd in PyTorch, with the cases for its checks."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from ..op import Op
from . import Answer, Case, U, random


def sgd(param, grad, lr):
    """Subtract lr * grad from param (any shape) in place, and return param."""
    return param.sub_(grad, alpha=lr)


OP = Op(sgd, {"param": "...", "grad": "..."})


def cases(generator) -> Iterator[Case]:
    for count in (1, 2, 3, 32, 255, 257, 1009, 4096):
        param, grad = random(generator, count), random(generator, count)
        lr = 0.1
        # The float32 number that C receives, in float64.
        lr64 = torch.tensor(lr).double()
        want = param.double() - lr64 * grad.double()
        bound = 1.01 * U * (want.abs() + (lr64 * grad.double()).abs())
        answers, initial = {"param": Answer(want, bound)}, {"param": param}
        yield OP.case(f"count={count}", {"grad": grad}, answers, initial, lr=lr)
