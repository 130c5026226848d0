"""The runners of check(), with their time limits.

Every runner has a name, parameters, the thread orders that it supports, and run().
time_limit() limits a plain Python function.
"""

from __future__ import annotations

import ast
import contextlib
import ctypes
import inspect
import threading
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from .. import cells as jit
from ..base.arrays import ORDERS
from ..base.errors import ArgumentError, KernelError
from ..cells.cpu.launch import thread_order
from ..cells.module import select_only_kernel
from ..cells.structs import find_scalar
from ..csource import scanner
from ..pykernel.language import PythonKernel, plain_function, source_of, value_of
from ..pykernel.sim import sim
from .cases import LaunchShape, count_dimensions


class FunctionTooLong(KernelError):
    """A call exceeded its time limit and was stopped."""


@contextlib.contextmanager
def time_limit(name: str, seconds: float) -> Iterator[None]:
    """Raise FunctionTooLong in this thread if the block runs longer than `seconds`.

    Python raises it between bytecode instructions, so a call into C finishes first.
    """
    thread, lock, state = threading.get_ident(), threading.Lock(), {"inside": True}
    # Indexing makes a new function object. Other code may set the argtypes of the
    # shared object.
    raise_in = ctypes.pythonapi["PyThreadState_SetAsyncExc"]
    raise_in.argtypes = ctypes.c_ulong, ctypes.py_object

    def end() -> None:
        with lock:
            if state["inside"]:
                state["late"] = True
                raise_in(thread, FunctionTooLong)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    except FunctionTooLong:
        cure = "look for a loop that does not end, or allow more time with timeout="
        text = f"{name} ran longer than {seconds:g} s and was stopped: {cure}"
        raise FunctionTooLong(text) from None
    finally:
        timer.cancel()
        with lock:
            state["inside"] = False


# The largest product of the sizes, in native code and on simulators.
NATIVE, SLOW = 4_000_000, 15_000


class Runner:
    """A kernel or function that can be run on guarded arrays.

    flat: whether a parameter's array must be flat. most: a bound on the product of the
    sizes. kernel: whether it has a grid and a block. device: the torch device; None:
    the host.
    """

    kernel = True
    device: torch.device | None = None
    orders: tuple[str, ...] = ("",)
    most = NATIVE
    few = False  # whether launches are slow, so that check() makes only a few
    watched = False  # whether launches run under the watch build
    where = ""  # added to the name in messages: "on cuda:0"

    def __init__(self, name: str, parameters: Sequence[str], text: str = "") -> None:
        self.name, self.parameters = name, tuple(parameters)
        self.dimensions = count_dimensions(text)

    def flat(self, parameter: str) -> bool:
        """Return whether the kernel indexes this array with a single number."""
        return True

    def dtype(self, parameter: str) -> np.dtype:
        """Return the default dtype of an array: float32."""
        return np.dtype(np.float32)

    def run(
        self, args: Sequence[Any], shape: LaunchShape, order: str, timeout: float
    ) -> Any:
        """Launch the kernel; return the simulator's or watch build's report, if any."""
        raise NotImplementedError

    def trace(self, args: Sequence[Any], shape: LaunchShape, order: str) -> Any:
        """Launch the kernel and return a record of its accesses, if supported."""
        return None


class PythonRunner(Runner):
    """A runner of a Python function, whose source shows how it indexes arrays."""

    def __init__(self, function: Any) -> None:
        self.function = plain_function(function)
        try:
            source = source_of(self.function)
            text, tree = source.text, source.tree
        except ArgumentError:
            text, tree = "", ast.parse("")
        parameters = inspect.signature(self.function).parameters
        super().__init__(self.function.__name__, tuple(parameters), text)
        self._shaped = set(_list_shaped(tree))

    def flat(self, parameter: str) -> bool:
        return parameter not in self._shaped


class SimulatedRunner(PythonRunner):
    """A Python kernel on the simulator; its report may have findings."""

    orders = ORDERS
    most = SLOW

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        PythonKernel(self.function)  # Report errors in the kernel's source early.

    def run(self, args, shape, order, timeout):
        return self._launch(args, shape, order=order, timeout=timeout)

    def trace(self, args, shape, order):
        report = self._launch(args, shape, order=order, trace=True)
        return None if report is None else report.trace

    def _launch(self, args: Sequence[Any], shape: LaunchShape, **options: Any) -> Any:
        simulated = sim(self.function, quiet=True, **options)
        return simulated[shape.grid, shape.block, 0, shape.shared](*args)


class NumbaRunner(PythonRunner):
    """A Python kernel on numba.cuda: a GPU, or Numba's simulator without one."""

    def __init__(self, ready: Any, device: torch.device | None) -> None:
        super().__init__(ready)
        self.ready, self.device = ready, device
        self.where = "on Numba"
        if device is None:
            self.most, self.few = 400, True

    def run(self, args, shape, order, timeout):
        self.ready[shape.grid, shape.block, 0, shape.shared](*args)


class TranslatedRunner(PythonRunner):
    """A Python kernel, translated to CUDA C."""

    def __init__(self, ready: Any, device: torch.device | None) -> None:
        super().__init__(ready.kernel)
        self.ready, self.device = ready, device
        self.orders = ORDERS if device is None else ("",)
        self.where = "as CUDA C" + (f" on {device}" if device else "")

    def run(self, args, shape, order, timeout):
        if self.ready.timeout is None:
            kernel = type(self.ready)(self.ready.kernel, self.ready.flags, timeout)
            self.ready = kernel
        launch = self.ready[shape.grid, shape.block, 0, shape.shared]
        with _use_order(order):
            if not self.watched:
                launch(*args)
                return None
            launch, args = launch.prepared(args)
            return _launch_watched(launch.kernel.launcher("cpu", True), shape, args)


class CellRunner(Runner):
    """A kernel of CUDA C, from load_cuda() or %%cuda."""

    def __init__(self, kernel: jit.Kernel, device: torch.device | None) -> None:
        if kernel._needs_arguments:
            cure = f'give its arguments, e.g. {kernel.__name__}["float", 16]'
            raise ArgumentError(f"{kernel.__name__} is a template: {cure}")
        kernel.module.refresh()
        names = [p.name for p in kernel.params]
        body = scanner.read_body(kernel.module.source, kernel.signature.name) or ""
        super().__init__(kernel.__name__, names, body)
        self.ready, self.device = kernel, device
        self.orders = ORDERS if device is None else ("",)
        self.where = f"on {device}" if device else ""
        self._launch: Any = None

    def dtype(self, parameter: str) -> np.dtype:
        param = self.ready.params[self.parameters.index(parameter)]
        kind = find_scalar(param.type)
        if not param.pointer:
            raise ArgumentError(f"{self.name}: {param} is not an array")
        dtype = kind.dtypes[0] if kind else "float32"
        try:
            return np.dtype(dtype)
        except TypeError:
            text = f"{self.name}: {param}: NumPy has no {dtype}"
            raise ArgumentError(text) from None

    def run(self, args, shape, order, timeout):
        kernel = self.ready
        if self.device is not None:
            kernel[shape.grid, shape.block, shape.shared](*args)
            return None
        if self._launch is None:
            module, name = kernel.module, kernel.expression
            compiled = module.compiled_for("cpu", name, self.watched)
            limit = module.timeout or timeout
            self._launch = compiled.launcher(name, kernel.params, timeout=limit)
        with _use_order(order):
            if self.watched:
                return _launch_watched(self._launch, shape, args)
            self._launch(shape.grid, shape.block, shape.shared, None, args)
        return None


class InPlaceRunner(PythonRunner):
    """A plain function that writes into its array arguments."""

    kernel = False
    most = SLOW * 2

    def run(self, args, shape, order, timeout):
        with time_limit(self.name, timeout):
            self.function(*args)


class ReturningRunner(Runner):
    """A plain function of the inputs that returns the outputs."""

    kernel = False
    most = SLOW * 2

    def __init__(self, function: Callable[..., Any]) -> None:
        name = getattr(function, "__name__", None) or type(function).__name__
        super().__init__(name, ())
        self.function = function


def _launch_watched(launcher: Any, shape: LaunchShape, args: Sequence[Any]) -> Any:
    """Launch under the watch build; return the report if it has findings."""
    launcher(shape.grid, shape.block, shape.shared, None, args)
    return None if launcher.last.ok else launcher.last.report


def make_runners(
    subject: Any,
    has_outputs: bool,
    device: torch.device | str | None = None,
    launched: bool = False,
    watched: bool = False,
) -> list[Runner]:
    """Return the runners of `subject`: several if it runs on the CPU and on a GPU.

    has_outputs: whether it writes into arrays. launched: whether the caller gave a grid
    or a block, as for a kernel. watched: whether CUDA C on the CPU runs under the watch
    build.
    """
    runners = _select_runners(subject, has_outputs, device, launched)
    for runner in runners:
        runner.watched = watched and runner.device is None
    return runners


def _select_runners(
    subject: Any, has_outputs: bool, device: Any, launched: bool
) -> list[Runner]:
    subject = subject.kernel if isinstance(subject, jit.Launch) else subject
    subject = select_only_kernel(subject)
    if isinstance(subject, jit.Kernel):
        places = _list_places(device, subject.module.target)
        return [CellRunner(subject, place) for place in places]
    module = type(subject).__module__
    if module.startswith("weft.pykernel.numba"):
        gpu = torch.cuda.is_available()
        place = torch.device("cuda", torch.cuda.current_device()) if gpu else None
        return [NumbaRunner(subject, place)]
    if module.startswith("weft.pykernel.to_cuda"):
        places = _list_places(device, None)
        return [TranslatedRunner(subject, place) for place in places]
    if module.startswith("weft.pykernel.sim"):
        return [SimulatedRunner(subject.kernel)]
    if isinstance(subject, PythonKernel) or hasattr(subject, "py_func"):
        return [SimulatedRunner(subject)]
    is_function = isinstance(subject, types.FunctionType)
    if is_function and ((launched and has_outputs) or speaks_cuda(subject)):
        return [SimulatedRunner(subject)]
    if not callable(subject):
        found = f"{subject!r} of type {type(subject).__name__}"
        raise ArgumentError(f"check() takes a kernel or a function, not {found}")
    return [InPlaceRunner(subject) if has_outputs else ReturningRunner(subject)]


def _list_places(device: Any, target: str | None) -> list[torch.device | None]:
    """Return the devices on which to check CUDA C: the CPU (None), and a GPU if any."""
    if device is not None:
        place = torch.device(device)
        return [None if place.type == "cpu" else place]
    gpu = []
    if torch.cuda.is_available() and target != "cpu":
        gpu = [torch.device("cuda", torch.cuda.current_device())]
    return ([] if target == "cuda" and gpu else [None]) + gpu


def speaks_cuda(function: types.FunctionType, depth: int = 3) -> bool:
    """Return whether the function or its callees use weft.cuda or numba.cuda."""
    code = function.__code__
    for name in (*code.co_names, *code.co_freevars):
        try:
            value = value_of(function, name)
        except LookupError:
            continue
        module = getattr(value, "__module__", "") or ""
        if isinstance(value, types.ModuleType):
            module = value.__name__
        elif not isinstance(module, str) or isinstance(value, type):
            module = ""
        if module == "weft.cuda" or module.startswith("numba.cuda"):
            return True
        inner = getattr(value, "py_func", value)
        helper = isinstance(inner, types.FunctionType) and inner is not function
        is_local = helper and depth and inner.__module__ == function.__module__
        if is_local and speaks_cuda(inner, depth - 1):
            return True
    return False


def _list_shaped(tree: ast.AST) -> Iterator[str]:
    """Yield the names that have several indices, or whose shape is read."""
    for node in ast.walk(tree):
        value = getattr(node, "value", None)
        several = False
        if isinstance(node, ast.Subscript):
            several = isinstance(node.slice, (ast.Tuple, ast.Slice))
            if isinstance(value, ast.Subscript):  # a[i][j]
                value, several = value.value, True
        elif isinstance(node, ast.Attribute):
            several = node.attr in ("shape", "ndim", "T")
        if several and isinstance(value, ast.Name):
            yield value.id


def _use_order(order: str) -> contextlib.AbstractContextManager:
    """Return a context that sets the order of CUDA C's threads on the CPU.

    It has no effect if `order` is "", as for a GPU.
    """
    return thread_order(ORDERS.index(order)) if order else contextlib.nullcontext()
