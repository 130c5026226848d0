"""The shape and type that a call of cuda.shared.array or cuda.local.array gives."""

from __future__ import annotations

import ast
import math
from types import FunctionType
from typing import Any

import numpy as np

from ..language.kernel import Source, with_constants
from . import names
from .syntax import make_refusal

MAX_LOCAL = 512 << 10  # bytes of local memory that a thread of a GPU has


def parse_declaration(
    function: FunctionType, source: Source, node: ast.Call, path: str
) -> tuple[tuple[int, ...], np.dtype]:
    """(shape, type) in such a call of a function. Raises ArgumentError at its line."""
    name = function.__name__
    given = dict(zip(("shape", "dtype"), node.args))
    given |= {k.arg: k.value for k in node.keywords if k.arg}
    if set(given) != {"shape", "dtype"}:
        raise make_refusal(source, node, name, f"cuda.{path} takes a shape and a type")
    shape = _evaluate_constant(
        function, source, given["shape"], f"the shape of cuda.{path}"
    )
    dtype = _evaluate_constant(
        function, source, given["dtype"], f"the type of cuda.{path}"
    )
    sides = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    whole = all(isinstance(s, (int, np.integer)) and s >= 0 for s in sides)
    if not whole or (0 in sides and (sides != (0,) or path == "local.array")):
        raise make_refusal(source, node, name, f"cuda.{path} has no shape {shape!r}")
    try:
        kind = np.dtype(getattr(dtype, "name", dtype))
    except TypeError:
        kind = None
    if kind is None or kind.hasobject or kind.kind not in "biufcV":
        raise make_refusal(
            source, node, name, f"cuda.{path} has no elements of type {dtype!r}"
        )
    sides = tuple(int(s) for s in sides)
    size = math.prod(sides) * kind.itemsize
    if path == "local.array" and size > MAX_LOCAL:
        raise make_refusal(
            *(source, node, name),
            f"cuda.local.array of {size} bytes: a thread has at most {MAX_LOCAL} "
            f"(512 KB)",
        )
    return sides, kind


def _evaluate_constant(
    function: FunctionType, source: Source, node: ast.expr, what: str
) -> Any:
    """The value of an expression before the launch. what: "the shape of ..."."""
    name = function.__name__
    free = zip(function.__code__.co_freevars, function.__closure__ or ())
    scope = {k: cell.cell_contents for k, cell in free}
    node = with_constants(node, source.tree)
    used = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    if unknown := used & names.locals_of(source.tree):
        raise make_refusal(
            source,
            node,
            name,
            f"{what} must be known before the launch, and {min(unknown)} is not: use "
            f"a constant (or shape 0 and the launch's fourth number)",
        )
    compiled = compile(ast.Expression(node), "<constant>", "eval")
    try:
        return eval(compiled, function.__globals__, scope)
    except Exception as error:
        raise make_refusal(source, node, name, str(error)) from None
