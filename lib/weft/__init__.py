"""Weft: a GPU kernel lab. `import weft` provides ops, runners, checks and tools.

Each folder imports only from the folders above it in this list.

    base/        paths, errors, devices, caches and colours, for every folder
    csource/     the parser of CUDA C, and its translation for the CPU
    report/      faults and costs of a launch, on the lines of its source
    toolchain/   compilers, and the libraries that they build from kernels/
    timing/      timers, and the rows of all measurements
    cells/       CUDA C from a string: load_cuda(), %%cuda
    programs/    whole CUDA programs on the CPU: `weft run`
    cuda         the names for writing a Python kernel
    pykernel/    runners of Python kernels: simulator, Numba, translation to CUDA C
    ops/         the kernels in kernels/ as torch ops, with checks and gradients
    check/       comparison of the reader's kernel with a reference, and hints
    see/         machine code, pictures of launches, timelines
    mnist/       the CNN, in C, NumPy, Python and PyTorch
    tune/        the search for a kernel's fastest compile-time constants
    puzzles/     exercises for the reader
    benchmarks/  measurements of everything above
    lessons/     the course: its notebooks, exercises, widgets, the matmul ladder
    commands/    the commands of python -m weft COMMAND (__main__)
"""

import sys
from pathlib import Path

from .base.device import limit_threads
from .base.lazy import find_functions, make_lazy

limit_threads()  # before PyTorch is imported

_CASES = Path(__file__).with_name("ops") / "cases"  # NAME_cases() belongs to op NAME

# The module of each public name; the first use of the name imports it. Importing
# PyTorch takes a second, and many commands and the training do not need it.
__all__ = make_lazy(
    __name__,
    {
        "timing": ("bench",),  # weft.bench(f, x) calls this module
        "check": ("check",),
        "cuda": ("cuda",),
        "see.watched_runs": ("inspect",),
        "cells": ("CompileError", "last_report", "load_cuda"),
        "see.machine_code": ("occupancy", "profile", "ptx", "sass"),
        "base.errors": (
            *("ArgumentError", "DeviceLost", "KernelError", "KernelFault"),
            *("Mismatch", "OutOfMemory"),
        ),
        "ops.nn": ("nn",),
        "toolchain.native": ("reload", "rungs", "set_threads"),
        "pykernel.numba": ("numba_jit",),
        "ops": [*find_functions(_CASES, "_cases"), "argsort"],
        "ops.check": ("check_op",),
        "ops.library": ("register_op",),
        "see.pictures.show": ("show",),
        "see.pictures.latency": ("latency",),
        "pykernel.sim": ("sim",),
        "pykernel.to_cuda": ("TranslationError", "to_cuda"),
        "pykernel.to_cuda.cuda_c": ("cuda_c",),
        "see.timeline": ("nvtx_range", "timeline"),
        "see.torch_kernels": ("torch_kernels",),
        "tune": ("autotune",),
        "lessons.progress": ("keep",),
        "lessons.widgets.predict": ("compare_guesses", "predict"),
    },
)


def load_ipython_extension(shell) -> None:
    """Register %%cuda and %%cuda_header, for %load_ext weft."""
    # Imported lazily, since only IPython needs the magics.
    from .commands import magic

    magic.register(shell)


# In a notebook, `import weft` alone registers the magics.
if "IPython" in sys.modules and sys.argv[:1] != ["-m"]:
    load_ipython_extension(None)
