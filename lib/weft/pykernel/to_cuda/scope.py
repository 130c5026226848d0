"""Simplify a function's tree, place declarations of locals, and find unset locals.

Desugar reduces the kinds of statements to assignments with one target:

    row, col = cuda.grid(2)      row = cuda.grid(2)[0]; col = cuda.grid(2)[1]
    m, n = a.shape               m = a.shape[0]; n = a.shape[1]
    a, b = b, a                  a_old = a; a = b; b = a_old
    a = b = x                    b = x; a = b
    q, r = divmod(x, y)          q = x // y; r = x % y
    for v in (-1, 0, 1):         for v in range(-1, 2):

The new statements have the old one's position in the source, and `together` marks them.

Scope finds where C declares a local. The place is the local's first assignment if all
other uses are later and in the same block. Otherwise the declaration precedes the
statement that contains all uses.

warn() reports reads of a local without a value. Python raises UnboundLocalError for
them, but C reads 0. warn() reports only code that must be a mistake. It therefore
assumes that every loop runs at least once. If a local is assigned under a condition,
it assumes that the local has a value in later branches under this condition.
"""

from __future__ import annotations

import ast
import copy
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..trees import as_range, get_name, list_bound
from .types import ScalarType, TranslationError

if TYPE_CHECKING:
    from .unit import Unit


class Desugar(ast.NodeTransformer):
    """The rewriter of one function's statements. See the top of the file."""

    def __init__(self, source, name: str) -> None:
        self.source, self.name = source, name
        self.taken = {n.id for n in ast.walk(source.tree) if isinstance(n, ast.Name)}
        self.taken |= {a.arg for a in source.tree.args.args}

    def function(self) -> ast.FunctionDef:
        """Rewrite the definition in place, and return it."""
        tree = self.source.tree
        tree.body = self._block(tree.body)
        return tree

    def _block(self, body: list[ast.stmt]) -> list[ast.stmt]:
        out: list[ast.stmt] = []
        for one in body:
            result = self.visit(one)
            out += result if isinstance(result, list) else [result]
        return out

    def generic_visit(self, node: ast.AST) -> ast.AST:
        for part in ("body", "orelse"):
            block = getattr(node, part, None)
            if isinstance(block, list):
                setattr(node, part, self._block(block))
        return node

    def visit_For(self, node: ast.For):
        node.iter = as_range(node.iter)
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign):
        if node.value is None:
            return []
        assignment = ast.Assign([node.target], node.value)
        return self.visit(ast.copy_location(assignment, node))

    def visit_Assign(self, node: ast.Assign):
        pairs: list[tuple[ast.expr, ast.expr]] = []
        *earlier_targets, last = node.targets
        self._pairs(last, node.value, pairs)
        if earlier_targets and isinstance(last, ast.Tuple):
            self._fail("several targets with tuples", "assign them one by one", node)
        for target in reversed(earlier_targets):
            copy_of_last = copy.deepcopy(last)
            copy_of_last.ctx = ast.Load()
            simple = isinstance(node.value, (ast.Constant, ast.Name))
            self._pairs(target, node.value if simple else copy_of_last, pairs)
        assignments = self._ordered(pairs, len(node.targets) == 1)
        for one in assignments:
            ast.copy_location(one, node)
            ast.fix_missing_locations(one)
            one.together = node if len(assignments) > 1 else None
        return assignments

    def _pairs(self, target, value, out) -> None:
        if not isinstance(target, (ast.Tuple, ast.List)):
            out.append((target, value))
            return
        count = len(target.elts)
        if any(isinstance(t, ast.Starred) for t in target.elts):
            self._fail("a starred target", "name every value", target)
        if isinstance(value, (ast.Tuple, ast.List)):
            parts = value.elts
            if len(parts) != count:
                what = f"{count} targets and {len(parts)} values"
                self._fail(what, "as many values as targets", value)
        elif (
            isinstance(value, ast.Call)
            and isinstance(value.func, ast.Name)
            and value.func.id == "divmod"
            and count == len(value.args) == 2
        ):
            operations = ast.FloorDiv(), ast.Mod()
            parts = [ast.BinOp(value.args[0], op, value.args[1]) for op in operations]
            parts = [ast.copy_location(copy.deepcopy(one), value) for one in parts]
        else:
            parts = []
            for i in range(count):
                array = copy.deepcopy(value)
                part = ast.Subscript(array, ast.Constant(i), ast.Load())
                part.unpacked = count
                parts.append(ast.copy_location(part, value))
        for t, v in zip(target.elts, parts):
            self._pairs(t, v, out)

    def _ordered(self, pairs, together: bool) -> list[ast.stmt]:
        """Return the assignments in order, with copies of overwritten values."""
        if len(pairs) == 1 or not together:
            return [ast.Assign([t], v) for t, v in pairs]
        before, after = [], []
        for i, (target, value) in enumerate(pairs):
            stored = [ast.unparse(t) for t, _ in pairs[:i]]
            used = {ast.unparse(n) for n in ast.walk(value)}
            arrays = any(isinstance(t, ast.Subscript) for t, _ in pairs[:i])
            loads = any(isinstance(n, ast.Subscript) for n in ast.walk(value))
            if used & set(stored) or (arrays and loads):
                name = self._choose_name(value)
                before.append(ast.Assign([ast.Name(name, ast.Store())], value))
                value = ast.Name(name, ast.Load())
            after.append(ast.Assign([target], value))
        return before + after

    def _choose_name(self, value: ast.expr) -> str:
        base = next((n.id for n in ast.walk(value) if isinstance(n, ast.Name)), "old")
        name = f"{base}_old" if isinstance(value, ast.Name) else f"old_{base}"
        number = 2
        while name in self.taken:
            name = f"{name.rstrip('0123456789')}{number}"
            number += 1
        self.taken.add(name)
        return name

    def _fail(self, message: str, hint: str, node: ast.AST) -> None:
        raise TranslationError(message, hint, self.name, self.source, node)


@dataclass
class Use:
    """A place where a name occurs.

    path: for each enclosing block, from the function's body inwards, the block's id,
        and the index of the statement in the block.
    """

    node: ast.Name
    path: tuple[tuple[int, int], ...]
    store: bool


@dataclass
class Home:
    """The place of a local's declaration: in statement `at` if inline, else before it.

    constant: whether no other statement assigns to the local.
    blank: whether the declaration must initialize it.
    """

    at: ast.stmt
    inline: bool
    constant: bool
    blank: bool


class Scope:
    """The locals of a function: their names, uses and homes."""

    def __init__(self, tree: ast.FunctionDef) -> None:
        self.blocks: dict[int, list[ast.stmt]] = {}
        self.loops: set[int] = set()  # ids of the blocks that are bodies of loops
        self.uses: dict[str, list[Use]] = {}
        self.loop_names: dict[str, list[ast.For]] = {}
        self._block(tree.body, ())

    def _block(self, body: list[ast.stmt], path) -> None:
        self.blocks[id(body)] = body
        for number, one in enumerate(body):
            position = (*path, (id(body), number))
            for name, value in ast.iter_fields(one):
                if name in ("body", "orelse") and isinstance(value, list):
                    if isinstance(one, (ast.For, ast.While)):
                        self.loops.add(id(value))
                    self._block(value, position)
                elif name == "target" and isinstance(one, ast.For):
                    if isinstance(value, ast.Name):
                        self.loop_names.setdefault(value.id, []).append(one)
                else:
                    self._names(one, value, position)

    def _names(self, statement: ast.stmt, value, path) -> None:
        nodes = value if isinstance(value, list) else [value]
        for node in nodes:
            if not isinstance(node, ast.AST):
                continue
            for name in ast.walk(node):
                if isinstance(name, ast.Name):
                    store = isinstance(name.ctx, ast.Store)
                    uses = self.uses.setdefault(name.id, [])
                    uses.append(Use(name, path, store))
                    if store and isinstance(statement, ast.AugAssign):
                        uses.append(Use(name, path, False))

    def assigned(self) -> set[str]:
        """Return the names that statements other than loops assign to."""
        return {n for n, uses in self.uses.items() if any(u.store for u in uses)}

    def read(self, name: str) -> bool:
        """Return whether the name is read, other than by += on the name itself."""
        for use in self.uses.get(name, ()):
            block, number = use.path[-1]
            one = self.blocks[block][number]
            own = isinstance(one, ast.AugAssign) and use.node is one.target
            if not use.store and not own:
                return True
        return False

    def home(self, name: str) -> Home:
        """Return where C declares the local `name`."""
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
        if self._always_sets(one, name):
            return Home(one, False, False, False)
        # Declare before the loop, since a value may come from the previous turn.
        for i in range(depth + 1):
            if common[i][0] in self.loops:
                depth = max(i - 1, 0)
                break
        block, number = common[depth]
        return Home(self.blocks[block][number], False, False, True)

    def _assigns(self, one: ast.stmt, name: str) -> bool:
        return get_name(one) == name and not _is_mentioned(one.value, name)

    def _always_sets(self, one: ast.stmt, name: str) -> bool:
        """Return whether `one` is an if/else that sets the name before any read."""
        if not isinstance(one, ast.If) or _is_mentioned(one.test, name):
            return False
        return all(self._sets(block, name) for block in (one.body, one.orelse))

    def _sets(self, block: list[ast.stmt], name: str) -> bool:
        for one in block:
            if self._assigns(one, name) or self._always_sets(one, name):
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
    """A read of a name, and a condition under which the name has a value."""

    node: ast.Name
    test: str


def warn(unit: Unit) -> None:
    """Issue a UserWarning at each read of a local that may have no value."""
    names = {
        name
        for name in unit.scope.assigned() - set(unit.parameters) - set(unit.extents)
        if isinstance(unit.variables.get(name), ScalarType)
    }
    search = _UnboundSearch(names)
    search.block(unit.tree.body, set())
    for one in search.unbound.values():
        name, function = one.node.id, unit.function.__name__
        text = (
            f"{function}: {name} is read here but has no value unless {one.test}: sim "
            f"raises UnboundLocalError, C reads 0; assign it before the if"
        )
        file = unit.source.file or function
        warnings.warn_explicit(text, UserWarning, file, one.node.lineno)


@dataclass
class _UnboundSearch:
    """A search for the first read, per local, of a local that may have no value."""

    names: set[str]
    unbound: dict[str, Unbound] = field(default_factory=dict)
    # By condition, the names that have a value if the condition is true.
    given: dict[str, set[str]] = field(default_factory=dict)

    def block(self, body: list[ast.stmt], have: set[str]) -> set[str] | None:
        """Return the names with a value after a block; None if unreachable."""
        have = set(have)
        for one in body:
            if isinstance(one, ast.If):
                have = self._branches(one, have)
                if have is None:
                    return None
            elif isinstance(one, (ast.For, ast.While)):
                self._reads(one.iter if isinstance(one, ast.For) else one.test, have)
                # In a loop, names may have values from the previous turn.
                have |= {n for part in one.body for n in list_bound(part)}
                self.block(one.body, have)
            elif isinstance(one, (ast.Break, ast.Continue)):
                return None
            else:
                self._reads(one, have)
                have |= set(list_bound(one))
                if isinstance(one, ast.Return):
                    return None
        return have

    def _branches(self, one: ast.If, have: set[str]) -> set[str] | None:
        self._reads(one.test, have)
        test, against = ast.unparse(one.test), _negate_condition(one.test)
        in_if = have.union(*(self.given.get(t, ()) for t in _split_condition(one.test)))
        in_else = have | self.given.get(against, set())
        yes, no = self.block(one.body, in_if), self.block(one.orelse, in_else)
        if yes is None or no is None:
            return no if yes is None else yes
        self.given.setdefault(test, set()).update(yes - no)
        self.given.setdefault(against, set()).update(no - yes)
        return yes & no

    def _reads(self, node: ast.AST, have: set[str]) -> None:
        for part in ast.walk(node):
            if not isinstance(part, ast.Name) or part.id in have | set(self.unbound):
                continue
            added = isinstance(node, ast.AugAssign) and part is node.target
            is_read = isinstance(part.ctx, ast.Load) or added
            tests = [test for test, names in self.given.items() if part.id in names]
            # A name without a test is assigned only after this read.
            if tests and is_read and part.id in self.names:
                self.unbound[part.id] = Unbound(part, tests[0])


def _negate_condition(test: ast.expr) -> str:
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return ast.unparse(test.operand)
    return ast.unparse(ast.UnaryOp(ast.Not(), test))


def _split_condition(test: ast.expr) -> Iterator[str]:
    """Yield a condition and, if it is an `and`, the parts that it implies."""
    yield ast.unparse(test)
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        for value in test.values:
            yield from _split_condition(value)
