"""What the ops of ops.py and products.py share: arrays in, calls of C, arrays out."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from .. import native
from ..native import ArgumentError, OutOfMemory, pointer

Array = Any  # torch.Tensor, numpy.ndarray, or a speaker of CAI or DLPack


def differentiable(function: type[torch.autograd.Function], *args: Any) -> torch.Tensor:
    """function.apply(), without what autograd costs where no gradient is asked."""
    if torch.is_grad_enabled():
        for a in args:
            if isinstance(a, torch.Tensor) and a.requires_grad:
                return function.apply(*args)
    return function.forward(Forgetful(), *args)


def once(backward: Callable) -> Callable:
    """Refuse create_graph=True, whose gradients would be wrong without a word."""

    @functools.wraps(backward)
    def wrapper(ctx, dy):
        if torch.is_grad_enabled():
            raise ArgumentError(
                "create_graph=True asks for gradients of gradients; these ops are "
                "differentiable once"
            )
        return backward(ctx, dy)

    return wrapper


class Forgetful:
    """A ctx that keeps nothing: there will be no backward pass."""

    def save_for_backward(self, *tensors: torch.Tensor) -> None:
        pass


# ---- calling C ---------------------------------------------------------------

CTYPES = {
    torch.float32: "float *",
    torch.int32: "int32_t *",
    torch.int64: "int64_t *",
}


def launch(
    op: str,
    function: str,
    rung: str | None,
    tensors: list[torch.Tensor | None],
    sizes: list[Any],
    *options: Any,
) -> None:
    """Call a launcher of weft.h on the tensors' device and torch's stream."""
    first = next(t for t in tensors if t is not None)
    args = [native.NULL if t is None else pointer(t, CTYPES[t.dtype]) for t in tensors]
    args += [*sizes, *options]
    if first.is_cpu:  # where a call may be over before one has asked for more
        lib = native.library(op, "cpu")
        lib.call(function, lib.rung(rung).index, *args, native.NULL)
        return
    device = first.device
    stream = native.stream_of(device)
    with native.on_device(device):
        lib = native.library(op, device.type)
        lib.call(function, lib.rung(rung).index, *args, stream)


def empty(
    op: str, like: torch.Tensor, *shape: int, dtype: torch.dtype | None = None
) -> torch.Tensor:
    """A result larger than the inputs may be, so large that there is no room."""
    try:
        return like.new_empty(shape, dtype=dtype)
    except RuntimeError as error:  # of many kinds: no room, no such size, ...
        if "CUDA error" in str(error):
            raise
        each = (dtype or like.dtype).itemsize
        size = f"{each * math.prod(shape)} bytes"
        message = f"{op}: out of memory: {size} for a result of shape {shape}"
        raise OutOfMemory(message) from None


# ---- arrays in, arrays out ----------------------------------------------------


def inputs(op: str, **arrays: Array | None) -> list[torch.Tensor | None]:
    """The arrays as float32 tensors that share memory with them, on one device.

    Only a bias may be None.
    """
    tensors = [
        None if a is None and name == "bias" else tensor_of(op, name, a, torch.float32)
        for name, a in arrays.items()
    ]
    if len(tensors) > 1:
        want_one_device(op, dict(zip(arrays, tensors)))
    return tensors


def want_one_device(op: str, tensors: dict[str, torch.Tensor | None]) -> None:
    devices = {name: t.device for name, t in tensors.items() if t is not None}
    if len(set(devices.values())) > 1:
        where = ", ".join(f"{name} is on {device}" for name, device in devices.items())
        raise ArgumentError(f"{op}: the arrays are on different devices: {where}")


def tensor_of(op: str, name: str, array: Array, dtype: torch.dtype) -> torch.Tensor:
    """`array` as a tensor of `dtype` that shares its memory; refused if it can't."""
    tensor = as_tensor(op, name, array, dtype)
    if tensor.dtype != dtype:
        raise ArgumentError(f"{op}: {name} is {tensor.dtype}, want {dtype}")
    want_dense(op, name, tensor, contiguous=True)
    return tensor


def want_dense(
    op: str, name: str, tensor: torch.Tensor, contiguous: bool = False
) -> None:
    """Refuse what a kernel cannot be given: sparse, empty, elsewhere, in pieces."""
    if not (tensor.is_cpu or tensor.is_cuda):
        raise ArgumentError(
            f"{op}: {name} is on {tensor.device}, want a CPU or CUDA device"
        )
    if tensor.layout != torch.strided:
        raise ArgumentError(f"{op}: {name} is {tensor.layout}, want a dense array")
    if contiguous and not tensor.is_contiguous():
        raise ArgumentError(
            f"{op}: {name} {shape_of(tensor)} has strides {tuple(tensor.stride())}, "
            f"want a contiguous array: call .contiguous() or np.ascontiguousarray"
        )
    if tensor.numel() == 0:
        raise ArgumentError(f"{op}: {name} is empty: its shape is {shape_of(tensor)}")


def as_tensor(op: str, name: str, array: Array, dtype: torch.dtype) -> torch.Tensor:
    if isinstance(array, torch.Tensor):
        return array
    if isinstance(array, np.ndarray):
        if not array.flags.writeable:
            array = array.copy()  # torch has no read-only tensors
        if any(stride < 0 for stride in array.strides):
            raise ArgumentError(
                f"{op}: {name} {array.shape} has strides {array.strides} bytes, "
                f"want a contiguous array: call np.ascontiguousarray"
            )
        try:
            return torch.from_numpy(array)
        except (TypeError, ValueError) as error:  # a dtype, byte order or stride
            raise ArgumentError(
                f"{op}: {name} is {array.dtype} with strides {array.strides} bytes, "
                f"want {dtype}: {error}"
            ) from None
    if hasattr(array, "__dlpack__"):  # first, since it names the device
        return torch.from_dlpack(array)
    if hasattr(array, "__cuda_array_interface__"):
        return torch.as_tensor(array, device="cuda")
    raise ArgumentError(
        f"{op}: {name} is a {type(array).__name__}, want a torch tensor, a NumPy "
        f"array, or an array with DLPack or __cuda_array_interface__"
    )


def same_kind(array: Array, result: torch.Tensor) -> Array:
    """`result` as the kind of array that came in."""
    return result.detach().numpy() if isinstance(array, np.ndarray) else result


def want_dims(op: str, dims: int, **tensors: torch.Tensor) -> None:
    for name, tensor in tensors.items():
        if tensor.dim() != dims:
            raise ArgumentError(
                f"{op}: {name} has {tensor.dim()} dimensions {shape_of(tensor)}, "
                f"want {dims}"
            )


def want_vector(op: str, count: int, **tensors: torch.Tensor | None) -> None:
    for name, tensor in tensors.items():
        if tensor is not None and tuple(tensor.shape) != (count,):
            raise ArgumentError(f"{op}: {name} is {shape_of(tensor)}, want ({count},)")


def shape_of(tensor: torch.Tensor) -> str:
    return str(tuple(tensor.shape))
