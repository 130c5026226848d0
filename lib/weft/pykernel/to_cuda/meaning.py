"""What the names of a kernel mean that are none of its locals."""

from __future__ import annotations

import ast
import builtins
import math
import types
from dataclasses import dataclass
from typing import Any

import numpy as np

from ... import cuda as language
from .types import BOOL, FLOAT, INT, Scalar, of_dtype


@dataclass(frozen=True)
class Cuda:
    """A name of the language: "threadIdx.x", "shared.array", "" for cuda itself."""

    path: str


@dataclass(frozen=True)
class Function:
    """A function that has a counterpart in C: "math.sqrt", "min", ..."""

    name: str


UNKNOWN = object()

_OWN = {id(value): name for name, value in vars(language).items() if name[0] != "_"}
_FUNCTIONS = {
    value: Function(f"math.{name}")
    for name, value in vars(math).items()
    if callable(value)
}
_NUMPYS = "sqrt exp log sin cos tan tanh sinh cosh floor ceil trunc"
_BUILTINS = "abs min max round int float bool len range print divmod pow"
for _name in _NUMPYS.split():
    _FUNCTIONS[getattr(np, _name)] = Function(f"np.{_name}")
for _name in _BUILTINS.split():
    _FUNCTIONS[getattr(builtins, _name)] = Function(_name)


def find_meaning(value: Any) -> Any:
    """A value as what it means in a kernel: Cuda, Function, Scalar, or itself."""
    if isinstance(value, types.ModuleType):
        return Cuda("") if _is_cuda(value.__name__) else value
    name = _OWN.get(id(value), "")
    if name and value is getattr(language, name, None) and not isinstance(value, int):
        return Cuda(name)
    if isinstance(value, (bool, int, float, np.generic)):
        return value
    try:
        if value in _FUNCTIONS:
            return _FUNCTIONS[value]
    except TypeError:
        return value
    if isinstance(value, type) and issubclass(value, np.generic):
        return of_dtype(value) or value
    if type(value).__module__.startswith("numba.core.types"):
        return of_dtype(str(value).replace("boolean", "bool")) or value
    return value


def attribute_meaning(base: Any, name: str) -> Any:
    """What base.name means; UNKNOWN if base has no such name."""
    if isinstance(base, Cuda):
        return Cuda(f"{base.path}.{name}" if base.path else name)
    if isinstance(base, types.ModuleType) or not isinstance(base, (Function, Scalar)):
        try:
            return find_meaning(getattr(base, name))
        except AttributeError:
            pass
    return UNKNOWN


def constant_type(value: Any) -> Scalar | None:
    """The type of a global that is a number; None: it is none."""
    if isinstance(value, bool):
        return BOOL
    if isinstance(value, np.generic):
        return of_dtype(value.dtype)
    if isinstance(value, int):
        return INT
    return FLOAT if isinstance(value, float) else None


def write_dotted(node: ast.AST) -> str:
    """An expression as it would be written."""
    return ast.unparse(node)


def _is_cuda(name: str) -> bool:
    return name == "weft.cuda" or name.endswith("numba.cuda")
