"""histogram in PyTorch, with the cases and sizes for its checks and timings."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from ..op import Bench, Op
from . import Answer, Case

BINS = 256  # values of a byte


def histogram(x):
    """Return how often each byte occurs in x (count), uint8, as (256), int64."""
    return torch.bincount(x, minlength=BINS)


OP = Op(histogram, {"x": "count", "counts": f"{BINS}"})
BENCH = Bench(
    *("count", (2**16, 2**20, 2**26)),
    beside_copy=True,
    numpy={"bincount": lambda x: np.bincount(x, minlength=BINS)},
    torch_waits=True,  # for the largest byte
)

_COUNTS = (1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 255, 256, 257, 4095, 4096, 4097)
_PART = 2**16  # the least bytes of a block
_PIECE = 2**17  # bytes of a piece of plain C


def cases(generator) -> Iterator[Case]:
    def draw(count: int, below: int = BINS) -> torch.Tensor:
        shape, dtype = (count,), torch.uint8
        return torch.randint(below, shape, dtype=dtype, generator=generator)

    for count in (*_COUNTS, 2 * _PART + 5, 2 * _PIECE + 77):
        case = _make_case(f"count={count}", draw(count))
        case.every_order = count < _PART
        yield case
    for value in (0, 7, 255):
        x = torch.full((5001,), value, dtype=torch.uint8)
        yield _make_case(f"all {value}", x)
    yield _make_case("each byte once", torch.arange(BINS, dtype=torch.uint8))
    yield _make_case("sorted", draw(5000).sort().values)
    yield _make_case("reversed", draw(5000).sort(descending=True).values)
    often = draw(5000)
    often[draw(5000, 10) > 0] = 9
    yield _make_case("one in 90 % of all places", often)
    # Lanes of a warp differ, but their bins share a bank.
    yield _make_case("one bank", draw(5000, 8) * 32)
    for shift in (1, 2, 4, 8, 15):
        case = _make_case(f"shifted by {shift}", draw(5003))
        case.shift = {"x": shift, "counts": 1}
        yield case


def _make_case(title: str, x: torch.Tensor) -> Case:
    counts = histogram(x)
    return OP.case(title, {"x": x}, {"counts": Answer(counts, 0.0, torch.int64)})
