"""A function under translation, the meaning of its names, and the whole program.

find_meaning() returns the meaning of nonlocal names. A Unit is one function for given
argument types, and TranslatedUnits is the kernel with its helpers. declare_array()
handles declarations of shared, local and constant arrays, and of views.
"""

from __future__ import annotations

import ast
import builtins
import math
import types
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np

from ... import cuda as language
from ..language import FunctionSource, PythonKernel, source_of, value_of, without_cuda
from ..trees import get_name, with_constants
from .scope import Desugar, Scope
from .text import list_comments
from .types import (
    BOOL,
    CONST,
    F64,
    FLOAT,
    INT,
    LOCAL,
    SHARED,
    Argument,
    ArrayType,
    ScalarType,
    TranslationError,
    of_dtype,
)


@dataclass(frozen=True)
class LanguageName:
    """A name in the language: "threadIdx.x", "shared.array", or "" for cuda itself."""

    path: str


@dataclass(frozen=True)
class KnownFunction:
    """A Python function that has a counterpart in C: "math.sqrt", "min", ..."""

    name: str


UNKNOWN = object()

_OWN = {id(value): name for name, value in vars(language).items() if name[0] != "_"}
_FUNCTIONS = {
    value: KnownFunction(f"math.{name}")
    for name, value in vars(math).items()
    if callable(value)
}
_NUMPYS = "sqrt exp log sin cos tan tanh sinh cosh floor ceil trunc"
_BUILTINS = "abs min max round int float bool len range print divmod pow"
for _name in _NUMPYS.split():
    _FUNCTIONS[getattr(np, _name)] = KnownFunction(f"np.{_name}")
for _name in _BUILTINS.split():
    _FUNCTIONS[getattr(builtins, _name)] = KnownFunction(_name)


def find_meaning(value: Any) -> Any:
    """Return a value's meaning: LanguageName, KnownFunction, ScalarType, or itself."""
    if isinstance(value, types.ModuleType):
        ours = value is language or value.__name__.endswith("numba.cuda")
        return LanguageName("") if ours else value
    name = _OWN.get(id(value), "")
    if name and value is getattr(language, name, None) and not isinstance(value, int):
        return LanguageName(name)
    if isinstance(value, (bool, int, float, np.generic)):
        return value
    try:
        if value in _FUNCTIONS:
            return _FUNCTIONS[value]
    except TypeError:
        return value
    if isinstance(value, type) and issubclass(value, np.generic):
        return of_dtype(value) or value
    if type(value).__module__.startswith("numba.core.types"):
        return of_dtype(str(value).replace("boolean", "bool")) or value
    return value


def attribute_meaning(base: Any, name: str) -> Any:
    """Return the meaning of base.name; UNKNOWN if base has no such name."""
    if isinstance(base, LanguageName):
        return LanguageName(f"{base.path}.{name}" if base.path else name)
    if isinstance(base, (KnownFunction, ScalarType)) or not hasattr(base, name):
        return UNKNOWN
    return find_meaning(getattr(base, name))


def constant_type(value: Any) -> ScalarType | None:
    """Return the type of a numeric global; None for other values."""
    if isinstance(value, bool):
        return BOOL
    if isinstance(value, np.generic):
        return of_dtype(value.dtype)
    if isinstance(value, int):
        return INT
    return FLOAT if isinstance(value, float) else None


Span = tuple[int | None, int | None]  # smallest and largest value; None: unknown
ANY: Span = (None, None)


@dataclass(frozen=True)
class Extent:
    """One side of an array argument."""

    array: str
    axis: int


class Unit:
    """One function for one tuple of argument types.

    types, spans: types and value ranges of every expression.
    variables, ranges: types and value ranges of the locals.
    written: the arrays that the function writes into.
    needed: the extents that the function receives as parameters, by C name.
    """

    def __init__(
        self,
        program: TranslatedUnits,
        function: Any,
        name: str,
        arguments: list[Argument],
    ) -> None:
        self.program, self.function, self.name = program, function, name
        self.source: FunctionSource = source_of(function)
        self.comments = list_comments(self.source)
        self.tree = Desugar(self.source, function.__name__).function()
        self.scope = Scope(self.tree)
        self.parameters = [a.arg for a in self.tree.args.args]
        self.types: dict[ast.AST, Any] = {}
        self.spans: dict[ast.AST, Span] = {}
        self.variables: dict[str, Any] = {}
        self.ranges: dict[str, Span] = {}
        for parameter, argument in zip(self.parameters, arguments):
            kind = argument.type
            if isinstance(kind, ArrayType):
                kind = replace(kind, root=parameter)
            self.variables[parameter] = kind
            self.ranges[parameter] = (0, None) if argument.sized else ANY
        self.arguments = arguments
        self.written: set[str] = set()
        self.returns: Any = None
        self.calls: dict[ast.AST, Unit] = {}
        self.callers: set[Unit] = set()
        self.extents: dict[str, list[Extent]] = self._unpacked()
        self.needed: dict[str, list[Extent]] = {}
        self.aliases: dict[str, str] = {}
        self.locals = self.scope.assigned() | set(self.scope.loop_names)

    @property
    def kernel(self) -> bool:
        """Whether the unit is the kernel rather than a helper."""
        return self is self.program.units[0]

    def fail(self, message: str, hint: str, node: ast.AST) -> NoReturn:
        """Raise TranslationError at a place in this function."""
        raise TranslationError(message, hint, self.function.__name__, self.source, node)

    # ---- names ----

    def is_local(self, name: str) -> bool:
        """Return whether the name is a local or a parameter of the function."""
        return name in self.locals or name in self.parameters

    def meaning(self, node: ast.AST) -> Any:
        """Return the meaning of a name or attribute; UNKNOWN for a local."""
        if isinstance(node, ast.Attribute):
            base = self.meaning(node.value)
            return base if base is UNKNOWN else attribute_meaning(base, node.attr)
        if not isinstance(node, ast.Name) or self.is_local(node.id):
            return UNKNOWN
        try:
            return find_meaning(value_of(self.function, node.id))
        except LookupError:
            hint = "assign it first, or define it above the kernel"
            if language := without_cuda(node.id):
                hint = f"write cuda.{language}"
            self.fail(f"{node.id} is not defined", hint, node)

    def is_array(self, name: str) -> bool:
        """Return whether a local or parameter is known to be an array."""
        return isinstance(self.variables.get(name), ArrayType)

    # ---- sides of arrays ----

    def _unpacked(self) -> dict[str, list[Extent]]:
        """Return the locals that are only sides of arrays, as in `m, n = c.shape`."""
        unpacked: dict[str, list[Extent] | None] = {}
        for one in ast.walk(self.tree):
            changes = isinstance(one, (ast.AugAssign, ast.For))
            if changes and isinstance(one.target, ast.Name):
                unpacked[one.target.id] = None
            name = get_name(one)  # after Desugar, there is one target
            if name is None:
                continue
            extent = self.side(one.value)
            known = unpacked.setdefault(name, [])
            if extent is None or known is None:
                unpacked[name] = None
            elif extent not in known:
                known.append(extent)
        return {
            name: sides
            for name, sides in unpacked.items()
            if sides and name != "_" and name not in self.parameters
        }

    def side(self, node: ast.AST) -> Extent | None:
        """Return the Extent that an expression denotes; None for other expressions."""
        array, axis = None, 0
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            array = node.value
            if not (isinstance(array, ast.Attribute) and array.attr == "shape"):
                return None
            array, axis = array.value, node.slice.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id == "len" and len(node.args) == 1:
                array = node.args[0]
        elif isinstance(node, ast.Attribute) and node.attr == "size":
            array = node.value
        if not isinstance(array, ast.Name) or not isinstance(axis, int):
            return None
        kind = self.variables.get(array.id)
        if array.id not in self.parameters or not isinstance(kind, ArrayType):
            return None
        if isinstance(node, ast.Attribute) and kind.ndim != 1:
            return None
        if kind.shape or not -kind.ndim <= axis < kind.ndim:
            return None
        return Extent(array.id, axis % kind.ndim)

    @property
    def sides(self) -> dict[str, list[Extent]]:
        """The extents that the function receives, in the parameters' order."""
        order = list(self.extents)

        def place(name: str) -> tuple[int, int, int]:
            if name in self.extents:
                return 0, order.index(name), 0
            side = self.needed[name][0]
            return 1, self.parameters.index(side.array), side.axis

        return {name: self.needed[name] for name in sorted(self.needed, key=place)}

    def extent(self, side: Extent) -> str:
        """Return the name of a side in C, and record that it is needed."""
        for name, sides in self.extents.items():
            if side in sides:
                self.needed[name] = sides
                return name
        kind = self.variables[side.array]
        if kind.ndim == 1:
            name = f"{side.array}_len"
        elif kind.ndim == 2:
            name = f"{side.array}_{('rows', 'cols')[side.axis]}"
        else:
            name = f"{side.array}_dim{side.axis}"
        while self.is_local(name):
            name += "_"
        self.needed[name] = [side]
        return name


class TranslatedUnits:
    """A kernel and the helpers that it calls, for the argument types of each call."""

    def __init__(self, kernel: PythonKernel, arguments: list[Argument]) -> None:
        self.kernel = kernel
        self.units: list[Unit] = []
        self.by_key: dict[Any, Unit] = {}
        self.changed = False
        self.units.append(Unit(self, kernel.function, kernel.name, arguments))

    def helper(self, function: types.FunctionType, kinds) -> Unit:
        """Return the helper `function` for arguments of these types."""
        key = function, tuple(kinds)
        unit = self.by_key.get(key)
        if unit is None:
            name = self._named(function, kinds)
            arguments = [Argument(kind, True) for kind in kinds]
            unit = Unit(self, function, name, arguments)
            self.by_key[key] = unit
            self.units.append(unit)
            self.changed = True
        return unit

    def _named(self, function: types.FunctionType, kinds) -> str:
        """Return a unique name. A helper's later versions have a suffix."""
        name = function.__name__
        same = [u for u in self.units if u.function.__name__ == name]
        if same:
            pairs = zip(kinds, (a.type for a in same[0].arguments))
            kind = next((k for k, other in pairs if k != other), None)
            name += f"_{kind.dtype if isinstance(kind, ArrayType) else kind or 'more'}"
        used_names, number = {u.name for u in self.units}, 2
        base = name
        while name in used_names:
            name, number = f"{base}_{number}", number + 1
        return name


def merge(a: Span, b: Span) -> Span:
    """Return the span that contains both spans."""
    low = None if None in (a[0], b[0]) else min(a[0], b[0])
    high = None if None in (a[1], b[1]) else max(a[1], b[1])
    return low, high


# ---- arrays --------------------------------------------------------------------------


def declare_array(walk: Any, name: str, node: ast.AST) -> ArrayType | None:
    """Return the array that an assignment to `name` declares or aliases, or None."""
    unit = walk.unit
    if isinstance(node, ast.Name) and unit.is_array(node.id):
        kind = walk.expr(node)
        if kind.shape:
            what = f"{node.id} is an array that already has a name"
            unit.fail(what, f"write {node.id}", node)
        return kind
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
        return _slice(walk, node)
    if not isinstance(node, ast.Call):
        return None
    meaning = unit.meaning(node.func)
    if not isinstance(meaning, LanguageName):
        return None
    if meaning.path in ("shared.array", "local.array"):
        return _make_array(walk, name, meaning.path, node)
    if meaning.path == "const.array_like":
        return _constant_array(walk, name, node)
    return None


def _slice(walk: Any, node: ast.Subscript) -> ArrayType:
    kind = walk.expr(node.value)
    part = node.slice
    if not isinstance(kind, ArrayType) or kind.ndim != 1 or part.step is not None:
        hint = "only x[start:] of a 1D array becomes a pointer; write a loop"
        walk.unit.fail(f"{ast.unparse(node)} is a slice", hint, node)
    for bound in (part.lower, part.upper):
        if bound is not None:
            walk.whole(bound, "a slice's bound")
    return ArrayType(kind.dtype, 1, kind.space, (), kind.root)


def _bind_arguments(
    unit: Unit, node: ast.Call, names: tuple[str, ...]
) -> list[ast.expr]:
    """Return positional and keyword arguments in the order of `names`."""
    arguments = dict(zip(names, node.args))
    arguments |= {k.arg: k.value for k in node.keywords}
    if set(arguments) != set(names) or len(node.args) > len(names):
        name, parameters = ast.unparse(node.func), ", ".join(names)
        unit.fail(f"{name} takes {parameters}", f"write {name}({parameters})", node)
    return [arguments[name] for name in names]


def _make_array(walk: Any, name: str, path: str, node: ast.Call) -> ArrayType:
    unit = walk.unit
    shape_node, dtype_node = _bind_arguments(unit, node, ("shape", "dtype"))
    dtype = _parse_dtype(unit, dtype_node)
    shape = shape_of(unit, shape_node)
    _walk_shape(walk, shape_node)
    space = SHARED if path == "shared.array" else LOCAL
    if shape == (0,) and space == SHARED:
        return ArrayType(dtype, 1, SHARED, (), name)
    if any(side < 1 for side in shape):
        hint = "sides are at least 1; shared memory of shape 0 is dynamic"
        unit.fail(f"an array of shape {shape} is empty", hint, shape_node)
    return ArrayType(dtype, len(shape), space, shape, name)


def shape_of(unit: Unit, node: ast.AST) -> tuple[int, ...]:
    """Return the numbers of a shape; raise an error for a shape that may vary."""
    parts = node.elts if isinstance(node, ast.Tuple) else [node]
    values = [evaluate_constant(unit, part) for part in parts]
    if len(values) == 1 and isinstance(values[0], tuple):
        values = list(values[0])
    for value in values:
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
            hint = "use numbers and globals, or dynamic shared memory: shape 0"
            unit.fail(f"the shape {ast.unparse(node)} is not constant", hint, node)
    return tuple(int(value) for value in values)


def _walk_shape(walk: Any, node: ast.AST) -> None:
    """Infer the types of the names in a shape, since the C text contains the names."""
    for part in node.elts if isinstance(node, ast.Tuple) else [node]:
        if not isinstance(walk.unit.meaning(part), tuple):
            walk.scalar(part)


def evaluate_constant(unit: Unit, node: ast.AST) -> Any:
    """Return the value of an expression of numbers and globals; None for any other."""
    names = {}
    node = with_constants(node, unit.tree)
    for one in ast.walk(node):
        if isinstance(one, ast.Call):
            return None
        if isinstance(one, ast.Name):
            if unit.is_local(one.id):
                return None
            meaning = unit.meaning(one)
            if isinstance(meaning, LanguageName):
                return 32 if ast.unparse(node).endswith("warpsize") else None
            names[one.id] = meaning
    try:
        code = compile(ast.Expression(node), "constant", "eval")
        return eval(code, {"__builtins__": {}}, names)  # the user wrote this expression
    except Exception:
        return None


def _parse_dtype(unit: Unit, node: ast.AST) -> ScalarType:
    meaning = node.value if isinstance(node, ast.Constant) else unit.meaning(node)
    kind = meaning if isinstance(meaning, ScalarType) else None
    if kind is None and isinstance(meaning, (str, np.dtype)):
        kind = of_dtype(meaning)
    if kind is None and isinstance(meaning, KnownFunction):
        kind = {"int": of_dtype("int64"), "float": F64}.get(meaning.name)
    if kind is None:
        what = f"{ast.unparse(node)} is not a type of array elements"
        unit.fail(what, "use float32, int32 ...", node)
    return kind


def _constant_array(walk: Any, name: str, node: ast.Call) -> ArrayType:
    unit = walk.unit
    value = unit.meaning(node.args[0]) if len(node.args) == 1 else None
    dtype = of_dtype(value.dtype) if isinstance(value, np.ndarray) else None
    if dtype is None or value.size == 0:
        what = "const.array_like takes one NumPy array from outside the kernel"
        unit.fail(what, "TABLE = np.array(...) above the kernel", node)
    return ArrayType(dtype, value.ndim, CONST, value.shape, name)
