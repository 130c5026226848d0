"""scan, running sums, in PyTorch, with the cases and sizes for its checks."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
import torch.nn.functional as F

from ..op import Bench, Op
from . import Answer, Case, random, sum_bound


def scan(x, exclusive=False, reverse=False):
    """Return the running sums of x (count): y[i] = x[0] + ... + x[i].

    exclusive: leave x[i] out of y[i], so that y[0] is 0. reverse: add from the last
    number to the first. PyTorch's torch.cumsum has neither.
    """
    if reverse:
        return scan(x.flip(0), exclusive).flip(0)
    sums = x.cumsum(0)
    return F.pad(sums, (1, 0))[:-1] if exclusive else sums


OP = Op(scan, {"x": "count", "y": "count"}, only={"dim": 0})
BENCH = Bench(
    *("count", (2**16, 2**20, 2**26)),
    beside_copy=True,
    numpy={"cumsum": lambda x, exclusive, reverse: np.cumsum(x)},
)

_COUNTS = (1, 2, 3, 31, 32, 33, 255, 256, 257, 1023, 1024, 1025, 4095, 4096, 4097)


def cases(generator) -> Iterator[Case]:
    for count in (*_COUNTS, 33_001):
        x = random(generator, count)
        for flags in range(4) if count in (1, 257, 4097) else (0,):
            for case in _make_pair(f"count={count}", x, flags & 1, flags >> 1):
                case.every_order = count <= 4097
                yield case
    large = 1e6 * random(generator, 1500)
    yield from _make_pair("large numbers cancel", torch.cat([large, -large]))
    yield from _make_pair("all equal", torch.full((5000,), 0.1))
    yield from _make_pair("denormal numbers", 2.0**-149 * torch.ones(5000))
    for case in _make_pair("shifted by 1", random(generator, 5001)):
        case.shift = {"x": 1, "dy": 1}
        yield case


def bound_scan(x: torch.Tensor, exclusive=False, reverse=False) -> torch.Tensor:
    """Return an error bound for each number of scan(x), in float64.

    Each result is a tree of additions over its own numbers: those of its tile, and the
    sums of earlier tiles. So no number takes part in more additions than the result has
    terms. The addition of a 0 is exact.
    """
    sizes = scan(x.double().abs(), exclusive, reverse)
    places = scan(torch.ones_like(sizes), exclusive, reverse)
    return sum_bound(places, sizes)


def _make_pair(title: str, x: torch.Tensor, exclusive=0, reverse=0) -> Iterator[Case]:
    """Yield a forward and a backward case whose incoming gradient is x."""
    title += ", exclusive" * exclusive + ", reverse" * reverse
    for array, result, backwards in ("x", "y", reverse), ("dy", "dx", 1 - reverse):
        want = scan(x.double(), exclusive, backwards)
        answer = Answer(want, bound_scan(x, exclusive, backwards))
        yield OP.case(
            *(title, {array: x}, {result: answer}), exclusive=exclusive, reverse=reverse
        )
