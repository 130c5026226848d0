"""Weft: a GPU kernel lab. `import weft` gives the ops and the ways to run them.

A kernel in Python, and who runs it
    cuda, language/    the names it is written in; what a kernel is; what was meant
    bodies/            the lab's kernels in it
    sim/, report/      thread by thread: what went wrong, what it cost
    numba_jit/         compiled by Numba, or on its simulator
    to_cuda/           as CUDA C that one can read; cuda_c: run as that
A kernel in CUDA C
    build, native      kernels/ as libraries; by cffi
    ops/               for torch; with every rung's cases, check and gradients
    jit/               from a string: load_cuda()
    cuda_on_cpu/       CUDA C -> C++; whole programs; what is said of them
    inspect/           under the check build, on the reader's lines
Is it right, how fast is it, what does it do
    guarded, check/    the reader's kernels against a reference
    mistakes/          ... and what their mistakes are
    bench/             how long: timers, peaks, cuBLAS; a benchmark each of the others
    ladder/            the lessons' steps from rung to rung of matmul
    tune/              the fastest of a kernel's compile-time constants
    machine/           PTX, SASS, occupancy, ncu
    traces/            what ran, and when: timelines, PyTorch's kernels, NVTX
    pictures/          of launches: show(), latency()
    figures/           of arrays, warps, bits; colours; two texts side by side
    widgets/           live: paint, a canvas, a guess beside its answer
The project
    mnist/, data/      a CNN with these kernels, in NumPy, in Python
    notebook/          %%cuda; the lessons from their sources, the checks in them
    puzzles/           what a reader solves, and what is said of it
    device, lazy       what there is and imports, without PyTorch
    environment        the Python it runs in
    doctor             what is here, what is missing, and its cure
    cache, kept        what can be made again; what would be missed
    whole              files that are there whole or not at all
    __main__           python -m weft
    tracebacks         errors end at the reader's line
"""

import sys
from pathlib import Path

from .lazy import lazily

_CASES = Path(__file__).with_name("ops") / "cases"  # a file there is an op

# Where each public name comes from: it is imported with its first use. PyTorch takes a
# second, which a command or a training that does without it need not wait for.
__all__ = lazily(
    __name__,
    {
        "bench": ("bench",),  # a module that can be called: weft.bench(f, x)
        "check": ("check",),
        "cuda": ("cuda",),
        "inspect": ("inspect",),
        "jit": ("CompileError", "KernelFault", "last_report", "load_cuda"),
        "machine": ("occupancy", "profile", "ptx", "sass"),
        "native": (
            *("ArgumentError", "DeviceLost", "KernelError", "OutOfMemory"),
            *("reload", "rungs", "set_threads"),
        ),
        "numba_jit": ("numba_jit",),
        "ops": [path.stem for path in _CASES.glob("[!_]*.py")],
        "ops.check": ("Mismatch", "check_op"),
        "pictures.show": ("show",),
        "pictures.turns": ("latency",),
        "sim": ("sim",),
        "to_cuda": ("TranslationError", "to_cuda"),
        "to_cuda.cuda_c": ("cuda_c",),
        "traces.nvtx": ("nvtx_range",),
        "traces.timeline": ("timeline",),
        "traces.torch_kernels": ("torch_kernels",),
        "tune": ("autotune",),
        "widgets.predict": ("predict",),
    },
)


def load_ipython_extension(shell) -> None:
    """What %load_ext weft calls: %%cuda and %%cuda_header from now on."""
    from .notebook import magic

    magic.register(shell)


# In a notebook `import weft` is enough.
if "IPython" in sys.modules and sys.argv[:1] != ["-m"]:
    load_ipython_extension(None)
