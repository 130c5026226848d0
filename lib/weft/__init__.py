"""Weft: a GPU kernel lab. `import weft` gives the ops and the ways to run them.

Each folder imports only from those above it in this list.

    base/        paths, errors, devices, caches, colours: used by every folder
    csource/     the one reader of CUDA C: parses a source, translates it for the CPU
    report/      faults and costs of a launch, on the lines of its source
    toolchain/   compilers, and the libraries that they build from kernels/
    timing/      timers, and the rows of every measurement
    cells/       CUDA C from a string: load_cuda(), %%cuda
    programs/    whole CUDA programs on the CPU: `weft run`
    cuda         the names for writing a Python kernel
    pykernel/    its runners: the simulator, Numba, a translation to CUDA C
    ops/         kernels/ for torch, with their checks and gradients
    check/       compares the reader's kernel with a reference, guesses its mistake
    see/         machine code, pictures of launches, timelines
    mnist/       the CNN, in C, NumPy, Python and PyTorch
    tune/        the fastest of a kernel's compile-time constants
    puzzles/     exercises for the reader
    benchmarks/  measurements of all of it
    lessons/     the course: its notebooks, exercises, widgets, the matmul ladder
    commands/    the commands of python -m weft COMMAND (__main__)
"""

import sys
from pathlib import Path

from .base.lazy import make_lazy

_CASES = Path(__file__).with_name("ops") / "cases"  # each file there is an op

# The module of each public name, imported on the name's first use. Importing PyTorch
# takes a second, which commands and training without it should not spend.
__all__ = make_lazy(
    __name__,
    {
        "timing": ("bench",),  # a callable module: weft.bench(f, x)
        "check": ("check",),
        "cuda": ("cuda",),
        "see.inspect": ("inspect",),
        "cells": ("CompileError", "last_report", "load_cuda"),
        "see.machine_code": ("occupancy", "profile", "ptx", "sass"),
        "base.errors": (
            *("ArgumentError", "DeviceLost", "KernelError", "KernelFault"),
            *("Mismatch", "OutOfMemory"),
        ),
        "toolchain.native": ("reload", "rungs", "set_threads"),
        "pykernel.numba": ("numba_jit",),
        "ops": [path.stem for path in _CASES.glob("[!_]*.py")],
        "ops.check": ("check_op",),
        "see.pictures.show": ("show",),
        "see.pictures.latency": ("latency",),
        "pykernel.sim": ("sim",),
        "pykernel.to_cuda": ("TranslationError", "to_cuda"),
        "pykernel.to_cuda.cuda_c": ("cuda_c",),
        "see.timeline": ("nvtx_range", "timeline"),
        "see.torch_kernels": ("torch_kernels",),
        "tune": ("autotune",),
        "lessons.widgets.predict": ("predict",),
    },
)


def load_ipython_extension(shell) -> None:
    """Register %%cuda and %%cuda_header, for %load_ext weft."""
    # Only IPython needs it.
    from .commands import magic

    magic.register(shell)


# In a notebook `import weft` is enough.
if "IPython" in sys.modules and sys.argv[:1] != ["-m"]:
    load_ipython_extension(None)
