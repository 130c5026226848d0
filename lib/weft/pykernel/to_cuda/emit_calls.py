"""Write calls in C: weft.cuda, math, conversions, atomics, printf and helpers."""

from __future__ import annotations

import ast
import types as python_types
from collections.abc import Sequence
from typing import Any

from . import calls
from .text import (
    CHOICE,
    EQUAL,
    OR,
    PRIMARY,
    RELATION,
    SUM,
    CExpression,
    cast,
    join_operands,
)
from .types import FLOAT, INT, U32, ArrayType, ScalarType
from .unit import KnownFunction, LanguageName

_PRINTF = {
    **{"bool": "%d", "int": "%d", "short": "%d", "signed char": "%d"},
    **{"unsigned": "%u", "unsigned char": "%u", "unsigned short": "%u"},
    **{"long long": "%lld", "unsigned long long": "%llu"},
    **{"float": "%g", "double": "%g", "half": "%g"},
}


def emit_printf(exprs: Any, node: ast.Call) -> str:
    """Write print(...) as printf(...)."""
    words = {k.arg: k.value.value for k in node.keywords}
    parts, values = [], []
    for arg in node.args:
        pieces = arg.values if isinstance(arg, ast.JoinedStr) else [arg]
        text = ""
        for one in pieces:
            if isinstance(one, ast.Constant) and isinstance(one.value, str):
                text += _escape_text(one.value)
                continue
            value = one.value if isinstance(one, ast.FormattedValue) else one
            item = exprs.expr(value)
            text += _format(exprs, one, item)
            values.append(
                cast("float", item).text if item.type == "half" else item.text
            )
        parts.append(text)
    sep, end = _escape_text(words.get("sep", " ")), _escape_text(words.get("end", "\n"))
    line = f'"{sep.join(parts)}{end}"'
    return f"printf({', '.join([line, *values])})"


def _escape_text(text: str) -> str:
    out = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return out.replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r")


def _format(exprs: Any, node: ast.AST, value: CExpression) -> str:
    form = _PRINTF[value.type]
    spec = getattr(node, "format_spec", None)
    if spec is None:
        return form
    text = "".join(v.value for v in spec.values if isinstance(v, ast.Constant))
    digits = text.lstrip("0123456789.+-")
    if digits not in ("", "d", "f", "e", "g", "x") or len(text) == 0:
        exprs.unit.fail(f"printf has no format {text!r}", "write :.3f or :5d", node)
    width = text[: len(text) - len(digits)]
    return f"%{width}{form[1:-1]}{digits or form[-1]}"


_BITS = {
    "popc": ("__popc", "__popcll"),
    "clz": ("__clz", "__clzll"),
    "ffs": ("__ffs", "__ffsll"),
    "brev": ("__brev", "__brevll"),
}
_LEAST = ("min", "max", "nanmin", "nanmax")
_ATOMICS = {
    **{"add": "atomicAdd", "min": "atomicMin", "max": "atomicMax"},
    **{"and_": "atomicAnd", "or_": "atomicOr", "xor": "atomicXor"},
    **{"exch": "atomicExch", "inc": "atomicInc", "dec": "atomicDec"},
    **{"nanmin": "atomicMin", "nanmax": "atomicMax", "cas": "atomicCAS"},
    **{"compare_and_swap": "atomicCAS", "sub": "atomicSub"},
}


def call(exprs: Any, node: ast.Call) -> CExpression:
    """Write a call as an expression."""
    unit = exprs.unit
    meaning = unit.meaning(node.func)
    if isinstance(meaning, LanguageName):
        if calls.is_grid(unit, node):
            return exprs.grid(node, 0)
        return _emit_cuda(exprs, meaning.path, node)
    if isinstance(meaning, ScalarType):
        return _emit_conversion(exprs, meaning, node.args[0])
    if isinstance(meaning, KnownFunction):
        return _emit_function(exprs, meaning.name, node)
    assert isinstance(getattr(meaning, "py_func", meaning), python_types.FunctionType)
    return _emit_helper(exprs, node)


def _emit_conversion(exprs: Any, kind: ScalarType, arg: ast.AST) -> CExpression:
    own = exprs.kind(arg)
    if kind.kind == "b":
        return _not_zero(exprs, arg)
    if own == FLOAT and kind.whole:
        return cast(kind.c, exprs.value(arg, "double", False))
    value = exprs.expr(arg) if own.whole else exprs.value(arg, kind.c, False)
    suffix = _SUFFIXES.get(kind.c)
    digits = value.text.rstrip("ul")
    if value.literal and suffix is not None and not digits.startswith("("):
        return CExpression(digits + suffix, value.precedence, kind.c, True)
    return exprs.value(arg, kind.c, False)


_ZERO = CExpression("0", PRIMARY, "int", True)
_SUFFIXES = {"int": "", "unsigned": "u", "long long": "ll", "unsigned long long": "ull"}


def _not_zero(exprs: Any, arg: ast.AST) -> CExpression:
    value = exprs.expr(arg)
    if value.type == "bool":
        return value
    return join_operands(value, "!=", _ZERO, EQUAL, "bool")


def _emit_function(exprs: Any, name: str, node: ast.Call) -> CExpression:
    args, kind = node.args, exprs.kind(node)
    if name in ("min", "max"):
        return _emit_least(exprs, name, node)
    if name == "len":
        side = exprs.side(exprs.kind(args[0]), 0)
        return CExpression(side, PRIMARY, "int")
    if name == "pow":
        return exprs.expr(node.whole)
    if name.startswith(("math.", "np.")):
        return _emit_math(exprs, name, node)
    own = exprs.kind(args[0])
    if name == "bool":
        return _not_zero(exprs, args[0])
    if name == "float":
        return exprs.value(args[0], "double", False)
    if name == "abs":
        if own.kind == "u":
            return exprs.expr(args[0])
        if own.whole:
            wide = own.bits == 64 and not own.weak
            word, type_ = ("llabs", "long long") if wide else ("abs", "int")
            inner = exprs.signed(exprs.expr(args[0]))
            result = CExpression(f"{word}({inner.text})", PRIMARY, type_)
            return result if kind.bits >= 32 else cast(kind.c, result)
        return _emit_one_argument(exprs, "fabs", kind, args[0])
    if own.whole:  # int() and round() return an integer unchanged
        return exprs.expr(args[0])
    if name == "round":
        return cast("int", _emit_one_argument(exprs, "rint", own, args[0]))
    return cast("int", exprs.expr(args[0]))


def _emit_least(exprs: Any, name: str, node: ast.Call) -> CExpression:
    """Write Python's min() and max().

    If two values are equal or one is a NaN, they return the first value.
    """
    kind, args = exprs.kind(node), node.args
    type_ = kind.c
    result = None
    for one in args:
        value = exprs.value(one, type_, False)
        if kind.whole:
            value = exprs.signed(value) if type_ == "int" else value
            if value.enum or (value.literal and type_ != "int"):
                value = cast(type_, value)
        if result is None:
            result = value
        elif kind.whole:
            result = CExpression(f"{name}({result.text}, {value.text})", PRIMARY, type_)
            result = result if kind.bits >= 32 else cast(type_, result)
        else:
            result = _emit_chosen(exprs, name, result, value, len(args) == 2)
    return result


def _emit_chosen(
    exprs: Any, name: str, a: CExpression, b: CExpression, plain: bool
) -> CExpression:
    short = all(x.precedence == PRIMARY and "(" not in x.text for x in (a, b))
    if not (plain and short):
        word = f"{name}imum"
        exprs.output.helper(word, b.type)
        return CExpression(f"{word}({a.text}, {b.text})", PRIMARY, b.type)
    test = join_operands(b, "<" if name == "min" else ">", a, RELATION, "bool")
    text = f"{test.within(OR)} ? {b.within(CHOICE)} : {a.within(CHOICE)}"
    return CExpression(text, CHOICE, b.type)


def _emit_one_argument(
    exprs: Any, word: str, kind: ScalarType, arg: ast.AST
) -> CExpression:
    """Write a call of a function of math with one float argument."""
    type_ = "double" if kind == FLOAT or kind.whole else kind.c
    return _emit_call(exprs, word, type_, [arg])


def _emit_call(
    exprs: Any, word: str, type_: str, nodes: Sequence[ast.AST], half: str = "float"
) -> CExpression:
    """Write a call of a math function. half: argument type if `type_` is half."""
    inner = half if type_ == "half" else type_
    suffix = "" if type_ == "double" else "f"
    args = [exprs.value(node, inner, False).text for node in nodes]
    text = f"{word}{suffix}({', '.join(args)})"
    result = CExpression(text, PRIMARY, "double" if type_ == "double" else "float")
    return cast("half", result) if type_ == "half" else result


def _emit_math(exprs: Any, name: str, node: ast.Call) -> CExpression:
    base = name.split(".")[1]
    own, kind = exprs.kind(node.args[0]), exprs.kind(node)
    if base in calls.TESTS:
        text = "true" if base == "isfinite" else "false"
        if not own.whole:
            text = f"{base}({exprs.value(node.args[0], own.c, False).text})"
        return CExpression(text, PRIMARY, "bool")
    if base in calls.WHOLE:
        if own.whole and name.startswith("math."):
            return exprs.expr(node.args[0])
        inner = _emit_one_argument(exprs, base, own, node.args[0])
        return cast("int", inner) if name.startswith("math.") else inner
    word = calls.ONE.get(base) or calls.TWO[base]
    return _emit_call(exprs, word, kind.c, node.args)


def _emit_helper(exprs: Any, node: ast.Call) -> CExpression:
    unit, callee = exprs.unit, exprs.unit.calls[node]
    args = []
    for parameter, arg in zip(callee.parameters, node.args):
        kind = callee.variables[parameter]
        if isinstance(kind, ArrayType):
            args.append(exprs.expr(arg).text)
            continue
        type_ = exprs.type(kind, (callee, parameter))
        args.append(exprs.value(arg, type_).text)
    by_name = dict(zip(callee.parameters, node.args))
    for sides in callee.sides.values():
        side = sides[0]
        args.append(exprs.side(unit.types[by_name[side.array]], side.axis))
    type_ = "void"
    if callee.returns is not None:
        type_ = exprs.type(callee.returns, (callee, ""))
    text = f"{exprs.output.unit_name(callee)}({', '.join(args)})"
    return CExpression(text, PRIMARY, type_)


# ---- the language ------------------------------------------------------------


def _mask(exprs: Any, node: ast.AST) -> str:
    if isinstance(node, ast.Constant) and node.value in (0xFFFFFFFF, -1):
        return "0xffffffff"
    return exprs.operand(node, U32).text


def _write_predicate(exprs: Any, node: ast.AST) -> str:
    value = exprs.expr(node)
    if value.type in ("float", "double", "half", "long long", "unsigned long long"):
        value = join_operands(value, "!=", _ZERO, EQUAL, "bool")
    return value.text


def _emit_cuda(exprs: Any, path: str, node: ast.Call) -> CExpression:
    args = node.args
    if path in calls.FENCES:
        return CExpression(f"__{path}()", PRIMARY, "void")
    if path.startswith("syncthreads_"):
        text = f"__{path}({_write_predicate(exprs, args[0])})"
        return CExpression(text, PRIMARY, "int")
    if path == "nanosleep":
        return CExpression(f"__nanosleep({exprs.expr(args[0]).text})", PRIMARY, "void")
    if path == "syncwarp":
        mask = _mask(exprs, args[0]) if args else ""
        return CExpression(f"__syncwarp({mask})", PRIMARY, "void")
    if path in calls.SHUFFLES:
        kind = exprs.kind(args[1])
        type_ = kind.c if kind.bits >= 32 and kind.kind != "b" else "int"
        value = exprs.value(args[1], type_, False)
        lane = exprs.expr(args[2])
        text = f"__{path}({_mask(exprs, args[0])}, {value.text}, {lane.text})"
        result = CExpression(text, PRIMARY, type_)
        return result if type_ == kind.c else cast(kind.c, result)
    if path in ("all_sync", "any_sync", "ballot_sync"):
        text = f"__{path}({_mask(exprs, args[0])}, {_write_predicate(exprs, args[1])})"
        return CExpression(text, PRIMARY, "unsigned" if path[0] == "b" else "int")
    if path == "eq_sync":
        mask, value = _mask(exprs, args[0]), _write_predicate(exprs, args[1])
        text = f"__all_sync({mask}, {value}) || !__any_sync({mask}, {value})"
        return CExpression(text, OR, "bool")
    if path == "match_any_sync":
        text = f"__match_any_sync({_mask(exprs, args[0])}, {exprs.expr(args[1]).text})"
        return CExpression(text, PRIMARY, "unsigned")
    if path == "activemask":
        return CExpression("__activemask()", PRIMARY, "unsigned")
    if path == "lanemask_lt":
        exprs.output.helper("laneid")
        return CExpression("(1u << laneid()) - 1", SUM, "unsigned")
    if path in _BITS:
        return _emit_bits(exprs, path, args[0])
    if path == "fma":
        return _emit_call(exprs, "fma", exprs.kind(node).c, args, "half")
    if path == "cbrt":
        return _emit_one_argument(exprs, "cbrt", exprs.kind(node), args[0])
    if path == "selp":
        type_ = exprs.kind(node).c
        a, b = (exprs.value(x, type_, False) for x in args[1:])
        test = exprs.expr(args[0])
        text = f"{test.within(OR)} ? {a.within(CHOICE)} : {b.within(CHOICE)}"
        return CExpression(text, CHOICE, type_)
    return _emit_atomic(exprs, path[7:], node)


def _emit_bits(exprs: Any, path: str, arg: ast.AST) -> CExpression:
    kind = exprs.kind(arg)
    wide = kind.bits == 64 and not kind.weak
    value = exprs.expr(arg)
    type_ = "int" if path != "brev" else "unsigned long long" if wide else "unsigned"
    result = CExpression(f"{_BITS[path][wide]}({value.text})", PRIMARY, type_)
    return result if path != "brev" or kind in (U32, INT) else cast(kind.c, result)


def _emit_atomic(exprs: Any, name: str, node: ast.Call) -> CExpression:
    kind: ScalarType = exprs.kind(node.args[0]).dtype
    values = node.args[1:] if name == "compare_and_swap" else node.args[2:]
    place = exprs.element(node.args[0], node.index)
    address = f"&{place.text}"
    stored = kind.kind != "f"
    operands = [exprs.value(value, kind.c, stored) for value in values]
    word = _ATOMICS[name]
    if name == "sub" and (kind.kind == "f" or kind.bits == 64):
        word, operands = "atomicAdd", [exprs.negate(operands[0])]
    if name in _LEAST and kind.kind == "f":
        word = f"atomic_{name}"
        exprs.output.helper(word, kind.c)
    is_used = not getattr(node, "statement", False)
    signed_64 = kind.c == "long long" and name not in _LEAST
    if signed_64 or (kind.c == "double" and name == "exch"):
        result = _as_unsigned(word, address, operands, kind)
        return _convert_back(result, kind) if is_used else result
    text = ", ".join([address, *(g.text for g in operands)])
    return CExpression(f"{word}({text})", PRIMARY, kind.c)


def _as_unsigned(
    word: str, address: str, operands: list[CExpression], kind: ScalarType
) -> CExpression:
    """Write an atomic on the bits of another type, with unsigned long long."""
    wide = "unsigned long long"
    if kind.c == "double":
        operands = [
            CExpression(f"__double_as_longlong({g.text})", PRIMARY, "long long")
            for g in operands
        ]
    text = ", ".join([f"({wide} *){address}", *(cast(wide, g).text for g in operands)])
    return CExpression(f"{word}({text})", PRIMARY, wide)


def _convert_back(value: CExpression, kind: ScalarType) -> CExpression:
    if kind.c == "double":
        return CExpression(f"__longlong_as_double({value.text})", PRIMARY, "double")
    return cast(kind.c, value)
