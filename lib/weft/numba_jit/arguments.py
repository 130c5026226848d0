"""The arguments of a launch: what Numba takes, and a sentence for what it does not."""

from __future__ import annotations

import numbers
import sys
from typing import Any

import numpy as np
import torch

from ..native import ArgumentError

_LISTS = (list, set, frozenset, range, bytearray)
_INT = "want a whole number of 64 bits"


def checked(kernel: str, named: dict[str, Any]) -> list[Any]:
    """The arguments by parameter as numbers, tuples, NumPy arrays and GPU arrays.

    NumPy arrays are the memory of what was passed: arrays and tensors on the host.
    GPU arrays are as they were: torch tensors and what has __cuda_array_interface__.
    Raises ArgumentError for anything else.
    """
    return [_checked(kernel, name, value) for name, value in named.items()]


def on_gpu(value: Any) -> bool:
    """Whether a checked argument is an array on a GPU."""
    return isinstance(value, torch.Tensor) or hasattr(value, "__cuda_array_interface__")


def say_once(text: str) -> None:
    """One line for the reader, the first time only."""
    if text not in _said:
        _said.add(text)
        print(f"weft: {text}", file=sys.stderr)


_said: set[str] = set()


def _checked(kernel: str, name: str, value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return _tensor(kernel, name, value)
    if isinstance(value, np.ndarray):
        return _array(kernel, name, value)
    if isinstance(value, (bool, np.bool_)):
        return value
    if isinstance(value, numbers.Integral):
        # Numba takes a Python int for an int64, whatever it is; np.uint64 it knows.
        if not -(2**63) <= value < (2**64 if isinstance(value, np.uint64) else 2**63):
            raise ArgumentError(f"{kernel}: {name}={value}: {_INT}")
        return value
    if isinstance(value, numbers.Number) and not isinstance(value, np.longdouble):
        return value
    if isinstance(value, tuple):
        for inner in value:
            if not isinstance(inner, (numbers.Number, tuple)):
                raise ArgumentError(
                    f"{kernel}: {name} holds {_kind(inner)}: a tuple may hold numbers; "
                    f"pass arrays one by one"
                )
        return value
    if isinstance(value, _LISTS):
        raise ArgumentError(
            f"{kernel}: {name} is {_kind(value)}, which a GPU cannot read: pass "
            f"np.array({name}) and look at that array after the launch"
        )
    return _other(kernel, name, value)


def _tensor(kernel: str, name: str, tensor: torch.Tensor) -> Any:
    what = f"{kernel}: {name}"
    if tensor.layout != torch.strided:
        raise ArgumentError(f"{what} is a {tensor.layout} tensor: want .to_dense()")
    if tensor.requires_grad:
        raise ArgumentError(
            f"{what} requires a gradient, which would not see what a kernel writes: "
            f"pass its .detach()"
        )
    if tensor.is_conj() or tensor.is_neg():
        raise ArgumentError(
            f"{what} is only to be negated or conjugated: .resolve_conj()"
        )
    if tensor.device.type not in ("cpu", "cuda"):
        raise ArgumentError(f"{what} is on {tensor.device}: want the CPU or CUDA")
    if (dtype := str(tensor.dtype)[6:]) not in _KNOWN:
        raise ArgumentError(
            f"{what} holds {dtype}, which Numba does not know: want {name}.float(), or "
            f"cuda_c(kernel), where it is known"
        )
    return tensor if tensor.device.type == "cuda" else tensor.numpy()


_KNOWN = {
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"),
    *("uint64", "float16", "float32", "float64", "complex64", "complex128"),
}


def _array(kernel: str, name: str, array: np.ndarray) -> np.ndarray:
    dtype = array.dtype
    known = dtype.name in _KNOWN or (dtype.fields and not dtype.hasobject)
    if not known or not dtype.isnative:
        what = "Python objects" if dtype.hasobject else str(dtype)
        raise ArgumentError(
            f"{kernel}: {name} holds {what}, which no GPU kernel of Numba reads: want "
            f"float32, int32 or the like: {name}.astype(np.float32)"
        )
    return np.asarray(array)


def _other(kernel: str, name: str, value: Any) -> Any:
    if hasattr(value, "__cuda_array_interface__"):
        return value
    try:
        if hasattr(value, "__array_interface__"):
            return _array(kernel, name, np.asarray(value))
        if hasattr(value, "__dlpack__"):
            return _tensor(kernel, name, torch.from_dlpack(value))
    except (BufferError, RuntimeError, TypeError) as error:
        raise ArgumentError(f"{kernel}: {name}: {error}") from None
    raise ArgumentError(
        f"{kernel}: {name} is {_kind(value)}: want an array, a tensor, a number or a "
        f"tuple of numbers"
    )


def _kind(value: Any) -> str:
    name = type(value).__name__
    return "None" if value is None else f"{'an' if name[0] in 'aeiou' else 'a'} {name}"
