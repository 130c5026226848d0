"""An op's library made with the check build's flags, and arrays that it watches."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
import torch

from ...cells.cpu.launch import ffi, runtime
from ...cells.cpu.watched import raw_report
from ...report.program import ProgramReport
from ...report.raw import Files, program_report
from ...toolchain import build, native

POINTERS = {
    torch.float32: "float *",
    torch.int32: "int32_t *",
    torch.int64: "int64_t *",
}


def flavour() -> build.Flavour:
    """Of the check build."""
    return dataclasses.replace(build.Flavour.here("cpu"), check=True)


@functools.cache
def checked_library(op: str) -> native.Library:
    """An op's library, made with the check build's flags."""
    return native.Library(op, "cpu", build.library(op, flavour()))


def report(title: str) -> ProgramReport:
    """What was seen since simt_check_begin(), on the lines of the checkout's files."""
    return program_report(raw_report(), Files(str(build.ROOT)), title)


class Watched:
    """A tensor's copy in memory of the runtime's; written: its bytes count as such."""

    def __init__(self, tensor: torch.Tensor, name: str, written: bool) -> None:
        bits = torch.int16 if tensor.dtype == torch.bfloat16 else tensor.dtype
        self.host = tensor.contiguous().view(bits).numpy()
        element = self.host.itemsize
        self.memory = runtime().simt_check_alloc(
            self.host.nbytes, element, name.encode(), written
        )
        self.pointer = native.ffi.cast(
            POINTERS.get(tensor.dtype, "void *"),
            int(ffi.cast("uintptr_t", self.memory)),
        )
        if written:
            ffi.memmove(self.memory, self.host.tobytes(), self.host.nbytes)

    def values(self) -> np.ndarray:
        """A copy of what lies there now."""
        got = np.frombuffer(ffi.buffer(self.memory, self.host.nbytes), self.host.dtype)
        return got.reshape(self.host.shape).copy()

    def release(self) -> None:
        """Give the memory back."""
        runtime().simt_check_release(self.memory)
