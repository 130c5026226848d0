"""Time CUDA C on the CPU: `python -m weft bench simt`.

The table does not measure kernels. It shows whether the CPU target is fast enough for
learning and testing.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ..timing import device_name, time_call
from ..toolchain import build

SOURCE = Path(__file__).with_suffix(".cu")
THREADS = 1 << 22  # threads of add and warp_sum; add reads 32 MB and writes 16 MB
N = 512  # side of the matrices in matmul_tiled


def rows(repeats: int = 10, fibers: str = "asm") -> list[dict[str, Any]]:
    """Time a kernel without barriers, one with barriers and one with shuffles.

    fibers: "asm" or "ucontext". Each row has the usual keys and `ns_per_thread`;
    matmul_tiled's row also has `gflops`. Raises BuildError if there is no compiler,
    and RuntimeError if a kernel's result is wrong.
    """
    lib = open_library(fibers)
    cases = add(lib), matmul_tiled(lib), warp_sum(lib)
    return [_make_row(*case, repeats) for case in cases]


def open_library(fibers: str) -> ctypes.CDLL:
    """Build simt.cu with the given fibers and open the library."""
    flavour = build.Flavour("cpu", fibers=fibers)
    return ctypes.CDLL(str(build.library_of("bench_simt", [SOURCE], flavour)))


Case = tuple[str, Callable[[], None], int, int]  # rung, launch, threads, flop


def _make_row(
    name: str, launch: Callable[[], None], threads: int, flop: int, repeats: int
):
    timing = time_call(launch, samples=repeats, warmup=1)
    return {
        **{"op": "simt", "impl": "weft", "rung": name, "precision": "fp32"},
        **{"target": "cpu", "device": device_name(), **timing.row()},
        "ns_per_thread": timing.median * 1e3 / threads,
        "gflops": flop / timing.median / 1e3 if flop else None,
    }


def add(lib: ctypes.CDLL) -> Case:
    """Launch a kernel without barriers."""
    a, b = _make_random(THREADS), _make_random(THREADS)
    c = np.full(THREADS, np.nan, np.float32)
    launch = _make_launcher(lib.simt_add, c, a, b, THREADS)
    _must_equal("add", c, a + b, 0)
    return "add", launch, THREADS, 0


def matmul_tiled(lib: ctypes.CDLL) -> Case:
    """Launch a kernel with two barriers per tile of 16 x 16."""
    a, b = _make_random(N, N), _make_random(N, N)
    c = np.full((N, N), np.nan, np.float32)
    launch = _make_launcher(lib.simt_matmul_tiled, c, a, b, N)
    wide = a.astype(np.float64), b.astype(np.float64)
    # Any order of summation in fp32 stays within this bound (Higham 2002, 3.1).
    bound = 1.01 * N * 2.0**-24 * (abs(wide[0]) @ abs(wide[1]))
    _must_equal("matmul_tiled", c, wide[0] @ wide[1], bound)
    return "matmul_tiled", launch, N * N, 2 * N**3


def warp_sum(lib: ctypes.CDLL) -> Case:
    """Launch a kernel with five shuffles per thread."""
    x = _make_random(THREADS // 32, 32)
    out = np.full(THREADS // 32, np.nan, np.float32)
    launch = _make_launcher(lib.simt_warp_sum, out, x, THREADS)
    bound = 1.01 * 32 * 2.0**-24 * abs(x).sum(1, dtype=np.float64)
    _must_equal("warp_sum", out, x.sum(1, dtype=np.float64), bound)
    return "warp_sum", launch, THREADS, 0


def _make_random(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape, np.float32)


def _make_launcher(function, *args: np.ndarray | int) -> Callable[[], None]:
    """Call the C function once, and return a function that repeats this call."""
    converted = [
        ctypes.c_void_p(a.ctypes.data) if isinstance(a, np.ndarray) else ctypes.c_int(a)
        for a in args
    ]

    def launch(keep=args) -> None:  # `keep` prevents Python from freeing the arrays
        if status := function(*converted):
            raise RuntimeError(f"{function.__name__}: CUDA error {status}")

    launch()
    return launch


def _must_equal(name: str, got: np.ndarray, want: np.ndarray, bound) -> None:
    bad = ~(abs(got.astype(np.float64) - want) <= bound)
    if bad.any():
        raise RuntimeError(f"{name}: {bad.sum()} of {bad.size} elements are wrong")
