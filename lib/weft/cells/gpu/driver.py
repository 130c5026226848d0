"""The part of the CUDA driver API that cells need; base/device.py declares it.

Handles are numbers (uintptr_t), so that a launch need not convert them. torch owns
the context. Each call works in the primary context of the device that torch uses. The
signatures are the same in CUDA 12 and 13: https://docs.nvidia.com/cuda/cuda-driver-api/
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import torch

from ...base import device
from ...base.errors import DeviceLost, KernelError, OutOfMemory
from ...toolchain import native

ffi = device.driver_ffi()

# These statuses are sticky: every later call in the process fails.
STICKY = {
    **{214: "an uncorrectable memory error", 700: "an illegal address"},
    **{702: "the driver's time limit", 709: "a destroyed context"},
    **{710: "a failed assert()", 714: "a hardware stack error"},
    **{715: "an illegal instruction", 716: "a misaligned address"},
    **{717: "an address in the wrong memory space", 718: "an invalid program counter"},
    719: "an unspecified launch failure",
}
LIMIT = {"l2_fetch": 5}  # CUlimit 5: bytes per fetch by the L2 cache, only a hint
FUNCTION = {"threads": 0, "shared": 1, "local": 3, "registers": 4, "dynamic": 8}
DEVICE = {"threads_per_multiprocessor": 39, "shared": 97}


def open_library() -> Any:
    """Return libcuda; raise KernelError without a driver."""
    library = device.open_driver()
    if library is None:
        raise KernelError(f"no NVIDIA driver: {device.DRIVER} was not found")
    return library


def check(status: int, doing: str) -> None:
    """Raise DeviceLost, OutOfMemory or KernelError for a failing CUresult.

    doing: the attempted action and the kernel's name, with which the message begins.

    After DeviceLost, every launch on the GPU is refused, even by other libraries.
    """
    if not status:
        return
    if status in STICKY:
        native.mark_lost(lost_message(status, doing))
        raise DeviceLost(native.explain_lost())
    kind = OutOfMemory if status == 2 else KernelError
    raise kind(f"{doing}: {describe_error(status)}")


def lost_message(status: int, doing: str) -> str:
    """Return the message for a kernel that has destroyed the CUDA context."""
    cause = STICKY[status]
    message = f"{doing}: {cause} ended a kernel on the GPU (CUDA error {status})"
    if status == 710:
        message += "; the line printed above reports the file, line and thread"
    return (
        f"{message}. CUDA cannot go on in this process: restart the kernel. "
        "The same cell on the CPU (--cpu) reports the thread and the array, and "
        "--isolated protects the notebook from such a fault"
    )


def describe_error(status: int) -> str:
    """Describe a CUresult, such as "CUDA_ERROR_INVALID_VALUE (1), invalid argument"."""
    texts = []
    for function in (open_library().cuGetErrorName, open_library().cuGetErrorString):
        text = ffi.new("char const **")
        is_known = function(status, text) == 0 and text[0] != ffi.NULL
        texts.append(ffi.string(text[0]).decode() if is_known else "unknown")
    return f"{texts[0]} ({status}), {texts[1]}"


def driver_version() -> tuple[int, int]:
    """Return the newest CUDA version that the driver supports, as (major, minor)."""
    number = _read_integer(open_library().cuDriverGetVersion)
    return number // 1000, number % 1000 // 10


@contextlib.contextmanager
def use_device(index: int) -> Iterator[None]:
    """Make the primary context of device `index` current in the block."""
    if native.explain_lost():
        raise DeviceLost(native.explain_lost())
    with torch.cuda.device(index):
        # A new thread has no current context.
        open_library().cuCtxSetCurrent(_primary_context(index))
        yield


@functools.cache
def _primary_context(index: int) -> int:
    torch.cuda.init()
    handle = _read_integer(open_library().cuDeviceGet, index)
    context = ffi.new("uintptr_t *")
    doing = f"taking the context of cuda:{index}"
    # The context is never released: torch holds it until the process ends.
    check(open_library().cuDevicePrimaryCtxRetain(context, handle), doing)
    return context[0]


@functools.cache
def device_attribute(index: int, name: str) -> int:
    """Return the attribute `name` (a key of DEVICE) of cuda:`index`."""
    return _read_integer(open_library().cuDeviceGetAttribute, DEVICE[name], index)


def limit(name: str) -> int:
    """Return the limit `name` (a key of LIMIT) of the current context."""
    value = ffi.new("size_t *")
    check(open_library().cuCtxGetLimit(value, LIMIT[name]), f"reading the limit {name}")
    return value[0]


def set_limit(name: str, value: int) -> None:
    """Set the limit `name` of the current context; the driver may round the value."""
    doing = f"setting the limit {name} to {value}"
    check(open_library().cuCtxSetLimit(LIMIT[name], value), doing)


def function_attribute(function: int, name: str) -> int:
    """Return the attribute `name` (a key of FUNCTION) of a kernel."""
    return _read_integer(open_library().cuFuncGetAttribute, FUNCTION[name], function)


def load(image: bytes, doing: str) -> int:
    """Load machine code into the current context; it is never unloaded."""
    module = ffi.new("uintptr_t *")
    check(open_library().cuModuleLoadData(module, ffi.from_buffer(image)), doing)
    return module[0]


def find_function(module: int, name: str) -> int:
    """Return the kernel with the (mangled) name `name`."""
    kernel = ffi.new("uintptr_t *")
    status = open_library().cuModuleGetFunction(kernel, module, name.encode())
    check(status, f"looking for kernel {name}")
    return kernel[0]


def find_variable(module: int, name: str) -> tuple[int, int]:
    """Return the address and the size in bytes of a variable by its mangled name."""
    address, size = ffi.new("uintptr_t *"), ffi.new("size_t *")
    status = open_library().cuModuleGetGlobal_v2(address, size, module, name.encode())
    check(status, f"looking for variable {name}")
    return address[0], size[0]


def upload(address: int, data: bytes, doing: str) -> None:
    """Copy `data` to the device after all work queued on it is done."""
    _wait(doing)
    source = ffi.from_buffer(data)
    check(open_library().cuMemcpyHtoD_v2(address, source, len(data)), doing)
    wait_for_stream(None, doing)  # the copy above may only be queued


def download(address: int, size: int, doing: str) -> bytes:
    """Copy `size` bytes from the device after all work queued on it is done."""
    _wait(doing)
    data = bytearray(size)
    check(open_library().cuMemcpyDtoH_v2(ffi.from_buffer(data), address, size), doing)
    return bytes(data)


def _wait(doing: str) -> None:
    if torch.cuda.is_current_stream_capturing():
        raise KernelError(f"{doing}: impossible during a graph's capture: do it before")
    wait_for_stream(None, doing)


def parameter_sizes(function: int) -> list[int] | None:
    """Return the size in bytes of each parameter; None if the driver predates 12.4."""
    try:
        read = open_library().cuFuncGetParamInfo
    except AttributeError:
        return None
    sizes: list[int] = []
    offset, size = ffi.new("size_t *"), ffi.new("size_t *")
    while read(function, len(sizes), offset, size) == 0:
        sizes.append(size[0])
    return sizes


def count_occupancy(function: int, threads: int, shared: int, index: int) -> float:
    """Return the fraction of a multiprocessor's threads that are resident, 0 to 1."""
    count = open_library().cuOccupancyMaxActiveBlocksPerMultiprocessor
    blocks = _read_integer(count, function, threads, shared)
    return blocks * threads / device_attribute(index, "threads_per_multiprocessor")


def best_block(function: int) -> int:
    """Return the block size of highest occupancy, without dynamic shared memory."""
    block, grid = ffi.new("int *"), ffi.new("int *")
    read = open_library().cuOccupancyMaxPotentialBlockSize
    check(read(grid, block, function, ffi.NULL, 0, 0), "computing the occupancy")
    return block[0]


def wait_for_stream(stream: int | None, doing: str) -> None:
    """Wait for a stream, or the device (None); raise KernelError if a kernel failed."""
    if stream is None:
        check(open_library().cuCtxSynchronize(), doing)
    else:
        check(open_library().cuStreamSynchronize(stream), doing)


def _read_integer(function: Any, *args: int) -> int:
    value = ffi.new("int *")
    check(function(value, *args), "querying the CUDA driver")
    return value[0]
