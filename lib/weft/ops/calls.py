"""Functions shared by op.py and products.py: convert arrays, and call C launchers."""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.autograd import forward_ad
from torch.compiler import is_compiling

from ..base.errors import ArgumentError, OutOfMemory
from ..toolchain import native
from ..toolchain.native import convert_int, write_value

# torch.Tensor, numpy.ndarray, or an object with __cuda_array_interface__ or DLPack
Array = Any


def apply_function(function: type[torch.autograd.Function], *args: Any) -> torch.Tensor:
    """Call function.apply(), without autograd's cost if no gradient is needed."""
    if wants_gradients(*args):
        return function.apply(*args)
    return function.forward(Forgetful(), *args)


def wants_gradients(*args: Any) -> bool:
    """Return whether autograd must record a call with these arguments."""
    if torch.is_grad_enabled():
        for a in args:
            if isinstance(a, torch.Tensor) and a.requires_grad:
                return True
    return False


_PLAIN = torch.Tensor, torch.nn.Parameter
_in_transform = torch._C._are_functorch_transforms_active
_count_modes = torch._C._len_torch_dispatch_stack
_NO_HANDLER = torch._C._disabled_torch_dispatch_impl


def is_traced(array: Array) -> bool:
    """Return whether PyTorch traces or transforms a call with this array.

    Such an array has no memory to pass to C. torch.compile, torch.export, torch.func
    and fake tensors see the call as an op of torch.ops.weft instead.
    """
    if is_compiling() or _in_transform() or _count_modes():
        return True
    kind = type(array)
    if kind in _PLAIN or not issubclass(kind, torch.Tensor):
        return False
    return kind.__torch_dispatch__ is not _NO_HANDLER


def refuse_second_gradient(backward: Callable) -> Callable:
    """Wrap backward() to refuse create_graph=True: second gradients would be wrong.

    ctx.op must be the op's name.
    """

    @functools.wraps(backward)
    def wrapper(ctx, *gradients):
        if torch.is_grad_enabled():
            raise ArgumentError(
                f"{ctx.op}: create_graph=True requires second gradients; the ops "
                f"are differentiable once"
            )
        return backward(ctx, *gradients)

    return wrapper


class Forgetful:
    """A ctx for calls without a backward pass; it keeps nothing."""

    def save_for_backward(self, *tensors: torch.Tensor) -> None:
        pass


# ---- calling C ---------------------------------------------------------------


def launch(
    op: str, function: str, rung: str | None, like: torch.Tensor, args: list[Any]
) -> None:
    """Call a launcher of weft.h on the device of `like`, on torch's current stream."""
    if like.is_cpu:  # kept short: on a CPU, a small op takes little time
        lib = native.library(op, "cpu")
        lib.call(function, lib.rung(rung).index, *args, native.NULL)
        return
    device = like.device
    stream = native.stream_of(device)
    with native.on_device(device):
        lib = native.library(op, device.type)
        lib.call(function, lib.rung(rung).index, *args, stream)


def want_rung(op: str, rung: str | None, like: torch.Tensor) -> None:
    """Raise ArgumentError for a rung that launch() would refuse, without a launch."""
    with native.on_device(like.device):
        native.library(op, like.device.type).rung(rung)


def make_empty(
    op: str, like: torch.Tensor, *shape: int, dtype: torch.dtype | None = None
) -> torch.Tensor:
    """Return an uninitialized array; raise OutOfMemory if memory does not suffice."""
    try:
        return like.new_empty(shape, dtype=dtype)
    # torch raises RuntimeError if memory runs out, a size is impossible, ...
    except RuntimeError as error:
        if "CUDA error" in str(error):
            raise
        size = (dtype or like.dtype).itemsize * math.prod(shape)
        message = f"{op}: out of memory: {size} bytes for a result of shape {shape}"
        raise OutOfMemory(message) from None


# ---- arrays in, arrays out ----------------------------------------------------


def want_one_device(op: str, tensors: dict[str, torch.Tensor | None]) -> None:
    devices = {name: t.device for name, t in tensors.items() if t is not None}
    if len(set(devices.values())) > 1:
        places = ", ".join(f"{name} is on {device}" for name, device in devices.items())
        raise ArgumentError(f"{op}: the arrays are on different devices: {places}")


def tensor_of(op: str, name: str, array: Array, *dtypes: torch.dtype) -> torch.Tensor:
    """Return `array` as a tensor of one of `dtypes` that shares its memory.

    Raises ArgumentError for any other array.
    """
    tensor = as_tensor(op, name, array, dtypes[0])
    if tensor.dtype not in dtypes:
        expected = " or ".join(map(str, dtypes))
        raise ArgumentError(f"{op}: {name} is {tensor.dtype}, expected {expected}")
    want_dense(op, name, tensor)
    if not tensor.is_contiguous():
        raise ArgumentError(
            f"{op}: {name} {shape_of(tensor)} has strides {tuple(tensor.stride())}, "
            f"expected a contiguous array: {_dense_instead(name)}"
        )
    return tensor


def _dense_instead(name: str) -> str:
    """Suggest a fix for an array with gaps; a copy does not help for `out`."""
    if name == "out":
        return "omit out, and copy the result into it"
    return "call .contiguous() or np.ascontiguousarray"


def want_dense(op: str, name: str, tensor: torch.Tensor) -> None:
    """Refuse a sparse, nested or dual tensor, and one on an unsupported device."""
    problem = ""
    if not (tensor.is_cpu or tensor.is_cuda):
        problem = f"is on {tensor.device}, expected a CPU or CUDA device"
    elif tensor.layout != torch.strided or tensor.is_nested:
        kind = "nested" if tensor.is_nested else tensor.layout
        problem = f"is {kind}, expected a dense array"
    # In a negated view's memory, the numbers still have their old signs.
    elif tensor.is_neg():
        problem = "is a negated view of other numbers: call .resolve_neg()"
    elif (
        forward_ad._current_level >= 0
        and forward_ad.unpack_dual(tensor).tangent is not None
    ):
        problem = "has a tangent, but there is no forward mode"
    if problem:
        raise ArgumentError(f"{op}: {name} {problem}")


def as_tensor(op: str, name: str, array: Array, dtype: torch.dtype) -> torch.Tensor:
    if isinstance(array, torch.Tensor):
        return array
    if isinstance(array, np.ma.MaskedArray):
        raise ArgumentError(f"{op}: {name} is a masked array: call .filled(...)")
    if isinstance(array, np.ndarray):
        if not array.flags.writeable:
            array = array.copy()  # torch has no read-only tensors
        if any(stride < 0 for stride in array.strides):
            raise ArgumentError(
                f"{op}: {name} {array.shape} has strides {array.strides} bytes, "
                f"expected a contiguous array: {_dense_instead(name)}"
            )
        try:
            return torch.from_numpy(array)
        # torch does not support the dtype, the byte order or a stride.
        except (TypeError, ValueError) as error:
            raise ArgumentError(
                f"{op}: {name} is {array.dtype} with strides {array.strides} bytes, "
                f"expected {dtype}: {error}"
            ) from None
    try:
        # DLPack comes first, since it names the device.
        if hasattr(array, "__dlpack__"):
            return torch.from_dlpack(array)
        if hasattr(array, "__cuda_array_interface__"):
            return torch.as_tensor(array, device="cuda")
    except (AttributeError, BufferError, RuntimeError, TypeError, ValueError) as error:
        reason, kind = str(error).partition("\n")[0], type(array).__name__
        message = f"{op}: {name}, a {kind}, is not a tensor: {reason}"
        raise ArgumentError(message) from None
    raise ArgumentError(
        f"{op}: {name} is a {type(array).__name__}, expected a torch tensor, a NumPy "
        f"array, or an array with DLPack or __cuda_array_interface__"
    )


def same_kind(array: Array, result: torch.Tensor) -> Array:
    """Return `result` as the kind of array that the caller passed."""
    return result.detach().numpy() if isinstance(array, np.ndarray) else result


def shape_of(tensor: torch.Tensor) -> str:
    return str(tuple(tensor.shape))


def want_writable(op: str, name: str, array: Array) -> None:
    """Refuse a read-only array: as_tensor() copies it, so the result would be lost."""
    if isinstance(array, np.ndarray) and not array.flags.writeable:
        raise ArgumentError(f"{op}: {name} {array.shape} is read-only")


def want_no_overlap(
    op: str, name: str, written: torch.Tensor, others: dict[str, torch.Tensor | None]
) -> None:
    """Refuse an output array whose memory overlaps an input array."""
    start, stop = _memory_span(written)
    for other_name, x in others.items():
        if x is not None and x.numel() and written.numel():
            begin, finish = _memory_span(x)
            if begin < stop and start < finish:
                raise ArgumentError(f"{op}: {name} and {other_name} overlap in memory")


def _memory_span(x: torch.Tensor) -> tuple[int, int]:
    offset = sum((size - 1) * step for size, step in zip(x.shape, x.stride()))
    return x.data_ptr(), x.data_ptr() + (offset + 1) * x.element_size()


def number_of(what: str, value: Any, kind: type) -> float:
    """Return `value` as an int or float; an array with a single element is accepted."""
    if kind is int:
        return convert_int(what, value)
    with contextlib.suppress(TypeError, ValueError, RuntimeError, OverflowError):
        if not isinstance(value, str):
            return float(value)
    raise ArgumentError(f"{what}={write_value(value)}: expected a number")


def truth_of(what: str, value: Any) -> bool:
    """Return the truth value of `value`; refuse an array of several elements."""
    with contextlib.suppress(TypeError, ValueError, RuntimeError):
        return bool(value)
    raise ArgumentError(f"{what}={write_value(value)}: expected True or False")
