"""Operators in C: operands in the type that Python computes with."""

from __future__ import annotations

import ast
from typing import Any

from .text import (
    AND,
    BIT_AND,
    BIT_OR,
    BIT_XOR,
    CHOICE,
    EQUAL,
    OR,
    PRIMARY,
    PRODUCT,
    RELATION,
    SHIFT,
    SUM,
    UNARY,
    C,
    cast,
    join_operands,
)
from .types import F16, FLOAT, INT, U32, Scalar, natural_type, promote

OPERATORS = {
    ast.Add: ("+", SUM),
    ast.Sub: ("-", SUM),
    ast.Mult: ("*", PRODUCT),
    ast.Div: ("/", PRODUCT),
    ast.FloorDiv: ("/", PRODUCT),
    ast.Mod: ("%", PRODUCT),
    ast.BitAnd: ("&", BIT_AND),
    ast.BitOr: ("|", BIT_OR),
    ast.BitXor: ("^", BIT_XOR),
    ast.LShift: ("<<", SHIFT),
    ast.RShift: (">>", SHIFT),
}

_COMPARISONS = {
    ast.Lt: ("<", RELATION),
    ast.LtE: ("<=", RELATION),
    ast.Gt: (">", RELATION),
    ast.GtE: (">=", RELATION),
    ast.Eq: ("==", EQUAL),
    ast.NotEq: ("!=", EQUAL),
}


class Operators:
    """The part of Expressions that writes them."""

    unit: Any
    output: Any
    shifts_unsigned: bool

    def operand(self, node: ast.AST, kind: Scalar) -> C:
        """An operand of an operation in the type `kind`."""
        own = self.kind(node)
        if own == FLOAT:
            return self._weak(node, kind.c)
        if F16 in (own, kind) and own != kind:  # half converts to nothing by itself
            return self._of_half(node, kind)
        if own == INT and kind == U32:
            before, self.shifts_unsigned = self.shifts_unsigned, True
            found = self.expr(node)
            self.shifts_unsigned = before
            return found
        return self.expr(node)

    def _of_half(self, node: ast.AST, kind: Scalar) -> C:
        if kind == F16:
            return cast("half", self.value(node, "float", False))
        return cast(kind.c, self.expr(node))

    def _BinOp(self, node: ast.BinOp, wraps: bool = False) -> C:
        op = type(node.op)
        kind = self.kind(node)
        if op is ast.Pow:
            return self._power(node, kind)
        if op in (ast.FloorDiv, ast.Mod):
            return self._floor(node, op, kind)
        sign, precedence = OPERATORS[op]
        if op is ast.Div and self.kind(node.left).whole and self.kind(node.right).whole:
            return join_operands(
                self.value(node.left, "double", False),
                *(sign, self.expr(node.right), precedence, "double"),
            )
        if kind.kind == "b":
            a, b = self.expr(node.left), self.expr(node.right)
            return join_operands(a, sign, b, precedence, "bool")
        if op in (ast.LShift, ast.RShift):
            return self._shift(node, kind, sign)
        unsigned = self.shifts_unsigned and kind == INT
        low_bits = (wraps or unsigned) and op in (ast.Add, ast.Sub, ast.Mult)
        a = self._operand(node.left, kind, low_bits)
        b = self._operand(node.right, kind, low_bits)
        if not low_bits and kind.kind == "i" and kind.bits <= 32:
            both = self.sure(node.left) and self.sure(node.right)
            if op is ast.Sub or not both:
                a, b = self.signed(a), self.signed(b)
        a, b = self._meet(a, b, kind)
        found = join_operands(a, sign, b, precedence, natural_type(a.type, b.type))
        return found if wraps else self._narrow(found, kind)

    def _operand(self, node: ast.AST, kind: Scalar, wraps: bool) -> C:
        own = self.kind(node)
        if wraps and own.whole and isinstance(node, ast.BinOp):
            return self.expr(node, own.bits >= kind.bits)
        return self.operand(node, kind)

    def _meet(self, a: C, b: C, kind: Scalar) -> tuple[C, C]:
        """Two operands that C computes with in the type `kind`, cast if need be."""
        wanted = {kind.c}
        if kind.whole and kind.bits <= 32:
            wanted |= {"int", "unsigned"} if kind.kind == "i" else {"unsigned"}
            if kind.bits < 32:
                wanted.add("int")
        if natural_type(a.type, b.type) in wanted:
            return a, b
        target = kind.c
        for x, y in ((cast(target, a), b), (a, cast(target, b))):
            whole_first = a.type in ("float", "half", "double") and x is not a
            if whole_first and b.type not in ("float", "half", "double"):
                continue  # cast the whole number, not the float
            if natural_type(x.type, y.type) in wanted:
                return x, y
        return cast(target, a), cast(target, b)

    def _narrow(self, found: C, kind: Scalar) -> C:
        """What C computed in int, as the smaller type that Python has."""
        if kind.whole and kind.bits < 32 and kind.kind != "b":
            return cast(kind.c, found)
        return found

    def _shift(self, node: ast.BinOp, kind: Scalar, sign: str) -> C:
        a = self.expr(node.left)
        if sign == ">>" and not self.sure(node.left):
            a = self.signed(a)
        literal = isinstance(node.left, ast.Constant)
        variable = not isinstance(node.right, ast.Constant)
        unsigned = kind == U32 or (self.shifts_unsigned and kind == INT)
        if literal and unsigned and variable and a.type == "int":
            a = C(f"{a.text}u", PRIMARY, "unsigned", True)
        elif natural_type(a.type, a.type) != kind.c and kind.bits >= 32 and kind != INT:
            a = cast(kind.c, a)
        b = self.expr(node.right)
        return self._narrow(
            join_operands(a, sign, b, SHIFT, natural_type(a.type, "bool")), kind
        )

    def _floor(self, node: ast.BinOp, op: type, kind: Scalar) -> C:
        word = "floor_div" if op is ast.FloorDiv else "floor_mod"
        if not kind.whole:
            target = kind.c
            self.output.helper(word, target)
            a, b = (self.value(n, target, False) for n in (node.left, node.right))
            return C(f"{word}({a.text}, {b.text})", PRIMARY, target)
        a, b = self.operand(node.left, kind), self.operand(node.right, kind)
        if kind.kind == "u" or (self.sure(node.left) and self.sure(node.right)):
            a, b = self._meet(a, b, kind)
            sign, precedence = OPERATORS[op]
            return join_operands(a, sign, b, precedence, natural_type(a.type, b.type))
        target = "long long" if kind.bits == 64 else "int"
        self.output.helper(word, target)
        a, b = (
            x
            if natural_type(x.type, "bool") == target
            else C(f"{x.text}ll", PRIMARY, target)
            if x.literal and target == "long long" and x.text.isdigit()
            else cast(target, x)
            for x in (a, b)
        )
        found = C(f"{word}({a.text}, {b.text})", PRIMARY, target)
        return self._narrow(found, kind)

    def _power(self, node: ast.BinOp, kind: Scalar) -> C:
        exponent = node.right
        times = getattr(exponent, "value", None)
        if (
            times in (2, 3)
            and isinstance(exponent, ast.Constant)
            and is_simple(node.left)
        ):
            made = ast.BinOp(node.left, ast.Mult(), node.left)
            for _ in range(int(times) - 2):
                made = ast.BinOp(made, ast.Mult(), node.left)
            self._typed(made, node)
            return self.expr(made)
        if not kind.whole:
            a, b = (self.value(n, kind.c, False) for n in (node.left, node.right))
            word = "powf" if kind.c == "float" else "pow"
            return C(f"{word}({a.text}, {b.text})", PRIMARY, kind.c)
        target = kind.c if kind.bits >= 32 else "int"
        self.output.helper("power", target)
        a = self.value(node.left, target, False)
        b = self.value(exponent, "int", False)
        return self._narrow(C(f"power({a.text}, {b.text})", PRIMARY, target), kind)

    def _typed(self, made: ast.BinOp, like: ast.BinOp) -> None:
        if isinstance(made.left, ast.BinOp) and made.left is not like.left:
            self._typed(made.left, like)
        self.unit.types[made] = self.unit.types[like]
        self.unit.spans[made] = self.unit.spans[like]

    def _UnaryOp(self, node: ast.UnaryOp, wraps: bool = False) -> C:
        kind = self.kind(node)
        if isinstance(node.op, ast.Not):
            operand = self.expr(node.operand)
            return C(f"!{operand.within(UNARY)}", UNARY, "bool")
        if kind == FLOAT:
            return self._weak(node, "double")
        operand = self.expr(node.operand)
        if isinstance(node.op, ast.Invert) and kind.kind == "b":
            return C(f"!{operand.within(UNARY)}", UNARY, "bool")
        if kind.kind == "i" and not wraps:
            operand = self.signed(operand)
        if isinstance(node.op, ast.UAdd):
            return operand
        type_ = (
            operand.type
            if operand.type == "half"
            else natural_type(operand.type, "bool")
        )
        if isinstance(node.op, ast.Invert):
            return self._narrow(C(f"~{operand.within(UNARY)}", UNARY, type_), kind)
        found = self._minus(operand)
        return self._narrow(C(found.text, UNARY, type_, found.literal), kind)

    def _BoolOp(self, node: ast.BoolOp) -> C:
        sign, precedence = ("&&", AND) if isinstance(node.op, ast.And) else ("||", OR)
        found = self.expr(node.values[0])
        for one in node.values[1:]:
            found = join_operands(found, sign, self.expr(one), precedence, "bool")
        return found

    def _Compare(self, node: ast.Compare) -> C:
        nodes = [node.left, *node.comparators]
        for one in nodes[1:-1]:
            if any(isinstance(n, ast.Call) for n in ast.walk(one)) and not is_simple(
                one
            ):
                self.unit.fail(
                    f"{ast.unparse(one)} would be called twice",
                    "assign it to a name before",
                    one,
                )
        found = None
        for op, a, b in zip(node.ops, nodes, nodes[1:]):
            one = self._comparison(op, a, b)
            found = (
                one if found is None else join_operands(found, "&&", one, AND, "bool")
            )
        return found

    def _comparison(self, op: ast.cmpop, left: ast.AST, right: ast.AST) -> C:
        x, y = self.kind(left), self.kind(right)
        kind = promote(x, y)
        a, b = self.operand(left, kind), self.operand(right, kind)
        if kind.whole:
            a, b = self._same_sign(left, a, right, b)
        else:
            a, b = self._meet(a, b, kind)
        sign, precedence = _COMPARISONS[type(op)]
        return join_operands(a, sign, b, precedence, "bool")

    def _same_sign(self, left, a: C, right, b: C) -> tuple[C, C]:
        """Operands of a comparison of whole numbers: as numbers, not as bits."""
        x, y = (natural_type(t, "bool") for t in (a.type, b.type))
        pair = sorted((x, y))
        if "unsigned" not in x + y or ("unsigned" in x and "unsigned" in y):
            return a, b
        if (a.literal or a.enum) and self.sure(left):
            return a, b
        if (b.literal or b.enum) and self.sure(right):
            return a, b
        if pair == ["int", "unsigned"]:
            if self.kind(left) != U32 and self.kind(right) != U32:
                return self.signed(a), self.signed(b)
            if self.sure(left) and self.sure(right):
                return (
                    (cast("unsigned", a), b) if x == "int" else (a, cast("unsigned", b))
                )
            return (
                (cast("long long", a), b)
                if x == "unsigned"
                else (a, cast("long long", b))
            )
        if pair == ["long long", "unsigned"]:
            return a, b
        if self.sure(left) and self.sure(right):
            wide = "unsigned long long"
            return (cast(wide, a), b) if x != wide else (a, cast(wide, b))
        self.unit.fail(
            f"{ast.unparse(left)} and {ast.unparse(right)} have no common type in C",
            "convert one of them: int64(...)",
            left,
        )

    def _IfExp(self, node: ast.IfExp) -> C:
        kind = self.kind(node)
        return self._choice(node, kind.c)

    def _choice(self, node: ast.IfExp, type_: str) -> C:
        test = self.test(node.test)
        a = self._branch(node.body, type_)
        b = self._branch(node.orelse, type_)
        nested = isinstance(node.body, ast.IfExp)
        text = f"{test.within(OR)} ? {a.within(CHOICE + nested)} : {b.within(CHOICE)}"
        return C(text, CHOICE, type_)

    def _branch(self, node: ast.AST, type_: str) -> C:
        found = self.value(node, type_, False)
        return cast("int", found) if found.enum else found


def is_simple(node: ast.AST) -> bool:
    """Whether an expression may be written twice."""
    if isinstance(node, (ast.Name, ast.Constant)):
        return True
    if isinstance(node, ast.Attribute):
        return is_simple(node.value)
    if isinstance(node, ast.Subscript):
        index = node.slice
        return isinstance(index, (ast.Name, ast.Constant)) and is_simple(node.value)
    return isinstance(node, ast.Call) and ast.unparse(node.func).endswith("grid")
