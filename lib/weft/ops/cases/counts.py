"""Describe histogram and bincount: PyTorch twins, cases and sizes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from ..op import Bench, Op
from . import Answer, Case

# ---- histogram ---------------------------------------------------------------------

BYTE_BINS = 256  # values of a byte


def histogram(x):
    """Return how often each byte occurs in x (count), uint8, as (256), int64."""
    return torch.bincount(x, minlength=BYTE_BINS)


HISTOGRAM = Op(
    histogram,
    {"x": "count", "counts": f"{BYTE_BINS}"},
    bench=Bench(
        *("count", (2**16, 2**20, 2**26)),
        beside_copy=True,
        numpy={"bincount": lambda x: np.bincount(x, minlength=BYTE_BINS)},
        torch_waits=True,  # PyTorch copies the largest byte to the host
    ),
)

_BYTE_COUNTS = (
    1,
    2,
    15,
    16,
    17,
    31,
    32,
    33,
    63,
    64,
    65,
    255,
    256,
    257,
    4095,
    4096,
    4097,
)
_PART = 2**16  # minimum number of bytes per block
_PIECE = 2**17  # bytes per piece in the plain C rung


def histogram_cases(generator) -> Iterator[Case]:
    def draw(count: int, below: int = BYTE_BINS) -> torch.Tensor:
        shape, dtype = (count,), torch.uint8
        return torch.randint(below, shape, dtype=dtype, generator=generator)

    for count in (*_BYTE_COUNTS, 2 * _PART + 5, 2 * _PIECE + 77):
        case = _make_histogram(f"count={count}", draw(count))
        case.every_order = count < _PART
        yield case
    for value in (0, 7, 255):
        x = torch.full((5001,), value, dtype=torch.uint8)
        yield _make_histogram(f"all {value}", x)
    yield _make_histogram("each byte once", torch.arange(BYTE_BINS, dtype=torch.uint8))
    yield _make_histogram("sorted", draw(5000).sort().values)
    yield _make_histogram("reversed", draw(5000).sort(descending=True).values)
    often = draw(5000)
    often[draw(5000, 10) > 0] = 9
    yield _make_histogram("one in 90 % of all places", often)
    # The lanes of a warp have different bins, which share a bank.
    yield _make_histogram("one bank", draw(5000, 8) * 32)
    for shift in (1, 2, 4, 8, 15):
        case = _make_histogram(f"shifted by {shift}", draw(5003))
        case.shift = {"x": shift, "counts": 1}
        yield case


def _make_histogram(title: str, x: torch.Tensor) -> Case:
    counts = histogram(x)
    return HISTOGRAM.case(title, {"x": x}, {"counts": Answer(counts, 0.0, torch.int64)})


# ---- bincount ----------------------------------------------------------------------


def bincount(x, bins):
    """Return how often each number below `bins` occurs in x (count), int32, as (bins).

    The counts are int64. Numbers outside [0,bins) are ignored; PyTorch's
    torch.bincount refuses negative numbers and adds bins for large ones.
    """
    return torch.bincount(x[(x >= 0) & (x < bins)], minlength=bins)


BINCOUNT = Op(
    bincount,
    {"x": "count", "counts": "bins"},
    drawn={"x": "bins"},
    bench=Bench(
        *("count", (2**16, 2**20, 2**26), {"bins": 2**16}),
        counted={"bins": 2**10},
        beside_copy=True,
        numpy={"bincount": lambda x, bins: np.bincount(x, minlength=bins)},
        torch_waits=True,  # PyTorch copies the largest number to the host
    ),
)

_INTEGER_COUNTS = (1, 2, 31, 32, 33, 255, 257, 4095, 4096, 4097, 70_000)
_BINS = (1, 2, 33, 1024, 1025, 5000)
_RANGE = 2**13  # bins per range in the rung "partition"
_MOST = 2**21  # maximum number of bins for which "partition" uses ranges
_BOTH_ENDS = [-(2**31), -1, 0, 1, 2**31 - 1]


def bincount_cases(generator) -> Iterator[Case]:
    def draw(count: int, *limits: int) -> torch.Tensor:
        return torch.randint(*limits, (count,), dtype=torch.int32, generator=generator)

    for count in _INTEGER_COUNTS:
        for bins in _BINS if count == 4097 else (300,):
            yield _make_bincount(f"count={count} bins={bins}", draw(count, bins), bins)
    for bins in (4 * _RANGE - 1, 4 * _RANGE, 4 * _RANGE + 1, 2**17):
        case = _make_bincount(f"bins={bins}", draw(9001, bins), bins)
        case.every_order = False
        yield case
        yield _make_bincount(f"bins={bins}, outside", draw(4100, -bins, 2 * bins), bins)
    for bins in (_MOST, _MOST + 1):
        case = _make_bincount(f"bins={bins}", draw(3000, bins), bins)
        case.every_order = False
        yield case
    ends = torch.tensor(_BOTH_ENDS * 1000, dtype=torch.int32)
    for bins in (2, 4 * _RANGE):
        yield _make_bincount(f"bins={bins}, the least and the largest", ends, bins)
        equal = torch.full((5000,), bins - 1, dtype=torch.int32)
        yield _make_bincount(f"bins={bins}, all equal", equal, bins)
        yield _make_bincount(
            f"bins={bins}, sorted", draw(5000, bins).sort().values, bins
        )
    case = _make_bincount("shifted by 1", draw(5000, 4 * _RANGE), 4 * _RANGE)
    case.shift = {"x": 1, "counts": 1}
    yield case


def _make_bincount(title: str, x: torch.Tensor, bins: int) -> Case:
    counts = bincount(x, bins)
    answers = {"counts": Answer(counts, 0.0, torch.int64)}
    return BINCOUNT.case(title, {"x": x}, answers, bins=bins)
