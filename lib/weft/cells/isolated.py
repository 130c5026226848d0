"""Launches in a separate process, to protect the notebook from damage.

The process starts with the first launch and is reused by later launches. Arrays are
passed in shared memory, and copied back after a successful launch. If a launch exceeds
its time limit or is interrupted, its process is killed, since nothing else can stop a
launch on a GPU.

Process starts another Python, for work that may damage or block its own process.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import connection, shared_memory
from typing import Any

import numpy as np
import torch

from ..base import errors
from ..base.errors import ArgumentError, KernelError, KernelFault
from ..csource.diagnostics import CompileError
from ..csource.signature import Param
from . import output
from .arguments import Array, Binder, list_held_arrays
from .cpu import arena
from .cpu import compiler as cpu
from .cpu.faults import AS_BEFORE
from .cpu.launch import TIMEOUT


class Process:
    """Another Python process, and the pipe to it.

    arguments: Python's arguments. The file descriptor of the pipe's other end, for
        multiprocessing.connection.Connection, is appended to them.
    environment: variables to set in addition to the current environment.
    """

    def __init__(self, *arguments: str, **environment: str) -> None:
        self.owner = os.getpid()
        self.pipe, child_end = connection.Pipe()
        paths = os.pathsep.join(p for p in sys.path if p)
        with child_end:
            self.child = subprocess.Popen(
                [sys.executable, *arguments, str(child_end.fileno())],
                pass_fds=[child_end.fileno()],
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # only the parent handles Ctrl-C
                env={**os.environ, "PYTHONPATH": paths, **environment},
            )
        atexit.register(self.end)

    def first_word(self, seconds: float) -> Any:
        """Return the process's first message; None if none arrives within `seconds`.

        Raises EOFError if the process ends first. Any exception kills the process.
        """
        try:
            return self.pipe.recv() if self.pipe.poll(seconds) else None
        except BaseException:
            self.end()
            raise

    def alive(self) -> bool:
        """Return whether the process accepts work."""
        return not self.pipe.closed and self.child.poll() is None

    def end(self) -> None:
        """Kill the process, even during a launch, and wait until it has ended."""
        if self.owner != os.getpid():
            return  # a fork must not kill its parent's child
        atexit.unregister(self.end)
        self.pipe.close()
        self.child.kill()
        self.child.wait()


START = 60.0  # seconds allowed for the start of the process, including PyTorch's import
# Seconds between the timeout and the end of the process. A launch on the CPU stops at
# the timeout, then needs a moment for its report.
GRACE = 1.0
# The process sends this when it has compiled the cell and begins the launch.
LAUNCHED = "launched"
# Errors of these classes are raised as such; all others become KernelError.
_KINDS = ("ArgumentError", "KernelFault", "OutOfMemory")


@dataclass
class Job:
    """A launch, in the form sent to the process."""

    source: str
    name: str
    flags: tuple[str, ...]
    headers: dict[str, str]
    target: str
    expressions: tuple[str, ...]  # kernels compiled together
    expression: str  # the kernel to launch
    params: tuple[Param, ...]
    timeout: float
    shape: tuple[Any, Any, int]
    memory: str  # name of the shared memory
    args: list[Any]  # a SharedArray represents an array
    variables: dict[str, bytes]  # content of each variable before the launch


@dataclass
class SharedArray:
    """The place of an array in the shared memory."""

    offset: int
    nbytes: int
    dtype: str
    writable: bool


_process: Process | None = None
_turn = threading.Lock()  # the process performs one job at a time


def _reset_after_fork() -> None:
    """Reset the state in a fork, which can use neither the process nor a held lock."""
    global _process, _turn
    _process, _turn = None, threading.Lock()


os.register_at_fork(after_in_child=_reset_after_fork)


def make_launcher(
    module: Any,
    target: str,
    expressions: tuple[str, ...],
    expression: str,
    params: tuple[Param, ...],
) -> Callable[..., None]:
    """Return a launcher that launches in the separate process, for either target."""
    kernel = re.sub(r"^(?:\w+::)*", "", expression)
    binder = Binder(kernel, params, module.text())
    limit = TIMEOUT if module.timeout is None else module.timeout

    def launch(grid: Any, block: Any, shared: int, _: Any, args: Sequence[Any]) -> None:
        bound = binder.bind(args)
        if list_held_arrays(bound):
            text = "an isolated launch takes arrays only as arguments"
            raise ArgumentError(f"{kernel}: {text}, not in tuples or lists")
        arrays = [v if isinstance(v, Array) else None for v in bound]
        with _share_arrays(arrays) as (memory, offsets):
            values = [v if isinstance(v, bytes) else arg for v, arg in zip(bound, args)]
            for i, array in enumerate(arrays):
                if array is not None:
                    place = offsets[id(array)], array.nbytes
                    values[i] = SharedArray(*place, array.dtype, array.writable)
            job = Job(
                *(module.source, module.name, module.flags, module.headers, target),
                *(expressions, expression, params, limit),
                *((grid, block, shared), memory.name, values, module.state.contents()),
            )
            with _turn:
                variables = _send_job(_running_process(), job, kernel)
            module.state.restore(variables)
            for array, param in zip(arrays, params):
                if array is not None and array.writable and array.nbytes:
                    at = offsets[id(array)]
                    data = memory.buf[at : at + array.nbytes]
                    _copy_out(array, data, param.const)

    return launch


def _send_job(process: Process, job: Job, kernel: str) -> dict[str, bytes]:
    """Send a job; return its variables' new content, or raise the launch's error."""
    patience = job.timeout + GRACE if job.timeout else None
    try:
        process.pipe.send(job)
        reply = process.pipe.recv()  # LAUNCHED, or the result if an error came first
        if reply == LAUNCHED:
            if not process.pipe.poll(patience):
                process.end()
                text = f"it ran longer than {job.timeout:g} s and was stopped"
                message = f"{kernel}: {text}, with its process{AS_BEFORE}"
                raise KernelFault(message, kernel)
            reply = process.pipe.recv()
        printed, error, variables = reply
    except KeyboardInterrupt:
        process.end()
        raise
    except (EOFError, ConnectionError, BrokenPipeError):
        process.child.wait()
        code = process.child.returncode
        process.end()
        message = f"{kernel}: its process ended (exit status {code}){AS_BEFORE}"
        raise KernelFault(message, kernel) from None
    sys.stdout.write(printed)
    sys.stdout.flush()
    if error is None:
        return variables
    kind, message, diagnostics = error
    if kind == "DeviceLost":
        # The next process gets a new context, so only this launch is lost.
        process.end()
        cause = message.partition(". CUDA cannot go on")[0]
        raise KernelFault(
            f"{cause}. It was isolated, so the notebook goes on; its arrays are as "
            f"they were. The same cell on the CPU (--cpu) reports thread and array.",
            kernel,
        )
    if kind == "CompileError":
        raise CompileError(diagnostics, job.source, job.name)
    raise getattr(errors, kind if kind in _KINDS else "KernelError")(message)


def _running_process() -> Process:
    global _process
    if _process is None or not _process.alive():
        _process = _start_process()
    return _process


def _start_process() -> Process:
    process = Process("-c", "from weft.cells.isolated import serve_jobs; serve_jobs()")
    try:
        is_ready = process.first_word(START) == "ready"
    except EOFError:
        is_ready = False
    if not is_ready:
        process.end()
        raise KernelError(
            f"the process for --isolated did not start (exit status "
            f"{process.child.returncode}): its messages are above, or in the terminal"
        )
    return process


# ---- shared memory ---------------------------------------------------------------


@contextlib.contextmanager
def _share_arrays(
    arrays: Sequence[Array | None],
) -> Iterator[tuple[shared_memory.SharedMemory, dict[int, int]]]:
    """Yield shared memory with a copy of the arrays, and their offsets by id().

    Host arrays that overlap also overlap in the copy. Arrays on a GPU are copied
    separately.
    """
    present = [a for a in arrays if a is not None]
    host = [a for a in present if a.device_type == "cpu"]
    offsets: dict[int, int] = {}
    end = 0
    for start, stop, _ in arena.merge_spans(host, [16] * len(host)):
        at = -(-end // 256) * 256 + start % 256  # aligned like the array itself
        for array in host:
            if start <= array.address and array.address + array.nbytes <= stop:
                offsets[id(array)] = at + array.address - start
        end = at + stop - start
    for array in present:
        if array.device_type != "cpu":
            offsets[id(array)] = -(-end // 256) * 256
            end = offsets[id(array)] + array.nbytes
    memory = shared_memory.SharedMemory(create=True, size=max(end, 1))
    try:
        for array in present:
            at = offsets[id(array)]
            memory.buf[at : at + array.nbytes] = _bytes_of(array)
        yield memory, offsets
    finally:
        memory.close()
        memory.unlink()


def _bytes_of(array: Array) -> Any:
    if array.device_type == "cpu":
        return arena.view_memory(array.address, array.nbytes)
    tensor = torch.as_tensor(array.owner).detach().contiguous()
    return tensor.view(-1).view(torch.uint8).cpu().numpy().data


def _copy_out(array: Array, data: memoryview, const: bool) -> None:
    """Copy the data back; if `const`, only if the kernel wrote it through a cast."""
    if const and bytes(data) == bytes(_bytes_of(array)):
        pass
    elif array.device_type == "cpu":
        arena.view_memory(array.address, array.nbytes)[:] = data
    else:
        tensor = torch.as_tensor(array.owner).detach().view(-1).view(torch.uint8)
        tensor.copy_(torch.frombuffer(bytearray(data), dtype=torch.uint8))
    data.release()


# ---- the other process --------------------------------------------------------------


def serve_jobs() -> None:
    """Run the process's main loop: perform jobs until the pipe's other end closes."""
    pipe = connection.Connection(int(sys.argv[-1]))
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    launchers: dict[Any, Any] = {}
    pipe.send("ready")
    with contextlib.suppress(EOFError, KeyboardInterrupt):
        while True:
            job = pipe.recv()
            error, variables = None, {}
            with tempfile.TemporaryFile() as file:
                os.dup2(file.fileno(), 1)
                try:
                    variables = _perform_job(job, launchers, pipe)
                except CompileError as failure:
                    error = "CompileError", str(failure), failure.diagnostics
                except Exception as failure:
                    error = type(failure).__name__, str(failure), None
                sys.stdout.flush()
                output.flush()
                pipe.send((output.read_output(file), error, variables))


def _end_with(parent: int) -> None:
    """End this process when its parent has ended, even if a kernel loops forever."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def _perform_job(job: Job, launchers: dict[Any, Any], pipe: Any) -> dict[str, bytes]:
    """Launch the job's kernel; return the new content of the variables."""
    key = (job.source, job.flags, job.target, job.expression, job.timeout)
    key += tuple(sorted(job.headers.items()))
    if key not in launchers:
        launchers[key] = _compile_job(job)
    compiled, launch = launchers[key]
    for name, data in job.variables.items():
        compiled.write(name, data)
    memory = shared_memory.SharedMemory(job.memory)
    _forget_memory(memory)
    args = [_open_array(arg, memory, job.target) for arg in job.args]
    # The cell is compiled and its arrays are in place, so the time starts.
    pipe.send(LAUNCHED)
    try:
        launch(*job.shape, None, args)
        if job.target == "cuda":
            # Imported only for a launch on a GPU.
            from .gpu import loader as gpu

            # This call raises the launch's fault.
            gpu.wait_for_device(doing=job.expression)
            _bring_back(job, args, memory)
        return {name: compiled.read(name) for name in job.variables}
    finally:
        del args
        with contextlib.suppress(BufferError):
            memory.close()


def _compile_job(job: Job) -> Any:
    compiler: Any = cpu
    if job.target == "cuda":
        # Imported only for a launch on a GPU.
        from .gpu import loader as compiler
    inputs = job.source, job.name, job.flags, job.expressions, job.headers
    cell = compiler.compile(*inputs)
    return cell, cell.launcher(job.expression, job.params, timeout=job.timeout)


def _open_array(placed: Any, memory: Any, target: str) -> Any:
    """Return a SharedArray as an array on `target`; return other arguments unchanged.

    An array for the CPU is the shared memory itself.
    """
    if not isinstance(placed, SharedArray):
        return placed
    view = memory.buf[placed.offset : placed.offset + placed.nbytes]
    if placed.dtype.startswith("void"):
        host: Any = np.frombuffer(view, np.dtype(f"V{int(placed.dtype[4:]) // 8}"))
    elif placed.dtype == "bfloat16" or target == "cuda":
        dtype = getattr(torch, placed.dtype)
        host = torch.empty(0, dtype=dtype)
        if placed.nbytes:
            host = torch.frombuffer(view, dtype=dtype)
    else:
        host = np.frombuffer(view, np.dtype(placed.dtype))
        host.flags.writeable = placed.writable
    return host.cuda() if target == "cuda" else host


def _bring_back(job: Job, args: list[Any], memory: Any) -> None:
    for placed, tensor in zip(job.args, args):
        if isinstance(placed, SharedArray) and placed.writable and placed.nbytes:
            data = tensor.view(torch.uint8).cpu().numpy().tobytes()
            memory.buf[placed.offset : placed.offset + placed.nbytes] = data


def _forget_memory(memory: shared_memory.SharedMemory) -> None:
    """Stop tracking memory that its creator unlinks (needed before Python 3.13)."""
    with contextlib.suppress(Exception):
        from multiprocessing import resource_tracker

        resource_tracker.unregister(memory._name, "shared_memory")  # type: ignore[attr-defined]
