"""Launches on a GPU with numba.cuda.

If all arguments are numbers and known tensors, this module packs the launch with
arguments.py, and the driver queues it. Numba queues all other launches. Numba compiles
to PTX, which a driver older than Numba's CUDA rejects. cuda_c() then runs the kernels.
"""

from __future__ import annotations

import contextlib
import functools
import struct
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from ...base.errors import ArgumentError, DeviceLost, KernelError
from ...cells import output
from ...cells.gpu import driver
from ...cells.gpu import launch as launches
from ...toolchain import native
from ...toolchain.launch_config import LaunchConfig
from ..language import PythonKernel
from ..to_cuda.cuda_c import cuda_c
from . import arguments, inspection, meaning

_DEFAULT_SHARED = 48 << 10  # bytes; a kernel must explicitly request more
_NUMBERS = frozenset(
    (int, float, bool, np.float32, np.float64, np.int32, np.int64, np.uint32)
)


_ptx_refused = False  # whether the driver has rejected Numba's PTX


def _refuse_ptx() -> None:
    """Make cuda_c() run all later launches, and show one remark about it."""
    global _ptx_refused
    _ptx_refused = True
    arguments.say_once(
        "This GPU's driver is too old for Numba's PTX "
        "(CUDA_ERROR_UNSUPPORTED_PTX_VERSION), so cuda_c runs the kernels of "
        "numba_jit, and their times are cuda_c's"
    )


@functools.cache
def load_numba() -> Any:
    """Return numba.cuda; raise KernelError, with the cure, if it is unusable."""
    why = explain_unusable()
    if why:
        raise KernelError(why)
    from numba import cuda

    return cuda


def explain_unusable() -> str:
    """Return why Numba cannot use this GPU, with the cure; "" if it can."""
    cure = f"pip install 'numba-cuda[cu{(torch.version.cuda or '13')[:2]}]'"
    try:
        from numba import cuda
    except Exception as error:
        return f"Numba is not usable ({_first_line(error)}): {cure}"
    if "simulator" in cuda.jit.__module__:
        return (
            "numba.cuda is Numba's simulator in this process, since "
            "NUMBA_ENABLE_CUDASIM was set when it was imported: restart the kernel"
        )
    try:
        cuda.current_context()
        from numba.cuda.cudadrv import nvvm

        nvvm.NVVM()
    except Exception as error:
        return f"Numba cannot use the GPU ({_first_line(error)}): {cure}"
    return ""


class NumbaTarget:
    """A kernel on the GPU: Numba compiles it for each combination of types."""

    def __init__(self, kernel: PythonKernel, part: meaning.KernelPart) -> None:
        self.kernel, self.part = kernel, part
        cuda = load_numba()
        self.function = meaning.build(part, cuda, cuda.jit(device=True))
        self.dispatcher = cuda.jit(self.function)

    def types_of(self, converted: Sequence[Any]) -> tuple[Any, ...]:
        """Return Numba's types of converted arguments."""
        return tuple(map(self.dispatcher.typeof_pyval, converted))

    def launcher(self, config: LaunchConfig) -> Callable[..., None]:
        """Return a function of the arguments that queues the kernel."""
        launch = NumbaLaunch(self, config)
        return launch.quick() if launch.is_quick else launch.careful


class NumbaLaunch:
    """The launches of a kernel with one shape, and Numba's object for each stream."""

    def __init__(self, target: NumbaTarget, config: LaunchConfig) -> None:
        self.target, self.config = target, config
        self.name = target.kernel.name
        self.own_stream = _stream_number(config.stream)
        self.configured: dict[int, Callable[..., None]] = {}
        codes = [part.function.__code__ for part in target.part.parts()]
        self.prints = any("print" in code.co_names for code in codes)
        self._allowed: set[Any] = set()
        self._ready: dict[tuple[Any, ...], arguments.Ready] = {}
        special = self.own_stream is not None or self.prints
        self.is_quick = not special and config.shared <= _DEFAULT_SHARED

    def quick(self) -> Callable[..., None]:
        """Return a fast launch function for known arguments and torch's current stream.

        The function passes all other arguments to careful().
        """
        tensors, ready, numbers = arguments.SEEN, self._ready, _NUMBERS
        stream_of = torch._C._cuda_getCurrentRawStream
        current = torch._C._cuda_getDevice
        careful, tensor = self.careful, torch.Tensor
        call = driver.open_library().cuLaunchKernelEx
        count = len(self.target.kernel.parameters)

        def launch(*args: Any, **named: Any) -> None:
            kinds, words, device = [], [], -1
            if len(args) != count or named or native._lost:
                return careful(*args, **named)
            try:
                for arg in args:
                    kind = arg.__class__
                    if kind is tensor:
                        one = tensors[id(arg)]
                        if (
                            one.ref() is not arg
                            or arg.data_ptr() != one.address
                            or arg.shape != one.shape
                            or arg.dtype is not one.dtype
                            or arg.stride() != one.strides
                            or one.device != device >= 0
                        ):
                            return careful(*args)
                        words += one.words
                        kinds.append(one.kind)
                        device = one.device
                    elif kind in numbers:
                        words.append(arg)
                        kinds.append(kind)
                    else:
                        return careful(*args)
                # With several GPUs, Numba's current device may differ from torch's.
                if device or current():
                    return careful(*args)
                plan = ready[tuple(kinds)]
                room = plan.rooms.pop()
                # struct rejects an int over 64 bits, for which Numba has another type.
                plan.pack(room.buffer, arguments.STREAM, stream_of(device), *words)
            except (KeyError, IndexError, struct.error):
                return careful(*args)
            status = call(room.configuration, plan.function, room.table, 0)
            plan.rooms.append(room)
            if status:
                if status == arguments.NO_CONTEXT:
                    return careful(*args)
                driver.check(status, f"launching {self.name}")

        return launch

    def _remember(self, args: Sequence[Any], converted: Sequence[Any]) -> None:
        """Prepare a fast launch for later arguments of the same types."""
        kinds = []
        for arg in args:
            kind = arg.__class__
            if kind is torch.Tensor and arg.is_cuda:
                kinds.append(arguments.SEEN[id(arg)].kind)
            elif kind in _NUMBERS and not (kind is int and arg >= 2**63):
                kinds.append(kind)
            else:
                return
        key = tuple(kinds)
        if key in self._ready and self._ready[key].rooms:
            return
        types = self.target.types_of(converted)
        kernel = self.target.dispatcher.overloads.get(types)
        ready = arguments.load_ready(kernel, self.config) if kernel else None
        if ready:
            self._ready[key] = ready

    def careful(self, *args: Any, **named: Any) -> None:
        """Check the arguments, launch, and copy host arrays to the GPU and back."""
        if native._lost:
            raise DeviceLost(native._lost)
        if _ptx_refused:
            return self._instead(*args, **named)
        kernel = self.target.kernel
        checked = arguments.check_arguments(self.name, kernel.given(args, named))
        device = _device_of(self.name, dict(zip(kernel.parameters, checked)))
        current = torch.cuda.device(device)
        with current, _use_device(device), self._stream(device) as number:
            converted, copies = self._on_device(checked)
            try:
                with output.capture_output(self.prints):
                    self._allow_shared(converted)
                    self._configured(number)(*converted)
                    if self.prints:
                        torch.cuda.current_stream().synchronize()
            except Exception as error:
                if inspection.is_ptx_too_new(error):
                    _refuse_ptx()
                    return self._instead(*args, **named)
                raise inspection.explain(self.name, self.target.part, error) from None
            if self.is_quick and device == 0:
                self._remember(args, converted)
            copies.back()
        for arg in args if self.own_stream is not None else ():
            if isinstance(arg, torch.Tensor) and arg.is_cuda:
                arg.record_stream(torch.cuda.ExternalStream(number, device=device))

    @functools.cached_property
    def _instead(self) -> Callable[..., None]:
        """Return a launch with cuda_c(), for a driver that rejects Numba's PTX."""
        config = self.config
        key = config.grid, config.block, config.stream or 0, config.shared
        return cuda_c(self.target.kernel.function)[key]

    def _configured(self, number: int) -> Callable[..., None]:
        """Return Numba's launch on the stream with this number."""
        if number not in self.configured:
            config, cuda = self.config, load_numba()
            stream = cuda.external_stream(number) if number else 0
            key = config.grid, config.block, stream, config.shared
            with warnings.catch_warnings():
                # Numba warns about small grids, which are common in lessons.
                warnings.simplefilter("ignore")
                self.configured[number] = self.target.dispatcher[key]
        return self.configured[number]

    @contextlib.contextmanager
    def _stream(self, device: int) -> Iterator[int]:
        """Make the launch's stream torch's current stream; yield its number."""
        if self.own_stream is None:
            yield torch._C._cuda_getCurrentRawStream(device)
            return
        with torch.cuda.stream(torch.cuda.ExternalStream(self.own_stream)):
            yield self.own_stream

    def _on_device(self, checked: list[Any]) -> tuple[list[Any], arguments.Sent]:
        """Return the arguments for Numba, and the copies of host arrays."""
        arrays = [value for value in checked if isinstance(value, np.ndarray)]
        if arrays:
            arguments.say_once(
                f"{self.name}: arrays on the host are copied to the GPU and back at "
                f"each launch; torch tensors on CUDA stay there"
            )
        copies = arguments.send(self.name, arrays, "cuda")
        converted = []
        for value in checked:
            value = copies.where.get(id(value), value)
            if isinstance(value, torch.Tensor):
                converted.append(arguments.of_tensor(value))
            elif isinstance(value, arguments.PlacedArray):
                where = value.address, value.shape, value.strides, value.dtype
                converted.append(arguments.view_memory(*where))
            elif arguments.on_gpu(value):
                converted.append(load_numba().as_cuda_array(value))
            else:
                converted.append(value)
        return converted, copies

    def _allow_shared(self, converted: list[Any]) -> None:
        """Permit more than 48 KB of dynamic shared memory, if the launch needs it."""
        if self.config.shared <= _DEFAULT_SHARED:
            return
        types = self.target.types_of(converted)
        if types in self._allowed:
            return
        from numba.cuda.cudadrv import driver as numbas

        function = self.target.dispatcher.compile(types)._codelibrary.get_cufunc()
        dynamic = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        if hasattr(function, "kernel"):
            attribute = numbas.binding.CUfunction_attribute(dynamic)
            where = function.handle, function.device.id
            numbas.driver.cuKernelSetAttribute(attribute, self.config.shared, *where)
        else:
            value = dynamic, self.config.shared
            numbas.driver.cuFuncSetAttribute(function.handle, *value)
        self._allowed.add(types)


# ---- devices and streams --------------------------------------------------------


def _device_of(kernel: str, named: dict[str, Any]) -> int:
    """Return the GPU of the arrays, or the current GPU if there are no arrays.

    Raises ArgumentError for arrays on several GPUs.
    """
    devices: dict[int, str] = {}
    for name, value in named.items():
        if isinstance(value, torch.Tensor):
            devices.setdefault(value.get_device(), name)
    if len(devices) > 1:
        (one, first), (other, second), *_ = devices.items()
        raise ArgumentError(
            f"{kernel}: its arrays are on two devices: {first} on cuda:{one}, {second} "
            f"on cuda:{other}; move one of them with .to()"
        )
    return next(iter(devices), torch.cuda.current_device())


def _use_device(device: int) -> contextlib.AbstractContextManager[Any]:
    """Make `device`, which is torch's current device, Numba's current device, too."""
    if torch.cuda.device_count() == 1:
        return contextlib.nullcontext()
    return load_numba().gpus[device]


def _stream_number(stream: Any) -> int | None:
    """Return a stream's number; None for torch's current stream."""
    if stream is None:
        return None
    handle = getattr(stream, "handle", None)  # Numba's streams have this attribute
    if handle is not None and not isinstance(handle, int):
        return int(getattr(handle, "value", None) or handle)
    return launches.stream_number(stream)


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0].rstrip(":. ") if lines else type(error).__name__
