"""Launches on Numba's simulator, in a separate process.

On import, Numba reads an environment variable to select the real numba.cuda or the
simulator. The notebook's process must not select the simulator, so the simulator has
a process of its own. This process starts at the first launch, and later launches reuse
it. A pipe carries the arrays in both directions. A failed launch leaves them unchanged.
"""

from __future__ import annotations

import builtins
import linecache
import os
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...base.errors import ArgumentError, KernelError, KernelFault, Short
from ...cells.cpu import arena
from ...cells.cpu.faults import Stopped
from ...cells.isolated import Process
from ...toolchain.launch_config import LaunchConfig
from .arguments import address_bounds, spans_of
from .meaning import KernelPart

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


def launch(
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


# ---- the process ----------------------------------------------------------------


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
