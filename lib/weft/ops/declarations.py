"""The launchers of the ops as kernels/weft.h declares them: names, kinds, order."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from ..base.errors import ArgumentError
from ..toolchain import build, native

ORDER = ("output", "input", "number", "options")  # as weft.h has it everywhere
_DTYPES = {"float": torch.float32, "int32_t": torch.int32, "int64_t": torch.int64}
_CTYPES = {dtype: f"{name} *" for name, dtype in _DTYPES.items()}
_KINDS = {
    "output": rf"({'|'.join(_DTYPES)}) \*(\w+)",
    "input": rf"const ({'|'.join(_DTYPES)}) \*(\w+)",
    "number": r"(int|size_t|float) (\w+)",
    "options": r"const struct (weft_\w+_options) \*(\w+)",
}


@dataclass(frozen=True)
class Launcher:
    """One function of weft.h that launches an op, without its rung and its stream."""

    function: str
    dtypes: Mapping[str, torch.dtype]  # of each array, outputs first
    outputs: tuple[str, ...]
    inputs: tuple[str, ...]
    numbers: Mapping[str, type]  # int or float, by name
    options: str  # the struct of its options; "": none
    fields: Mapping[str, type]  # of that struct
    casts: tuple[tuple[str, Any], ...]  # the arrays' types for cffi

    def pointers(self, tensors: Mapping[str, torch.Tensor | None]) -> list[Any]:
        """What the function takes first: its arrays, NULL for what is not there."""
        cast = native.ffi.cast
        return [
            native.NULL
            if (t := tensors.get(name)) is None
            else cast(ctype, t.data_ptr())
            for name, ctype in self.casts
        ]

    def values(self, given: Mapping[str, Any]) -> list[Any]:
        """What it takes then: numbers, and the options, NULL where all are 0."""
        found = [given[name] for name in self.numbers]
        if self.options:
            fields = [given[name] for name in self.fields]
            struct = f"struct {self.options} *"
            found.append(native.ffi.new(struct, fields) if any(fields) else native.NULL)
        return found


def read_launcher(function: str) -> Launcher | None:
    """The declaration of a launcher in weft.h; None if there is none of that name.

    Raises ArgumentError where it does not follow the order that weft.h sets.
    """
    header = (build.KERNELS / "weft.h").read_text()
    found = re.search(rf"^int {function}\(([^)]*)\);", header, re.M)
    if not found:
        return None
    first, *rest, last = (" ".join(word.split()) for word in found[1].split(","))
    parameters = [_parse_parameter(function, text) for text in rest]
    kinds = [kind for kind, _, _ in parameters]
    ends = (first, last) == ("int rung", "weft_stream stream")
    if (
        not ends
        or kinds != sorted(kinds, key=ORDER.index)
        or kinds.count("options") > 1
    ):
        raise ArgumentError(
            f"weft.h: {function}() does not take rung, outputs, inputs, sizes, "
            f"options, stream in this order"
        )
    return _parse_launcher(function, parameters)


def _parse_launcher(function: str, parameters: list[tuple[str, str, str]]) -> Launcher:
    def names(kind: str) -> tuple[str, ...]:
        return tuple(name for k, _, name in parameters if k == kind)

    arrays = {n: _DTYPES[t] for kind, t, n in parameters if kind in ("output", "input")}
    numbers = {name: _number(t) for kind, t, name in parameters if kind == "number"}
    struct = next((t for kind, t, _ in parameters if kind == "options"), "")
    fields = native.ffi.typeof(f"struct {struct}").fields if struct else []
    return Launcher(
        *(function, arrays, names("output"), names("input"), numbers, struct),
        {name: _number(field.type.cname) for name, field in fields},
        tuple((n, native.ffi.typeof(_CTYPES[dtype])) for n, dtype in arrays.items()),
    )


def _parse_parameter(function: str, text: str) -> tuple[str, str, str]:
    """Kind, type and name of one parameter of a launcher."""
    for kind, pattern in _KINDS.items():
        if found := re.fullmatch(pattern, text):
            return kind, found[1], found[2]
    raise ArgumentError(
        f"weft.h: {function}() takes '{text}': want an array of {', '.join(_DTYPES)}, "
        f"an int, size_t or float, or a struct of options"
    )


def _number(ctype: str) -> type:
    return float if ctype == "float" else int
