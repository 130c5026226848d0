"""The highest rates of memory and arithmetic on this machine, and cuBLAS.

Gemm calls cuBLAS directly, without PyTorch. It is the peer of our matrix products:

    product = Gemm("bf16")
    product(c, a, b)                c (m,n) = a (m,k) @ b (k,n)
    product(c, a, b_t, "nt")        b stored (n,k)

cuBLAS stores matrices by columns, and reads a row-major c as its transpose. Gemm
therefore requests c^T = b^T a^T, which swaps the operands and changes no result. The
handle has the same workspace as in PyTorch: without one, cuBLAS may choose other
kernels. See https://docs.nvidia.com/cuda/cublas/#cublasgemmex.

    peaks("cuda")           rows: a copy (gbs), reads served by the L2 cache (gbs),
                            and multiply-adds by kind (tflops)
    ceilings(rows)          {"gbs": ..., "l2": ..., "fp32": ..., "tf32": ..., ...}

Each kernel of peaks.cu and peaks.c does one thing, with its operands in registers or
shared memory. The fastest sample is the peak, since interference by other programs is
not a property of the machine. Each device is measured once, and its peaks are cached;
`python -m weft bench matmul --set peaks` measures again.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import json
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base import device as devices
from ..base import store
from ..base.errors import ArgumentError, KernelError
from ..toolchain import build
from . import results
from .race import Contender, Timed, race
from .results import Row

if TYPE_CHECKING:
    import torch


SONAMES = ("libcublas.so.13", "libcublas.so.12", "libcublas.so")
LAYOUTS = ("nn", "nt", "tn", "tt")
# Values of cudaDataType (of a and b) and of cublasComputeType_t (of the sums).
FP32, FP16, BF16 = 0, 2, 14
SUM_FP32, SUM_TF32 = 68, 77
CUBLAS_KINDS = {  # by precision: type of a and b in torch and in cuBLAS, type of sums
    "fp32": ("float32", FP32, SUM_FP32),
    "tf32": ("float32", FP32, SUM_TF32),
    "bf16": ("bfloat16", BF16, SUM_FP32),
    "fp16": ("float16", FP16, SUM_FP32),
}
NORMAL, TRANSPOSED = 0, 1  # values of cublasOperation_t
DEFAULT_GEMM = -1  # a cublasGemmAlgo_t: cuBLAS chooses the algorithm itself
STATUS = {
    **{1: "not initialized", 3: "allocation failed", 7: "invalid value"},
    **{8: "architecture mismatch", 11: "mapping error", 13: "execution failed"},
    **{14: "internal error", 15: "not supported"},
}


class Gemm:
    """The product c (m,n) float32 = a @ b by cublasGemmEx, in one precision."""

    def __init__(self, precision: str, index: int | None = None):
        if precision not in CUBLAS_KINDS:
            precisions = ", ".join(CUBLAS_KINDS)
            raise ArgumentError(f"cuBLAS in {precision}: there are {precisions}")
        self.precision = precision
        self.index = devices.current_gpu() if index is None else index
        self._handle, self._room = _handle(self.index)
        self._one, self._zero = ctypes.c_float(1.0), ctypes.c_float(0.0)

    def __call__(
        self, c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, layout: str = "nn"
    ) -> None:
        """Queue the product on torch's current stream.

        layout: one letter each for a and b, "t" if it is stored transposed, else "n":
        with "nt", b is (n,k). Raises ArgumentError for invalid arrays, KernelError if
        cuBLAS fails.
        """
        m, n, k = self._sizes(c, a, b, layout)
        kind, sum_type = CUBLAS_KINDS[self.precision][1:]
        one, zero = ctypes.byref(self._one), ctypes.byref(self._zero)
        flip_a, flip_b = (TRANSPOSED if x == "t" else NORMAL for x in layout)
        stream = ctypes.c_void_p(devices.current_stream(self.index))
        _call("cublasSetStream_v2", self._handle, stream)
        # Setting the stream resets the workspace.
        address = ctypes.c_void_p(self._room.data_ptr())
        size = ctypes.c_size_t(self._room.numel())
        _call("cublasSetWorkspace_v2", self._handle, address, size)
        _call(
            *("cublasGemmEx", self._handle, flip_b, flip_a, n, m, k, one),
            *(_pointer_to(b), kind, b.shape[1], _pointer_to(a), kind, a.shape[1], zero),
            *(_pointer_to(c), FP32, n, sum_type, DEFAULT_GEMM),
        )

    def _sizes(self, c: Any, a: Any, b: Any, layout: str) -> tuple[int, int, int]:
        """Return m, n, k; raise ArgumentError for invalid shapes, dtypes or layout."""
        import torch

        if layout not in LAYOUTS:
            choices = ", ".join(LAYOUTS)
            raise ArgumentError(f"layout '{layout}': expected one of {choices}")
        if not all(t.dim() == 2 and t.is_contiguous() for t in (c, a, b)):
            raise ArgumentError("cuBLAS: expected contiguous matrices")
        (m, k), (k_b, n) = (
            t.shape if x == "n" else t.shape[::-1] for t, x in zip((a, b), layout)
        )
        if k != k_b or tuple(c.shape) != (m, n):
            shapes = [tuple(t.shape) for t in (c, a, b)]
            raise ArgumentError(f"cuBLAS, {layout}: c, a and b are {shapes}")
        want = getattr(torch, CUBLAS_KINDS[self.precision][0])
        if a.dtype != want or b.dtype != want or c.dtype != torch.float32:
            types = [str(t.dtype)[6:] for t in (c, a, b)]
            raise ArgumentError(f"cuBLAS in {self.precision}: c, a and b are {types}")
        return m, n, k


def workspace_bytes(capability: tuple[int, int]) -> int:
    """Return the size of PyTorch's cuBLAS workspace in bytes.

    The size is 32 MiB on Hopper and later GPUs, and 8.1 MiB on earlier ones.
    CUBLAS_WORKSPACE_CONFIG, one or more ":KiB:count", overrides both values.
    """
    pools = re.findall(r":(\d+):(\d+)", os.environ.get("CUBLAS_WORKSPACE_CONFIG", ""))
    if not pools:
        pools = [(4096, 8)] if capability >= (9, 0) else [(4096, 2), (16, 8)]
    return sum(1024 * int(size) * int(count) for size, count in pools)


@functools.cache
def open_cublas() -> ctypes.CDLL:
    """Return libcublas: PyTorch's library if it is loaded, else an installed one.

    Raises KernelError if none is installed.
    """
    loaded = getattr(os, "RTLD_NOLOAD", 0)
    for mode in (loaded, None):
        for name in SONAMES:
            with contextlib.suppress(OSError):
                return ctypes.CDLL(name, mode=os.RTLD_NOW | (mode or 0))
        if mode is not None:
            with contextlib.suppress(Exception):  # pathfinder or cuBLAS may be missing
                from cuda.pathfinder import load_nvidia_dynamic_lib

                path = load_nvidia_dynamic_lib("cublas").abs_path
                return ctypes.CDLL(path)
    raise KernelError(f"no cuBLAS here: none of {', '.join(SONAMES)}")


@functools.cache
def _handle(index: int) -> tuple[ctypes.c_void_p, torch.Tensor]:
    """Return a GPU's cuBLAS handle, which is never destroyed, and its workspace."""
    import torch

    gpu = torch.device("cuda", index)
    size = workspace_bytes(torch.cuda.get_device_capability(gpu))
    workspace = torch.empty(size, dtype=torch.uint8, device=gpu)
    handle = ctypes.c_void_p()
    with torch.cuda.device(gpu):
        _call("cublasCreate_v2", ctypes.byref(handle))
    return handle, workspace


def _pointer_to(tensor: torch.Tensor) -> ctypes.c_void_p:
    return ctypes.c_void_p(tensor.data_ptr())


def _call(function: str, *args: Any) -> None:
    if status := getattr(open_cublas(), function)(*args):
        reason = STATUS.get(status, "unknown")
        raise KernelError(f"{function}: cuBLAS status {status}, {reason}")


SOURCES = {"cuda": "peaks.cu", "cpu": "peaks.c"}
# For each kind of peaks.cu: rung, precision, lowest and highest compute capability
# times 10.
KINDS = (
    ("ffma", "fp32", 0, 999),
    ("mma", "tf32", 80, 999),
    ("mma", "bf16", 80, 999),
    ("mma", "fp16", 75, 999),
    ("wgmma", "tf32", 90, 90),
    ("wgmma", "bf16", 90, 90),
)
COPIED = {"cuda": 1 << 28, "cpu": 1 << 25}  # number of floats in a copy
IN_L2 = 1 << 22  # number of floats: 16 MiB exceed all L1 caches but fit in an L2 cache
BLOCKS_A_PROCESSOR = 8  # reading blocks per multiprocessor, 2048 threads in all
BURST = 1e-3  # duration of a kernel, in seconds
SECONDS = 0.4  # approximate seconds of timing per kernel
THREADS = 256  # threads per block, as in peaks.cu


def peaks(device: str = "cpu", again: bool = False) -> list[Row]:
    """Return a device's rows from the cache; measure if there are none, or if `again`.

    Raises BuildError without a compiler, KernelError if a kernel fails.
    """
    place = devices.parse_device(device)
    source = Path(__file__).with_name(SOURCES[place.type])
    name = results.device_name(place)
    text = name + source.read_text() + Path(__file__).read_text()
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    path = store.cache_folder("peaks") / f"{digest}.json"
    if path.exists() and not again:
        return json.loads(path.read_text())
    fresh_rows = _on_gpu(place) if place.type == "cuda" else _on_cpu(place)
    stamp = results.stamp_row()
    rows = [row | stamp for row in fresh_rows]
    store.write(path, json.dumps(rows))
    return rows


def ceilings(rows: Iterable[Row]) -> dict[str, float]:
    """Return the highest rates: "gbs" of a copy and "l2" of reads from the L2 cache in
    GB/s, and each precision's rate in TFLOP/s. 3xtf32 is a third of tf32.
    """
    rates: dict[str, float] = {}
    for row in (row for row in rows if row["op"] == "peak"):
        name = {"copy": "gbs", "l2": "l2"}.get(row["rung"], row["precision"])
        value = row["gbs"] if name in ("gbs", "l2") else row["tflops"]
        rates[name] = max(value, rates.get(name, 0.0))
    if "tf32" in rates:
        rates["3xtf32"] = rates["tf32"] / 3
    if "bf16" in rates:  # fp16 uses the same units at the same rate
        rates["fp16"] = max(rates["bf16"], rates.get("fp16", 0.0))
    return rates


def _make_row(
    rung: str, precision: str, place: Any, timed: Timed, **more: float
) -> Row:
    return {
        **{"op": "peak", "impl": "weft", "rung": rung, "precision": precision},
        **{"target": place.type, "device": timed.device, **timed.row(), **more},
    }


# ---- a GPU -----------------------------------------------------------------------


@functools.cache
def open_library(target: str, name: str = "") -> ctypes.CDLL:
    """Open the library of peaks.cu ("cuda"), peaks.c ("cpu"), or source `name`."""
    source = Path(__file__).with_name(name or SOURCES[target])
    files = [build.KERNELS / "common" / "common.cu", source]
    flavour = build.Flavour.here(target)
    path = build.library_of(f"peaks_{source.suffix[1:]}", files, flavour)
    lib = ctypes.CDLL(str(path))
    lib.peak_flops.restype = ctypes.c_double
    return lib


def _on_gpu(place: Any) -> list[Row]:
    import torch

    lib = open_library("cuda")
    capability = devices.compute_capability(place.index)
    sm = 10 * capability[0] + capability[1]
    count = COPIED["cuda"]
    x, y = (torch.randn(count, device=place) for _ in range(2))
    copy = Contender(lambda i: queue(lib, "peak_copy", y, x, ctypes.c_size_t(count)))
    copy.checked = True  # torch.equal() below is the check
    timed = _time_alone(copy, place)
    if not torch.equal(x, y):
        raise KernelError("peak_copy: the copy differs from its source")
    gbs = 8 * count / timed.fastest / 1e3
    rows = [_make_row("copy", "fp32", place, timed, gbs=gbs), _read_l2(lib, place)]
    for kind, (rung, precision, minimum, maximum) in enumerate(KINDS):
        if minimum <= sm <= maximum:
            rows.append(_measure_chain(lib, kind, rung, precision, place))
    return rows


def _read_l2(lib: Any, place: Any) -> Row:
    """Time reads that bypass the L1 caches and that the L2 cache serves."""
    import torch

    processors = torch.cuda.get_device_properties(place).multi_processor_count
    blocks, turns = BLOCKS_A_PROCESSOR * processors, 64
    x = torch.randn(IN_L2, device=place)
    out = torch.empty(blocks * THREADS, device=place)
    count = ctypes.c_size_t(IN_L2)
    read = Contender(lambda i: queue(lib, "peak_l2", out, x, count, blocks, turns))
    timed = _time_alone(read, place)
    gbs = 4 * IN_L2 * turns / timed.fastest / 1e3
    return _make_row("l2", "fp32", place, timed, gbs=gbs)


def _measure_chain(lib: Any, kind: int, rung: str, precision: str, place: Any) -> Row:
    """Time multiply-adds of a kind, with enough turns to fill BURST seconds."""
    import torch

    with torch.cuda.device(place.index):
        blocks = lib.peak_blocks(kind)
    out = torch.empty(blocks * THREADS, device=place)
    few_turns, flops = 64, lib.peak_flops(kind) * blocks

    def run(turns: int) -> Contender:
        return Contender(lambda i: queue(lib, "peak_run", kind, out, blocks, turns))

    us_per_turn = _time_alone(run(few_turns), place, seconds=0.05).us / few_turns
    turns = max(few_turns, round(1e6 * BURST / us_per_turn))
    timed = _time_alone(run(turns), place)
    tflops = flops * turns / timed.fastest / 1e6
    return _make_row(rung, precision, place, timed, tflops=tflops)


def queue(lib: ctypes.CDLL, function: str, *args: Any) -> None:
    """Call a function of peaks.cu on torch's stream; pass tensors as addresses."""
    tensors = [a for a in args if hasattr(a, "data_ptr")]
    index = tensors[0].device.index
    stream = 0 if index is None else devices.current_stream(index)
    words = [_pointer_to(a) if hasattr(a, "data_ptr") else a for a in args]
    if status := getattr(lib, function)(*words, ctypes.c_void_p(stream)):
        raise KernelError(f"{function}: CUDA error {status}")


def _time_alone(one: Contender, place: Any, seconds: float = 0.0) -> Timed:
    """Time a contender alone; pauses keep a GPU cool and its clock high."""
    timer, cool = ("event", True) if place.type == "cuda" else ("wall", False)
    limit = seconds or SECONDS
    return race({"it": one}, place, timer, seconds=limit, cool=cool)["it"]


# ---- a CPU -----------------------------------------------------------------------


def _on_cpu(place: Any) -> list[Row]:
    """Measure with OpenMP's default number of threads; the copy exceeds every cache."""
    import numpy as np

    lib, count = open_library("cpu"), COPIED["cpu"]
    x, y = np.ones(count, np.float32), np.zeros(count, np.float32)
    words = [ctypes.c_void_p(array.ctypes.data) for array in (y, x)]
    words.append(ctypes.c_size_t(count))
    timed = _time_alone(Contender(lambda i: lib.peak_copy(*words)), place)
    gbs = 8 * count / timed.fastest / 1e3
    copy = _make_row("copy", "fp32", place, timed, gbs=gbs)
    threads, turns = lib.peak_threads(), 4000
    out = np.zeros(threads, np.float32)
    address = ctypes.c_void_p(out.ctypes.data)
    xy = ctypes.c_float(0.999), ctypes.c_float(0.5)
    timed = _time_alone(Contender(lambda i: lib.peak_run(address, turns, *xy)), place)
    tflops = lib.peak_flops() * threads * turns / timed.fastest / 1e6
    row = _make_row("fma", "fp32", place, timed, tflops=tflops)
    return [copy, row | {"threads": threads}]
