"""compact in PyTorch, with the cases and sizes for its checks and timings."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from ..op import Bench, Op
from . import Answer, Case, random


def compact(x, threshold):
    """Return the numbers of x (count) above `threshold`, in their order, as (kept).

    NaN is not above anything. The result is the start of an array of `count` numbers,
    so it holds their memory; clone() it to free the rest. The rungs "atomic" and
    "ballot" give another order in each run.
    """
    return x[x > threshold]


OP = Op(
    compact,
    {"x": "count", "y": "count", "kept": "1"},
    length="kept",
    # On average, half of the random numbers are kept. `kept` adds 8 bytes.
    floor=lambda sizes: 4 * (sizes["count"] + sizes["count"] / 2) + 8,
)
BENCH = Bench(
    *("count", (2**16, 2**20, 2**26), {"threshold": 0}),
    beside_copy=True,
    numpy={
        "index": lambda x, threshold: x[x > threshold],
        "compress": lambda x, threshold: np.compress(x > threshold, x),
    },
)

_COUNTS = (1, 2, 3, 5, 31, 32, 33, 255, 257, 1023, 1024, 1025, 4095, 4096, 4097, 33000)
_UNORDERED = "atomic", "ballot"
_SPECIAL = [float("nan"), float("inf"), -float("inf"), -0.0, 0.0, 1e-45, -1e-45, 3e38]


def cases(generator, rung="") -> Iterator[Case]:
    def make(title: str, x: torch.Tensor, threshold: float = 0.0) -> Case:
        kept, rest = x[x > threshold], random(generator, len(x))
        y = Answer(torch.cat([kept, rest[len(kept) :]]).double())
        y.any_order = len(kept) if rung in _UNORDERED else 0
        answers = {"y": y, "kept": Answer(torch.tensor([len(kept)]), 0.0, torch.int64)}
        initial = {"y": rest}
        return OP.case(title, {"x": x}, answers, initial, threshold=threshold)

    for count in _COUNTS:
        x = random(generator, count)
        yield make(f"count={count}", x)
        yield make(f"count={count}, all kept", x, -torch.inf)
        yield make(f"count={count}, none kept", x, torch.inf)
        yield make(f"count={count}, one kept", x, float(x.sort().values[-2:][0]))
    special = torch.tensor(_SPECIAL * 100)
    for threshold in (*_SPECIAL, -1.0):
        yield make(f"special numbers above {threshold}", special, threshold)
    for x_shift, y_shift in ((1, 0), (0, 1), (3, 2)):
        case = make(f"shifted by {x_shift} and {y_shift}", random(generator, 4099))
        case.shift = {"x": x_shift, "y": y_shift}
        yield case
