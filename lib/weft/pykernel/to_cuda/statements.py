"""Infer types of variables from a function's statements, and write the statements.

UnitWriter delegates loops, assignments, calls and return to the functions here.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any, NoReturn

from ...csource.scanner import find_close
from .. import language
from ..trees import (
    LOOP_HINT,
    REFUSED,
    explain_idle,
    list_bound,
    returns_value,
    split_chain,
)
from . import calls
from .emit_calls import emit_printf
from .operators import OPERATORS
from .text import PRIMARY, SHIFT, SUM, UNARY, CExpression, cast, number
from .types import CONST, INT, SHARED, ArrayType, ScalarType, Unknown, join, note_write
from .unit import ANY, KnownFunction, LanguageName, Span, Unit, declare_array, merge

if TYPE_CHECKING:
    from .emit import UnitWriter


def check_loops(writer: UnitWriter) -> None:
    unit = writer.unit
    for name, loops in unit.scope.loop_names.items():
        bodies = {id(loop.body) for loop in loops}
        if name in unit.parameters:
            what = f"{name} is both a parameter and a loop's variable"
            unit.fail(what, "give the loop another name", loops[0].target)
        for use in unit.scope.uses.get(name, ()):
            within = bodies & {block for block, _ in use.path}
            if not within and not use.store:
                what = f"{name} is used outside of its loop, where C does not have it"
                hint = "assign it to another name within the loop"
                unit.fail(what, hint, use.node)
        for loop in loops:
            for inner in ast.walk(ast.Module(loop.body, [])):
                if inner in loops:
                    what = f"a loop over {name} within a loop over {name}"
                    unit.fail(what, "give one of them another name", inner.target)


def write_for(writer: UnitWriter, one: ast.For) -> None:
    args = calls.range_arguments(writer.unit, one.iter)
    start, stop = (None, args[0]) if len(args) == 1 else args[:2]
    step = args[2] if len(args) == 3 else None
    type_ = writer.type_of(one.target.id)
    name = writer.output.name(writer.unit, one.target.id)
    first = writer.exprs.value(start, type_).text if start is not None else "0"
    end = _write_bound(writer, one, stop, "end", type_)
    test, turn = _write_step(writer, one, name, end, step, type_)
    head = f"for ({type_} {name} = {first}; {test}; {turn})"
    if writer.write_body(head, one.body, writer.take_header(one)):
        writer.put("}", one.end_lineno)


def _write_bound(
    writer: UnitWriter, one: ast.For, node: ast.AST, word: str, type_: str
) -> CExpression:
    """Write a bound of range().

    Python computes a bound once, but a loop in C computes it in every turn. If the
    bound may change during the loop, the code before the loop stores it in a constant.
    """
    bound = writer.exprs.signed(writer.exprs.expr(node))
    if bound.type in ("unsigned", "unsigned long long"):
        bound = cast(type_, bound)
    if not _changes_bound(writer, one, node):
        return bound
    name = f"{one.target.id}_{word}"
    while writer.unit.is_local(name):
        name += "_"
    writer.put(f"const {type_} {name} = {bound.text};")
    return CExpression(name, PRIMARY, type_)


def _changes_bound(writer: UnitWriter, one: ast.For, node: ast.AST) -> bool:
    stored = {one.target.id, *list_bound(ast.Module(one.body, []))}
    return any(_may_change(writer, part, stored) for part in ast.walk(node))


def _may_change(writer: UnitWriter, part: ast.AST, stored: set[str]) -> bool:
    """Return whether a part of a bound may change while the loop runs."""
    unit = writer.unit
    if isinstance(part, ast.Name):
        return part.id in stored
    if isinstance(part, ast.Call):
        same = [KnownFunction(name) for name in ("min", "max", "len")]
        return not calls.is_grid(unit, part) and unit.meaning(part.func) not in same
    kind = unit.types.get(part.value) if isinstance(part, ast.Subscript) else None
    if not isinstance(kind, ArrayType):
        return False
    return kind.root in unit.written or kind.space == SHARED


def _write_step(
    writer: UnitWriter, one, name: str, end: CExpression, step, type_: str
) -> tuple[str, str]:
    below, above = f"{name} < {end.within(SHIFT)}", f"{name} > {end.within(SHIFT)}"
    if step is None:
        return below, f"{name}++"
    low, high = writer.unit.spans[step]
    if (low, high) == (1, 1):
        return below, f"{name}++"
    if (low, high) == (-1, -1):
        return above, f"{name}--"
    if high is not None and high < 0:
        if isinstance(step, ast.UnaryOp):
            return above, f"{name} -= {writer.exprs.expr(step.operand).text}"
        return above, f"{name} += {_write_bound(writer, one, step, 'step', type_).text}"
    bound = writer.exprs.expr(step)
    if _changes_bound(writer, one, step):
        bound = _write_bound(writer, one, step, "step", type_)
    turn = f"{name} += {bound.text}"
    if low is not None and low >= 0:
        return below, turn
    return f"{bound.within(SHIFT)} > 0 ? {below} : {above}", turn


def is_dropped(writer: UnitWriter, one: ast.stmt) -> bool:
    """Return whether a statement has no counterpart in C."""
    unit = writer.unit
    if isinstance(one, ast.Pass):
        return True
    if isinstance(one, ast.Expr):
        return isinstance(one.value, ast.Constant)
    if isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name):
        name = one.targets[0].id
        if name in unit.extents:
            return True
        kind = unit.variables.get(name)
        if isinstance(kind, ArrayType) and kind.space == CONST:
            _add_constant_array(writer, name, kind, one.value)
            return True
        if name == "_" or isinstance(kind, ScalarType):
            effects = any(isinstance(node, ast.Call) for node in ast.walk(one.value))
            return not unit.scope.read(name) and not effects
    if isinstance(one, ast.AugAssign) and isinstance(one.target, ast.Name):
        return not unit.scope.read(one.target.id)
    return False


def write_simple(writer: UnitWriter, one: ast.stmt) -> str:
    """Write a statement that contains no others."""
    if isinstance(one, ast.Assign):
        return _write_assign(writer, one)
    if isinstance(one, ast.AugAssign):
        return _write_augmented(writer, one)
    if isinstance(one, ast.Return):
        return _write_return(writer, one)
    if isinstance(one, ast.Assert):
        writer.output.headers.add("assert.h")
        return f"assert({writer.exprs.expr(one.test).text});"
    if isinstance(one, ast.Expr):
        if writer.unit.meaning(one.value.func) == KnownFunction("print"):
            writer.output.headers.add("stdio.h")
            return f"{emit_printf(writer.exprs, one.value)};"
        return f"{writer.exprs.expr(one.value).text};"
    return "break;" if isinstance(one, ast.Break) else "continue;"


def _write_assign(writer: UnitWriter, one: ast.Assign) -> str:
    target = one.targets[0]
    if isinstance(target, ast.Subscript):
        place = writer.exprs.expr(target)
        return f"{place.text} = {writer.exprs.value(one.value, place.type).text};"
    kind = writer.unit.variables.get(target.id)
    if isinstance(kind, ArrayType):
        return _declare_array(writer, target.id, kind, one.value)
    if not writer.unit.scope.read(target.id):
        return f"{writer.exprs.expr(one.value).text};"
    type_ = writer.type_of(target.id)
    value = writer.exprs.value(one.value, type_).text
    name = writer.output.name(writer.unit, target.id)
    if one in writer.inline:
        return f"{'const ' * writer.inline[one]}{type_} {name} = {value};"
    return f"{name} = {value};"


def _declare_array(
    writer: UnitWriter, name: str, kind: ArrayType, node: ast.AST
) -> str:
    spelled = writer.output.name(writer.unit, name)
    type_ = kind.dtype.c
    if isinstance(node, (ast.Subscript, ast.Name)):
        word = "" if kind.root in writer.unit.written else "const "
        return f"{word}{type_} *{spelled} = {_write_view(writer, node)};"
    if not kind.shape:
        return f"extern __shared__ {type_} {spelled}[];"
    sides = "".join(f"[{side}]" for side in _list_sides(writer, node, kind))
    return f"{'__shared__ ' * (kind.space == SHARED)}{type_} {spelled}{sides};"


def _add_constant_array(
    writer: UnitWriter, name: str, kind: ArrayType, node: ast.Call
) -> None:
    """Declare the array of const.array_like above the functions, under its own name."""
    source = node.args[0]
    value = writer.unit.meaning(source)
    sides = "".join(f"[{side}]" for side in kind.shape)
    text = write_number(value.tolist(), kind.dtype.c)
    type_ = f"static __constant__ const {kind.dtype.c}"
    own = source.id if isinstance(source, ast.Name) else name
    writer.unit.aliases[name] = writer.output.array(
        own, value, f"{type_} {{name}}{sides} = {text};"
    )


def _list_sides(writer: UnitWriter, node: ast.Call, kind: ArrayType) -> list[str]:
    """Return the extents of a static array, with the kernel's names for them."""
    arguments = [*node.args, *(k.value for k in node.keywords if k.arg == "shape")]
    parts = arguments[0].elts if isinstance(arguments[0], ast.Tuple) else [arguments[0]]
    if len(parts) != len(kind.shape) or any(p not in writer.unit.types for p in parts):
        return [str(side) for side in kind.shape]
    return [writer.exprs.expr(part).text for part in parts]


def _write_view(writer: UnitWriter, node: ast.AST) -> str:
    if isinstance(node, ast.Name):
        return writer.exprs.expr(node).text
    base = writer.exprs.expr(node.value).text
    if node.slice.lower is None:
        return base
    return f"{base} + {writer.exprs.expr(node.slice.lower).within(SUM)}"


def _write_augmented(writer: UnitWriter, one: ast.AugAssign) -> str:
    target, op = one.target, type(one.op)
    if isinstance(target, ast.Name):
        type_ = writer.type_of(target.id)
        place = writer.output.name(writer.unit, target.id)
    else:
        element = writer.exprs.expr(target)
        place, type_ = element.text, element.type
    value = writer.exprs.value(one.whole, type_)
    # Write a += x instead of a = a + x if C then computes the same value.
    sign = OPERATORS.get(op, ("", 0))[0]
    start = f"{place} {sign} "
    left = writer.exprs.expr(one.whole.left) if type_ != "half" else None
    same = left and left.type == type_ and value.precedence < UNARY
    if not (sign and same and value.text.startswith(start) and place == left.text):
        return f"{place} = {value.text};"
    operand = value.text[len(start) :]
    if operand.startswith("(") and find_close(operand, 0) == len(operand) - 1:
        operand = operand[1:-1]
    counts = type_ not in ("float", "double", "bool")
    if operand == "1" and sign in "+-" and counts:
        return f"{place}{sign}{sign};"
    return f"{place} {sign}= {operand};"


def _write_return(writer: UnitWriter, one: ast.Return) -> str:
    kind = writer.unit.returns
    if one.value is None or kind is None:
        return "return;"
    type_ = writer.exprs.type(kind, (writer.unit, ""))
    return f"return {writer.exprs.value(one.value, type_).text};"


def write_number(value: Any, type_: str) -> str:
    """Write a number, or a nested list of numbers, as an initial value of a C type."""
    if isinstance(value, list):
        return "{" + ", ".join(write_number(one, type_) for one in value) + "}"
    if type_ in ("float", "double"):
        return number(value, type_).text
    if type_ == "bool":
        return "true" if value else "false"
    return str(int(value))


# ---- types of variables -------------------------------------------------------------


ELEMENT = "one thread handles one element: write x[i], with i = cuda.grid(1)"
_WORDS = REFUSED | {
    ast.Raise: ("raise", "write an error code into an array, or use assert"),
    ast.JoinedStr: ("an f-string", "only print() takes one"),
    ast.NamedExpr: ("the walrus :=", "assign on a line of its own"),
    ast.Tuple: ("a tuple", "assign the values one by one"),
    ast.Slice: ("a slice", ELEMENT),
}


def walk_block(walk: Any, body: list[ast.stmt]) -> None:
    """Infer the types of variables from the statements of a block."""
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
        array = declare_array(walk, target.id, one.value)
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
    """Record that a value of this type and span is assigned to a local."""
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
    """Return a span that contains both. A bound that moved becomes 0 or unknown.

    Otherwise, the bound might move in every pass, and the passes would not end.
    """
    low, high = merge(old, span)
    floor = 0 if low is not None and low >= 0 else None
    return old[0] if low == old[0] else floor, old[1] if high == old[1] else None


def store(walk: Any, target: ast.Subscript) -> None:
    """Infer the types in an assigned element, and record the write."""
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
        span = span[0], span[0]  # the loop never runs, so any span is correct
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
