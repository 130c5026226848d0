"""weft.nn: layers that run the lab's kernels, with the parameters of torch.nn's.

    from weft import nn  # or weft.nn after `import weft`
    model = nn.Sequential(nn.Conv2d(1, 32, 3, padding=1), nn.ReLU())

A layer is a subclass of torch.nn's layer of the same name. It therefore has its
parameters, initial weights, state_dict() and repr(), and a state_dict of one model can
be loaded into the other. Only forward() differs: it calls weft.conv2d() and so on. It
takes contiguous float32 arrays, and works in torch.compile and torch.export. A layer
refuses options that the kernels lack, with ArgumentError.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import Flatten, Module, Sequential

from .. import ops
from ..base.errors import ArgumentError

__all__ = [
    *("Activation", "BatchNorm2d", "Conv2d", "CrossEntropyLoss", "Flatten"),
    *("LayerNorm", "Linear", "MaxPool2d", "Module", "RMSNorm", "ReLU", "Sequential"),
    *("Softmax", "make_cnn"),
]


def _want(layer: Module, **options: Any) -> None:
    """Refuse a layer with other values of these options."""
    for name, want in options.items():
        value = getattr(layer, name)
        # (1, 1) means the same as 1
        if value != want and value != (want, want):
            raise ArgumentError(
                f"weft.nn.{type(layer).__name__}: {name}={value}: its kernels support "
                f"only {name}={want}"
            )


class Conv2d(torch.nn.Conv2d):
    """A convolution of x (n,ic,h,w) with stride 1; see weft.conv2d()."""

    def __init__(self, *args: Any, **options: Any):
        super().__init__(*args, **options)
        _want(self, stride=1, dilation=1, groups=1, padding_mode="zeros")
        if not isinstance(self.padding, tuple) or len({*self.padding}) > 1:
            raise ArgumentError(
                f"weft.nn.Conv2d: padding={self.padding!r}: its kernels support only "
                f"one number for both directions"
            )

    def forward(self, x: Tensor) -> Tensor:
        return ops.conv2d(x, self.weight, self.bias, self.padding[0])


class BatchNorm2d(torch.nn.BatchNorm2d):
    """Batch norm of x (n,c,h,w) with the batch's moments; see weft.batchnorm2d().

    In eval mode, running statistics replace those of the batch, and PyTorch computes
    the result.
    """

    def __init__(self, *args: Any, **options: Any):
        super().__init__(*args, **options)
        _want(self, affine=True)

    def forward(self, x: Tensor) -> Tensor:
        if self.running_mean is None:
            return ops.batchnorm2d(x, self.weight, self.bias, self.eps)
        if not self.training:
            return super().forward(x)
        y = ops.batchnorm2d(x, self.weight, self.bias, self.eps)
        with torch.no_grad():
            self.num_batches_tracked.add_(1)
            share = self.momentum
            if share is None:
                share = 1.0 / self.num_batches_tracked
            var, mean = torch.var_mean(x, (0, 2, 3))
            self.running_mean.lerp_(mean, share)
            self.running_var.lerp_(var, share)
        return y


class Linear(torch.nn.Linear):
    """x (...,in) @ weight (out,in)^T + bias; see weft.linear()."""

    def forward(self, x: Tensor) -> Tensor:
        return ops.linear(x, self.weight, self.bias)


class ReLU(torch.nn.ReLU):
    """max(x, 0); see weft.relu()."""

    def __init__(self, inplace: bool = False):
        super().__init__(inplace)
        _want(self, inplace=False)

    def forward(self, x: Tensor) -> Tensor:
        return ops.relu(x)


class MaxPool2d(torch.nn.MaxPool2d):
    """Maxima of windows whose stride equals their size; see weft.maxpool2d()."""

    def __init__(self, *args: Any, **options: Any):
        super().__init__(*args, **options)
        _want(self, padding=0, dilation=1, ceil_mode=False, return_indices=False)
        _want(self, stride=self.kernel_size)

    def forward(self, x: Tensor) -> Tensor:
        return ops.maxpool2d(x, self.kernel_size)


class CrossEntropyLoss(torch.nn.CrossEntropyLoss):
    """The mean of -log softmax(logits (n,classes))[target (n)]; see cross_entropy().

    Every target must be a class: no index is ignored.
    """

    def __init__(self, *args: Any, **options: Any):
        super().__init__(*args, **options)
        _want(self, weight=None, reduction="mean", label_smoothing=0.0)
        _want(self, ignore_index=-100)

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        return ops.cross_entropy(logits, target)


class LayerNorm(torch.nn.LayerNorm):
    """Layer norm over the last dimension of x (...,cols); see weft.layernorm()."""

    def __init__(self, *args: Any, **options: Any):
        super().__init__(*args, **options)
        _want_one_dimension(self)

    def forward(self, x: Tensor) -> Tensor:
        return ops.layernorm(x, self.weight, self.bias, eps=self.eps)


class RMSNorm(torch.nn.RMSNorm):
    """RMS norm over the last dimension of x (...,cols); see weft.rmsnorm()."""

    def __init__(self, *args: Any, **options: Any):
        super().__init__(*args, **options)
        _want_one_dimension(self)

    def forward(self, x: Tensor) -> Tensor:
        eps = torch.finfo(x.dtype).eps if self.eps is None else self.eps
        return ops.rmsnorm(x, self.weight, eps=eps)


class Softmax(torch.nn.Softmax):
    """Softmax over the last dimension; see weft.softmax()."""

    def __init__(self, dim: int | None = -1):
        super().__init__(dim)
        _want(self, dim=-1)

    def forward(self, x: Tensor) -> Tensor:
        return ops.softmax(x)


def _want_one_dimension(layer: Any) -> None:
    if len(layer.normalized_shape) != 1:
        raise ArgumentError(
            f"weft.nn.{type(layer).__name__}: normalized_shape="
            f"{layer.normalized_shape}: its kernels support only one dimension"
        )


def make_cnn(
    layers: Any = None,
    activation: Callable[[Tensor], Tensor] | None = None,
    channels: tuple[int, int] = (32, 64),
    hidden: int = 128,
    classes: int = 10,
) -> Sequential:
    """Return the CNN of the MNIST lessons: x (n,1,28,28) -> logits (n,classes).

    layers: weft.nn by default, or torch.nn. activation: a function of an array of any
    shape, such as one of weft.register_op(); by default the ReLU of `layers`.
    The names in state_dict() are those of weft.mnist.Twin, such as conv1.weight.
    """
    layers = layers or sys.modules[__name__]
    c1, c2 = channels

    def activate() -> Module:
        return layers.ReLU() if activation is None else Activation(activation)

    def block(number: int, before: int, after: int) -> dict[str, Module]:
        return {
            f"conv{number}": layers.Conv2d(before, after, 3, padding=1),
            f"bn{number}": layers.BatchNorm2d(after, track_running_stats=False),
            f"relu{number}": activate(),
            f"pool{number}": layers.MaxPool2d(2),
        }

    head = {
        "flatten": Flatten(),
        "fc1": layers.Linear(c2 * 49, hidden),
        "relu3": activate(),
        "fc2": layers.Linear(hidden, classes),
    }
    return Sequential(OrderedDict(block(1, 1, c1) | block(2, c1, c2) | head))


class Activation(Module):
    """A function of one array as a layer without parameters."""

    def __init__(self, function: Callable[[Tensor], Tensor]):
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)

    def extra_repr(self) -> str:
        return str(getattr(self.function, "name", self.function))
