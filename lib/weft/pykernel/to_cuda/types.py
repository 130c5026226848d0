"""The types of a kernel's values, and the error for code without a translation.

TranslationError names the line, and suggests a replacement. Strong types
are those of NumPy: float32, int64, ... Weak types are Python's int, float and bool. An
operation on a weak and a strong type has a result of the strong type. Operations on
only weak types compute floats as double, as Python does, and ints as C's int.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ...base.errors import ArgumentError
from ...cells.arguments import describe
from ...csource.diagnostics import CompileError, Diagnostic
from ..language import FunctionSource, explain_unfit


class TranslationError(CompileError):
    """Raised if a kernel, or a helper that it calls, cannot become CUDA C.

    line, column: place in the file or cell, from 1.
    hint: a suggested replacement.
    """

    entry = "translation"

    def __init__(
        self,
        message: str,
        hint: str,
        function: str,
        source: FunctionSource,
        node: ast.AST,
    ) -> None:
        self.line = getattr(node, "lineno", source.first)
        column = getattr(node, "col_offset", 0)
        text = source.line(self.line)
        self.column = len(text.encode()[:column].decode(errors="replace")) + 1
        self.hint, self.function = hint, function
        one = Diagnostic("", self.line, column + 1, "error", message)
        super().__init__([one], source.text, function)
        report = f"{describe_place(source, self.line)}, in {function}: error: {message}"
        if text.strip():
            indent = len(text) - len(text.lstrip())
            report += f"\n    {text.strip()}"
            report += f"\n    {' ' * max(self.column - 1 - indent, 0)}^"
        self.args = (report + (f"\n  hint: {hint}" if hint else ""),)

    def __str__(self) -> str:
        return self.args[0]


def describe_place(source: FunctionSource, line: int) -> str:
    """Return "kernels.py, line 12"; for a notebook's cell, only "line 12"."""
    name = Path(source.file).name
    if not name or "ipykernel" in source.file or name.startswith("<"):
        return f"line {line}"
    return f"{name}, line {line}"


GLOBAL, SHARED, LOCAL, CONST = "global", "shared", "local", "const"
MOST = 2**31 - 1  # the largest int of C


@dataclass(frozen=True)
class ScalarType:
    """The type of a number.

    kind: b (bool), i, u or f, as in NumPy.
    bits: size in bits.
    weak: whether this is a type of Python.
    """

    kind: str
    bits: int
    weak: bool = False

    @property
    def c(self) -> str:
        """The type in C. A weak float is a double, which represents all its values."""
        return _C[self.kind, self.bits]

    @property
    def whole(self) -> bool:
        """Whether the type is an integer or a bool."""
        return self.kind != "f"

    def __str__(self) -> str:
        word = {"b": "bool", "i": "int", "u": "uint", "f": "float"}[self.kind]
        return word if self.weak or self.kind == "b" else f"{word}{self.bits}"


@dataclass(frozen=True)
class ArrayType:
    """The type of an array: its elements, dimensions and memory space.

    shape: extents of a static array; () for an argument or a dynamic array.
    root: the parameter or local that owns the memory.
    """

    dtype: ScalarType
    ndim: int
    space: str = GLOBAL
    shape: tuple[int, ...] = ()
    root: str = ""

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(':' * self.ndim)}]"


@dataclass(frozen=True)
class Argument:
    """A parameter's type. sized: whether its values are integers of at least 0."""

    type: ScalarType | ArrayType
    sized: bool = False

    def __str__(self) -> str:
        return str(self.type)


_C = {
    ("b", 8): "bool",
    ("i", 8): "signed char",
    ("i", 16): "short",
    ("i", 32): "int",
    ("i", 64): "long long",
    ("u", 8): "unsigned char",
    ("u", 16): "unsigned short",
    ("u", 32): "unsigned",
    ("u", 64): "unsigned long long",
    ("f", 16): "half",
    ("f", 32): "float",
    ("f", 64): "double",
}
BY_C = {c: ScalarType(*key) for key, c in _C.items()}
_PYTHON = {
    "int": ScalarType("i", 32, True),
    "float": ScalarType("f", 64, True),
    "bool": ScalarType("b", 8, True),
}
INT, FLOAT, BOOL = _PYTHON.values()
F16, F64, I32, U32 = (BY_C[c] for c in ("half", "double", "int", "unsigned"))


def of_dtype(dtype: Any) -> ScalarType | None:
    """Return the type of an array's elements; None if to_cuda() does not support it."""
    try:
        dtype = np.dtype(dtype)
    except TypeError:
        return None
    scalar = ScalarType(dtype.kind, 8 * dtype.itemsize)
    return scalar if (scalar.kind, scalar.bits) in _C else None


def promote(a: ScalarType, b: ScalarType) -> ScalarType | None:
    """Return the type of a + b; None for int64 and uint64, which have no common type.

    The rules are those of NumPy (NEP 50), except that a bool counts as an int.
    """
    a, b = (INT if t.kind == "b" else t for t in (a, b))
    if a.weak and b.weak:
        return FLOAT if "f" in (a.kind, b.kind) else INT
    if a.weak or b.weak:
        weak, strong = (a, b) if a.weak else (b, a)
        return F64 if weak.kind == "f" and strong.whole else strong
    common = np.promote_types(_numpy_dtype(a), _numpy_dtype(b))
    if common.kind == "f" and a.whole and b.whole:
        return None
    return ScalarType(common.kind, 8 * common.itemsize)


def join(a: ScalarType, b: ScalarType) -> ScalarType | None:
    """Return a type for a variable with values of both types; None if there is none."""
    if a == b:
        return a
    return BOOL if a.kind == b.kind == "b" else promote(a, b)


def natural_type(a: str, b: str) -> str:
    """Return the C type of a + b, given the C types of `a` and `b`."""
    x, y = (I32 if BY_C[t].whole and BY_C[t].bits < 32 else BY_C[t] for t in (a, b))
    return max(x, y, key=lambda t: (t.kind == "f", t.bits, t.kind == "u")).c


def _numpy_dtype(t: ScalarType) -> np.dtype:
    return np.dtype(f"{t.kind}{t.bits // 8}")


# ---- types of arguments -------------------------------------------------------


def of_argument(name: str, value: Any) -> Argument:
    """Return the type of an argument; raise ArgumentError if no kernel accepts it."""
    if isinstance(value, (bool, np.bool_)):
        return Argument(BOOL)
    if isinstance(value, np.integer) and not -MOST - 1 <= value <= MOST:
        return Argument(_element_type(name, value.dtype))
    if isinstance(value, (int, np.integer)):
        if not -MOST - 1 <= value <= MOST:
            raise ArgumentError(
                f"{name} = {value}: a Python int becomes C's int, which is at most "
                f"{MOST}: pass np.int64({name})"
            )
        return Argument(INT, bool(value >= 0))
    if isinstance(value, np.generic):  # np.float64 is also a float, so test this first
        return Argument(_element_type(name, value.dtype))
    if isinstance(value, float):
        return Argument(FLOAT)
    array = describe(value)
    why = ""
    if array is None or isinstance(value, (np.ndarray, torch.Tensor)):
        why = explain_unfit(value, name)
    if array is None and not why:
        is_like = hasattr(value, "__array_interface__")
        way = f"np.asarray({name})" if is_like else "its numbers one by one"
        why = (
            f"= {value!r:.60} is a {type(value).__name__}, which to_cuda does not "
            f"support (sim and numba_jit do): pass {way}"
        )
    if why:
        raise ArgumentError(f"{name} {why}")
    count = array.nbytes // array.itemsize
    if count > MOST:
        raise ArgumentError(
            f"{name} has {count} elements, but at most {MOST} are possible: indices "
            f"are C's int"
        )
    return Argument(ArrayType(_element_type(name, array.dtype), len(array.shape)))


_SPELLED = re.compile(r"(\w+)\s*(?:\[([\s:,]*)\])?")


def parse(name: str, spec: Any) -> Argument:
    """Return the type that a caller of to_cuda() specified for a parameter."""
    if isinstance(spec, Argument):
        return spec
    if isinstance(spec, type) and spec in (int, float, bool):
        spec = spec.__name__
    if isinstance(spec, str):
        match = _SPELLED.fullmatch(spec.strip())
        if not match:
            like = "'float32', 'int' or 'float32[:, :]'"
            raise ArgumentError(f"{name}: {spec!r} is not a type like {like}")
        if match[1] in _PYTHON and match[2] is None:
            return Argument(_PYTHON[match[1]], match[1] == "int")
        element = _element_type(name, match[1])
        if match[2] is None:
            return _number(element)
        return Argument(ArrayType(element, match[2].count(",") + 1))
    if type(spec).__module__.startswith("numba") and hasattr(spec, "name"):
        if hasattr(spec, "ndim"):
            return Argument(ArrayType(_element_type(name, spec.dtype.name), spec.ndim))
        return _number(_element_type(name, spec.name.replace("boolean", "bool")))
    is_kind = isinstance(spec, type) and issubclass(spec, np.generic)
    if is_kind or isinstance(spec, np.dtype):
        return _number(_element_type(name, spec))
    return of_argument(name, spec)


def _number(kind: ScalarType) -> Argument:
    """Return a numeric argument's type. Integers that fit into C's int become INT."""
    if kind.kind == "b":
        return Argument(BOOL)
    if kind.whole and (kind.bits < 32 or kind == I32):
        return Argument(INT, kind.kind == "u")
    return Argument(kind)


def _element_type(name: str, dtype: Any) -> ScalarType:
    scalar = of_dtype(dtype)
    if scalar is None:
        if str(dtype).startswith(("complex", "void")):
            raise ArgumentError(
                f"{name}: to_cuda does not support complex or structured numbers, such "
                f"as {dtype} (sim and numba_jit do): pass its parts as two arrays"
            )
        raise ArgumentError(
            f"{name}: {dtype} is not a type of a kernel: use bool, int8 to int64, "
            f"uint8 to uint64, float16, float32 or float64"
        )
    return scalar


class Unknown(Exception):
    """Raised if the type of an expression is still unknown."""

    def __init__(self, node: ast.AST) -> None:
        self.node = node


def note_write(walk: Any, array: ArrayType, node: ast.AST) -> None:
    """Record that an array's memory is written; raise an error if it is constant."""
    if array.space == "const":
        hint = "use cuda.local.array"
        walk.unit.fail("a constant array cannot be written", hint, node)
    if array.root not in walk.unit.written:
        walk.unit.written.add(array.root)
        walk.changed()
