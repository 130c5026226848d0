"""Compute where a plain loop's accesses begin and end, and test their bounds.

A plain loop has a known number of turns, and each of its accesses moves in equal steps.
This module computes values that are known before the launch. The new code computes all
others.
"""

from __future__ import annotations

import ast
import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..trees import split_chain
from .elements import find_static
from .layout import Entity
from .names import (
    POSITIVE,
    WHOLE,
    add_whole,
    assign,
    call,
    compare,
    load,
    make_constant,
    make_walrus,
    multiply_whole,
    tuple_of,
    whole_value,
)

if TYPE_CHECKING:
    from .rewrite import Rewriter


# Loops with at most SHORT or more than LONG turns log each access separately.
SHORT, LONG = 3, 1 << 16


class NotPlain(Exception):
    """Raised for a loop that is not plain."""


@dataclass
class Walk:
    """An access in a plain loop: a[part, part + coefficient * i, part].

    axis: number of the index that moves; -1 if none moves.
    name: the local that contains the element.
    """

    node: ast.Subscript
    entity: Entity
    array: ast.expr
    parts: list[ast.expr]
    axis: int
    coefficient: ast.expr
    name: str


@dataclass
class LoopCount:
    """The turns of a loop: their number, and the first value, step and range(...)."""

    turns: ast.expr
    first: ast.expr
    step: ast.expr
    counted: ast.expr


class Way:
    """The computations before a loop begins.

    tests: conditions under which the loop stays within the arrays.
    later: by local name, the values that the tests will compute at their first use.
    statements: statements to run after the tests.
    values: for each walk, an expression for its elements in the loop.
    """

    def __init__(self) -> None:
        self.tests: list[ast.expr] = []
        self.later: dict[str, ast.expr] = {}
        self.statements: list[ast.stmt] = []
        self.values: list[ast.expr] = []

    def use(self, node: ast.expr) -> ast.expr:
        """Return an expression for a value. Its first use computes the value."""
        if isinstance(node, ast.Name) and node.id in self.later:
            return make_walrus(node.id, self.later.pop(node.id))
        return node

    def test(self, a: ast.expr, operator: ast.cmpop, b: ast.expr) -> None:
        """Add a test like a < b unless its result is known; raise NotPlain if false."""
        x, y = whole_value(a), whole_value(b)
        if x is not None and y is not None:
            if not {ast.GtE: x >= y, ast.Gt: x > y, ast.Lt: x < y}[type(operator)]:
                raise NotPlain
            return
        self.tests.append(compare(self.use(a), operator, b))


def find_walk(
    rewriter: Rewriter, node: ast.Subscript, counter: str, bound: set[str]
) -> Walk:
    """Return an access of a plain loop; raise NotPlain for any other access."""
    base, parts = split_chain(node)
    entity = find_static(rewriter, base, parts)
    if entity is None or not isinstance(base, ast.Name) or base.id in bound:
        raise NotPlain
    if any(rewriter.variant.kinds(part) < WHOLE for part in parts):
        raise NotPlain
    slopes = [find_slope(rewriter, part, counter, bound) for part in parts]
    moving = [i for i, slope in enumerate(slopes) if whole_value(slope) != 0]
    if len(moving) > 1:
        raise NotPlain
    axis = moving[0] if moving else -1
    if entity.origin == "local":
        array = load(f".r{entity.number}" if rewriter.checks else base.id)
    else:
        kind = "f" if entity.origin == "shared" else "r"
        array = rewriter.own(f".{kind}{entity.number}")
    name = rewriter.temporary()
    rewriter.local.add(name)
    slope = slopes[axis] if moving else make_constant(0)
    return Walk(node, entity, array, parts, axis, slope, name)


def find_slope(
    rewriter: Rewriter, node: ast.expr, counter: str, bound: set[str]
) -> ast.expr:
    """Return the change of an integer expression if the counter grows by 1."""
    if isinstance(node, ast.Name) and node.id in bound:
        if node.id == counter:
            return make_constant(1)
        raise NotPlain
    if isinstance(node, (ast.Name, ast.Constant)) or rewriter.path(node):
        return make_constant(0)
    if isinstance(node, ast.UnaryOp):
        inner = find_slope(rewriter, node.operand, counter, bound)
        if isinstance(node.op, ast.USub):
            return multiply_whole(make_constant(-1), inner)
        fixed = [inner]
    elif isinstance(node, ast.BinOp):
        left = find_slope(rewriter, node.left, counter, bound)
        right = find_slope(rewriter, node.right, counter, bound)
        if isinstance(node.op, ast.Add):
            return add_whole(left, right)
        if isinstance(node.op, ast.Sub):
            return add_whole(left, multiply_whole(make_constant(-1), right))
        if isinstance(node.op, ast.Mult) and whole_value(left) == 0:
            return multiply_whole(rewrite_whole(rewriter, node.left), right)
        if isinstance(node.op, ast.Mult) and whole_value(right) == 0:
            return multiply_whole(left, rewrite_whole(rewriter, node.right))
        fixed = [left, right]
    else:
        raise NotPlain
    if any(whole_value(one) != 0 for one in fixed):
        raise NotPlain
    return make_constant(0)


def rewrite_whole(
    rewriter: Rewriter, node: ast.expr, counter: str = "", first: ast.expr | None = None
) -> ast.expr:
    """Rewrite an integer expression; insert constants, and `first` for `counter`."""
    if isinstance(node, ast.Name):
        if node.id == counter and first is not None:
            return copy.deepcopy(first)
        known = None if node.id in rewriter.local else rewriter.meaning(node)
        if type(known) is int:
            return make_constant(known)
        return rewriter.visit(copy.copy(node))
    if isinstance(node, ast.BinOp):
        left, right = (
            rewrite_whole(rewriter, n, counter, first) for n in (node.left, node.right)
        )
        if isinstance(node.op, ast.Add):
            return add_whole(left, right)
        if isinstance(node.op, ast.Mult):
            return multiply_whole(left, right)
        return ast.BinOp(left, node.op, right)
    if isinstance(node, ast.UnaryOp):
        operand = rewrite_whole(rewriter, node.operand, counter, first)
        return ast.UnaryOp(node.op, operand)
    return rewriter.visit(copy.deepcopy(node))


def count_turns(rewriter: Rewriter, node: ast.expr) -> tuple[list[ast.stmt], LoopCount]:
    """Return the statements before a loop, and its count; raise NotPlain if unknown."""
    kinds = rewriter.variant.kinds
    if not isinstance(node, ast.Call) or kinds.value_of(node.func) is not range:
        raise NotPlain
    if node.keywords or not all(kinds(arg) >= WHOLE for arg in node.args):
        raise NotPlain
    arguments = [rewrite_whole(rewriter, arg) for arg in node.args]
    if len(arguments) == 1:
        before: list[ast.stmt] = []
        turns = arguments[0]
        if whole_value(turns) is None and not isinstance(turns, ast.Name):
            name = rewriter.temporary()
            before, turns = [assign(name, turns)], load(name)
        known = whole_value(turns)
        if known is not None and not SHORT < known <= LONG:
            raise NotPlain
        first, step = make_constant(0), make_constant(1)
        return before, LoopCount(turns, first, step, call("range", turns))
    counted, turns = rewriter.temporary(), rewriter.temporary()
    before = [
        assign(counted, call("range", *arguments)),
        assign(turns, rewriter.call(".len", load(counted))),
    ]
    first = ast.Subscript(load(counted), make_constant(0), ast.Load())
    step: ast.expr = make_constant(1)
    if len(arguments) == 3:
        step = arguments[2]
        if whole_value(step) is None:
            step = ast.Attribute(load(counted), "step", ast.Load())
    return before, LoopCount(load(turns), first, step, load(counted))


def measure_side(rewriter: Rewriter, entity: Entity, axis: int) -> ast.expr:
    """Return the length of an array's side."""
    if entity.origin in ("shared", "local") and not entity.dynamic:
        return make_constant(entity.shape[axis])
    return rewriter.own(f".d{entity.number}_{axis}")


def begin_walk(
    rewriter: Rewriter, walk: Walk, count: LoopCount, counter: str, way: Way
) -> tuple[ast.expr, ast.expr]:
    """Return (first element, step) of an access; add its tests and value to `way`."""
    entity, last = walk.entity, make_constant(0)
    step = multiply_whole(walk.coefficient, count.step)
    turns = add_whole(count.turns, make_constant(-1))
    if (whole_value(step) or 0) < 0:
        raise NotPlain
    parts: list[ast.expr] = []
    for axis, part in enumerate(walk.parts):
        value = rewrite_whole(rewriter, part, counter, count.first)
        first = name_value(rewriter, value, way)
        if rewriter.variant.kinds(part) < POSITIVE:
            way.test(first, ast.GtE(), make_constant(0))
        end = first
        if axis == walk.axis:
            final = add_whole(way.use(first), multiply_whole(turns, step))
            end = last = name_value(rewriter, final, way)
            if whole_value(step) is None:
                way.test(last, ast.Gt(), first)
        way.test(end, ast.Lt(), measure_side(rewriter, entity, axis))
        parts.append(first)
    flat, room, stride = make_constant(0), make_constant(1), make_constant(0)
    for axis in reversed(range(len(parts))):
        flat = add_whole(multiply_whole(parts[axis], room), flat)
        if axis == walk.axis:
            stride = multiply_whole(step, room)
        room = multiply_whole(measure_side(rewriter, entity, axis), room)
    shared = entity.origin == "shared"
    if (shared or rewriter.checks) and not isinstance(flat, (ast.Name, ast.Constant)):
        name = rewriter.temporary()
        way.statements.append(assign(name, flat))
        flat = load(name)
    if walk.axis >= 0 and shared:
        end = add_whole(flat, multiply_whole(turns, stride))
        parts = [ast.Slice(flat, add_whole(end, make_constant(1)), stride)]
    elif walk.axis >= 0:
        end = add_whole(last, make_constant(1))
        parts[walk.axis] = ast.Slice(parts[walk.axis], end, step)
    elif shared:
        parts = [flat]
    way.values.append(ast.Subscript(walk.array, tuple_of(parts), ast.Load()))
    return flat, stride


def name_value(rewriter: Rewriter, node: ast.expr, way: Way) -> ast.expr:
    """Return a local or a number for a value. The local's first use computes it."""
    if isinstance(node, (ast.Name, ast.Constant)):
        return node
    name = rewriter.temporary()
    way.later[name] = node
    return load(name)
