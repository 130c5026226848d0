"""cuBLAS itself, without PyTorch around it: what a matrix product is measured against.

    product = Gemm("bf16")
    product(c, a, b)                c (m,n) = a (m,k) @ b (k,n)
    product(c, a, b_t, "nt")        b stored (n,k)

cuBLAS thinks in columns: a row-major c is its transpose there, so it is asked for
c^T = b^T a^T, which swaps the operands and changes no number. The handle has the
workspace that PyTorch gives it, since without one cuBLAS may choose other kernels. See
https://docs.nvidia.com/cuda/cublas/#cublasgemmex.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import re
from typing import TYPE_CHECKING, Any

from ..base import device
from ..base.errors import ArgumentError, KernelError

if TYPE_CHECKING:
    import torch

SONAMES = ("libcublas.so.13", "libcublas.so.12", "libcublas.so")
LAYOUTS = ("nn", "nt", "tn", "tt")
# cudaDataType and cublasComputeType_t: of a and b, and of the sums.
FP32, FP16, BF16 = 0, 2, 14
SUM_FP32, SUM_TF32 = 68, 77
KINDS = {  # by precision: type of a and b in torch, in cuBLAS, how it adds
    "fp32": ("float32", FP32, SUM_FP32),
    "tf32": ("float32", FP32, SUM_TF32),
    "bf16": ("bfloat16", BF16, SUM_FP32),
    "fp16": ("float16", FP16, SUM_FP32),
}
NORMAL, TRANSPOSED = 0, 1  # cublasOperation_t
DEFAULT_GEMM = -1  # cublasGemmAlgo_t: by cuBLAS's own heuristic
STATUS = {
    **{1: "not initialized", 3: "allocation failed", 7: "invalid value"},
    **{8: "architecture mismatch", 11: "mapping error", 13: "execution failed"},
    **{14: "internal error", 15: "not supported"},
}


class Gemm:
    """c (m,n) float32 = a @ b by cublasGemmEx, in one precision, on one GPU."""

    def __init__(self, precision: str, index: int | None = None):
        if precision not in KINDS:
            known = ", ".join(KINDS)
            raise ArgumentError(f"cuBLAS in {precision}: there are {known}")
        self.precision = precision
        self.index = device.current_gpu() if index is None else index
        self._handle, self._room = _handle(self.index)
        self._one, self._zero = ctypes.c_float(1.0), ctypes.c_float(0.0)

    def __call__(
        self,
        c: torch.Tensor,
        a: torch.Tensor,
        b: torch.Tensor,
        layout: str = "nn",
    ) -> None:
        """Queue the product on torch's current stream.

        layout: "n" as it is, "t" stored transposed, of a and of b: with "nt" b is
        (n,k). Raises ArgumentError for what does not fit, KernelError if cuBLAS fails.
        """
        m, n, k = self._sizes(c, a, b, layout)
        kind, adds = KINDS[self.precision][1:]
        one, zero = ctypes.byref(self._one), ctypes.byref(self._zero)
        flip_a, flip_b = (TRANSPOSED if x == "t" else NORMAL for x in layout)
        stream = ctypes.c_void_p(device.current_stream(self.index))
        _call("cublasSetStream_v2", self._handle, stream)
        # Whoever sets the stream takes the workspace away.
        address = ctypes.c_void_p(self._room.data_ptr())
        size = ctypes.c_size_t(self._room.numel())
        _call("cublasSetWorkspace_v2", self._handle, address, size)
        _call(
            *("cublasGemmEx", self._handle, flip_b, flip_a, n, m, k, one),
            *(_pointer_to(b), kind, b.shape[1], _pointer_to(a), kind, a.shape[1], zero),
            *(_pointer_to(c), FP32, n, adds, DEFAULT_GEMM),
        )

    def _sizes(self, c: Any, a: Any, b: Any, layout: str) -> tuple[int, int, int]:
        """m, n, k; ArgumentError if the arrays do not fit each other."""
        import torch

        if layout not in LAYOUTS:
            raise ArgumentError(f"layout '{layout}': want one of {', '.join(LAYOUTS)}")
        if not all(t.dim() == 2 and t.is_contiguous() for t in (c, a, b)):
            raise ArgumentError("cuBLAS: want contiguous matrices")
        (m, k), (k_b, n) = (
            t.shape if x == "n" else t.shape[::-1] for t, x in zip((a, b), layout)
        )
        if k != k_b or tuple(c.shape) != (m, n):
            shapes = [tuple(t.shape) for t in (c, a, b)]
            raise ArgumentError(f"cuBLAS, {layout}: c, a and b are {shapes}")
        want = getattr(torch, KINDS[self.precision][0])
        if a.dtype != want or b.dtype != want or c.dtype != torch.float32:
            types = [str(t.dtype)[6:] for t in (c, a, b)]
            raise ArgumentError(f"cuBLAS in {self.precision}: c, a and b are {types}")
        return m, n, k


def cublas_version() -> str:
    """Of the library, e.g. "13.0.2"."""
    found = [ctypes.c_int() for _ in range(3)]
    for which, value in enumerate(found):
        _call("cublasGetProperty", which, ctypes.byref(value))
    return ".".join(str(value.value) for value in found)


def workspace_bytes(capability: tuple[int, int]) -> int:
    """What PyTorch gives cuBLAS: 32 MiB from Hopper on, 8.1 MiB before.

    CUBLAS_WORKSPACE_CONFIG, ":KiB:count" once or more, overrides both.
    """
    found = re.findall(r":(\d+):(\d+)", os.environ.get("CUBLAS_WORKSPACE_CONFIG", ""))
    if not found:
        found = [(4096, 8)] if capability >= (9, 0) else [(4096, 2), (16, 8)]
    return sum(1024 * int(size) * int(count) for size, count in found)


@functools.cache
def open_library() -> ctypes.CDLL:
    """libcublas: the one that PyTorch has loaded, or another that is here.

    KernelError where there is none.
    """
    loaded = getattr(os, "RTLD_NOLOAD", 0)
    for mode in (loaded, None):
        for name in SONAMES:
            with contextlib.suppress(OSError):
                return ctypes.CDLL(name, mode=os.RTLD_NOW | (mode or 0))
        if mode is not None:
            with contextlib.suppress(Exception):  # not installed, or finds nothing
                from cuda.pathfinder import load_nvidia_dynamic_lib

                path = load_nvidia_dynamic_lib("cublas").abs_path
                return ctypes.CDLL(path)
    raise KernelError(f"no cuBLAS here: none of {', '.join(SONAMES)}")


@functools.cache
def _handle(index: int) -> tuple[ctypes.c_void_p, torch.Tensor]:
    """A handle for a GPU, never destroyed, and the memory it works in."""
    import torch

    where = torch.device("cuda", index)
    size = workspace_bytes(torch.cuda.get_device_capability(where))
    room = torch.empty(size, dtype=torch.uint8, device=where)
    found = ctypes.c_void_p()
    with torch.cuda.device(where):
        _call("cublasCreate_v2", ctypes.byref(found))
    return found, room


def _pointer_to(tensor: torch.Tensor) -> ctypes.c_void_p:
    return ctypes.c_void_p(tensor.data_ptr())


def _call(function: str, *args: Any) -> None:
    if status := getattr(open_library(), function)(*args):
        why = STATUS.get(status, "unknown")
        raise KernelError(f"{function}: cuBLAS status {status}, {why}")
