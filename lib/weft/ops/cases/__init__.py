"""Each op's cases file: the op in PyTorch, its shapes, and what it is checked with.

*    <op>.py has OP, BENCH (what it is timed with) and cases(generator), which yields
     inputs, float64 answers and bounds. matmul's Python function is products.py.
"""

import inspect
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import torch

from ..case import Answer, Case, sum_bound

__all__ = ["OPS", "Answer", "Case", "cases", "cases_file", "sum_bound"]

OPS = tuple(sorted(path.stem for path in Path(__file__).parent.glob("[!_]*.py")))


def cases_file(op: str) -> ModuleType:
    """The module that describes an op of OPS."""
    return import_module(f".{op}", __package__)


def cases(
    op: str, seed: int = 0, precision: str = "fp32", wide: int = 0
) -> Iterator[Case]:
    """The cases of `op` with random signed inputs from `seed`.

    precision: the rung's, which decides what it takes and how close it must come.
    wide: where there are such (matmul), so many random cases more, and large ones.
    """
    make = cases_file(op).cases
    asked = {"precision": precision, "wide": wide}
    taken = asked.keys() & inspect.signature(make).parameters.keys()
    generator = torch.Generator().manual_seed(seed)
    yield from make(generator, **{name: asked[name] for name in taken})
