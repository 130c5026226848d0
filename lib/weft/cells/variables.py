"""The __constant__ and __device__ variables of a cell: module.filt = array.

A cell may be compiled several times: for the CPU and the GPU, watched and unwatched,
and once per instance of a template. Each library has separate variables. VariableState
presents them as one set. It copies the values before another library is launched.
"""

from __future__ import annotations

import difflib
import functools
import math
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ..base.errors import ArgumentError
from ..base.text import shorten_repr
from ..csource import scanner, signature
from ..csource.signature import Param
from . import structs
from .arguments import Binder
from .arrays import decode_bfloat16, describe
from .structs import CScalar, find_scalar


@dataclass(frozen=True)
class Variable:
    """One variable, as the source declares it.

    scope: enclosing namespaces, such as "outer::".
    extents: lengths of an array's dimensions; () for a single value. A length is None
        if it could not be evaluated.
    const: whether the variable is declared const.
    text: source and headers, which may define its struct.
    """

    param: Param
    scope: str
    extents: tuple[int | None, ...]
    const: bool
    text: str

    @property
    def name(self) -> str:
        """The variable's name, without namespaces."""
        return self.param.name

    @property
    def qualified(self) -> str:
        """The variable's C++ name, with all namespaces."""
        return self.scope + self.name

    @functools.cached_property
    def kind(self) -> CScalar | None:
        """The C type of one element; None for a struct and for an address."""
        return None if self.param.pointer else find_scalar(self.param.type)

    @functools.cached_property
    def layout(self) -> structs.StructLayout | None:
        """The layout of one element, if its type is a known struct; otherwise None."""
        is_struct = not (self.param.pointer or self.kind)
        return structs.find_layout(self.text, self.param.type) if is_struct else None

    def __str__(self) -> str:
        shape = "".join(f"[{'' if n is None else n}]" for n in self.extents)
        return f"{self.param}{shape}"

    @property
    def refusal(self) -> str:
        """The reason why Python can neither set nor read the variable; "" if it can."""
        if self.const:
            return "it is const, so only the source sets its value: remove const"
        if self.param.pointer or (self.layout and self.layout.pointers):
            return "it contains an address: pass arrays as arguments of the kernel"
        if not (self.kind or self.layout):
            return f"its type {self.param.type} has no counterpart in Python"
        return ""

    # ---- conversion to bytes and back ----

    def encode(self, value: Any, size: int) -> bytes:
        """Encode `value` in the variable's `size` bytes, or raise ArgumentError."""
        shape = self._shape(size)
        array = None if isinstance(value, np.void) else describe(value)
        if array is not None and not (shape == () and not array.shape and self.kind):
            return self._encode_array(value, array.dtype, tuple(array.shape), shape)
        return b"".join(self._encode_one(one) for one in self._flatten(value, shape))

    def decode(self, data: bytes) -> Any:
        """Decode the variable's bytes as a number or a read-only NumPy array."""
        shape = self._shape(len(data))
        if self.layout:
            values = np.frombuffer(data, _struct_dtype(self.layout)).reshape(shape)
            return values if shape else values[()]
        assert self.kind
        shape += (self.kind.count,) if self.kind.count > 1 else ()
        if self.kind.kind == "bfloat16":
            values = decode_bfloat16(data).reshape(shape)
            values.flags.writeable = False
        else:
            values = np.frombuffer(data, self.kind.dtypes[0]).reshape(shape)
        return values if shape else values.item()

    def _shape(self, size: int) -> tuple[int, ...]:
        """Return the declared lengths; derive a missing first length from the size."""
        one = self.kind.size if self.kind else self.layout.size if self.layout else 1
        first, inner = self.extents[:1], self.extents[1:]
        if None in inner:
            raise self._error("its lengths could not be evaluated")
        if first == (None,):
            return (size // max(one * math.prod(inner), 1), *inner)  # type: ignore
        expected = one * math.prod(self.extents)  # type: ignore
        if expected != size:
            text = f"it has {size} bytes, but its type has {expected}"
            raise self._error(f"{text}: write the type without a macro")
        return self.extents  # type: ignore

    def _encode_array(
        self, value: Any, dtype: str, actual: tuple[int, ...], shape: tuple[int, ...]
    ) -> bytes:
        host = _on_host(value)
        if self.layout:
            if not host.dtype.fields:
                raise self._error(f"expects a structured array, not {dtype}")
            if misfit := structs.describe_misfit(self.layout, host.dtype):
                raise self._error(misfit)
            self._check_shape(actual, shape)
            return host.tobytes()
        assert self.kind
        if dtype not in self.kind.dtypes or dtype.startswith("complex"):
            raise self._error(f"expects {self.kind.dtypes[0]}, but got {dtype}")
        vector = (self.kind.count,) if self.kind.count > 1 else ()
        self._check_shape(actual, shape + vector)
        return host.tobytes()

    def _check_shape(self, actual: tuple[int, ...], expected: tuple[int, ...]) -> None:
        if actual != expected:
            raise self._error(f"expects shape {expected}, but got {actual}")

    def _flatten(self, value: Any, shape: tuple[int, ...]) -> Iterator[Any]:
        """Yield the elements of nested lists row by row, or a single value itself."""
        if not shape:
            yield value
            return
        if not isinstance(value, (list, tuple)) or len(value) != shape[0]:
            is_list = isinstance(value, (list, tuple))
            description = f"a list of {len(value)}" if is_list else shorten_repr(value)
            expected = f"an array of shape {shape}, or {shape[0]} values in a list"
            raise self._error(f"expects {expected}; got {description}")
        for one in value:
            yield from self._flatten(one, shape[1:])

    def _encode_one(self, value: Any) -> bytes:
        if self.layout:
            data = bytes(Binder("variable", [self.param], self.text).bind([value])[0])
            if len(data) != self.layout.size:
                text = f"{self.layout.name} has {self.layout.size} bytes"
                raise self._error(f"{text}, but {len(data)} are given")
            return data
        assert self.kind
        try:
            numbers = self.kind.numbers(value)
        except (TypeError, OverflowError) as error:
            raise self._error(f"{error}, but got {shorten_repr(value)}") from None
        return struct.pack("=" + self.kind.code * self.kind.count, *numbers)

    def _error(self, message: str) -> ArgumentError:
        return ArgumentError(f"{self}: {message}")


def _on_host(value: Any) -> np.ndarray:
    """Return any library's array as a NumPy array on the host; bfloat16 as its bits."""
    if not isinstance(value, np.ndarray):
        if not isinstance(value, torch.Tensor):
            is_cuda = hasattr(value, "__cuda_array_interface__")
            value = torch.as_tensor(value) if is_cuda else torch.from_dlpack(value)
        value = value.detach().cpu().resolve_conj()
        if value.dtype == torch.bfloat16:
            value = value.contiguous().view(torch.int16)
        value = value.numpy()
    return value


def _struct_dtype(layout: structs.StructLayout) -> np.dtype:
    """Return the NumPy dtype of a struct."""
    formats: list[Any] = []
    for member in layout.members:
        one: Any = _struct_dtype(member.inner) if member.inner else None
        extents = member.extents
        if member.kind:
            is_bits = member.kind.kind == "bfloat16"
            one = "uint16" if is_bits else member.kind.dtypes[0]
            extents += (member.kind.count,) if member.kind.count > 1 else ()
        formats.append((one, extents) if extents else one)
    names = [m.param.name for m in layout.members]
    fields = {"names": names, "formats": formats, "itemsize": layout.size}
    return np.dtype(fields | {"offsets": [m.offset for m in layout.members]})


# ---- reading declarations ------------------------------------------------------

_QUALIFIER = re.compile(r"\b__(?:device|constant|managed)__\b")
_NO_TYPE = re.compile(r"\b(?:static|inline|thread_local|constexpr|const)\b")
_NOT_OURS = re.compile(r"\b(?:template|extern|__shared__|__global__|using|typedef)\b")


def parse(texts: Sequence[str], flags: Sequence[str] = ()) -> dict[str, Variable]:
    """Return the variables that a source and its headers define, by name.

    The result includes variables in namespaces, but not in functions, classes or
    templates.
    """
    values = re.findall(r"-D\s*(\w+)=(\S+)", " ".join(flags))  # as in -DTILE=16
    lines = [f"#define {name} {value}" for name, value in values]
    full_text = "\n".join([*lines, *texts])
    variables: dict[str, Variable] = {}
    for text in texts:
        if _QUALIFIER.search(text):
            for one in _list_variables(text, full_text):
                variables.setdefault(one.name, one)
    return variables


def list_settable(texts: Sequence[str]) -> tuple[str, ...]:
    """List the C++ names of the variables that Python can set."""
    return tuple(v.qualified for v in parse(texts).values() if not v.refusal)


def _list_variables(source: str, full_text: str) -> Iterator[Variable]:
    code = scanner.blank_directives(scanner.blank_comments(source))
    aliases = signature.read_aliases(scanner.blank_comments(full_text))
    numbers = structs.list_constants(scanner.blank_comments(full_text))
    starts = set()
    for match in _QUALIFIER.finditer(code):
        start = max(code.rfind(c, 0, match.start()) for c in ";{}") + 1
        scope = scanner.scope_at(code, start)
        if start in starts or scope is None:
            continue
        starts.add(start)
        end = scanner.find_outside(code, match.end(), ";") + 1
        text = scanner.ATTRIBUTE.sub(" ", code[start:end])
        text = scanner.SPECIFIER.sub(" ", text)
        head = text.split("=")[0].split("{")[0]
        if "(" in head or _NOT_OURS.search(code[start : match.end()] + head):
            continue
        const = bool(re.search(r"\bconst(?:expr)?\b", head))
        declarators = structs.list_declarators(_NO_TYPE.sub(" ", text))
        for base, stars, name, brackets in declarators:
            if name == "?":
                continue
            param = signature.declare(f"{base} {stars}", name, aliases)
            extents = structs.extents_of(brackets, numbers)
            yield Variable(param, scope, extents, const, full_text)


# ---- state of a cell ---------------------------------------------------------------


class VariableState:
    """The content of a cell's variables, shared by all its compiled libraries.

    The library of the last launch has the current values. Values that Python has set
    are also kept as bytes, to be restored when the cell is recompiled.
    """

    def __init__(self, cell: Any) -> None:
        self._cell, self._library = cell, None
        self.variables: dict[str, Variable] = {}
        self._set_values: dict[str, bytes] = {}

    def reload(self) -> None:
        """Parse the variables of a changed source; forget values stored by kernels.

        Values that Python has set are kept.
        """
        cell = self._cell
        self.variables = parse([cell.source, *cell.headers.values()], cell.flags)
        self._library = None

    def enter(self, compiled: Any) -> None:
        """Copy the variables' current values to `compiled`, before it is launched."""
        if compiled is self._library or not self.variables:
            return
        values = self._set_values if self._library is None else self.contents()
        self._library = compiled
        self.restore(values)

    def contents(self) -> dict[str, bytes]:
        """Return the bytes of all variables that Python can set, by C++ name."""
        library = self._current_library()
        names = [v.qualified for v in self.variables.values() if not v.refusal]
        return {name: library.read(name) for name in names if library.size(name)}

    def restore(self, values: Mapping[str, bytes]) -> None:
        """Set the variables to values that contents() returned."""
        library = self._current_library()
        for name, data in values.items():
            if library.size(name) == len(data):
                library.write(name, data)

    def read(self, name: str) -> Any:
        """Return the value: a number, or a NumPy array (a read-only copy)."""
        variable = self._variable(name)
        return variable.decode(self._current_library().read(variable.qualified))

    def write(self, name: str, value: Any) -> None:
        """Set a variable; raise ArgumentError for another dtype or shape."""
        variable = self._variable(name)
        library = self._current_library()
        data = variable.encode(value, library.size(variable.qualified))
        library.write(variable.qualified, data)
        self._set_values[variable.qualified] = data

    def unknown(self, name: str) -> AttributeError:
        """Return the error for an unknown variable name."""
        cell = self._cell
        if name in cell.signatures:
            return AttributeError(f"{name} is a kernel: it cannot be set")
        names = [*cell.signatures, *self.variables]
        close = difflib.get_close_matches(name, names, 1, 0.5)
        hint = f" (did you mean {close[0]}?)" if close else ""
        text = f"{cell.name} has no __device__ or __constant__ variable '{name}'{hint}"
        return AttributeError(f"{text}; it has {', '.join(self.variables) or 'none'}")

    def _variable(self, name: str) -> Variable:
        variable = self.variables.get(name)
        if variable is None:
            raise self.unknown(name)
        if variable.refusal:
            raise variable._error(variable.refusal)
        if not self._current_library().size(variable.qualified):
            raise variable._error("it is not in the compiled cell: is it under an #if?")
        return variable

    def _current_library(self) -> Any:
        """Return the library with the current values; load one if there is none."""
        if self._library is None:
            cell = self._cell
            self.enter(cell.compiled(cell.default, cell.ordinary(), cell.watched))
        return self._library
