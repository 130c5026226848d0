"""Infer the types of a function's variables from its statements."""

from __future__ import annotations

import ast
from typing import Any, NoReturn

from .. import language
from ..trees import LOOP_HINT, REFUSED, explain_idle, returns_value, split_chain
from . import arrays, calls
from .types import INT, ArrayType, ScalarType, Unknown, join, note_write
from .unit import ANY, LanguageName, Span, Unit, merge

ELEMENT = "one thread handles one element: write x[i], with i = cuda.grid(1)"
_WORDS = REFUSED | {
    ast.Raise: ("raise", "write an error code into an array, or use assert"),
    ast.JoinedStr: ("an f-string", "only print() takes one"),
    ast.NamedExpr: ("the walrus :=", "assign on a line of its own"),
    ast.Tuple: ("a tuple", "assign the values one by one"),
    ast.Slice: ("a slice", ELEMENT),
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
            unit.fail("this line does nothing", explain_idle(one.value), one)
        calls.infer_statement(walk, one.value)
    elif isinstance(one, ast.Return):
        _return(walk, one)
    elif isinstance(one, ast.Assert):
        walk.test(one.test)
    elif not isinstance(one, (ast.Pass, ast.Break, ast.Continue)):
        fail_untranslatable(unit, one)


def fail_untranslatable(unit: Unit, node: ast.AST) -> NoReturn:
    """Raise TranslationError for a piece of syntax without a counterpart in C."""
    other = type(node).__name__, "write it with plain statements"
    what, hint = _WORDS.get(type(node), other)
    unit.fail(f"{what} does not become CUDA C", hint, node)


def _assign(walk: Any, one: ast.Assign) -> None:
    unit, target = walk.unit, one.targets[0]
    if isinstance(target, ast.Name):
        unused = target.id == "_" and not isinstance(one.value, ast.Call)
        if unused or target.id in unit.extents:
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
        hint = "targets are names and elements of arrays"
        unit.fail(f"{ast.unparse(target)} cannot be assigned to", hint, target)


def assign(walk: Any, target: ast.Name, kind: Any, span: Span) -> None:
    """Record that a local receives a value of this type."""
    unit, name = walk.unit, target.id
    if name in unit.scope.loop_names:
        what = f"{name} is a loop's variable, but is also assigned elsewhere"
        unit.fail(what, "give one of them another name", target)
    old = unit.variables.get(name)
    if isinstance(kind, ArrayType):
        if isinstance(old, ArrayType) and old != kind:
            what = f"{name} refers to more than one array"
            unit.fail(what, "give each its own name", target)
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
    merged = span if old_range is None else _widen(old_range, span)
    if new != old or merged != old_range:
        walk.changed()
    unit.variables[name], unit.ranges[name] = new, merged


def _widen(old: Span, span: Span) -> Span:
    """Return a span that contains both; a bound that moved becomes 0 or unknown.

    A bound that moves once may move in each pass.
    """
    low, high = merge(old, span)
    floor = 0 if low is not None and low >= 0 else None
    return old[0] if low == old[0] else floor, old[1] if high == old[1] else None


def store(walk: Any, target: ast.Subscript) -> None:
    """Record that an element is written."""
    kind = walk.expr(target)
    base, _ = split_chain(target)
    if not isinstance(kind, ScalarType):
        walk.unit.fail("an array is assigned to", "write one element", target)
    note_write(walk, walk.unit.types[base], target)


def _walk_augmented(walk: Any, one: ast.AugAssign) -> None:
    target = one.target
    if not hasattr(one, "whole"):
        left = target
        if isinstance(target, ast.Name):
            left = ast.copy_location(ast.Name(target.id, ast.Load()), target)
        whole = ast.BinOp(left, one.op, one.value)
        one.whole = ast.copy_location(whole, one)
    kind = walk.expr(one.whole)
    if isinstance(target, ast.Name):
        assign(walk, target, kind, walk.span(one.whole))
    else:
        store(walk, target)


def _walk_for(walk: Any, one: ast.For) -> None:
    unit = walk.unit
    if one.orelse:
        unit.fail("for ... else does not become CUDA C", "use a flag", one)
    if not isinstance(one.target, ast.Name):
        unit.fail("a loop has one variable", "write for i in range(...)", one.target)
    args = calls.range_arguments(unit, one.iter)
    if args is None:
        what = f"a loop over {ast.unparse(one.iter)} does not become CUDA C"
        unit.fail(what, LOOP_HINT, one.iter)
    kinds = [walk.whole(arg, "a bound of range()") for arg in args]
    spans = [walk.span(arg) for arg in args]
    start = spans[0] if len(args) > 1 else (0, 0)
    stop = spans[1] if len(args) > 1 else spans[0]
    step = spans[2] if len(args) > 2 else (1, 1)
    span = ANY
    if step[0] is not None and step[0] >= 0:
        span = start[0], None if stop[1] is None else stop[1] - 1
    elif step[1] is not None and step[1] < 0:
        span = None if stop[0] is None else stop[0] + 1, start[1]
    if None not in span and span[0] > span[1]:
        span = span[0], span[0]  # for a loop that never runs, any span is right
    wide = next((k for k in kinds if k.bits == 64 and not k.weak), INT)
    if wide.kind == "u":
        unit.fail("range() of uint64", "write range(int64(...))", one.iter)
    name = one.target.id
    old = unit.variables.get(name), unit.ranges.get(name)
    if old[0] is not None:
        wide = join(old[0], wide) or wide
        span = _widen(old[1] or span, span)
    if old != (wide, span):
        walk.changed()
    unit.variables[name], unit.ranges[name] = wide, span
    unit.types[one.target] = wide
    walk_block(walk, one.body)


def _return(walk: Any, one: ast.Return) -> None:
    unit = walk.unit
    if not returns_value(one):
        return
    if unit.kernel:
        hint = "write the result into an array"
        unit.fail("a kernel returns nothing", hint, one.value)
    kind = walk.scalar(one.value)
    new = kind if unit.returns is None else join(unit.returns, kind)
    if new != unit.returns:
        unit.returns = new
        walk.changed()
