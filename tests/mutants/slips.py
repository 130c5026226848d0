"""Mutants of a function: its text with one slip each.

A slip is a constant, a bound or an index off by one, a zero, another comparison or
operator, or exchanged indices. It may also be `and` for `or`, min() for max(), a
condition without one of its sides or with a constant value, or a missing statement.
"""

import ast
import copy
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

COMPARISONS = ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq
OPERATORS = {
    ast.Add: [ast.Sub, ast.Mult],
    ast.Sub: [ast.Add],
    ast.Mult: [ast.Add, ast.FloorDiv],
    ast.MatMult: [ast.Mult],
    ast.Div: [ast.Mult],
    ast.FloorDiv: [ast.Mult, ast.Mod],
    ast.Mod: [ast.FloorDiv],
    ast.BitAnd: [ast.BitOr],
    ast.BitOr: [ast.BitAnd],
    ast.BitXor: [ast.BitOr],
    ast.LShift: [ast.RShift],
    ast.RShift: [ast.LShift],
}
NAMES = {"min": "max", "floor": "ceil", "sin": "cos", "x": "y"}
NAMES |= {new: old for old, new in NAMES.items()}
Slip = tuple[ast.AST, ast.AST]  # the original node, and its replacement


@dataclass(frozen=True)
class Mutant:
    """slip: the statement -> its replacement; with #2 if it is the second such
    statement. source: the text of the whole function."""

    slip: str
    source: str


def mutants(source: str) -> list[Mutant]:
    """Return every distinct function that differs from this one by one slip."""
    tree = ast.parse(source)
    sources, variants, times = {ast.unparse(tree)}, [], Counter()
    for statement in _statements(tree):
        before = _head(statement)
        times[before] += 1
        position = f" #{times[before]}" if times[before] > 1 else ""
        for old, new in _slips(statement):
            memo = {id(old): new}
            text = ast.unparse(copy.deepcopy(tree, memo))
            if text not in sources:
                sources.add(text)
                after = _head(memo[id(statement)])
                variants.append(Mutant(f"{before}{position} -> {after}", text))
    return variants


def _statements(tree: ast.AST) -> list[ast.stmt]:
    """Return statements in source order; skip definitions, docstrings and jumps."""
    nodes = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.stmt)
        and not isinstance(node, ast.FunctionDef | ast.Pass | ast.Break | ast.Continue)
        and not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
    ]
    return sorted(nodes, key=lambda node: (node.lineno, node.col_offset))


def _head(statement: ast.stmt) -> str:
    """Return a statement's first line: the head of an `if` or a loop."""
    return ast.unparse(statement).partition("\n")[0]


# ---- slips -------------------------------------------------------------------------


def _slips(statement: ast.stmt) -> Iterator[Slip]:
    """Yield a statement's expressions, except those of the statements nested in it."""
    if not isinstance(statement, ast.Return):
        yield statement, ast.Pass()
    if isinstance(statement, ast.If):
        yield from ((statement.test, ast.Constant(now)) for now in (True, False))
    if isinstance(statement, ast.AugAssign):
        yield statement, ast.Assign([statement.target], statement.value, lineno=0)
        for other in OPERATORS.get(type(statement.op), ()):
            yield statement.op, other()
    for node in _expressions(statement):
        yield from ((node, new) for new in _others(node))
        yield from ((number, new) for number in _counts(node) for new in _near(number))


def _expressions(node: ast.AST) -> Iterator[ast.expr]:
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.stmt):
            if isinstance(child, ast.expr):
                yield child
            yield from _expressions(child)


def _others(node: ast.expr) -> Iterator[ast.expr]:
    """Yield expressions that a programmer might write by mistake for this one."""
    match node:
        case ast.Constant(value=int() | float()) if not isinstance(node.value, bool):
            for value in (node.value + 1, node.value - 1, 0):
                yield ast.Constant(value)
        case ast.Compare():
            for at in range(len(node.ops)):
                for other in COMPARISONS:
                    ops = [*node.ops[:at], other(), *node.ops[at + 1 :]]
                    yield ast.Compare(node.left, ops, node.comparators)
        case ast.BinOp():
            for other in OPERATORS.get(type(node.op), ()):
                yield ast.BinOp(node.left, other(), node.right)
        case ast.BoolOp():
            other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            yield ast.BoolOp(other, node.values)
            yield from node.values
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            yield node.operand
        case ast.IfExp():
            yield from (node.body, node.orelse)
        case ast.Call(func=ast.Name(id="range"), args=[end]):
            yield ast.Call(node.func, [ast.Constant(1), end], [])
        case ast.Name() if node.id in ("min", "max"):
            yield ast.Name(NAMES[node.id])
        case ast.Attribute() if node.attr in NAMES:
            yield ast.Attribute(node.value, NAMES[node.attr])
        case ast.Subscript(slice=ast.Tuple(elts=elements)):
            order = ast.Tuple(elements[::-1])
            yield ast.Subscript(node.value, order)
        case ast.Subscript():
            yield from _exchanged(node)


def _exchanged(node: ast.Subscript) -> Iterator[ast.Subscript]:
    """Yield a[row * n + col] with each pair of its names exchanged."""
    names = [each for each in ast.walk(node.slice) if isinstance(each, ast.Name)]
    for at, first in enumerate(names):
        for other in names[at + 1 :]:
            memo = {id(first): other, id(other): first}
            place = copy.deepcopy(node.slice, memo)
            if _ordered(place) != _ordered(node.slice):
                yield ast.Subscript(node.value, place)


def _ordered(node: ast.AST) -> object:
    """Return a key that is equal for expressions that differ only in the order of a sum
    or a product."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Mult):
        parts, todo = [], [node]
        while todo:
            part = todo.pop()
            if isinstance(part, ast.BinOp) and isinstance(part.op, type(node.op)):
                todo += [part.left, part.right]
            else:
                parts.append(str(_ordered(part)))
        return type(node.op).__name__, sorted(parts)
    children = [_ordered(child) for child in ast.iter_child_nodes(node)]
    return (type(node).__name__, children) if children else ast.dump(node)


def _counts(node: ast.expr) -> Iterator[ast.expr]:
    """Yield the bounds and indices in an expression, which are often off by one."""
    match node:
        case ast.Call(func=ast.Name(id="range")):
            yield from node.args
        case ast.Subscript(slice=ast.Tuple(elts=elements)):
            yield from elements
        case ast.Subscript():
            yield node.slice


def _near(node: ast.expr) -> Iterator[ast.expr]:
    """Yield the expression plus one and minus one; constants are handled elsewhere."""
    if not isinstance(node, ast.Constant | ast.Slice):
        yield ast.BinOp(node, ast.Add(), ast.Constant(1))
        yield ast.BinOp(node, ast.Sub(), ast.Constant(1))
