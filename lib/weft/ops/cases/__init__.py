"""What ops are checked with: cases, their answers in float64, and bounds.

A bound says how far a correct float32 result may lie from the float64 one. It
is derived, not guessed: with u = 2^-24, a sum of k products computed in any
order and with or without fused multiply-adds differs from the exact one by at
most 1.01 k u times the same sum over absolute values (Higham, Accuracy and
Stability of Numerical Algorithms, 2nd ed., section 3.1; 1.01 covers the higher
orders for k u < 0.01). That is tight enough to catch TF32 left on.

Each op's cases file: the op in PyTorch, its shapes, and what it is checked with.

*    <op>.py has OP, BENCH (what it is timed with) and cases(generator), which yields
     inputs, float64 answers and bounds. matmul's Python function is products.py.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

U = 2.0**-24  # half the distance from 1 to the next float32
Tensors = dict[str, torch.Tensor]


@dataclass
class Answer:
    """What an output must be: float64 `want` (or integers), and how close."""

    want: torch.Tensor
    bound: torch.Tensor | float = 0.0
    dtype: torch.dtype = torch.float32


@dataclass
class Case:
    """One call of one launcher: `launch(lib, rung, pointers, stream)`.

    Beside those of the arrays, pointers["workspace"] is a function: of a number of
    bytes, it gives so much memory on the target, at a multiple of 256, for that call.
    """

    op: str
    title: str
    inputs: Tensors
    answers: dict[str, Answer]
    launch: Callable[[Any, int, dict[str, Any], Any], None]
    initial: Tensors = field(default_factory=dict)  # outputs not poisoned
    # By how many elements an array starts past an aligned address.
    shift: dict[str, int] = field(default_factory=dict)
    every_order: bool = True  # of threads; else one of them is enough


def sum_bound(terms: int, absolute_sum: Any) -> Any:
    """The bound of a float32 sum of `terms` products; see the top of the file.

    absolute_sum: the same sum over absolute values, a tensor or an array in float64.
    """
    return 1.01 * (terms + 1) * U * absolute_sum + 1e-38


def random(generator, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=generator)


def absolute(*tensors: torch.Tensor | None) -> list[torch.Tensor | None]:
    return [None if t is None else t.abs() for t in tensors]


def column(vector: torch.Tensor) -> torch.Tensor:
    """(c) as (1,c,1,1), to meet an image."""
    return vector[None, :, None, None]


def autograd(function, inputs, dy):
    """function(*inputs) and its gradients for dy, by torch in float64."""
    inputs = [None if t is None else t.double().requires_grad_() for t in inputs]
    y = function(*inputs)
    y.backward(dy.double())
    return y.detach(), [None if t is None else t.grad for t in inputs]


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
