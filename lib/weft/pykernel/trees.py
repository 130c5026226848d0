"""Syntax trees of kernels: parts of them, and the syntax that no runner translates."""

from __future__ import annotations

import ast
import copy
import itertools
from typing import Any

_LOOP = "write a for loop over range()"
_OUTSIDE = "define a helper with def, outside of it"
_WAIT = "threads wait with cuda.syncthreads()"
_ARRAY = "write to an array that is an argument"
# For each construct that no kernel may contain: its name, and a replacement.
REFUSED: dict[type[ast.AST], tuple[str, str]] = {
    **dict.fromkeys((ast.With, ast.AsyncWith), ("with", "write its lines without it")),
    **dict.fromkeys((ast.Try, ast.TryStar), ("try", "test with an if first")),
    **dict.fromkeys((ast.Yield, ast.YieldFrom), ("yield", _WAIT)),
    **dict.fromkeys(
        (ast.Import, ast.ImportFrom), ("import", "import above the kernel")
    ),
    **{ast.AsyncFor: ("async", _WAIT), ast.Await: ("await", _WAIT)},
    **{ast.Global: ("global", _ARRAY), ast.Nonlocal: ("nonlocal", _ARRAY)},
    ast.FunctionDef: ("def inside a kernel", "define the helper outside of it"),
    **{ast.AsyncFunctionDef: ("async def", _OUTSIDE), ast.Lambda: ("lambda", _OUTSIDE)},
    ast.ClassDef: ("class", "use arrays and numbers"),
    ast.Delete: ("del", "leave it out, since a thread's names end with the thread"),
    ast.ListComp: ("a list comprehension", _LOOP),
    **dict.fromkeys((ast.SetComp, ast.DictComp), ("a comprehension", _LOOP)),
    ast.GeneratorExp: ("a generator expression", _LOOP),
    ast.List: ("a list", "use cuda.local.array(shape, dtype)"),
    **{ast.Dict: ("a dict", "use an array"), ast.Set: ("a set", "use an array")},
    ast.Match: ("match", "write if and elif"),
    ast.Starred: ("a starred value", "write the values one by one"),
}


def split_chain(node: ast.expr) -> tuple[ast.expr, list[ast.expr]]:
    """Split a[i][j, k] into a and [i, j, k]."""
    parts: list[ast.expr] = []
    while isinstance(node, ast.Subscript):
        index = node.slice
        parts = (index.elts if isinstance(index, ast.Tuple) else [index]) + parts
        node = node.value
    return node, parts


def list_bound(tree: ast.AST) -> list[str]:
    """List the names that a piece of code assigns to, one entry per assignment."""
    names = (node for node in ast.walk(tree) if isinstance(node, ast.Name))
    return [name.id for name in names if not isinstance(name.ctx, ast.Load)]


def get_name(node: ast.stmt) -> str | None:
    """Return the only target of an assignment if it is a name; None otherwise."""
    if not isinstance(node, ast.Assign) or len(node.targets) != 1:
        return None
    target = node.targets[0]
    return target.id if isinstance(target, ast.Name) else None


def returns_value(node: ast.Return) -> bool:
    """Return whether a return statement returns anything but None."""
    none = isinstance(node.value, ast.Constant) and node.value.value is None
    return node.value is not None and not none


def list_written(tree: ast.FunctionDef) -> list[str]:
    """List the names of the arrays that a function writes to or updates atomically."""
    targets = []
    for node in ast.walk(tree):
        target: Any = None
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            target = node.value
        elif isinstance(node, ast.Call) and "atomic." in ast.unparse(node.func):
            target = node.args[0] if node.args else None
        target, _ = split_chain(target)  # x for x[row][col]
        if isinstance(target, ast.Name):
            targets.append(target.id)
    return targets


_OF_NUMBERS = (
    *(ast.Constant, ast.Name, ast.BinOp, ast.UnaryOp, ast.Tuple),
    *(ast.operator, ast.unaryop, ast.expr_context),
)


def with_constants(node: ast.expr, tree: ast.FunctionDef) -> ast.expr:
    """Replace local constants in an expression with their values: N is 8 after N = 8.

    A local constant is assigned once, at the top level of the function, from numbers.
    """
    bound = list_bound(tree)
    constants = {
        name: one.value
        for one in tree.body
        if (name := get_name(one)) is not None
        and bound.count(name) == 1
        and all(isinstance(part, _OF_NUMBERS) for part in ast.walk(one.value))
    }

    class Settle(ast.NodeTransformer):
        def visit_Name(self, name: ast.Name) -> ast.expr:
            # Without this pop, a name in its own value would cause endless recursion.
            value = constants.pop(name.id, None)
            if value is None:
                return name
            expanded = self.visit(copy.deepcopy(value))
            constants[name.id] = value
            return expanded

    return Settle().visit(copy.deepcopy(node))


def as_range(node: ast.expr) -> ast.expr:
    """Return range(-1, 2) for a loop over (-1, 0, 1); return other nodes unchanged.

    Only equally spaced integers are converted. Every runner supports range().
    """
    if not isinstance(node, ast.Tuple):
        return node
    try:
        values = ast.literal_eval(node)
    except ValueError:
        return node
    if not values or any(type(v) is not int for v in values):
        return node
    step = values[1] - values[0] if len(values) > 1 else 1
    if not step or any(b - a != step for a, b in itertools.pairwise(values)):
        return node
    text = f"range({values[0]}, {values[-1] + step}" + f", {step}" * (step != 1) + ")"
    loop_range = ast.parse(text, mode="eval").body
    for part in ast.walk(loop_range):
        if isinstance(part, ast.expr):
            ast.copy_location(part, node)
    return loop_range


def explain_idle(node: ast.expr) -> str:
    """Return advice for an expression on a line of its own, which does nothing."""
    if isinstance(node, ast.Compare):
        return "= assigns, == compares"
    return "assign it, or leave it out"


# Advice for a loop whose values as_range() does not convert.
LOOP_HINT = (
    "write for i in range(n), and index with i; put unequally spaced values into a "
    "cuda.const.array_like(...)"
)
