"""What no kernel can exceed by much: torch's copy and its largest matrix product."""

from __future__ import annotations

from typing import Any

import torch

from .. import bench
from .precisions import HALVES, check_precision
from .precisions import precision as allow
from .row import Row, stamp
from .trainer import checked_device

SIDE = {"cuda": 4096, "cpu": 256}  # of the matrices
COPIED = {"cuda": 1 << 28, "cpu": 1 << 20}  # floats


def roof(precision: str, device: str, samples: int = 20, **_: Any) -> list[Row]:
    """One row: tflops of a matrix product in that precision, gbs read and written."""
    where = checked_device(device)
    check_precision(precision, where)
    side, kind = SIDE[where.type], HALVES.get(precision, torch.float32)
    a, b = (torch.randn(side, side, device=where).to(kind) for _ in range(2))
    out = torch.empty_like(a)
    with allow(precision):
        product = bench.time_call(
            lambda: torch.mm(a, b, out=out), where, samples, calls=10
        )
    x = torch.randn(COPIED[where.type], device=where)
    y = torch.empty_like(x)
    copy = bench.time_call(lambda: y.copy_(x), where, samples)
    return [{
        **{"op": "mnist", "measure": "roof", "impl": "torch", "rung": "mm"},
        **{"layout": None, "precision": precision, "target": where.type},
        **{"device": bench.device_name(where), **product.row(), "batch": None},
        "tflops": 2 * side**3 / product.median / 1e6,
        "gbs": 2 * x.element_size() * x.numel() / copy.median / 1e3,
        **stamp(),
    }]  # fmt: skip
