"""Names of the language that a kernel writes wrongly, before Numba sees them."""

from __future__ import annotations

import ast
import functools
import sys
import types
from collections.abc import Container
from typing import Any

from ... import cuda
from ...base.errors import ArgumentError
from ..language import spelling
from ..language.kernel import source_of


def refuse(function: types.FunctionType, modules: Container[str]) -> None:
    """ArgumentError at cuda.threadidx, cuda.syncthread() and the like, as sim has it.

    modules: the function's names for cuda. A function without a source is let through.
    """
    try:
        source = source_of(function)
    except ArgumentError:
        return
    inner: set[ast.AST] = set()
    for node in ast.walk(source.tree):
        if node in inner or not isinstance(node, ast.Attribute):
            continue
        path, base = node.attr, node.value
        while isinstance(base, ast.Attribute):
            inner.add(base)
            path, base = f"{base.attr}.{path}", base.value
        if not isinstance(base, ast.Name) or base.id not in modules or _is_known(path):
            continue
        if spelling.find_near_name(path) or path.split(".")[0] in spelling.VECTORS:
            what, hint = spelling.explain_unknown(path)
            text = source.line(node.lineno).strip()
            raise ArgumentError(
                f"{function.__name__}, line {node.lineno}: {what} ({hint}): {text}"
            )


def explain_undefined(name: str) -> str:
    """What to say of a name that means nothing."""
    if language := spelling.without_cuda(name):
        return f"{name} is not defined: a kernel writes cuda.{language}"
    return f"{name} is not defined"


def _is_known(path: str) -> bool:
    """Whether it is in the language, or in Numba's own module."""
    return path in spelling.list_names() or any(
        _has(module, path) for module in (cuda, sys.modules.get("numba.cuda"))
    )


def _has(module: Any, path: str) -> bool:
    try:
        functools.reduce(getattr, path.split("."), module)
    except Exception:  # weft.cuda's own names say that they are for kernels
        return module is cuda and path in spelling.VECTORS
    return module is not None
