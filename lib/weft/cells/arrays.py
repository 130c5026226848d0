"""A common view of arrays from torch, NumPy, DLPack and __cuda_array_interface__.

The module also gives advice on arrays that do not fit: which copy to pass
instead, and how to copy the result back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ..base.errors import ArgumentError
from ..csource.signature import Param


def advise_contiguous(param: Param, owner: Any) -> str:
    """Return the advice for an array that is not contiguous."""
    if isinstance(owner, torch.Tensor):
        return _write_advice(param, owner, ".contiguous()")
    if isinstance(owner, np.ndarray):
        return _write_advice(param, owner, "np.ascontiguousarray")
    return f"pass np.ascontiguousarray({param.name or 'x'})"


def advise_converted(param: Param, owner: Any, dtype: str) -> str:
    """Return the advice for an array of another dtype; "" if there is none."""
    if isinstance(owner, torch.Tensor) and hasattr(torch, dtype):
        return ": " + _write_advice(param, owner, f".to(torch.{dtype})")
    if isinstance(owner, np.ndarray) and hasattr(np, dtype):
        return ": " + _write_advice(param, owner, f".astype(np.{dtype})")
    return ""


def _write_advice(param: Param, owner: Any, conversion: str) -> str:
    """Advise passing a copy and, if the kernel may write to it, copying it back."""
    method = conversion.startswith(".")
    name = param.name or "x"
    if param.const:
        return f"pass its {conversion}" if method else f"pass {conversion}({name})"
    copy = f"{name}{conversion}" if method else f"{conversion}({name})"
    line = f"{name}.copy_(c)" if isinstance(owner, torch.Tensor) else f"{name}[...] = c"
    return f"pass a copy c = {copy}, and copy it back after the launch: {line}"


MASKED = "kernels ignore the mask of a masked array: pass its .data, or .filled(...)"


@dataclass(slots=True)
class Array:
    """Memory that can be passed to a kernel.

    dtype: NumPy's name of the dtype, or bfloat16; "void<bits>" for a structured dtype
    device_type: "cpu" or "cuda"; device_index: 0 on the CPU
    owner: object that keeps the memory alive
    holds: for a list of structs or addresses, the arrays that the elements point to
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
    holds: Sequence[tuple[Param, Array]] = ()

    @property
    def device(self) -> tuple[str, int]:
        """The type and the index of the device."""
        return self.device_type, self.device_index

    def __str__(self) -> str:
        """Return a description such as `float32[1024] on cuda:0`."""
        place = "the CPU" if self.device_type == "cpu" else f"cuda:{self.device_index}"
        return f"{self.dtype}[{', '.join(map(str, self.shape))}] on {place}"


def decode_bfloat16(data: bytes) -> np.ndarray:
    """Return the bytes of bfloat16 numbers as float32."""
    return (np.frombuffer(data, np.uint16).astype(np.uint32) << 16).view(np.float32)


def describe(value: Any) -> Array | None:
    """Return `value` as an Array; None if it is not an array.

    Accepts torch tensors, NumPy arrays, and objects with __cuda_array_interface__ or
    DLPack, and copies nothing. NumPy's scalars are numbers, not arrays. Raises
    ArgumentError for an array that no kernel can use.
    """
    if isinstance(value, torch.Tensor):
        return _from_torch(value)
    if isinstance(value, np.ma.MaskedArray):
        raise ArgumentError(MASKED)
    if isinstance(value, np.ndarray):
        return _from_numpy(value)
    if isinstance(value, (int, float, str, bytes, tuple, list, np.generic)):
        return None
    if hasattr(value, "__cuda_array_interface__"):
        try:
            return _cuda_array_interface(value, value.__cuda_array_interface__)
        except ArgumentError:
            raise
        except (TypeError, ValueError, LookupError, AttributeError, OverflowError) as e:
            owner, reason = type(value).__name__, f"{type(e).__name__}: {e}"
            text = f"{owner} has an invalid __cuda_array_interface__: {reason}"
            raise ArgumentError(text) from None
    if hasattr(value, "__dlpack__"):
        try:
            array = _from_torch(torch.from_dlpack(value))
        except Exception as error:  # __dlpack__ of a foreign class may raise anything
            raise ArgumentError(f"{type(value).__name__}: {error}") from None
        array.owner = value
        return array
    return None


def _from_torch(tensor: torch.Tensor) -> Array:
    if tensor.layout != torch.strided:
        raise ArgumentError(f"a {tensor.layout} tensor has no plain memory")
    device = tensor.device
    if device.type not in ("cpu", "cuda"):
        raise ArgumentError(f"a tensor on {device} is neither on the CPU nor on CUDA")
    return Array(
        *(tensor.data_ptr(), tensor.nbytes, str(tensor.dtype)[6:]),
        *(device.type, device.index or 0, tuple(tensor.shape), tensor),
        tensor.element_size(),
        tensor.is_contiguous() and not tensor.is_conj() and not tensor.is_neg(),
    )


def _from_numpy(array: np.ndarray) -> Array:
    dtype, flags = array.dtype, array.flags
    return Array(
        *(array.__array_interface__["data"][0], array.nbytes),
        *(_names.get(dtype) or _name(dtype), "cpu", 0, array.shape, array),
        *(array.itemsize, flags.c_contiguous, flags.writeable),
    )


_names: dict[np.dtype, str] = {}  # NumPy recomputes a dtype's name each time


def _name(dtype: np.dtype) -> str:
    if dtype.hasobject or not dtype.isnative:
        requirement = "a kernel needs numbers in this machine's byte order"
        raise ArgumentError(f"a NumPy array of dtype {dtype}: {requirement}")
    return _names.setdefault(dtype, dtype.name)


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
        source = "according to its __cuda_array_interface__"
        claim = f"{type(value).__name__} is on a GPU, {source}"
        raise ArgumentError(f"{claim}, but there is no GPU")
    return torch.cuda.current_device()
