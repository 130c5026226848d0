"""reduce, the sum of an array, in PyTorch, with the cases and sizes for its checks."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from ..op import Bench, Op
from . import Answer, Case, random, sum_bound


def reduce(x, blocks=0):
    """Return the sum of x, an array of any shape, as one number of shape ().

    blocks: the number of blocks of the grid; 0 chooses it. PyTorch lacks this
    parameter. It serves to show which rungs give the same bits for every grid.
    """
    return x.sum()


OP = Op(reduce, {"x": "...", "sum": ""})
BENCH = Bench("count", (2**10, 2**20, 2**26), numpy={"sum": lambda x, blocks: x.sum()})

_COUNTS = (1, 2, 3, 4, 31, 32, 33, 255, 257, 1023, 1025, 4095, 4096, 4097, 33000)


def cases(generator) -> Iterator[Case]:
    for count in _COUNTS:
        x, dsum = random(generator, count), random(generator, 1)
        title = f"count={count}"
        yield _forward_case(title, x)
        yield OP.case(
            title, {"dsum": dsum}, {"dx": Answer(dsum.double().expand(count).clone())}
        )
    yield _forward_case("large numbers cancel", _make_cancelling(generator, 3001))
    for blocks in (1, 3, 100):
        yield _forward_case(f"blocks={blocks}", random(generator, 20001), blocks)


def _forward_case(title: str, x: torch.Tensor, blocks: int = 0) -> Case:
    want, bound = x.double().sum(), sum_bound(x.numel(), x.double().abs().sum())
    answer = Answer(want.reshape(1), bound.reshape(1))
    return OP.case(title, {"x": x}, {"sum": answer}, blocks=blocks)


def _make_cancelling(generator, count: int) -> torch.Tensor:
    """Return numbers whose large parts cancel, in random order."""
    large = 1e6 * random(generator, count)
    numbers = torch.cat([large, -large, random(generator, count)])
    return numbers[torch.randperm(len(numbers), generator=generator)]
