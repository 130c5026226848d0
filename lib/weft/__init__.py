"""Weft: a GPU kernel lab. `import weft` gives the ops and the ways to run them."""

import sys

# `python -m weft run` starts a program in milliseconds, which PyTorch does not:
# a command imports what it needs.
if sys.argv[:1] != ["-m"]:
    from .check import Mismatch, check
    from .native import (
        ArgumentError,
        DeviceLost,
        KernelError,
        OutOfMemory,
        reload,
        rungs,
        set_threads,
    )
    from .ops import (
        batchnorm2d,
        conv2d,
        cross_entropy,
        linear,
        matmul,
        maxpool2d,
        relu,
    )

__all__ = [
    "ArgumentError",
    "DeviceLost",
    "KernelError",
    "Mismatch",
    "OutOfMemory",
    "batchnorm2d",
    "check",
    "conv2d",
    "cross_entropy",
    "linear",
    "matmul",
    "maxpool2d",
    "reload",
    "relu",
    "rungs",
    "set_threads",
]
