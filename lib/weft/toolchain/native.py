"""The compiled kernels, callable from Python.

kernels/weft.h is the only declaration of the C side: cffi parses it below.
A library is opened per op and target, built first if need be (build.py).

    matmul = native.library("matmul", "cpu")
    matmul.call("weft_matmul", rung, c, a, b, m, n, k, ffi.NULL, ffi.NULL)
"""

from __future__ import annotations

import contextlib
import functools
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cffi import FFI

from ..base import device
from ..base.errors import ArgumentError, DeviceLost, KernelError, OutOfMemory
from . import build

if TYPE_CHECKING:
    import torch

    AnyDevice = torch.device | device.Device


@dataclass(frozen=True)
class Rung:
    """One line of the table of implementations, as weft.h defines it."""

    op: str
    name: str
    idea: str
    precision: str
    targets: tuple[str, ...]  # of "cpu", "cuda"
    sm: int  # least compute capability times 10; 0: any
    index: int  # what the C functions take


@functools.cache
def _make_ffi(header: str) -> FFI:
    """The same FFI for the same text: types of two of them do not mix."""
    parsed = FFI()
    parsed.cdef(header.split("/* cdef:")[1].partition("*/")[2])
    return parsed


def _parse_header() -> FFI:
    return _make_ffi((build.KERNELS / "weft.h").read_text())


ffi = _parse_header()
NULL = ffi.NULL
_NOTHING = contextlib.nullcontext()
_open: dict[tuple[str, str], Library] = {}
_kept: list[Library] = []  # never closed: somebody may still hold a pointer into one
MAX_THREADS = 1024  # as weft_set_threads() has it
_lost = ""  # why the CUDA context is gone, once it is
_threads = 0


def _load_functions(path: Path) -> Any:
    """The library's functions; ArgumentError if a listed rung is in no file."""
    try:
        return ffi.dlopen(str(path))
    except OSError as error:
        missing = re.search(r"undefined symbol: matmul_(\w+)_rung\b", str(error))
        if not missing:
            raise
        name = missing[1]
        raise ArgumentError(
            f"RUNG({name}) stands in matmul.cu's list, but no file in kernels/matmul "
            f"has MATMUL_RUNG({name}, ...)"
        ) from None


class Library:
    """One op's library on one target.

    path: an already built one, instead of that of the checkout's sources.
    """

    def __init__(self, op: str, target: str, path: Path | None = None):
        self.op, self.target = op, target
        self.path = path or build.library(op, build.Flavour.here(target))
        self.ffi = ffi
        self.C = _load_functions(self.path)
        self.rungs = self._read_rungs()
        self._chosen: dict[tuple[str | None, str], Rung] = {}  # what rung() answered
        if _threads:
            self.call("weft_set_threads", _threads)
        _kept.append(self)

    def call(self, function: str, *args: Any) -> None:
        """Call a C function that returns a status; raise if it failed.

        Raises ArgumentError, OutOfMemory, DeviceLost, KeyboardInterrupt (the
        call was ended by Ctrl-C) or KernelError. After DeviceLost every further
        call on the GPU is refused.
        """
        if _lost and self.target == "cuda":
            raise DeviceLost(_lost)
        try:
            status = getattr(self.C, function)(*args)
        except OverflowError as error:  # cffi: the number, and that it does not fit
            raise ArgumentError(f"{function}: {error}") from None
        if status:
            self._fail(status)

    def rung(self, name: str | None = None, precision: str = "fp32") -> Rung:
        """The rung called `name`; None: the fastest in that precision that runs here.

        On the CPU that is, in fp32, the reference rung, in plain C. Elsewhere it is the
        last one of the table, which lists an op's rungs from slow to fast.
        """
        if name is not None and not isinstance(name, str):
            raise ArgumentError(
                f"{self.op}: rung={write_value(name)}: want the name of a rung"
            )
        found = self._chosen.get((name, precision))
        if found is None:
            found = self._choose(name) if name else self.fastest(precision)[0]
            if name or self.target == "cpu":  # the fastest depends on which GPU it is
                self._chosen[name, precision] = found
        return found

    def here(self) -> list[Rung]:
        """The rungs that run on this target; on the GPU that is current, if one."""
        sm = _current_sm() if self.target == "cuda" else 0
        return [
            r
            for r in self.rungs
            if self.target in r.targets and (self.target == "cpu" or r.sm <= sm)
        ]

    def fastest(self, precision: str = "fp32") -> list[Rung]:
        """The rungs in that precision that run here, the one that rung() takes first.

        The others are for what it does not take, a model's sizes for example.
        ArgumentError if there is none.
        """
        here = self.here()
        if found := [r for r in here if r.precision == precision][::-1]:
            first = [r for r in found if r.name == "reference" and self.target == "cpu"]
            return first or found
        if any(
            r.precision == precision and self.target in r.targets for r in self.rungs
        ):
            needs = min(r.sm for r in self.rungs if r.precision == precision)
            raise ArgumentError(f"{self.op} in {precision} {_too_old(needs)}")
        known = ", ".join(dict.fromkeys(r.precision for r in here))
        raise ArgumentError(
            f"{self.op} has no rung in {precision} on {self.target}; it has {known}"
        )

    def _choose(self, name: str) -> Rung:
        there = [r for r in self.rungs if self.target in r.targets]
        for rung in there:
            if rung.name == name:
                if self.target == "cuda" and rung.sm > _current_sm():
                    raise ArgumentError(
                        f"{self.op}'s rung '{name}' {_too_old(rung.sm)}"
                    )
                return rung
        known = ", ".join(r.name for r in there)
        elsewhere = [r for r in self.rungs if r.name == name]
        why = f" (it runs on {', '.join(elsewhere[0].targets)})" if elsewhere else ""
        raise ArgumentError(
            f"{self.op} has no rung '{name}' on {self.target}{why}; it has {known}"
        )

    def _read_rungs(self) -> list[Rung]:
        count = ffi.new("int *")
        table = self.C.weft_rungs(count)
        mine = [
            row
            for row in ffi.unpack(table, count[0])
            if ffi.string(row.op).decode() == self.op
        ]
        return [_make_rung(row, index) for index, row in enumerate(mine)]

    def _fail(self, status: int) -> None:
        global _lost
        message = ffi.string(self.C.weft_last_error()).decode()
        if status == self.C.WEFT_EINTR:
            raise KeyboardInterrupt(message)
        kind = {
            self.C.WEFT_EINVAL: ArgumentError,
            self.C.WEFT_ENOMEM: OutOfMemory,
            self.C.WEFT_ELOST: DeviceLost,
        }.get(status, KernelError)
        if kind is DeviceLost:
            _lost = message
        raise kind(message)


def library(op: str, target: str) -> Library:
    """The op's library on "cpu" or "cuda", built and opened on first use."""
    key = (op, target)
    if key not in _open:
        _open[key] = Library(op, target)
    return _open[key]


def reload() -> None:
    """Forget the open libraries: the next call builds what has changed.

    Objects that hold memory of an old library (a Cnn) go on using it.
    """
    global ffi
    ffi = _parse_header()
    _open.clear()


def rungs(op: str, target: str = "cpu") -> list[Rung]:
    """Every rung of `op`, in the order of the table, also those of other targets."""
    return library(op, target).rungs


def set_threads(threads: int) -> int:
    """Use `threads` threads on the CPU target; 0: one per available core.

    Holds for libraries of before a reload() and those yet to be opened, too.
    Returns what was set before.
    """
    global _threads
    threads = convert_int("threads", threads)
    if not 0 <= threads <= MAX_THREADS:
        raise ArgumentError(f"threads = {threads}, want 0 to {MAX_THREADS}")
    for lib in _kept:
        if lib.target == "cpu":
            lib.call("weft_set_threads", threads)
    before, _threads = _threads, threads
    return before


def explain_lost() -> str:
    """Why the CUDA context of this process is gone; "" while it is not."""
    return _lost


def mark_lost(message: str) -> None:
    """The CUDA context is gone: from now on the GPU is refused, with `message`."""
    global _lost
    _lost = _lost or message


def convert_int(name: str, value: Any) -> int:
    """`value` as a C int; ArgumentError if it is none, or does not fit."""
    if type(value) is int and -(2**31) < value < 2**31:
        return value
    with contextlib.suppress(TypeError, ValueError, OverflowError):
        number = int(value)
        if number == value and abs(number) < 2**31:
            return number
    raise ArgumentError(f"{name}={write_value(value)}: want a whole number of 32 bits")


def write_value(value: Any) -> str:
    """repr(value) in one line, cut off at 80 characters: it may be an array."""
    line = " ".join(repr(value).split())
    return line if len(line) <= 80 else f"{line[:77]}..."


def pointer(tensor: torch.Tensor | None, ctype: str = "float *") -> Any:
    """The tensor's address as a C pointer; None is NULL."""
    return NULL if tensor is None else ffi.cast(ctype, tensor.data_ptr())


def stream_of(where: AnyDevice) -> Any:
    """The current stream on a device, as weft.h wants it; see device.py."""
    if where.type != "cuda":
        return NULL
    return ffi.cast("weft_stream", device.current_stream(where.index))


def on_device(where: AnyDevice) -> contextlib.AbstractContextManager:
    """Make a CUDA device current for the calls inside; the CPU needs nothing.

    Nor does a device without a number, the one that is current.
    """
    if where.type != "cuda" or where.index is None or device.is_current(where.index):
        return _NOTHING
    return device.made_current(where.index)


def _current_sm() -> int:
    """The compute capability of the GPU that is current, times 10."""
    major, minor = device.compute_capability(device.current_gpu())
    return 10 * major + minor


def _too_old(needs: int) -> str:
    """That the current GPU lacks what needs compute capability `needs` / 10."""
    has, called = _current_sm(), device.name(device.current_gpu())
    return (
        f"needs compute capability {needs // 10}.{needs % 10}, "
        f"this is a {called} with {has // 10}.{has % 10}"
    )


def _make_rung(row: Any, index: int) -> Rung:
    def text(field: Any) -> str:
        return ffi.string(field).decode()

    names = {1: "cpu", 2: "cuda"}
    targets = tuple(name for bit, name in names.items() if row.targets & bit)
    return Rung(
        *[text(row.op), text(row.rung), text(row.idea), text(row.precision)],
        *[targets, row.sm, index],
    )
