"""Weft: a GPU kernel lab. `import weft` gives the ops and the ways to run them.

Each folder imports only from those above it in this list.

    base/        paths, errors, devices, caches, colours: what everything may use
    csource/     the one reader of CUDA C: what a source holds, and its C++ for the CPU
    report/      faults and costs of a launch, on the lines of its source
    toolchain/   compilers, and the libraries that they build from kernels/
    timing/      timers, and the rows of every measurement
    cells/       CUDA C from a string: load_cuda(), %%cuda
    programs/    whole CUDA programs on the CPU: `weft run`
    cuda         the names that a Python kernel is written in
    pykernel/    what runs one: the simulator, Numba, a translation to CUDA C
    ops/         kernels/ for torch, with their checks and gradients
    check/       the reader's kernel against a reference, and what its mistake is
    see/         machine code, pictures of launches, timelines
    mnist/       the CNN, in C, NumPy, Python and PyTorch
    tune/        the fastest of a kernel's compile-time constants
    puzzles/     what a reader solves
    benchmarks/  how fast all of it is
    lessons/     the course: its notebooks, exercises, widgets, the matmul ladder
    commands/    what python -m weft COMMAND (__main__) runs
"""

import sys
from pathlib import Path

from .base.lazy import make_lazy

_CASES = Path(__file__).with_name("ops") / "cases"  # a file there is an op

# Where each public name comes from: it is imported with its first use. PyTorch takes a
# second, which a command or a training that does without it need not wait for.
__all__ = make_lazy(
    __name__,
    {
        "timing": ("bench",),  # a module that can be called: weft.bench(f, x)
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
    """What %load_ext weft calls: %%cuda and %%cuda_header from now on."""
    # Only IPython needs it.
    from .commands import magic

    magic.register(shell)


# In a notebook `import weft` is enough.
if "IPython" in sys.modules and sys.argv[:1] != ["-m"]:
    load_ipython_extension(None)
