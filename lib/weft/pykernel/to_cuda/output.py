"""State shared by a whole translation: names, constants, helpers, float precision.

write_helper() writes the few functions that a translated kernel may need.
"""

from __future__ import annotations

import ast
import math
import re
from typing import Any

import numpy as np

from .text import PRIMARY, RESERVED, CExpression, is_cudas, number, write_whole
from .types import F16, FLOAT, INT, MOST
from .unit import Unit, constant_type

_WHOLE_DIV = """\
/* a // b as in Python: rounded down. */
static __device__ T floor_div(T a, T b) {
    const T q = a / b;
    return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}"""
_WHOLE_MOD = """\
/* a % b as in Python: with the sign of b. */
static __device__ T floor_mod(T a, T b) {
    const T r = a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}"""
_FLOAT_DIV = """\
/* a // b as in Python: rounded down, whatever a / b is rounded to. */
static __device__ T floor_div(T a, T b) {
    if (b == 0) return a / b;
    T r = FMOD(a, b);
    T q = (a - r) / b;
    if (r != 0 && (b < 0) != (r < 0)) q -= 1;
    if (q == 0) return COPYSIGN(ZERO, a / b);
    const T whole = FLOOR(q);
    return q - whole > HALF ? whole + 1 : whole;
}"""
_FLOAT_MOD = """\
/* a % b as in Python: with the sign of b. */
static __device__ T floor_mod(T a, T b) {
    const T r = FMOD(a, b);
    if (r == 0) return COPYSIGN(r, b);
    return (b < 0) != (r < 0) ? r + b : r;
}"""
_POWER = """\
/* a ** b, where b is not negative. */
static __device__ T power(T a, int b) {
    T result = 1;
    for (; b > 0; b >>= 1) {
        if (b & 1) result *= a;
        a *= a;
    }
    return result;
}"""
_LEAST = """\
/* The WORD of a and b. As in Python, it is a if they are equal or one is a NaN. */
static __device__ T NAME(T a, T b) { return b SIGN a ? b : a; }"""
_LANEID = """\
/* The thread's number in its warp, for blocks of any shape. */
static __device__ int laneid() {
    const unsigned row = threadIdx.z * blockDim.y + threadIdx.y;
    return (row * blockDim.x + threadIdx.x) % warpSize;
}"""
_ATOMIC = """\
/* Store the WORD of *address and value in *address; return the old value.
 * This is one atomic step. NAN_RULE */
static __device__ T NAME(T *address, T value) {
    BITS *bits = (BITS *)address, seen = *(volatile BITS *)bits;
    for (;;) {
        const T old = TO_FLOAT(seen);
        if (STOP) return old;
        const BITS found = atomicCAS(bits, seen, TO_BITS(value));
        if (found == seen) return old;
        seen = found;
    }
}"""
_STOP = {
    "atomic_min": "old <= value || old != old",
    "atomic_max": "old >= value || old != old",
    "atomic_nanmin": "old <= value || value != value",
    "atomic_nanmax": "old >= value || value != value",
}
_FLOATS = {
    "float": ("unsigned", "__uint_as_float", "__float_as_uint"),
    "double": ("unsigned long long", "__longlong_as_double", "__double_as_longlong"),
}


def write_helper(name: str, type_: str = "") -> str:
    """Return the text of a helper for a C type."""
    if name == "laneid":
        return _LANEID
    if name.startswith("atomic_"):
        return _write_atomic(name, type_)
    if name.endswith("imum"):
        small = name == "minimum"
        text = _LEAST.replace("NAME", name).replace("SIGN", "<" if small else ">")
        text = text.replace("WORD", "smaller" if small else "larger")
        return _write_typed(text, type_)
    text = {"floor_div": _WHOLE_DIV, "floor_mod": _WHOLE_MOD, "power": _POWER}[name]
    if type_ in ("float", "double"):
        text = _FLOAT_DIV if name == "floor_div" else _FLOAT_MOD
    end = "f" if type_ == "float" else ""
    for word in ("FMOD", "FLOOR", "COPYSIGN"):
        text = text.replace(word, word.lower() + end)
    text = text.replace("ZERO", f"0.0{end}").replace("HALF", f"0.5{end}")
    return _write_typed(text, type_)


def _write_atomic(name: str, type_: str) -> str:
    bits, to_float, to_bits = _FLOATS[type_]
    rule = "A NaN is replaced." if "nan" in name else "A NaN remains."
    text = _ATOMIC.replace("NAN_RULE", rule).replace("NAME", name)
    text = text.replace("WORD", "smaller" if name.endswith("min") else "larger")
    text = text.replace("STOP", _STOP[name]).replace("TO_FLOAT", to_float)
    return _write_typed(text.replace("TO_BITS", to_bits).replace("BITS", bits), type_)


def _write_typed(text: str, type_: str) -> str:
    return re.sub(r"\bT\b", type_, text)


class TranslationOutput:
    """State collected while the units are written repeatedly, until it is stable.

    A Python float is a C float unless more precision is required. If a float variable
    is combined with a double, the variable becomes a double in the next round.
    """

    def __init__(self, units: list[Unit]) -> None:
        # With its header, half is a type. Without it, half is a valid name.
        kinds = [k for unit in units for k in unit.variables.values()]
        self.halves = any(getattr(k, "dtype", k) == F16 for k in kinds)
        self.doubles: set[Any] = set()
        self.grew = False
        self.begin()

    def begin(self) -> None:
        """Begin a round: discard the last round's names, constants and helpers."""
        self.grew = False
        self.helpers: dict[tuple[str, str], str] = {}
        self.constants: dict[str, Any] = {}
        self.arrays: dict[str, str] = {}
        self.array_values: dict[str, Any] = {}
        self.used: set[tuple[Unit, str]] = set()
        self.headers: set[str] = set()

    # ---- Python's floats ----

    def wants(self, key: Any, type_: str) -> None:
        """Record that the Python float `key` is needed in this C type."""
        if type_ == "double" and key not in self.doubles:
            self.doubles.add(key)
            self.grew = True

    # ---- names ----

    def name(self, unit: Unit, name: str) -> str:
        """Return the C name of a unit's local, and record its use."""
        self.used.add((unit, name))
        return self.spelled(unit, name)

    def spelled(self, unit: Unit, name: str) -> str:
        """Return the C name of a unit's local, without recording a use."""
        if not name.isascii():
            unit.fail(f"the name {name} is not ASCII", "rename it", unit.tree)
        name = unit.aliases.get(name, name)
        half = name == "half" and (self.halves or name in unit.parameters)
        return f"{name}_" if name in RESERVED or half else name

    def array(self, name: str, value: np.ndarray, text: str) -> str:
        """Return a unique name for a constant array; it replaces {name} in `text`."""
        while name in RESERVED or self.array_values.get(name, value) is not value:
            name += "_"
        self.array_values[name] = value
        self.arrays[name] = text.replace("{name}", name)
        return name

    def unit_name(self, unit: Unit) -> str:
        """Return the name of a function in C."""
        name = self.spelled(unit, unit.name)
        if not is_cudas(name):
            return name
        # Names that begin with cuda belong to the host's API.
        return f"own_{name}" if name.startswith("cuda") else f"{name}_"

    def helper(self, name: str, type_: str = "") -> None:
        """Record that the text calls a helper, such as floor_div."""
        self.helpers.setdefault((name, type_), write_helper(name, type_))

    # ---- constants ----

    def constant(self, unit: Unit, node: ast.AST, value: Any, weak: str) -> CExpression:
        """Write a numeric global by name, but a constant of math or NumPy by value."""
        dotted = isinstance(node, ast.Attribute)
        base = unit.meaning(node.value) if dotted else None
        kind = constant_type(value)
        by_value = getattr(base, "__name__", "") in ("math", "numpy")
        # NVRTC rejects `static const float NAME = INFINITY;` as not constant.
        if by_value or not (kind.whole or math.isfinite(value)):
            return number(value, weak) if kind == FLOAT else self.literal(value)
        name = node.attr if dotted else node.id
        name = f"{name}_" if name in RESERVED or unit.is_local(name) else name
        while name in self.constants and not _is_same(self.constants[name], value):
            name += "_"
        self.constants[name] = value
        if kind == FLOAT:
            self.wants(("constant", name), weak)
            return CExpression(name, PRIMARY, self._get_weak_type(name))
        if _is_enum(value):
            return CExpression(name, PRIMARY, "int", enum=True)
        if kind.weak and kind.kind == "i":
            return CExpression(name, PRIMARY, write_whole(value).type)
        return CExpression(name, PRIMARY, kind.c)

    def _get_weak_type(self, name: str) -> str:
        return "double" if ("constant", name) in self.doubles else "float"

    def literal(self, value: Any) -> CExpression:
        """Write a number as a literal of its type."""
        if isinstance(value, (bool, np.bool_)):
            return CExpression("true" if value else "false", PRIMARY, "bool")
        kind = constant_type(value)
        return write_whole(int(value)) if kind.whole else number(value, kind.c)

    def segment(self, unit: Unit, node: ast.Constant) -> str:
        """Return an integer as written in the source; "" if that text is unknown."""
        line = unit.source.line(getattr(node, "lineno", 0)).encode()
        end = getattr(node, "end_col_offset", None) or 0
        text = line[getattr(node, "col_offset", 0) : end].decode(errors="replace")
        try:
            return text if int(text, 0) == node.value else ""
        except ValueError:
            return ""

    # ---- text above the functions ----

    def head(self) -> list[str]:
        """Return the includes, constants, constant arrays and helpers of the text."""
        parts = []
        if self.headers:
            parts.append("\n".join(f"#include <{h}>" for h in sorted(self.headers)))
        enums, statics = [], []
        for name, value in self.constants.items():
            kind = constant_type(value)
            if _is_enum(value):
                enums.append(f"{name} = {int(value)}")
                continue
            literal = self.literal(value)
            type_ = kind.c
            if kind == FLOAT:
                type_ = self._get_weak_type(name)
                literal = number(value, type_)
            elif kind.kind == "i" and kind.weak:
                type_ = literal.type
                literal = write_whole(int(value), hex(value) if value > 0 else "")
            statics.append(f"static const {type_} {name} = {literal.text};")
        if enums:
            parts.append(_write_enum(enums))
        if statics:
            parts.append("\n".join(statics))
        if self.arrays:
            parts.append("\n".join(self.arrays.values()))
        return parts + list(self.helpers.values())


def _write_enum(names: list[str]) -> str:
    text = f"enum {{ {', '.join(names)} }};"
    if len(text) <= 80:
        return text
    lines = "".join(f"    {name},\n" for name in names)
    return f"enum {{\n{lines}}};"


def _is_enum(value: Any) -> bool:
    """Return whether a constant is a Python int that fits C's int."""
    return constant_type(value) == INT and -MOST <= value <= MOST


def _is_same(a: Any, b: Any) -> bool:
    return type(a) is type(b) and (a == b or (a != a and b != b))
