"""Weft: a GPU kernel lab. `import weft` gives the ops and the ways to run them.

A kernel in Python, and who runs it
    cuda, python_kernel, spelling    the language; what a kernel is; what was meant
    kernel_arguments                 what no runner takes, in the same words
    bodies/                          the lab's kernels in it
    sim/, report/                    thread by thread: what went wrong, what it cost
    numba_jit/                       compiled by Numba, or on its simulator
    to_cuda/, cuda_c                 as CUDA C that one can read; run as that
A kernel in CUDA C
    build, native, ops               kernels/ as libraries; by cffi; for torch
    ops_matmul, op_calls             the product of matrices; what all ops share
    jit/, magic                      from a string, load_cuda(); from a cell, %%cuda
    rewrite*, cuda_text              CUDA C -> C++ for the CPU
    run, program, preprocess         whole programs there
    messages, unsupported            ... and what is said of them
    inspect/, symbols, columns       under the check build, on the reader's lines
Is it right, how fast is it, what does it do
    guarded, check/, mistakes/       the reader's kernels, and what their mistakes are
    check_ops, cases*, gradients     the lab's own; checked: who has passed
    bench*, plot_*                   how long; each bench_* is one benchmark
    timers, clocks, gpu_state        by which clock, how sure; the GPU's own state
    cublas, peaks                    what a product is measured against
    tune/                            the fastest of a kernel's compile-time constants
    show, pictures/, view, beside    pictures of launches, of arrays, of two texts
    latency, warp_view               ... of warps that take turns, of one's requests
    tensor_view                      ... of bits, of a fragment's owners
    sketches                         ... of what a word of the glossary means
    machine/                         PTX, SASS, occupancy, ncu
    torch_kernels, kernel_names      what PyTorch runs
    timeline                         ... and when: streams, and the gaps in them
    nvtx                             names for profilers
    paint, canvas, predict           live pictures; a guess beside its answer
    style, highlight, words          colours of charts, of programs; numbers in words
    ipython                          the notebook that runs us
The project
    mnist/, mnist_numpy, data/       a CNN with these kernels, and in NumPy
    lessons, exercises, stubs        notebooks from their sources; checks in them
    puzzles/                         what a reader solves, and what is said of it
    device, lazy                     what there is and imports, without PyTorch
    readme                           what of README.md is made from results
    environment, doctor              the Python it runs in; what is here
    cache, kept                      what can be made again; what would be missed
    __main__, tracebacks             python -m weft; errors end at the reader's line
"""

import sys

from .lazy import lazily

# Where each public name comes from: it is imported with its first use. PyTorch takes a
# second, which a command or a training that does without it need not wait for.
__all__ = lazily(
    __name__,
    {
        "bench": ("bench",),  # a module that can be called: weft.bench(f, x)
        "check": ("check",),
        "check_ops": ("Mismatch", "check_op"),
        "cuda": ("cuda",),
        "cuda_c": ("cuda_c",),
        "inspect": ("inspect",),
        "jit": ("CompileError", "KernelFault", "last_report", "load_cuda"),
        "latency": ("latency",),
        "machine": ("occupancy", "profile", "ptx", "sass"),
        "native": (
            *("ArgumentError", "DeviceLost", "KernelError", "OutOfMemory"),
            *("reload", "rungs", "set_threads"),
        ),
        "numba_jit": ("numba_jit",),
        "nvtx": ("nvtx_range",),
        "ops": (
            *("batchnorm2d", "conv2d", "cross_entropy", "linear"),
            *("matmul", "maxpool2d", "relu"),
        ),
        "predict": ("predict",),
        "show": ("show",),
        "sim": ("sim",),
        "timeline": ("timeline",),
        "to_cuda": ("TranslationError", "to_cuda"),
        "torch_kernels": ("torch_kernels",),
        "tune": ("autotune",),
    },
)


def load_ipython_extension(shell) -> None:
    """What %load_ext weft calls: %%cuda and %%cuda_header from now on."""
    from . import magic

    magic.register(shell)


# In a notebook `import weft` is enough.
if "IPython" in sys.modules and sys.argv[:1] != ["-m"]:
    load_ipython_extension(None)
