"""The meaning of a kernel's names, the kinds of values, and the limits of its syntax.

The log packs only Python ints, so the new code converts all other indices. The kinds of
values form a lattice: POSITIVE (an int that is 0 or more) > WHOLE (an int) > ANY.

Short functions build the new code. The engine's names begin with a dot, like Python's
own names in comprehensions. They therefore cannot collide with names in the kernel.
"""

from __future__ import annotations

import ast
import functools
import math
import sys
import types
from collections.abc import Callable, Container, Iterator, Sequence
from typing import Any

import numpy as np

from ... import cuda
from ...base.errors import ArgumentError
from ..language import FunctionSource, value_of
from ..trees import REFUSED, list_bound, returns_value

UNKNOWN = object()
# The names that a kernel may import from numba.cuda one by one.
_NUMBA = (
    *("threadIdx", "blockIdx", "blockDim", "gridDim", "grid", "gridsize"),
    *("shared", "local", "const", "atomic", "syncthreads", "laneid"),
)
# Functions of these packages are called unchanged. All others are rewritten.
_OPAQUE = {"numpy", "math", "builtins", "torch", "numba", "operator", "weft_ops"}


@functools.cache
def _list_members() -> dict[int, str]:
    """Map the ids of the language's objects to names, for names imported one by one."""
    return {
        id(value): name
        for name, value in vars(cuda).items()
        if not name.startswith("_")
        and getattr(value, "__module__", "") == cuda.__name__
    }


def is_language(value: Any) -> bool:
    """Return whether a value is the module weft.cuda, or Numba's cuda module."""
    if not isinstance(value, types.ModuleType):
        return False
    return value is cuda or value.__name__.endswith("numba.cuda")


def path_of(
    function: types.FunctionType, node: ast.expr, local: Container[str]
) -> str | None:
    """Return a node's path in the language, such as "threadIdx.x"; None without one."""
    attributes: list[str] = []
    while isinstance(node, ast.Attribute):
        attributes.insert(0, node.attr)
        node = node.value
    if not isinstance(node, ast.Name) or node.id in local:
        return None
    try:
        value = value_of(function, node.id)
    except LookupError:
        return None
    while isinstance(value, types.ModuleType) and not is_language(value):
        if not attributes or not hasattr(value, attributes[0]):
            return None
        value = getattr(value, attributes.pop(0))
    if is_language(value):
        return ".".join(attributes) or "cuda"
    name = _list_members().get(id(value)) or _find_numba_member(value)
    return ".".join([name, *attributes]) if name else None


def _find_numba_member(value: Any) -> str | None:
    module = sys.modules.get("numba.cuda")
    if module is None or isinstance(value, (int, float, types.ModuleType)):
        return None
    known = (name for name in _NUMBA if value is vars(module).get(name, UNKNOWN))
    return next(known, None)


def find_meaning(
    function: types.FunctionType, node: ast.expr, local: Container[str]
) -> Any:
    """Return the value of a name or a dotted name; UNKNOWN for a local."""
    if isinstance(node, ast.Name) and node.id not in local:
        try:
            return value_of(function, node.id)
        except LookupError:
            return UNKNOWN
    if isinstance(node, ast.Attribute):
        value = find_meaning(function, node.value, local)
        if isinstance(value, (types.ModuleType, type)):
            return getattr(value, node.attr, UNKNOWN)
    return UNKNOWN


def helper_of(value: Any) -> types.FunctionType | None:
    """Return the Python function of a callee that the simulator rewrites, or None."""
    value = getattr(value, "py_func", value)
    if not isinstance(value, types.FunctionType):
        return None
    root = (value.__module__ or "").partition(".")[0]
    return None if root in _OPAQUE else value


def is_foreign(value: Any) -> bool:
    """Return whether a value is a function of the host or, like np.sum, of arrays.

    NumPy's ufuncs and types are not foreign, since they accept single numbers.
    """
    if isinstance(value, (type, np.ufunc)) or not callable(value):
        return False
    owner = getattr(value, "__self__", None)
    module = getattr(value, "__module__", None) or type(owner).__module__
    return module.partition(".")[0] in ("numpy", "torch", "random", "time")


def math_name(value: Any) -> str | None:
    """Return "sqrt" for math.sqrt; None for values that are not functions of math."""
    name = getattr(value, "__name__", "")
    if isinstance(name, str) and value is vars(math).get(name, UNKNOWN):
        return name if callable(value) else None
    return None


def is_number_type(value: Any) -> bool:
    """Return whether a value is one of NumPy's number types, such as float32."""
    return isinstance(value, type) and issubclass(value, np.number)


def locals_of(tree: ast.FunctionDef) -> set[str]:
    """Return the names that a function binds: parameters and assigned names."""
    return {*_list_parameters(tree), *list_bound(tree)}


def _list_parameters(tree: ast.FunctionDef) -> list[str]:
    return [a.arg for a in (*tree.args.posonlyargs, *tree.args.args)]


def list_rebound(tree: ast.FunctionDef) -> set[str]:
    """Return the names that a function may bind more than once, as in a loop."""
    bound = [*_list_parameters(tree), *list_bound(tree)]
    for loop in ast.walk(tree):
        if isinstance(loop, (ast.For, ast.While)):
            bound += list_bound(loop)
    return {name for name in bound if bound.count(name) > 1}


ANY, WHOLE, POSITIVE = 0, 1, 2

_SAME = (ast.Add, ast.Mult, ast.FloorDiv, ast.BitOr, ast.BitXor, ast.LShift, ast.RShift)
_PATHS = {"laneid", "warpsize"}
_CALLS = {"popc", "clz", "ffs", "brev", "ballot_sync", "activemask", "lanemask_lt"}


def kind_of(value: Any) -> int:
    """Return the kind of a value that is known before the launch."""
    if type(value) is not int:
        return ANY
    return POSITIVE if value >= 0 else WHOLE


class Kinds:
    """The kinds of a function's locals, for given kinds of its parameters.

    path_of, value_of: functions that map a node to its path in the language, and to its
        value. See path_of() and find_meaning().
    returned: function of a call of a helper, and of these Kinds, that returns the
        call's kind.
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
        self.of = dict.fromkeys(list_bound(tree), POSITIVE) | parameters
        self._changed = True
        bound = [n for n in ast.walk(tree) if isinstance(n, _BINDING)]
        while self._changed:
            self._changed = False
            for node in bound:
                self._bind(node)
        values = [n.value for n in ast.walk(tree) if isinstance(n, ast.Return)]
        self.result = min((self(v) if v else ANY for v in values), default=ANY)

    def __call__(self, node: ast.expr) -> int:
        """Return the kind of an expression."""
        method = getattr(self, f"_{type(node).__name__}", None)
        return method(node) if method else ANY

    # ---- bindings ----

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
        """Return the kind of a for loop's counter."""
        if not (isinstance(node, ast.Call) and self.value_of(node.func) is range):
            return ANY
        kinds = [self(arg) for arg in node.args]
        if len(kinds) == 1:
            return POSITIVE
        rising = kinds[0] == POSITIVE and kinds[2:] in ([], [POSITIVE])
        return POSITIVE if rising else WHOLE

    def _sizes(self, node: ast.expr) -> bool:
        """Return whether a node is a tuple of integers: x.shape, cuda.grid(2), ..."""
        if isinstance(node, ast.Attribute):
            return node.attr == "shape"
        called = isinstance(node, ast.Call) and self.path_of(node.func)
        return called in ("grid", "gridsize")

    # ---- expressions ----

    def _Constant(self, node: ast.Constant) -> int:
        return kind_of(node.value)

    def _Name(self, node: ast.Name) -> int:
        return self.of[node.id] if node.id in self.of else self._outer(node)

    def _Attribute(self, node: ast.Attribute) -> int:
        path = self.path_of(node)
        if path is None:
            return POSITIVE if node.attr in ("size", "ndim") else self._outer(node)
        return POSITIVE if path[-2:] in (".x", ".y", ".z") or path in _PATHS else ANY

    def _outer(self, node: ast.expr) -> int:
        if self.path_of(node) in _PATHS:
            return POSITIVE
        return kind_of(self.value_of(node))

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
            one = [getattr(arg, "value", None) for arg in node.args[:1]] == [1]
            is_int = path in _CALLS or (path in ("grid", "gridsize") and one)
            return POSITIVE if is_int else ANY
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


# ---- limits of the syntax, and builders of new code ----------------------------------


def make_refusal(
    source: FunctionSource, node: ast.AST, name: str, what: str
) -> ArgumentError:
    """Return the error about a piece of a kernel, with the piece's line."""
    line = getattr(node, "lineno", source.first)
    text = source.line(line).strip()
    return ArgumentError(f"{name}, line {line}: {what}: {text}")


def check(source: FunctionSource, name: str, kernel: bool) -> None:
    """Raise ArgumentError at the first invalid construct of a kernel or helper."""
    arguments = source.tree.args
    if arguments.vararg or arguments.kwarg or arguments.kwonlyargs:
        what = "a helper's parameters are plain names, not *"
        raise make_refusal(source, source.tree, name, what)
    for statement in source.tree.body:  # the body only: threads run no decorators
        for node in _walk_in_order(statement):
            if what := _find_problem(node, kernel):
                raise make_refusal(source, node, name, what)


def _find_problem(node: ast.AST, kernel: bool) -> str:
    """Describe the problem of a node, except problems of its parts; "" if none."""
    if isinstance(node, ast.For) and isinstance(node.iter, (ast.List, ast.Set)):
        return "a kernel's for loop runs over range(...) or a tuple, not a list"
    if type(node) in REFUSED:
        what, way = REFUSED[type(node)]
        return f"a kernel cannot have {what}; {way}"
    if isinstance(node, ast.keyword) and node.arg is None:
        return "a kernel cannot have **; name each argument"
    if isinstance(node, ast.For) and not isinstance(node.target, ast.Name):
        return "a for loop counts in one plain name: for i in ..."
    if kernel and isinstance(node, ast.Return) and returns_value(node):
        return "a kernel returns nothing; write the result to an array"
    return ""


def _walk_in_order(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _walk_in_order(child)


def load(name: str) -> ast.Name:
    """Build a read of the variable `name`."""
    return ast.Name(name, ast.Load())


def make_constant(what: Any) -> ast.Constant:
    """Build a constant: a number, a text or None."""
    return ast.Constant(what)


def call(function: str, *args: ast.expr) -> ast.Call:
    """Build function(args)."""
    return ast.Call(load(function), list(args), [])


def add(a: ast.expr, b: ast.expr) -> ast.expr:
    """Build a + b."""
    return ast.BinOp(a, ast.Add(), b)


def make_product(a: ast.expr, b: ast.expr) -> ast.expr:
    """Build a * b."""
    return ast.BinOp(a, ast.Mult(), b)


def add_whole(a: ast.expr, b: ast.expr) -> ast.expr:
    """Build a + b of integers, folding known values."""
    x, y = whole_value(a), whole_value(b)
    if x is not None and y is not None:
        return make_constant(x + y)
    return b if x == 0 else a if y == 0 else add(a, b)


def multiply_whole(a: ast.expr, b: ast.expr) -> ast.expr:
    """Build a * b of integers, folding known values."""
    x, y = whole_value(a), whole_value(b)
    if x is not None and y is not None:
        return make_constant(x * y)
    if x == 0 or y == 0:
        return make_constant(0)
    return b if x == 1 else a if y == 1 else make_product(a, b)


def whole_value(node: ast.expr) -> int | None:
    """Return the value of an integer constant; None for other nodes."""
    known = isinstance(node, ast.Constant) and type(node.value) is int
    return node.value if known else None


def make_or(*values: ast.expr) -> ast.expr:
    """Build a or b or ..."""
    return ast.BoolOp(ast.Or(), list(values))


def make_and(*values: ast.expr) -> ast.expr:
    """Build a and b and ...; return a single value unchanged."""
    return values[0] if len(values) == 1 else ast.BoolOp(ast.And(), list(values))


def compare(a: ast.expr, operator: ast.cmpop, b: ast.expr) -> ast.expr:
    """Build a comparison such as a < b."""
    return ast.Compare(a, [operator], [b])


def make_between(low: int, a: ast.expr, high: int) -> ast.expr:
    """Build low < a <= high."""
    ends = [a, make_constant(high)]
    return ast.Compare(make_constant(low), [ast.Lt(), ast.LtE()], ends)


def make_walrus(name: str, what: ast.expr) -> ast.expr:
    """Build (name := what)."""
    return ast.NamedExpr(ast.Name(name, ast.Store()), what)


def tuple_of(values: Sequence[ast.expr]) -> ast.expr:
    """Build a tuple of the values; return a single value unchanged."""
    return values[0] if len(values) == 1 else ast.Tuple(list(values), ast.Load())


def assign(name: str, what: ast.expr) -> ast.stmt:
    """Build name = what."""
    return ast.Assign([ast.Name(name, ast.Store())], what)


def place_node(node: Any, place: ast.AST) -> Any:
    """Copy the position of `place` to `node`, but not to its parts; return `node`."""
    return ast.copy_location(node, place)
