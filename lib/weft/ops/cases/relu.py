"""relu in PyTorch, with the cases and sizes for its checks and timings."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F

from ..op import Bench, Op
from . import Answer, Case, random


def relu(x):
    """Return max(x, 0) for x of any shape; NaN stays NaN."""
    return F.relu(x)


OP = Op(relu, {"x": "...", "y": "..."})
BENCH = Bench("count", (2**10, 2**16, 2**22))


def cases(generator) -> Iterator[Case]:
    for count in (1, 2, 3, 31, 32, 33, 255, 257, 1009, 5000):
        x, dy = random(generator, count), random(generator, count)
        x[count // 2] = 0.0
        x[count // 3] = float("nan") if count % 2 else x[count // 3]
        y = x.relu()
        dx = torch.where(y > 0, dy, 0.0).double()
        title = f"count={count}"
        yield OP.case(title, {"x": x}, {"y": Answer(y.double())})
        yield OP.case(title, {"dy": dy, "y": y}, {"dx": Answer(dx)})
