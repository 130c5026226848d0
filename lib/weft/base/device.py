"""The machine: processor, cores, driver, and GPUs by name, without PyTorch.

Importing PyTorch takes seconds, and training with our kernels does not need it. If
PyTorch is loaded and uses the GPU, its current stream and device apply; otherwise the
default stream and the driver's current device apply.

libcuda exists wherever a GPU can run a kernel. Only this module binds it. Its functions
are the same in CUDA 12 and 13: https://docs.nvidia.com/cuda/cuda-driver-api/

In a container, a process may get the CPU time of only two of the machine's 64 cores.
count_cores() returns the number that this process may use. Besides the affinity
mask, cgroups limit its CPU time by a quota per period. The files are described in
https://docs.kernel.org/admin-guide/cgroup-v2.html (cpu.max) and, for version 1, in
https://docs.kernel.org/scheduler/sched-bwc.html (cpu.cfs_quota_us).
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import math
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterator, MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import ArgumentError, KernelError

if TYPE_CHECKING:
    from cffi import FFI


def cpu_name() -> str:
    """Return the processor's model name, or the architecture if it is unknown."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":")[1].strip() for line in lines if "model name" in line]
    return names[0] if names else platform.machine()


def driver_version() -> str:
    """Return the NVIDIA driver's version, or "none"."""
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        process = subprocess.run(query, text=True, capture_output=True, timeout=20)
        return process.stdout.splitlines()[0].strip()
    except (OSError, IndexError, subprocess.TimeoutExpired):
        return "none"


DRIVER = "libcuda.so.1"
# Values of CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR.
_MAJOR, _MINOR = 75, 76


class Device(str):
    """A device's name, "cpu" or "cuda:1", which PyTorch accepts as a device.

    type: "cpu" or "cuda". index: the GPU's index; None for the CPU.
    """

    type: str
    index: int | None

    def __new__(cls, name: str) -> Device:
        self = super().__new__(cls, name)
        self.type, _, index = name.partition(":")
        self.index = int(index) if index else None
        return self


def parse_device(device: Any) -> Device:
    """Return the Device for a name or a torch.device.

    "cuda" is the current GPU. Raises ValueError for an unknown name.
    """
    if isinstance(device, Device):
        return device
    match = re.fullmatch(r"(cpu|cuda)(?::([0-9]{1,3}))?", str(device))
    if not match:
        raise ValueError(f"device {device!r}: expected cpu, cuda or cuda:N")
    kind, number = match.groups()
    if kind == "cpu":
        return Device("cpu")
    return Device(f"cuda:{int(number) if number else current_gpu()}")


def checked_device(device: Any) -> Device:
    """Return the device with its index; raise ArgumentError if it does not exist."""
    try:
        parsed = parse_device(device)
    except ValueError as error:
        raise ArgumentError(str(error)) from None
    if parsed.type == "cuda" and parsed.index >= (gpus := count()):
        raise ArgumentError(f"device {parsed}: this machine has {gpus} CUDA GPUs")
    return parsed


def count() -> int:
    """Count the GPUs; return 0 without a driver."""
    if _load_driver() is None:
        return 0
    return _read_value("int *", "cuDeviceGetCount")


def current_gpu() -> int:
    """Return the index of this thread's current GPU."""
    if cuda := torchs_cuda():
        return cuda.current_device()
    # Without a context the query would fail, and compute-sanitizer would report it.
    if _load_driver() is None or _current_context() is None:
        return 0  # CUDA's first call in such a thread selects the first GPU
    handle = driver_ffi().new("int *")
    if _load_driver().cuCtxGetDevice(handle):
        return 0
    return next(index for index in range(count()) if _handle(index) == handle[0])


def compute_capability(index: int | None) -> tuple[int, int]:
    """Return the compute capability of a GPU (None: the current one), e.g. (9, 0)."""
    return _read_capability(current_gpu() if index is None else index)


@functools.cache
def _read_capability(index: int) -> tuple[int, int]:
    read = functools.partial(_read_value, "int *", "cuDeviceGetAttribute")
    return read(_MAJOR, _handle(index)), read(_MINOR, _handle(index))


def name(index: int) -> str:
    """Return the name of a GPU, e.g. "NVIDIA H200"."""
    text = driver_ffi().new("char[]", 256)
    _call("cuDeviceGetName", text, len(text), _handle(index))
    return driver_ffi().string(text).decode()


# Features that require a compute capability above the lab's minimum. A test compares
# this table with the rungs of matmul.
LEAST = (7, 5)
NEEDS = {(8, 0): "bf16, tf32 and 3xTF32", (9, 0): "TMA, wgmma and clusters"}


def describe_card() -> str:
    """Describe the current GPU in one sentence: its name and the features it lacks."""
    if not count():
        return "No GPU: CUDA cells run on the CPU, where every access is watched."
    index = current_gpu()
    return describe_capability(name(index), compute_capability(index))


def describe_capability(card: str, capability: tuple[int, int]) -> str:
    """Describe a GPU by its compute capability; see describe_card()."""
    head = f"{card}, compute capability {capability[0]}.{capability[1]}"
    if capability < LEAST:
        return (
            f"{head}: the lab needs {LEAST[0]}.{LEAST[1]} or later. CUDA cells run on "
            f"the CPU for arrays in host memory."
        )
    missing = [
        f"{what} need {major}.{minor}"
        for (major, minor), what in NEEDS.items()
        if capability < (major, minor)
    ]
    if missing:
        return f"{head}: strict fp32 and fp16's tensor cores run; {'; '.join(missing)}."
    if capability[0] > 9:
        return f"{head}: all but wgmma runs, which only 9.0 has."
    return f"{head}: every kernel of the lab runs."


def current_stream(index: int) -> int:
    """Return a GPU's current cudaStream_t as a number; 0 is the default stream."""
    cuda = torchs_cuda()
    return cuda.current_stream(index).cuda_stream if cuda else 0


def is_current(index: int) -> bool:
    """Return whether a GPU is current for this thread."""
    if cuda := torchs_cuda():
        return cuda.current_device() == index
    return _primary_context(index) == _current_context()


@contextlib.contextmanager
def made_current(index: int) -> Iterator[None]:
    """Make a GPU current for this thread inside the block."""
    if cuda := torchs_cuda():
        with cuda.device(index):
            yield
        return
    context, previous = _primary_context(index), _current_context()
    _load_driver().cuCtxSetCurrent(context)
    try:
        yield
    finally:
        # In a thread without a context, CUDA's first call selects the context of the
        # first GPU. If the block imported PyTorch, PyTorch relies on this context.
        if previous is None and (index == 0 or torchs_cuda()):
            previous = _primary_context(0)
        _load_driver().cuCtxSetCurrent(previous or 0)


class Event:
    """A point on a stream of the current GPU, for timing."""

    def __init__(self) -> None:
        self._event = 0
        self._event = _read_value("uintptr_t *", "cuEventCreate", 0)

    def __del__(self) -> None:
        if self._event:
            _load_driver().cuEventDestroy_v2(self._event)

    def record(self, stream: int) -> None:
        """Record the event on the stream."""
        _call("cuEventRecord", self._event, stream)

    def synchronize(self) -> None:
        """Wait until the stream has reached the event."""
        _call("cuEventSynchronize", self._event)

    def until(self, later: Event) -> float:
        """Return the milliseconds to a later event; both events must be complete."""
        return _read_value("float *", "cuEventElapsedTime", self._event, later._event)


def torchs_cuda() -> Any:
    """Return torch.cuda if PyTorch uses a GPU in this process, else None."""
    torch = sys.modules.get("torch")
    # While another thread imports PyTorch, the module lacks this attribute.
    cuda = getattr(torch, "cuda", None)
    return cuda if cuda and cuda.is_initialized() else None


# ---- the driver ------------------------------------------------------------------

# Handles are declared as integers, so that a launch need not convert them.
# cells/gpu/launch.py builds the configuration.
PROTOTYPES = """
int cuLaunchKernelEx(uintptr_t configuration, uintptr_t function,
                     uintptr_t arguments, uintptr_t extra);
int cuInit(unsigned int flags);
int cuDeviceGetCount(int *count);
int cuDeviceGetName(char *name, int length, int device);
int cuCtxGetDevice(int *device);
int cuEventCreate(uintptr_t *event, unsigned int flags);
int cuEventRecord(uintptr_t event, uintptr_t stream);
int cuEventSynchronize(uintptr_t event);
int cuEventElapsedTime(float *milliseconds, uintptr_t start, uintptr_t end);
int cuEventDestroy_v2(uintptr_t event);
int cuGetErrorName(int error, const char **text);
int cuGetErrorString(int error, const char **text);
int cuDriverGetVersion(int *version);
int cuDeviceGet(int *device, int ordinal);
int cuDeviceGetAttribute(int *value, int attribute, int device);
int cuDevicePrimaryCtxRetain(uintptr_t *context, int device);
int cuCtxGetCurrent(uintptr_t *context);
int cuCtxSetCurrent(uintptr_t context);
int cuCtxSynchronize(void);
int cuCtxGetLimit(size_t *value, int limit);
int cuCtxSetLimit(int limit, size_t value);
int cuStreamSynchronize(uintptr_t stream);
int cuModuleLoadData(uintptr_t *module, const void *image);
int cuModuleGetFunction(uintptr_t *function, uintptr_t module, const char *name);
int cuModuleGetGlobal_v2(uintptr_t *address, size_t *size, uintptr_t module,
                         const char *name);
int cuMemcpyHtoD_v2(uintptr_t to, const void *from, size_t size);
int cuMemcpyDtoH_v2(void *to, uintptr_t from, size_t size);
int cuFuncGetAttribute(int *value, int attribute, uintptr_t function);
int cuFuncSetAttribute(uintptr_t function, int attribute, int value);
int cuFuncGetParamInfo(uintptr_t function, size_t index, size_t *offset, size_t *size);
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, uintptr_t function,
                                                int threads, size_t shared);
int cuOccupancyMaxPotentialBlockSize(int *grid, int *block, uintptr_t function,
                                     void *shared_of_block, size_t shared, int limit);
"""


@functools.cache
def driver_ffi() -> FFI:
    """Return the cffi interface that declares the functions of libcuda."""
    # Imported lazily: cffi's parser takes 60 ms to load.
    from cffi import FFI

    ffi = FFI()
    ffi.cdef(PROTOTYPES)
    return ffi


@functools.cache
def open_driver() -> Any:
    """Return libcuda, which may not be initialised yet; None without a driver."""
    try:
        # CDLL fails immediately if the library is missing; cffi would first run gcc.
        ctypes.CDLL(DRIVER)
    except OSError:
        return None
    return driver_ffi().dlopen(DRIVER)


@functools.cache
def _load_driver() -> Any:
    """Return libcuda, initialised; None without a driver or a GPU."""
    driver = open_driver()
    return driver if driver is not None and driver.cuInit(0) == 0 else None


def _call(function: str, *args: Any) -> None:
    driver = _load_driver()
    if driver is None:
        raise KernelError("no CUDA GPU here")
    if status := getattr(driver, function)(*args):
        text = driver_ffi().new("const char **")
        driver.cuGetErrorString(status, text)
        message = driver_ffi().string(text[0]).decode() if text[0] else "unknown"
        raise KernelError(f"{function}: CUDA error {status}, {message}")


def _read_value(kind: str, function: str, *args: Any) -> Any:
    """Call a function that stores a value of type `kind`; return the value."""
    value = driver_ffi().new(kind)
    _call(function, value, *args)
    return value[0]


@functools.cache
def _handle(index: int) -> int:
    return _read_value("int *", "cuDeviceGet", index)


@functools.cache
def _primary_context(index: int) -> int:
    """Return the context that CUDA's runtime uses on a GPU; it is never released."""
    return _read_value("uintptr_t *", "cuDevicePrimaryCtxRetain", _handle(index))


def _current_context() -> int | None:
    """Return this thread's current context, or None.

    Neither this function nor made_current() checks the status. The status may be an
    earlier kernel's failure, which the next library call reports.
    """
    context = driver_ffi().new("uintptr_t *")
    _load_driver().cuCtxGetCurrent(context)
    return context[0] or None


# ---- cores of the processor ----------------------------------------------------------


CGROUPS = Path("/sys/fs/cgroup")
OWN_CGROUPS = Path("/proc/self/cgroup")
THREADS = "OMP_NUM_THREADS"


def count_cores() -> int:
    """Count the cores that this process's affinity and quota allow; at least 1.

    A quota of 2.5 cores counts as 2. A third thread would use up the quota early in
    each period. All threads would then pause, and times would scatter.
    """
    return max(1, math.floor(min(_count_affine(), read_quota())))


def count_threads() -> int:
    """Count the threads to use by default: OMP_NUM_THREADS, otherwise count_cores()."""
    # The variable may be a list, with an entry for each level of nested teams.
    first = os.environ.get(THREADS, "").partition(",")[0].strip()
    return int(first) if first.isdecimal() and int(first) > 0 else count_cores()


def limit_threads(environment: MutableMapping[str, str] = os.environ) -> None:
    """Limit the threads of OpenMP and PyTorch to this process's number of cores.

    Both libraries respect the affinity mask, but ignore quotas. A value that the user
    has set is kept. Child processes inherit the value in either case.
    """
    cores = count_cores()
    if environment.get(THREADS) or cores >= _count_affine():
        return
    environment[THREADS] = str(cores)
    torch = sys.modules.get("torch")
    if hasattr(torch, "set_num_threads"):  # torch has already read the environment
        torch.set_num_threads(cores)


def read_quota(cgroups: Path = CGROUPS, own: Path = OWN_CGROUPS) -> float:
    """Return the smallest quota of this process's cgroups, in cores, or inf.

    cgroups: the folder in which they are mounted. own: the file that lists this
    process's cgroups.
    """
    try:
        lines = own.read_text().splitlines()
    except OSError:  # not Linux
        return math.inf
    folders = [folder for line in lines for folder in _list_folders(line, cgroups)]
    return min(map(_read_cores, folders), default=math.inf)


def _count_affine() -> int:
    """Count the cores in this process's affinity mask."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _list_folders(line: str, cgroups: Path) -> Iterator[Path]:
    """Yield the folders of a cgroup and its parents. line: "NUMBER:CONTROLLERS:PATH".

    A container mounts its own cgroup at the top, whatever path the line contains.
    """
    _, controllers, path = line.split(":", 2)
    if controllers and "cpu" not in controllers.split(","):
        return
    names = [name for name in path.split("/") if name not in ("", "..")]
    for top in {controllers or ".", "cpu" if controllers else "unified"}:
        for depth in range(len(names) + 1):
            yield cgroups.joinpath(top, *names[:depth])


def _read_cores(folder: Path) -> float:
    """Return the quota of one cgroup, in cores; inf without one."""
    for names in (["cpu.max"], ["cpu.cfs_quota_us", "cpu.cfs_period_us"]):
        try:
            words = " ".join((folder / name).read_text() for name in names).split()
            quota, period = int(words[0]), int(words[1])
        except (OSError, ValueError, IndexError):  # no such file, or "max"
            continue
        if quota > 0 and period > 0:  # version 1 writes -1 for no quota
            return quota / period
    return math.inf
