"""The arrays that a kernel declares: shared, local and constant arrays, and views."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np

from ..trees import with_constants
from .types import CONST, F64, LOCAL, SHARED, ArrayType, ScalarType, of_dtype
from .unit import KnownFunction, LanguageName, Unit


def declare_array(walk: Any, name: str, node: ast.AST) -> ArrayType | None:
    """Return the array that an assignment to `name` declares or aliases, or None."""
    unit = walk.unit
    if isinstance(node, ast.Name) and unit.is_array(node.id):
        kind = walk.expr(node)
        if kind.shape:
            what = f"{node.id} is an array that already has a name"
            unit.fail(what, f"write {node.id}", node)
        return kind
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
        return _slice(walk, node)
    if not isinstance(node, ast.Call):
        return None
    meaning = unit.meaning(node.func)
    if not isinstance(meaning, LanguageName):
        return None
    if meaning.path in ("shared.array", "local.array"):
        return _make_array(walk, name, meaning.path, node)
    if meaning.path == "const.array_like":
        return _constant_array(walk, name, node)
    return None


def _slice(walk: Any, node: ast.Subscript) -> ArrayType:
    kind = walk.expr(node.value)
    part = node.slice
    if not isinstance(kind, ArrayType) or kind.ndim != 1 or part.step is not None:
        hint = "only x[start:] of a 1D array becomes a pointer; write a loop"
        walk.unit.fail(f"{ast.unparse(node)} is a slice", hint, node)
    for bound in (part.lower, part.upper):
        if bound is not None:
            walk.whole(bound, "a slice's bound")
    return ArrayType(kind.dtype, 1, kind.space, (), kind.root)


def _bind_arguments(
    unit: Unit, node: ast.Call, names: tuple[str, ...]
) -> list[ast.expr]:
    """Return positional and keyword arguments in the order of `names`."""
    arguments = dict(zip(names, node.args))
    arguments |= {k.arg: k.value for k in node.keywords}
    if set(arguments) != set(names) or len(node.args) > len(names):
        name, parameters = ast.unparse(node.func), ", ".join(names)
        unit.fail(f"{name} takes {parameters}", f"write {name}({parameters})", node)
    return [arguments[name] for name in names]


def _make_array(walk: Any, name: str, path: str, node: ast.Call) -> ArrayType:
    unit = walk.unit
    shape_node, dtype_node = _bind_arguments(unit, node, ("shape", "dtype"))
    dtype = _parse_dtype(unit, dtype_node)
    shape = shape_of(unit, shape_node)
    _walk_shape(walk, shape_node)
    space = SHARED if path == "shared.array" else LOCAL
    if shape == (0,) and space == SHARED:
        return ArrayType(dtype, 1, SHARED, (), name)
    if any(side < 1 for side in shape):
        hint = "sides are at least 1; shared memory of shape 0 is dynamic"
        unit.fail(f"an array of shape {shape} is empty", hint, shape_node)
    return ArrayType(dtype, len(shape), space, shape, name)


def shape_of(unit: Unit, node: ast.AST) -> tuple[int, ...]:
    """Return the numbers of a shape in the source; refuse a shape that may vary."""
    parts = node.elts if isinstance(node, ast.Tuple) else [node]
    values = [evaluate_constant(unit, part) for part in parts]
    if len(values) == 1 and isinstance(values[0], tuple):
        values = list(values[0])
    for value in values:
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
            hint = "use numbers and globals, or dynamic shared memory: shape 0"
            unit.fail(f"the shape {ast.unparse(node)} is not constant", hint, node)
    return tuple(int(value) for value in values)


def _walk_shape(walk: Any, node: ast.AST) -> None:
    """Infer the types of the names in a shape, since the C text keeps these names."""
    for part in node.elts if isinstance(node, ast.Tuple) else [node]:
        if not isinstance(walk.unit.meaning(part), tuple):
            walk.scalar(part)


def evaluate_constant(unit: Unit, node: ast.AST) -> Any:
    """Return the value of an expression of numbers and globals; None for others."""
    names = {}
    node = with_constants(node, unit.tree)
    for one in ast.walk(node):
        if isinstance(one, ast.Call):
            return None
        if isinstance(one, ast.Name):
            if unit.is_local(one.id):
                return None
            meaning = unit.meaning(one)
            if isinstance(meaning, LanguageName):
                return 32 if ast.unparse(node).endswith("warpsize") else None
            names[one.id] = meaning
    try:
        code = compile(ast.Expression(node), "constant", "eval")
        return eval(code, {"__builtins__": {}}, names)  # the user wrote this expression
    except Exception:
        return None


def _parse_dtype(unit: Unit, node: ast.AST) -> ScalarType:
    meaning = node.value if isinstance(node, ast.Constant) else unit.meaning(node)
    kind = meaning if isinstance(meaning, ScalarType) else None
    if kind is None and isinstance(meaning, (str, np.dtype)):
        kind = of_dtype(meaning)
    if kind is None and isinstance(meaning, KnownFunction):
        kind = {"int": of_dtype("int64"), "float": F64}.get(meaning.name)
    if kind is None:
        what = f"{ast.unparse(node)} is not a type of array elements"
        unit.fail(what, "use float32, int32 ...", node)
    return kind


def _constant_array(walk: Any, name: str, node: ast.Call) -> ArrayType:
    unit = walk.unit
    value = unit.meaning(node.args[0]) if len(node.args) == 1 else None
    dtype = of_dtype(value.dtype) if isinstance(value, np.ndarray) else None
    if dtype is None or value.size == 0:
        what = "const.array_like takes one NumPy array from outside the kernel"
        unit.fail(what, "TABLE = np.array(...) above the kernel", node)
    return ArrayType(dtype, value.ndim, CONST, value.shape, name)
