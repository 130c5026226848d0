"""Which names and expressions of a kernel are whole numbers, and which never negative.

Only a Python int may be packed into the log as it is; anything else is converted
first. The lattice: POSITIVE (0 or more) > WHOLE (an int) > ANY.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

ANY, WHOLE, POSITIVE = 0, 1, 2

_SAME = (ast.Add, ast.Mult, ast.FloorDiv, ast.BitOr, ast.BitXor, ast.LShift, ast.RShift)
_PATHS = {"laneid", "warpsize"}
_CALLS = {"popc", "clz", "ffs", "brev", "ballot_sync", "activemask", "lanemask_lt"}


class Kinds:
    """The kinds of a function's locals, for given kinds of its parameters.

    path_of, value_of: what a name means (names.py), a node in, UNKNOWN or None out.
    returned: the kind of a call of a helper, the node and these Kinds in.
    """

    def __init__(
        self,
        tree: ast.FunctionDef,
        parameters: dict[str, int],
        path_of: Callable[[ast.expr], str | None],
        value_of: Callable[[ast.expr], Any],
        returned: Callable[[ast.Call, Kinds], int],
    ) -> None:
        self.path_of, self.value_of, self.returned = path_of, value_of, returned
        self.of: dict[str, int] = dict(parameters)
        self._changed = True
        bound = [n for n in ast.walk(tree) if isinstance(n, _BINDING)]
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
                self.of.setdefault(node.id, POSITIVE)
        while self._changed:
            self._changed = False
            for node in bound:
                self._bind(node)
        values = [n.value for n in ast.walk(tree) if isinstance(n, ast.Return)]
        self.result = min((self(v) if v else ANY for v in values), default=ANY)

    def __call__(self, node: ast.expr) -> int:
        """The kind of an expression."""
        method = getattr(self, f"_{type(node).__name__}", None)
        return method(node) if method else ANY

    # ---- what binds a name ----

    def _bind(self, node: ast.AST) -> None:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                self._assign(target, node.value)
        elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)) and node.value:
            self._assign(node.target, node.value)
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            load = ast.Name(node.target.id, ast.Load())
            self._lower(node.target, self(ast.BinOp(load, node.op, node.value)))
        elif isinstance(node, ast.For):
            self._lower(node.target, self._counted(node.iter))

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        if not isinstance(target, (ast.Tuple, ast.List)):
            return self._lower(target, self(value))
        if isinstance(value, ast.Tuple) and len(value.elts) == len(target.elts):
            for one, part in zip(target.elts, value.elts):
                self._assign(one, part)
            return
        kind = POSITIVE if self._sizes(value) else ANY
        for one in ast.walk(target):
            if isinstance(one, ast.Name):
                self._lower(one, kind)

    def _lower(self, target: ast.AST, kind: int) -> None:
        if isinstance(target, ast.Name) and kind < self.of[target.id]:
            self.of[target.id] = kind
            self._changed = True

    def _counted(self, node: ast.expr) -> int:
        """The kind of what a for loop counts."""
        if not (isinstance(node, ast.Call) and self.value_of(node.func) is range):
            return ANY
        kinds = [self(arg) for arg in node.args]
        if len(kinds) == 1:
            return POSITIVE
        rising = kinds[0] == POSITIVE and kinds[2:] in ([], [POSITIVE])
        return POSITIVE if rising else WHOLE

    def _sizes(self, node: ast.expr) -> bool:
        """x.shape, cuda.grid(2), cuda.gridsize(2): tuples of whole numbers."""
        if isinstance(node, ast.Attribute):
            return node.attr == "shape"
        called = isinstance(node, ast.Call) and self.path_of(node.func)
        return called in ("grid", "gridsize")

    # ---- expressions ----

    def _Constant(self, node: ast.Constant) -> int:
        if type(node.value) is not int:
            return ANY
        return POSITIVE if node.value >= 0 else WHOLE

    def _Name(self, node: ast.Name) -> int:
        if node.id in self.of:
            return self.of[node.id]
        return self._outer(node)

    def _Attribute(self, node: ast.Attribute) -> int:
        path = self.path_of(node)
        if path is None:
            return POSITIVE if node.attr in ("size", "ndim") else self._outer(node)
        return POSITIVE if path[-2:] in (".x", ".y", ".z") or path in _PATHS else ANY

    def _outer(self, node: ast.expr) -> int:
        if self.path_of(node) in _PATHS:
            return POSITIVE
        value = self.value_of(node)
        if type(value) is not int:
            return ANY
        return POSITIVE if value >= 0 else WHOLE

    def _BinOp(self, node: ast.BinOp) -> int:
        left, right = self(node.left), self(node.right)
        if not left or not right:
            return ANY
        if isinstance(node.op, ast.Sub):
            return WHOLE
        if isinstance(node.op, ast.Mod):
            return right
        if isinstance(node.op, ast.BitAnd):
            return max(left, right)
        return min(left, right) if isinstance(node.op, _SAME) else ANY

    def _UnaryOp(self, node: ast.UnaryOp) -> int:
        kind = self(node.operand)
        if isinstance(node.op, ast.UAdd):
            return kind
        signed = isinstance(node.op, (ast.USub, ast.Invert))
        return min(kind, WHOLE) if signed else ANY

    def _IfExp(self, node: ast.IfExp) -> int:
        return min(self(node.body), self(node.orelse))

    def _BoolOp(self, node: ast.BoolOp) -> int:
        return min(self(value) for value in node.values)

    def _NamedExpr(self, node: ast.NamedExpr) -> int:
        return self(node.value)

    def _Subscript(self, node: ast.Subscript) -> int:
        return POSITIVE if self._sizes(node.value) else ANY

    def _Call(self, node: ast.Call) -> int:
        path = self.path_of(node.func)
        if path is not None:
            whole = path in _CALLS or (path in ("grid", "gridsize") and _is_one(node))
            return POSITIVE if whole else ANY
        value = self.value_of(node.func)
        if value is int:
            return WHOLE
        if value is len:
            return POSITIVE
        if value is min or value is max or value is abs:
            kinds = [self(arg) for arg in node.args] or [ANY]
            if value is abs:
                return POSITIVE if kinds[0] else ANY
            return max(kinds) if value is max and min(kinds) else min(kinds)
        return self.returned(node, self)


_BINDING = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.NamedExpr, ast.For)


def _is_one(node: ast.Call) -> bool:
    arg = node.args[0] if node.args else None
    return isinstance(arg, ast.Constant) and arg.value == 1
