"""Weft: a GPU kernel lab. `import weft` gives the ops and the ways to run them."""

import sys

# `python -m weft run` starts a program in milliseconds, which PyTorch does not:
# a command imports what it needs.
if sys.argv[:1] != ["-m"]:
    from . import cuda
    from .check import check
    from .check_ops import Mismatch, check_op
    from .cuda_c import cuda_c
    from .jit import CompileError, KernelFault, load_cuda
    from .native import (
        ArgumentError,
        DeviceLost,
        KernelError,
        OutOfMemory,
        reload,
        rungs,
        set_threads,
    )
    from .numba_jit import numba_jit
    from .ops import (
        batchnorm2d,
        conv2d,
        cross_entropy,
        linear,
        matmul,
        maxpool2d,
        relu,
    )
    from .predict import predict
    from .show import show
    from .sim import sim
    from .to_cuda import TranslationError, to_cuda

__all__ = [
    "ArgumentError",
    "CompileError",
    "DeviceLost",
    "KernelError",
    "KernelFault",
    "Mismatch",
    "OutOfMemory",
    "TranslationError",
    "batchnorm2d",
    "check",
    "check_op",
    "conv2d",
    "cross_entropy",
    "cuda",
    "cuda_c",
    "linear",
    "load_cuda",
    "matmul",
    "maxpool2d",
    "numba_jit",
    "predict",
    "reload",
    "relu",
    "rungs",
    "set_threads",
    "show",
    "sim",
    "to_cuda",
]


def load_ipython_extension(shell) -> None:
    """What %load_ext weft calls: %%cuda and %%cuda_header from now on."""
    from . import magic

    magic.register(shell)


# In a notebook `import weft` is enough.
if "IPython" in sys.modules and sys.argv[:1] != ["-m"]:
    load_ipython_extension(None)
