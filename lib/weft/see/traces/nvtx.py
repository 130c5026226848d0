"""nvtx_range("step"): a name on the timeline of NVIDIA's profilers.

    with nvtx_range("epoch 0"):
        cnn.train(order)

Nsight Systems draws it above the kernels that were launched meanwhile; Nsight Compute
profiles only these with `ncu --nvtx --nvtx-include "epoch 0/"`. The ops and the steps
of the trainer name themselves (kernels/common/nvtx.cuh). While no tool listens, a range
costs about a microsecond. Where PyTorch has no CUDA, a range uses NVIDIA's package nvtx
if that is installed, and does nothing otherwise.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

from ...base.errors import ArgumentError


@contextlib.contextmanager
def nvtx_range(name: str) -> Iterator[None]:
    """Name what happens inside, also if it raises. ArgumentError: no text."""
    if not isinstance(name, str) or not name:
        raise ArgumentError(f"nvtx_range({name!r:.40}): want a name")
    push, pop = _load_calls()
    push(name)
    try:
        yield
    finally:
        pop()


@functools.cache
def _load_calls() -> tuple[Callable[[str], Any], Callable[[], Any]]:
    """How a range begins and how it ends here."""
    import torch

    if torch.version.cuda:
        return torch.cuda.nvtx.range_push, torch.cuda.nvtx.range_pop
    try:
        import nvtx
    except ImportError:
        return lambda name: None, lambda: None
    return nvtx.push_range, nvtx.pop_range
