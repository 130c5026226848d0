"""An op's rungs side by side with PyTorch's, interleaved, each checked first.

python -m weft bench conv2d --sizes 64,256 --rungs reference
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F

from .. import bench, native, ops
from ..mnist.twin import precision
from ..ops.check import check_rung


@dataclass(frozen=True)
class Problem:
    """One size of an op: ours(*inputs, rung=...) computes what torch(*inputs) does."""

    sizes: dict[str, int]
    inputs: Sequence[torch.Tensor]
    ours: Callable[..., torch.Tensor]
    torch: Callable[..., torch.Tensor]
    flop: float  # 0: not what limits it
    bytes: float  # each input read once, each output written once


def rows(
    op: str,
    device: str = "cpu",
    sizes: Sequence[int] = (),
    rungs: Sequence[str] = (),
    samples: int = 20,
) -> list[dict[str, Any]]:
    """Time `op`'s rungs and PyTorch on problems of the given sizes.

    sizes: one number each (what it means: PROBLEMS); () takes a few usual ones.
    rungs: () takes all that run on `device`, on the CPU those in plain C only:
    there the time of a CUDA kernel says nothing. Raises ArgumentError for an
    unknown rung and Mismatch for one that is wrong.
    """
    make, usual = PROBLEMS[op]
    target = torch.device(device)
    lib = native.library(op, target.type)
    chosen = [lib.rung(name) for name in rungs] or [
        r
        for r in lib.rungs
        if target.type in r.targets
        and (target.type == "cuda" or "cuda" not in r.targets)
    ]
    for rung in chosen:
        check_rung(lib, rung)
    found = []
    for size in sizes or usual:
        found += _side_by_side(op, make(size, target), chosen, target, samples)
    return found


def _side_by_side(op, problem, rungs, device, samples) -> list[dict[str, Any]]:
    inputs = problem.inputs
    contenders = {
        r.name: lambda r=r: problem.ours(*inputs, rung=r.name) for r in rungs
    } | {"torch": lambda: problem.torch(*inputs)}
    with precision("fp32"):
        errors = {name: _error(problem, call) for name, call in contenders.items()}
        calls = _calls(contenders["torch"], device)
        blocks = {name: _repeat(call) for name, call in contenders.items()}
        sizes = dict.fromkeys(blocks, calls)
        timings = bench.in_rounds(blocks, sizes, device, rounds=samples)
    precisions = {r.name: r.precision for r in rungs} | {"torch": "fp32"}
    peer = timings["torch"].median
    return [
        {
            **{"op": op, "impl": "torch" if name == "torch" else "weft"},
            "rung": "eager" if name == "torch" else name,
            "precision": precisions[name],
            **{"target": device.type, "device": bench.device_name(device)},
            **timing.row(),
            **problem.sizes,
            "gbs": problem.bytes / timing.median / 1e3,
            "tflops": problem.flop / timing.median / 1e6 or None,
            "error": errors[name],
            "vs_torch": peer / timing.median,
        }
        for name, timing in timings.items()
    ]


def _error(problem: Problem, call: Callable[[], torch.Tensor]) -> float:
    """The largest difference from float64, over the largest number there."""
    wide = [t.double() if t.is_floating_point() else t for t in problem.inputs]
    want = problem.torch(*wide)
    return float((call().double() - want).abs().max() / want.abs().max())


def _repeat(call: Callable[[], object]) -> Callable[[int], None]:
    def run(times: int) -> None:
        for _ in range(times):
            call()

    return run


def _calls(call: Callable[[], object], device: torch.device) -> int:
    """How many calls make a sample of about 2 ms, at most 200."""
    once = bench.time_call(call, device, samples=5).median
    return max(1, min(200, int(2000 / once)))


# ---- problems ----------------------------------------------------------------


def _relu(size: int, device: torch.device) -> Problem:
    x = torch.randn(size, device=device)
    return Problem(
        {"count": size},
        *((x,), ops.relu, F.relu),
        *(0.0, 8.0 * size),
    )


def _conv2d(size: int, device: torch.device) -> Problem:
    """The second convolution of the CNN, `size` images."""
    x = torch.randn(size, 32, 14, 14, device=device)
    weight, bias = torch.randn(64, 32, 3, 3, device=device), torch.randn(64).to(device)
    return Problem(
        {"batch": size, "ic": 32, "h": 14, "w": 14, "oc": 64, "kh": 3, "kw": 3},
        (x, weight, bias),
        *(partial(conv, padding=1) for conv in (ops.conv2d, F.conv2d)),
        2.0 * size * 64 * 196 * 288,
        4.0 * (x.numel() + weight.numel() + size * 64 * 196),
    )


def _batchnorm2d(size: int, device: torch.device) -> Problem:
    x = torch.randn(size, 32, 28, 28, device=device)
    weight, bias = (torch.randn(32, device=device) for _ in range(2))
    return Problem(
        {"batch": size, "c": 32, "h": 28, "w": 28},
        (x, weight, bias),
        ops.batchnorm2d,
        lambda x, weight, bias: F.batch_norm(x, None, None, weight, bias, True),
        *(0.0, 8.0 * x.numel()),
    )


def _maxpool2d(size: int, device: torch.device) -> Problem:
    x = torch.randn(size, 32, 28, 28, device=device)
    return Problem(
        {"batch": size, "c": 32, "h": 28, "w": 28, "kh": 2, "kw": 2},
        (x,),
        partial(ops.maxpool2d, kernel_size=2),
        lambda x: F.max_pool2d(x, 2, return_indices=True)[0],
        *(0.0, 6.0 * x.numel()),  # y and argmax are a quarter each
    )


def _linear(size: int, device: torch.device) -> Problem:
    x, weight = torch.randn(size, 3136).to(device), torch.randn(128, 3136).to(device)
    bias = torch.randn(128, device=device)
    return Problem(
        {"batch": size, "in": 3136, "out": 128},
        *((x, weight, bias), ops.linear, F.linear),
        2.0 * size * 3136 * 128,
        4.0 * (x.numel() + weight.numel() + size * 128),
    )


def _cross_entropy(size: int, device: torch.device) -> Problem:
    logits = torch.randn(size, 10, device=device)
    target = torch.randint(0, 10, (size,), device=device)
    return Problem(
        {"batch": size, "classes": 10},
        *((logits, target), ops.cross_entropy, F.cross_entropy),
        *(0.0, 88.0 * size),
    )


# What a problem's sizes may be called, in the order a table shows them.
SIZES = (*("count", "batch", "m", "n", "k", "c", "ic", "h", "w", "oc", "kh", "kw"),
         *("in", "out", "classes"))  # fmt: skip

# op -> how a problem is made from one number, and the usual numbers.
PROBLEMS: dict[str, tuple[Callable[..., Problem], Sequence[int]]] = {
    "batchnorm2d": (_batchnorm2d, (64, 256)),
    "conv2d": (_conv2d, (64, 256)),
    "cross_entropy": (_cross_entropy, (64, 1024)),
    "linear": (_linear, (64, 256)),
    "maxpool2d": (_maxpool2d, (64, 256)),
    "relu": (_relu, (2**10, 2**16, 2**22)),
}
