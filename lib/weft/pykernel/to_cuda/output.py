"""What a whole translation shares: names, constants, helpers, precision of floats."""

from __future__ import annotations

import ast
import math
from typing import Any

import numpy as np

from . import meaning
from .helpers import write_helper
from .text import PRIMARY, RESERVED, C, is_cudas, number, write_whole
from .types import F16, FLOAT, MOST, of_dtype
from .unit import Unit


class Output:
    """Collected while the units are written, which is repeated until it is stable.

    A Python float lies in a float as long as nobody wants more of it: what is
    computed with it in double makes its variable a double in the next round.
    """

    def __init__(self, units: list[Unit]) -> None:
        # half is a type where its header is included, and a good name elsewhere.
        kinds = [k for unit in units for k in unit.variables.values()]
        self.halves = any(getattr(k, "dtype", k) == F16 for k in kinds)
        self.doubles: set[Any] = set()
        self.grew = False
        self.begin()

    def begin(self) -> None:
        """Start a round."""
        self.grew = False
        self.helpers: dict[tuple[str, str], str] = {}
        self.constants: dict[str, Any] = {}
        self.arrays: dict[str, str] = {}
        self.array_values: dict[str, Any] = {}
        self.used: set[tuple[Unit, str]] = set()
        self.headers: set[str] = set()

    # ---- Python's floats ----

    def is_double(self, key: Any) -> bool:
        """Whether the weak float `key` lies in a double."""
        return key in self.doubles

    def wants(self, key: Any, type_: str) -> None:
        """Note that somebody wants the weak float `key` in this C type."""
        if type_ == "double" and key not in self.doubles:
            self.doubles.add(key)
            self.grew = True

    # ---- names ----

    def name(self, unit: Unit, name: str) -> str:
        """A local of a unit, as C may call it."""
        self.used.add((unit, name))
        return self.spelled(unit, name)

    def spelled(self, unit: Unit, name: str) -> str:
        """The same, without counting as a use."""
        if not name.isascii():
            unit.fail(f"the name {name} is not ASCII", "rename it", unit.tree)
        name = unit.aliases.get(name, name)
        half = name == "half" and (self.halves or name in unit.parameters)
        taken = name in RESERVED or half
        return f"{name}_" if taken else name

    def array(self, name: str, value: np.ndarray, text: str) -> str:
        """The name of a constant array, which `text` declares: {name} in it."""
        while name in RESERVED or self.array_values.get(name, value) is not value:
            name += "_"
        self.array_values[name] = value
        self.arrays[name] = text.replace("{name}", name)
        return name

    def unit_name(self, unit: Unit) -> str:
        """A function's name in C."""
        name = self.spelled(unit, unit.name)
        if name.startswith("cuda"):  # all of which belongs to the host's side
            return f"own_{name}" if is_cudas(name) else name
        return f"{name}_" if is_cudas(name) else name

    def helper(self, name: str, type_: str = "") -> None:
        """Note that a helper is called."""
        self.helpers.setdefault((name, type_), write_helper(name, type_))

    # ---- constants ----

    def constant(self, unit: Unit, node: ast.AST, value: Any, weak: str) -> C:
        """A global that is a number, by its name; of math and NumPy by its value."""
        if isinstance(node, ast.Attribute):
            base = unit.meaning(node.value)
            if getattr(base, "__name__", "") in ("math", "numpy"):
                return self._literal(value, weak)
        name = node.attr if isinstance(node, ast.Attribute) else node.id
        return self._named(unit, name, value, weak)

    def _named(self, unit: Unit, name: str, value: Any, weak: str) -> C:
        kind = meaning.constant_type(value)
        if not kind.whole and not math.isfinite(value):
            # NVRTC takes no `static const float NAME = INFINITY;`: it is no constant.
            return self._literal(value, weak)
        name = f"{name}_" if name in RESERVED or unit.is_local(name) else name
        while name in self.constants and not _is_same(self.constants[name], value):
            name += "_"
        self.constants[name] = value
        if kind == FLOAT:
            self.wants(("constant", name), weak)
            return C(name, PRIMARY, self._weak_type(name))
        if kind.whole and kind.weak and kind.kind == "i":
            if -MOST <= int(value) <= MOST:
                return C(name, PRIMARY, "int", enum=True)
            return C(name, PRIMARY, write_whole(value).type)
        return C(name, PRIMARY, kind.c)

    def _weak_type(self, name: str) -> str:
        return "double" if ("constant", name) in self.doubles else "float"

    def _literal(self, value: Any, weak: str) -> C:
        if isinstance(value, float) and not isinstance(value, np.generic):
            return number(value, weak)
        return self.literal(value)

    def literal(self, value: Any) -> C:
        """A number as a literal of its own type."""
        if isinstance(value, (bool, np.bool_)):
            return C("true" if value else "false", PRIMARY, "bool")
        if isinstance(value, np.floating):
            return number(value, of_dtype(value.dtype).c)
        if isinstance(value, float):
            return number(value, "double")
        return write_whole(int(value))

    def segment(self, unit: Unit, node: ast.Constant) -> str:
        """A number as it stands in the source; "" if it does not."""
        line = unit.source.line(getattr(node, "lineno", 0)).encode()
        end = getattr(node, "end_col_offset", None) or 0
        text = line[getattr(node, "col_offset", 0) : end].decode(errors="replace")
        try:
            return text if int(text, 0) == node.value else ""
        except ValueError:
            return ""

    # ---- what stands above the functions ----

    def head(self) -> list[str]:
        """Includes, constants, constant arrays and helpers, as parts of the text."""
        parts = []
        if self.headers:
            parts.append("\n".join(f"#include <{h}>" for h in sorted(self.headers)))
        enums, others = [], []
        for name, value in self.constants.items():
            kind = meaning.constant_type(value)
            if kind.weak and kind.kind == "i" and -MOST <= int(value) <= MOST:
                enums.append(f"{name} = {int(value)}")
                continue
            literal = self.literal(value)
            type_ = kind.c
            if kind == FLOAT:
                type_ = self._weak_type(name)
                literal = number(value, type_)
            elif kind.kind == "i" and kind.weak:
                type_ = literal.type
                literal = write_whole(int(value), hex(value) if value > 0 else "")
            others.append(f"static const {type_} {name} = {literal.text};")
        if enums:
            parts.append(_write_enum(enums))
        if others:
            parts.append("\n".join(others))
        if self.arrays:
            parts.append("\n".join(self.arrays.values()))
        return parts + list(self.helpers.values())


def _write_enum(names: list[str]) -> str:
    text = f"enum {{ {', '.join(names)} }};"
    if len(text) <= 80:
        return text
    lines = "".join(f"    {name},\n" for name in names)
    return f"enum {{\n{lines}}};"


def _is_same(a: Any, b: Any) -> bool:
    return type(a) is type(b) and (a == b or (a != a and b != b))
