"""Statements in C that have no block: assignments, calls, return."""

from __future__ import annotations

import ast
from typing import Any

from .emit_calls import emit_printf
from .expressions import Expressions
from .operators import OPERATORS
from .text import SUM, UNARY, C, find_closing, number
from .types import CONST, SHARED, Array, Scalar
from .unit import Function


class Simple:
    """The part of a Writer that writes them."""

    unit: Any
    output: Any
    inline: dict[ast.stmt, bool]
    to: Expressions

    def _dropped(self, one: ast.stmt) -> bool:
        """Whether a statement leaves nothing in C."""
        unit = self.unit
        if isinstance(one, ast.Pass):
            return True
        if isinstance(one, ast.Expr):
            return isinstance(one.value, ast.Constant)
        if isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name):
            name = one.targets[0].id
            if name in unit.extents:
                return True
            kind = unit.variables.get(name)
            if isinstance(kind, Array) and kind.space == CONST:
                self._constant_array(name, kind, one.value)
                return True
            if name == "_" or isinstance(kind, Scalar):
                return not unit.scope.read(name) and not _has_effect(one.value)
        if isinstance(one, ast.AugAssign) and isinstance(one.target, ast.Name):
            return not unit.scope.read(one.target.id)
        return False

    def _simple(self, one: ast.stmt) -> list[str]:
        if isinstance(one, ast.Assign):
            return [self._assign(one)]
        if isinstance(one, ast.AugAssign):
            return [self._augmented(one)]
        if isinstance(one, ast.Return):
            return [self._return(one)]
        if isinstance(one, ast.Assert):
            self.output.headers.add("assert.h")
            return [f"assert({self.to.test(one.test).text});"]
        if isinstance(one, ast.Expr):
            call = one.value
            if self.unit.meaning(call.func) == Function("print"):
                self.output.headers.add("stdio.h")
                return [f"{emit_printf(self.to, call)};"]
            return [f"{self.to.expr(call).text};"]
        return ["break;" if isinstance(one, ast.Break) else "continue;"]

    def _assign(self, one: ast.Assign) -> str:
        target = one.targets[0]
        if isinstance(target, ast.Subscript):
            place = self.to.expr(target)
            return f"{place.text} = {self.to.value(one.value, place.type).text};"
        kind = self.unit.variables.get(target.id)
        if isinstance(kind, Array):
            return self._array(target.id, kind, one.value)
        if not self.unit.scope.read(target.id):
            return f"{self.to.expr(one.value).text};"
        type_ = self._type(target.id)
        value = self.to.value(one.value, type_).text
        name = self.output.name(self.unit, target.id)
        if one in self.inline:
            return f"{'const ' * self.inline[one]}{type_} {name} = {value};"
        return f"{name} = {value};"

    def _array(self, name: str, kind: Array, node: ast.AST) -> str:
        spelled = self.output.name(self.unit, name)
        type_ = kind.dtype.c
        if isinstance(node, (ast.Subscript, ast.Name)):
            word = "" if kind.root in self.unit.written else "const "
            return f"{word}{type_} *{spelled} = {self._view(node)};"
        if not kind.shape:
            return f"extern __shared__ {type_} {spelled}[];"
        sides = "".join(f"[{side}]" for side in self._sides(node, kind))
        return f"{'__shared__ ' * (kind.space == SHARED)}{type_} {spelled}{sides};"

    def _constant_array(self, name: str, kind: Array, node: ast.Call) -> None:
        """const.array_like: the array stands above, under its own name."""
        source = node.args[0]
        value = self.unit.meaning(source)
        sides = "".join(f"[{side}]" for side in kind.shape)
        text = _write_initialiser(value.tolist(), kind.dtype.c)
        type_ = f"static __constant__ const {kind.dtype.c}"
        own = source.id if isinstance(source, ast.Name) else name
        self.unit.aliases[name] = self.output.array(
            own, value, f"{type_} {{name}}{sides} = {text};"
        )

    def _sides(self, node: ast.Call, kind: Array) -> list[str]:
        """The extents of a static array, with the names that the reader gave them."""
        given = [*node.args, *(k.value for k in node.keywords if k.arg == "shape")]
        parts = given[0].elts if isinstance(given[0], ast.Tuple) else [given[0]]
        if len(parts) != len(kind.shape) or any(
            p not in self.unit.types for p in parts
        ):
            return [str(side) for side in kind.shape]
        return [self.to.expr(part).text for part in parts]

    def _view(self, node: ast.AST) -> str:
        if isinstance(node, ast.Name):
            return self.to.expr(node).text
        base = self.to.expr(node.value).text
        if node.slice.lower is None:
            return base
        return f"{base} + {self.to.index(node.slice.lower).within(SUM)}"

    def _augmented(self, one: ast.AugAssign) -> str:
        target, op = one.target, type(one.op)
        if isinstance(target, ast.Name):
            type_ = self._type(target.id)
            place = self.output.name(self.unit, target.id)
        else:
            found = self.to.expr(target)
            place, type_ = found.text, found.type
        whole = self.to.value(one.whole, type_)
        # a = a + x as a += x, where C then computes the same.
        left = self.to.expr(one.whole.left) if type_ != "half" else C("", 0, "")
        sign = OPERATORS.get(op, ("", 0))[0]
        start = f"{left.text} {sign} "
        same = left.type == type_ and whole.precedence < UNARY and place == left.text
        if not (sign and same and whole.text.startswith(start)):
            return f"{place} = {whole.text};"
        rest = whole.text[len(start) :]
        if rest.startswith("(") and rest.endswith(")") and _is_paired(rest):
            rest = rest[1:-1]
        counts = type_ not in ("float", "double", "bool")
        if rest == "1" and sign in "+-" and counts:
            return f"{place}{sign}{sign};"
        return f"{place} {sign}= {rest};"

    def _return(self, one: ast.Return) -> str:
        kind = self.unit.returns
        if one.value is None or kind is None:
            return "return;"
        type_ = self.to.type(kind, (self.unit, ""))
        return f"return {self.to.value(one.value, type_).text};"


def _has_effect(node: ast.AST) -> bool:
    """Whether an expression may do more than give a value."""
    return any(isinstance(n, ast.Call) for n in ast.walk(node))


def _is_paired(text: str) -> bool:
    return find_closing(text, 0) == len(text) - 1


def _write_initialiser(value: Any, type_: str) -> str:
    if isinstance(value, list):
        return "{" + ", ".join(_write_initialiser(one, type_) for one in value) + "}"
    if type_ in ("float", "double"):
        return number(value, type_).text
    if type_ == "bool":
        return "true" if value else "false"
    return str(int(value))
