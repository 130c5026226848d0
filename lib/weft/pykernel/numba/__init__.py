"""Compile a Python kernel with Numba: numba_jit(kernel)[grid, block](*args).

The kernel is a plain function that uses the names of weft.cuda. On a machine with a GPU
it runs there, compiled for each combination of argument types. Elsewhere it runs on
Numba's simulator, in another process.

    arguments         arguments on the host and the GPU, and launches without Numba
    meaning           the meaning of the names in a kernel; misspelt names of cuda
    simulator, child  the simulator's process, from outside and from inside
    gpu               launches on a GPU
    reading           types and PTX, which need no GPU, and Numba's errors in a sentence
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable
from typing import Any

import torch

from ...base.errors import ArgumentError
from ...toolchain.launch_config import LaunchConfig
from ..language import PythonKernel, plain_function
from . import arguments, gpu, meaning, reading, simulator

_KEPT = "__weft_numba__"


def numba_jit(kernel: Any, *, timeout: float | None = None) -> NumbaKernel:
    """Return the kernel for Numba: numba_jit(kernel)[grid, block](*args).

    kernel: a function, or the result of Numba's @cuda.jit. The brackets may also have a
        stream and the bytes of dynamic shared memory.
    args: torch tensors, NumPy arrays, numbers, tuples of numbers. Arrays on the host
        are copied to a GPU and back.
    timeout: time limit in seconds on Numba's simulator; None: 60.

    A launch returns nothing; results are written into the arrays. On a GPU it is only
    queued, on torch's current stream by default. An invalid kernel raises
    ArgumentError.
    """
    function = plain_function(kernel)
    kept = function.__dict__.get(_KEPT)
    if timeout is None and kept is not None and kept.kernel.function is function:
        return kept
    made = NumbaKernel(PythonKernel(kernel), timeout or simulator.TIMEOUT)
    if timeout is None:
        function.__dict__[_KEPT] = made
    return made


class NumbaKernel:
    """A kernel for Numba; [grid, block] returns a function of the arguments.

    If a name that the kernel uses has a new meaning because a cell was run again, the
    next launch uses the new meaning.
    """

    def __init__(
        self, kernel: PythonKernel, timeout: float = simulator.TIMEOUT
    ) -> None:
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
        # The key is new. A list has no hash, and other keys may raise, too.
        except Exception:
            pass
        made = self._launcher(self.kernel.config(key))
        with contextlib.suppress(Exception):
            self._launchers[key] = made
        return made

    def ptx(self, *args: Any, cc: tuple[int, int] = (8, 0)) -> str:
        """Return the PTX that Numba compiles for these arguments; needs no GPU."""
        return reading.compile_ptx(self.kernel, args, cc)

    def types(self, *args: Any) -> dict[str, str]:
        """Return Numba's type of each name for these arguments; needs no GPU."""
        return reading.infer_types(self.kernel, args)

    def __call__(self, *args: Any) -> None:
        name = self.name
        raise ArgumentError(
            f"{name} is launched as numba_jit({name})[grid, block](...)"
        )

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
        long = simulator.refuse_endless(self.name, config, self.timeout)
        if self._target is None:
            self._target = meaning.serialise_kernel(part)
        code = self._target

        def launch(*args: Any, **named: Any) -> None:
            given = arguments.check_arguments(self.name, self.kernel.given(args, named))
            arguments.say_once(
                "no GPU here: Numba's simulator runs this, in a separate process and "
                "slowly (0.4 ms a thread)"
            )
            if long:
                print(f"weft: {long}", file=sys.stderr)
            hosts = [a.cpu().numpy() if arguments.on_gpu(a) else a for a in given]
            simulator.launch(part, code, config, hosts, self.timeout)
            for host, array in zip(hosts, given):
                if arguments.on_gpu(array):
                    array.copy_(torch.from_numpy(host))

        return launch


def on_gpu() -> bool:
    """Return whether kernels run on a GPU: there is one, and CUDASIM is not set."""
    told = os.environ.get("NUMBA_ENABLE_CUDASIM", "0") not in ("", "0")
    return torch.cuda.is_available() and not told
