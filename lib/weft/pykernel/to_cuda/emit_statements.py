"""Write the statements that UnitWriter delegates: loops, assignments, calls, return."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from ...csource.scanner import find_close
from ..trees import list_bound
from . import calls
from .emit_calls import emit_printf
from .operators import OPERATORS
from .text import PRIMARY, SHIFT, SUM, UNARY, CExpression, cast, number
from .types import CONST, SHARED, ArrayType, ScalarType
from .unit import KnownFunction

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

    Python computes a bound once, but a loop in C computes it in every turn. A bound
    that may change during the loop is therefore stored in a constant.
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
    # Write a = a + x as a += x if C then computes the same value.
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
