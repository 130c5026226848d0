"""What a C type of a kernel's parameter is made of: sizes, dtypes, conversions."""

from __future__ import annotations

import functools
import operator
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Scalar:
    """A C type that is passed by value, or pointed at.

    code: struct's letter for one component; count: of components (float4: 4)
    align: in bytes; dtypes: names of the dtypes an array of it may have
    kind: int, float, bool, half, bfloat16
    """

    name: str
    code: str
    count: int
    size: int
    align: int
    dtypes: tuple[str, ...]
    kind: str

    def numbers(self, value: Any) -> tuple[Any, ...]:
        """`value` as what struct packs under `code`: one number per component.

        Raises TypeError (not a number of this kind) or OverflowError (the text
        says the limits).
        """
        if self.count == 1:
            return (self._number(value),)
        try:
            parts = tuple(value)
        except Exception:  # whatever its own __iter__ raises
            parts = ()
        if len(parts) != self.count or isinstance(value, (str, bytes)):
            raise TypeError(f"{self.name} wants {self.count} numbers, e.g. a tuple")
        return tuple(self._number(part) for part in parts)

    def _number(self, value: Any) -> Any:
        if self.kind == "bool":
            return bool(_convert_whole(value, self.name, 0, 1))
        if self.kind == "int":
            return _convert_whole(value, self.name, *self.limits())
        number = _convert_real(value, self.name)
        if self.kind == "bfloat16":
            return _bfloat16_bits(number)
        try:
            struct.pack("=" + self.code, number)
        except OverflowError:
            raise OverflowError(f"it does not fit into {self.name}") from None
        return number

    def limits(self) -> tuple[int, int]:
        """The least and the largest integer."""
        bits = 8 * struct.calcsize(self.code)
        if self.code.isupper():
            return 0, 2**bits - 1
        return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1


def find_scalar(name: str) -> Scalar | None:
    """The type called `name`; None: a struct, an enum or a type we do not know."""
    return _make_table().get(name)


def _convert_whole(value: Any, name: str, low: int, high: int) -> int:
    if name == "char" and isinstance(value, (str, bytes)) and len(value) == 1:
        value = ord(value)
        value -= 256 if 128 <= value < 256 else 0
    if getattr(value, "ndim", 0) or not hasattr(value, "__index__"):
        hint = ""
        if isinstance(value, float):
            hint = " (in Python n / 2 is a float, n // 2 a whole number)"
        raise TypeError(f"{name} wants a whole number{hint}")
    try:
        number = operator.index(value)
    except Exception as error:  # torch.tensor(1.5) has __index__, and raises
        raise TypeError(f"{name} wants a whole number") from error
    if not low <= number <= high:
        raise OverflowError(f"{name} holds {low} to {high}")
    return number


def _convert_real(value: Any, name: str) -> float:
    if getattr(value, "ndim", 0):
        raise TypeError(f"{name} wants one number, not an array")
    unfit = isinstance(value, (str, bytes, bytearray))
    if isinstance(value, np.ndarray):  # np.ma.masked is one, too
        unfit = value.dtype.kind in "SU" or isinstance(value, np.ma.MaskedArray)
    if unfit or not (hasattr(value, "__float__") or hasattr(value, "__index__")):
        raise TypeError(f"{name} wants a number")
    try:
        return float(value)
    except OverflowError:
        raise OverflowError(f"it does not fit into {name}") from None
    except Exception as error:  # what the value's own __float__ raises
        raise TypeError(f"{name} wants a number") from error


def _bfloat16_bits(number: float) -> int:
    """The upper half of the float32, rounded to nearest even."""
    try:
        (bits,) = struct.unpack("=I", struct.pack("=f", number))
    except OverflowError:
        raise OverflowError("it does not fit into bfloat16") from None
    if number != number:
        return bits >> 16 | 0x40
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16


@functools.cache
def _make_table() -> dict[str, Scalar]:
    table: dict[str, Scalar] = {}

    def add(names: str, code: str, dtypes: str, kind: str = "int") -> None:
        size = struct.calcsize(code)
        for name in names.split(","):
            table[name] = Scalar(name, code, 1, size, size, tuple(dtypes.split()), kind)

    # torch has hardly any unsigned types, so signed arrays pass for unsigned ones;
    # and a byte is a byte.
    add("bool", "?", "bool", "bool")
    add("char,signed char,int8_t", "b", "int8 uint8 bool bytes8")
    add("unsigned char,uint8_t,uchar", "B", "uint8 int8 bool bytes8")
    add("short,int16_t", "h", "int16")
    add("unsigned short,uint16_t,ushort", "H", "uint16 int16")
    add("int,int32_t", "i", "int32")
    add("unsigned int,uint32_t,uint", "I", "uint32 int32")
    add("long,long long,int64_t,ptrdiff_t,intptr_t", "q", "int64")
    add(
        "unsigned long,unsigned long long,uint64_t,size_t,uintptr_t,ulong",
        "Q",
        "uint64 int64",
    )
    add("float", "f", "float32", "float")
    add("double", "d", "float64", "float")
    add("half,__half", "e", "float16", "half")
    add("nv_bfloat16,__nv_bfloat16", "H", "bfloat16", "bfloat16")
    bases = {"char": "char", "uchar": "unsigned char", "short": "short"}
    bases |= {"ushort": "unsigned short", "int": "int", "uint": "unsigned int"}
    bases |= {"long": "long", "ulong": "unsigned long", "longlong": "long long"}
    bases |= {"ulonglong": "unsigned long long", "float": "float", "double": "double"}
    for name, base in bases.items():
        for count in (1, 2, 3, 4):
            _add_vector(table, f"{name}{count}", base, count)
    for name, base in (("half2", "half"), ("nv_bfloat162", "nv_bfloat16")):
        _add_vector(table, name, base, 2)
        _add_vector(table, f"__{name}", base, 2)
    table["dim3"] = Scalar("dim3", "I", 3, 12, 4, ("uint32", "int32"), "int")
    return table


def _add_vector(table: dict[str, Scalar], name: str, base: str, count: int) -> None:
    one = table[base]
    align = one.size if count in (1, 3) else min(16, one.size * count)
    dtypes = one.dtypes
    if count == 2 and one.kind == "float":
        dtypes += ("complex64",) if base == "float" else ("complex128",)
    size = one.size * count
    table[name] = Scalar(name, one.code, count, size, align, dtypes, one.kind)
