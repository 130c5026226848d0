"""Write operators in C, with operands in the type that Python uses."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

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
    CExpression,
    cast,
    join_operands,
)
from .types import F16, FLOAT, INT, U32, ScalarType, natural_type, promote

if TYPE_CHECKING:
    from .expressions import Expressions

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


def write_operand(exprs: Expressions, node: ast.AST, kind: ScalarType) -> CExpression:
    """Write an operand of an operation in the type `kind`."""
    own = exprs.kind(node)
    if own == FLOAT:
        return exprs.write_weak(node, kind.c)
    if F16 in (own, kind) and own != kind:  # C does not convert half implicitly
        half = kind == F16
        return cast(
            kind.c, exprs.value(node, "float", False) if half else exprs.expr(node)
        )
    if own == INT and kind == U32:
        before, exprs.shifts_unsigned = exprs.shifts_unsigned, True
        value = exprs.expr(node)
        exprs.shifts_unsigned = before
        return value
    return exprs.expr(node)


def write_binary(
    exprs: Expressions, node: ast.BinOp, wraps: bool = False
) -> CExpression:
    op = type(node.op)
    kind = exprs.kind(node)
    if op is ast.Pow:
        return _write_power(exprs, node, kind)
    if op in (ast.FloorDiv, ast.Mod):
        return _write_floor(exprs, node, op, kind)
    sign, precedence = OPERATORS[op]
    if op is ast.Div and exprs.kind(node.left).whole and exprs.kind(node.right).whole:
        a, b = exprs.value(node.left, "double", False), exprs.expr(node.right)
        return join_operands(a, sign, b, precedence, "double")
    if kind.kind == "b":
        a, b = exprs.expr(node.left), exprs.expr(node.right)
        return join_operands(a, sign, b, precedence, "bool")
    if op in (ast.LShift, ast.RShift):
        return _write_shift(exprs, node, kind, sign)
    unsigned = exprs.shifts_unsigned and kind == INT
    low_bits = (wraps or unsigned) and op in (ast.Add, ast.Sub, ast.Mult)
    a = _write_operand(exprs, node.left, kind, low_bits)
    b = _write_operand(exprs, node.right, kind, low_bits)
    if not low_bits and kind.kind == "i" and kind.bits <= 32:
        both = exprs.sure(node.left) and exprs.sure(node.right)
        if op is ast.Sub or not both:
            a, b = exprs.signed(a), exprs.signed(b)
    a, b = _meet_types(a, b, kind)
    result = join_operands(a, sign, b, precedence, natural_type(a.type, b.type))
    return result if wraps else _narrow_result(result, kind)


def _write_operand(
    exprs: Expressions, node: ast.AST, kind: ScalarType, wraps: bool
) -> CExpression:
    own = exprs.kind(node)
    if wraps and own.whole and isinstance(node, ast.BinOp):
        return exprs.expr(node, own.bits >= kind.bits)
    return write_operand(exprs, node, kind)


def _meet_types(
    a: CExpression, b: CExpression, kind: ScalarType
) -> tuple[CExpression, CExpression]:
    """Cast one or two operands, if necessary, so that C computes in type `kind`."""
    suitable = {kind.c}
    if kind.whole and kind.bits <= 32:
        suitable |= {"int", "unsigned"} if kind.kind == "i" else {"unsigned"}
        if kind.bits < 32:
            suitable.add("int")
    if natural_type(a.type, b.type) in suitable:
        return a, b
    target = kind.c
    for x, y in ((cast(target, a), b), (a, cast(target, b))):
        casts_float = a.type in ("float", "half", "double") and x is not a
        if casts_float and b.type not in ("float", "half", "double"):
            continue  # cast the integer operand instead of the float
        if natural_type(x.type, y.type) in suitable:
            return x, y
    return cast(target, a), cast(target, b)


def _narrow_result(result: CExpression, kind: ScalarType) -> CExpression:
    """Cast C's int result to the smaller type of Python's result."""
    if kind.whole and kind.bits < 32 and kind.kind != "b":
        return cast(kind.c, result)
    return result


def _write_shift(
    exprs: Expressions, node: ast.BinOp, kind: ScalarType, sign: str
) -> CExpression:
    a = exprs.expr(node.left)
    if sign == ">>" and not exprs.sure(node.left):
        a = exprs.signed(a)
    literal = isinstance(node.left, ast.Constant)
    variable = not isinstance(node.right, ast.Constant)
    unsigned = kind == U32 or (exprs.shifts_unsigned and kind == INT)
    if literal and unsigned and variable and a.type == "int":
        a = CExpression(f"{a.text}u", PRIMARY, "unsigned", True)
    elif natural_type(a.type, a.type) != kind.c and kind.bits >= 32 and kind != INT:
        a = cast(kind.c, a)
    b = exprs.expr(node.right)
    result = join_operands(a, sign, b, SHIFT, natural_type(a.type, "bool"))
    return _narrow_result(result, kind)


def _write_floor(
    exprs: Expressions, node: ast.BinOp, op: type, kind: ScalarType
) -> CExpression:
    word = "floor_div" if op is ast.FloorDiv else "floor_mod"
    if not kind.whole:
        target = kind.c
        exprs.output.helper(word, target)
        a, b = (exprs.value(n, target, False) for n in (node.left, node.right))
        return CExpression(f"{word}({a.text}, {b.text})", PRIMARY, target)
    a, b = write_operand(exprs, node.left, kind), write_operand(exprs, node.right, kind)
    if kind.kind == "u" or (exprs.sure(node.left) and exprs.sure(node.right)):
        a, b = _meet_types(a, b, kind)
        sign, precedence = OPERATORS[op]
        return join_operands(a, sign, b, precedence, natural_type(a.type, b.type))
    target = "long long" if kind.bits == 64 else "int"
    exprs.output.helper(word, target)
    a, b = _widen(a, target), _widen(b, target)
    result = CExpression(f"{word}({a.text}, {b.text})", PRIMARY, target)
    return _narrow_result(result, kind)


def _widen(value: CExpression, target: str) -> CExpression:
    """Convert an integer to int or long long."""
    if natural_type(value.type, "bool") == target:
        return value
    if value.literal and target == "long long" and value.text.isdigit():
        return CExpression(f"{value.text}ll", PRIMARY, target)
    return cast(target, value)


def _write_power(exprs: Expressions, node: ast.BinOp, kind: ScalarType) -> CExpression:
    exponent = node.right
    times = getattr(exponent, "value", None)
    if times in (2, 3) and isinstance(exponent, ast.Constant) and is_simple(node.left):
        product = node.left
        for _ in range(int(times) - 1):
            product = ast.BinOp(product, ast.Mult(), node.left)
            exprs.unit.types[product] = kind
            exprs.unit.spans[product] = exprs.unit.spans[node]
        return exprs.expr(product)
    if not kind.whole:
        a, b = (exprs.value(n, kind.c, False) for n in (node.left, node.right))
        word = "powf" if kind.c == "float" else "pow"
        return CExpression(f"{word}({a.text}, {b.text})", PRIMARY, kind.c)
    target = kind.c if kind.bits >= 32 else "int"
    exprs.output.helper("power", target)
    a = exprs.value(node.left, target, False)
    b = exprs.value(exponent, "int", False)
    result = CExpression(f"power({a.text}, {b.text})", PRIMARY, target)
    return _narrow_result(result, kind)


def write_unary(
    exprs: Expressions, node: ast.UnaryOp, wraps: bool = False
) -> CExpression:
    kind = exprs.kind(node)
    if kind == FLOAT:
        return exprs.write_weak(node, "double")
    operand = exprs.expr(node.operand)
    inverts = isinstance(node.op, ast.Invert)
    if isinstance(node.op, ast.Not) or (inverts and kind.kind == "b"):
        return CExpression(f"!{operand.within(UNARY)}", UNARY, "bool")
    if kind.kind == "i" and not wraps:
        operand = exprs.signed(operand)
    if isinstance(node.op, ast.UAdd):
        return operand
    type_ = operand.type
    if type_ != "half":
        type_ = natural_type(type_, "bool")
    if inverts:
        result = CExpression(f"~{operand.within(UNARY)}", UNARY, type_)
    else:
        result = replace(exprs.negate(operand), type=type_)
    return _narrow_result(result, kind)


def write_boolean(exprs: Expressions, node: ast.BoolOp) -> CExpression:
    sign, precedence = ("&&", AND) if isinstance(node.op, ast.And) else ("||", OR)
    result = exprs.expr(node.values[0])
    for one in node.values[1:]:
        result = join_operands(result, sign, exprs.expr(one), precedence, "bool")
    return result


def write_compare(exprs: Expressions, node: ast.Compare) -> CExpression:
    nodes = [node.left, *node.comparators]
    for one in nodes[1:-1]:
        if any(isinstance(n, ast.Call) for n in ast.walk(one)) and not is_simple(one):
            what = f"{ast.unparse(one)} would be called twice"
            exprs.unit.fail(what, "assign it to a name first", one)
    test = None
    for op, a, b in zip(node.ops, nodes, nodes[1:]):
        one = _write_comparison(exprs, op, a, b)
        test = one if test is None else join_operands(test, "&&", one, AND, "bool")
    return test


def _write_comparison(
    exprs: Expressions, op: ast.cmpop, left: ast.AST, right: ast.AST
) -> CExpression:
    x, y = exprs.kind(left), exprs.kind(right)
    kind = promote(x, y)
    a, b = write_operand(exprs, left, kind), write_operand(exprs, right, kind)
    if kind.whole:
        a, b = _give_same_sign(exprs, left, a, right, b)
    else:
        a, b = _meet_types(a, b, kind)
    sign, precedence = _COMPARISONS[type(op)]
    return join_operands(a, sign, b, precedence, "bool")


def _give_same_sign(
    exprs: Expressions, left, a: CExpression, right, b: CExpression
) -> tuple[CExpression, CExpression]:
    """Cast the operands of an integer comparison so that C compares their values.

    Without a cast, C would convert a negative int to a large unsigned number.
    """
    x, y = (natural_type(t, "bool") for t in (a.type, b.type))
    pair = sorted((x, y))
    if "unsigned" not in x + y or ("unsigned" in x and "unsigned" in y):
        return a, b
    if (a.literal or a.enum) and exprs.sure(left):
        return a, b
    if (b.literal or b.enum) and exprs.sure(right):
        return a, b
    if pair == ["int", "unsigned"]:
        if exprs.kind(left) != U32 and exprs.kind(right) != U32:
            return exprs.signed(a), exprs.signed(b)
        if exprs.sure(left) and exprs.sure(right):
            return (cast("unsigned", a), b) if x == "int" else (a, cast("unsigned", b))
        wide = "long long"
        return (cast(wide, a), b) if x == "unsigned" else (a, cast(wide, b))
    if pair == ["long long", "unsigned"]:
        return a, b
    if exprs.sure(left) and exprs.sure(right):
        wide = "unsigned long long"
        return (cast(wide, a), b) if x != wide else (a, cast(wide, b))
    what = f"{ast.unparse(left)} and {ast.unparse(right)} have no common type in C"
    exprs.unit.fail(what, "convert one of them: int64(...)", left)


def write_choice(exprs: Expressions, node: ast.IfExp, type_: str = "") -> CExpression:
    """Write a if c else b, in C type `type_` or else in the result's type."""
    type_ = type_ or exprs.kind(node).c
    test = exprs.expr(node.test)
    a = _write_branch(exprs, node.body, type_)
    b = _write_branch(exprs, node.orelse, type_)
    nested = isinstance(node.body, ast.IfExp)
    text = f"{test.within(OR)} ? {a.within(CHOICE + nested)} : {b.within(CHOICE)}"
    return CExpression(text, CHOICE, type_)


def _write_branch(exprs: Expressions, node: ast.AST, type_: str) -> CExpression:
    value = exprs.value(node, type_, False)
    return cast("int", value) if value.enum else value


def is_simple(node: ast.AST) -> bool:
    """Return whether an expression may occur twice in the text."""
    if isinstance(node, (ast.Name, ast.Constant)):
        return True
    if isinstance(node, ast.Attribute):
        return is_simple(node.value)
    if isinstance(node, ast.Subscript):
        index = node.slice
        return isinstance(index, (ast.Name, ast.Constant)) and is_simple(node.value)
    return isinstance(node, ast.Call) and ast.unparse(node.func).endswith("grid")
