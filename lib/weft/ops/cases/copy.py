"""copy in PyTorch, with the cases and sizes for its checks and timings."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from ..op import Bench, Op
from . import Answer, Case, random


def copy(x):
    """Return a copy of x, an array of any shape, with the same bits."""
    return x.clone(memory_format=torch.contiguous_format)


OP = Op(copy, {"x": "...", "y": "..."})
BENCH = Bench("count", (2**10, 2**20, 2**26), numpy={"copy": np.copy})

_COUNTS = (1, 2, 3, 4, 5, 31, 32, 33, 255, 257, 1023, 1024, 1025, 4095, 4097, 12289)
# Distances of x and of y from an address that is a multiple of 16, in floats.
_SHIFTS = ((1, 1), (2, 2), (3, 3), (0, 1), (3, 2))


def cases(generator) -> Iterator[Case]:
    for count in _COUNTS:
        yield _forward_case(generator, count)
        dy = random(generator, count)
        yield OP.case(f"count={count}", {"dy": dy}, {"dx": Answer(dy.double())})
    for count in (1, 4, 4099):
        for shifts in _SHIFTS:
            yield _forward_case(generator, count, *shifts)


def _forward_case(generator, count: int, from_: int = 0, to: int = 0) -> Case:
    x = random(generator, count)
    title = f"count={count}" + f", shifted by {from_} and {to}" * bool(from_ or to)
    case = OP.case(title, {"x": x}, {"y": Answer(x.double())})
    case.shift = {"x": from_, "y": to}
    return case
