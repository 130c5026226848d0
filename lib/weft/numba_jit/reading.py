"""What Numba makes of a kernel: PTX, which needs no GPU."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from ..native import KernelError
from ..python_kernel import PythonKernel
from . import arguments, errors, meaning


def ptx(kernel: PythonKernel, args: Sequence[Any], cc: tuple[int, int]) -> str:
    """The PTX for arguments like `args`, for a compute capability.

    Raises ArgumentError where Numba does not take the kernel, and KernelError where
    Numba, or NVVM, is missing.
    """
    part = meaning.read(kernel.function)
    checked = arguments.checked(kernel.name, kernel.bind(args))
    try:
        import numba
        from numba import cuda
    except Exception as error:
        raise KernelError(f"Numba cannot be imported: {error}") from None
    if "simulator" in cuda.jit.__module__:
        raise KernelError(
            "numba.cuda is its simulator in this process, which compiles nothing: "
            "NUMBA_ENABLE_CUDASIM was set when it was imported"
        )
    function = meaning.build(part, cuda, cuda.jit(device=True))
    types = tuple(_type(numba, value) for value in checked)
    try:
        with _device(cc):
            return cuda.compile_ptx(function, types, cc=cc)[0]
    except Exception as error:
        raise errors.explain(kernel.name, part, error) from None


def _type(numba: Any, value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        like = np.empty((0,) * value.dim(), str(value.dtype)[6:])
        layout = "C" if value.is_contiguous() else "A"
        return numba.typeof(like).copy(layout=layout)
    return numba.typeof(value)


@contextlib.contextmanager
def _device(cc: tuple[int, int]) -> Iterator[None]:
    """Numba asks the GPU for its capability as soon as a kernel has helpers."""
    if torch.cuda.is_available():
        yield
        return
    dispatcher = importlib.import_module("numba.cuda.dispatcher")
    real = dispatcher.get_current_device
    dispatcher.get_current_device = lambda: SimpleNamespace(compute_capability=cc)
    try:
        yield
    finally:
        dispatcher.get_current_device = real
