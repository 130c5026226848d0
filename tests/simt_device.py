"""Kernels of tests/kernels/simt/: built, loaded, and run in three orders of the
threads' turns. A test file imports the fixtures by name:

    simt, ordered = simt_device.simt, simt_device.ordered
"""

import ctypes
import dataclasses
import os
from pathlib import Path

import numpy as np
import pytest

from weft.toolchain import build

FOLDER = Path(__file__).parent / "kernels" / "simt"
ORDERS = {"forward": 0, "reverse": 1, "shuffled": 7}
HERE = "asm" if os.uname().machine == "x86_64" else "ucontext"
# Fibers of the other kind require a second runtime.
OTHER = [pytest.mark.slow] * (HERE != "ucontext")
FIBERS = ["asm", pytest.param("ucontext", marks=OTHER)]


class Simt:
    """The kernels of tests/kernels/simt/ and the runtime."""

    def __init__(self, fibers: str) -> None:
        self.flavour = dataclasses.replace(build.Flavour.here("cpu"), fibers=fibers)
        self.runtime = ctypes.CDLL(str(build.simt_runtime(self.flavour)))
        self.libraries: dict[str, ctypes.CDLL] = {}

    def load(self, name: str) -> ctypes.CDLL:
        if name not in self.libraries:
            source = FOLDER / f"{name}.cu"
            path = build.library_of(f"test_simt_{name}", [source], self.flavour)
            self.libraries[name] = ctypes.CDLL(str(path))
        return self.libraries[name]


@pytest.fixture(scope="module")
def simt():
    simt = Simt(HERE)
    yield simt
    simt.runtime.simt_set_order(0)


@pytest.fixture(params=ORDERS)
def ordered(simt, request):
    """`simt` in each order of the threads' turns."""
    simt.runtime.simt_set_order(ORDERS[request.param])
    yield simt
    simt.runtime.simt_set_order(0)


def pointer(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def poison(shape, dtype=np.int32) -> np.ndarray:
    """Return an array of values that no kernel is expected to write."""
    return np.full(shape, -777 if np.dtype(dtype).kind in "if" else 777, dtype)


def ints(seed: int, size: int, low: int = -1000, high: int = 1000) -> np.ndarray:
    return np.random.default_rng(seed).integers(low, high, size).astype(np.int32)
