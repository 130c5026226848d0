"""bincount in PyTorch, with the cases and sizes for its checks and timings."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from ..op import Bench, Op
from . import Answer, Case


def bincount(x, bins):
    """Return how often each number below `bins` occurs in x (count), int32, as (bins).

    The counts are int64. Numbers outside [0,bins) are ignored; PyTorch's
    torch.bincount refuses negative numbers and adds bins for large ones.
    """
    return torch.bincount(x[(x >= 0) & (x < bins)], minlength=bins)


OP = Op(bincount, {"x": "count", "counts": "bins"}, drawn={"x": "bins"})
BENCH = Bench(
    *("count", (2**16, 2**20, 2**26), {"bins": 2**16}),
    counted={"bins": 2**10},
    beside_copy=True,
    numpy={"bincount": lambda x, bins: np.bincount(x, minlength=bins)},
    torch_waits=True,  # for the largest number
)

_COUNTS = (1, 2, 31, 32, 33, 255, 257, 4095, 4096, 4097, 70_000)
_BINS = (1, 2, 33, 1024, 1025, 5000)
_RANGE = 2**13  # bins of a range of "partition"
_MOST = 2**21  # bins for which "partition" has ranges
_BOTH_ENDS = [-(2**31), -1, 0, 1, 2**31 - 1]


def cases(generator) -> Iterator[Case]:
    def draw(count: int, *limits: int) -> torch.Tensor:
        return torch.randint(*limits, (count,), dtype=torch.int32, generator=generator)

    for count in _COUNTS:
        for bins in _BINS if count == 4097 else (300,):
            yield _make_case(f"count={count} bins={bins}", draw(count, bins), bins)
    for bins in (4 * _RANGE - 1, 4 * _RANGE, 4 * _RANGE + 1, 2**17):
        case = _make_case(f"bins={bins}", draw(9001, bins), bins)
        case.every_order = False
        yield case
        yield _make_case(f"bins={bins}, outside", draw(4100, -bins, 2 * bins), bins)
    for bins in (_MOST, _MOST + 1):
        case = _make_case(f"bins={bins}", draw(3000, bins), bins)
        case.every_order = False
        yield case
    ends = torch.tensor(_BOTH_ENDS * 1000, dtype=torch.int32)
    for bins in (2, 4 * _RANGE):
        yield _make_case(f"bins={bins}, the least and the largest", ends, bins)
        equal = torch.full((5000,), bins - 1, dtype=torch.int32)
        yield _make_case(f"bins={bins}, all equal", equal, bins)
        yield _make_case(f"bins={bins}, sorted", draw(5000, bins).sort().values, bins)
    case = _make_case("shifted by 1", draw(5000, 4 * _RANGE), 4 * _RANGE)
    case.shift = {"x": 1, "counts": 1}
    yield case


def _make_case(title: str, x: torch.Tensor, bins: int) -> Case:
    counts = bincount(x, bins)
    answers = {"counts": Answer(counts, 0.0, torch.int64)}
    return OP.case(title, {"x": x}, answers, bins=bins)
