"""Run a kernel under the watch build; report its faults and the cost of each line.

    report = inspect(kernel)[grid, block](*args)

WatchedTensor and load_watched_library() do the same for an op's library.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from ..base.arrays import ORDERS
from ..base.errors import ArgumentError
from ..cells.arguments import Array, Binder
from ..cells.cpu.launch import ffi, open_runtime
from ..cells.cpu.watched import TIMEOUT, raw_report, tell
from ..cells.module import Kernel, Launch, select_only_kernel
from ..pykernel.sim import sim
from ..pykernel.to_cuda.cuda_c import TranslatedKernel
from ..report.model import ProgramReport, Report
from ..report.raw import Files, program_report
from ..toolchain import build, native

SEED = 2  # the runtime's number for its first shuffled order
POINTERS = {torch.float32: "float *"}
POINTERS |= {torch.int32: "int32_t *", torch.int64: "int64_t *"}


def inspect(
    kernel: Any,
    *,
    order: str | int = "forward",
    quiet: bool = False,
    timeout: float | None = None,
) -> Inspector | Any:
    """Watch a kernel's launch: inspect(kernel)[grid, block](*args).

    kernel: a kernel of load_cuda() or %%cuda, or cuda_c(k), whose CUDA C runs on the
    CPU under the watch build. A plain Python function runs on the simulator, like
    sim(kernel). The launch takes the arguments of kernel[grid, block](...) and returns
    a Report of its faults and each line's cost. Arrays on a GPU are copied to the host
    and back.

    order: the order in which threads and blocks run: "forward", "reverse", "shuffled",
    or a number that seeds a shuffle. quiet: whether to hide the findings. timeout: time
    limit of the launch in seconds (default 60; 0: no limit).

    Raises KernelFault if the launch ends early (an access out of bounds, a deadlock,
    ...). Its .report contains the findings so far, and the arrays keep their values.
    Raises ArgumentError for an invalid kernel, order or timeout.
    """
    number = _encode_order(order)
    limit = isinstance(timeout, (int, float)) and 0 <= timeout <= 86400
    if timeout is not None and not limit:
        raise ArgumentError(f"timeout={timeout!r}: expected 0 (none) to 86400 seconds")
    kernel = select_only_kernel(kernel)
    if isinstance(kernel, (Kernel, TranslatedKernel)):
        return Inspector(kernel, number, quiet, timeout)
    if isinstance(kernel, Launch):
        raise ArgumentError(
            "write inspect(kernel)[grid, block](...): the brackets follow inspect()"
        )
    if not callable(kernel):
        raise ArgumentError(
            f"inspect() takes a kernel of %%cuda, load_cuda() or cuda_c(), or a Python "
            f"function: {kernel!r} is of type {type(kernel).__name__}"
        )
    options = {} if timeout is None else {"timeout": timeout}
    return sim(kernel, order=order, quiet=quiet, steps=True, **options)


@dataclasses.dataclass
class Inspector:
    """The result of inspect(kernel), which takes the launch shape in brackets."""

    kernel: Any
    order: int
    quiet: bool
    timeout: float | None

    def __getitem__(self, key: Any) -> Any:
        if isinstance(self.kernel, TranslatedKernel):
            return Inspection(self, self.kernel[key].prepared)
        launch = self.kernel.at(key)
        if isinstance(launch, Kernel):  # the brackets contained a template's arguments
            return Inspector(launch, self.order, self.quiet, self.timeout)
        return Inspection(self, lambda args: (launch, args))

    def __call__(self, *args: Any) -> Any:
        name = self.kernel.__name__
        raise ArgumentError(f"{name} is launched as inspect({name})[grid, block](...)")

    def __repr__(self) -> str:
        return f"inspect({self.kernel!r})"


@dataclasses.dataclass
class Inspection:
    """One launch shape, inspect(kernel)[grid, block], which takes the arguments.

    prepare: a function that maps the arguments to a Launch and the Launch's arguments.
    """

    inspector: Inspector
    prepare: Callable[[tuple[Any, ...]], tuple[Launch, tuple[Any, ...]]]

    def __call__(self, *args: Any) -> Report:
        __tracebackhide__ = True
        launch, args = self.prepare(args)
        kernel, inspector = launch.kernel, self.inspector
        hosts, back = _copy_to_host(kernel, args)
        launcher: Any = kernel.launcher("cpu", True)
        previous = launcher.timeout
        launcher.timeout = TIMEOUT if inspector.timeout is None else inspector.timeout
        simt = open_runtime()
        simt.simt_set_order(inspector.order)
        try:
            launcher(launch.grid, launch.block, launch.shared, None, hosts)
        finally:
            simt.simt_set_order(0)
            launcher.timeout = previous
        for tensor, host in back:
            tensor.copy_(host)
        record = kernel._seen
        if not inspector.quiet:
            tell(kernel.module, record, always=True)
        return record.report


def _encode_order(order: Any) -> int:
    """Return the runtime's number for an order of threads."""
    if order in ORDERS and isinstance(order, str):
        return {"forward": 0, "reverse": 1}.get(order, SEED)
    if isinstance(order, bool) or not isinstance(order, int) or order < 0:
        raise ArgumentError(
            f"order must be {', '.join(ORDERS)} or a whole number, not {order!r}"
        )
    return SEED + order % (2**31 - SEED)


def _copy_to_host(
    kernel: Kernel, args: Sequence[Any]
) -> tuple[list[Any], list[tuple[Any, Any]]]:
    """Return the arguments on the host, and the pairs of arrays to copy back."""
    source = kernel.module.text()  # the text includes the definitions of structs
    bound = Binder(kernel.__name__, kernel.params, source).bind(args)
    hosts: dict[int, Any] = {}
    back: dict[int, tuple[Any, Any]] = {}
    for arg, value, param in zip(args, bound, kernel.params):
        if not isinstance(value, Array) or value.device_type != "cuda":
            continue
        tensor = arg if isinstance(arg, torch.Tensor) else torch.as_tensor(arg)
        if id(arg) not in hosts:
            hosts[id(arg)] = tensor.detach().cpu()
        if not param.const:
            back[id(arg)] = tensor.detach(), hosts[id(arg)]
    return [hosts.get(id(arg), arg) for arg in args], list(back.values())


def watch_flavour() -> build.Flavour:
    """Return the build flavour of the watch build."""
    return dataclasses.replace(build.Flavour.here("cpu"), check=True)


@functools.cache
def load_watched_library(op: str) -> native.Library:
    """Load the watch build of an op's library."""
    return native.Library(op, "cpu", build.library(op, watch_flavour()))


def report_watched(title: str) -> ProgramReport:
    """Report the accesses since simt_check_begin() by line of the lab's own files."""
    return program_report(raw_report(), Files(str(build.ROOT)), title)


class WatchedTensor:
    """A tensor's copy in the runtime's memory. written: whether it is initialised."""

    def __init__(self, tensor: torch.Tensor, name: str, written: bool) -> None:
        bits = torch.int16 if tensor.dtype == torch.bfloat16 else tensor.dtype
        self.host = tensor.contiguous().view(bits).numpy()
        element = self.host.itemsize
        size = self.host.nbytes
        allocate = open_runtime().simt_check_alloc
        self.memory = allocate(size, element, name.encode(), written)
        address = int(ffi.cast("uintptr_t", self.memory))
        kind = POINTERS.get(tensor.dtype, "void *")
        self.pointer = native.ffi.cast(kind, address)
        if written:
            ffi.memmove(self.memory, self.host.tobytes(), self.host.nbytes)

    def values(self) -> np.ndarray:
        """Return a copy of the current values."""
        data = ffi.buffer(self.memory, self.host.nbytes)
        return np.frombuffer(data, self.host.dtype).reshape(self.host.shape).copy()

    def release(self) -> None:
        """Free the copy's memory."""
        open_runtime().simt_check_release(self.memory)
