"""The graph of imports between weft modules, read from the sources, and the floors."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from weft.base.paths import PACKAGE

# Each folder, or module, may import those before it.
FLOORS = (
    *("base", "csource", "report", "toolchain", "timing", "cells", "programs"),
    *("cuda", "pykernel", "ops", "check", "see", "mnist", "tune", "puzzles"),
    *("benchmarks", "lessons", "commands"),
)
LAZY_IMPORTS = 40  # maximum number of imports inside functions
TOP = ("", "__main__")


class Import(NamedTuple):
    """An import of one weft module by another; names are relative to weft."""

    where: str  # the place, such as "cells/module.py:15"
    source: str
    target: str
    lazy: bool  # whether it is inside a function
    reason: bool  # whether a comment explains it


@cache
def modules() -> dict[str, Path]:
    """Map the name of each weft module, relative to weft, to its file."""
    names = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        names[".".join(parts).removesuffix("__init__").rstrip(".")] = path
    return names


@cache
def imports() -> tuple[Import, ...]:
    """List every import of a weft module by another."""
    return tuple(link for name in modules() for link in _imports_of(name))


def _imports_of(name: str) -> Iterator[Import]:
    path = modules()[name]
    text = path.read_text()
    lines = text.splitlines()
    for node, lazy in _visit(ast.parse(text), False):
        if isinstance(node, ast.Import):
            targets = [a.name for a in node.names if a.name.split(".")[0] == "weft"]
            targets = [target.partition(".")[2] for target in targets]
        else:
            targets = _targets(name, path, node)
        reason = _has_reason(lines, node)
        where = f"{path.relative_to(PACKAGE)}:{node.lineno}"
        for target in dict.fromkeys(targets):
            yield Import(where, name, target, lazy, reason)


def _has_reason(lines: list[str], node: ast.stmt) -> bool:
    """Return whether a comment explains the import or its group of imports."""
    first = node.lineno - 1
    while lines[first - 1].lstrip().startswith(("from ", "import ")):
        first -= 1
    return any("#" in line for line in lines[first - 1 : node.end_lineno])


def _targets(name: str, path: Path, node: ast.ImportFrom) -> list[str]:
    if node.level:
        package = name.split(".") if name else []
        up = node.level - (path.name == "__init__.py")
        base = [*package[: len(package) - up], *(node.module or "").split(".")]
    elif (node.module or "").split(".")[0] == "weft":
        base = (node.module or "").split(".")[1:]
    else:
        return []
    stem = ".".join(part for part in base if part)
    inner = [f"{stem}.{alias.name}".lstrip(".") for alias in node.names]
    return [name if name in modules() else stem for name in inner]


def _visit(node: ast.AST, lazy: bool) -> Iterator[tuple[ast.AST, bool]]:
    """Yield each import below a node, and whether it is inside a function."""
    for child in ast.iter_child_nodes(node):
        function = isinstance(
            child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
        )
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child, lazy
        yield from _visit(child, lazy or function)


def floor_of(module: str) -> str:
    """Return the folder, or top-level module, that contains a module."""
    return module.split(".")[0]
