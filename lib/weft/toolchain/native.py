"""The compiled kernels, callable from Python.

kernels/weft.h declares all C functions, and cffi parses it below. Each op has one
library per target, which build.py builds if necessary before it is opened.

    matmul = native.library("matmul", "cpu")
    matmul.call("weft_matmul", rung, c, a, b, m, n, k, ffi.NULL, ffi.NULL)
"""

from __future__ import annotations

import contextlib
import functools
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cffi import FFI

from ..base import device
from ..base.errors import (
    ArgumentError,
    DeviceLost,
    KernelError,
    OutOfMemory,
    running_shell,
)
from . import build

if TYPE_CHECKING:
    import torch

    AnyDevice = torch.device | device.Device


@dataclass(frozen=True)
class Rung:
    """One row of the table of implementations; weft.h defines its columns."""

    op: str
    name: str
    idea: str
    precision: str
    targets: tuple[str, ...]  # "cpu", "cuda" or both
    sm: int  # lowest compute capability times 10; 0: any
    index: int  # the rung's number in the C functions


@functools.cache
def _make_ffi(header: str) -> FFI:
    """Return the FFI of a header's text; types of different FFIs are incompatible."""
    parser = FFI()
    parser.cdef(header.split("/* cdef:")[1].partition("*/")[2])
    return parser


def _parse_header() -> FFI:
    return _make_ffi((build.KERNELS / "weft.h").read_text())


ffi = _parse_header()
NULL = ffi.NULL
_NO_CONTEXT = contextlib.nullcontext()
_open: dict[tuple[str, str], Library] = {}
# Libraries are never closed: pointers into them may be in use.
_kept: list[Library] = []
MAX_THREADS = 1024  # the limit of weft_set_threads()
LEAST_SM = 75  # the lowest compute capability that the lab supports, times 10
_lost = ""  # the reason why the CUDA context is lost; "" if it is not lost
_threads = 0


def _load_functions(path: Path) -> Any:
    """Return the library's functions; raise ArgumentError if it lacks a listed rung."""
    try:
        return ffi.dlopen(str(path))
    except OSError as error:
        missing = re.search(r"undefined symbol: matmul_(\w+)_rung\b", str(error))
        if not missing:
            raise
        name = missing[1]
        cause = f"no file in kernels/matmul contains MATMUL_RUNG({name}, ...)"
        text = f"RUNG({name}) is in matmul.cu's list, but {cause}"
        raise ArgumentError(text) from None


class Library:
    """One op's library on one target.

    path: an existing library to open instead of the library in the checkout
    """

    def __init__(self, op: str, target: str, path: Path | None = None):
        self.op, self.target = op, target
        self.path = path or build.library(op, build.Flavour.here(target))
        self.ffi = ffi
        self.C = _load_functions(self.path)
        self.rungs = self._read_rungs()
        # Cached results of rung().
        self._chosen: dict[tuple[str | None, str], Rung] = {}
        if _threads:
            self.call("weft_set_threads", _threads)
        _kept.append(self)

    def call(self, function: str, *args: Any) -> None:
        """Call a C function that returns a status; raise an error if it fails.

        Raises ArgumentError, OutOfMemory, DeviceLost, KeyboardInterrupt (Ctrl-C ended
        the call) or KernelError. After DeviceLost, all later calls on the GPU raise it.
        """
        if _lost and self.target == "cuda":
            raise DeviceLost(_lost)
        try:
            status = getattr(self.C, function)(*args)
        except OverflowError as error:  # cffi's message contains the number
            raise ArgumentError(f"{function}: {error}") from None
        if status:
            self._fail(status)

    def rung(self, name: str | None = None, precision: str = "fp32") -> Rung:
        """Return the rung called `name`; if it is None, the fastest available rung.

        On the CPU in fp32, the fastest is the reference rung, in plain C. Otherwise it
        is the last available row of the table, which orders rungs from slow to fast.
        """
        if name is not None and not isinstance(name, str):
            found = f"rung={write_value(name)}"
            raise ArgumentError(f"{self.op}: {found}: expected the name of a rung")
        rung = self._chosen.get((name, precision))
        if rung is None:
            rung = self._choose(name) if name else self.fastest(precision)[0]
            # On CUDA, the fastest rung depends on the GPU.
            if name or self.target == "cpu":
                self._chosen[name, precision] = rung
        return rung

    def here(self) -> list[Rung]:
        """Return the rungs that run on this target (on CUDA: on the current GPU)."""
        sm = _current_sm() if self.target == "cuda" else sys.maxsize
        return [r for r in self.rungs if self.target in r.targets and r.sm <= sm]

    def fastest(self, precision: str = "fp32") -> list[Rung]:
        """Return the available rungs in `precision`, rung()'s default first.

        The other rungs serve calls that the default does not support, such as certain
        model sizes. Raises ArgumentError if no rung is available.
        """
        available = self.here()
        if matches := [r for r in available if r.precision == precision][::-1]:
            plain = [r for r in matches if r.name == "reference"]
            return plain if plain and self.target == "cpu" else matches
        like = [r for r in self.rungs if r.precision == precision]
        if any(self.target in r.targets for r in like):
            needs = _describe_old_gpu(min(r.sm for r in like))
            raise ArgumentError(f"{self.op} in {precision} {needs}")
        names = ", ".join(dict.fromkeys(r.precision for r in available))
        text = f"{self.op} has no rung in {precision} on {self.target}"
        raise ArgumentError(f"{text}; it has {names}")

    def _choose(self, name: str) -> Rung:
        on_target = [r for r in self.rungs if self.target in r.targets]
        for rung in on_target:
            if rung.name == name:
                if self.target == "cuda" and rung.sm > _current_sm():
                    needs = _describe_old_gpu(rung.sm)
                    raise ArgumentError(f"{self.op}'s rung '{name}' {needs}")
                return rung
        names = ", ".join(r.name for r in on_target)
        others = [r for r in self.rungs if r.name == name]
        note = f" (it runs on {', '.join(others[0].targets)})" if others else ""
        text = f"{self.op} has no rung '{name}' on {self.target}{note}"
        raise ArgumentError(f"{text}; it has {names}")

    def _read_rungs(self) -> list[Rung]:
        count = ffi.new("int *")
        rows = ffi.unpack(self.C.weft_rungs(count), count[0])
        rows = [row for row in rows if ffi.string(row.op).decode() == self.op]
        return [_make_rung(row, index) for index, row in enumerate(rows)]

    def _fail(self, status: int) -> None:
        global _lost
        message = ffi.string(self.C.weft_last_error()).decode()
        if status == self.C.WEFT_EINTR:
            raise KeyboardInterrupt(message)
        kinds = {self.C.WEFT_EINVAL: ArgumentError, self.C.WEFT_ENOMEM: OutOfMemory}
        kind = (kinds | {self.C.WEFT_ELOST: DeviceLost}).get(status, KernelError)
        if kind is DeviceLost:
            _lost = message = message + advise_restart()
        raise kind(message)


def library(op: str, target: str) -> Library:
    """Return the op's library on "cpu" or "cuda"; build and open it on first use."""
    key = (op, target)
    if key not in _open:
        _open[key] = Library(op, target)
    return _open[key]


def reload() -> None:
    """Forget the open libraries, so that the next call builds changed sources.

    Objects with memory from an old library, such as a Cnn, continue to use it.
    """
    global ffi
    ffi = _parse_header()
    _open.clear()


def rungs(op: str, target: str = "cpu") -> list[Rung]:
    """Return every rung of `op`, for all targets, in the table's order."""
    return library(op, target).rungs


def set_threads(threads: int) -> int:
    """Use `threads` threads on the CPU target; 0 means OMP_NUM_THREADS or,
    without this variable, one per core that the process may use.

    The setting also applies to libraries opened before a reload(), and to libraries
    opened later. Returns the previous setting.
    """
    global _threads
    threads = convert_int("threads", threads)
    if not 0 <= threads <= MAX_THREADS:
        raise ArgumentError(f"threads = {threads}, expected 0 to {MAX_THREADS}")
    for lib in _kept:
        if lib.target == "cpu":
            lib.call("weft_set_threads", threads)
    previous, _threads = _threads, threads
    return previous


def explain_lost() -> str:
    """Return why this process's CUDA context is lost; "" if it is not lost."""
    return _lost


def mark_lost(message: str) -> None:
    """Mark the CUDA context as lost: later uses of the GPU fail with `message`."""
    global _lost
    _lost = _lost or message + advise_restart()


def advise_restart() -> str:
    """Return the menu entries that restart a notebook and repeat its cells, or ""."""
    if running_shell() is None:
        return ""
    menus = "Kernel > Restart Kernel", "Run > Run All Above Selected Cell"
    if "google.colab" in sys.modules:
        menus = "Runtime > Restart session", "Runtime > Run before"
    return f". Choose {menus[0]}, and repeat the cells above this one: {menus[1]}"


def convert_int(name: str, value: Any) -> int:
    """Return `value` as a C int; raise ArgumentError if that is impossible."""
    if type(value) is int and -(2**31) < value < 2**31:
        return value
    with contextlib.suppress(TypeError, ValueError, OverflowError):
        number = int(value)
        if number == value and abs(number) < 2**31:
            return number
    text = f"{name}={write_value(value)}"
    raise ArgumentError(f"{text}: expected a whole number of 32 bits")


def write_value(value: Any) -> str:
    """Return repr(value) cut to one line of at most 80 characters, for messages."""
    line = " ".join(repr(value).split())
    return line if len(line) <= 80 else f"{line[:77]}..."


def pointer(tensor: torch.Tensor | None, ctype: str = "float *") -> Any:
    """Return the tensor's address as a C pointer; NULL for None."""
    return NULL if tensor is None else ffi.cast(ctype, tensor.data_ptr())


def stream_of(where: AnyDevice) -> Any:
    """Return the current stream of a device as weft.h's type; see device.py."""
    if where.type != "cuda":
        return NULL
    return ffi.cast("weft_stream", device.current_stream(where.index))


def on_device(where: AnyDevice) -> contextlib.AbstractContextManager:
    """Return a context in which a CUDA device is current.

    It has no effect for the CPU, or for a device without an index (the current GPU).
    """
    if where.type != "cuda" or where.index is None or device.is_current(where.index):
        return _NO_CONTEXT
    return device.made_current(where.index)


def _current_sm() -> int:
    """Return the compute capability of the current GPU, times 10."""
    major, minor = device.compute_capability(device.current_gpu())
    return 10 * major + minor


def _describe_old_gpu(needs: int) -> str:
    """Return the end of a message about a GPU without compute capability needs / 10."""
    capability, gpu = _current_sm(), device.name(device.current_gpu())
    return (
        f"needs compute capability {needs // 10}.{needs % 10}, "
        f"but this is a {gpu} with {capability // 10}.{capability % 10}"
    )


def describe_needs(op: str, names: Iterable[str] = ()) -> str:
    """Return a sentence on the compute capability that each rung of an op requires.

    names: the rungs; by default, all that run on a GPU. If the current GPU lacks one of
    these capabilities, the sentence also states its own.
    """
    wanted = set(names)
    groups: dict[int, list[str]] = {}
    for rung in rungs(op):
        if "cuda" in rung.targets and (not wanted or rung.name in wanted):
            groups.setdefault(max(rung.sm, LEAST_SM), []).append(rung.name)
    parts = [
        f"{sm // 10}.{sm % 10}: {', '.join(groups[sm])}"
        for sm in sorted(groups)
        if sm > LEAST_SM
    ]
    least = f"{LEAST_SM // 10}.{LEAST_SM % 10}"
    parts += [f"{least}: the others" if parts else least] * (LEAST_SM in groups)
    text = f"Compute capability that a GPU needs: {'; '.join(parts)}"
    if not device.count() or _current_sm() >= max(groups):
        return text
    have = _current_sm()
    return (
        f"{text}. This GPU has {have // 10}.{have % 10}, so the times of the others "
        f"come from other machines"
    )


def _make_rung(row: Any, index: int) -> Rung:
    texts = (row.op, row.rung, row.idea, row.precision)
    names = {1: "cpu", 2: "cuda"}
    targets = tuple(name for bit, name in names.items() if row.targets & bit)
    return Rung(*(ffi.string(t).decode() for t in texts), targets, row.sm, index)
