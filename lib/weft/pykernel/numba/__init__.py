"""Compile a Python kernel with Numba: numba_jit(kernel)[grid, block](*args).

The kernel is a plain function that uses the names of weft.cuda. If the machine has a
GPU, Numba compiles the kernel for each combination of argument types. Otherwise the
kernel runs on Numba's simulator, in another process.

    arguments         arguments on the host and the GPU, and launches without Numba
    meaning           the meaning of the names in a kernel; misspelled names of cuda
    simulator, child  the simulator's process: its control, and the code that it runs
    gpu               launches on a GPU
    inspection        types and PTX, which need no GPU, and Numba's errors as a sentence
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import Any

import torch

from ...base.errors import ArgumentError
from ...base.progress import remark
from ...toolchain.launch_config import LaunchConfig
from ..language import PythonKernel, plain_function
from . import arguments, gpu, inspection, meaning, simulator

_CACHED = "__weft_numba__"


def numba_jit(kernel: Any, *, timeout: float | None = None) -> NumbaKernel:
    """Return the kernel for Numba: numba_jit(kernel)[grid, block](*args).

    kernel: a function, or the result of Numba's @cuda.jit.
    grid, block: shapes; a stream and the bytes of dynamic shared memory may follow.
    args: torch tensors, NumPy arrays, numbers, tuples of numbers. Arrays on the host
        are copied to a GPU and back.
    timeout: time limit in seconds on Numba's simulator; None: 60.

    A launch returns None and writes its results into the arrays. On a GPU, the call
    only queues the launch, by default on torch's current stream. An invalid kernel
    raises ArgumentError.
    """
    function = plain_function(kernel)
    cached = function.__dict__.get(_CACHED)
    if timeout is None and cached is not None and cached.kernel.function is function:
        return cached
    compiled = NumbaKernel(PythonKernel(kernel), timeout or simulator.TIMEOUT)
    if timeout is None:
        function.__dict__[_CACHED] = compiled
    return compiled


class NumbaKernel:
    """A kernel for Numba; [grid, block] returns a function of the arguments.

    If a cell runs again and changes the meaning of a name in the kernel, the next
    launch uses the new meaning.
    """

    def __init__(self, kernel: PythonKernel, timeout: float) -> None:
        self.kernel, self.timeout = kernel, timeout
        self.name = self.__name__ = kernel.name
        self.parameters = kernel.parameters
        self.py_func = kernel.function
        self._part: meaning.KernelPart | None = None
        self._launchers: dict[Any, Callable[..., None]] = {}
        self._target: Any = None

    def __getitem__(self, key: Any) -> Callable[..., None]:
        if self._part is None or self._part.stale():
            self._part, self._target = meaning.read(self.py_func), None
            self._launchers.clear()
        try:
            return self._launchers[key]
        # The key is new or has no hash. An object's __hash__() may raise any error.
        except Exception:
            pass
        launcher = self._launcher(self.kernel.config(key))
        with contextlib.suppress(Exception):
            self._launchers[key] = launcher
        return launcher

    def ptx(self, *args: Any, cc: tuple[int, int] = (8, 0)) -> str:
        """Return the PTX that Numba compiles for these arguments, without a GPU."""
        return inspection.compile_ptx(self.kernel, args, cc)

    def types(self, *args: Any) -> dict[str, str]:
        """Return Numba's type of each name for these arguments, without a GPU."""
        return inspection.infer_types(self.kernel, args)

    def __call__(self, *args: Any) -> None:
        launch = f"numba_jit({self.name})[grid, block](...)"
        raise ArgumentError(f"{self.name} is launched as {launch}")

    def __repr__(self) -> str:
        return f"<numba_jit of {self.kernel!r}>"

    def _launcher(self, config: LaunchConfig) -> Callable[..., None]:
        if on_gpu():
            if self._target is None:
                self._target = gpu.NumbaTarget(self.kernel, self._part)
            return self._target.launcher(config)
        return self._simulated(config)

    def _simulated(self, config: LaunchConfig) -> Callable[..., None]:
        """Return the function that launches the kernel on Numba's simulator."""
        part = self._part
        simulator.refuse_unknown(self.name, part)
        notice = simulator.refuse_endless(self.name, config, self.timeout)
        if self._target is None:
            self._target = meaning.serialise_kernel(part)
        code = self._target

        def launch(*args: Any, **named: Any) -> None:
            bound = self.kernel.given(args, named)
            checked = arguments.check_arguments(self.name, bound)
            arguments.say_once(
                "no GPU here: Numba's simulator runs the kernel in a separate process, "
                "slowly (0.4 ms per thread)"
            )
            if notice:
                remark(notice)
            hosts = [a.cpu().numpy() if arguments.on_gpu(a) else a for a in checked]
            simulator.launch(part, code, config, hosts, self.timeout)
            for host, array in zip(hosts, checked):
                if arguments.on_gpu(array):
                    array.copy_(torch.from_numpy(host))

        return launch


def on_gpu() -> bool:
    """Return whether kernels run on a GPU: one exists, and CUDASIM is not set."""
    simulated = os.environ.get("NUMBA_ENABLE_CUDASIM", "0") not in ("", "0")
    return torch.cuda.is_available() and not simulated
