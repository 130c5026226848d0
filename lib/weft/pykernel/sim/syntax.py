"""What a kernel may not contain, refused at the reader's line."""

from __future__ import annotations

import ast

from ...base.errors import ArgumentError
from ..language.kernel import Source

# The refused piece of syntax: what it is called, and the way to write it.
_WAYS: dict[type[ast.AST], tuple[str, str]] = {
    ast.With: ("with", "write its steps one after another"),
    ast.AsyncWith: ("with", "write its steps one after another"),
    ast.AsyncFor: ("async", "threads wait with cuda.syncthreads()"),
    ast.Await: ("await", "threads wait with cuda.syncthreads()"),
    ast.Try: ("try", "check with an if before"),
    ast.TryStar: ("try", "check with an if before"),
    ast.ClassDef: ("class", "use arrays and numbers"),
    ast.FunctionDef: ("def inside a kernel", "define the helper outside of it"),
    ast.AsyncFunctionDef: ("async def", "define a helper with def, outside of it"),
    ast.Lambda: ("lambda", "define a helper with def, outside of it"),
    ast.Yield: ("yield", "threads wait with cuda.syncthreads()"),
    ast.YieldFrom: ("yield", "threads wait with cuda.syncthreads()"),
    ast.Global: ("global", "write to an array that is an argument"),
    ast.Nonlocal: ("nonlocal", "write to an array that is an argument"),
    ast.Delete: ("del", "leave it out: a thread's names end with it"),
    ast.ListComp: ("a list comprehension", "write a for loop"),
    ast.SetComp: ("a comprehension", "write a for loop"),
    ast.DictComp: ("a comprehension", "write a for loop"),
    ast.GeneratorExp: ("a generator expression", "write a for loop"),
    ast.List: ("a list", "use cuda.local.array(n, type)"),
    ast.Dict: ("a dict", "use an array"),
    ast.Set: ("a set", "use an array"),
    ast.Import: ("import", "import at the top of the file or cell"),
    ast.ImportFrom: ("import", "import at the top of the file or cell"),
    ast.Match: ("match", "write if and elif"),
    ast.Starred: ("*", "write the values one by one"),
}


def make_refusal(source: Source, node: ast.AST, name: str, what: str) -> ArgumentError:
    """The error for a piece of a kernel, with its line."""
    line = getattr(node, "lineno", source.first)
    text = source.line(line).strip()
    return ArgumentError(f"{name}, line {line}: {what}: {text}")


def check(source: Source, name: str, kernel: bool) -> None:
    """ArgumentError at the first thing that a kernel, or its helper, cannot have."""
    given = source.tree.args
    if given.vararg or given.kwarg or given.kwonlyargs:
        raise make_refusal(
            source, source.tree, name, "a helper's parameters are plain names; no *"
        )
    for node in _in_order(source.tree):
        if node is source.tree:
            continue
        if isinstance(node, ast.For) and isinstance(node.iter, (ast.List, ast.Set)):
            raise make_refusal(
                *(source, node, name),
                "a for loop of a kernel goes over range(...) or a tuple, no list",
            )
        if type(node) in _WAYS:
            what, way = _WAYS[type(node)]
            raise make_refusal(
                source, node, name, f"a kernel cannot have {what}; {way} instead"
            )
        if isinstance(node, ast.keyword) and node.arg is None:
            raise make_refusal(
                source, node.value, name, "a kernel cannot have **; name each argument"
            )
        if isinstance(node, ast.For) and not isinstance(node.target, ast.Name):
            raise make_refusal(
                source, node, name, "a for loop counts in one plain name: for i in ..."
            )
        if kernel and isinstance(node, ast.Return) and _is_returning(node):
            raise make_refusal(
                source,
                node,
                name,
                "a kernel returns nothing; write the result to an array",
            )


def _is_returning(node: ast.Return) -> bool:
    value = node.value
    return value is not None and not (
        isinstance(value, ast.Constant) and value.value is None
    )


def _in_order(node: ast.AST):
    yield node
    for child in ast.iter_child_nodes(node):
        # Decorators and annotations are not run by a thread.
        if isinstance(node, ast.FunctionDef) and child in [
            *node.decorator_list,
            node.args,
            node.returns,
        ]:
            continue
        yield from _in_order(child)
