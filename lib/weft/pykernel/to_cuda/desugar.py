"""A function's tree with fewer kinds of statements: one target to an assignment.

    row, col = cuda.grid(2)      row = cuda.grid(2)[0]; col = cuda.grid(2)[1]
    m, n = a.shape               m = a.shape[0]; n = a.shape[1]
    a, b = b, a                  a_old = a; a = b; b = a_old
    a = b = x                    b = x; a = b
    q, r = divmod(x, y)          q = x // y; r = x % y
    for v in (-1, 0, 1):         for v in range(-1, 2):

Statements that come of one keep its place in the source; `together` marks them.
"""

from __future__ import annotations

import ast
import copy

from ..language.kernel import as_range
from .errors import TranslationError


class Desugar(ast.NodeTransformer):
    """Rewrites one function. fail(message, hint, node) raises."""

    def __init__(self, source, name: str) -> None:
        self.source, self.name = source, name
        self.taken = {n.id for n in ast.walk(source.tree) if isinstance(n, ast.Name)}
        self.taken |= {a.arg for a in source.tree.args.args}

    def function(self) -> ast.FunctionDef:
        """The definition, rewritten in place."""
        tree = self.source.tree
        tree.body = self._block(tree.body)
        return tree

    def _block(self, body: list[ast.stmt]) -> list[ast.stmt]:
        out: list[ast.stmt] = []
        for one in body:
            made = self.visit(one)
            out += made if isinstance(made, list) else [made]
        return out

    def generic_visit(self, node: ast.AST) -> ast.AST:
        for field in ("body", "orelse"):
            block = getattr(node, field, None)
            if isinstance(block, list):
                setattr(node, field, self._block(block))
        return node

    def visit_For(self, node: ast.For):
        node.iter = as_range(node.iter)
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign):
        if node.value is None:
            return []
        made = ast.Assign([node.target], node.value)
        return self.visit(ast.copy_location(made, node))

    def visit_Assign(self, node: ast.Assign):
        pairs: list[tuple[ast.expr, ast.expr]] = []
        *others, last = node.targets
        self._pairs(last, node.value, pairs)
        if others and isinstance(last, ast.Tuple):
            self._fail("several targets with tuples", "assign them one by one", node)
        for target in reversed(others):
            again = copy.deepcopy(last)
            again.ctx = ast.Load()
            simple = isinstance(node.value, (ast.Constant, ast.Name))
            self._pairs(target, node.value if simple else again, pairs)
        made = self._ordered(pairs, len(node.targets) == 1)
        for one in made:
            ast.copy_location(one, node)
            ast.fix_missing_locations(one)
            one.together = node if len(made) > 1 else None
        return made

    def _pairs(self, target, value, out) -> None:
        if not isinstance(target, (ast.Tuple, ast.List)):
            out.append((target, value))
            return
        count = len(target.elts)
        if any(isinstance(t, ast.Starred) for t in target.elts):
            self._fail("a starred target", "name every value", target)
        if isinstance(value, (ast.Tuple, ast.List)):
            if len(value.elts) != count:
                self._fail(
                    f"{count} targets and {len(value.elts)} values",
                    "as many values as targets",
                    value,
                )
            parts = value.elts
        elif (
            isinstance(value, ast.Call)
            and isinstance(value.func, ast.Name)
            and value.func.id == "divmod"
            and count == len(value.args) == 2
        ):
            parts = [
                ast.copy_location(ast.BinOp(*_join_conditions(value.args, op)), value)
                for op in (ast.FloorDiv(), ast.Mod())
            ]
        else:
            parts = [
                ast.copy_location(
                    ast.Subscript(copy.deepcopy(value), ast.Constant(i), ast.Load()),
                    value,
                )
                for i in range(count)
            ]
            for part in parts:
                part.unpacked = count
        for t, v in zip(target.elts, parts):
            self._pairs(t, v, out)

    def _ordered(self, pairs, together: bool) -> list[ast.stmt]:
        """Assignments one after the other, with copies of what is lost on the way."""
        if len(pairs) == 1 or not together:
            return [ast.Assign([t], v) for t, v in pairs]
        before, after = [], []
        for i, (target, value) in enumerate(pairs):
            stored = [ast.unparse(t) for t, _ in pairs[:i]]
            used = {ast.unparse(n) for n in ast.walk(value)}
            arrays = any(isinstance(t, ast.Subscript) for t, _ in pairs[:i])
            loads = any(isinstance(n, ast.Subscript) for n in ast.walk(value))
            if used & set(stored) or (arrays and loads):
                name = self._name(value)
                made = ast.Assign([ast.Name(name, ast.Store())], value)
                before.append(made)
                value = ast.Name(name, ast.Load())
            after.append(ast.Assign([target], value))
        return before + after

    def _name(self, value: ast.expr) -> str:
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


def _join_conditions(args, op):
    return copy.deepcopy(args[0]), op, copy.deepcopy(args[1])
