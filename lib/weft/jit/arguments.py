"""The arguments of a launch: what Python passes, as the kernel's C types.

An array is described by its address, its dtype and where it lies; a number is
converted to the type of its parameter. Whatever does not fit is an ArgumentError
that names the kernel, the parameter as it is written, and what came.
"""

from __future__ import annotations

import contextlib
import ctypes
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ..native import ArgumentError
from .scalars import Scalar, scalar, shown
from .signature import Param


@dataclass(slots=True)
class Array:
    """Memory that a kernel may be given.

    dtype: NumPy's name, or bfloat16; of a structured dtype "void<bits>"
    device_type: "cpu" or "cuda"; device_index: 0 on the CPU
    owner: keep this alive while the memory is used
    """

    address: int
    nbytes: int
    dtype: str
    device_type: str
    device_index: int
    shape: tuple[int, ...]
    owner: Any
    itemsize: int
    contiguous: bool = True
    writable: bool = True

    def __str__(self) -> str:
        """float32[1024] on cuda:0"""
        where = "the CPU" if self.device_type == "cpu" else f"cuda:{self.device_index}"
        return f"{self.dtype}[{', '.join(map(str, self.shape))}] on {where}"


def describe(value: Any) -> Array | None:
    """`value` as an Array; None if it is no array.

    torch tensors, NumPy arrays, and what speaks __cuda_array_interface__ or
    DLPack. Nothing is copied. NumPy's scalars are numbers, not arrays.
    """
    if isinstance(value, torch.Tensor):
        return _torch(value)
    if isinstance(value, np.ndarray):
        return _numpy(value)
    if isinstance(value, (int, float, str, bytes, tuple, list, np.generic)):
        return None
    if hasattr(value, "__cuda_array_interface__"):
        try:
            return _cuda_array_interface(value, value.__cuda_array_interface__)
        except ArgumentError:
            raise
        except _MALFORMED as error:
            raise ArgumentError(
                f"{type(value).__name__} has a __cuda_array_interface__ that is none: "
                f"{type(error).__name__}: {error}"
            ) from None
    if hasattr(value, "__dlpack__"):
        try:
            array = _torch(torch.from_dlpack(value))
        except Exception as error:  # whatever its own __dlpack__ raises
            raise ArgumentError(f"{type(value).__name__}: {error}") from None
        array.owner = value
        return array
    return None


class Binder:
    """The parameters of one kernel, prepared for many launches.

    offsets[i] is where argument i lies in what pack() returns, each at its type's
    alignment (16 for structs, so this is no CU_LAUNCH_PARAM_BUFFER then).
    """

    def __init__(self, kernel: str, params: Sequence[Param]) -> None:
        self.kernel = kernel
        self.params = tuple(params)
        self.types = tuple(scalar(p.type) for p in self.params)
        self._by_value = [not p.pointer for p in self.params]
        self.has_structs = any(
            not p.pointer and t is None for p, t in zip(self.params, self.types)
        )
        self._layout: tuple[struct.Struct, tuple[int, ...]] | None = None
        if not self.has_structs:
            self._layout = self._laid_out([None] * len(self.params))

    @property
    def offsets(self) -> tuple[int, ...]:
        """Where the arguments lie (without structs: they are laid out per launch)."""
        assert self._layout is not None
        return self._layout[1]

    def bind(self, args: Sequence[Any]) -> list[Any]:
        """The arguments checked: an Array (None: NULL) per pointer, else a tuple of
        numbers, or bytes for a struct."""
        if len(args) != len(self.params):
            raise ArgumentError(self._count(len(args)))
        return [
            self._pointer(param, kind, arg)
            if param.pointer
            else self._value(param, kind, arg)
            for param, kind, arg in zip(self.params, self.types, args)
        ]

    def pack(
        self, bound: Sequence[Any], addresses: Sequence[int]
    ) -> tuple[bytes, tuple[int, ...]]:
        """The arguments as the kernel's memory holds them, and their offsets.

        addresses: of the pointers, in their order.
        """
        layout = self._layout or self._laid_out(bound)
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

    def _laid_out(self, bound: Sequence[Any]) -> tuple[struct.Struct, tuple[int, ...]]:
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

    def _count(self, given: int) -> str:
        wanted = len(self.params)
        text = f"{self.kernel} takes {wanted} argument{'s' * (wanted != 1)}, "
        text += f"{given} {'is' if given == 1 else 'are'} given: "
        return text + f"{self.kernel}({', '.join(map(str, self.params))})"

    def _error(self, param: Param, message: str) -> ArgumentError:
        return ArgumentError(f"{self.kernel}: {param}: {message}")

    def _value(self, param: Param, kind: Scalar | None, arg: Any) -> Any:
        if kind is None:
            return self._struct(param, arg)
        try:
            return kind.numbers(arg)
        except (TypeError, OverflowError) as error:
            raise self._error(param, f"{error}, this is {_shown(arg)}") from None

    def _struct(self, param: Param, arg: Any) -> bytes:
        if isinstance(arg, (bytes, bytearray)):
            return bytes(arg)
        if isinstance(arg, np.void) or (
            isinstance(arg, np.ndarray) and arg.dtype.fields and arg.ndim == 0
        ):
            return arg.tobytes()
        if isinstance(arg, _CTYPES):
            return bytes(arg)
        if isinstance(arg, np.generic):  # an enum as np.int32(1)
            return arg.tobytes()
        raise self._error(
            param,
            f"{param.type} comes from NumPy as one element of a structured array "
            f"(align=True), or as bytes; this is {_shown(arg)}",
        )

    def _pointer(self, param: Param, kind: Scalar | None, arg: Any) -> Array | None:
        if arg is None:
            return None
        try:
            array = describe(arg)
        except ArgumentError as error:
            raise self._error(param, str(error)) from None
        if array is None:
            raise self._error(param, f"wants an array, this is {_shown(arg)}")
        if not array.contiguous:
            raise self._error(
                param,
                f"the array is not contiguous (shape {array.shape}, strides "
                f"{_strides(array.owner)}): pass {_contiguous(array.owner)}",
            )
        if not param.const:
            self._check_writable(param, array)
        self._check_dtype(param, kind, array)
        return array

    def _check_writable(self, param: Param, array: Array) -> None:
        if not array.writable:
            raise self._error(
                param, "the array is read-only, and only a const parameter may read it"
            )
        if getattr(array.owner, "requires_grad", False):
            raise self._error(
                param,
                "the tensor requires a gradient, which would not see what a kernel "
                "writes: pass its .detach()",
            )

    def _check_dtype(self, param: Param, kind: Scalar | None, array: Array) -> None:
        if kind is None:
            if param.type.endswith("*") and array.itemsize != 8:
                raise self._error(
                    param, f"wants addresses (int64 or uint64), this is {array}"
                )
            return
        if array.dtype not in kind.dtypes and not array.dtype.startswith("void"):
            raise self._error(
                param,
                f"wants {kind.dtypes[0]}, this is {array}"
                f"{_conversion(array.owner, kind.dtypes[0])}",
            )
        if array.nbytes % kind.size:
            raise self._error(
                param,
                f"{array} has {array.nbytes} bytes, no whole number of {kind.name} "
                f"of {kind.size}",
            )
        if array.nbytes and array.address % kind.align:
            raise self._error(
                param,
                f"its address 0x{array.address:x} is no multiple of {kind.align}, as "
                f"{kind.name} needs: pass a copy",
            )


def common_device(kernel: str, bound: Sequence[Any]) -> tuple[str, int] | None:
    """Where the arrays among the bound arguments lie; None: there are none.

    Raises ArgumentError that names two arrays if they lie on different devices.
    """
    first: Array | None = None
    for array in bound:
        if not isinstance(array, Array):
            continue
        if first is None:
            first = array
        elif (array.device_type, array.device_index) != (
            first.device_type,
            first.device_index,
        ):
            raise ArgumentError(
                f"{kernel}: its arrays lie on two devices: {first}, but {array}; "
                f"move one of them with .to()"
            )
    return (first.device_type, first.device_index) if first else None


# ---- the kinds of arrays -------------------------------------------------------


def _torch(tensor: torch.Tensor) -> Array:
    if tensor.layout != torch.strided:
        raise ArgumentError(f"a {tensor.layout} tensor has no plain memory")
    device = tensor.device
    if device.type not in ("cpu", "cuda"):
        raise ArgumentError(f"a tensor on {device}: want one on the CPU or on CUDA")
    return Array(
        tensor.data_ptr(),
        tensor.numel() * tensor.element_size(),
        str(tensor.dtype)[6:],
        device.type,
        device.index or 0,
        tuple(tensor.shape),
        tensor,
        tensor.element_size(),
        tensor.is_contiguous() and not tensor.is_conj() and not tensor.is_neg(),
    )


def _numpy(array: np.ndarray) -> Array:
    dtype = array.dtype
    flags = array.flags
    return Array(
        array.__array_interface__["data"][0],
        array.nbytes,
        _names.get(dtype) or _name(dtype),
        "cpu",
        0,
        array.shape,
        array,
        array.itemsize,
        flags.c_contiguous,
        flags.writeable,
    )


_names: dict[np.dtype, str] = {}  # NumPy makes a dtype's name anew each time


def _name(dtype: np.dtype) -> str:
    if dtype.hasobject or not dtype.isnative:
        raise ArgumentError(
            f"a NumPy array of dtype {dtype}: a kernel needs numbers in this "
            f"machine's byte order"
        )
    _names[dtype] = dtype.name
    return dtype.name


def _cuda_array_interface(value: Any, interface: dict[str, Any]) -> Array:
    dtype = np.dtype(interface["typestr"])
    shape = tuple(interface["shape"])
    count = int(np.prod(shape, dtype=np.int64))
    address, read_only = interface["data"]
    strides, dense = interface.get("strides"), dtype.itemsize
    contiguous = True
    for length, stride in zip(reversed(shape), reversed(strides or ())):
        contiguous = contiguous and (length <= 1 or stride == dense)
        dense *= length
    device = getattr(getattr(value, "device", None), "id", None)  # CuPy, Numba
    index = device if isinstance(device, int) else _current_gpu(value)
    return Array(
        *(address, count * dtype.itemsize, dtype.name, "cuda", index, shape, value),
        *(dtype.itemsize, contiguous, not read_only),
    )


def _current_gpu(value: Any) -> int:
    if not torch.cuda.is_available():
        raise ArgumentError(
            f"{type(value).__name__} says by __cuda_array_interface__ that it lies on "
            f"a GPU, and there is none"
        )
    return torch.cuda.current_device()


_MALFORMED = TypeError, ValueError, KeyError, AttributeError, OverflowError
_CTYPES = ctypes.Structure


def _strides(owner: Any) -> Any:
    return owner.stride() if isinstance(owner, torch.Tensor) else owner.strides


def _contiguous(owner: Any) -> str:
    if isinstance(owner, torch.Tensor):
        return "its .contiguous()"
    return "np.ascontiguousarray() of it"


def _conversion(owner: Any, dtype: str) -> str:
    if isinstance(owner, torch.Tensor) and hasattr(torch, dtype):
        return f": pass its .to(torch.{dtype})"
    if isinstance(owner, np.ndarray) and hasattr(np, dtype):
        return f": pass its .astype(np.{dtype})"
    return ""


def _shown(value: Any) -> str:
    """What was passed, in a few words."""
    with contextlib.suppress(ArgumentError):  # an array that none may use
        array = describe(value)
        if array is not None:
            return str(array)
    return f"{shown(value)} ({type(value).__name__})"
