"""Time the launch of a kernel from Python: `python -m weft bench launch`.

The kernel takes five arrays and three numbers and does almost no work. All times are
host times. `burst` times a few launches until the last one is queued, before the GPU
finishes them. This is the cost of Python alone. `loop` times many launches and one wait
at the end. Its time per launch is therefore never shorter than the GPU's.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch

from .. import cells as jit
from ..base.device import parse_device
from ..cells.arguments import Binder
from ..cells.gpu import driver, launch
from ..cells.gpu import loader as gpu
from ..csource import signature
from ..timing import device_name
from ..timing.clocks import HostTimer, WallTimer
from ..timing.race import Contender, race
from ..timing.results import first_line
from . import say

SAMPLES, BURST, LOOP = 200, 50, 2000
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
    """Time our launches on the CPU and, if there is a GPU, our and the peers' launches.

    Raises RuntimeError if a contender computes a wrong result.
    """
    ours = _make_contender("weft", "load_cuda", _make_ours("cpu"))
    results = _compare("cpu", [ours], samples)
    if torch.cuda.is_available():
        contenders = [
            _make_contender("weft", "load_cuda", _make_ours("cuda")),
            _make_contender("driver", "cuLaunchKernelEx", _make_driver_call()),
            _make_contender("torch", "add, out=", _make_torch_call(), 3),
        ]
        for *name, make in (
            ("cupy", "RawKernel", _make_cupy_call),
            ("numba", "jit", _make_numba_call),
        ):
            try:
                contenders.append(_make_contender(*name, make()))
            except Exception as error:  # a package is missing, or needs another CUDA
                say(f"absent: {name[0]}: {first_line(error)}")
        results += _compare("cuda", contenders, samples)
    return results


def note(rows: list[dict[str, Any]]) -> str:
    """Return the text below the table."""
    lines = []
    for row in rows:
        if (row["impl"], row["rung"].split()[0]) == ("weft", "burst"):
            lines.append(f"{row['target']}: {row['us']:.2f} us a launch")
    return "\n".join(lines)


def _compare(
    target: str, contenders: list[Contender], samples: int
) -> list[dict[str, Any]]:
    """Time contenders in turn, sample by sample, so that noise affects all alike."""
    where = parse_device(target)
    shapes = {
        "burst": (BURST, HostTimer(where), samples),
        "loop": (LOOP, WallTimer(where), max(1, samples // 10)),
    }
    results = []
    for how, (launches, clock, rounds) in shapes.items():
        for contender in contenders:
            # On a CPU, a launch runs the kernel, so fewer calls are enough.
            contender.calls = launches if target == "cuda" else BURST
        discard = int(rounds > 1)  # the first round is a warm-up
        by_impl = {contender.row["impl"]: contender for contender in contenders}
        options = {"rounds": rounds - discard, "discard": discard}
        timed = race(by_impl, where, clock, **options)
        for impl, contender in by_impl.items():
            timing = timed[impl].timing
            row = {
                **{"op": "launch", "impl": impl},
                **{"rung": f"{how} {contender.row['rung']}", "precision": "fp32"},
                **{"target": target, "device": device_name(target), **timing.row()},
                **contender.facts,
            }
            for peer in PEERS if impl == "weft" else ():
                theirs = timed[peer].us if peer in timed else None
                row[f"vs_{peer}"] = theirs and theirs / timing.median
            results.append(row)
    return results


# ---- the contenders -----------------------------------------------------------


def _make_contender(impl: str, rung: str, call: Call, arguments: int = 8) -> Contender:
    row, facts = {"impl": impl, "rung": rung}, {"arguments": arguments}
    return Contender(call=call, row=row, facts=facts, lead=False)


def _make_arguments(target: str) -> list[Any]:
    generator = torch.Generator().manual_seed(0)
    a, b, c = (torch.randn(N, generator=generator).to(target) for _ in range(3))
    index = torch.arange(N, dtype=torch.int32).flip(0).to(target)
    return [torch.full((N,), torch.nan, device=target), a, b, c, index, 0.5, N, 3]


def _check_call(call: Call, arguments: list[Any]) -> Call:
    """Call `call` once, check its result, and return it."""
    out, a, b, c, index, scale, _, offset = arguments
    call()
    want = scale * a.double() + b.double() * c.double()[index.long()] + offset
    if not (out.double() - want).abs().max().item() < 1e-5:
        raise RuntimeError(f"a contender computed a wrong result: {out.tolist()}")
    return call


def _make_ours(target: str) -> Call:
    arguments = _make_arguments(target)
    kernel = jit.load_cuda(SOURCE, target=target, name="bench launch").eight
    o, a, b, c, i, scale, n, offset = arguments
    return _check_call(lambda: kernel[1, N](o, a, b, c, i, scale, n, offset), arguments)


def _make_driver_call() -> Call:
    """Return a call of the C function with prepared arguments: Python's minimum."""
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

    # `keep` prevents Python from freeing the arguments.
    def call(keep: Any = (room, compiled, arguments)) -> None:
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
    kernel_arguments = (*arrays, *numbers)
    return _check_call(lambda: kernel((1,), (N,), kernel_arguments), arguments)


def _make_numba_call() -> Call:
    from numba import cuda

    @cuda.jit
    def eight(out, a, b, c, index, scale, n, offset):
        i = cuda.grid(1)
        if i < n:
            out[i] = scale * a[i] + b[i] * c[index[i]] + offset

    arguments = _make_arguments("cuda")
    arrays = [cuda.as_cuda_array(tensor) for tensor in arguments[:5]]
    kernel_arguments = (*arrays, *arguments[5:])
    warnings.filterwarnings("ignore", "Grid size", module="numba")
    return _check_call(lambda: eight[1, N](*kernel_arguments), arguments)
