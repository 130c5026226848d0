"""Infer the types of a function's variables from its statements."""

from __future__ import annotations

import ast
from typing import Any

from .. import language
from ..language import LOOP_HINT
from . import arrays, calls
from .types import INT, ArrayType, ScalarType, Unknown, join, note_write
from .unit import ANY, LanguageName, Span, merge

_WORDS = {
    ast.Try: ("try", "test for the error with an if"),
    ast.With: ("with", "write its lines without it"),
    ast.ClassDef: ("a class", "use plain variables"),
    ast.FunctionDef: ("a function within a function", "define it above the kernel"),
    ast.Raise: ("raise", "write an error code into an array, or use assert"),
    ast.Import: ("import", "import above the kernel"),
    ast.ImportFrom: ("import", "import above the kernel"),
    ast.Global: ("global", "pass an array to write into"),
    ast.Nonlocal: ("nonlocal", "pass an array to write into"),
    ast.Delete: ("del", "leave it out"),
    ast.Match: ("match", "write if and elif"),
}


def walk_block(walk: Any, body: list[ast.stmt]) -> None:
    """Walk the statements of a block."""
    for one in body:
        try:
            _walk_statement(walk, one)
        except Unknown as unknown:
            walk.unknown.append((walk.unit, unknown.node))


def _walk_statement(walk: Any, one: ast.stmt) -> None:
    unit = walk.unit
    if isinstance(one, ast.Assign):
        _assign(walk, one)
    elif isinstance(one, ast.AugAssign):
        _walk_augmented(walk, one)
    elif isinstance(one, ast.For):
        _walk_for(walk, one)
    elif isinstance(one, (ast.If, ast.While)):
        walk.test(one.test)
        walk_block(walk, one.body)
        if isinstance(one, ast.While) and one.orelse:
            unit.fail("while ... else does not become CUDA C", "use a flag", one)
        walk_block(walk, one.orelse)
    elif isinstance(one, ast.Expr):
        if isinstance(one.value, ast.Constant):
            return
        if not isinstance(one.value, ast.Call):
            meaning = unit.meaning(one.value)
            if isinstance(meaning, LanguageName) and meaning.path:
                unit.fail(*language.explain_unknown(meaning.path), one)
            unit.fail("this line does nothing", language.explain_idle(one.value), one)
        calls.infer_statement(walk, one.value)
    elif isinstance(one, ast.Return):
        _return(walk, one)
    elif isinstance(one, ast.Assert):
        walk.test(one.test)
    elif not isinstance(one, (ast.Pass, ast.Break, ast.Continue)):
        what, hint = _WORDS.get(
            type(one), (type(one).__name__, "write it with plain statements")
        )
        unit.fail(f"{what} does not become CUDA C", hint, one)


def _assign(walk: Any, one: ast.Assign) -> None:
    unit, target = walk.unit, one.targets[0]
    if isinstance(target, ast.Name):
        if target.id in unit.extents:
            return
        if target.id == "_" and not isinstance(one.value, ast.Call):
            return
        array = arrays.declare_array(walk, target.id, one.value)
        if array is not None:
            assign(walk, target, array, ANY)
            return
        kind = walk.expr(one.value)
        assign(walk, target, kind, walk.span(one.value))
    elif isinstance(target, ast.Subscript):
        walk.scalar(one.value)
        store(walk, target)
    else:
        unit.fail(
            f"{ast.unparse(target)} cannot be assigned to",
            "targets are names and elements of arrays",
            target,
        )


def assign(walk: Any, target: ast.Name, kind: Any, span: Span) -> None:
    """Record that a local receives a value of this type."""
    unit, name = walk.unit, target.id
    if name in unit.scope.loop_names:
        unit.fail(
            f"{name} is a loop's variable, but is also assigned elsewhere",
            "give one of them another name",
            target,
        )
    old = unit.variables.get(name)
    if isinstance(kind, ArrayType):
        if isinstance(old, ArrayType) and old != kind:
            unit.fail(
                f"{name} refers to more than one array",
                "give each its own name",
                target,
            )
        if isinstance(old, ScalarType):
            unit.fail(f"{name} is a number and an array", "use two names", target)
        if old is None:
            walk.changed()
        unit.variables[name] = kind
        return
    if isinstance(old, ArrayType):
        unit.fail(f"{name} is an array and a number", "use two names", target)
    new = kind if old is None else join(old, kind)
    if new is None:
        unit.fail(f"{name} is {old} and {kind}", "convert one of them", target)
    old_range = unit.ranges.get(name)
    merged = span if old_range is None else merge(old_range, span)
    # A bound that moves once may move in each pass, so it becomes unknown.
    if old_range is not None and merged != old_range:
        merged = (
            old_range[0] if merged[0] == old_range[0] else _widen_bound(merged[0], 0),
            old_range[1] if merged[1] == old_range[1] else None,
        )
    if new != old or merged != old_range:
        walk.changed()
    unit.variables[name], unit.ranges[name] = new, merged


def _widen_bound(low: int | None, floor: int) -> int | None:
    return floor if low is not None and low >= floor else None


def store(walk: Any, target: ast.Subscript) -> None:
    """Record that an element is written."""
    kind = walk.expr(target)
    base, _ = language.split_chain(target)
    if not isinstance(kind, ScalarType):
        walk.unit.fail("an array is assigned to", "write one element", target)
    note_write(walk, walk.unit.types[base], target)


def _walk_augmented(walk: Any, one: ast.AugAssign) -> None:
    target = one.target
    array = ast.BinOp(_load_target(target), one.op, one.value)
    ast.copy_location(array, one)
    if not hasattr(one, "whole"):
        one.whole = array
    kind = walk.expr(one.whole)
    if isinstance(target, ast.Name):
        assign(walk, target, kind, walk.span(one.whole))
    else:
        store(walk, target)


def _load_target(target: ast.expr) -> ast.expr:
    if isinstance(target, ast.Name):
        return ast.copy_location(ast.Name(target.id, ast.Load()), target)
    return target


def _walk_for(walk: Any, one: ast.For) -> None:
    unit = walk.unit
    if one.orelse:
        unit.fail("for ... else does not become CUDA C", "use a flag", one)
    if not isinstance(one.target, ast.Name):
        unit.fail("a loop has one variable", "write for i in range(...)", one.target)
    args = calls.range_arguments(unit, one.iter)
    if args is None:
        unit.fail(
            f"a loop over {ast.unparse(one.iter)} does not become CUDA C",
            LOOP_HINT,
            one.iter,
        )
    kinds = [walk.whole(arg, "a bound of range()") for arg in args]
    spans = [walk.span(arg) for arg in args]
    start = spans[0] if len(args) > 1 else (0, 0)
    stop = spans[1] if len(args) > 1 else spans[0]
    step = spans[2] if len(args) > 2 else (1, 1)
    up = step[0] is not None and step[0] >= 0
    down = step[1] is not None and step[1] < 0
    high = None if stop[1] is None else stop[1] - 1
    if up:
        span = (start[0], high)
    elif down:
        span = (None if stop[0] is None else stop[0] + 1, start[1])
    else:
        span = ANY
    if None not in span and span[0] > span[1]:
        span = span[0], span[0]  # the loop never runs, so any span is right
    wide = next((k for k in kinds if k.bits == 64 and not k.weak), INT)
    if wide.kind == "u":
        unit.fail("range() of uint64", "write range(int64(...))", one.iter)
    name = one.target.id
    old = unit.variables.get(name), unit.ranges.get(name)
    if old[0] is not None:
        wide = join(old[0], wide) or wide
        old_range = old[1] or span
        merged = merge(old_range, span)
        span = (
            old_range[0] if merged[0] == old_range[0] else _widen_bound(merged[0], 0),
            old_range[1] if merged[1] == old_range[1] else None,
        )
    if old != (wide, span):
        walk.changed()
    unit.variables[name], unit.ranges[name] = wide, span
    unit.types[one.target] = wide
    walk_block(walk, one.body)


def _return(walk: Any, one: ast.Return) -> None:
    unit = walk.unit
    if not language.returns_value(one):
        return
    if unit.kernel:
        hint = "write the result into an array"
        unit.fail("a kernel returns nothing", hint, one.value)
    kind = walk.scalar(one.value)
    new = kind if unit.returns is None else join(unit.returns, kind)
    if new != unit.returns:
        unit.returns = new
        walk.changed()
