"""Locals of a function: where C declares them, and which may have no value.

A local is declared where it is first assigned, if everything that is said of it lies
in that block and behind it; else before the statement in whose parts it occurs.

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

from .types import ScalarType

if TYPE_CHECKING:
    from .unit import Unit


Block = list  # of statements


@dataclass
class Use:
    """A place where a name occurs: the blocks around it, outermost first.

    path: (block, index of the statement in it) from the body down.
    """

    node: ast.Name
    path: tuple[tuple[int, int], ...]
    store: bool


@dataclass
class Home:
    """Where a local is declared: with the statement `at` if inline, else before it.

    constant: nothing is assigned to it again. blank: it must be given a value.
    """

    at: ast.stmt
    inline: bool
    constant: bool
    blank: bool


class Scope:
    """The locals of a function: names, how often they are used, their homes."""

    def __init__(self, tree: ast.FunctionDef) -> None:
        self.blocks: dict[int, Block] = {}
        self.loops: set[int] = set()  # blocks that are loops' bodies
        self.uses: dict[str, list[Use]] = {}
        self.loop_names: dict[str, list[ast.For]] = {}
        self._block(tree.body, ())

    def _block(self, body: Block, path) -> None:
        self.blocks[id(body)] = body
        for number, one in enumerate(body):
            here = (*path, (id(body), number))
            for name, value in ast.iter_fields(one):
                if name in ("body", "orelse") and isinstance(value, list):
                    if isinstance(one, (ast.For, ast.While)):
                        self.loops.add(id(value))
                    self._block(value, here)
                elif name == "target" and isinstance(one, ast.For):
                    if isinstance(value, ast.Name):
                        self.loop_names.setdefault(value.id, []).append(one)
                else:
                    self._names(one, value, here)

    def _names(self, statement: ast.stmt, value, path) -> None:
        nodes = value if isinstance(value, list) else [value]
        for node in nodes:
            if not isinstance(node, ast.AST):
                continue
            for found in ast.walk(node):
                if isinstance(found, ast.Name):
                    store = isinstance(found.ctx, ast.Store)
                    use = Use(found, path, store)
                    self.uses.setdefault(found.id, []).append(use)
                    if store and isinstance(statement, ast.AugAssign):
                        self.uses[found.id].append(Use(found, path, False))

    def assigned(self) -> set[str]:
        """The names that something is assigned to, loops' own apart."""
        return {n for n, uses in self.uses.items() if any(u.store for u in uses)}

    def read(self, name: str) -> bool:
        """Whether anything reads the name (its own += apart)."""
        for use in self.uses.get(name, ()):
            block, number = use.path[-1]
            one = self.blocks[block][number]
            own = isinstance(one, ast.AugAssign) and use.node is one.target
            if not use.store and not own:
                return True
        return False

    def home(self, name: str) -> Home:
        """Where the local `name` is declared."""
        uses = self.uses[name]
        common = uses[0].path
        for use in uses[1:]:
            n = 0
            while n < min(len(common), len(use.path)) and (
                common[n][0] == use.path[n][0]
            ):
                n += 1
                if common[n - 1] != use.path[n - 1]:
                    break
            first = min(common[n - 1], use.path[n - 1], key=lambda at: at[1])
            common = (*common[: n - 1], first)
        stores = sum(u.store for u in uses)
        depth = len(common) - 1
        block, number = common[depth]
        one = self.blocks[block][number]
        if self._assigns(one, name):
            return Home(one, True, stores == 1, False)
        if self._surely(one, name):
            return Home(one, False, False, False)
        # Its value may come from the turn before: it lives outside of the loops.
        for i in range(depth + 1):
            if common[i][0] in self.loops:
                depth = max(i - 1, 0)
                break
        block, number = common[depth]
        return Home(self.blocks[block][number], False, False, True)

    def _assigns(self, one: ast.stmt, name: str) -> bool:
        return (
            isinstance(one, ast.Assign)
            and isinstance(one.targets[0], ast.Name)
            and one.targets[0].id == name
            and not any(
                isinstance(n, ast.Name) and n.id == name for n in ast.walk(one.value)
            )
        )

    def _surely(self, one: ast.stmt, name: str) -> bool:
        """Whether `one` is an if/else that gives it a value before it is read."""
        if (
            not isinstance(one, ast.If)
            or not one.orelse
            or _is_mentioned(one.test, name)
        ):
            return False
        return all(self._gives(block, name) for block in (one.body, one.orelse))

    def _gives(self, block: Block, name: str) -> bool:
        for one in block:
            if self._assigns(one, name) or self._surely(one, name):
                return True
            if isinstance(one, (ast.Return, ast.Continue, ast.Break)):
                return True
            if _is_mentioned(one, name):
                return False
        return False


def _is_mentioned(node: ast.AST, name: str) -> bool:
    return any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(node))


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
        if isinstance(unit.variables.get(name), ScalarType)
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
