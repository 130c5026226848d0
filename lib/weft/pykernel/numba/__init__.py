"""Compile a Python kernel with Numba: numba_jit(kernel)[grid, block](*args).

The kernel is a plain function that uses the names of weft.cuda. If the machine has a
GPU, Numba compiles the kernel for each combination of argument types. Otherwise the
kernel runs on Numba's simulator, in another process.

On import, Numba reads an environment variable to select the real numba.cuda or the
simulator. The notebook's process must not select the simulator, so the simulator has
a process of its own. This process starts at the first launch, and later launches reuse
it. A pipe carries the arrays in both directions. A failed launch leaves them unchanged.

    arguments         arguments on the host and the GPU, and launches without Numba
    meaning           the meaning of the names in a kernel; misspelled names of cuda
    child             the code that the simulator's process runs
    gpu               launches on a GPU
    inspection        types and PTX, which need no GPU, and Numba's errors as a sentence
"""

from __future__ import annotations

import builtins
import contextlib
import linecache
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ...base.errors import ArgumentError, KernelError, KernelFault, Short
from ...base.progress import remark
from ...cells.cpu import arena
from ...cells.cpu.faults import Stopped
from ...cells.isolated import Process
from ...toolchain.launch_config import LaunchConfig
from ..language import PythonKernel, plain_function
from . import arguments, gpu, inspection, meaning
from .arguments import address_bounds, spans_of
from .meaning import KernelPart

_CACHED = "__weft_numba__"


def numba_jit(kernel: Any, *, timeout: float | None = None) -> NumbaKernel:
    """Return the kernel for Numba: numba_jit(kernel)[grid, block](*args).

    kernel: a function, or the result of Numba's @cuda.jit.
    grid, block: shapes; a stream and the bytes of dynamic shared memory may follow.
    args: torch tensors, NumPy arrays, numbers, tuples of numbers. Arrays on the host
        are copied to a GPU and back.
    timeout: time limit in seconds on Numba's simulator; None: 60.

    A launch returns None and writes its results into the arrays. On a GPU, the call
    only queues the launch, by default on torch's current stream. An invalid kernel
    raises ArgumentError.
    """
    function = plain_function(kernel)
    cached = function.__dict__.get(_CACHED)
    if timeout is None and cached is not None and cached.kernel.function is function:
        return cached
    compiled = NumbaKernel(PythonKernel(kernel), timeout or TIMEOUT)
    if timeout is None:
        function.__dict__[_CACHED] = compiled
    return compiled


class NumbaKernel:
    """A kernel for Numba; [grid, block] returns a function of the arguments.

    If a cell runs again and changes the meaning of a name in the kernel, the next
    launch uses the new meaning.
    """

    def __init__(self, kernel: PythonKernel, timeout: float) -> None:
        self.kernel, self.timeout = kernel, timeout
        self.name = self.__name__ = kernel.name
        self.parameters = kernel.parameters
        self.py_func = kernel.function
        self._part: meaning.KernelPart | None = None
        self._launchers: dict[Any, Callable[..., None]] = {}
        self._target: Any = None

    def __getitem__(self, key: Any) -> Callable[..., None]:
        if self._part is None or self._part.stale():
            self._part, self._target = meaning.read(self.py_func), None
            self._launchers.clear()
        try:
            return self._launchers[key]
        # The key is new or has no hash. An object's __hash__() may raise any error.
        except Exception:
            pass
        launcher = self._launcher(self.kernel.config(key))
        with contextlib.suppress(Exception):
            self._launchers[key] = launcher
        return launcher

    def ptx(self, *args: Any, cc: tuple[int, int] = (8, 0)) -> str:
        """Return the PTX that Numba compiles for these arguments, without a GPU."""
        return inspection.compile_ptx(self.kernel, args, cc)

    def types(self, *args: Any) -> dict[str, str]:
        """Return Numba's type of each name for these arguments, without a GPU."""
        return inspection.infer_types(self.kernel, args)

    def __call__(self, *args: Any) -> None:
        launch = f"numba_jit({self.name})[grid, block](...)"
        raise ArgumentError(f"{self.name} is launched as {launch}")

    def __repr__(self) -> str:
        return f"<numba_jit of {self.kernel!r}>"

    def _launcher(self, config: LaunchConfig) -> Callable[..., None]:
        if on_gpu():
            if self._target is None:
                self._target = gpu.NumbaTarget(self.kernel, self._part)
            return self._target.launcher(config)
        return self._simulated(config)

    def _simulated(self, config: LaunchConfig) -> Callable[..., None]:
        """Return the function that launches the kernel on Numba's simulator."""
        part = self._part
        refuse_unknown(self.name, part)
        notice = refuse_endless(self.name, config, self.timeout)
        if self._target is None:
            self._target = meaning.serialise_kernel(part)
        code = self._target

        def launch(*args: Any, **named: Any) -> None:
            bound = self.kernel.given(args, named)
            checked = arguments.check_arguments(self.name, bound)
            arguments.say_once(
                "no GPU here: Numba's simulator runs the kernel in a separate process, "
                "slowly (0.4 ms per thread)"
            )
            if notice:
                remark(notice)
            hosts = [a.cpu().numpy() if arguments.on_gpu(a) else a for a in checked]
            simulate(part, code, config, hosts, self.timeout)
            for host, array in zip(hosts, checked):
                if arguments.on_gpu(array):
                    array.copy_(torch.from_numpy(host))

        return launch


def on_gpu() -> bool:
    """Return whether kernels run on a GPU: one exists, and CUDASIM is not set."""
    simulated = os.environ.get("NUMBA_ENABLE_CUDASIM", "0") not in ("", "0")
    return torch.cuda.is_available() and not simulated


# ---- the simulator -------------------------------------------------------------------

START = 60.0  # time limit in seconds for the start of the process
TIMEOUT = 60.0  # default time limit in seconds for a launch
PER_THREAD = 400e-6  # approximate seconds per thread; barriers add to this
WORTH_SAYING = 5.0  # expected seconds of a launch above which a notice is shown
CHILD = Path(__file__).with_name("child.py")
UNKNOWN = {
    *("syncwarp", "shfl_sync", "shfl_up_sync", "shfl_down_sync", "shfl_xor_sync"),
    *("vote_sync_intrinsic", "shfl_sync_intrinsic", "match_any_sync"),
    *("match_all_sync", "all_sync", "any_sync", "eq_sync", "ballot_sync"),
    *("activemask", "lanemask_lt", "nanosleep"),
}


def refuse_unknown(kernel: str, part: KernelPart) -> None:
    """Raise ArgumentError if a kernel uses a name that Numba's simulator lacks."""
    for name, line in part.uses():
        if name in UNKNOWN:
            raise ArgumentError(
                f"{kernel}, line {line}: Numba's simulator does not support "
                f"cuda.{name}; sim({kernel}) and cuda_c({kernel}) run it here, "
                f"numba_jit({kernel}) on a GPU"
            )


def refuse_endless(kernel: str, config: LaunchConfig, timeout: float) -> str:
    """Return a notice for a slow launch; raise ArgumentError if it is too slow."""
    grid, block = config.grid, config.block
    threads = int(np.prod(grid, dtype=object) * np.prod(block, dtype=object))
    seconds = threads * PER_THREAD
    cost = f"{threads} threads take Numba's simulator {seconds:.0f} s or more"
    if seconds > timeout:
        raise ArgumentError(
            f"{kernel}: {cost}: sim({kernel}) and cuda_c({kernel}) are hundreds of "
            f"times as fast; or launch fewer threads, or use numba_jit({kernel}, "
            f"timeout={2 * seconds:.0f})"
        )
    return f"{kernel}: {cost}" if seconds > WORTH_SAYING else ""


def simulate(
    part: KernelPart,
    code: bytes,
    config: LaunchConfig,
    args: Sequence[Any],
    timeout: float,
) -> None:
    """Run the kernel in the process and copy its results back into the arrays.

    code: the result of meaning.serialise_kernel(part).
    args: the result of check_arguments(), on the host.

    Raises KernelFault, or the kernel's own exception with a note that names the thread.
    """
    kernel = part.function.__name__
    spans, offsets = spans_of([a for a in args if isinstance(a, np.ndarray)])
    placed = [_place_argument(arg, offsets) for arg in args]
    contents = [bytes(arena.view_memory(*span)) for span in spans]
    job = code, config.grid, config.block, config.shared, contents, placed
    with _turn:
        answer = _ask(kernel, job, timeout)
    if answer[0] == "done":
        for (start, length), data in zip(spans, answer[1]):
            if _is_writable(start, length, args):
                arena.view_memory(start, length)[:] = data
        return
    *what, frames, _ = answer[1:]
    files = {one.function.__code__.co_filename for one in part.parts()}
    line = _find_line([frame for frame in frames if frame[0] in files])
    raise _make_error(kernel, *what, line) from None


# ---- its process ---------------------------------------------------------------------

_process: Process | None = None
_turn = threading.Lock()  # the process runs only one launch at a time


def _reset_after_fork() -> None:
    global _process, _turn
    _process, _turn = None, threading.Lock()


os.register_at_fork(after_in_child=_reset_after_fork)


def running_process() -> Process:
    """Return the process; start it if necessary."""
    global _process
    if _process is None or not _process.alive():
        _process = _start_process()
    return _process


def _start_process() -> Process:
    process = Process("-P", str(CHILD), NUMBA_ENABLE_CUDASIM="1")
    why = "it does not respond"
    try:
        if answer := process.first_word(START):
            why = "" if answer[0] == "ready" else answer[1]
    except EOFError:
        why = "its output is above, or in the terminal"
    if why:
        process.end()
        raise KernelError(
            f"Numba's simulator does not start: {why} (python -m weft doctor lists "
            f"missing parts)"
        )
    return process


def _ask(kernel: str, job: Any, timeout: float) -> Any:
    process = running_process()
    unchanged = "Its arrays are as they were."
    try:
        process.pipe.send(job)
        end = time.monotonic() + timeout
        while process.pipe.poll(max(0.0, end - time.monotonic())):
            answer = process.pipe.recv()
            if answer[0] != "print":
                if answer[0] == "fault" and answer[-1]:
                    process.end()  # threads of the launch may still be running
                return answer
            out = sys.stdout if answer[1] == 1 else sys.stderr
            out.write(answer[2])
            out.flush()
        process.end()
        raise KernelFault(
            f"{kernel}: Numba's simulator ran it longer than {timeout:g} s and was "
            f"stopped: look for a loop that does not end, or allow more time: "
            f"numba_jit({kernel}, timeout={2 * timeout:g}). {unchanged}",
            kernel,
        )
    except KeyboardInterrupt:
        process.end()
        raise Stopped(f"{kernel}: ended, with Numba's simulator. {unchanged}") from None
    except (EOFError, ConnectionError):
        process.end()
        raise KernelFault(
            f"{kernel}: the process of Numba's simulator ended (exit status "
            f"{process.child.returncode}); the next launch starts another. {unchanged}",
            kernel,
        ) from None


# ---- arrays ---------------------------------------------------------------------


def _place_argument(value: Any, offsets: dict) -> tuple[Any, ...]:
    if id(value) not in offsets:
        return "value", value  # a number, a tuple, or an array without elements
    layout = value.shape, value.strides, value.dtype, value.flags.writeable
    return "array", *offsets[id(value)], *layout


def _is_writable(start: int, length: int, args: Sequence[Any]) -> bool:
    """Return whether any array that begins within the span is writable."""
    return any(
        a.flags.writeable and a.size and start <= address_bounds(a)[0] < start + length
        for a in args
        if isinstance(a, np.ndarray)
    )


# ---- errors ---------------------------------------------------------------------


def _make_error(
    kernel: str, kind: str, text: str, block: Any, thread: Any, line: str
) -> Exception:
    # In the simulator, the arrays of a kernel have this class.
    text = text.replace("'FakeWithinKernelCUDAArray'", "an array")
    if kind == "ArgumentError":
        return ArgumentError(f"{kernel}{line}: {text}")
    if block is None:
        return KernelError(f"{kernel}: Numba's simulator failed: {kind} {text}{line}")
    index = "({},{},{})"
    who = f"thread {index.format(*thread)} of block {index.format(*block)}{line}"
    builtin = getattr(builtins, kind, None) if kind not in ("", "IndexError") else None
    if isinstance(builtin, type) and issubclass(builtin, Exception):
        try:
            error = type(kind, (Short, builtin), {"__module__": "builtins"})(text)
        except TypeError:
            pass
        else:
            error.add_note(f"{kernel}: {who}. Its arrays are as they were.")
            return error
    return KernelFault(
        f"{kernel}: {who}: {text}. Its arrays are as they were.", kernel, block, thread
    )


def _find_line(frames: list[Any]) -> str:
    """Return the number and the text of the innermost line of the user's source."""
    for file, number, _ in reversed(frames):
        source = linecache.getline(file, number).strip()
        return f", line {number}: {source}" if source else f", line {number}"
    return ""
