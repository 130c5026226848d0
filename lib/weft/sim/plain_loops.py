"""Loops that do nothing but read elements in equal steps, and reckon with them.

    for i in range(k):
        acc += a[row * k + i] * b[i * n + col]

becomes, where all of it lies within the arrays (else each access is looked at),

    .log(shape of the loop); .log(first of a); .log(first of b)
    for i, .1, .2 in zip(range(k), .r1[first : last + 1], .r2[first : last + 1 : n]):
        acc += .1 * .2

Nothing in the body can change what it reads, wait, or leave the loop.
"""

from __future__ import annotations

import ast
import copy
from dataclasses import dataclass

from . import names
from .kinds import POSITIVE, WHOLE
from .loops import HEADER
from .nodes import (
    assign,
    at,
    between,
    both,
    call,
    compare,
    const,
    load,
    plus,
    times,
    tuple_of,
    value,
    walrus,
)
from .places import SITES, Entity, position
from .stores import Stores

SHORT, LONG = 3, 1 << 16  # turns of a loop; up to this and beyond that, one by one
MOST = 8  # accesses in a turn
_RECKONS = (ast.Add, ast.Sub, ast.Mult)
_HARMLESS = (min, max, abs, float)


class Odd(Exception):
    """A loop is not so plain."""


@dataclass
class Walk:
    """An access in such a loop: a[part, part + coefficient * i, part].

    axis: the part that moves (-1: none). name: the local that holds the element.
    """

    node: ast.Subscript
    entity: Entity
    array: ast.expr
    parts: list[ast.expr]
    axis: int
    coefficient: ast.expr
    name: str


@dataclass
class Count:
    """What a loop counts: how many turns, the first, by how many, and range(...)."""

    turns: ast.expr
    first: ast.expr
    step: ast.expr
    counted: ast.expr


class PlainLoops(Stores):
    """What becomes of loops as above."""

    def at_once(self, node: ast.For, slow: ast.For) -> list[ast.stmt] | None:
        """A loop and `slow`, for when it leaves the arrays; None if it is not plain."""
        counter = node.target.id
        bound = {counter, *map(_bound, node.body)}
        body = [copy.deepcopy(one) for one in node.body]
        walks: list[Walk] = []
        try:
            for one in body:
                one.value = self.plain_value(one.value, counter, bound, walks)
            if not 0 < len(walks) <= MOST:
                return None
            before, count = self.counted(node.iter)
            way = Way()
            if value(count.turns) is None:
                way.tests.append(between(SHORT, count.turns, LONG))
            moves = [self.walked(walk, count, counter, way) for walk in walks]
        except Odd:
            return None
        logs = self.logs(walks, moves, count) if self.checks else []
        logs = [at(one, node.iter) for one in [*way.found, *logs]]
        made = [*logs, *self.fast(node, walks, way.values, count, self.suite(body))]
        slow.iter = at(count.counted, node.iter)
        if way.tests:
            made = [ast.If(both(*way.tests), made, [slow])]
        return [at(one, node.iter) for one in [*before, *made]]

    def logs(
        self, walks: list[Walk], moves: list[tuple[ast.expr, ast.expr]], count: Count
    ) -> list[ast.stmt]:
        """What is written down before the loop begins."""
        name = f".shape{len(self.program.loops)}"
        self.program.loops.append(name)
        key = ast.Tuple([count.turns, *(step for _, step in moves)], ast.Load())
        made = [self.logged(ast.Subscript(self.own(name), key, ast.Load()), HEADER)]
        for walk, (first, _) in zip(walks, moves):
            site = self.variant.places[position(walk.node)].number
            made.append(self.logged(first, site))
        return made

    def logged(self, element: ast.expr, site: int) -> ast.stmt:
        """.log(element * SITES + site)"""
        packed = plus(times(element, const(SITES)), const(site))
        return ast.Expr(ast.Call(self.own(".log"), [packed], []))

    def fast(
        self,
        node: ast.For,
        walks: list[Walk],
        values: list[ast.expr],
        count: Count,
        body: list[ast.stmt],
    ) -> list[ast.stmt]:
        """The loop with its elements at hand."""
        made: list[ast.stmt] = []
        targets: list[ast.expr] = [node.target]
        columns = [count.counted]
        for walk, found in zip(walks, values):
            if walk.axis < 0:
                made.append(at(assign(walk.name, found), walk.node))
            else:
                targets.append(ast.Name(walk.name, ast.Store()))
                columns.append(at(found, walk.node))
        counted: ast.expr = columns[0]
        target: ast.expr = targets[0]
        if len(columns) > 1:
            counted = ast.Call(self.own(".zip"), columns, [])
            target = ast.Tuple(targets, ast.Store())
        return [*made, at(ast.For(target, at(counted, node.iter), body, []), node)]

    # ---- what is plain ----

    def plain_value(
        self, node: ast.expr, counter: str, bound: set[str], walks: list[Walk]
    ) -> ast.expr:
        """An expression of the body with a local for each element; Odd if it is not."""
        if isinstance(node, ast.Subscript):
            walk = self.walk(node, counter, bound)
            walks.append(walk)
            return at(load(walk.name), node)
        fits = isinstance(node, (ast.Constant, ast.Name, ast.UnaryOp, ast.Compare))
        if isinstance(node, ast.BinOp):
            fits = isinstance(node.op, _RECKONS)
        elif isinstance(node, ast.Call):
            fits = self.harmless(node)
            node.args = [self.plain_value(a, counter, bound, walks) for a in node.args]
        elif isinstance(node, ast.Attribute):
            fits = (self.path(node) or "").endswith((".x", ".y", ".z"))
        if not fits:
            raise Odd
        if isinstance(node, ast.Compare):
            parts = [node.left, *node.comparators]
            if len(parts) > 2:  # the last of them may never be looked at
                raise Odd
        if isinstance(node, (ast.BinOp, ast.UnaryOp, ast.Compare)):
            for name, old in ast.iter_fields(node):
                if isinstance(old, ast.expr):
                    setattr(node, name, self.plain_value(old, counter, bound, walks))
                elif name == "comparators":
                    node.comparators = [
                        self.plain_value(o, counter, bound, walks) for o in old
                    ]
        return node

    def harmless(self, node: ast.Call) -> bool:
        """Whether a call neither waits nor fails nor touches memory."""
        if node.keywords or any(isinstance(a, ast.Starred) for a in node.args):
            return False
        meaning = self.meaning(node.func)
        if names.math_name(meaning) is not None or names.is_number_type(meaning):
            return True
        return any(meaning is one for one in _HARMLESS)

    def walk(self, node: ast.Subscript, counter: str, bound: set[str]) -> Walk:
        """An access of a plain loop; Odd if it is none."""
        base, parts = self.chain(node)
        entity = self.static(base, parts)
        if entity is None or not isinstance(base, ast.Name) or base.id in bound:
            raise Odd
        if any(self.variant.kinds(part) < WHOLE for part in parts):
            raise Odd
        slopes = [self.slope(part, counter, bound) for part in parts]
        moving = [i for i, slope in enumerate(slopes) if value(slope) != 0]
        if len(moving) > 1:
            raise Odd
        axis = moving[0] if moving else -1
        array: ast.expr = self.own(f".r{entity.number}")
        if entity.origin == "local":
            array = load(f".r{entity.number}" if self.checks else base.id)
        elif entity.origin == "shared":
            array = self.own(f".f{entity.number}")
        name = self.temporary()
        self.local.add(name)
        slope = slopes[axis] if moving else const(0)
        return Walk(node, entity, array, parts, axis, slope, name)

    def slope(self, node: ast.expr, counter: str, bound: set[str]) -> ast.expr:
        """By how much a whole number changes as the counter grows by 1."""
        if isinstance(node, ast.Name):
            if node.id == counter:
                return const(1)
            if node.id in bound:
                raise Odd
            return const(0)
        if isinstance(node, ast.Constant) or self.path(node):
            return const(0)
        if isinstance(node, ast.UnaryOp):
            inner = self.slope(node.operand, counter, bound)
            if isinstance(node.op, ast.USub):
                return times(const(-1), inner)
            fixed = [inner]
        elif isinstance(node, ast.BinOp):
            left = self.slope(node.left, counter, bound)
            right = self.slope(node.right, counter, bound)
            if isinstance(node.op, ast.Add):
                return plus(left, right)
            if isinstance(node.op, ast.Sub):
                return plus(left, times(const(-1), right))
            if isinstance(node.op, ast.Mult) and value(left) == 0:
                return times(self.known(node.left), right)
            if isinstance(node.op, ast.Mult) and value(right) == 0:
                return times(left, self.known(node.right))
            fixed = [left, right]
        else:
            raise Odd
        if any(value(one) != 0 for one in fixed):
            raise Odd
        return const(0)

    def known(
        self, node: ast.expr, counter: str = "", first: ast.expr | None = None
    ) -> ast.expr:
        """A whole number, rewritten: with its constants, and `first` as the counter."""
        if isinstance(node, ast.Name):
            if node.id == counter and first is not None:
                return copy.deepcopy(first)
            found = None if node.id in self.local else self.meaning(node)
            return const(found) if type(found) is int else self.visit(copy.copy(node))
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Mult)):
            form = plus if isinstance(node.op, ast.Add) else times
            sides = [self.known(n, counter, first) for n in (node.left, node.right)]
            return form(*sides)
        if isinstance(node, ast.BinOp):
            left, right = (
                self.known(n, counter, first) for n in (node.left, node.right)
            )
            return ast.BinOp(left, node.op, right)
        if isinstance(node, ast.UnaryOp):
            return ast.UnaryOp(node.op, self.known(node.operand, counter, first))
        return self.visit(copy.deepcopy(node))

    # ---- what is emitted ----

    def counted(self, node: ast.expr) -> tuple[list[ast.stmt], Count]:
        """What is to be done before a loop, and what it counts; Odd if unclear."""
        kinds = self.variant.kinds
        if not isinstance(node, ast.Call) or kinds.value_of(node.func) is not range:
            raise Odd
        if node.keywords or not all(kinds(arg) >= WHOLE for arg in node.args):
            raise Odd
        arguments = [self.known(arg) for arg in node.args]
        if len(arguments) == 1:
            before: list[ast.stmt] = []
            turns = arguments[0]
            if value(turns) is None and not isinstance(turns, ast.Name):
                name = self.temporary()
                before, turns = [assign(name, turns)], load(name)
            known = value(turns)
            if known is not None and not SHORT < known <= LONG:
                raise Odd
            return before, Count(turns, const(0), const(1), call("range", turns))
        counted, turns = self.temporary(), self.temporary()
        before = [
            assign(counted, call("range", *arguments)),
            assign(turns, ast.Call(self.own(".len"), [load(counted)], [])),
        ]
        first = ast.Subscript(load(counted), const(0), ast.Load())
        step: ast.expr = const(1)
        if len(arguments) == 3:
            step = arguments[2]
            if value(step) is None:
                step = ast.Attribute(load(counted), "step", ast.Load())
        return before, Count(load(turns), first, step, load(counted))

    def side(self, entity: Entity, axis: int) -> ast.expr:
        """How long an array is."""
        if entity.origin in ("shared", "local") and not entity.dynamic:
            return const(entity.shape[axis])
        return self.own(f".d{entity.number}_{axis}")

    def walked(
        self, walk: Walk, count: Count, counter: str, way: Way
    ) -> tuple[ast.expr, ast.expr]:
        """(the first element, by how many it moves); adds its tests and its value."""
        entity, last = walk.entity, const(0)
        step = times(walk.coefficient, count.step)
        turns = plus(count.turns, const(-1))
        if (value(step) or 0) < 0:
            raise Odd
        parts: list[ast.expr] = []
        for axis, part in enumerate(walk.parts):
            first = self.named(self.known(part, counter, count.first), way)
            if self.variant.kinds(part) < POSITIVE:
                way.test(first, ast.GtE(), const(0))
            end = first
            if axis == walk.axis:
                reached = plus(way.use(first), times(turns, step))
                end = last = self.named(reached, way)
                if value(step) is None:
                    way.test(last, ast.Gt(), first)
            way.test(end, ast.Lt(), self.side(entity, axis))
            parts.append(first)
        flat, room, far = const(0), const(1), const(0)
        for axis in reversed(range(len(parts))):
            flat = plus(times(parts[axis], room), flat)
            if axis == walk.axis:
                far = times(step, room)
            room = times(self.side(entity, axis), room)
        shared = entity.origin == "shared"
        if (shared or self.checks) and not isinstance(flat, (ast.Name, ast.Constant)):
            name = self.temporary()
            way.found.append(assign(name, flat))
            flat = load(name)
        if walk.axis >= 0 and shared:
            parts = [
                ast.Slice(flat, plus(plus(flat, times(turns, far)), const(1)), far)
            ]
        elif walk.axis >= 0:
            end = plus(last, const(1))
            parts[walk.axis] = ast.Slice(parts[walk.axis], end, step)
        elif shared:
            parts = [flat]
        way.values.append(ast.Subscript(walk.array, tuple_of(parts), ast.Load()))
        return flat, far

    def named(self, node: ast.expr, way: Way) -> ast.expr:
        """A local or a number for a value, which is found where it is used first."""
        if isinstance(node, (ast.Name, ast.Constant)):
            return node
        name = self.temporary()
        way.later[name] = node
        return load(name)


class Way:
    """What is found out before a loop begins.

    tests: whether it stays within the arrays. later: values of locals that are found
    where they are tested. found: statements after the tests. values: the elements.
    """

    def __init__(self) -> None:
        self.tests: list[ast.expr] = []
        self.later: dict[str, ast.expr] = {}
        self.found: list[ast.stmt] = []
        self.values: list[ast.expr] = []

    def use(self, node: ast.expr) -> ast.expr:
        """A value, the first time found."""
        if isinstance(node, ast.Name) and node.id in self.later:
            return walrus(node.id, self.later.pop(node.id))
        return node

    def test(self, a: ast.expr, how: ast.cmpop, b: ast.expr) -> None:
        """Test a < b or the like, where it is not known by now."""
        x, y = value(a), value(b)
        if x is not None and y is not None:
            if not {ast.GtE: x >= y, ast.Gt: x > y, ast.Lt: x < y}[type(how)]:
                raise Odd
            return
        self.tests.append(compare(self.use(a), how, b))


def is_simple(node: ast.For) -> bool:
    """Whether a loop's body does nothing but give names values."""
    if node.orelse or not isinstance(node.target, ast.Name):
        return False
    bound = [_bound(one) for one in node.body]
    return None not in bound and node.target.id not in bound


def _bound(node: ast.stmt) -> str | None:
    """The name that a statement assigns to; None if it does anything else."""
    target = node.target if isinstance(node, ast.AugAssign) else None
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        target = node.targets[0]
    return target.id if isinstance(target, ast.Name) else None
