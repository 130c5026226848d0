"""Syntax trees: the limits of a kernel's syntax, and short builders for new code.

The engine's names begin with a dot, like Python's own names in comprehensions. They
therefore cannot collide with names in the kernel.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Any

from ...base.errors import ArgumentError
from ..language import FunctionSource
from ..trees import REFUSED, returns_value


def make_refusal(
    source: FunctionSource, node: ast.AST, name: str, what: str
) -> ArgumentError:
    """Return the error about a piece of a kernel, with the piece's line."""
    line = getattr(node, "lineno", source.first)
    text = source.line(line).strip()
    return ArgumentError(f"{name}, line {line}: {what}: {text}")


def check(source: FunctionSource, name: str, kernel: bool) -> None:
    """Raise ArgumentError at the first invalid construct of a kernel or helper."""
    arguments = source.tree.args
    if arguments.vararg or arguments.kwarg or arguments.kwonlyargs:
        what = "a helper's parameters are plain names, not *"
        raise make_refusal(source, source.tree, name, what)
    for statement in source.tree.body:  # the body only: threads run no decorators
        for node in _walk_in_order(statement):
            if what := _find_problem(node, kernel):
                raise make_refusal(source, node, name, what)


def _find_problem(node: ast.AST, kernel: bool) -> str:
    """Describe the problem of a node, except problems of its parts; "" if none."""
    if isinstance(node, ast.For) and isinstance(node.iter, (ast.List, ast.Set)):
        return "a kernel's for loop runs over range(...) or a tuple, not a list"
    if type(node) in REFUSED:
        what, way = REFUSED[type(node)]
        return f"a kernel cannot have {what}; {way}"
    if isinstance(node, ast.keyword) and node.arg is None:
        return "a kernel cannot have **; name each argument"
    if isinstance(node, ast.For) and not isinstance(node.target, ast.Name):
        return "a for loop counts in one plain name: for i in ..."
    if kernel and isinstance(node, ast.Return) and returns_value(node):
        return "a kernel returns nothing; write the result to an array"
    return ""


def _walk_in_order(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _walk_in_order(child)


def load(name: str) -> ast.Name:
    """Build a read of the variable `name`."""
    return ast.Name(name, ast.Load())


def make_constant(what: Any) -> ast.Constant:
    """Build a constant: a number, a text or None."""
    return ast.Constant(what)


def call(function: str, *args: ast.expr) -> ast.Call:
    """Build function(args)."""
    return ast.Call(load(function), list(args), [])


def add(a: ast.expr, b: ast.expr) -> ast.expr:
    """Build a + b."""
    return ast.BinOp(a, ast.Add(), b)


def make_product(a: ast.expr, b: ast.expr) -> ast.expr:
    """Build a * b."""
    return ast.BinOp(a, ast.Mult(), b)


def add_whole(a: ast.expr, b: ast.expr) -> ast.expr:
    """Build a + b of integers, folding known values."""
    x, y = whole_value(a), whole_value(b)
    if x is not None and y is not None:
        return make_constant(x + y)
    return b if x == 0 else a if y == 0 else add(a, b)


def multiply_whole(a: ast.expr, b: ast.expr) -> ast.expr:
    """Build a * b of integers, folding known values."""
    x, y = whole_value(a), whole_value(b)
    if x is not None and y is not None:
        return make_constant(x * y)
    if x == 0 or y == 0:
        return make_constant(0)
    return b if x == 1 else a if y == 1 else make_product(a, b)


def whole_value(node: ast.expr) -> int | None:
    """Return the value of an integer constant; None for other nodes."""
    known = isinstance(node, ast.Constant) and type(node.value) is int
    return node.value if known else None


def make_or(*values: ast.expr) -> ast.expr:
    """Build a or b or ..."""
    return ast.BoolOp(ast.Or(), list(values))


def make_and(*values: ast.expr) -> ast.expr:
    """Build a and b and ...; return a single value unchanged."""
    return values[0] if len(values) == 1 else ast.BoolOp(ast.And(), list(values))


def compare(a: ast.expr, operator: ast.cmpop, b: ast.expr) -> ast.expr:
    """Build a comparison such as a < b."""
    return ast.Compare(a, [operator], [b])


def make_between(low: int, a: ast.expr, high: int) -> ast.expr:
    """Build low < a <= high."""
    ends = [a, make_constant(high)]
    return ast.Compare(make_constant(low), [ast.Lt(), ast.LtE()], ends)


def make_walrus(name: str, what: ast.expr) -> ast.expr:
    """Build (name := what)."""
    return ast.NamedExpr(ast.Name(name, ast.Store()), what)


def tuple_of(values: Sequence[ast.expr]) -> ast.expr:
    """Build a tuple of the values; return a single value unchanged."""
    return values[0] if len(values) == 1 else ast.Tuple(list(values), ast.Load())


def assign(name: str, what: ast.expr) -> ast.stmt:
    """Build name = what."""
    return ast.Assign([ast.Name(name, ast.Store())], what)


def place_node(node: Any, place: ast.AST) -> Any:
    """Copy the position of `place` to `node`, but not to its parts; return `node`."""
    return ast.copy_location(node, place)
