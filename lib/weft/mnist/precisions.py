"""The precisions in which PyTorch trains the twin, and where each one runs.

fp32    strict: no product is rounded before it is added
tf32    products of fp32 numbers cut to 10 bits of mantissa (GPUs from sm_80)
bf16    forward under torch.autocast, parameters and update in float32
fp16    the same; the loss is scaled, so that small gradients are not lost
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

from ..base.errors import ArgumentError
from .rungs import PRECISIONS

HALVES = {"bf16": torch.bfloat16, "fp16": torch.float16}  # autocast's type
LEAST_SM = {"tf32": 80, "bf16": 80, "fp16": 70}  # compute capability times 10


@contextlib.contextmanager
def precision(name: str) -> Iterator[None]:
    """Let torch multiply fp32 numbers as `name` does, and restore what was before.

    "fp32", "3xtf32" and "fp16" forbid TF32; "tf32" and "bf16" allow it. The search
    for the fastest convolution (cudnn.benchmark) is on inside.
    """
    if name not in (*PRECISIONS, "3xtf32"):
        known = ", ".join(PRECISIONS)
        raise ArgumentError(f"no PyTorch twin in {name}; there are {known}")
    backends = (torch.backends.cuda.matmul, torch.backends.cudnn)
    before = [backend.allow_tf32 for backend in backends]
    benchmark = torch.backends.cudnn.benchmark
    try:
        torch.backends.cudnn.benchmark = True
        for backend in backends:
            backend.allow_tf32 = name in ("tf32", "bf16")
        yield
    finally:
        torch.backends.cudnn.benchmark = benchmark
        for backend, value in zip(backends, before):
            backend.allow_tf32 = value


def check_precision(name: str, device: torch.device) -> None:
    """ArgumentError if PyTorch does not train in `name` on that device."""
    if name not in PRECISIONS:
        known = ", ".join(PRECISIONS)
        raise ArgumentError(f"no PyTorch twin in {name}; there are {known}")
    if device.type == "cpu":
        if name == "tf32":
            raise ArgumentError("PyTorch has no tf32 on a CPU: it would train in fp32")
        return
    major, minor = torch.cuda.get_device_capability(device)
    least = LEAST_SM.get(name, 0)
    if 10 * major + minor < least:
        raise ArgumentError(
            f"{name} runs from sm_{least} on; {torch.cuda.get_device_name(device)} "
            f"is sm_{major}{minor}"
        )


def use_half(name: str, device: torch.device) -> contextlib.AbstractContextManager:
    """The context of a forward pass: autocast for the 16-bit types, else nothing."""
    if name not in HALVES:
        return contextlib.nullcontext()
    # No weight is used twice, so that a cache of converted ones would save nothing;
    # in a captured step it would be wrong.
    options = {"dtype": HALVES[name], "cache_enabled": False}
    return torch.autocast(device.type, **options)
