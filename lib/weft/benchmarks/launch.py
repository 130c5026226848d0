"""What it costs to launch a kernel from Python: `python -m weft bench launch`.

The kernel has eight parameters, five arrays and three numbers, and next to nothing
to do. The clock is the host's. `burst`: few launches, and the clock stops when the
last one is queued, before the GPU has caught up: Python's own cost. `loop`: many
launches and one wait at the end, so never less than the GPU itself needs for one.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from .. import cells as jit
from ..cells.arguments import Binder
from ..cells.gpu import driver, launch
from ..cells.gpu import loader as gpu
from ..csource import signature
from ..timing import device_name, summarize
from ..timing.clocks import WallTimer

SAMPLES, BURST, LOOP = 200, 50, 2000
GOAL = 6.0  # us, ours in a burst on a GPU, at most
PEERS = ("driver", "torch", "cupy", "numba")
SHOWN = ["impl", "rung", "target", "arguments", "us", "us_low", "us_high"]
SHOWN += [f"vs_{peer}" for peer in PEERS]
N = 32

SOURCE = """
__global__ void eight(float *out, const float *a, const float *b, const float *c,
                      const int *index, float scale, int n, int offset) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = scale * a[i] + b[i] * c[index[i]] + offset;
}
"""

Call = Callable[[], object]


def rows(samples: int = SAMPLES) -> list[dict[str, Any]]:
    """Time launches on the CPU and, where there is one, on the GPU beside peers'.

    Raises RuntimeError if a contender computes something else.
    """
    found = _compare("cpu", {"weft": (_make_ours("cpu"), "load_cuda", 8)}, samples)
    if torch.cuda.is_available():
        contenders = {"weft": (_make_ours("cuda"), "load_cuda", 8)}
        contenders["driver"] = (_make_driver_call(), "cuLaunchKernelEx", 8)
        contenders["torch"] = (_make_torch_call(), "add, out=", 3)
        for name, make in (("cupy", _make_cupy_call), ("numba", _make_numba_call)):
            try:
                contenders[name] = (make(), "RawKernel" if name == "cupy" else "jit", 8)
            except Exception as error:  # not installed, or of another CUDA release
                first = (str(error).splitlines() or [type(error).__name__])[0]
                print(f"weft: without {name}: {first}", file=sys.stderr)
        found += _compare("cuda", contenders, samples)
    return found


def note(rows: list[dict[str, Any]]) -> str:
    """What stands under the table."""
    lines = []
    for row in rows:
        if (row["impl"], row["rung"].split()[0]) == ("weft", "burst"):
            goal = f"; at most {GOAL:.0f} us wanted" * (row["target"] == "cuda")
            lines.append(f"{row['target']}: {row['us']:.2f} us a launch{goal}")
    return "\n".join(lines)


def _compare(
    target: str, contenders: dict[str, tuple[Call, str, int]], samples: int
) -> list[dict[str, Any]]:
    """Each in turn, sample by sample, so that all see the same machine."""
    times: dict[tuple[str, str], list[float]] = {}
    shapes = {"burst": (BURST, False), "loop": (LOOP, True)}
    for how, (launches, waits) in shapes.items():
        # On a CPU a launch computes: there is no queue, and no need for so many.
        launches = launches if target == "cuda" else BURST
        for sample in range(samples if how == "burst" else max(1, samples // 10)):
            for name, (call, _, _) in contenders.items():
                us = _sample(call, target, launches, waits)
                if sample or samples == 1:  # the first one warms up
                    times.setdefault((how, name), []).append(us)
    found = []
    for (how, name), values in times.items():
        _, rung, count = contenders[name]
        timing = summarize(values, WallTimer.name)
        row = {
            **{"op": "launch", "impl": name, "rung": f"{how} {rung}"},
            **{"precision": "fp32", "target": target},
            **{"device": device_name(target), **timing.row()},
            "arguments": count,
        }
        for peer in PEERS if name == "weft" else ():
            theirs = np.median(times.get((how, peer), np.nan))
            row[f"vs_{peer}"] = None if np.isnan(theirs) else theirs / timing.median
        found.append(row)
    return found


def _sample(call: Call, target: str, launches: int, waits: bool) -> float:
    """Microseconds of host time a launch."""
    if target == "cuda":
        torch.cuda.synchronize()
    start = time.perf_counter_ns()
    for _ in range(launches):
        call()
    if waits and target == "cuda":
        torch.cuda.synchronize()
    taken = time.perf_counter_ns() - start
    if target == "cuda":
        torch.cuda.synchronize()
    return taken / 1e3 / launches


# ---- the contenders -----------------------------------------------------------


def _make_arguments(target: str) -> list[Any]:
    generator = torch.Generator().manual_seed(0)
    a, b, c = (torch.randn(N, generator=generator).to(target) for _ in range(3))
    index = torch.arange(N, dtype=torch.int32).flip(0).to(target)
    return [torch.full((N,), torch.nan, device=target), a, b, c, index, 0.5, N, 3]


def _check_call(call: Call, arguments: list[Any]) -> Call:
    """`call`, once it has been seen to compute the right thing."""
    out, a, b, c, index, scale, _, offset = arguments
    call()
    want = scale * a.double() + b.double() * c.double()[index.long()] + offset
    if not (out.double() - want).abs().max().item() < 1e-5:
        raise RuntimeError(f"a contender computes {out.tolist()}")
    return call


def _make_ours(target: str) -> Call:
    arguments = _make_arguments(target)
    kernel = jit.load_cuda(SOURCE, target=target, name="bench launch").eight
    o, a, b, c, index, scale, n, offset = arguments
    return _check_call(
        lambda: kernel[1, N](o, a, b, c, index, scale, n, offset), arguments
    )


def _make_driver_call() -> Call:
    """The C function with everything prepared: what no Python can be faster than."""
    (eight,) = signature.parse(SOURCE)
    compiled = gpu.compile(SOURCE, "bench driver", expressions=["eight"])
    function = compiled.function("eight", compiled.device)
    arguments = _make_arguments("cuda")
    binder = Binder("eight", eight.params)
    addresses = [tensor.data_ptr() for tensor in arguments[:5]]
    packed, offsets = binder.pack(binder.bind(arguments), addresses)
    plan = launch.LaunchPlan(function, (1, 1, 1), (N, 1, 1), 0)
    room = launch.Room(plan, len(packed), offsets)
    room.fill(packed)
    launched = driver.open_library().cuLaunchKernelEx
    configuration, table = room.configuration, room.table

    def call(held: Any = (room, compiled, arguments)) -> None:
        launched(configuration, function, table, 0)

    return _check_call(call, arguments)


def _make_torch_call() -> Call:
    _, a, b, *_ = _make_arguments("cuda")
    out = torch.empty_like(a)
    return lambda: torch.add(a, b, out=out)


def _make_cupy_call() -> Call:
    import cupy

    arguments = _make_arguments("cuda")
    arrays = [cupy.asarray(tensor) for tensor in arguments[:5]]
    code = SOURCE.replace("__global__", 'extern "C" __global__')
    kernel = cupy.RawKernel(code, "eight")
    numbers = (cupy.float32(0.5), cupy.int32(N), cupy.int32(3))
    given = (*arrays, *numbers)
    return _check_call(lambda: kernel((1,), (N,), given), arguments)


def _make_numba_call() -> Call:
    from numba import cuda

    @cuda.jit
    def eight(out, a, b, c, index, scale, n, offset):
        i = cuda.grid(1)
        if i < n:
            out[i] = scale * a[i] + b[i] * c[index[i]] + offset

    arguments = _make_arguments("cuda")
    arrays = [cuda.as_cuda_array(tensor) for tensor in arguments[:5]]
    given = (*arrays, *arguments[5:])
    warnings.filterwarnings("ignore", "Grid size", module="numba")
    return _check_call(lambda: eight[1, N](*given), arguments)
