"""Infer the types and value ranges of a function's expressions.

TypeWalk passes over the source in order, until nothing changes. A variable has one
type, which can represent all its values. A span is the smallest and the largest value,
if the source implies them. Thread indices, sizes, loop variables that begin at 0 or
above, and sums and products of these are never negative. Their `//` and `%` become C's
/ and %.
"""

from __future__ import annotations

import ast
import itertools
from typing import Any, NoReturn

import numpy as np

from .. import language
from ..trees import split_chain
from . import calls
from .statements import ELEMENT, fail_untranslatable, walk_block
from .types import BOOL, F64, FLOAT, INT, ArrayType, ScalarType, Unknown, join, promote
from .unit import (
    ANY,
    UNKNOWN,
    KnownFunction,
    LanguageName,
    Span,
    TranslatedUnits,
    Unit,
    constant_type,
    merge,
)


def negate_bound(bound: int | None) -> int | None:
    return None if bound is None else -bound


def is_known(span: Span) -> bool:
    return span[0] is not None and span[0] >= 0


def _fit_span(*ends: int | None) -> Span:
    low, high = (None if end is None or abs(end) > 2**63 else end for end in ends)
    return low, high


def _add(a: Span, b: Span) -> Span:
    low = None if None in (a[0], b[0]) else a[0] + b[0]
    high = None if None in (a[1], b[1]) else a[1] + b[1]
    return _fit_span(low, high)


def _multiply_spans(a: Span, b: Span) -> Span:
    if is_known(a) and is_known(b):
        high = None if None in (a[1], b[1]) else a[1] * b[1]
        return _fit_span(a[0] * b[0], high)
    if None in (*a, *b):
        return ANY
    ends = [x * y for x in a for y in b]
    return _fit_span(min(ends), max(ends))


def _divide_spans(a: Span, b: Span) -> Span:
    if is_known(a) and is_known(b):
        low = 0 if b[1] is None else a[0] // max(b[1], 1)
        return low, None if a[1] is None else a[1] // max(b[0], 1)
    return ANY


def _and_spans(a: Span, b: Span) -> Span:
    known = [s for s in (a, b) if is_known(s)]
    highs = [s[1] for s in known if s[1] is not None]
    return (0, min(highs, default=None)) if known else ANY


def _or_spans(a: Span, b: Span) -> Span:
    return (0, None) if is_known(a) and is_known(b) else ANY


def _shift_left_spans(a: Span, b: Span) -> Span:
    if not is_known(a):
        return ANY
    if None in (a[1], b[1]) or not 0 <= b[1] <= 62:
        return a[0], None
    return _fit_span(a[0], a[1] << b[1])


SPANS = {
    ast.Add: _add,
    ast.Sub: lambda a, b: _add(a, (negate_bound(b[1]), negate_bound(b[0]))),
    ast.Mult: _multiply_spans,
    ast.Div: lambda a, b: ANY,
    ast.FloorDiv: _divide_spans,
    ast.Mod: lambda a, b: (0, _add(b, (-1, -1))[1]) if is_known(b) else ANY,
    ast.Pow: lambda a, b: (0, None) if is_known(a) else ANY,
    **{ast.BitAnd: _and_spans, ast.BitOr: _or_spans, ast.BitXor: _or_spans},
    ast.LShift: _shift_left_spans,
    ast.RShift: lambda a, b: (0, a[1]) if is_known(a) else ANY,
}


def infer(program: TranslatedUnits) -> None:
    """Infer the types of every unit; raise TranslationError if one remains unknown."""
    for _ in range(100):
        program.changed = False
        unknown: list[tuple[Unit, ast.AST]] = []
        for unit in list(program.units):
            TypeWalk(unit, unknown).function()
        if not program.changed:
            break
    for unit, node in unknown:
        hint = "assign it a value first, so that its type is known"
        unit.fail(f"{ast.unparse(node)} is read before it has a value", hint, node)


class TypeWalk:
    """One pass over a unit to infer its types."""

    def __init__(self, unit: Unit, unknown: list) -> None:
        self.unit, self.unknown = unit, unknown
        self.program, self.fail = unit.program, unit.fail

    def function(self) -> None:
        """Walk the body of the function."""
        walk_block(self, self.unit.tree.body)

    def changed(self) -> None:
        """Record that another pass is needed."""
        self.program.changed = True

    # ---- expressions ----

    def scalar(self, node: ast.AST) -> ScalarType:
        """Return the type of an expression that must be a number."""
        kind = self.expr(node)
        if not isinstance(kind, ScalarType):
            self.fail(f"{ast.unparse(node)} is an array, not a number", ELEMENT, node)
        return kind

    def whole(self, node: ast.AST, what: str) -> ScalarType:
        """Return the type of an expression that must be an integer."""
        kind = self.scalar(node)
        if not kind.whole:
            hint = "/ gives a float: write //, or int(...)"
            self.fail(f"{what} is the {kind} {ast.unparse(node)}", hint, node)
        return kind

    def expr(self, node: ast.AST) -> Any:
        """Return the type of an expression; record the type and the span."""
        method = getattr(self, f"_{type(node).__name__}", None)
        if method is None:
            fail_untranslatable(self.unit, node)
        self.unit.types[node], self.unit.spans[node] = method(node)
        return self.unit.types[node]

    def span(self, node: ast.AST) -> Span:
        """Return the span of an expression whose type has been inferred."""
        return self.unit.spans[node]

    def _Constant(self, node: ast.Constant):
        value = node.value
        if isinstance(value, (bool, int, float)):
            return self._value(value, node)
        if isinstance(value, str):
            self.fail("a string does not become CUDA C", "only print() takes one", node)
        self.fail(f"{value!r} does not become CUDA C", "use a number", node)

    def _value(self, value: Any, node: ast.AST):
        kind = constant_type(value)
        if kind is None:
            name = ast.unparse(node)
            what = f"{name} is of type {type(value).__name__}"
            self.fail(what, _global_hint(value, name), node)
        return kind, (int(value),) * 2 if kind.whole else ANY

    def _Name(self, node: ast.Name):
        unit = self.unit
        if node.id in unit.extents:
            return INT, (0, None)
        if unit.is_local(node.id):
            if node.id not in unit.variables:
                raise Unknown(node)
            return unit.variables[node.id], unit.ranges.get(node.id, ANY)
        return self._global(node)

    def _global(self, node: ast.AST):
        meaning = self.unit.meaning(node)
        if isinstance(meaning, LanguageName):
            if attribute := calls.type_attribute(meaning.path):
                return attribute
            if meaning.path:
                self.fail(*language.explain_unknown(meaning.path), node)
            self.fail("cuda is not a value", language.LISTED, node)
        if isinstance(meaning, (KnownFunction, ScalarType)):
            self.fail(f"{ast.unparse(node)} is a function", "call it", node)
        return self._value(meaning, node)

    def _Attribute(self, node: ast.Attribute):
        if self.unit.meaning(node) is not UNKNOWN:
            return self._global(node)
        if self.unit.side(node):
            return INT, (0, None)
        base = self.expr(node.value)
        if isinstance(base, ArrayType) and node.attr in ("size", "ndim"):
            return INT, (0, None)
        if isinstance(base, ScalarType) and node.attr in ("shape", "size", "ndim"):
            self._no_shape(node)
        hint = "arrays have shape, size and ndim here"
        if isinstance(base, ArrayType) and node.attr == "shape":
            hint = f"write {ast.unparse(node)}[0], or unpack it: m, n = x.shape"
        self.fail(f".{node.attr} does not become CUDA C", hint, node)

    def _Subscript(self, node: ast.Subscript):
        if calls.is_grid(self.unit, node.value):
            return calls.grid_part(self, node)
        if self.unit.side(node):
            return INT, (0, None)
        if isinstance(node.value, ast.Attribute) and node.value.attr == "shape":
            return self._static_side(node)
        meaning = self.unit.meaning(node.value)
        if isinstance(meaning, tuple):
            return self._value(self.constant_index(meaning, node), node)
        base, indices = split_chain(node)
        kind = self.expr(base)
        if not isinstance(kind, ArrayType):
            what = f"{ast.unparse(base)} is a number, not an array"
            self.fail(what, "only arrays have elements", node)
        self.indices(kind, indices, node)
        return kind.dtype, {"b": (0, 1), "u": (0, None)}.get(kind.dtype.kind, ANY)

    def constant_index(self, values: tuple, node: ast.Subscript) -> Any:
        """Return the element of a global tuple."""
        index = getattr(node.slice, "value", None)
        if isinstance(index, int) and -len(values) <= index < len(values):
            return values[index]
        hint = (
            "write a number as its index, or use cuda.const.array_like(np.array(...))"
        )
        self.fail(f"{ast.unparse(node)} does not become CUDA C", hint, node)

    def _static_side(self, node: ast.Subscript):
        kind = self.expr(node.value.value)
        if not isinstance(kind, ArrayType):
            self._no_shape(node.value)
        index, shape = getattr(node.slice, "value", None), kind.shape
        if isinstance(index, int) and -len(shape) <= index < len(shape):
            return INT, (shape[index],) * 2
        hint = "pass the size as an argument, or unpack the shape: m, n = x.shape"
        self.fail(f"{ast.unparse(node)} is not known in C", hint, node)

    def _no_shape(self, node: ast.Attribute) -> NoReturn:
        name, hint = ast.unparse(node.value), "look at the order of the arguments"
        self.fail(
            f"{name} is a number, not an array: it has no {node.attr}", hint, node
        )

    def indices(self, kind: ArrayType, indices: list[ast.expr], node: ast.AST) -> None:
        """Infer the types of an element's indices; raise an error for invalid ones."""
        for one in indices:
            if isinstance(one, ast.Slice):
                self.fail(f"{ast.unparse(node)} is a slice", ELEMENT, one)
            self.whole(one, "an index")
            high = self.span(one)[1]
            if high is not None and high < 0:
                what = f"{ast.unparse(node)}: C does not count from the end"
                self.fail(what, "write the index in full: x[n - 1]", one)
        if len(indices) != kind.ndim:
            have = f"{ast.unparse(node)} has {len(indices)} indices"
            what = f"{have}, but its array has {kind.ndim} dimensions"
            self.fail(what, "give one index for each dimension", node)

    def _BinOp(self, node: ast.BinOp):
        a, b = self.scalar(node.left), self.scalar(node.right)
        op = type(node.op)
        if op is ast.MatMult:
            hint = "write the loop over the products"
            self.fail("@ does not become CUDA C", hint, node)
        if op in (ast.BitAnd, ast.BitOr, ast.BitXor, ast.LShift, ast.RShift):
            for side in (node.left, node.right):
                self.whole(side, f"an operand of {_SIGNS[op]}")
            if a.kind == b.kind == "b" and op not in (ast.LShift, ast.RShift):
                return BOOL, (0, 1)
        span = SPANS[op](self.span(node.left), self.span(node.right))
        if op is ast.Div and a.whole and b.whole:
            return (FLOAT if a.weak and b.weak else F64), ANY
        kind = self._promote(a, b, node)
        if op is ast.Pow and kind.whole and not is_known(self.span(node.right)):
            what = "a whole number ** one that may be negative has no fixed type"
            self.fail(what, "write float(...) ** ..., or a loop", node)
        if kind.kind == "u":
            span = (max(span[0] or 0, 0), span[1])
        return kind, (span if kind.whole else ANY)

    def _promote(self, a: ScalarType, b: ScalarType, node: ast.AST) -> ScalarType:
        """Return the common type of two operands."""
        kind = promote(a, b)
        if kind is None:
            what = "int64 and uint64 have no common integer type"
            self.fail(what, "convert one of them: int64(...)", node)
        return kind

    def _UnaryOp(self, node: ast.UnaryOp):
        kind = self.scalar(node.operand)
        low, high = self.span(node.operand)
        if isinstance(node.op, ast.Not):
            return BOOL, (0, 1)
        if isinstance(node.op, ast.Invert):
            self.whole(node.operand, "the operand of ~")
            if kind == BOOL:
                self.fail("~ of a bool is a whole number", "write not", node)
            return kind, {"b": (0, 1), "u": (0, None)}.get(kind.kind, ANY)
        kind = INT if kind.kind == "b" else kind
        if isinstance(node.op, ast.UAdd):
            return kind, (low, high)
        if kind.kind == "u":
            return kind, (0, None)
        return kind, (negate_bound(high), negate_bound(low)) if kind.whole else ANY

    def _Compare(self, node: ast.Compare):
        kinds = [self.scalar(one) for one in (node.left, *node.comparators)]
        for op in node.ops:
            if isinstance(op, (ast.In, ast.NotIn, ast.Is, ast.IsNot)):
                hint = "compare with == and or"
                self.fail("in and is do not become CUDA C", hint, node)
        for a, b in itertools.pairwise(kinds):
            self._promote(a, b, node)
        return BOOL, (0, 1)

    def _BoolOp(self, node: ast.BoolOp):
        kinds = [self.scalar(one) for one in node.values]
        if getattr(node, "tested", False) or all(k.kind == "b" for k in kinds):
            return BOOL, (0, 1)
        what = "and/or of numbers gives one of them in Python, but true or false in C"
        self.fail(what, "write a if a != 0 else b, or compare", node)

    def _IfExp(self, node: ast.IfExp):
        self.test(node.test)
        a, b = self.scalar(node.body), self.scalar(node.orelse)
        kind = join(a, b)
        if kind is None:
            self.fail(f"one side is {a} but the other {b}", "convert one", node)
        return kind, merge(self.span(node.body), self.span(node.orelse))

    def test(self, node: ast.AST) -> None:
        """Infer the types in a condition, where and/or may combine numbers."""
        todo = [node]
        while todo:
            one = todo.pop()
            if isinstance(one, ast.BoolOp):
                one.tested = True
                todo += one.values
            elif isinstance(one, ast.UnaryOp) and isinstance(one.op, ast.Not):
                todo.append(one.operand)
        self.scalar(node)

    def _Call(self, node: ast.Call):
        return calls.infer(self, node)


_SIGNS = {
    **{ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^"},
    **{ast.LShift: "<<", ast.RShift: ">>"},
}


def _global_hint(value: Any, name: str) -> str:
    if isinstance(value, np.ndarray):
        return f"pass {name} as an argument, or write cuda.const.array_like({name})"
    if isinstance(value, (list, dict, set)):
        return "pass a NumPy array as an argument"
    return "globals of a kernel are numbers, tuples of numbers and functions"
