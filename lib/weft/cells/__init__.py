"""Compile CUDA C from a string to Python callables, for the GPU and for the CPU.

    k = load_cuda(source)
    k.saxpy[grid, block](y, x, 2.0, n)

The device of the arrays selects the target. NVRTC compiles for arrays on a GPU. For
arrays on the host, g++ compiles on top of kernels/simt. On a GPU, a launch returns as
soon as it is queued; on the CPU, it returns when it is finished.

    module                      the callables: module.add[grid, block](out, a, ...)
    structs                     C types of parameters: sizes, dtypes, members
    arguments, arrays           the arguments of a launch
    variables                   __constant__ and __device__ variables, by name
    checks                      rules for cells that apply on both targets
    headers                     %%cuda_header, and nvcc's implicit includes
    stored                      --flags for both compilers; compiled cells on disk
    trial_launches, output      --check and --time; printf
    isolated                    --isolated, and the process that it uses
    cpu/                        g++, and launches on fenced copies
    gpu/                        NVRTC, and launches through the CUDA driver
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from ..base.errors import ArgumentError, KernelFault
from ..csource.diagnostics import CompileError, Diagnostic
from . import stored
from .cpu.watched import last_report
from .module import Cell, Kernel, Launch, Module
from .trial_launches import OrderDependence


def load_cuda(
    source: str | os.PathLike[str],
    *,
    target: str | None = None,
    flags: str | Sequence[str] = "",
    timeout: float | None = None,
    inplace: bool = False,
    isolated: bool = False,
    check: bool = False,
    time: bool = False,
    watched: bool = False,
    name: str = "",
) -> Module:
    """Compile CUDA C; return an object whose attributes are its kernels.

    source: the CUDA C text, or the path of a file: a Path, or a string that ends in
        .cu. Files that it includes in quotes are searched for in the file's folder.
    target: "cpu" or "cuda". None: the device of a launch's arrays; the cell is compiled
        for the GPU first if there is one.
    flags: compiler flags such as "-DTILE=16 -I folder", never passed to a shell.
    timeout: time limit in seconds for a launch on the CPU (default 20; 0: no limit).
    inplace: on the CPU, work on the arrays themselves instead of fenced copies.
    isolated: launch in a separate process.
    watched: on the CPU, launch under the watch build, which is about 20 times slower.
        It finds accesses out of bounds, races, reads of unwritten memory and more, and
        shows them below the cell. kernel.report adds the cost of each line.
    check: before each launch, run the kernel watched in three thread orders, and refuse
        the launch if the result depends on the order.
    time: after each launch, time the kernel on copies of the arrays.
    name: name of the source in messages; by default the file's name or "cell".

    Raises CompileError, which quotes lines of the source, and ArgumentError.
    """
    path = _parse_path(source)
    if path:
        source, name = _read(path), name or path.name
    if not isinstance(source, str):
        expected = "CUDA C as a string, or the path of a file"
        raise ArgumentError(f"load_cuda takes {expected}, not {source!r:.60}")
    if "\0" in source or any("\ud800" <= c <= "\udfff" for c in source):
        reason = "it contains a NUL or a lone surrogate"
        raise ArgumentError(f"the source is not text: {reason}")
    if target not in (None, "cpu", "cuda"):
        raise ArgumentError(f"target={target!r}, expected 'cpu', 'cuda' or None")
    modes = {"watched": watched, "inplace": inplace, "isolated": isolated}
    chosen = [mode for mode, wanted in modes.items() if wanted]
    if len(chosen) > 1:
        raise ArgumentError(f"{' and '.join(chosen)} exclude each other: choose one")
    is_number = isinstance(timeout, (int, float))
    if timeout is not None and not (is_number and 0 <= timeout <= 86400):
        raise ArgumentError(f"timeout={timeout!r}, expected 0 (none) to 86400 seconds")
    folder = path.parent.resolve() if path else None
    place = {"name": name or "cell", "folder": folder, "target": target}
    options = {"timeout": timeout, "check": check, "time": time, **modes}
    return Module(Cell(source, flags=stored.split(flags), **place, **options))


def _parse_path(source: object) -> Path | None:
    """Return the file that `source` names; None if `source` is the text itself."""
    if isinstance(source, str):
        one_line = "\n" not in source and "{" not in source
        is_path = one_line and source.strip().endswith((".cu", ".cuh"))
        return Path(source.strip()) if is_path else None
    return Path(source) if isinstance(source, os.PathLike) else None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise ArgumentError(f"load_cuda: {path}: {reason}") from None


__all__ = [
    "CompileError",
    "Diagnostic",
    "Kernel",
    "KernelFault",
    "Launch",
    "Module",
    "OrderDependence",
    "last_report",
    "load_cuda",
]
