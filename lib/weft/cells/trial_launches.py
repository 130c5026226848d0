"""Trials of a launch on copies of its arrays: --check, --time, and rehearsals."""

from __future__ import annotations

import contextlib
import math
import re
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ..base.errors import BuildError, KernelError, KernelFault
from ..csource import scanner
from ..timing import time_call
from ..timing.results import describe_wait
from . import output
from .arguments import Array, Binder, describe, list_held_arrays
from .arrays import decode_bfloat16
from .cpu import watched

if TYPE_CHECKING:
    from .module import Kernel, Launch

ORDERS = {"forward": 0, "in reverse": 1, "in a random order": 2}
# The largest difference that another order of float atomics may cause. Sums of
# thousands of terms then differ in the last bits of the largest partial sum.
ATOMIC_ROUNDING = 1e-5
# The largest allowed difference between results of GPU and CPU. The last bits differ,
# since the GPU fuses multiply-adds and has other versions of functions such as sin().
TARGET_ROUNDING = 1e-4
BUDGET = 0.3  # seconds for timing one launch


class OrderDependence(KernelError):
    """The exception for a result that depends on which thread runs first."""

    entry = "order"


def check(kernel: Kernel, launch: Launch, args: Sequence[Any]) -> list[Any]:
    """Run the launch under the watch build in three thread orders, and compare results.

    The function shows findings, and leaves the arrays unchanged. In all but the first
    order, shared memory is poisoned before every block. Without atomics every bit must
    agree; with atomics, floats may differ by 1e-5 of the array's largest value.

    Returns the expected content of the written arrays: a flat NumPy array, or None, for
    each pointer parameter. Raises KernelFault, or OrderDependence, which names the
    array, the element and both values.
    """
    binder = Binder(kernel.__name__, kernel.params, kernel.module.text())
    bound = binder.bind(args)
    hosts = _to_host(args, bound)
    module, subject = kernel.module, (kernel.expression, kernel.params)
    compiled = module.compiled_for("cpu", kernel.expression, checked=True)
    rounding = 0.0
    if re.search(r"\batomic\w+\s*\(", scanner.blank_comments(module.source)):
        rounding = ATOMIC_ROUNDING
    results, counts = {}, []
    for name, order in ORDERS.items():
        launcher = compiled.afresh().launcher(*subject, timeout=module.timeout)
        shape = launch.grid, launch.block, launch.shared
        launcher.watch = kernel._watch
        results[name] = launcher.results(*shape, hosts, order)
        counts.append(kernel._seen.count)
        watched.tell(module, kernel._seen)
    module.finding_count = max(counts)
    pointers = [(p, v) for p, v in zip(kernel.params, bound) if p.pointer]
    if launcher.reached is not None:
        pointers += zip(launcher.reached.params, launcher.reached.arrays)
    for name in list(ORDERS)[1:]:
        compared = zip(pointers, results["forward"], results[name])
        for (param, array), first, second in compared:
            if first is None or second is None:
                continue
            forward, other = _view_numbers(first, array), _view_numbers(second, array)
            index = _find_different(forward, other, rounding)
            if index is not None:
                raise OrderDependence(
                    f"{kernel.__name__}: {param.name}[{index}] depends on the order of "
                    f"the threads: {forward[index]} forward, {other[index]} {name}. "
                    f"Two threads access the same element, a __syncthreads() is "
                    f"missing, or shared memory is read before it is written. Its "
                    f"arrays are as they were."
                )
    return [
        None if data is None else _view_numbers(data, array)
        for (_, array), data in zip(pointers, results["forward"])
    ]


REHEARSED = 1 << 18  # maximum number of threads in a rehearsal; more would take seconds


def rehearse(launch: Launch, args: Sequence[Any], shown: bool = False) -> None:
    """Run a launch under the watch build, before a GPU runs it.

    A fault on a GPU destroys the CUDA context. Here, a fault only raises KernelFault.
    The arrays are unchanged. A launch of more than 2^18 threads, and a kernel that only
    a GPU can run, are not rehearsed. shown: whether to show findings that would not end
    the launch.
    """
    kernel, module = launch.kernel, launch.kernel.module
    if math.prod(launch.grid) * math.prod(launch.block) > REHEARSED:
        return
    try:
        compiled = module.compiled_for("cpu", kernel.expression, checked=True)
    except BuildError:  # the kernel has inline PTX, or g++ is missing
        return
    binder = Binder(kernel.__name__, kernel.params, module.text())
    hosts = _to_host(args, binder.bind(args))
    launcher = compiled.afresh().launcher(kernel.expression, kernel.params)
    launcher.watch = kernel._watch
    launcher.results(launch.grid, launch.block, launch.shared, hosts, 0)
    if shown:
        watched.tell(module, kernel._seen)


@contextlib.contextmanager
def rehearsals(kernel: Kernel) -> Iterator[None]:
    """Inside the block, rehearse each launch of the kernel on a GPU."""
    module = kernel.module
    module.rehearsed = True
    kernel.forget_launches()  # launches that skip Python's checks also skip rehearsals
    try:
        yield
    finally:
        module.rehearsed = False
        kernel.forget_launches()


def compare(kernel: Kernel, args: Sequence[Any], reference: Sequence[Any]) -> None:
    """Compare a launch's results on the GPU with check()'s results on the CPU.

    Raises KernelFault for the first element that differs: for integers by any amount,
    for floats by more than 1e-4 of the array's largest value.
    """
    torch.cuda.synchronize()
    text = kernel.module.text()
    bound = Binder(kernel.__name__, kernel.params, text).bind(args)
    hosts = _to_host(args, bound)
    pointers = [(p, h, v) for p, h, v in zip(kernel.params, hosts, bound) if p.pointer]
    for (param, host, array), expected in zip(pointers, reference):
        if expected is None:
            continue
        result = _view_numbers(host.numpy().tobytes(), array)
        index = _find_different(result, expected, TARGET_ROUNDING)
        if index is not None:
            both = f"{result[index]} on the GPU and {expected[index]} on the CPU"
            text = f"{kernel.__name__}: {param.name}[{index}] is {both}"
            raise KernelFault(text, kernel.__name__)


def time_launches(kernel: Kernel, launch: Launch, args: Sequence[Any]) -> str:
    """Time repeated launches on copies of the arrays; return a line to print."""
    target = kernel.target_of(args)
    copies = _copy_arguments(args)
    options = {"inplace": True, "timeout": kernel.module.timeout}
    compiled = kernel.module.compiled_for(target, kernel.expression)
    launcher = compiled.launcher(kernel.expression, kernel.params, **options)
    shape = launch.grid, launch.block, launch.shared, launch.stream
    # The launch before the timing has shown the output.
    prints = getattr(launcher, "prints", False)
    if prints:
        launcher.prints = False
    state = kernel.module.state
    contents = state.contents() if state.variables else {}
    with output.capture_output(prints, shown=False):
        timing, samples, calls = _time_call(partial(launcher, *shape, copies), target)
    if contents:
        state.restore(contents)
    median, low, high = map(_time, (timing.median, timing.low, timing.high))
    details = f"{low} to {high}; {samples} x {calls}, {timing.timer}"
    text = f"{kernel.__name__}: {median} a launch ({details})"
    text += " · unchecked (--check)" * (not kernel.module.check)
    if note := describe_wait(timing.waited):
        text += f" · {note}"
    return text + " · simulated: not a prediction for a GPU" * (target == "cpu")


def _time_call(call: Callable[[], None], target: str) -> tuple[Any, int, int]:
    """Return the timing of a call, the number of samples, and the calls per sample."""
    begin = time.perf_counter()
    call()
    device: Any = "cpu"
    if target == "cuda":
        torch.cuda.synchronize()
        device = torch.device("cuda", torch.cuda.current_device())
    once = max(time.perf_counter() - begin, 1e-6)
    samples = int(min(30, max(3, BUDGET / once)))
    calls = int(min(100, max(1, BUDGET / samples / once))) if once < 1e-4 else 1
    timing = time_call(call, device, samples=samples, calls=calls, warmup=1)
    return timing, samples, calls


# ---- details ------------------------------------------------------------------


def _view_numbers(data: bytes, array: Array) -> np.ndarray:
    """Return the bytes of an array's content as numbers of its dtype."""
    if array.dtype == "bfloat16":
        return decode_bfloat16(data)
    owner = array.owner
    dtype = owner.dtype if isinstance(owner, np.ndarray) else np.dtype(array.dtype)
    return np.frombuffer(data, dtype)


def _find_different(a: np.ndarray, b: np.ndarray, rounding: float) -> int | None:
    """Return the index of the first element that differs; NaN equals NaN."""
    if a.dtype.kind not in "fc" or not rounding:
        left, right = (x.view(np.uint8).reshape(x.size, -1) for x in (a, b))
        differs = (left != right).any(axis=1) if a.size else np.zeros(0, bool)
        if a.dtype.kind in "fc":
            differs &= ~(np.isnan(a) & np.isnan(b))
    else:
        with np.errstate(all="ignore"):
            finite = np.abs(a[np.isfinite(a)])
            limit = rounding * float(finite.max()) if finite.size else 0.0
            close = (np.abs(a - b) <= limit) | (a == b) | (np.isnan(a) & np.isnan(b))
        differs = ~close
    return int(np.argmax(differs)) if differs.any() else None


def _to_host(args: Sequence[Any], bound: Sequence[Any]) -> list[Any]:
    """Return the arguments, with arrays on a GPU replaced by copies on the host."""
    arrays = [*(v for v in bound if isinstance(v, Array)), *list_held_arrays(bound)]
    if not any(array.device_type == "cuda" for array in arrays):
        return list(args)

    def host(arg: Any) -> Any:
        if describe(arg) is None:
            return arg
        tensor = arg if isinstance(arg, torch.Tensor) else torch.as_tensor(arg)
        return tensor.detach().cpu()

    return _map_arguments(args, host)


def _copy_arguments(args: Sequence[Any]) -> list[Any]:
    """Copy the arrays among the arguments; an array in two places is copied once."""

    def copy(arg: Any) -> Any:
        if isinstance(arg, torch.Tensor):
            return arg.detach().clone()
        if hasattr(arg, "__cuda_array_interface__"):
            return torch.as_tensor(arg, device="cuda").clone()
        if isinstance(arg, np.ndarray):
            return arg.copy() if arg.ndim else arg
        return torch.from_dlpack(arg).clone() if hasattr(arg, "__dlpack__") else arg

    return _map_arguments(args, copy)


def _map_arguments(args: Sequence[Any], make: Callable[[Any], Any]) -> list[Any]:
    """Apply make() to each argument once, including those in tuples and lists."""
    results: dict[int, Any] = {}

    def of(arg: Any) -> Any:
        if type(arg) in (tuple, list):
            return type(arg)(map(of, arg))
        if id(arg) not in results:
            results[id(arg)] = make(arg)
        return results[id(arg)]

    return [of(arg) for arg in args]


def _time(us: float) -> str:
    return f"{us:.3g} us" if us < 1e3 else f"{us / 1e3:.3g} ms"
