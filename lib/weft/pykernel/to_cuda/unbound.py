"""Locals that are read where a branch may have left them without a value.

Python raises UnboundLocalError there, C reads 0. Loops are taken to run, and a branch
under the same condition as the assignment has the value: what is told is what nobody
can have meant.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .types import Scalar

if TYPE_CHECKING:
    from .unit import Unit


@dataclass(frozen=True)
class Unbound:
    """A name where it is read, and the condition that gave it its value."""

    node: ast.Name
    test: str


def warn(unit: Unit) -> None:
    """A UserWarning at each such line of a translated function."""
    names = {
        name
        for name in unit.scope.assigned() - set(unit.parameters) - set(unit.extents)
        if isinstance(unit.variables.get(name), Scalar)
    }
    for one in find_unbound(unit.tree, names):
        name, function = one.node.id, unit.function.__name__
        text = (
            f"{function}: {name} is read here and has no value unless {one.test}: sim "
            f"raises UnboundLocalError, C reads 0; assign it before the if"
        )
        file = unit.source.file or function
        warnings.warn_explicit(text, UserWarning, file, one.node.lineno)


def find_unbound(tree: ast.FunctionDef, names: set[str]) -> list[Unbound]:
    """The first such read of each of these locals of a function."""
    look = _Look(names)
    look.block(tree.body, set())
    return list(look.found.values())


@dataclass
class _Look:
    names: set[str]
    found: dict[str, Unbound] = field(default_factory=dict)
    given: dict[str, set[str]] = field(default_factory=dict)  # by condition

    def block(self, body: list[ast.stmt], have: set[str]) -> set[str] | None:
        """The names that have a value behind a block; None: nothing gets there."""
        have = set(have)
        for one in body:
            if isinstance(one, ast.If):
                after = self._branches(one, have)
                if after is None:
                    return None
                have = after
            elif isinstance(one, (ast.For, ast.While)):
                self._reads(one.iter if isinstance(one, ast.For) else one.test, have)
                # A turn has what the one before it may have left.
                have |= {n for part in one.body for n in _list_stored(part)}
                self.block(one.body, have)
            elif isinstance(one, (ast.Break, ast.Continue)):
                return None
            else:
                self._reads(one, have)
                have |= set(_list_stored(one))
                if isinstance(one, ast.Return):
                    return None
        return have

    def _branches(self, one: ast.If, have: set[str]) -> set[str] | None:
        self._reads(one.test, have)
        test, against = ast.unparse(one.test), _negate_condition(one.test)
        known = have.union(*(self.given.get(t, ()) for t in _split_condition(one.test)))
        other = have | self.given.get(against, set())
        yes, no = self.block(one.body, known), self.block(one.orelse, other)
        if yes is None or no is None:
            return no if yes is None else yes
        self.given.setdefault(test, set()).update(yes - no)
        self.given.setdefault(against, set()).update(no - yes)
        return yes & no

    def _reads(self, node: ast.AST, have: set[str]) -> None:
        for part in ast.walk(node):
            if not isinstance(part, ast.Name) or part.id in have | set(self.found):
                continue
            added = isinstance(node, ast.AugAssign) and part is node.target
            if part.id not in self.names or not (
                isinstance(part.ctx, ast.Load) or added
            ):
                continue
            tests = [test for test, names in self.given.items() if part.id in names]
            if tests:  # else it is read before any assignment
                self.found[part.id] = Unbound(part, tests[0])


def _negate_condition(test: ast.expr) -> str:
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return ast.unparse(test.operand)
    return ast.unparse(ast.UnaryOp(ast.Not(), test))


def _split_condition(test: ast.expr) -> Iterator[str]:
    """A condition, and those that it says all of."""
    yield ast.unparse(test)
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        for value in test.values:
            yield from _split_condition(value)


def _list_stored(node: ast.AST) -> Iterator[str]:
    for part in ast.walk(node):
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
            yield part.id
