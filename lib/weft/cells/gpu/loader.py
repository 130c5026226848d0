"""Cells on the GPU: compiled by NVRTC, loaded into torch's context, launched by cffi.

    NVRTC -> cubin in the cache -> cuModuleLoadData in torch's context -> launch.py

Compiling a cell takes about 30 ms. A launch returns as soon as it is queued, on torch's
current stream. If a kernel prints or asserts, its launcher waits, so that the messages
appear. A fault becomes visible at the next wait. wait_for_device() then reports it, and
later launches on the GPU are refused.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache as once
from typing import Any

import torch

from ...base.errors import ArgumentError, BuildError, DeviceLost, KernelError
from ...csource import diagnostics, scanner
from ...csource.diagnostics import CompileError, Diagnostic
from ...csource.signature import Param
from ...toolchain import native
from .. import output, stored, variables
from ..arguments import Binder
from . import driver, launch, nvrtc
from .nvrtc import CompiledProgram, Usage

_DEFAULT_SHARED = 48 << 10  # bytes of dynamic shared memory available by default
_TALKS = re.compile(r"\b(printf|assert|__assertfail|__trap)\s*\(")
_used: set[int] = set()  # devices on which a cell's module is loaded


@dataclass
class GpuModule:
    """A cell's machine code for the GPUs of this machine, loaded on `device`.

    report: one line on its kernels' resources, as in
        saxpy · 10 registers · 100% occupancy at 1024 threads a block · sm_90a
    """

    source: str
    name: str
    flags: tuple[str, ...]
    expressions: tuple[str, ...]
    headers: dict[str, str]
    device: int
    program: CompiledProgram
    cached: bool
    report: str = ""
    warnings: list[Diagnostic] = field(default_factory=list)
    _functions: dict[tuple[int, str], int] = field(default_factory=dict)
    _modules: dict[int, int] = field(default_factory=dict)
    _written: dict[str, bytes] = field(default_factory=dict)

    def launcher(
        self,
        expression: str,
        params: tuple[Param, ...],
        *,
        sync: bool | None = None,
        cooperative: bool | None = None,
        **_: Any,
    ) -> launch.GpuLauncher:
        """Return the kernel `expression` as launch(grid, block, shared, stream, args).

        The launch runs on the GPU of the arrays.

        sync: whether to wait after each launch; None: if the source prints or asserts.
        cooperative: whether the grid's blocks may wait for each other; None: if the
            kernel calls grid.sync().

        Raises ArgumentError, DeviceLost, OutOfMemory or KernelError.
        """
        kernel = re.sub(r"^(?:\w+::)*", "", expression)
        headers = self.headers.values()
        binder = Binder(kernel, params, "\n".join([self.source, *headers]))
        sizes = driver.parameter_sizes(self.function(expression, self.device))
        if sizes is not None:
            binder.check_sizes(sizes, len(sizes))
        text = "\n".join([scanner.blank_comments(self.source), *headers])
        sync = bool(_TALKS.search(text)) if sync is None else sync
        if cooperative is None:
            lowered = self.program.lowered[expression]
            cooperative = waits_for_its_grid(self.program.ptx, lowered)

        def plan(device: int, grid: Any, block: Any, shared: int) -> launch.LaunchPlan:
            function = self.function(expression, device)
            return _plan_launch(kernel, function, device, grid, block, shared)

        def fail(status: int, device: int) -> None:
            driver.check(status, f"launching {kernel} on cuda:{device}")

        def wait(device: int, stream: int) -> None:
            if not torch.cuda.is_current_stream_capturing():
                with output.capture_output(True):
                    driver.wait_for_stream(stream, kernel)

        has_several = torch.cuda.device_count() > 1
        return launch.GpuLauncher(
            binder,
            launch.LaunchTarget(
                call=driver.open_library().cuLaunchKernelEx,
                plan=plan,
                stream=torch._C._cuda_getCurrentRawStream,
                enter=driver.use_device,
                fail=fail,
                default=torch.cuda.current_device,
                current=torch._C._cuda_getDevice if has_several else None,
                after=wait if sync else None,
                attributes=launch.COOPERATIVE if cooperative else b"",
            ),
        )

    def function(self, expression: str, device: int) -> int:
        """Return the kernel's handle on a device; load the code there if necessary."""
        key = device, expression
        if key not in self._functions:
            with driver.use_device(device):
                module = self._module(device)
                lowered = self._program(device).lowered[expression]
                self._functions[key] = driver.find_function(module, lowered)
        return self._functions[key]

    def size(self, variable: str) -> int:
        """Return the size in bytes of the variable with this C++ name, or 0."""
        if f"&{variable}" not in self.program.lowered:
            return 0
        return self._variable(self.device, variable)[1]

    def read(self, variable: str) -> bytes:
        """Return a variable's content on torch's current GPU, or on the module's GPU.

        torch's current GPU is read only if the code is loaded on it.
        """
        current = torch.cuda.current_device()
        device = current if current in self._modules else self.device
        with driver.use_device(device):
            span = self._variable(device, variable)
            return driver.download(*span, f"reading {variable} on cuda:{device}")

    def write(self, variable: str, data: bytes) -> None:
        """Set all bytes of a variable on every GPU."""
        self._written[variable] = data
        self._module(self.device)
        for device in self._modules:
            self._upload(device, variable, data)

    def _upload(self, device: int, variable: str, data: bytes) -> None:
        with driver.use_device(device):
            address, _ = self._variable(device, variable)
            driver.upload(address, data, f"setting {variable} on cuda:{device}")

    def _variable(self, device: int, variable: str) -> tuple[int, int]:
        with driver.use_device(device):
            lowered = self._program(device).lowered[f"&{variable}"]
            return driver.find_variable(self._module(device), lowered)

    def _module(self, device: int) -> int:
        if device not in self._modules:
            doing = f"loading {self.name} on cuda:{device}"
            _check_driver(doing)
            self._modules[device] = driver.load(self._program(device).cubin, doing)
            _used.add(device)
            for variable, data in self._written.items():
                self._upload(device, variable, data)
        return self._modules[device]

    def _program(self, device: int) -> CompiledProgram:
        if name_arch(device) == name_arch(self.device):
            return self.program
        return _load_program(self, name_arch(device))[0]


def compile(
    source: str,
    name: str = "cell",
    flags: Sequence[str] = (),
    expressions: Sequence[str] = (),
    headers: Mapping[str, str] | None = None,
    device: int | None = None,
) -> GpuModule:
    """Compile a cell for a GPU, or find it in the cache, and load its machine code.

    expressions: C++ names of the kernels to launch ("add", "fill<float, 16>").
    device: index of the GPU; None: torch's current one.

    Raises CompileError, BuildError without NVRTC or a GPU, and DeviceLost after a
    fault.
    """
    if native.explain_lost():  # after a fault, torch may find no GPU
        raise DeviceLost(native.explain_lost())
    if not torch.cuda.is_available():
        raise BuildError("no CUDA GPU here; without --gpu the cell runs on a CPU")
    index = torch.cuda.current_device() if device is None else device
    inputs = source, name, tuple(flags), tuple(expressions), dict(headers or {})
    module = GpuModule(*inputs, index, CompiledProgram(b"", "", {}, ""), False)
    module.program, module.cached = _load_program(module, name_arch(index))
    module.warnings = diagnostics.parse_nvrtc(module.program.log, stored.CELL)
    for expression in module.expressions:
        module.function(expression, index)
    module.report = _report(module)
    return module


def compile_only(
    source: str,
    sm: str,
    expressions: Sequence[str],
    name: str = "cell",
    flags: Sequence[str] = (),
    headers: Mapping[str, str] | None = None,
) -> GpuModule:
    """Return the cell as machine code for `sm` ("sm_90"), for inspection only."""
    inputs = source, name, tuple(flags), tuple(expressions), dict(headers or {})
    program, cached = stored.load_program(source, name, sm, flags, *inputs[3:])
    used = {e: program.usage.get(program.lowered[e]) for e in expressions}
    parts = [e + (f" · {u.registers} registers" if u else "") for e, u in used.items()]
    report = f"{'; '.join(parts) or 'compiled'} · {sm} · there is no GPU here to run it"
    warnings = diagnostics.parse_nvrtc(program.log, stored.CELL)
    return GpuModule(*inputs, -1, program, cached, report, warnings)


def wait_for_device(gpu: int | None = None, doing: str = "waiting for the GPU") -> None:
    """Wait for all queued work on a device; raise DeviceLost after a fault."""
    with driver.use_device(torch.cuda.current_device() if gpu is None else gpu):
        driver.wait_for_stream(None, doing)


def is_used() -> bool:
    """Return whether cells may be running on a GPU now, outside a graph's capture."""
    with contextlib.suppress(RuntimeError):  # after a fault, torch raises an error here
        return bool(_used) and not torch.cuda.is_current_stream_capturing()
    return True


def find_fault() -> str:
    """Wait for every GPU with a cell's code; return the message of a fault, or "".

    The function never raises, so it is safe after an error in torch or at the end of a
    cell.
    """
    try:
        for index in sorted(_used):
            wait_for_device(index)
    except (KernelError, RuntimeError) as error:
        return native.explain_lost() or str(error)
    return native.explain_lost()


@once
def name_arch(device: int) -> str:
    """Return NVRTC's name for the architecture of a GPU: sm_90a for an H200.

    Only the architecture-specific target (the suffix a) has wgmma.
    """
    major, minor = torch.cuda.get_device_capability(device)
    return f"sm_{major}{minor}" + "a" * (major >= 9)


# ---- compiling ----------------------------------------------------------------


def _load_program(module: GpuModule, sm: str) -> tuple[CompiledProgram, bool]:
    """Return machine code for `sm`, and whether it came from the cache."""
    inputs = module.source, module.name, sm, module.flags
    names = variables.list_settable([module.source, *module.headers.values()])
    requested = module.expressions + tuple(f"&{name}" for name in names)
    try:
        return stored.load_program(*inputs, requested, module.headers)
    except CompileError as error:
        if not names or "__nv_name_map" not in error.log:
            raise
    # A variable inside an #if may not exist, so try without variables.
    return stored.load_program(*inputs, module.expressions, module.headers)


def _check_driver(doing: str) -> None:
    """Raise KernelError if the driver is too old to load the code of this NVRTC."""
    required, supported = nvrtc.nvrtc_version(), driver.driver_version()
    if required[0] > supported[0]:
        raise KernelError(
            f"{doing}: NVRTC is from CUDA {required[0]}.{required[1]}, the driver from "
            f"{supported[0]}.{supported[1]}: update the driver, or "
            f"pip install nvidia-cuda-nvrtc-cu{supported[0]}"
        )


def _report(module: GpuModule) -> str:
    parts = []
    for expression in module.expressions:
        function = module.function(expression, module.device)
        usage = module.program.usage.get(module.program.lowered[expression], Usage())
        with driver.use_device(module.device):
            parts.append(f"{expression} · {_describe_usage(module, function, usage)}")
    return f"{'; '.join(parts) or 'compiled'} · {name_arch(module.device)}"


def _describe_usage(module: GpuModule, function: int, usage: Usage) -> str:
    numbers = {n: driver.function_attribute(function, n) for n in driver.FUNCTION}
    parts = [f"{numbers['registers']} registers"]
    if numbers["shared"]:
        parts.append(f"{_write_bytes(numbers['shared'])} shared")
    if numbers["local"]:
        parts.append(f"{_write_bytes(numbers['local'])} local")
    if usage.spill_stores or usage.spill_loads:
        parts.append(f"spills {usage.spill_stores} B out, {usage.spill_loads} B in")
    threads = driver.best_block(function)
    occupancy = driver.count_occupancy(function, threads, 0, module.device)
    parts.append(f"{occupancy:.0%} occupancy at {threads} threads a block")
    return " · ".join(parts)


def _write_bytes(count: int) -> str:
    return f"{count / 1024:.4g} KB" if count >= 1024 else f"{count} B"


def waits_for_its_grid(ptx: str, lowered: str) -> bool:
    """Return whether a kernel uses a feature that only a cooperative launch provides.

    grid.sync() finds its barrier through the registers %envreg1 and %envreg2, which no
    other code reads (cooperative_groups/details/driver_abi.h).
    """
    functions, *_ = ptx.split(".entry ", 1)
    _, _, own = ptx.partition(f".entry {lowered}(")
    return "%envreg" in functions + own.split(".entry ")[0]


# ---- launching ----------------------------------------------------------------


def _plan_launch(
    kernel: str, function: int, device: int, grid: Any, block: Any, shared: int
) -> launch.LaunchPlan:
    """Return a launch's shape, checked against the limits of the kernel and the GPU.

    toolchain/launch_config.py has checked the limits that all GPUs share.
    """
    threads = math.prod(block)
    most = driver.function_attribute(function, "threads")
    if threads > most:
        registers = driver.function_attribute(function, "registers")
        raise ArgumentError(
            f"{kernel}: block = {block} has {threads} threads; with {registers} "
            f"registers each, or by its __launch_bounds__, at most {most} fit"
        )
    _allow_shared(kernel, function, device, shared)
    return launch.LaunchPlan(function, grid, block, shared)


def _allow_shared(kernel: str, function: int, device: int, shared: int) -> None:
    """Request dynamic shared memory above the default 48 KB."""
    static = driver.function_attribute(function, "shared")
    available = driver.device_attribute(device, "shared") - static
    if shared > available:
        raise ArgumentError(
            f"{kernel}: {shared} bytes of dynamic shared memory; this GPU has "
            f"{available} left after the kernel's {static} static bytes"
        )
    if shared + static <= _DEFAULT_SHARED:
        return
    if shared > driver.function_attribute(function, "dynamic"):
        set_attribute = driver.open_library().cuFuncSetAttribute
        status = set_attribute(function, driver.FUNCTION["dynamic"], shared)
        driver.check(status, f"{kernel}: {shared} bytes of shared memory")
