"""matmul(): a product of matrices, or of batches of them, by any rung of the ladder.

weft_matmul() accepts one batch dimension, so several dimensions are folded into one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..base.errors import ArgumentError
from ..toolchain import native
from ..toolchain.native import pointer, write_value
from .calls import (
    Array,
    apply_function,
    as_tensor,
    is_traced,
    make_empty,
    number_of,
    refuse_second_gradient,
    same_kind,
    shape_of,
    tensor_of,
    truth_of,
    want_dense,
    want_no_overlap,
    want_one_device,
    want_writable,
    wants_gradients,
)
from .library import WEFT, LibraryOp

_PRECISIONS = {
    torch.float32: ("fp32", "tf32", "3xtf32"),
    torch.float16: ("fp16",),
    torch.bfloat16: ("bf16",),
}


def matmul(
    a: Array,
    b: Array,
    *,
    rung: str | None = None,
    precision: str | None = None,
    alpha: float = 1.0,
    beta: float = 1.0,
    c: Array | None = None,
    bias: Array | None = None,
    relu: bool = False,
    out: Array | None = None,
) -> Array:
    """Compute alpha * a (m,k) @ b (k,n) + beta * c (m,n) + bias (n) -> (m,n) float32.

    a and b may have leading batch dimensions, which broadcast as in torch. An operand
    whose batch has length 1, or that has no batch, is one matrix for the whole batch.
    The result has the batch dimensions, and c must have them too. A vector a is one
    row, a vector b one column, and the result lacks that dimension. a and b are both
    float32, float16 or bfloat16. A transposed view (a.T, a.mT) is used without a copy;
    other views must be made contiguous. Operands are copied only if they broadcast
    along some of several batch dimensions. c, bias and out are contiguous float32. If
    k = 0, there are no terms to sum, and a @ b is 0.

    precision: the arithmetic, "fp32" unless a and b have 16 bits. For float32 it may
    also be "tf32" or "3xtf32" (about as accurate as fp32, on tensor cores). rung: the
    implementation; by default, a rung of that precision picks a kernel by size and
    device. tf32 may run as fp32 where that is as fast. beta applies only if c is given.
    relu: whether negative results become 0, as the last step. out: an array that
    receives the result, possibly c itself; gradients are then refused. Raises
    ArgumentError for arguments that do not fit.

    Gradients flow to a, b, c and bias; the same rung computes them.
    """
    if is_traced(a):
        options = {"rung": rung, "precision": precision, "alpha": alpha, "beta": beta}
        return _trace(a, b, c, bias, out, options | {"relu": relu})
    return _compute(a, b, rung, precision, alpha, beta, c, bias, relu, out)


def _compute(
    a: Array,
    b: Array,
    rung: str | None,
    precision: str | None,
    alpha: float,
    beta: float,
    c: Array | None,
    bias: Array | None,
    relu: bool,
    out: Array | None = None,
) -> Array:
    a_t, b_t = _check_pair(a, b)
    chosen = _choose_rung(a_t, rung, precision)
    shape = _shape_of_product(a_t, b_t)
    c_t, bias_t, out_t = _check_addends(a_t, b_t, shape, c, bias, out)
    alpha = number_of("matmul: alpha", alpha, float)
    beta = number_of("matmul: beta", beta, float)
    relu = truth_of("matmul: relu", relu)
    if out_t is not None and wants_gradients(a_t, b_t, c_t, bias_t, out_t):
        raise ArgumentError("matmul: out takes no gradients: call it under no_grad()")
    if not (a_t.numel() and b_t.numel()):
        y = _multiply_empty(a_t, b_t, beta, c_t, bias_t, relu, out_t)
        return out if out is not None else same_kind(a, y)
    folds = _must_fold(a_t, b_t)
    if folds:
        a_t, b_t = _fold_batches(a_t, b_t)
        inner = _shape_of_product(a_t, b_t)
        c_t, out_t = (x if x is None else x.view(inner) for x in (c_t, out_t))
    options = (chosen, alpha, beta, relu, out_t)
    y = apply_function(_Matmul, a_t, b_t, c_t, bias_t, *options)
    if out is not None:
        return out
    return same_kind(a, y.view(shape) if folds else y)


class _Matmul(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b, c, bias, rung, alpha, beta, relu, out):
        y = _multiply(a, b, rung, alpha, beta, c, bias, relu, out)
        ctx.save_for_backward(a, b, y if relu else None)
        ctx.op, ctx.given = "matmul", (rung, alpha, beta)
        return y

    @staticmethod
    @refuse_second_gradient
    def backward(ctx, dy):
        rung, alpha, beta = ctx.given

        def multiply(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return _multiply(a, b, rung, alpha)

        needs = ctx.needs_input_grad[:4]
        gradients = _differentiate(multiply, ctx.saved_tensors, dy, needs, beta)
        return *gradients, None, None, None, None, None


def _differentiate(
    multiply: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    saved: Sequence[Any],
    dy: torch.Tensor,
    needs: Sequence[bool],
    beta: float,
) -> tuple[torch.Tensor | None, ...]:
    """Return the gradients of a, b, c and bias that are needed.

    saved: a, b, and the result if negative numbers in it became 0, or None.
    """
    a, b, y = saved
    need_a, need_b, need_c, need_bias = needs
    dy = dy.contiguous() if y is None else dy.masked_fill(y <= 0, 0.0)
    operand = dy.to(a.dtype)  # the gradient gets the type of a and b
    da = db = None
    if need_a:
        da = multiply(operand, b.mT)
        da = _sum_gradient(da, a).to(a.dtype)
    if need_b and b.dim() == 2 and a.dim() == 3 and _layout_of(a) == 0:
        # If a batch shares one matrix, the sum over the batch is one long product.
        rows, columns = a.shape[-1], dy.shape[-1]
        if a.is_contiguous():
            tall = a.view(-1, rows).mT
            db = multiply(tall, operand.view(-1, columns))
    if need_b:
        db = multiply(a.mT, operand) if db is None else db
        db = _sum_gradient(db, b).to(b.dtype)
    dc = beta * dy if need_c else None
    dbias = dy.flatten(0, -2).sum(0) if need_bias else None
    return da, db, dc, dbias


# ---- torch.ops.weft.matmul ----------------------------------------------------------


class _MatmulOp(LibraryOp):
    """matmul() of operands with 2 or 3 dimensions, without out."""

    def __init__(self):
        tensors = "Tensor a, Tensor b, Tensor? c=None, Tensor? bias=None"
        texts = "str? rung=None, str? precision=None"
        numbers = "float alpha=1.0, float beta=1.0, bool relu=False"
        schema = f"matmul({tensors}, *, {texts}, {numbers}) -> Tensor"
        super().__init__(WEFT, schema, gradient=True)
        options = self.overload._schema.arguments[4:]
        self.defaults = {option.name: option.default_value for option in options}

    def run(self, a, b, c=None, bias=None, **options):
        self._want_folded(a, b)
        with torch.no_grad():
            return _compute(a, b, c=c, bias=bias, **self.defaults | options)

    def infer_shapes(self, a, b, c=None, bias=None, **options):
        self._want_folded(a, b)
        if not a.is_meta:
            _check_pair(a, b)
        shape = _shape_of_product(a, b)
        if not a.is_meta:
            _check_addends(a, b, shape, c, bias, None)
        return a.new_empty(shape, dtype=torch.float32)

    def _want_folded(self, a, b):
        if _must_fold(a, b):
            raise ArgumentError(
                f"matmul: a is {shape_of(a)} and b is {shape_of(b)}, expected 2 or 3 "
                f"dimensions: weft.matmul() takes any number"
            )

    def remember(self, ctx, inputs, output, **options):
        options = self.defaults | options
        a, b = inputs[:2]
        ctx.save_for_backward(a, b, output if options["relu"] else None)
        ctx.given = {n: options[n] for n in ("rung", "precision", "alpha")}
        ctx.beta, ctx.count = options["beta"], len(inputs)

    def differentiate(self, ctx, needs, *grads):
        def multiply(a, b):
            return self.call(ctx.given, a, b)

        needs = [*needs, False, False][:4]
        saved = ctx.saved_tensors
        gradients = _differentiate(multiply, saved, grads[0], needs, ctx.beta)
        return gradients[: ctx.count]


_OP = _MatmulOp()


def _trace(a, b, c, bias, out, options) -> torch.Tensor:
    """Call the op of the library like matmul(); PyTorch can trace this call."""
    if out is not None and wants_gradients(a, b, c, bias, out):
        raise ArgumentError("matmul: out takes no gradients: call it under no_grad()")
    _want_dimensions("a", a)
    _want_dimensions("b", b)
    shape = _shape_of_product(a, b)
    if _must_fold(a, b):
        a, b = _fold_batches(a, b)
        c = c if c is None else c.view(_shape_of_product(a, b))
    y = _OP.call(options, a, b, c, bias).view(shape)
    return y if out is None else out.copy_(y)


def _must_fold(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Return whether weft_matmul() needs other batch dimensions than these."""
    return not (2 <= a.dim() <= 3 and 2 <= b.dim() <= 3)


def _multiply_empty(a, b, beta: float, c, bias, relu: bool, out) -> torch.Tensor:
    """Return the result for an empty a or b, from torch: zeros, plus c and the bias."""
    y = torch.matmul(a, b).float()
    if c is not None and beta:
        y = y + beta * c
    if bias is not None:
        y = y + (bias if b.dim() > 1 else bias[0])
    y = y.relu() if relu else y
    return y if out is None else out.copy_(y)


# ---- one call of weft_matmul() ------------------------------------------------------


def _multiply(
    a: torch.Tensor,
    b: torch.Tensor,
    rung: native.Rung,
    alpha: float = 1.0,
    beta: float = 1.0,
    c: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    relu: bool = False,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return the product of operands stored in a layout that matmul() accepts."""
    shape = _shape_of_product(a, b)
    y = make_empty("matmul", a, *shape, dtype=torch.float32) if out is None else out
    if c is not None and c is not y and c.data_ptr() != y.data_ptr():
        y.copy_(c)
    trans_a, trans_b = _layout_of(a), _layout_of(b)
    m, n, k, batch = shape[-2], shape[-1], a.shape[-1], 1
    steps = (0, 0, 0)
    if len(shape) == 3:
        batch, steps = shape[0], (_step(a), _step(b), m * n)
        if not trans_a and steps[:2] == (m * k, 0) and batch * m < 2**31:
            # If a batch shares one matrix b, the batch is one tall product.
            m, batch = m * batch, 1
    beta = 0.0 if c is None else beta
    is_plain = trans_a == trans_b == relu and batch == 1 and bias is None
    options = native.NULL
    if not (is_plain and alpha == 1 and beta == 0):
        options = native.ffi.new(
            "struct weft_matmul_options *",
            (trans_a, trans_b, alpha, beta, pointer(bias), relu, batch, *steps),
        )
    call = (pointer(a, "void *"), pointer(b, "void *"), m, n, k)
    if y.is_cpu:  # kept short: on a CPU, a small product takes little time
        _call_library("cpu", rung, y, call, options, native.NULL)
        return y
    stream = native.stream_of(y.device)
    with native.on_device(y.device):
        _call_library(y.device.type, rung, y, call, options, stream)
    return y


def _call_library(target: str, rung: native.Rung, y, call, options, stream) -> None:
    """Call weft_matmul() with the workspace that it requires for these arguments."""
    lib, size = native.library("matmul", target), native.ffi.new("size_t *")
    lib.call("weft_matmul_workspace", rung.index, size, *call, options)
    if size[0]:
        if options == native.NULL:
            options = native.ffi.new("struct weft_matmul_options *", {"alpha": 1.0})
        # torch may reuse this memory: its next use is queued after this call.
        room = make_empty("matmul", y, size[0] + 256, dtype=torch.uint8)
        place_workspace(options, room)
    lib.call("weft_matmul", rung.index, pointer(y), *call, options, stream)


def place_workspace(options: Any, room: torch.Tensor) -> None:
    """Set the options' workspace to `room` (uint8, 256 bytes more than required).

    A workspace must start at a multiple of 256 bytes, but torch aligns host memory to
    64.
    """
    start = room.data_ptr()
    options.workspace = native.ffi.cast("void *", start + -start % 256)
    options.workspace_bytes = room.numel() - 256


def _layout_of(x: torch.Tensor) -> int | None:
    """Return 0 if the matrices of x are stored by rows, 1 if by columns, else None."""
    (rows, cols), (row_step, column_step) = x.shape[-2:], x.stride()[-2:]
    if (column_step == 1 or cols == 1) and (row_step == cols or rows == 1):
        return 0
    if (row_step == 1 or rows == 1) and (column_step == rows or cols == 1):
        return 1
    return None


def _step(x: torch.Tensor) -> int:
    """Return the distance in elements between a batch's matrices; 0 if all coincide."""
    return x.stride(0) if x.dim() == 3 and x.shape[0] > 1 else 0


def _sum_gradient(grad: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Sum an operand's gradient over the batch that shared the operand."""
    if grad.dim() == like.dim() and grad.shape[0] == like.shape[0]:
        return grad
    return grad.sum(0, keepdim=like.dim() == 3)


# ---- requirements of the arrays -----------------------------------------------------


def _check_pair(a: Array, b: Array) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the operands as tensors of one dtype on one device."""
    a_t, b_t = _check_operand("a", a), _check_operand("b", b)
    if a_t.dtype != b_t.dtype:
        raise ArgumentError(f"matmul: a is {a_t.dtype}, but b is {b_t.dtype}")
    if a_t.device != b_t.device:
        want_one_device("matmul", {"a": a_t, "b": b_t})
    return a_t, b_t


def _want_dimensions(name: str, x: torch.Tensor) -> None:
    if not x.dim():
        raise ArgumentError(f"matmul: {name} has 0 dimensions (), expected 1 or more")


def _check_operand(name: str, array: Array) -> torch.Tensor:
    x = as_tensor("matmul", name, array, torch.float32)
    if x.dtype not in _PRECISIONS:
        raise ArgumentError(
            f"matmul: {name} is {x.dtype}, expected torch.float32, float16 or bfloat16"
        )
    want_dense("matmul", name, x)
    _want_dimensions(name, x)
    if not x.is_contiguous() and (x.dim() == 1 or _layout_of(x) is None):
        raise ArgumentError(
            f"matmul: {name} {shape_of(x)} has strides {tuple(x.stride())}, expected "
            f"its rows or its columns to be contiguous: call .contiguous() or "
            f"np.ascontiguousarray"
        )
    return x


def _check_addends(
    a: torch.Tensor,
    b: torch.Tensor,
    shape: tuple[int, ...],
    c: Array | None,
    bias: Array | None,
    out: Array | None,
) -> tuple[torch.Tensor | None, ...]:
    """Return c, bias and out as tensors; refuse any that do not fit the product."""
    if c is bias is out is None:
        return None, None, None
    c_t, bias_t, out_t = (
        None if x is None else tensor_of("matmul", name, x, torch.float32)
        for name, x in (("c", c), ("bias", bias), ("out", out))
    )
    want_one_device("matmul", {"a": a, "c": c_t, "bias": bias_t, "out": out_t})
    columns = (b.shape[-1] if b.dim() > 1 else 1,)
    for name, x, want in (
        ("bias", bias_t, columns),
        ("c", c_t, shape),
        ("out", out_t, shape),
    ):
        if x is not None and tuple(x.shape) != want:
            raise ArgumentError(f"matmul: {name} is {shape_of(x)}, expected {want}")
    if out_t is not None:
        want_writable("matmul", "out", out)
        itself = c_t is not None and c_t.data_ptr() == out_t.data_ptr()
        read_arrays = {"a": a, "b": b, "bias": bias_t, "c": None if itself else c_t}
        want_no_overlap("matmul", "out", out_t, read_arrays)
    return c_t, bias_t, out_t


def _shape_of_product(a: torch.Tensor, b: torch.Tensor) -> tuple[int, ...]:
    """Return the shape of a @ b, by torch's rules for vectors and batches."""
    k, rows = a.shape[-1], b.shape[-2 if b.dim() > 1 else 0]
    if k != rows:
        raise ArgumentError(
            f"matmul: a is {shape_of(a)} and b is {shape_of(b)}: "
            f"{k} columns do not match {rows} rows"
        )
    if a.dim() == b.dim() == 2:
        return a.shape[0], b.shape[1]
    return *_batch_of(a, b), *a.shape[-2:-1], *b.shape[-1:][: b.dim() - 1]


def _batch_of(a: torch.Tensor, b: torch.Tensor) -> tuple[int, ...]:
    """Return the broadcast batch dimensions, those before the last two."""
    batch_a, batch_b = tuple(a.shape[:-2]), tuple(b.shape[:-2])
    if batch_a == batch_b or not batch_b:
        return batch_a
    if not batch_a:
        return batch_b
    try:
        return tuple(torch.broadcast_shapes(batch_a, batch_b))
    except RuntimeError:
        lengths = [b[0] if len(b) == 1 else b for b in (batch_a, batch_b)]
        raise ArgumentError(
            f"matmul: a is {shape_of(a)} and b is {shape_of(b)}: a batch of "
            f"{lengths[0]} does not match one of {lengths[1]}"
        ) from None


def _fold_batches(
    a: torch.Tensor, b: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the operands as matrices, or with one leading batch dimension."""
    a, b = (a[None] if a.dim() == 1 else a), (b[:, None] if b.dim() == 1 else b)
    batch = _batch_of(a, b)
    return _with_one_batch(a, batch), _with_one_batch(b, batch)


def _with_one_batch(x: torch.Tensor, batch: tuple[int, ...]) -> torch.Tensor:
    """Fold the batch dimensions of x into one; return a single matrix unchanged."""
    if x.shape[:-2].numel() == 1:
        return x.view(x.shape[-2:])
    return x.expand(*batch, *x.shape[-2:]).flatten(0, -3)


def _choose_rung(
    a: torch.Tensor, rung: str | None, precision: str | None
) -> native.Rung:
    """Choose the rung for operands like a; refuse a rung of another precision."""
    takes = _PRECISIONS[a.dtype]
    name = precision if isinstance(precision, str) else None
    if precision is not None and name not in takes:
        dtypes = {p: dtype for dtype, ps in _PRECISIONS.items() for p in ps}
        problem = f": expected one of {', '.join(dtypes)}"
        if name in dtypes:
            problem = f" is for {dtypes[name]}, but a is {a.dtype}"
        raise ArgumentError(f"matmul: precision={write_value(precision)}{problem}")
    with native.on_device(a.device):
        lib = native.library("matmul", a.device.type)
        chosen = lib.rung(rung, precision or takes[0])
    if chosen.precision not in takes or precision not in (None, chosen.precision):
        raise ArgumentError(
            f"matmul: rung '{chosen.name}' computes in {chosen.precision}, "
            + (f"not {precision}" if chosen.precision in takes else f"a is {a.dtype}")
        )
    return chosen
