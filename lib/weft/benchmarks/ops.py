"""An op's rungs side by side with PyTorch's, interleaved, each checked first.

python -m weft bench conv2d --sizes 64,256 --rungs reference
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from ..mnist.twin import precision
from ..ops.cases import OPS, cases_file
from ..ops.check import check_rung
from ..timing import device_name, in_rounds, time_call
from ..toolchain import native

# What each row has; what else it has are the sizes of its problem.
COLUMNS = {
    *("op", "impl", "rung", "precision", "target", "device", "timer"),
    *("us", "us_low", "us_high", "us_mean", "gbs", "tflops", "error", "vs_torch"),
}


@dataclass(frozen=True)
class SizedProblem:
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
    there = [r for r in lib.rungs if target.type in r.targets]
    plain = [r for r in there if r.targets == (target.type,) or target.type == "cuda"]
    chosen = [lib.rung(name) for name in rungs] or plain
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
        errors = {
            name: _measure_error(problem, call) for name, call in contenders.items()
        }
        calls = _count_calls(contenders["torch"], device)
        blocks = {name: _repeat(call) for name, call in contenders.items()}
        sizes = dict.fromkeys(blocks, calls)
        timings = in_rounds(blocks, sizes, device, rounds=samples)
    precisions = {r.name: r.precision for r in rungs} | {"torch": "fp32"}
    peer = timings["torch"].median
    return [
        {
            **{"op": op, "impl": "torch" if name == "torch" else "weft"},
            "rung": "eager" if name == "torch" else name,
            "precision": precisions[name],
            **{"target": device.type, "device": device_name(device)},
            **timing.row(),
            **problem.sizes,
            "gbs": problem.bytes / timing.median / 1e3,
            "tflops": problem.flop / timing.median / 1e6 or None,
            "error": errors[name],
            "vs_torch": peer / timing.median,
        }
        for name, timing in timings.items()
    ]


def _measure_error(problem: SizedProblem, call: Callable[[], torch.Tensor]) -> float:
    """The largest difference from float64, over the largest number there."""
    wide = [t.double() if t.is_floating_point() else t for t in problem.inputs]
    want = problem.torch(*wide)
    return float((call().double() - want).abs().max() / want.abs().max())


def _repeat(call: Callable[[], object]) -> Callable[[int], None]:
    def run(times: int) -> None:
        for _ in range(times):
            call()

    return run


def _count_calls(call: Callable[[], object], device: torch.device) -> int:
    """How many calls make a sample of about 2 ms, at most 200."""
    once = time_call(call, device, samples=5).median
    return max(1, min(200, int(2000 / once)))


# ---- problems ----------------------------------------------------------------


def _load_problem(op: str, size: int, device: torch.device) -> SizedProblem:
    """What the op's cases file has it timed with, in one size."""
    of, bench = cases_file(op).OP, cases_file(op).BENCH
    sizes = {bench.size: size, **bench.others}
    inputs = of.draw(sizes, device)
    arrays = [x for x in inputs if isinstance(x, torch.Tensor)]
    options = inputs[len(arrays) :]
    return SizedProblem(
        *(sizes, arrays),
        lambda *given, rung: of.run([*given, *options], rung),
        lambda *given: of.twin(*given, *options),
        *(bench.flop(sizes), of.count_bytes(sizes)),
    )


# op -> how a problem is made from one number, and the usual numbers.
PROBLEMS: dict[str, tuple[Callable[..., SizedProblem], Sequence[int]]] = {
    op: (partial(_load_problem, op), cases_file(op).BENCH.usual)
    for op in OPS
    if hasattr(cases_file(op), "BENCH")
}
