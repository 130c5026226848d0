"""Describe scan and compact: PyTorch twins, cases and sizes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
import torch.nn.functional as F

from ..op import Bench, Op
from . import Answer, Case, random, sum_bound

# ---- scan --------------------------------------------------------------------------


def scan(x, exclusive=False, reverse=False):
    """Return the running sums of x (count): y[i] = x[0] + ... + x[i].

    exclusive: leave x[i] out of y[i], so that y[0] is 0. reverse: add from the last
    number to the first. PyTorch's torch.cumsum lacks both options.
    """
    if reverse:
        return scan(x.flip(0), exclusive).flip(0)
    sums = x.cumsum(0)
    return F.pad(sums, (1, 0))[:-1] if exclusive else sums


SCAN = Op(
    scan,
    {"x": "count", "y": "count"},
    only={"dim": 0},
    bench=Bench(
        *("count", (2**16, 2**20, 2**26)),
        beside_copy=True,
        numpy={"cumsum": lambda x, exclusive, reverse: np.cumsum(x)},
    ),
)

_SCAN_COUNTS = (1, 2, 3, 31, 32, 33, 255, 256, 257, 1023, 1024, 1025, 4095, 4096, 4097)


def scan_cases(generator) -> Iterator[Case]:
    for count in (*_SCAN_COUNTS, 33_001):
        x = random(generator, count)
        for flags in range(4) if count in (1, 257, 4097) else (0,):
            for case in _make_scans(f"count={count}", x, flags & 1, flags >> 1):
                case.every_order = count <= 4097
                yield case
    large = 1e6 * random(generator, 1500)
    yield from _make_scans("large numbers cancel", torch.cat([large, -large]))
    yield from _make_scans("all equal", torch.full((5000,), 0.1))
    yield from _make_scans("denormal numbers", 2.0**-149 * torch.ones(5000))
    for case in _make_scans("shifted by 1", random(generator, 5001)):
        case.shift = {"x": 1, "dy": 1}
        yield case


def bound_scan(x: torch.Tensor, exclusive=False, reverse=False) -> torch.Tensor:
    """Return an error bound for each number of scan(x), in float64.

    Each result is a tree of additions over its own numbers: those of its tile, and the
    sums of earlier tiles. Hence no number is in more additions than the result has
    terms. The addition of a 0 is exact.
    """
    sizes = scan(x.double().abs(), exclusive, reverse)
    places = scan(torch.ones_like(sizes), exclusive, reverse)
    return sum_bound(places, sizes)


def _make_scans(title: str, x: torch.Tensor, exclusive=0, reverse=0) -> Iterator[Case]:
    """Yield a forward and a backward case whose incoming gradient is x."""
    title += ", exclusive" * exclusive + ", reverse" * reverse
    for array, result, backwards in ("x", "y", reverse), ("dy", "dx", 1 - reverse):
        want = scan(x.double(), exclusive, backwards)
        answer = Answer(want, bound_scan(x, exclusive, backwards))
        yield SCAN.case(
            *(title, {array: x}, {result: answer}), exclusive=exclusive, reverse=reverse
        )


# ---- compact -----------------------------------------------------------------------


def compact(x, threshold):
    """Return the numbers of x (count) above `threshold`, in their order, as (kept).

    NaN is not above any threshold. The result is the start of an array of `count`
    numbers and keeps the whole array in memory; clone() it to free the rest. With the
    rungs "atomic" and "ballot", the order varies between runs.
    """
    return x[x > threshold]


COMPACT = Op(
    compact,
    {"x": "count", "y": "count", "kept": "1"},
    length="kept",
    # On average, half of the random numbers are kept. `kept` adds 8 bytes.
    floor=lambda sizes: 4 * (sizes["count"] + sizes["count"] / 2) + 8,
    bench=Bench(
        *("count", (2**16, 2**20, 2**26), {"threshold": 0}),
        beside_copy=True,
        numpy={
            "index": lambda x, threshold: x[x > threshold],
            "compress": lambda x, threshold: np.compress(x > threshold, x),
        },
    ),
)

_COMPACT_COUNTS = (
    1,
    2,
    3,
    5,
    31,
    32,
    33,
    255,
    257,
    1023,
    1024,
    1025,
    4095,
    4096,
    4097,
    33000,
)
_UNORDERED = "atomic", "ballot"
_SPECIAL = [float("nan"), float("inf"), -float("inf"), -0.0, 0.0, 1e-45, -1e-45, 3e38]


def compact_cases(generator, rung="") -> Iterator[Case]:
    def make(title: str, x: torch.Tensor, threshold: float = 0.0) -> Case:
        kept, rest = x[x > threshold], random(generator, len(x))
        y = Answer(torch.cat([kept, rest[len(kept) :]]).double())
        y.any_order = len(kept) if rung in _UNORDERED else 0
        answers = {"y": y, "kept": Answer(torch.tensor([len(kept)]), 0.0, torch.int64)}
        initial = {"y": rest}
        return COMPACT.case(title, {"x": x}, answers, initial, threshold=threshold)

    for count in _COMPACT_COUNTS:
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
