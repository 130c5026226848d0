"""Infer the types and value ranges of a function's expressions.

The source is walked in order until nothing changes. A variable has one type, which
joins the types of all its values. A span is the least and the largest value, if the
source shows them. Thread indices, sizes, loop variables from 0 on, and sums and
products of these are never negative. `//` and `%` of them become C's / and %.
"""

from __future__ import annotations

import ast
import itertools
from typing import Any, NoReturn

import numpy as np

from .. import language
from . import calls
from .statements import walk_block
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


def _fit_span(low: int | None, high: int | None) -> Span:
    big = 2**63
    return (
        None if low is None or abs(low) > big else low,
        None if high is None or abs(high) > big else high,
    )


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


def _modulo_spans(a: Span, b: Span) -> Span:
    return (0, None if b[1] is None else b[1] - 1) if is_known(b) else ANY


def _and_spans(a: Span, b: Span) -> Span:
    if not (is_known(a) or is_known(b)):
        return ANY
    highs = [s[1] for s in (a, b) if is_known(s) and s[1] is not None]
    return 0, min(highs, default=None)


def _or_spans(a: Span, b: Span) -> Span:
    return (0, None) if is_known(a) and is_known(b) else ANY


def _shift_left_spans(a: Span, b: Span) -> Span:
    if not is_known(a):
        return ANY
    if None in (a[1], b[1]) or not 0 <= b[1] <= 62:
        return a[0], None
    return _fit_span(a[0], a[1] << b[1])


def _shift_right_spans(a: Span, b: Span) -> Span:
    return (0, a[1]) if is_known(a) else ANY


SPANS = {
    ast.Add: _add,
    ast.Sub: lambda a, b: _add(a, (negate_bound(b[1]), negate_bound(b[0]))),
    ast.Mult: _multiply_spans,
    ast.Div: lambda a, b: ANY,
    ast.FloorDiv: _divide_spans,
    ast.Mod: _modulo_spans,
    ast.Pow: lambda a, b: (0, None) if is_known(a) else ANY,
    **{ast.BitAnd: _and_spans, ast.BitOr: _or_spans, ast.BitXor: _or_spans},
    **{ast.LShift: _shift_left_spans, ast.RShift: _shift_right_spans},
}


_ELEMENT = "one thread handles one element: write x[i], with i = cuda.grid(1)"
_NOT_HERE = {
    ast.ListComp: ("a list comprehension", "write a for loop over range()"),
    ast.GeneratorExp: ("a generator", "write a for loop over range()"),
    ast.SetComp: ("a set", "use cuda.local.array"),
    ast.DictComp: ("a dict", "use cuda.local.array"),
    ast.Dict: ("a dict", "use arrays and whole numbers"),
    ast.Set: ("a set", "use cuda.local.array"),
    ast.List: ("a list", "use cuda.local.array(shape, dtype)"),
    ast.Lambda: ("a lambda", "write a function with def above the kernel"),
    ast.JoinedStr: ("an f-string", "only print() takes one"),
    ast.NamedExpr: ("the walrus :=", "assign on a line of its own"),
    ast.Tuple: ("a tuple", "assign the values one by one"),
    ast.Starred: ("a starred value", "write the values one by one"),
    ast.Slice: ("a slice", _ELEMENT),
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
        unit.fail(
            f"{ast.unparse(node)} is read before it has a value",
            "assign it a value first, so that its type is known",
            node,
        )


class TypeWalk:
    """One pass over a unit."""

    def __init__(self, unit: Unit, unknown: list) -> None:
        self.unit, self.unknown = unit, unknown
        self.program = unit.program

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
            self.unit.fail(
                f"{ast.unparse(node)} is an array, not a number", _ELEMENT, node
            )
        return kind

    def whole(self, node: ast.AST, what: str) -> ScalarType:
        """Return the type of an expression that must be an integer."""
        kind = self.scalar(node)
        if not kind.whole:
            self.unit.fail(
                f"{what} is the {kind} {ast.unparse(node)}",
                "/ gives a float: write //, or int(...)",
                node,
            )
        return kind

    def expr(self, node: ast.AST) -> Any:
        """Return the type of an expression, and record it with its span."""
        method = getattr(self, f"_{type(node).__name__}", None)
        if method is None:
            what, hint = _NOT_HERE.get(
                type(node), (type(node).__name__, "write it with plain statements")
            )
            self.unit.fail(f"{what} does not become CUDA C", hint, node)
        kind, span = method(node)
        self.unit.types[node] = kind
        self.unit.spans[node] = span
        return kind

    def span(self, node: ast.AST) -> Span:
        """Return the span of an expression that has been walked."""
        return self.unit.spans[node]

    def _Constant(self, node: ast.Constant):
        value = node.value
        if isinstance(value, (bool, int, float)):
            return self._value(value, node)
        if isinstance(value, str):
            self.unit.fail(
                "a string does not become CUDA C", "only print() takes one", node
            )
        self.unit.fail(f"{value!r} does not become CUDA C", "use a number", node)

    def _value(self, value: Any, node: ast.AST):
        kind = constant_type(value)
        if kind is None:
            self.unit.fail(
                f"{ast.unparse(node)} is of type {type(value).__name__}",
                _global_hint(value, ast.unparse(node)),
                node,
            )
        if isinstance(value, np.bool_):
            value = bool(value)
        span = (int(value),) * 2 if kind.whole else ANY
        return kind, span

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
            attribute = calls.type_attribute(meaning.path)
            if attribute is None:
                what, hint = "cuda is not a value", language.LISTED
                if meaning.path:
                    what, hint = language.explain_unknown(meaning.path)
                self.unit.fail(what, hint, node)
            return attribute
        if isinstance(meaning, (KnownFunction, ScalarType)):
            self.unit.fail(f"{ast.unparse(node)} is a function", "call it", node)
        return self._value(meaning, node)

    def _Attribute(self, node: ast.Attribute):
        meaning = self.unit.meaning(node)
        if meaning is not UNKNOWN:
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
        self.unit.fail(f".{node.attr} does not become CUDA C", hint, node)

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
        base, indices = language.split_chain(node)
        kind = self.expr(base)
        if not isinstance(kind, ArrayType):
            self.unit.fail(
                f"{ast.unparse(base)} is a number, not an array",
                "only arrays have elements",
                node,
            )
        self.indices(kind, indices, node)
        self.unit.types[node] = kind.dtype
        if kind.dtype.kind == "b":
            return kind.dtype, (0, 1)
        return kind.dtype, (0, None) if kind.dtype.kind == "u" else ANY

    def constant_index(self, values: tuple, node: ast.Subscript) -> Any:
        """Return the element of a global tuple."""
        index = getattr(node.slice, "value", None)
        if isinstance(index, int) and -len(values) <= index < len(values):
            return values[index]
        self.unit.fail(
            f"{ast.unparse(node)} does not become CUDA C",
            "a tuple is indexed by a number; "
            "cuda.const.array_like(np.array(...)) makes an array",
            node,
        )

    def _static_side(self, node: ast.Subscript):
        kind = self.expr(node.value.value)
        if not isinstance(kind, ArrayType):
            self._no_shape(node.value)
        index = getattr(node.slice, "value", None)
        shape = kind.shape if isinstance(kind, ArrayType) else ()
        if isinstance(index, int) and -len(shape) <= index < len(shape):
            return INT, (shape[index],) * 2
        self.unit.fail(
            f"{ast.unparse(node)} is not known in C",
            "pass the size as an argument, or unpack the shape: m, n = x.shape",
            node,
        )

    def _no_shape(self, node: ast.Attribute) -> NoReturn:
        what = ast.unparse(node.value)
        self.unit.fail(
            f"{what} is a number, not an array: it has no {node.attr}",
            "look at the order of the arguments",
            node,
        )

    def indices(self, kind: ArrayType, indices: list[ast.expr], node: ast.AST) -> None:
        """Infer the types of an element's indices, and refuse invalid ones."""
        for one in indices:
            if isinstance(one, ast.Slice):
                self.unit.fail(f"{ast.unparse(node)} is a slice", _ELEMENT, one)
            self.whole(one, "an index")
            high = self.span(one)[1]
            if high is not None and high < 0:
                self.unit.fail(
                    f"{ast.unparse(node)}: C does not count from the end",
                    "write the index in full: x[n - 1]",
                    one,
                )
        if len(indices) != kind.ndim:
            self.unit.fail(
                f"{ast.unparse(node)} has {len(indices)} indices, but its array has "
                f"{kind.ndim} dimensions",
                "give one index for each dimension",
                node,
            )

    def _BinOp(self, node: ast.BinOp):
        a, b = self.scalar(node.left), self.scalar(node.right)
        op = type(node.op)
        if op is ast.MatMult:
            self.unit.fail(
                "@ does not become CUDA C", "write the loop over the products", node
            )
        if op in (ast.BitAnd, ast.BitOr, ast.BitXor, ast.LShift, ast.RShift):
            for side in (node.left, node.right):
                self.whole(side, f"an operand of {_SIGNS[op]}")
            if a.kind == b.kind == "b" and op not in (ast.LShift, ast.RShift):
                return BOOL, (0, 1)
        span = SPANS[op](self.span(node.left), self.span(node.right))
        if op is ast.Div and a.whole and b.whole:
            return (FLOAT if a.weak and b.weak else F64), ANY
        kind = promote(a, b)
        if kind is None:
            self.unit.fail(
                "int64 and uint64 have no common integer type",
                "convert one of them: int64(...)",
                node,
            )
        if op is ast.Pow and kind.whole:
            low = self.span(node.right)[0]
            if low is None or low < 0:
                self.unit.fail(
                    "a whole number ** one that may be negative has no fixed type",
                    "write float(...) ** ..., or a loop",
                    node,
                )
        if kind.kind == "u":
            span = (max(span[0] or 0, 0), span[1])
        return kind, (span if kind.whole else ANY)

    def _UnaryOp(self, node: ast.UnaryOp):
        kind = self.scalar(node.operand)
        low, high = self.span(node.operand)
        if isinstance(node.op, ast.Not):
            return BOOL, (0, 1)
        if isinstance(node.op, ast.Invert):
            self.whole(node.operand, "the operand of ~")
            if kind.kind == "b":
                if kind == BOOL:
                    self.unit.fail("~ of a bool is a whole number", "write not", node)
                return kind, (0, 1)
            return kind, (0, None) if kind.kind == "u" else ANY
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
                self.unit.fail(
                    "in and is do not become CUDA C", "compare with == and or", node
                )
        for a, b in itertools.pairwise(kinds):
            if promote(a, b) is None:
                self.unit.fail(
                    "int64 and uint64 have no common integer type",
                    "convert one of them: int64(...)",
                    node,
                )
        return BOOL, (0, 1)

    def _BoolOp(self, node: ast.BoolOp):
        kinds = [self.scalar(one) for one in node.values]
        if getattr(node, "tested", False) or all(k.kind == "b" for k in kinds):
            return BOOL, (0, 1)
        self.unit.fail(
            "and/or of numbers gives one of them in Python, but true or false in C",
            "write a if a != 0 else b, or compare",
            node,
        )

    def _IfExp(self, node: ast.IfExp):
        self.test(node.test)
        a, b = self.scalar(node.body), self.scalar(node.orelse)
        kind = join(a, b)
        if kind is None:
            self.unit.fail(f"one side is {a} but the other {b}", "convert one", node)
        return kind, merge(self.span(node.body), self.span(node.orelse))

    def test(self, node: ast.AST) -> None:
        """Walk a condition, in which and/or may join numbers."""
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
