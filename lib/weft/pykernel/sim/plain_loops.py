"""Loops that access elements in equal steps, and are logged when they begin.

A thread in a plain loop touches a[first], a[first + step], ... The log then contains
only the number of a LoopShape, with the loop's count and steps, and the first element
of each access.

    for i in range(k):
        acc += a[row * k + i] * b[i * n + col]

becomes the following if all accesses are within the arrays:

    .log(shape of the loop); .log(first of a); .log(first of b)
    for i, .1, .2 in zip(range(k), .r1[first : last + 1], .r2[first : last + 1 : n]):
        acc += .1 * .2

Otherwise the original loop runs, and logs and tests each access. The body must not
wait, leave the loop, write to arrays, or change a name in an index.
"""

from __future__ import annotations

import ast
import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..trees import get_name
from . import names
from .layout import SITES, position_of
from .names import (
    add_whole,
    assign,
    load,
    make_and,
    make_between,
    make_constant,
    multiply_whole,
    place_node,
    whole_value,
)
from .walks import (
    LONG,
    SHORT,
    LoopCount,
    NotPlain,
    Walk,
    Way,
    begin_walk,
    count_turns,
    find_walk,
)

if TYPE_CHECKING:
    from .rewrite import Rewriter


HEADER = SITES - 1  # replaces the site in an entry that contains a LoopShape


@dataclass(frozen=True)
class LoopShape:
    """A loop's number of turns, and the step of each access per turn, in elements."""

    count: int
    steps: tuple[int, ...]


class LoopShapes(dict):
    """A map from (count, step, step, ...) to the number of this LoopShape."""

    def __init__(self, known: list[LoopShape]) -> None:
        super().__init__()
        self.known = known

    def __missing__(self, key: tuple[int, ...]) -> int:
        number = self[key] = len(self.known)
        self.known.append(LoopShape(key[0], key[1:]))
        return number


class Table:
    """LoopShapes as columns.

    width: number of accesses per turn.
    rows: number of accesses in all turns.
    steps: step of each access per turn, in elements.
    """

    def __init__(self, shapes: list[LoopShape]) -> None:
        self.width = np.array([len(s.steps) for s in shapes])
        self.rows = self.width * np.array([s.count for s in shapes])
        self.steps = np.zeros((len(shapes), int(self.width.max())), np.int64)
        for number, shape in enumerate(shapes):
            self.steps[number, : len(shape.steps)] = shape.steps

    def lengths(self, packed: np.ndarray, cut: bool = False) -> np.ndarray:
        """Return each entry's number of rows. A loop's header has all rows of the loop.

        cut: whether the last loop may be incomplete.
        """
        headers = np.flatnonzero(packed & (SITES - 1) == HEADER)
        times = np.ones(len(packed), np.int64)
        if len(headers):
            shape = packed[headers] // SITES
            width = self.width[shape]
            begins = np.repeat(headers + 1 - (np.cumsum(width) - width), width)
            inside = begins + np.arange(len(begins))
            times[inside[inside < len(packed)] if cut else inside] = 0
            times[headers] = self.rows[shape]
        return times

    def unrolled(self, packed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Expand entries to rows; return each row's entry number, and the rows."""
        times = self.lengths(packed)
        source = np.repeat(np.arange(len(packed)), times)
        row = packed[source]
        looped = np.flatnonzero(row & (SITES - 1) == HEADER)
        if len(looped):
            header, shape = source[looped], row[looped] // SITES
            begins = np.cumsum(times) - times
            turn, access = np.divmod(looped - begins[header], self.width[shape])
            moved = turn * self.steps[shape, access]
            row[looped] = packed[header + 1 + access] + moved * SITES
        return source, row


MOST = 8  # maximum number of accesses per turn
_RECKONS = (ast.Add, ast.Sub, ast.Mult)
_HARMLESS = (min, max, abs, float)


def rewrite_plain_loop(
    rewriter: Rewriter, node: ast.For, slow: ast.For
) -> list[ast.stmt] | None:
    """Rewrite a plain loop; return None if the loop is not plain.

    slow: the loop to run if an access would be outside its array, or if the number of
        turns is unsuitable (SHORT, LONG).
    """
    counter = node.target.id
    bound = {counter, *map(_bound, node.body)}
    body = [copy.deepcopy(one) for one in node.body]
    walks: list[Walk] = []
    try:
        for one in body:
            one.value = replace_elements(rewriter, one.value, counter, bound, walks)
        if not 0 < len(walks) <= MOST:
            return None
        before, count = count_turns(rewriter, node.iter)
        way = Way()
        if whole_value(count.turns) is None:
            way.tests.append(make_between(SHORT, count.turns, LONG))
        moves = [begin_walk(rewriter, walk, count, counter, way) for walk in walks]
    except NotPlain:
        return None
    logs = log_walks(rewriter, walks, moves, count) if rewriter.checks else []
    loop = [place_node(one, node.iter) for one in [*way.statements, *logs]]
    body = rewriter.suite(body)
    loop += build_fast_loop(rewriter, node, walks, way.values, count, body)
    slow.iter = place_node(count.counted, node.iter)
    if way.tests:
        loop = [ast.If(make_and(*way.tests), loop, [slow])]
    return [place_node(one, node.iter) for one in [*before, *loop]]


def log_walks(
    rewriter: Rewriter,
    walks: list[Walk],
    moves: list[tuple[ast.expr, ast.expr]],
    count: LoopCount,
) -> list[ast.stmt]:
    """Return the statements that log the whole loop before it begins."""
    name = f".shape{len(rewriter.program.loops)}"
    rewriter.program.loops.append(name)
    key = ast.Tuple([count.turns, *(step for _, step in moves)], ast.Load())
    shape = ast.Subscript(rewriter.own(name), key, ast.Load())
    entries = [log_element(rewriter, shape, HEADER)]
    for walk, (first, _) in zip(walks, moves):
        site = rewriter.variant.places[position_of(walk.node)].number
        entries.append(log_element(rewriter, first, site))
    return entries


def log_element(rewriter: Rewriter, element: ast.expr, site: int) -> ast.stmt:
    """Build .log(element * SITES + site)."""
    scaled = multiply_whole(element, make_constant(SITES))
    packed = add_whole(scaled, make_constant(site))
    return ast.Expr(rewriter.call(".log", packed))


def build_fast_loop(
    rewriter: Rewriter,
    node: ast.For,
    walks: list[Walk],
    values: list[ast.expr],
    count: LoopCount,
    body: list[ast.stmt],
) -> list[ast.stmt]:
    """Build the loop that receives its elements from zip()."""
    before: list[ast.stmt] = []
    targets: list[ast.expr] = [node.target]
    columns = [count.counted]
    for walk, value in zip(walks, values):
        if walk.axis < 0:
            before.append(place_node(assign(walk.name, value), walk.node))
        else:
            targets.append(ast.Name(walk.name, ast.Store()))
            columns.append(place_node(value, walk.node))
    counted, target = columns[0], targets[0]
    if len(columns) > 1:
        counted = rewriter.call(".zip", *columns)
        target = ast.Tuple(targets, ast.Store())
    loop = ast.For(target, place_node(counted, node.iter), body, [])
    return [*before, place_node(loop, node)]


def replace_elements(
    rewriter: Rewriter, node: ast.expr, counter: str, bound: set[str], walks: list[Walk]
) -> ast.expr:
    """Replace each array element in an expression with a local, or raise NotPlain."""
    if isinstance(node, ast.Subscript):
        walk = find_walk(rewriter, node, counter, bound)
        walks.append(walk)
        return place_node(load(walk.name), node)

    def replace(part: ast.expr) -> ast.expr:
        return replace_elements(rewriter, part, counter, bound, walks)

    if isinstance(node, ast.BinOp) and isinstance(node.op, _RECKONS):
        node.left, node.right = replace(node.left), replace(node.right)
    elif isinstance(node, ast.UnaryOp):
        node.operand = replace(node.operand)
    elif isinstance(node, ast.Compare) and len(node.ops) == 1:
        # In a chain of comparisons, Python may skip the later operands.
        node.left = replace(node.left)
        node.comparators = [replace(node.comparators[0])]
    elif isinstance(node, ast.Call) and is_harmless(rewriter, node):
        node.args = [replace(arg) for arg in node.args]
    elif not isinstance(node, (ast.Constant, ast.Name)) and not is_axis(rewriter, node):
        raise NotPlain
    return node


def is_axis(rewriter: Rewriter, node: ast.expr) -> bool:
    """Return whether a node is a number such as cuda.threadIdx.x."""
    return (rewriter.path(node) or "").endswith((".x", ".y", ".z"))


def is_harmless(rewriter: Rewriter, node: ast.Call) -> bool:
    """Return whether a call cannot wait, fail or touch memory."""
    if node.keywords or any(isinstance(a, ast.Starred) for a in node.args):
        return False
    meaning = rewriter.meaning(node.func)
    if names.math_name(meaning) is not None or names.is_number_type(meaning):
        return True
    return any(meaning is one for one in _HARMLESS)


def is_simple(node: ast.For) -> bool:
    """Return whether a loop's body only assigns to names."""
    if node.orelse or not isinstance(node.target, ast.Name):
        return False
    bound = [_bound(one) for one in node.body]
    return None not in bound and node.target.id not in bound


def _bound(node: ast.stmt) -> str | None:
    """Return the name that a statement assigns to; None for other statements."""
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        return node.target.id
    return get_name(node)
