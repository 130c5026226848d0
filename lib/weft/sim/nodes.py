"""Short ways to build the syntax trees that a kernel is rewritten with.

The engine's own names begin with a dot, as Python's own of comprehensions do: no name
of the reader can be one.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any


def load(name: str) -> ast.Name:
    """A name that is read."""
    return ast.Name(name, ast.Load())


def const(value: Any) -> ast.Constant:
    """A number, a text or None."""
    return ast.Constant(value)


def call(function: str, *args: ast.expr) -> ast.Call:
    """function(args)"""
    return ast.Call(load(function), list(args), [])


def add(a: ast.expr, b: ast.expr) -> ast.expr:
    """a + b"""
    return ast.BinOp(a, ast.Add(), b)


def mul(a: ast.expr, b: ast.expr) -> ast.expr:
    """a * b"""
    return ast.BinOp(a, ast.Mult(), b)


def either(*values: ast.expr) -> ast.expr:
    """a or b or ..."""
    return ast.BoolOp(ast.Or(), list(values))


def walrus(name: str, value: ast.expr) -> ast.expr:
    """(name := value)"""
    return ast.NamedExpr(ast.Name(name, ast.Store()), value)


def tuple_of(values: Sequence[ast.expr]) -> ast.expr:
    """(values), or the value if it is one."""
    return values[0] if len(values) == 1 else ast.Tuple(list(values), ast.Load())


def assign(name: str, value: ast.expr) -> ast.stmt:
    """name = value"""
    return ast.Assign([ast.Name(name, ast.Store())], value)


def at(node: Any, place: ast.AST) -> Any:
    """`node` with the position of `place`, which its new parts get later."""
    return ast.copy_location(node, place)
