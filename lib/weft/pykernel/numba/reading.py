"""What Numba makes of a kernel: types and PTX. Neither needs a GPU."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from ...base.errors import KernelError
from ..language.kernel import PythonKernel
from . import arguments, errors, meaning


def compile_ptx(
    kernel: PythonKernel,
    args: Sequence[Any],
    cc: tuple[int, int],
    lines: bool = False,
) -> str:
    """The PTX for arguments like `args`, for a compute capability.

    lines: with the lines of the Python source, which change no instruction.
    Raises ArgumentError where Numba does not take the kernel, and KernelError where
    Numba, or NVVM, is missing.
    """

    def compiled(cuda: Any, function: Any, given: tuple[Any, ...]) -> str:
        return cuda.compile_ptx(function, given, cc=cc, lineinfo=lines)[0]

    return _read(kernel, args, cc, compiled)


def infer_types(kernel: PythonKernel, args: Sequence[Any]) -> dict[str, str]:
    """The type of each of the kernel's names, for arguments like `args`.

    In the order of the text: {"c": "float32[1D]", "acc": "float32", ...}. A name that
    is of one type here and of another there has both, "int64, float64". Raises as
    compile_ptx() does.
    """
    cc = (8, 0)

    def typed(cuda: Any, function: Any, given: tuple[Any, ...]) -> Any:
        compiler = importlib.import_module("numba.cuda.compiler")
        none = importlib.import_module("numba").void
        return compiler.compile_cuda(function, none, given, cc=cc).type_annotation

    typemap = _read(kernel, args, cc, typed).typemap
    found: dict[str, dict[str, None]] = {
        name: {} for name in kernel.function.__code__.co_varnames
    }
    for name, kind in typemap.items():  # a, and a.1, a.2 where it is assigned again
        if (base := name.partition(".")[0]) in found:
            found[base][_name_type(kind)] = None
    return {name: ", ".join(kinds) for name, kinds in found.items() if kinds}


def numba_types(values: Sequence[Any]) -> tuple[Any, ...]:
    """Numba's types of arguments that arguments.checked() has seen."""
    import numba

    return tuple(_type_of(numba, value) for value in values)


def _name_type(kind: Any) -> str:
    """A type's name as the reader knows it; a constant's is that of its value."""
    kind = getattr(kind, "literal_type", kind)
    if hasattr(kind, "dtype") and hasattr(kind, "ndim"):
        return f"{kind.dtype}[{kind.ndim}D]"
    return str(kind)


def _read(
    kernel: PythonKernel,
    args: Sequence[Any],
    cc: tuple[int, int],
    look: Callable[[Any, Any, tuple[Any, ...]], Any],
) -> Any:
    """look(numba.cuda, the kernel for it, the arguments' types), errors explained."""
    part = meaning.read(kernel.function)
    checked = arguments.check_arguments(kernel.name, kernel.given(args))
    try:
        from numba import cuda
    except Exception as error:
        raise KernelError(f"Numba cannot be imported: {error}") from None
    if "simulator" in cuda.jit.__module__:
        raise KernelError(
            "numba.cuda is its simulator in this process, which compiles nothing: "
            "NUMBA_ENABLE_CUDASIM was set when it was imported"
        )
    function = meaning.build(part, cuda, cuda.jit(device=True))
    given = numba_types(checked)
    try:
        with _fix_capability(cc):
            return look(cuda, function, given)
    except Exception as error:
        raise errors.explain(kernel.name, part, error) from None


def _type_of(numba: Any, value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        like = np.empty((0,) * value.dim(), str(value.dtype)[6:])
        layout = "C" if value.is_contiguous() else "A"
        return numba.typeof(like).copy(layout=layout)
    return numba.typeof(value)


@contextlib.contextmanager
def _fix_capability(cc: tuple[int, int]) -> Iterator[None]:
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
