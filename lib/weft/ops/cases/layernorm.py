"""layernorm in PyTorch, with the cases and sizes for its checks and timings."""

from __future__ import annotations

from collections.abc import Iterator

import torch.nn.functional as F

from ..op import Bench, Op
from . import Case
from ._norms import count_rows, norm_cases

EPS = 1e-5


def layernorm(x, weight=None, bias=None, residual=None, eps=EPS):
    """Return (s - mean) / sqrt(var + eps) * weight + bias, where s = x + residual.

    mean and the biased variance are those of each row of s (rows, cols). weight and
    bias are (cols). x may have any number of dimensions before the last; residual has
    the shape of x. The result keeps the shape.
    """
    s = x if residual is None else x + residual
    return F.layer_norm(s, s.shape[-1:], weight, bias, eps)


OP = Op(
    layernorm,
    {
        **{"x": "*rows, cols", "weight": "cols", "bias": "cols"},
        **{"residual": "*rows, cols", "y": "*rows, cols", "total": "*rows, cols"},
        **{"mean": "rows", "rstd": "rows"},
    },
    skipped=("dx", "dresidual", "dweight", "dbias"),
    extra={"total": "residual"},
)
BENCH = Bench(
    *("cols", (1024, 4096, 16384), {"rows": lambda cols: 2**26 // max(1024, cols)}),
    counted={"rows": count_rows},
    beside_copy=True,
)


def cases(generator) -> Iterator[Case]:
    yield from norm_cases(OP, True, EPS, generator)
