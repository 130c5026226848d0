"""What the names of a kernel mean: parts of the language, helpers, constants."""

from __future__ import annotations

import ast
import functools
import math
import sys
import types
from collections.abc import Container
from typing import Any

import numpy as np

from ... import cuda
from ..language.kernel import value_of

UNKNOWN = object()
# Functions of these are called as they are; those of anybody else are rewritten.
_OPAQUE = {"numpy", "math", "builtins", "torch", "numba", "operator", "weft_ops"}


@functools.cache
def _list_members() -> dict[int, str]:
    """The language's own objects by identity, for `from weft.cuda import grid`."""
    return {
        id(value): name
        for name, value in vars(cuda).items()
        if not name.startswith("_")
        and getattr(value, "__module__", "") == cuda.__name__
    }


def is_language(value: Any) -> bool:
    """Whether a value is the module weft.cuda, or Numba's."""
    if not isinstance(value, types.ModuleType):
        return False
    return value is cuda or value.__name__.endswith("numba.cuda")


def path_of(
    function: types.FunctionType, node: ast.expr, local: Container[str]
) -> str | None:
    """The part of the language that an expression names: "threadIdx.x"; or None."""
    attributes: list[str] = []
    while isinstance(node, ast.Attribute):
        attributes.insert(0, node.attr)
        node = node.value
    if not isinstance(node, ast.Name) or node.id in local:
        return None
    try:
        value = value_of(function, node.id)
    except LookupError:
        return None
    while isinstance(value, types.ModuleType) and not is_language(value):
        if not attributes or not hasattr(value, attributes[0]):
            return None
        value = getattr(value, attributes.pop(0))
    if is_language(value):
        return ".".join(attributes) or "cuda"
    name = _list_members().get(id(value)) or _numba_member(value)
    return ".".join([name, *attributes]) if name else None


def _numba_member(value: Any) -> str | None:
    module = sys.modules.get("numba.cuda")
    if module is None or isinstance(value, (int, float, types.ModuleType)):
        return None
    for name in ("threadIdx", "blockIdx", "blockDim", "gridDim", "grid", "gridsize"):
        if value is vars(module).get(name, UNKNOWN):
            return name
    for name in ("shared", "local", "const", "atomic", "syncthreads", "laneid"):
        if value is vars(module).get(name, UNKNOWN):
            return name
    return None


def find_meaning(
    function: types.FunctionType, node: ast.expr, local: Container[str]
) -> Any:
    """The value of a name or a dotted name that is no local; UNKNOWN if it is one."""
    if isinstance(node, ast.Name):
        if node.id in local:
            return UNKNOWN
        try:
            return value_of(function, node.id)
        except LookupError:
            return UNKNOWN
    if isinstance(node, ast.Attribute):
        value = find_meaning(function, node.value, local)
        if isinstance(value, (types.ModuleType, type)):
            return getattr(value, node.attr, UNKNOWN)
    return UNKNOWN


def helper_of(value: Any) -> types.FunctionType | None:
    """The Python function behind a callee that the simulator runs itself."""
    value = getattr(value, "py_func", value)
    if not isinstance(value, types.FunctionType):
        return None
    root = (value.__module__ or "").partition(".")[0]
    return None if root in _OPAQUE else value


def is_foreign(value: Any) -> bool:
    """Whether a value is a function for whole arrays, or of the host: np.sum.

    NumPy's ufuncs and types work on single numbers too.
    """
    if isinstance(value, (type, np.ufunc)) or not callable(value):
        return False
    owner = getattr(value, "__self__", None)
    module = getattr(value, "__module__", None) or type(owner).__module__
    return module.partition(".")[0] in ("numpy", "torch", "random", "time")


def math_name(value: Any) -> str | None:
    """sqrt for math.sqrt; None for what is no function of math."""
    name = getattr(value, "__name__", "")
    if isinstance(name, str) and value is vars(math).get(name, UNKNOWN):
        return name if callable(value) else None
    return None


def is_number_type(value: Any) -> bool:
    """Whether a value is one of NumPy's types of numbers, as float32."""
    return isinstance(value, type) and issubclass(value, np.number)


def locals_of(tree: ast.FunctionDef) -> set[str]:
    """The names that a function binds: parameters, and all it assigns to."""
    found = {a.arg for a in [*tree.args.posonlyargs, *tree.args.args]}
    return found | {node.id for node in ast.walk(tree) if _is_binding(node)}


def _is_binding(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)


def list_rebound(tree: ast.FunctionDef) -> set[str]:
    """The names that a function may bind more than once: in a loop, or twice."""
    bound = [a.arg for a in [*tree.args.posonlyargs, *tree.args.args]]
    bound += [n.id for n in ast.walk(tree) if _is_binding(n)]
    for loop in ast.walk(tree):
        if isinstance(loop, (ast.For, ast.While)):
            bound += [n.id for n in ast.walk(loop) if _is_binding(n)]
    return {name for name in bound if bound.count(name) > 1}
