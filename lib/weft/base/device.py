"""The machine that runs us: processor, driver, and GPUs by name, without PyTorch.

The machine that this process runs on: its processor and its CUDA driver.

Devices by name, and what the CUDA driver says of the GPUs, without PyTorch.

To import PyTorch takes seconds, and a training of ours needs nothing of it. Where it
is in the process and uses the GPU, its current stream and its current device hold;
else the default stream does, and the device that is current in the driver.

libcuda is there wherever a kernel can run. Its functions:
https://docs.nvidia.com/cuda/cuda-driver-api/, the same in CUDA 12 and 13.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

from .errors import KernelError


def cpu_name() -> str:
    """The processor's own name, or the architecture where it has none."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":")[1].strip() for line in lines if "model name" in line]
    return names[0] if names else platform.machine()


def count_cores() -> int:
    """Cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def driver_version() -> str:
    """The NVIDIA driver's version, or "none"."""
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(query, text=True, capture_output=True, timeout=20)
        return done.stdout.splitlines()[0].strip()
    except (OSError, IndexError, subprocess.TimeoutExpired):
        return "none"


DRIVER = "libcuda.so.1"
# CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_...
_MAJOR, _MINOR = 75, 76


class Device(str):
    """A device by its name, "cpu" or "cuda:1": PyTorch takes it as it is.

    type: "cpu" or "cuda". index: of the GPU; None for the CPU.
    """

    type: str
    index: int | None

    def __new__(cls, name: str) -> Device:
        self = super().__new__(cls, name)
        self.type, _, index = name.partition(":")
        self.index = int(index) if index else None
        return self


def parse_device(device: Any) -> Device:
    """The Device of that name, which may be a torch.device.

    "cuda" is the GPU that is current. ValueError if it is no such name.
    """
    if isinstance(device, Device):
        return device
    found = re.fullmatch(r"(cpu|cuda)(?::([0-9]{1,3}))?", str(device))
    if not found:
        raise ValueError(f"device {device!r}: want cpu, cuda or cuda:N")
    kind, number = found.groups()
    if kind == "cpu":
        return Device("cpu")
    return Device(f"cuda:{int(number) if number else current_gpu()}")


def count() -> int:
    """How many GPUs there are; 0 without a driver."""
    if _load_driver() is None:
        return 0
    found = ctypes.c_int()
    _call("cuDeviceGetCount", ctypes.byref(found))
    return found.value


def current_gpu() -> int:
    """The index of the GPU that is current in this thread."""
    if cuda := torchs_cuda():
        return cuda.current_device()
    # A call that the driver refuses is an error to compute-sanitizer: so ask first.
    if _load_driver() is None or _current_context() is None:
        return 0  # no context yet: CUDA's first call takes the first GPU
    handle = ctypes.c_int()
    if _load_driver().cuCtxGetDevice(ctypes.byref(handle)):
        return 0
    return next(index for index in range(count()) if _handle(index) == handle.value)


@functools.cache
def compute_capability(index: int) -> tuple[int, int]:
    """The compute capability of a GPU, e.g. (9, 0)."""
    found = ctypes.c_int()
    both = []
    for attribute in (_MAJOR, _MINOR):
        handle = _handle(index)
        _call("cuDeviceGetAttribute", ctypes.byref(found), attribute, handle)
        both.append(found.value)
    return both[0], both[1]


def name(index: int) -> str:
    """What a GPU is called, e.g. "NVIDIA H200"."""
    text = ctypes.create_string_buffer(256)
    _call("cuDeviceGetName", text, len(text), _handle(index))
    return text.value.decode()


def current_stream(index: int) -> int:
    """The cudaStream_t that work on a GPU is queued on, as a number; 0: the default."""
    cuda = torchs_cuda()
    return cuda.current_stream(index).cuda_stream if cuda else 0


def is_current(index: int) -> bool:
    """Whether calls of this thread go to that GPU as things are."""
    if cuda := torchs_cuda():
        return cuda.current_device() == index
    return _primary_context(index) == _current_context()


@contextlib.contextmanager
def made_current(index: int) -> Iterator[None]:
    """That GPU is current in this thread for what is inside."""
    if cuda := torchs_cuda():
        with cuda.device(index):
            yield
        return
    mine, before = _primary_context(index), _current_context()
    _load_driver().cuCtxSetCurrent(ctypes.c_void_p(mine))
    try:
        yield
    finally:
        # Who had none gets the first GPU's with CUDA's first call. PyTorch, imported
        # inside, may have made that call already and counts on its context.
        if before is None and (index == 0 or torchs_cuda()):
            before = _primary_context(0)
        _load_driver().cuCtxSetCurrent(ctypes.c_void_p(before))


class Event:
    """A point on a stream of the current GPU, for timing."""

    def __init__(self) -> None:
        self._event = ctypes.c_void_p()
        _call("cuEventCreate", ctypes.byref(self._event), 0)

    def __del__(self) -> None:
        if self._event:
            _load_driver().cuEventDestroy_v2(self._event)

    def record(self, stream: int) -> None:
        """Note when the stream gets here."""
        _call("cuEventRecord", self._event, ctypes.c_void_p(stream))

    def synchronize(self) -> None:
        """Wait until it has got here."""
        _call("cuEventSynchronize", self._event)

    def until(self, later: Event) -> float:
        """Milliseconds from here to another event; both are over."""
        found = ctypes.c_float()
        _call("cuEventElapsedTime", ctypes.byref(found), self._event, later._event)
        return found.value


def torchs_cuda() -> Any:
    """torch.cuda where PyTorch uses a GPU in this process, else None."""
    torch = sys.modules.get("torch")
    # Another thread may be in the middle of importing it.
    cuda = getattr(torch, "cuda", None)
    return cuda if cuda and cuda.is_initialized() else None


# ---- the driver ------------------------------------------------------------------


@functools.cache
def _load_driver() -> ctypes.CDLL | None:
    """libcuda, ready to be called; None where there is no driver, or no GPU."""
    try:
        driver = ctypes.CDLL(DRIVER)
    except OSError:
        return None
    return driver if driver.cuInit(0) == 0 else None


def _call(function: str, *args: Any) -> None:
    driver = _load_driver()
    if driver is None:
        _fail("no CUDA GPU here")
    if status := getattr(driver, function)(*args):
        text = ctypes.c_char_p()
        driver.cuGetErrorString(status, ctypes.byref(text))
        said = text.value.decode() if text.value else "unknown"
        _fail(f"{function}: CUDA error {status}, {said}")


def _fail(message: str) -> NoReturn:
    raise KernelError(message)


@functools.cache
def _handle(index: int) -> int:
    found = ctypes.c_int()
    _call("cuDeviceGet", ctypes.byref(found), index)
    return found.value


@functools.cache
def _primary_context(index: int) -> int | None:
    """The context of a GPU that CUDA's runtime uses; never released."""
    found = ctypes.c_void_p()
    _call("cuDevicePrimaryCtxRetain", ctypes.byref(found), _handle(index))
    return found.value


def _current_context() -> int | None:
    """The context that is current in this thread.

    Neither here nor where one is made current does anybody look at the status: it may
    be an earlier kernel's failure, which the next call of a library reports.
    """
    found = ctypes.c_void_p()
    _load_driver().cuCtxGetCurrent(ctypes.byref(found))
    return found.value
