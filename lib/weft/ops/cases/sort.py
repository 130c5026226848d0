"""sort, keys of 32 bits in order, in PyTorch, with cases and sizes for its checks."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from ..op import Bench, Op
from ..plan import WORDS
from . import Answer, Case


def sort(x, values=None, descending=False):
    """Return the numbers x (count), int32, uint32 or float32, in ascending order.

    Equal numbers keep their order, ascending or descending. Floats have PyTorch's
    order: -0 equals 0, and every NaN is greater than infinity. values (count), of any
    type with 32 bits, is optional: with it, the result is the pair of the sorted
    numbers and of the values in their order.
    """
    if values is None and x.dtype != torch.uint32:
        return x.sort(stable=True, descending=bool(descending)).values
    order = argsort(x, descending)
    keys = take(x, order)
    return keys if values is None else (keys, take(values, order))


def argsort(x: torch.Tensor, descending: bool = False) -> torch.Tensor:
    """Return the indices, int64, that sort x stably in PyTorch."""
    wide = x.long() if x.dtype == torch.uint32 else x  # PyTorch sorts no uint32
    return wide.sort(stable=True, descending=bool(descending)).indices


def take(x: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
    """Return x[order], also for uint32."""
    return x.view(torch.int32)[order].view(x.dtype)


OP = Op(
    sort,
    {"x": "count", "values": "count", "y": "count", "sorted_values": "count"},
    extra={"sorted_values": "values"},
    words={"y": "x", "sorted_values": "values"},
    results=("y", "sorted_values"),
    # A reading to count the digits, and four passes.
    floor=lambda sizes: (4 + 4 * 8) * sizes["count"],
)
BENCH = Bench(
    *("count", (2**16, 2**20, 2**24)),
    numpy={"sort": lambda x, values, descending: np.sort(x)},
)

_PAIRS = "keys", "keys and indices", "keys and values"
_SPECIAL = [float("nan"), float("inf"), -float("inf"), -0.0, 0.0, 1e-45, -1e-45, 3e38]
_COUNTS = (1, 2, 3, 31, 32, 33, 255, 257, 511, 513, 1025, 2047, 2049, 8191, 8193)


def cases(generator) -> Iterator[Case]:
    def draw(count: int, below: int = 2**31) -> torch.Tensor:
        low = -(2**31) if below == 2**31 else 0
        return torch.randint(
            *(low, below, (count,)), generator=generator, dtype=torch.int32
        )

    def make(title: str, x: torch.Tensor, pairs: int = 0, descending=0) -> Case:
        """Return a case. pairs: 0 keys alone, 1 keys and indices, 2 keys and values."""
        values = draw(len(x)) if pairs == 2 else None
        order = argsort(x, descending)
        sorted_values = order.int() if values is None else values[order]
        answers = {"y": x.view(torch.int32)[order], "sorted_values": sorted_values}
        case = OP.case(
            f"{title}, {_PAIRS[pairs]}{', descending' * descending}",
            {"x": x.view(torch.int32), "values": values},
            {
                n: Answer(answers[n], 0.0, torch.int32)
                for n in [*answers][: 1 + (pairs > 0)]
            },
            kind=WORDS.index(x.dtype),
            descending=descending,
        )
        case.every_order = len(x) < 2000
        return case

    for i, count in enumerate((*_COUNTS, 33_000)):
        yield make(f"count={count}", draw(count), i % 3, i // 3 % 2)
    for pairs in range(3):
        yield make("count=300", draw(300), pairs)
        yield make("few keys", draw(9000, 3), pairs, 1)
    x = draw(9000)
    yield make("all equal", torch.full((9000,), 7, dtype=torch.int32), 1)
    yield make("sorted", x.sort().values, 2)
    yield make("reversed", x.sort(descending=True).values, 1)
    for descending in range(2):
        yield make("uint32", draw(1000).view(torch.uint32), 1, descending)
        floats = torch.cat(
            [torch.randn(500, generator=generator), torch.tensor(_SPECIAL * 50)]
        )
        floats[::9] = draw(len(floats))[::9].view(torch.float32)  # any bits
        yield make("floats", floats, 1, descending)
