"""weft.Tape: operations on matrices, recorded in C and walked backwards.

    tape = weft.Tape()
    w = tape.tensor(array, grad=True)
    loss = tape.sum(tape.relu(x @ w))
    tape.backward(loss)
    print(w.grad)

kernels/micrograd/tape.cu owns the entries and their memory. A Tensor here is only the
id of an entry. Source of the method: R. E. Wengert, A simple automatic derivative
evaluation program, Communications of the ACM 7(8), 1964.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..base import device as devices
from ..base.errors import ArgumentError
from ..toolchain import native

if TYPE_CHECKING:
    import torch

TARGET_MAX = 2**31 - 1


class Entry(NamedTuple):
    """An entry of a tape: its id, operation, operands' ids, and shape."""

    id: int
    op: str  # "tensor", "add", "add_row", "mul", "matmul", "relu", ...
    operands: tuple[int, ...]
    shape: tuple[int, int]
    needs_grad: bool


class Tensor:
    """A matrix of float32 on a tape; +, * and @ record operations.

    a + b also adds a row b (1,cols) to each row of a (rows,cols). An error names the
    operation and both shapes.
    """

    def __init__(self, tape: Tape, number: int, shape: tuple[int, int]):
        self.tape, self.id, self.shape = tape, number, shape

    def __repr__(self) -> str:
        return f"Tensor(id={self.id}, shape={self.shape})"

    def __add__(self, other: Tensor) -> Tensor:
        is_row = isinstance(other, Tensor) and other.shape[0] == 1 < self.shape[0]
        return self.tape._record("add_row" if is_row else "add", self, other)

    def __mul__(self, other: Tensor) -> Tensor:
        return self.tape._record("mul", self, other)

    def __matmul__(self, other: Tensor) -> Tensor:
        return self.tape._record("matmul", self, other)

    @property
    def value(self) -> np.ndarray:
        """A copy of the numbers, float32 with this shape."""
        return self.tape._get("WEFT_TAPE_VALUE", self)

    @property
    def grad(self) -> np.ndarray:
        """A copy of the gradient, float32 with this shape.

        Raises ArgumentError before backward(), or if no gradient flows here.
        """
        return self.tape._get("WEFT_TAPE_GRADIENT", self)


class Tape:
    """A record of operations on matrices, with their gradients.

    device: "cpu", "cuda" or "cuda:1". rung: "reference" (plain C) or "kernels" (a
    launch per entry); None: plain C on the CPU, kernels on a GPU.

    Vectors (n) become (1,n), and numbers (1,1). The tape owns all memory. A GPU's work
    goes to the stream that is current when the tape is made. Only one thread at a time
    may use a tape. Wrong shapes, a tensor that a reset freed, a tensor of another tape,
    and a second backward() raise ArgumentError; a lack of memory raises OutOfMemory.
    """

    def __init__(self, device: str | torch.device = "cpu", rung: str | None = None):
        self.device = devices.parse_device(device)
        self._lib = native.library("micrograd", self.device.type)
        self._ffi = self._lib.ffi  # a later weft.reload() does not affect this tape
        ops = range(self._lib.C.WEFT_TAPE_NLL + 1)
        self._stream = native.stream_of(self.device)
        names = map(self._lib.C.weft_tape_op_name, ops)
        self._ops = [self._ffi.string(name).decode() for name in names]
        out = self._ffi.new("weft_tape **")
        with native.on_device(self.device):
            index = self._lib.rung(rung).index
            self._lib.call("weft_tape_create", out, index, self._stream)
        self._tape = out[0]
        self.close = weakref.finalize(self, self._lib.C.weft_tape_destroy, self._tape)

    def __enter__(self) -> Tape:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Tape({str(self.device)!r}, {self._count()} entries)"

    # ---- recording --------------------------------------------------------------

    def tensor(self, array: Any, grad: bool = False) -> Tensor:
        """Return a copy of an array as a tensor, without an operation.

        array: at most two dimensions; converted to float32. grad: whether backward()
        computes its gradient, and step() changes it.
        """
        host = np.asarray(array, np.float32)
        if host.ndim > 2 or not host.size:
            raise ArgumentError(f"tensor: shape {host.shape}, want at most 2 sizes > 0")
        host = np.ascontiguousarray(np.atleast_2d(host))
        data = self._ffi.from_buffer("float[]", host)
        out = self._ffi.new("int64_t *")
        self._call("weft_tape_tensor", out, data, *host.shape, int(grad))
        return Tensor(self, out[0], host.shape)

    def relu(self, x: Tensor) -> Tensor:
        """Return max(x, 0)."""
        return self._record("relu", x)

    def log_softmax(self, x: Tensor) -> Tensor:
        """Return x - log(sum(exp(x))) of each row."""
        return self._record("log_softmax", x)

    def sum(self, x: Tensor) -> Tensor:
        """Return the sum of all elements, (1,1)."""
        return self._record("sum", x)

    def nll(self, logp: Tensor, target: Any) -> Tensor:
        """Return the mean of -logp[row, target[row]], (1,1).

        target: a column for each row of logp, as whole numbers.
        """
        array = np.asarray(target)
        if array.dtype.kind not in "iu" or array.shape != logp.shape[:1]:
            text = f"nll: target has shape {array.shape} and dtype {array.dtype}"
            want = f"whole numbers, one for each row of {logp.shape}"
            raise ArgumentError(f"{text}, want {want}")
        array = np.ascontiguousarray(array.clip(-1, TARGET_MAX), np.int32)
        data = self._ffi.from_buffer("int32_t[]", array)
        return self._record("nll", logp, target=data)

    # ---- gradients --------------------------------------------------------------

    def backward(self, loss: Tensor) -> None:
        """Compute the gradient of `loss` (1,1) for each entry that needs one."""
        self._call("weft_tape_backward", self._id("backward", loss))

    def step(self, lr: float) -> None:
        """Subtract lr * gradient from each tensor made with grad=True."""
        self._call("weft_tape_step", float(lr))

    def reset(self, keep: Iterable[Tensor] = ()) -> None:
        """Free all entries except the tensors `keep`, and clear their gradients."""
        ids = [self._id("reset", tensor) for tensor in keep]
        self._call("weft_tape_reset", ids or self._ffi.NULL, len(ids))

    # ---- reading ----------------------------------------------------------------

    @property
    def entries(self) -> list[Entry]:
        """The entries, from the first one to the last."""
        return [self._read_entry(index) for index in range(self._count())]

    @property
    def bytes(self) -> int:
        """The bytes of the entries' arrays: values, gradients and targets."""
        self._require_open()
        return self._lib.C.weft_tape_bytes(self._tape, self._ffi.NULL)

    def _read_entry(self, index: int) -> Entry:
        entry = self._ffi.new("struct weft_tape_entry *")
        self._lib.call("weft_tape_look", self._tape, index, entry)
        operands = tuple(number for number in (entry.a, entry.b) if number >= 0)
        shape, needs_grad = (entry.rows, entry.cols), bool(entry.needs_grad)
        return Entry(entry.id, self._ops[entry.op], operands, shape, needs_grad)

    def _get(self, kind: str, tensor: Tensor) -> np.ndarray:
        out = np.full(tensor.shape, np.nan, np.float32)
        data = self._ffi.from_buffer("float[]", out)
        number = getattr(self._lib.C, kind)
        self._call("weft_tape_get", number, tensor.id, data, out.size)
        return out

    # ---- the C interface --------------------------------------------------------

    def _record(self, op: str, *operands: Any, target: Any = None) -> Tensor:
        """Append an operation to the tape; return its result."""
        ids = [self._id(op, operand, operands) for operand in operands]
        out, number = self._ffi.new("int64_t *"), self._ops.index(op)
        data = self._ffi.NULL if target is None else target
        self._call("weft_tape_record", out, number, ids[0], ids[-1], data)
        return Tensor(self, out[0], self._read_entry(self._count() - 1).shape)

    def _id(self, op: str, tensor: Any, all_operands: tuple[Any, ...] = ()) -> int:
        """Return a tensor's id; raise ArgumentError if it is on another tape."""
        self._require_open()
        if isinstance(tensor, Tensor) and tensor.tape is self:
            return tensor.id
        texts = [
            str(one.shape) if isinstance(one, Tensor) else native.write_value(one)
            for one in all_operands or (tensor,)
        ]
        problem = "want tensors of a tape"
        if isinstance(tensor, Tensor):
            problem = "want tensors of one tape, the one that is called"
        raise ArgumentError(f"{op}: got {' and '.join(texts)}; {problem}")

    def _count(self) -> int:
        self._require_open()
        return self._lib.C.weft_tape_count(self._tape)

    def _call(self, function: str, *args: Any) -> None:
        self._require_open()
        with native.on_device(self.device):
            self._lib.call(function, self._tape, *args, self._stream)

    def _require_open(self) -> None:
        if not self.close.alive:
            raise ArgumentError("this Tape is closed: its memory is free")
