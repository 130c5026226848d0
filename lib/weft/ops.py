"""The ops of the lab as Python functions that torch can differentiate.

Every function takes torch tensors (CPU or CUDA; gradients flow), NumPy arrays,
or anything with __cuda_array_interface__ or DLPack (forward only). Arrays are
contiguous float32 on one device; the array decides the target, and torch's
current stream the stream. A NumPy array in gives a NumPy array out, anything
else a torch tensor. `rung` names the implementation ("reference", "naive", ...;
weft.rungs(op) lists them), by default the fastest in fp32 that runs there.

Bad input raises native.ArgumentError (a ValueError) with the numbers in it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from . import native
from .native import ArgumentError, OutOfMemory, pointer, whole

Array = Any  # torch.Tensor, numpy.ndarray, or a speaker of CAI or DLPack


def matmul(a: Array, b: Array, *, rung: str | None = None) -> Array:
    """a (m,k) @ b (k,n) -> (m,n)."""
    a_t, b_t = _inputs("matmul", a=a, b=b)
    _want_dims("matmul", 2, a=a_t, b=b_t)
    if a_t.shape[1] != b_t.shape[0]:
        raise ArgumentError(
            f"matmul: a is {_shape(a_t)} and b is {_shape(b_t)}: "
            f"{a_t.shape[1]} columns meet {b_t.shape[0]} rows"
        )
    return _like(a, _apply(_Matmul, a_t, b_t, rung))


def conv2d(
    x: Array,
    weight: Array,
    bias: Array | None = None,
    padding: int = 0,
    *,
    rung: str | None = None,
) -> Array:
    """Cross-correlation of x (n,ic,h,w) with weight (oc,ic,kh,kw), stride 1.

    bias is (oc). Returns (n, oc, h + 2 padding - kh + 1, w + 2 padding - kw + 1).
    """
    x_t, weight_t, bias_t = _inputs("conv2d", x=x, weight=weight, bias=bias)
    _want_dims("conv2d", 4, x=x_t, weight=weight_t)
    if x_t.shape[1] != weight_t.shape[1]:
        raise ArgumentError(
            f"conv2d: x {_shape(x_t)} has {x_t.shape[1]} channels, "
            f"weight {_shape(weight_t)} expects {weight_t.shape[1]}"
        )
    _want_vector("conv2d", weight_t.shape[0], bias=bias_t)
    padding = whole("conv2d: padding", padding)
    return _like(x, _apply(_Conv2d, x_t, weight_t, bias_t, padding, rung))


def batchnorm2d(
    x: Array,
    weight: Array,
    bias: Array,
    eps: float = 1e-5,
    *,
    rung: str | None = None,
) -> Array:
    """(x - mean) / sqrt(var + eps) * weight + bias, per channel of x (n,c,h,w).

    mean and the biased variance are this batch's: there are no running
    statistics. weight and bias are (c). n*h*w must be more than 1.
    """
    x_t, weight_t, bias_t = _inputs("batchnorm2d", x=x, weight=weight, bias=bias)
    _want_dims("batchnorm2d", 4, x=x_t)
    _want_vector("batchnorm2d", x_t.shape[1], weight=weight_t, bias=bias_t)
    return _like(x, _apply(_BatchNorm2d, x_t, weight_t, bias_t, float(eps), rung))


def relu(x: Array, *, rung: str | None = None) -> Array:
    """max(x, 0), any shape; a NaN stays a NaN."""
    (x_t,) = _inputs("relu", x=x)
    return _like(x, _apply(_Relu, x_t, rung))


def maxpool2d(
    x: Array, kernel_size: int | Sequence[int], *, rung: str | None = None
) -> Array:
    """Maxima of windows of x (n,c,h,w), stride = window -> (n, c, h//kh, w//kw).

    kernel_size: kh and kw, or one number for both.
    """
    (x_t,) = _inputs("maxpool2d", x=x)
    _want_dims("maxpool2d", 4, x=x_t)
    pair = kernel_size if isinstance(kernel_size, Sequence) else [kernel_size]
    pair = [whole("maxpool2d: kernel_size", size) for size in pair]
    if len(pair) not in (1, 2):
        raise ArgumentError(f"maxpool2d: kernel_size={kernel_size}: want one or two")
    return _like(x, _apply(_MaxPool2d, x_t, pair[0], pair[-1], rung))


def linear(
    x: Array, weight: Array, bias: Array | None = None, *, rung: str | None = None
) -> Array:
    """x (n,in) @ weight (out,in)^T + bias (out) -> (n,out)."""
    x_t, weight_t, bias_t = _inputs("linear", x=x, weight=weight, bias=bias)
    _want_dims("linear", 2, x=x_t, weight=weight_t)
    if x_t.shape[1] != weight_t.shape[1]:
        raise ArgumentError(
            f"linear: x {_shape(x_t)} has {x_t.shape[1]} features, "
            f"weight {_shape(weight_t)} expects {weight_t.shape[1]}"
        )
    _want_vector("linear", weight_t.shape[0], bias=bias_t)
    return _like(x, _apply(_Linear, x_t, weight_t, bias_t, rung))


def cross_entropy(logits: Array, target: Array, *, rung: str | None = None) -> Array:
    """Mean over the batch of -log softmax(logits (n,classes))[target (n) int64].

    Returns one number, shape (). On the host a target outside [0, classes) is an
    error; on a GPU, where looking would cost a synchronisation, the loss is NaN.
    """
    (logits_t,) = _inputs("cross_entropy", logits=logits)
    _want_dims("cross_entropy", 2, logits=logits_t)
    target_t = _tensor("cross_entropy", "target", target, torch.int64)
    if target_t.device != logits_t.device:
        raise ArgumentError(
            f"cross_entropy: logits are on {logits_t.device}, "
            f"target is on {target_t.device}"
        )
    _want_vector("cross_entropy", logits_t.shape[0], target=target_t)
    return _like(logits, _apply(_CrossEntropy, logits_t, target_t, rung))


def _apply(function: type[torch.autograd.Function], *args: Any) -> torch.Tensor:
    """function.apply(), without what autograd costs where no gradient is asked."""
    if torch.is_grad_enabled():
        for a in args:
            if isinstance(a, torch.Tensor) and a.requires_grad:
                return function.apply(*args)
    return function.forward(_Forgetful(), *args)


def _once(backward: Callable) -> Callable:
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


class _Forgetful:
    """A ctx that keeps nothing: there will be no backward pass."""

    def save_for_backward(self, *tensors: torch.Tensor) -> None:
        pass


# ---- torch.autograd functions ----------------------------------------------
# forward(ctx, tensors..., options..., rung) and backward(ctx, dy) -> a gradient
# for each of them. Gradients that nobody asked for are not computed.


class _Matmul(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b, rung):
        ctx.save_for_backward(a, b)
        ctx.rung = rung
        return _matmul(a, b, rung)

    @staticmethod
    @_once
    def backward(ctx, dc):
        a, b = ctx.saved_tensors
        dc = dc.contiguous()
        need_a, need_b, _ = ctx.needs_input_grad
        da = _matmul(dc, b, ctx.rung, trans_b=1) if need_a else None
        db = _matmul(a, dc, ctx.rung, trans_a=1) if need_b else None
        return da, db, None


class _Conv2d(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, padding, rung):
        (n, ic, h, w), (oc, _, kh, kw) = x.shape, weight.shape
        oh, ow = h + 2 * padding - kh + 1, w + 2 * padding - kw + 1
        ctx.save_for_backward(x, weight)
        ctx.padding, ctx.rung = padding, rung
        # Sizes that leave nothing over are refused, with the numbers, by the C side.
        y = _empty("conv2d", x, n, oc, max(oh, 0), max(ow, 0))
        _launch("conv2d", "weft_conv2d", rung, [y, x, weight, bias],
                [n, ic, h, w, oc, kh, kw], _padding(padding))  # fmt: skip
        return y

    @staticmethod
    @_once
    def backward(ctx, dy):
        x, weight = ctx.saved_tensors
        need_x, need_weight, need_bias = ctx.needs_input_grad[:3]
        dx = torch.empty_like(x) if need_x else None
        dweight = torch.empty_like(weight) if need_weight else None
        dbias = weight.new_empty(weight.shape[0]) if need_bias else None
        sizes = [*x.shape, weight.shape[0], *weight.shape[2:]]
        _launch("conv2d", "weft_conv2d_backward", ctx.rung,
                [dx, dweight, dbias, dy.contiguous(), x, weight], sizes,
                _padding(ctx.padding))  # fmt: skip
        return dx, dweight, dbias, None, None


class _BatchNorm2d(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, eps, rung):
        y, mean, rstd = (torch.empty_like(t) for t in (x, weight, weight))
        _launch("batchnorm2d", "weft_batchnorm2d", rung,
                [y, mean, rstd, x, weight, bias], [*x.shape, eps])  # fmt: skip
        ctx.save_for_backward(x, weight, mean, rstd)
        ctx.rung = rung
        return y

    @staticmethod
    @_once
    def backward(ctx, dy):
        x, weight, mean, rstd = ctx.saved_tensors
        dx, dweight, dbias = (torch.empty_like(t) for t in (x, weight, weight))
        _launch("batchnorm2d", "weft_batchnorm2d_backward", ctx.rung,
                [dx, dweight, dbias, dy.contiguous(), x, weight, mean, rstd],
                [*x.shape])  # fmt: skip
        return dx, dweight, dbias, None, None


class _Relu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, rung):
        y = torch.empty_like(x)
        _launch("relu", "weft_relu", rung, [y, x], [x.numel()])
        ctx.save_for_backward(y)
        ctx.rung = rung
        return y

    @staticmethod
    @_once
    def backward(ctx, dy):
        (y,) = ctx.saved_tensors
        dx = torch.empty_like(y)
        _launch("relu", "weft_relu_backward", ctx.rung,
                [dx, dy.contiguous(), y], [y.numel()])  # fmt: skip
        return dx, None


class _MaxPool2d(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, kh, kw, rung):
        n, c, h, w = x.shape
        y = x.new_empty(n, c, h // max(kh, 1), w // max(kw, 1))
        argmax = torch.empty_like(y, dtype=torch.int32)
        _launch("maxpool2d", "weft_maxpool2d", rung, [y, argmax, x],
                [n, c, h, w, kh, kw])  # fmt: skip
        ctx.save_for_backward(argmax)
        ctx.sizes, ctx.rung = [n, c, h, w, kh, kw], rung
        return y

    @staticmethod
    @_once
    def backward(ctx, dy):
        (argmax,) = ctx.saved_tensors
        dx = dy.new_empty(ctx.sizes[:4])
        _launch("maxpool2d", "weft_maxpool2d_backward", ctx.rung,
                [dx, dy.contiguous(), argmax], ctx.sizes)  # fmt: skip
        return dx, None, None, None


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, rung):
        ctx.save_for_backward(x, weight)
        ctx.rung = rung
        y = _empty("linear", x, x.shape[0], weight.shape[0])
        _launch("linear", "weft_linear", rung, [y, x, weight, bias],
                [*x.shape, weight.shape[0]])  # fmt: skip
        return y

    @staticmethod
    @_once
    def backward(ctx, dy):
        x, weight = ctx.saved_tensors
        need_x, need_weight, need_bias, _ = ctx.needs_input_grad
        dx = torch.empty_like(x) if need_x else None
        dweight = torch.empty_like(weight) if need_weight else None
        dbias = weight.new_empty(weight.shape[0]) if need_bias else None
        _launch("linear", "weft_linear_backward", ctx.rung,
                [dx, dweight, dbias, dy.contiguous(), x, weight],
                [*x.shape, weight.shape[0]])  # fmt: skip
        return dx, dweight, dbias, None


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, target, rung):
        loss, prob = logits.new_empty(()), torch.empty_like(logits)
        _launch("cross_entropy", "weft_cross_entropy", rung,
                [loss, prob, logits, target], [*logits.shape])  # fmt: skip
        ctx.save_for_backward(prob, target)
        ctx.rung = rung
        return loss

    @staticmethod
    @_once
    def backward(ctx, dloss):
        prob, target = ctx.saved_tensors
        dlogits = torch.empty_like(prob)
        _launch("cross_entropy", "weft_cross_entropy_backward", ctx.rung,
                [dlogits, dloss.contiguous(), prob, target],
                [*prob.shape])  # fmt: skip
        return dlogits, None, None


# ---- calling C ---------------------------------------------------------------

_CTYPES = {
    torch.float32: "float *",
    torch.int32: "int32_t *",
    torch.int64: "int64_t *",
}


def _launch(
    op: str,
    function: str,
    rung: str | None,
    tensors: list[torch.Tensor | None],
    sizes: list[Any],
    *options: Any,
) -> None:
    """Call a launcher of weft.h on the tensors' device and torch's stream."""
    first = next(t for t in tensors if t is not None)
    args = [native.NULL if t is None else pointer(t, _CTYPES[t.dtype]) for t in tensors]
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


def _matmul(a, b, rung, trans_a=0, trans_b=0) -> torch.Tensor:
    m, k = a.shape[::-1] if trans_a else a.shape
    n = b.shape[0] if trans_b else b.shape[1]
    c = _empty("matmul", a, m, n)
    options = native.ffi.new(
        "struct weft_matmul_options *",
        {"trans_a": trans_a, "trans_b": trans_b, "alpha": 1.0, "beta": 0.0},
    )
    room = _workspace(a, b, [m, n, k], options, rung)
    options.workspace = pointer(room, "void *")
    options.workspace_bytes = 0 if room is None else room.numel()
    _launch("matmul", "weft_matmul", rung, [c, a, b], [m, n, k], options)
    return c


def _workspace(a, b, sizes, options, rung) -> torch.Tensor | None:
    """Memory that this call of weft_matmul() wants besides its arrays."""
    lib = native.library("matmul", "cpu" if a.is_cpu else a.device.type)
    wants = native.ffi.new("size_t *")
    index = lib.rung(rung).index
    pointers = [pointer(t, "void *") for t in (a, b)]
    lib.call("weft_matmul_workspace", index, wants, *pointers, *sizes, options)
    return a.new_empty(wants[0], dtype=torch.uint8) if wants[0] else None


def _empty(op: str, like: torch.Tensor, *shape: int) -> torch.Tensor:
    """A result larger than the inputs may be, so large that there is no room."""
    try:
        return like.new_empty(shape)
    except RuntimeError as error:  # of many kinds: no room, no such size, ...
        if "CUDA error" in str(error):
            raise
        size = f"{4 * math.prod(shape)} bytes"
        message = f"{op}: out of memory: {size} for a result of shape {shape}"
        raise OutOfMemory(message) from None


def _padding(padding: int) -> Any:
    return native.ffi.new("struct weft_conv2d_options *", {"padding": padding})


# ---- arrays in, arrays out ----------------------------------------------------


def _inputs(op: str, **arrays: Array | None) -> list[torch.Tensor | None]:
    """The arrays as float32 tensors that share memory with them, on one device.

    Only a bias may be None.
    """
    tensors = [
        None if a is None and name == "bias" else _tensor(op, name, a, torch.float32)
        for name, a in arrays.items()
    ]
    if len(tensors) > 1:
        _want_one_device(op, dict(zip(arrays, tensors)))
    return tensors


def _want_one_device(op: str, tensors: dict[str, torch.Tensor | None]) -> None:
    devices = {name: t.device for name, t in tensors.items() if t is not None}
    if len(set(devices.values())) > 1:
        where = ", ".join(f"{name} is on {device}" for name, device in devices.items())
        raise ArgumentError(f"{op}: the arrays are on different devices: {where}")


def _tensor(op: str, name: str, array: Array, dtype: torch.dtype) -> torch.Tensor:
    """`array` as a tensor of `dtype` that shares its memory; refused if it can't."""
    tensor = _as_tensor(op, name, array, dtype)
    if tensor.dtype != dtype:
        raise ArgumentError(f"{op}: {name} is {tensor.dtype}, want {dtype}")
    if not (tensor.is_cpu or tensor.is_cuda):
        raise ArgumentError(
            f"{op}: {name} is on {tensor.device}, want a CPU or CUDA device"
        )
    if tensor.layout != torch.strided:
        raise ArgumentError(f"{op}: {name} is {tensor.layout}, want a dense array")
    if not tensor.is_contiguous():
        raise ArgumentError(
            f"{op}: {name} {_shape(tensor)} has strides {tuple(tensor.stride())}, "
            f"want a contiguous array: call .contiguous() or np.ascontiguousarray"
        )
    if tensor.numel() == 0:
        raise ArgumentError(f"{op}: {name} is empty: its shape is {_shape(tensor)}")
    return tensor


def _as_tensor(op: str, name: str, array: Array, dtype: torch.dtype) -> torch.Tensor:
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


def _like(array: Array, result: torch.Tensor) -> Array:
    """`result` as the kind of array that came in."""
    return result.detach().numpy() if isinstance(array, np.ndarray) else result


def _want_dims(op: str, dims: int, **tensors: torch.Tensor) -> None:
    for name, tensor in tensors.items():
        if tensor.dim() != dims:
            raise ArgumentError(
                f"{op}: {name} has {tensor.dim()} dimensions {_shape(tensor)}, "
                f"want {dims}"
            )


def _want_vector(op: str, count: int, **tensors: torch.Tensor | None) -> None:
    for name, tensor in tensors.items():
        if tensor is not None and tuple(tensor.shape) != (count,):
            raise ArgumentError(f"{op}: {name} is {_shape(tensor)}, want ({count},)")


def _shape(tensor: torch.Tensor) -> str:
    return str(tuple(tensor.shape))
