"""The ops of the lab as Python functions that torch can differentiate.

Every function takes torch tensors (CPU or CUDA; gradients flow), NumPy arrays,
or anything with __cuda_array_interface__ or DLPack (forward only). Arrays are
contiguous float32 on one device; the array decides the target, and torch's
current stream the stream. A NumPy array in gives a NumPy array out, anything
else a torch tensor. `rung` names the implementation ("reference", "naive", ...;
weft.rungs(op) lists them), by default the fastest in fp32 that runs there. matmul
(products.py) takes more: 16-bit floats, transposed views, batches.

Bad input raises native.ArgumentError (a ValueError) with the numbers in it.

products             matmul()
calls                what all ops share: arrays in, calls of C, arrays out
cases/               what every rung is checked with, and by which bound
check                every rung against float64: python -m weft check
sanitizer            every rung under compute-sanitizer: the same with --sanitizer
gradients            a backward pass against finite differences, and autograd
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .. import native
from ..native import ArgumentError, whole
from .calls import (
    Array,
    differentiable,
    empty,
    inputs,
    launch,
    once,
    same_kind,
    shape_of,
    tensor_of,
    want_dims,
    want_vector,
)
from .products import matmul

__all__ = [
    "batchnorm2d",
    "conv2d",
    "cross_entropy",
    "linear",
    "matmul",
    "maxpool2d",
    "relu",
]


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
    x_t, weight_t, bias_t = inputs("conv2d", x=x, weight=weight, bias=bias)
    want_dims("conv2d", 4, x=x_t, weight=weight_t)
    if x_t.shape[1] != weight_t.shape[1]:
        raise ArgumentError(
            f"conv2d: x {shape_of(x_t)} has {x_t.shape[1]} channels, "
            f"weight {shape_of(weight_t)} expects {weight_t.shape[1]}"
        )
    want_vector("conv2d", weight_t.shape[0], bias=bias_t)
    padding = whole("conv2d: padding", padding)
    return same_kind(x, differentiable(_Conv2d, x_t, weight_t, bias_t, padding, rung))


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
    x_t, weight_t, bias_t = inputs("batchnorm2d", x=x, weight=weight, bias=bias)
    want_dims("batchnorm2d", 4, x=x_t)
    want_vector("batchnorm2d", x_t.shape[1], weight=weight_t, bias=bias_t)
    return same_kind(
        x, differentiable(_BatchNorm2d, x_t, weight_t, bias_t, float(eps), rung)
    )


def relu(x: Array, *, rung: str | None = None) -> Array:
    """max(x, 0), any shape; a NaN stays a NaN."""
    (x_t,) = inputs("relu", x=x)
    return same_kind(x, differentiable(_Relu, x_t, rung))


def maxpool2d(
    x: Array, kernel_size: int | Sequence[int], *, rung: str | None = None
) -> Array:
    """Maxima of windows of x (n,c,h,w), stride = window -> (n, c, h//kh, w//kw).

    kernel_size: kh and kw, or one number for both.
    """
    (x_t,) = inputs("maxpool2d", x=x)
    want_dims("maxpool2d", 4, x=x_t)
    pair = kernel_size if isinstance(kernel_size, Sequence) else [kernel_size]
    pair = [whole("maxpool2d: kernel_size", size) for size in pair]
    if len(pair) not in (1, 2):
        raise ArgumentError(f"maxpool2d: kernel_size={kernel_size}: want one or two")
    return same_kind(x, differentiable(_MaxPool2d, x_t, pair[0], pair[-1], rung))


def linear(
    x: Array, weight: Array, bias: Array | None = None, *, rung: str | None = None
) -> Array:
    """x (n,in) @ weight (out,in)^T + bias (out) -> (n,out)."""
    x_t, weight_t, bias_t = inputs("linear", x=x, weight=weight, bias=bias)
    want_dims("linear", 2, x=x_t, weight=weight_t)
    if x_t.shape[1] != weight_t.shape[1]:
        raise ArgumentError(
            f"linear: x {shape_of(x_t)} has {x_t.shape[1]} features, "
            f"weight {shape_of(weight_t)} expects {weight_t.shape[1]}"
        )
    want_vector("linear", weight_t.shape[0], bias=bias_t)
    return same_kind(x, differentiable(_Linear, x_t, weight_t, bias_t, rung))


def cross_entropy(logits: Array, target: Array, *, rung: str | None = None) -> Array:
    """Mean over the batch of -log softmax(logits (n,classes))[target (n) int64].

    Returns one number, shape (). On the host a target outside [0, classes) is an
    error; on a GPU, where looking would cost a synchronisation, the loss is NaN.
    """
    (logits_t,) = inputs("cross_entropy", logits=logits)
    want_dims("cross_entropy", 2, logits=logits_t)
    target_t = tensor_of("cross_entropy", "target", target, torch.int64)
    if target_t.device != logits_t.device:
        raise ArgumentError(
            f"cross_entropy: logits are on {logits_t.device}, "
            f"target is on {target_t.device}"
        )
    want_vector("cross_entropy", logits_t.shape[0], target=target_t)
    return same_kind(logits, differentiable(_CrossEntropy, logits_t, target_t, rung))


# ---- torch.autograd functions ----------------------------------------------
# forward(ctx, tensors..., options..., rung) and backward(ctx, dy) -> a gradient
# for each of them. Gradients that nobody asked for are not computed.


class _Conv2d(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, padding, rung):
        (n, ic, h, w), (oc, _, kh, kw) = x.shape, weight.shape
        oh, ow = h + 2 * padding - kh + 1, w + 2 * padding - kw + 1
        ctx.save_for_backward(x, weight)
        ctx.padding, ctx.rung = padding, rung
        # Sizes that leave nothing over are refused, with the numbers, by the C side.
        y = empty("conv2d", x, n, oc, max(oh, 0), max(ow, 0))
        launch("conv2d", "weft_conv2d", rung, [y, x, weight, bias],
                [n, ic, h, w, oc, kh, kw], _padding(padding))  # fmt: skip
        return y

    @staticmethod
    @once
    def backward(ctx, dy):
        x, weight = ctx.saved_tensors
        need_x, need_weight, need_bias = ctx.needs_input_grad[:3]
        dx = torch.empty_like(x) if need_x else None
        dweight = torch.empty_like(weight) if need_weight else None
        dbias = weight.new_empty(weight.shape[0]) if need_bias else None
        sizes = [*x.shape, weight.shape[0], *weight.shape[2:]]
        launch("conv2d", "weft_conv2d_backward", ctx.rung,
                [dx, dweight, dbias, dy.contiguous(), x, weight], sizes,
                _padding(ctx.padding))  # fmt: skip
        return dx, dweight, dbias, None, None


class _BatchNorm2d(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, eps, rung):
        y, mean, rstd = (torch.empty_like(t) for t in (x, weight, weight))
        launch("batchnorm2d", "weft_batchnorm2d", rung,
                [y, mean, rstd, x, weight, bias], [*x.shape, eps])  # fmt: skip
        ctx.save_for_backward(x, weight, mean, rstd)
        ctx.rung = rung
        return y

    @staticmethod
    @once
    def backward(ctx, dy):
        x, weight, mean, rstd = ctx.saved_tensors
        dx, dweight, dbias = (torch.empty_like(t) for t in (x, weight, weight))
        launch("batchnorm2d", "weft_batchnorm2d_backward", ctx.rung,
                [dx, dweight, dbias, dy.contiguous(), x, weight, mean, rstd],
                [*x.shape])  # fmt: skip
        return dx, dweight, dbias, None, None


class _Relu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, rung):
        y = torch.empty_like(x)
        launch("relu", "weft_relu", rung, [y, x], [x.numel()])
        ctx.save_for_backward(y)
        ctx.rung = rung
        return y

    @staticmethod
    @once
    def backward(ctx, dy):
        (y,) = ctx.saved_tensors
        dx = torch.empty_like(y)
        launch("relu", "weft_relu_backward", ctx.rung,
                [dx, dy.contiguous(), y], [y.numel()])  # fmt: skip
        return dx, None


class _MaxPool2d(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, kh, kw, rung):
        n, c, h, w = x.shape
        y = x.new_empty(n, c, h // max(kh, 1), w // max(kw, 1))
        argmax = torch.empty_like(y, dtype=torch.int32)
        launch("maxpool2d", "weft_maxpool2d", rung, [y, argmax, x],
                [n, c, h, w, kh, kw])  # fmt: skip
        ctx.save_for_backward(argmax)
        ctx.sizes, ctx.rung = [n, c, h, w, kh, kw], rung
        return y

    @staticmethod
    @once
    def backward(ctx, dy):
        (argmax,) = ctx.saved_tensors
        dx = dy.new_empty(ctx.sizes[:4])
        launch("maxpool2d", "weft_maxpool2d_backward", ctx.rung,
                [dx, dy.contiguous(), argmax], ctx.sizes)  # fmt: skip
        return dx, None, None, None


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, rung):
        ctx.save_for_backward(x, weight)
        ctx.rung = rung
        y = empty("linear", x, x.shape[0], weight.shape[0])
        launch("linear", "weft_linear", rung, [y, x, weight, bias],
                [*x.shape, weight.shape[0]])  # fmt: skip
        return y

    @staticmethod
    @once
    def backward(ctx, dy):
        x, weight = ctx.saved_tensors
        need_x, need_weight, need_bias, _ = ctx.needs_input_grad
        dx = torch.empty_like(x) if need_x else None
        dweight = torch.empty_like(weight) if need_weight else None
        dbias = weight.new_empty(weight.shape[0]) if need_bias else None
        launch("linear", "weft_linear_backward", ctx.rung,
                [dx, dweight, dbias, dy.contiguous(), x, weight],
                [*x.shape, weight.shape[0]])  # fmt: skip
        return dx, dweight, dbias, None


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, target, rung):
        loss, prob = logits.new_empty(()), torch.empty_like(logits)
        launch("cross_entropy", "weft_cross_entropy", rung,
                [loss, prob, logits, target], [*logits.shape])  # fmt: skip
        ctx.save_for_backward(prob, target)
        ctx.rung = rung
        return loss

    @staticmethod
    @once
    def backward(ctx, dloss):
        prob, target = ctx.saved_tensors
        dlogits = torch.empty_like(prob)
        launch("cross_entropy", "weft_cross_entropy_backward", ctx.rung,
                [dlogits, dloss.contiguous(), prob, target],
                [*prob.shape])  # fmt: skip
        return dlogits, None, None


def _padding(padding: int) -> Any:
    return native.ffi.new("struct weft_conv2d_options *", {"padding": padding})
