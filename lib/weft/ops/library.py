"""Ops of PyTorch's library: torch.ops.weft.relu, and the reader's own kernels.

weft.relu() calls torch.ops.weft.relu where PyTorch needs a name instead of a call to C:
in torch.compile, in torch.export, and in vmap and the other transforms of torch.func.
launcher_ops.py derives these ops. `import weft.ops` registers all of them, and so does
the first use of an op, such as weft.relu. `import weft` alone does not, since it does
not import PyTorch. A program that loads an exported model needs `import weft.ops`, too.
register_op() registers the reader's kernels, as torch.ops.weft_user.NAME.

Bad input raises ArgumentError, which is a RuntimeError. Devices without kernels raise
NotImplementedError, and so do second derivatives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..base.errors import ArgumentError
from ..cells.module import Kernel, Module, select_only_kernel
from ..cells.structs import find_scalar
from .calls import tensor_of

WEFT = torch.library.Library("weft", "FRAGMENT")
DEVICES = ("cpu", "cuda")
THREADS = 256  # per block of a reader's kernel
FLOATS = torch.float32, torch.float64, torch.float16, torch.bfloat16


class LibraryOp:
    """An op of PyTorch's library with its shapes, gradients and rule for vmap."""

    def __init__(self, library: Any, schema: str, gradient: bool):
        """Register the op.

        library: a torch.library.Library, which determines the namespace. schema: such
        as "relu(Tensor x) -> Tensor". gradient: whether differentiate() is used; if
        not, run() and infer_shapes() must refuse arrays that require gradients.
        """
        name, _, rest = schema.partition("(")
        full = f"{library.ns}::{name}"
        torch.library.define(full, f"({rest}", lib=library)
        torch.library.impl(full, DEVICES, self.run, lib=library)
        torch.library.register_fake(full, self.infer_shapes, lib=library)
        self.overload = getattr(getattr(torch.ops, library.ns), name).default
        self.gradient = gradient
        torch.library.register_vmap(full, self.batch, lib=library)
        if not gradient:
            library.impl(name, torch.library.fallthrough_kernel, "Autograd")
            return
        torch.library.register_autograd(
            full,
            lambda ctx, *grads: self.differentiate(ctx, ctx.needs_input_grad, *grads),
            setup_context=lambda ctx, inputs, output, keyword_only_inputs=None: (
                self.remember(ctx, inputs, output, **(keyword_only_inputs or {}))
            ),
            lib=library,
        )

    def call(self, options: dict[str, Any], *args: Any) -> Any:
        """Call the op, also in a transform of torch.func."""
        if self.gradient and torch._C._are_functorch_transforms_active():
            return Transformed.apply(self, options, *args)
        return self.overload(*args, **options)

    def run(self, *args: Any, **options: Any) -> Any:
        """Compute the results on the arrays' device."""
        raise NotImplementedError

    def infer_shapes(self, *args: Any, **options: Any) -> Any:
        """Return empty results of the right shapes, for arrays without numbers."""
        raise NotImplementedError

    def batch(self, info: Any, in_dims: Any, *args: Any, **options: Any) -> Any:
        """Run the op on batches, whose dimensions are in_dims (None: no batch).

        Return the results, and the dimension of the batch in each. By default, the op
        runs once for each element of the batch.
        """
        dims = [
            d if isinstance(a, torch.Tensor) else None for a, d in zip(args, in_dims)
        ]
        calls = [
            self.call(
                options,
                *(
                    array if dim is None else array.select(dim, i).contiguous()
                    for array, dim in zip(args, dims)
                ),
            )
            for i in range(info.batch_size)
        ]
        if isinstance(calls[0], torch.Tensor):
            return torch.stack(calls), 0
        return tuple(map(torch.stack, zip(*calls))), (0,) * len(calls[0])

    def remember(self, ctx: Any, inputs: Any, output: Any, **options: Any) -> None:
        """Save the values that differentiate() reads."""

    def differentiate(self, ctx: Any, needs: Any, *grads: Any) -> tuple[Any, ...]:
        """Return the gradient of each argument that needs one, and None for others."""
        raise NotImplementedError(
            f"{self.overload}: second derivatives are not implemented; the ops are "
            f"differentiable once"
        )


class Transformed(torch.autograd.Function):
    """A call in a transform of torch.func; register_autograd() does not support it."""

    @staticmethod
    def forward(op: LibraryOp, options: dict[str, Any], *args: Any) -> Any:
        return op.overload(*args, **options)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.op, options, *args = inputs
        ctx.op.remember(ctx, args, output, **options)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        needs = ctx.needs_input_grad[2:]
        return None, None, *ctx.op.differentiate(ctx, needs, *grads)

    @staticmethod
    def vmap(info: Any, in_dims: Any, op: LibraryOp, options: Any, *args: Any) -> Any:
        return op.batch(info, in_dims[2:], *args, **options)


# ---- the reader's kernels ------------------------------------------------------------

_USER = torch.library.Library("weft_user", "FRAGMENT")


class _Elementwise(LibraryOp):
    """A kernel on arrays of one shape: kernel(result, *arrays, n)."""

    def __init__(self, name: str, arrays: tuple[str, ...]):
        self.name, self.arrays = name, arrays
        self.kernel: Kernel | None = None
        self.backward: _Elementwise | None = None
        takes = ", ".join(f"Tensor {array}" for array in arrays)
        super().__init__(_USER, f"{name}({takes}) -> Tensor", gradient=True)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return self.call({}, x)

    def run(self, *args: torch.Tensor) -> torch.Tensor:
        y = self.infer_shapes(*args)
        if count := y.numel():
            kernel: Any = self.kernel
            if kernel.signature.template:
                kernel = kernel[y.dtype]
            kernel[-(-count // THREADS), THREADS](y, *args, count)
        return y

    def infer_shapes(self, *args: torch.Tensor) -> torch.Tensor:
        for name, array in zip(self.arrays, args):
            tensor_of(self.name, name, array, *self._dtypes())
            if array.shape != args[0].shape or array.dtype != args[0].dtype:
                raise ArgumentError(
                    f"{self.name}: {name} is {array.dtype} {tuple(array.shape)}, but "
                    f"{self.arrays[0]} is {args[0].dtype} {tuple(args[0].shape)}"
                )
        return torch.empty_like(args[0])

    def _dtypes(self) -> Sequence[torch.dtype]:
        """Return the dtypes that the kernel takes; a template takes all of FLOATS."""
        if self.kernel is None or self.kernel.signature.template:
            return FLOATS
        kind = find_scalar(self.kernel.params[0].type)
        return [getattr(torch, name) for name in kind.dtypes] if kind else FLOATS

    def batch(self, info: Any, in_dims: Any, *args: Any) -> tuple[torch.Tensor, int]:
        shape = next(
            a.movedim(d, 0).shape for a, d in zip(args, in_dims) if d is not None
        )
        moved = (
            a.expand(shape) if d is None else a.movedim(d, 0)
            for a, d in zip(args, in_dims)
        )
        return self.call({}, *(array.contiguous() for array in moved)), 0

    def remember(self, ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0])

    def differentiate(self, ctx: Any, needs: Any, *grads: Any) -> tuple[Any, ...]:
        if len(self.arrays) > 1:
            return super().differentiate(ctx, needs, *grads)
        if self.backward.kernel is None:
            raise NotImplementedError(
                f"weft_user::{self.name} has no gradient: "
                f"register_op(name, forward, backward) adds one"
            )
        (x,) = ctx.saved_tensors
        return (self.backward.call({}, grads[0].contiguous(), x),)


_registered: dict[str, _Elementwise] = {}


def register_op(
    name: str, forward: Kernel | Module, backward: Kernel | Module | None = None
) -> Callable[[torch.Tensor], torch.Tensor]:
    """Register an elementwise kernel as torch.ops.weft_user.NAME; return a function.

    forward: a kernel of %%cuda or load_cuda() with the parameters (y, x, n), which
    writes n numbers to y.
    backward: a kernel with the parameters (dx, dy, x, n), which writes the gradient dx
    of x from the gradient dy of y. Without it, a backward pass raises
    NotImplementedError.

    The kernels run with one thread for each element, in blocks of 256, on the device of
    x. A template of one type takes float32, float64, float16 and bfloat16; gradcheck()
    requires float64.

    The function takes a contiguous tensor x of any shape, and returns y with its shape
    and dtype. It works in torch.compile, torch.export and torch.func. A second call
    with the same name replaces the kernels, also in layers and compiled functions that
    exist already.

    Raises ArgumentError for a name that is not an identifier, and for kernels with
    other parameters.
    """
    if not name.isidentifier() or name.startswith("_") or name.endswith("_backward"):
        raise ArgumentError(
            f"register_op: name={name!r}: expected an identifier such as 'swish', "
            f"without a leading _ or the ending _backward"
        )
    kernels = [
        _want_parameters("forward", forward, "y", "x", "n"),
        backward and _want_parameters("backward", backward, "dx", "dy", "x", "n"),
    ]
    if name not in _registered:
        op = _registered[name] = _Elementwise(name, ("x",))
        op.backward = _Elementwise(f"{name}_backward", ("dy", "x"))
    op = _registered[name]
    op.kernel, op.backward.kernel = kernels
    return op


def _want_parameters(role: str, kernel: Any, *names: str) -> Kernel:
    """Return the kernel; refuse one whose parameters are not arrays and a number."""
    kernel = select_only_kernel(kernel)
    expected = f"expected a kernel with the parameters ({', '.join(names)})"
    if not isinstance(kernel, Kernel):
        raise ArgumentError(f"register_op: {role} is {kernel!r:.60}, {expected}")
    pointers = [param.pointer for param in kernel.params]
    if pointers != [True] * (len(names) - 1) + [False] or kernel.params[0].const:
        raise ArgumentError(
            f"register_op: {role} is {kernel.signature}, {expected}: arrays, and the "
            f"number of elements"
        )
    return kernel
