"""The arguments of a launch: Python values converted to the kernel's C types.

An array is described by its address, its dtype and its device. A number is converted to
the type of its parameter. A value that does not fit raises ArgumentError, which names
the kernel and the parameter, and describes the value.
"""

from __future__ import annotations

import contextlib
import ctypes
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from ..base.errors import ArgumentError
from ..base.text import shorten_repr
from ..csource.signature import Param
from . import arrays, structs
from .arrays import Array, describe
from .structs import CScalar, Member, StructLayout, find_scalar


def first_array(value: Any) -> Array | None:
    """Return `value` as an Array, or the first Array in a tuple or a list."""
    if not isinstance(value, (tuple, list)):
        return describe(value)
    return next(filter(None, map(first_array, value)), None)


class Packed(bytes):
    """The bytes of a struct passed by value.

    holds: the arrays that its members point to, each with the member's declaration.
    """

    holds: Sequence[tuple[Param, Array]] = ()


Holds = list[tuple[Param, Array]]


class Binder:
    """The parameters of one kernel, prepared for many launches.

    source: the CUDA C text that defines the structs.
    layouts[i]: layout of parameter i's type (for a pointer, of the type that it points
        to); None unless this type is a struct or an address.
    holds_addresses: whether any of these layouts contains addresses.
    offsets[i]: byte offset of argument i in the result of pack(), aligned for its type.
        Structs are aligned to 16 bytes, unlike in a CU_LAUNCH_PARAM_BUFFER.
    """

    def __init__(self, kernel: str, params: Sequence[Param], source: str = "") -> None:
        self.kernel, self.source = kernel, source
        self.params = tuple(params)
        self.types = tuple(find_scalar(p.type) for p in self.params)
        self._unlike: set[str] = set()
        # The compiler's sizes, if a parameter is a struct.
        self._sizes: Sequence[int] = ()
        self._read_layouts()
        kinds = zip(self.params, self.types)
        self._has_structs = any(t is None and not p.pointer for p, t in kinds)
        self._layout: tuple[struct.Struct, tuple[int, ...]] | None = None
        if not self._has_structs:
            self._layout = self._lay_out([None] * len(self.params))

    def _read_layouts(self) -> None:
        kinds = zip(self.params, self.types)
        self.layouts = [None if kind else self.layout_of(p.type) for p, kind in kinds]
        self.holds_addresses = any(one and one.pointers for one in self.layouts)

    def layout_of(self, kind: str) -> StructLayout | None:
        """Return the layout of a struct or an address type; None for other types.

        It is also None after check_sizes() has found a different size for the type.
        """
        return None if kind in self._unlike else structs.find_layout(self.source, kind)

    def check_sizes(self, sizes: Sequence[int], count: int) -> None:
        """Compare the parameters' number and sizes with the compiler's.

        If the size of a struct differs, the layout of this struct is forgotten. Raises
        ArgumentError for any other difference, since only a macro can cause it.

        sizes: the compiler's sizes of the parameters, in bytes. count: their number.
        """
        if count != len(self.params):
            shown = f"its source shows {len(self.params)}"
            fault = f"{self.kernel} has {count} parameters, but {shown}"
            raise ArgumentError(f"{fault}: write its parameters without macros")
        kinds = zip(self.params, self.types, self.layouts, sizes)
        for param, kind, layout, size in kinds:
            expected = 8 if param.pointer else kind.size if kind else size
            if size != expected:
                text = f"has {size} bytes, but {param.type} has {expected}"
                raise self._error(param, f"{text}: write the type without a macro")
            if not param.pointer and layout is not None and layout.size != size:
                self._unlike.add(param.type)
        self._sizes = sizes if self._has_structs else ()
        if self._unlike:
            self._read_layouts()

    @property
    def offsets(self) -> tuple[int, ...]:
        """The byte offsets of the arguments, if no parameter is a struct."""
        assert self._layout is not None
        return self._layout[1]

    def bind(self, args: Sequence[Any]) -> list[Any]:
        """Check the arguments and return them in the order of the parameters.

        A pointer becomes an Array (or None for NULL), a struct becomes bytes, and any
        other value becomes a tuple of numbers. Raises ArgumentError for a value that
        does not fit.
        """
        if len(args) != len(self.params):
            raise ArgumentError(self._count(len(args)))
        bound = [
            (self._pointer if param.pointer else self._value)(param, kind, arg)
            for param, kind, arg in zip(self.params, self.types, args)
        ]
        for param, value, size in zip(self.params, bound, self._sizes):
            if isinstance(value, bytes) and len(value) != size:
                fault = f"{param} has {size} bytes, but {len(value)} are given"
                cure = "the fields must be those of the C struct (NumPy: align=True)"
                raise ArgumentError(f"{self.kernel}: {fault}: {cure}")
        return bound

    def pack(
        self, bound: Sequence[Any], addresses: Sequence[int]
    ) -> tuple[bytes, tuple[int, ...]]:
        """Pack the arguments in the kernel's layout; return the bytes and offsets.

        addresses: addresses of the pointer arguments, in the order of the parameters.
        """
        layout = self._layout or self._lay_out(bound)
        pointers = iter(addresses)
        flat: list[Any] = []
        for param, value in zip(self.params, bound):
            if param.pointer:
                flat.append(next(pointers))
            elif isinstance(value, bytes):
                flat.append(value)
            else:
                flat += value
        return layout[0].pack(*flat), layout[1]

    def _lay_out(self, bound: Sequence[Any]) -> tuple[struct.Struct, tuple[int, ...]]:
        form, offsets, end = "=", [], 0
        for param, kind, value in zip(self.params, self.types, bound):
            if param.pointer:
                code, size, align = "Q", 8, 8
            elif kind:
                code, size, align = kind.code * kind.count, kind.size, kind.align
            else:
                code, size, align = f"{len(value)}s", len(value), 16
            pad = -end % align
            form += "x" * pad + code
            offsets.append(end + pad)
            end += pad + size
        return struct.Struct(form), tuple(offsets)

    # ---- one argument ----

    def _count(self, count: int) -> str:
        expected = len(self.params)
        text = f"{self.kernel} takes {expected} argument{'s' * (expected != 1)}, "
        text += f"but {count} {'is' if count == 1 else 'are'} given: "
        return text + f"{self.kernel}({', '.join(map(str, self.params))})"

    def _error(self, param: Param, message: str) -> ArgumentError:
        return ArgumentError(f"{self.kernel}: {param}: {message}")

    def _misfit(self, param: Param, expected: str, value: Any) -> ArgumentError:
        return self._error(param, f"{expected}, but got {_describe_value(value)}")

    def _value(self, param: Param, kind: CScalar | None, arg: Any) -> Any:
        if kind is None:
            return self._struct(param, arg)
        try:
            return kind.numbers(arg)
        except (TypeError, OverflowError) as error:
            raise self._misfit(param, str(error), arg) from None

    def _struct(self, param: Param, arg: Any) -> bytes:
        if isinstance(arg, (bytes, bytearray)):
            return Packed(arg)
        layout = self.layout_of(param.type)
        if isinstance(arg, np.void) or (
            isinstance(arg, np.ndarray) and arg.dtype.fields and arg.ndim == 0
        ):
            if layout is not None:
                self._check_fields(param, layout, arg.dtype)
            return Packed(arg.tobytes())
        if layout is not None and isinstance(arg, (tuple, list)):
            return self._pack_list(param, layout, [arg])
        if isinstance(arg, ctypes.Structure):
            return Packed(arg)
        if isinstance(arg, np.generic):  # an enum's value, passed as np.int32(1)
            return Packed(arg.tobytes())
        given = _describe_value(arg)
        raise self._error(
            param,
            f"pass {param.type} as {structs.tuple_of(layout)}one element of a "
            f"structured NumPy array (align=True), or bytes; got {given}",
        )

    # ---- structs, and lists of them or of arrays ----

    def _pack_list(self, param: Param, layout: StructLayout, values: Any) -> Packed:
        """Pack the values one after another, like a C array."""
        holds: Holds = []
        rows = [self._pack_struct(param, layout, value, holds) for value in values]
        packed = Packed(b"".join(rows))
        packed.holds = holds
        return packed

    def _pack_struct(
        self, param: Param, layout: StructLayout, value: Any, holds: Holds
    ) -> bytes:
        if isinstance(value, (np.void, bytes)):
            return self._encode_struct(param, layout, value)
        data, members = bytearray(layout.size), layout.members
        if not isinstance(value, (tuple, list)) or len(value) != len(members):
            count = f"{len(value)} values" if isinstance(value, (tuple, list)) else ""
            description = f"but got {count or _describe_value(value)}"
            raise self._error(param, f"expects {structs.tuple_of(layout)}{description}")
        for member, part in zip(members, value):
            declaration, kind = structs.member_of(member.param, param), member.kind
            for i, one in enumerate(self._elements(declaration, member, part)):
                if member.param.pointer:
                    form, packed = "Q", [self._address(declaration, one, holds)]
                elif kind:
                    form = kind.code * kind.count
                    packed = self._value(declaration, kind, one)
                else:
                    row = self._pack_struct(declaration, member.inner, one, holds)
                    form, packed = f"{member.size}s", [row]
                at = member.offset + i * member.size
                struct.pack_into(f"={form}", data, at, *packed)
        return bytes(data)

    def _encode_struct(self, param: Param, layout: StructLayout, value: Any) -> bytes:
        if isinstance(value, np.void) and value.dtype.fields:
            self._check_fields(param, layout, value.dtype)
        data = value if isinstance(value, bytes) else value.tobytes()
        if len(data) != layout.size:
            text = f"{layout.name} has {layout.size} bytes, but {len(data)} are given"
            raise self._error(param, text)
        return data

    def _elements(self, param: Param, member: Member, value: Any) -> list[Any]:
        """List the elements of a member array, row by row; else return [value]."""
        flat = [value]
        for length in member.extents:
            rows = [list(one) if hasattr(one, "__len__") else [] for one in flat]
            if any(len(row) != length for row in rows):
                shape = "".join(f"[{extent}]" for extent in member.extents)
                raise self._misfit(param, f"expects {shape}, nested tuples", value)
            flat = [one for row in rows for one in row]
        return flat

    def _address(self, param: Param, value: Any, holds: Holds) -> int:
        """Return the value of an address member: an array's address, 0 or a number."""
        if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
            if not 0 <= value < 1 << 64:
                raise self._misfit(param, "expects an array", value)
            return int(value)
        array = self._pointer(param, find_scalar(param.type), value)
        if array is None:
            return 0
        holds.append((param, array))
        return array.address

    def _list(self, param: Param, layout: StructLayout, values: Sequence[Any]) -> Array:
        """Build the array of addresses or structs that a list represents.

        The values are arrays for a `float **`, and tuples for an array of structs.
        """
        if layout.name.endswith("*"):
            values = [(value,) for value in values]
        packed = self._pack_list(param, layout, values)
        data: Any = np.frombuffer(bytearray(packed) or bytearray(1), np.uint8)
        data = data[: len(packed)]
        device = common_device(self.kernel, [array for _, array in packed.holds])
        if device is not None and device[0] == "cuda":
            data = torch.from_numpy(data).to(f"cuda:{device[1]}")
        array = describe(data)
        assert array is not None
        array.holds = packed.holds
        return array

    def _check_fields(self, param: Param, layout: StructLayout, dtype: Any) -> None:
        """Compare each field's offset and type with the C member's; ignore names."""
        if misfit := structs.describe_misfit(layout, dtype):
            raise self._error(param, f"{misfit} (C's order of fields, align=True)")

    def _pointer(self, param: Param, kind: CScalar | None, arg: Any) -> Array | None:
        if arg is None:
            return None
        if kind is None and isinstance(arg, (tuple, list)):
            layout = self.layout_of(param.type)
            if layout is not None and (layout.pointers or param.const):
                return self._list(param, layout, arg)
        try:
            array = describe(arg)
        except ArgumentError as error:
            raise self._error(param, str(error)) from None
        if array is None:
            raise self._misfit(param, "expects an array", arg)
        if fault := self._find_fault(param, kind, array):
            raise self._error(param, fault)
        return array

    def _find_fault(self, param: Param, kind: CScalar | None, array: Array) -> str:
        """Return the reason why an array does not fit a pointer; "" if it fits."""
        owner = array.owner
        if not array.contiguous:
            is_torch = isinstance(owner, torch.Tensor)
            strides = owner.stride() if is_torch else owner.strides
            facts = f"(shape {array.shape}, strides {strides})"
            advice = arrays.advise_contiguous(param, owner)
            return f"the array is not contiguous {facts}: {advice}"
        if not (param.const or array.writable):
            return "the array is read-only; only a const parameter accepts it"
        if not param.const and getattr(owner, "requires_grad", False):
            cause = "autograd does not track what a kernel writes: pass its .detach()"
            return f"the tensor requires a gradient, and {cause}"
        target: Any = kind or self.layout_of(param.type)
        if kind is None:
            if param.type.endswith("*") and array.itemsize != 8:
                expected = "addresses (int64 or uint64) or a list of arrays"
                return f"expects {expected}, but got {array}"
            dtype = getattr(owner, "dtype", None)
            if target is not None and getattr(dtype, "fields", None):
                self._check_fields(param, target, dtype)
        elif array.dtype not in kind.dtypes and not array.dtype.startswith("void"):
            advice = arrays.advise_converted(param, owner, kind.dtypes[0])
            return f"expects {kind.dtypes[0]}, but got {array}{advice}"
        if target is not None and array.nbytes % target.size:
            fault = f"not a multiple of {target.size}, the size of {target.name}"
            return f"{array} has {array.nbytes} bytes, {fault}"
        if kind and array.nbytes and array.address % kind.align:
            fault = f"not a multiple of {kind.align}, which {kind.name} requires"
            return f"its address 0x{array.address:x} is {fault}: pass a copy"
        return ""


def list_held_arrays(values: Sequence[Any]) -> list[Array]:
    """List the arrays in structs and lists among bound arguments, at any depth."""
    members: list[Array] = []
    for value in values:
        inner = [array for _, array in getattr(value, "holds", ())]
        members += [*inner, *list_held_arrays(inner)]
    return members


def common_device(kernel: str, bound: Sequence[Any]) -> tuple[str, int] | None:
    """Return the common device of the bound arrays as (type, index).

    The result is None if there are no arrays. Raises ArgumentError, which names two
    arrays, if they are on different devices.
    """
    present = [one for one in bound if isinstance(one, Array)]
    for array in present:
        if array.device != present[0].device:
            raise ArgumentError(
                f"{kernel}: its arrays are on two devices: {present[0]} and {array}; "
                f"move one of them with .to()"
            )
    return present[0].device if present else None


def _describe_value(value: Any) -> str:
    """Describe an argument in a few words."""
    with contextlib.suppress(ArgumentError):  # no kernel can use some arrays
        array = describe(value)
        if array is not None:
            return str(array)
    return f"{shorten_repr(value)} ({type(value).__name__})"
