"""Write expressions in C, with every value in the type that Python uses.

C's rules yield most of these types, and casts yield the others. For example, casts
round a double to float32, make an unsigned index signed, and make a short wrap. If C's
/ or % differs from Python's, the expression calls a helper.
"""

from __future__ import annotations

import ast
from typing import Any

from ..trees import split_chain
from . import calls, emit_calls, operators
from .operators import write_choice
from .text import (
    PRIMARY,
    PRODUCT,
    SUM,
    UNARY,
    CExpression,
    cast,
    join_operands,
    number,
    write_whole,
)
from .types import BY_C, FLOAT, INT, MOST, ArrayType, ScalarType, natural_type
from .unit import UNKNOWN, Extent, KnownFunction, LanguageName, Unit


class Expressions:
    """The writer of one unit's expressions. All units have the same `output`."""

    operand = operators.write_operand
    _BinOp = operators.write_binary
    _UnaryOp = operators.write_unary
    _BoolOp = operators.write_boolean
    _Compare = operators.write_compare
    _IfExp = operators.write_choice
    _Call = emit_calls.call

    def __init__(self, unit: Unit, output: Any) -> None:
        self.unit, self.output = unit, output
        self.shifts_unsigned = False

    # ---- types ----

    def type(self, kind: ScalarType, key: Any = None) -> str:
        """Return the C type of a value. key: for a weak float, its variable."""
        single = kind == FLOAT and key is not None and key not in self.output.doubles
        return "float" if single else kind.c

    def kind(self, node: ast.AST) -> ScalarType:
        """Return the inferred type of an expression."""
        return self.unit.types[node]

    def sure(self, node: ast.AST) -> bool:
        """Return whether an integer is certain not to be negative."""
        low = self.unit.spans[node][0]
        return low is not None and low >= 0

    # ---- entries ----

    def value(self, node: ast.AST, type_: str, stored: bool = True) -> CExpression:
        """Write an expression, converted to a C type.

        stored: whether C assigns the value, and thus converts it implicitly.
        """
        kind = self.kind(node)
        if kind == FLOAT:
            return self.write_weak(node, type_)
        wraps = stored and type_ in _WRAPS and BY_C[type_].bits <= kind.bits
        value = self.expr(node, wraps)
        if value.literal and type_ in ("float", "double") and kind.whole:
            return number(int(value.text.rstrip("ul"), 0), type_)
        if kind == INT and type_ == "int" and value.literal and value.type != "int":
            digits = value.text.rstrip("ul")
            what = f"{digits} does not fit into an int, which is at most {MOST}"
            self.unit.fail(what, f"write int64({digits})", node)
        # Except to and from half, an assignment in C converts as Python does.
        if value.type == type_ or (stored and "half" not in (value.type, type_)):
            return value
        if "half" in (value.type, type_) and "float" not in (value.type, type_):
            value = cast("float", value)  # C converts half only to and from float
        return cast(type_, value)

    # ---- Python's floats ----

    def write_weak(self, node: ast.AST, type_: str) -> CExpression:
        """Write a Python float in the C type that its context needs, rounded once."""
        if type_ == "half":
            return cast("half", self.write_weak(node, "float"))
        if type_ not in ("float", "double"):
            return cast(type_, self.write_weak(node, "double"))
        if isinstance(node, ast.Constant):
            return number(node.value, type_)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
            value = self.value(node.operand, type_, False)
            return self.negate(value) if isinstance(node.op, ast.USub) else value
        if isinstance(node, ast.IfExp):
            return write_choice(self, node, type_)
        if isinstance(node, ast.Name) and self.unit.is_local(node.id):
            key = self.unit, node.id
            self.output.wants(key, type_)
            value = CExpression(self.name(node.id), PRIMARY, self.type(FLOAT, key))
            return value if value.type == type_ else cast(type_, value)
        if isinstance(node, (ast.Name, ast.Attribute)):
            return self._global(node, type_)
        if isinstance(node, ast.Call):
            if node in self.unit.calls:
                self.output.wants((self.unit.calls[node], ""), type_)
            elif self.unit.meaning(node.func) == KnownFunction("float"):
                return self.value(node.args[0], type_, False)
        value = self.expr(node)
        return value if value.type == type_ else cast(type_, value)

    def negate(self, operand: CExpression) -> CExpression:
        text = operand.within(UNARY)
        text = f"({text})" if text.startswith("-") else text
        literal = operand.literal and operand.precedence == PRIMARY
        return CExpression(f"-{text}", UNARY, operand.type, literal)

    # ---- every kind of node ----

    def expr(self, node: ast.AST, wraps: bool = False) -> CExpression:
        """Write an expression in the type that C yields.

        wraps: whether only the low bits are used, so that no cast to signed is needed.
        """
        write = getattr(self, f"_{type(node).__name__}")
        operation = isinstance(node, (ast.BinOp, ast.UnaryOp))
        return write(node, True) if wraps and operation else write(node)

    def name(self, name: str) -> str:
        """Return the name of a local or parameter in C."""
        return self.output.name(self.unit, name)

    def _Constant(self, node: ast.Constant) -> CExpression:
        value = node.value
        if isinstance(value, bool):
            return CExpression("true" if value else "false", PRIMARY, "bool")
        if isinstance(value, float):
            return number(value, "double")
        return write_whole(value, self.output.segment(self.unit, node))

    def _Name(self, node: ast.Name) -> CExpression:
        unit = self.unit
        if node.id in unit.extents:
            unit.extent(unit.extents[node.id][0])
            return CExpression(self.name(node.id), PRIMARY, "int")
        if unit.is_local(node.id):
            kind = unit.variables[node.id]
            if isinstance(kind, ArrayType):
                return CExpression(self.name(node.id), PRIMARY, "array")
            if kind == FLOAT:
                return self.write_weak(node, "double")
            return CExpression(self.name(node.id), PRIMARY, kind.c)
        return self._global(node, "double")

    def _global(self, node: ast.AST, weak: str) -> CExpression:
        meaning = self.unit.meaning(node)
        if isinstance(meaning, LanguageName):
            return self._thread(meaning.path)
        return self.output.constant(self.unit, node, meaning, weak)

    def _thread(self, path: str) -> CExpression:
        if path == "laneid":
            self.output.helper("laneid")
            return CExpression("laneid()", PRIMARY, "int")
        if path == "warpsize":
            return CExpression("warpSize", PRIMARY, "int")
        return CExpression(path, PRIMARY, "unsigned")

    def _Attribute(self, node: ast.Attribute) -> CExpression:
        unit = self.unit
        if unit.meaning(node) is not UNKNOWN:
            return self._global(node, "double")
        side = unit.side(node)
        if side:
            return CExpression(unit.extent(side), PRIMARY, "int")
        kind = unit.types[node.value]
        if node.attr == "ndim":
            return write_whole(kind.ndim)
        sides = [self.side(kind, i) for i in range(kind.ndim)]
        return CExpression(" * ".join(sides), PRODUCT, "int")

    def side(self, kind: ArrayType, axis: int) -> str:
        """Return the length of an array along an axis."""
        if kind.shape:
            return str(kind.shape[axis])
        return self.unit.extent(Extent(kind.root, axis))

    def _Subscript(self, node: ast.Subscript) -> CExpression:
        unit = self.unit
        if calls.is_grid(unit, node.value):
            return self.grid(node.value, node.slice.value)
        side = unit.side(node)
        if side:
            return CExpression(unit.extent(side), PRIMARY, "int")
        if isinstance(node.value, ast.Attribute) and node.value.attr == "shape":
            kind = unit.types[node.value.value]
            return write_whole(kind.shape[node.slice.value])
        meaning = unit.meaning(node.value)
        if isinstance(meaning, tuple):
            return self.output.literal(meaning[node.slice.value])
        return self.element(*split_chain(node))

    def element(self, base: ast.AST, indices: list[ast.expr]) -> CExpression:
        """Write base[indices], row-major."""
        kind = self.unit.types[base]
        name = self.expr(base).text
        if kind.shape:
            text = "".join(f"[{self.expr(one).text}]" for one in indices)
            return CExpression(f"{name}{text}", PRIMARY, kind.dtype.c)
        at = self.expr(indices[0])
        for axis, one in enumerate(indices[1:], 1):
            if at.text == "0":
                at = self.expr(one)
                continue
            side = CExpression(self.side(kind, axis), PRIMARY, "int")
            row = join_operands(at, "*", side, PRODUCT, natural_type(at.type, "int"))
            next_index = self.expr(one)
            if next_index.text == "0":
                at = row
                continue
            if row.type != next_index.type and not all(map(self.sure, indices)):
                row, next_index = self.signed(row), self.signed(next_index)
            # Integer sums are associative, so `next_index` needs no parentheses.
            text = f"{row.text} + {next_index.within(SUM)}"
            at = CExpression(text, SUM, natural_type(row.type, next_index.type))
        return CExpression(f"{name}[{at.text}]", PRIMARY, kind.dtype.c)

    def grid(self, call: ast.Call, axis: int) -> CExpression:
        """Write cuda.grid or cuda.gridsize along an axis."""
        x = calls.AXES[axis]
        if self.unit.meaning(call.func).path == "gridsize":
            return CExpression(f"gridDim.{x} * blockDim.{x}", PRODUCT, "unsigned")
        text = f"blockIdx.{x} * blockDim.{x} + threadIdx.{x}"
        return CExpression(text, SUM, "unsigned")

    def signed(self, value: CExpression) -> CExpression:
        """Convert an unsigned value, from thread indices or sizes, to int."""
        return cast("int", value) if value.type == "unsigned" else value


_WRAPS = (
    *("int", "unsigned", "long long", "unsigned long long"),
    *("short", "unsigned short", "signed char", "unsigned char"),
)
