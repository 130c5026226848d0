"""The checks of ops: cases, their answers in float64, and error bounds.

A bound is the largest allowed distance of a correct float32 result from the float64
result. It is derived, not guessed. A sum of k products differs from the exact one by at
most 1.01 k u times the sum of the absolute products, with u = 2^-24. This holds for any
order, with or without fused multiply-adds (Higham, Accuracy and Stability of Numerical
Algorithms, 2nd ed., section 3.1; 1.01 covers the higher orders for k u < 0.01). The
bound is tight enough to detect that TF32 was left on.

A module describes the ops of one family:

    layers    conv2d, maxpool2d, relu, linear, batchnorm2d, cross_entropy, sgd
    rows      softmax, layernorm, rmsnorm
    streams   copy, polynomial, transpose, reduce, scan, compact
    orders    histogram, bincount, sort, topk, and the function argsort()
    matmul    matmul, whose Python function is in ops/products.py

Any module may describe an op `name`. NAME is its Op: the twin in PyTorch, its shapes,
and the sizes to time. name_cases(generator) yields inputs, float64 answers and bounds.
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

from ...base.lazy import find_functions

U = 2.0**-24  # half the distance from 1 to the next float32
Tensors = dict[str, torch.Tensor]
# Floats with special comparisons, the smallest floats, and a large one.
SPECIAL = [float("nan"), float("inf"), -float("inf"), -0.0, 0.0, 1e-45, -1e-45, 3e38]


@dataclass
class Answer:
    """An expected output: `want`, in float64 or integers, and its error bound.

    any_order: number of leading elements that may have any order.
    """

    want: torch.Tensor
    bound: torch.Tensor | float = 0.0
    dtype: torch.dtype = torch.float32
    any_order: int = 0


@dataclass
class Case:
    """One call of one launcher: `launch(lib, rung, pointers, stream)`.

    pointers["workspace"] is a function, unlike the other entries. Called with a number
    of bytes, it returns that much memory on the target, valid for the call and aligned
    to 256 bytes.
    """

    op: str
    title: str
    inputs: Tensors
    answers: dict[str, Answer]
    launch: Callable[[Any, int, dict[str, Any], Any], None]
    # Initial content of outputs that are not poisoned.
    initial: Tensors = field(default_factory=dict)
    # Distance, in elements, of an array's start from an aligned address.
    shift: dict[str, int] = field(default_factory=dict)
    every_order: bool = True  # whether to run all thread orders, or only one


def sum_bound(terms: int, absolute_sum: Any) -> Any:
    """Return the bound of a float32 sum of `terms` products; see the top of the file.

    absolute_sum: the sum of the absolute products, as a float64 tensor or array.
    """
    return 1.01 * (terms + 1) * U * absolute_sum + 1e-38


def random(generator, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=generator)


def absolute(*tensors: torch.Tensor | None) -> list[torch.Tensor | None]:
    return [None if t is None else t.abs() for t in tensors]


def column(vector: torch.Tensor) -> torch.Tensor:
    """Reshape (c) to (1,c,1,1), which broadcasts with images (n,c,h,w)."""
    return vector[None, :, None, None]


def autograd(function, inputs, dy):
    """Return function(*inputs), and its gradients for dy, from torch in float64."""
    inputs = [None if t is None else t.double().requires_grad_() for t in inputs]
    y = function(*inputs)
    y.backward(dy.double())
    return y.detach(), [None if t is None else t.grad for t in inputs]


__all__ = ["OPS", "Answer", "Case", "cases", "find_op", "sum_bound"]

_MODULES = find_functions(Path(__file__).parent, "_cases")
OPS = tuple(_MODULES)


def find_op(op: str) -> Any:
    """Return the Op with this name, or None for matmul, which has no Op."""
    return getattr(_import_module(op), op.upper(), None)


def _import_module(op: str) -> ModuleType:
    """Import the module that describes an op of OPS."""
    return import_module(f".{_MODULES[op]}", __package__)


def cases(
    op: str, seed: int = 0, precision: str = "fp32", wide: int = 0, rung: str = ""
) -> Iterator[Case]:
    """Yield the cases of `op`; `seed` determines their random signed inputs.

    precision: the rung's precision, which determines the inputs and bounds. wide:
    number of additional random cases; any number above 0 also adds large cases. Only
    matmul uses precision and wide. rung: the rung's name, for ops whose rungs differ in
    the order of their results.
    """
    make = getattr(_import_module(op), f"{op}_cases")
    options = {"precision": precision, "wide": wide, "rung": rung}
    names = options.keys() & inspect.signature(make).parameters.keys()
    generator = torch.Generator().manual_seed(seed)
    yield from make(generator, **{name: options[name] for name in names})
