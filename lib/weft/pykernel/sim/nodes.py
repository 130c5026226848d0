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


def make_constant(what: Any) -> ast.Constant:
    """A number, a text or None."""
    return ast.Constant(what)


def call(function: str, *args: ast.expr) -> ast.Call:
    """function(args)"""
    return ast.Call(load(function), list(args), [])


def add(a: ast.expr, b: ast.expr) -> ast.expr:
    """a + b"""
    return ast.BinOp(a, ast.Add(), b)


def make_product(a: ast.expr, b: ast.expr) -> ast.expr:
    """a * b"""
    return ast.BinOp(a, ast.Mult(), b)


def add_whole(a: ast.expr, b: ast.expr) -> ast.expr:
    """a + b of whole numbers, worked out as far as they are known."""
    x, y = whole_value(a), whole_value(b)
    if x is not None and y is not None:
        return make_constant(x + y)
    return b if x == 0 else a if y == 0 else add(a, b)


def multiply_whole(a: ast.expr, b: ast.expr) -> ast.expr:
    """a * b of whole numbers, worked out as far as they are known."""
    x, y = whole_value(a), whole_value(b)
    if x is not None and y is not None:
        return make_constant(x * y)
    if x == 0 or y == 0:
        return make_constant(0)
    return b if x == 1 else a if y == 1 else make_product(a, b)


def whole_value(node: ast.expr) -> int | None:
    """The whole number that a node is; None if it is none."""
    known = isinstance(node, ast.Constant) and type(node.value) is int
    return node.value if known else None


def make_or(*values: ast.expr) -> ast.expr:
    """a or b or ..."""
    return ast.BoolOp(ast.Or(), list(values))


def make_and(*values: ast.expr) -> ast.expr:
    """a and b and ..., or the value if it is one."""
    return values[0] if len(values) == 1 else ast.BoolOp(ast.And(), list(values))


def compare(a: ast.expr, operator: ast.cmpop, b: ast.expr) -> ast.expr:
    """a < b and the like."""
    return ast.Compare(a, [operator], [b])


def make_between(low: int, a: ast.expr, high: int) -> ast.expr:
    """low < a <= high"""
    return ast.Compare(
        make_constant(low), [ast.Lt(), ast.LtE()], [a, make_constant(high)]
    )


def make_walrus(name: str, what: ast.expr) -> ast.expr:
    """(name := what)"""
    return ast.NamedExpr(ast.Name(name, ast.Store()), what)


def tuple_of(values: Sequence[ast.expr]) -> ast.expr:
    """(values), or the value if it is one."""
    return values[0] if len(values) == 1 else ast.Tuple(list(values), ast.Load())


def assign(name: str, what: ast.expr) -> ast.stmt:
    """name = what"""
    return ast.Assign([ast.Name(name, ast.Store())], what)


def place_node(node: Any, place: ast.AST) -> Any:
    """`node` with the position of `place`, which its new parts get later."""
    return ast.copy_location(node, place)
