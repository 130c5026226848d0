"""rmsnorm in PyTorch, with the cases and sizes for its checks and timings."""

from __future__ import annotations

from collections.abc import Iterator

import torch.nn.functional as F

from ..op import Op
from . import Case
from .layernorm import BENCH, norm_cases

__all__ = ["BENCH"]  # layernorm's sizes

EPS = 2.0**-23  # PyTorch's, for float32


def rmsnorm(x, weight=None, residual=None, eps=EPS):
    """Return s / sqrt(mean(s^2) + eps) * weight, where s = x + residual.

    The mean is that of each row of s (rows, cols). weight is (cols). x may have any
    number of dimensions before the last; residual has the shape of x. The result keeps
    the shape.
    """
    s = x if residual is None else x + residual
    return F.rms_norm(s, s.shape[-1:], weight, eps)


OP = Op(
    rmsnorm,
    {
        **{"x": "*rows, cols", "weight": "cols", "residual": "*rows, cols"},
        **{"y": "*rows, cols", "total": "*rows, cols", "rstd": "rows"},
    },
    skipped=("dx", "dresidual", "dweight"),
    extra={"total": "residual"},
)


def cases(generator) -> Iterator[Case]:
    yield from norm_cases(OP, False, EPS, generator)
