"""What every op is checked with: sizes, inputs, float64 answers and bounds.

case                       one call, its answers, and how close is close enough
linear, batchnorm, layers  the ops of a network
matmul                     the ladder: layouts, epilogues, batches
"""

from collections.abc import Callable, Iterator

import torch

from .batchnorm import batchnorm2d_cases
from .case import Answer, Case, sum_bound
from .layers import cross_entropy_cases, maxpool2d_cases, relu_cases, sgd_cases
from .linear import conv2d_cases, linear_cases
from .matmul import matmul_cases

__all__ = ["OPS", "Answer", "Case", "cases", "sum_bound"]

_MAKERS: dict[str, Callable[..., Iterator[Case]]] = {
    "batchnorm2d": batchnorm2d_cases,
    "conv2d": conv2d_cases,
    "cross_entropy": cross_entropy_cases,
    "linear": linear_cases,
    "maxpool2d": maxpool2d_cases,
    "relu": relu_cases,
    "sgd": sgd_cases,
}
OPS = tuple(sorted([*_MAKERS, "matmul"]))


def cases(
    op: str, seed: int = 0, precision: str = "fp32", wide: int = 0
) -> Iterator[Case]:
    """The cases of `op` with random signed inputs from `seed`.

    precision: the rung's, which decides what it takes and how close it must come.
    wide: where there are such (matmul), so many random cases more, and large ones.
    """
    generator = torch.Generator().manual_seed(seed)
    if op == "matmul":
        yield from matmul_cases(generator, precision, wide)
    else:
        yield from _MAKERS[op](generator)
