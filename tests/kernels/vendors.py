"""The CPU versions of NVIDIA's libraries, opened with ctypes.

Their functions return 0 for success. Vendor.ok() raises AssertionError for any other
status.
"""

import ctypes
from typing import Any

import numpy as np

from weft.toolchain import build

SINGLE, DOUBLE = 2.0**-24, 2.0**-53  # half a unit in the last place


class Vendor:
    """A library of kernels/simt/libraries: `curand`, `cufft` or `cudnn`."""

    def __init__(self, name: str) -> None:
        path = build.vendor_library(name, build.Flavour.here("cpu"))
        self.library = ctypes.CDLL(str(path))

    def status(self, function: str, *arguments: Any) -> int:
        """Call a function; return its status. Arrays become their addresses."""
        return getattr(self.library, function)(*map(to_c, arguments))

    def ok(self, function: str, *arguments: Any) -> None:
        assert self.status(function, *arguments) == 0, function

    def create(self, function: str, *arguments: Any) -> ctypes.c_void_p:
        """Call a function that writes a handle to its first argument."""
        handle = ctypes.c_void_p()
        self.ok(function, ctypes.byref(handle), *arguments)
        return handle


def to_c(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return ctypes.c_void_p(value.ctypes.data)
    return ctypes.c_double(value) if isinstance(value, float) else value
