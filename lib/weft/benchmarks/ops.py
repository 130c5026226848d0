"""Check an op's rungs, then time them, PyTorch, NumPy and CUB in turn.

python -m weft bench conv2d --sizes 64,256 --rungs reference

On a GPU, PyTorch's compiled op also competes, and so do CUB's version and the op's
kernel in Triton, kernels/OP/in_triton.py, if they exist and can run there. Each
contender's calls are then in a CUDA graph, so the times exclude the host's work for a
launch. If PyTorch's host waits for a number, such as the length of the result, a graph
cannot contain its calls. Events then time PyTorch, and our rungs leave the number on
the GPU.

CUB is NVIDIA's library of such functions. nvcc compiles cub.cu with the headers of its
toolkit. Without nvcc, CUB does not compete.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..base.progress import PATIENCE, Progress
from ..mnist.twin import precision
from ..ops import in_triton
from ..ops.cases import OPS, find_op
from ..ops.check import check_rung
from ..timing import device_name, time_call
from ..timing.race import Contender, race
from ..toolchain import build, native
from ..toolchain.tools import nvcc

SLOWEST = 1.0  # seconds of timing after which a slow rung gets no more samples
BESIDE = "copy of the first input"  # name of the contender that _make_copy() returns
SAMPLE = 2000.0  # approximate microseconds of a sample on a CPU

# The keys of every row; all other keys are sizes of the row's problem.
COLUMNS = {
    *("op", "impl", "rung", "precision", "target", "device", "timer"),
    *(
        "us",
        "us_low",
        "us_high",
        "us_mean",
        "waited",
        "gbs",
        "tflops",
        "error",
        "vs_torch",
        "vs_numpy",
        "vs_cub",
        "copy_gbs",
        "of_copy",
    ),
}


@dataclass(frozen=True)
class SizedProblem:
    """One size of an op: ours(*inputs, rung=...) computes the same as torch().

    beside_copy: whether a copy of the first input is also timed. keeps_some: whether
    the data determine the length of the result; on a GPU, ours() then returns the
    memory of all possible elements. numpy: NumPy's functions by name, which take the
    inputs' arrays. torch_waits: whether PyTorch's host waits for the GPU. cub, triton:
    CUB's function and the one in Triton, without arguments, or None.
    """

    sizes: dict[str, int]
    inputs: Sequence[torch.Tensor]
    ours: Callable[..., torch.Tensor]
    torch: Callable[..., torch.Tensor]
    flop: float  # flops of the computation; 0 if they are not the limit
    # Bytes that move if each input is read once and each output written once.
    bytes: float
    beside_copy: bool = False
    keeps_some: bool = False
    torch_waits: bool = False
    numpy: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    cub: Callable[[], torch.Tensor] | None = None
    triton: Callable[[], torch.Tensor] | None = None


def rows(
    op: str,
    device: str = "cpu",
    sizes: Sequence[int] = (),
    rungs: Sequence[str] = (),
    samples: int = 20,
    compiled: bool = True,
    timer: str = "",
) -> list[dict[str, Any]]:
    """Time `op`'s rungs, PyTorch and NumPy on problems of the given sizes.

    sizes: one number per problem, as in PROBLEMS; () selects the usual ones.
    rungs: names; () selects all that run on `device`. On a CPU these are the rungs in
    plain C, since the time of a simulated CUDA kernel is meaningless. samples: the
    number per contender; a rung that reaches SLOWEST seconds gets fewer. compiled:
    whether PyTorch's compiled op also competes on a GPU. timer: "" means "graph" on a
    GPU; "event" includes the host's launches. Raises ArgumentError for an unknown rung
    and Mismatch for a wrong result.
    """
    make, usual = PROBLEMS[op]
    target = torch.device(device)
    lib = native.library(op, target.type)
    usable = [r for r in lib.rungs if target.type in r.targets]
    plain = [r for r in usable if r.targets == (target.type,) or target.type == "cuda"]
    selection = [lib.rung(name) for name in rungs] or plain
    on_gpu = target.type == "cuda"
    timer = timer or ("graph" if on_gpu else "wall")
    results = []
    steps = len(selection) + len(sizes or usual)
    with Progress(f"measuring {op}", steps, "steps", delay=PATIENCE) as job:
        for rung in selection:
            check_rung(lib, rung)
            job.update()
        for size in sizes or usual:
            problem = make(size, target)
            peers = _make_peers(problem, compiled and on_gpu)
            ours = _make_contenders(problem, selection)
            results += _race(op, problem, ours, peers, target, timer, samples)
            job.update()
    return results


def _race(op, problem, ours, peers, device, timer, samples) -> list[dict[str, Any]]:
    contenders = ours | peers
    with precision("fp32"):
        errors = {n: _measure_error(problem, c.call) for n, c in contenders.items()}
    held = 2 * problem.bytes if device.type == "cpu" else 0
    with precision("fp32"), hold_memory(held):
        if problem.beside_copy:
            contenders[BESIDE] = _make_copy(problem)
        if device.type == "cpu":
            once = time_call(peers["eager"].call, device, samples=5).median
            for one in contenders.values():
                one.calls = max(1, min(200, int(SAMPLE / once)))
        waiting = peers if problem.torch_waits and timer == "graph" else {}
        waiting = {n: c for n, c in waiting.items() if c.row["impl"] == "torch"}
        others = {n: c for n, c in contenders.items() if n not in waiting}
        results = race(others, device, timer, rounds=samples)
        if waiting:
            results |= race(waiting, device, "event", rounds=samples)
    best = {
        f"vs_{impl}": min(
            results[n].us for n, c in peers.items() if c.row["impl"] == impl
        )
        for impl in dict.fromkeys(c.row["impl"] for c in peers.values())
    }
    copy = results.pop(BESIDE, None)
    rate = 2 * problem.inputs[0].nbytes / copy.us / 1e3 if copy else 0.0
    return [
        {
            **{"op": op, **contenders[name].row},
            **{"target": device.type, "device": device_name(device)},
            **{**timed.timing.row(), **problem.sizes},
            "gbs": problem.bytes / timed.us / 1e3,
            "tflops": problem.flop / timed.us / 1e6 or None,
            "error": errors[name],
            **{versus: us / timed.us for versus, us in best.items()},
            **(_compare(problem.bytes / timed.us / 1e3, rate) if copy else {}),
        }
        for name, timed in results.items()
    ]


@contextlib.contextmanager
def hold_memory(bytes_: float) -> Iterator[None]:
    """Reuse the memory of earlier results, up to `bytes_` bytes in total.

    Otherwise, the system supplies new pages for each large result, which takes several
    times as long as an op on rows. The function works in the main thread, with glibc.
    If `bytes_` is 0, it does nothing. A GPU's memory is always reused.
    """
    libc = ctypes.CDLL(None)
    if not bytes_ or not hasattr(libc, "mallopt"):
        yield
        return
    trim_threshold, mmap_max = -1, -4  # their values in <malloc.h>
    libc.mallopt(mmap_max, 0)
    libc.mallopt(trim_threshold, 2**31 - 1)
    # Create one free block with room to spare. A block of the exact size would become
    # too small when a small array takes a piece of it.
    torch.empty(int(bytes_) + (16 << 20), dtype=torch.uint8)
    try:
        yield
    finally:
        libc.mallopt(mmap_max, 65536)  # glibc's defaults
        libc.mallopt(trim_threshold, 128 << 10)
        libc.malloc_trim(0)


def _compare(gbs: float, copy: float) -> dict[str, float]:
    """Return the columns that compare a rate with that of a copy, both in GB/s."""
    return {"copy_gbs": copy, "of_copy": gbs / copy}


def _make_copy(problem: SizedProblem) -> Contender:
    """Return a copy of the first input, or of equally many bytes, as a contender."""
    copy, x = find_op("copy").function(), problem.inputs[0]
    if x.dtype != torch.float32:
        x = torch.ones(-(-x.nbytes // 4), device=x.device)
    return Contender(call=partial(copy, x))


def _make_contenders(problem: SizedProblem, rungs: list) -> dict[str, Contender]:
    """Return our rungs as contenders, by name."""
    contenders = {}
    for rung in rungs:
        call = partial(problem.ours, *problem.inputs, rung=rung.name)
        row = {"impl": "weft", "rung": rung.name, "precision": rung.precision}
        contenders[rung.name] = Contender(call=call, row=row, limit=SLOWEST)
    return contenders


def _make_peers(problem: SizedProblem, compiled: bool) -> dict[str, Contender]:
    """Return PyTorch's op, and NumPy's (CPU) or CUB's and Triton's (GPU), by rung."""
    functions = {"eager": problem.torch}
    if compiled:
        functions["compile"] = torch.compile(problem.torch, dynamic=False)
    peers = {
        name: Contender(
            call=partial(function, *problem.inputs),
            row={"impl": "torch", "rung": name, "precision": "fp32"},
        )
        for name, function in functions.items()
    }
    for name, call in ("cub", problem.cub), ("triton", problem.triton):
        if call:
            row = {"impl": name, "rung": name, "precision": "fp32"}
            peers[name] = Contender(call=call, row=row)
    if problem.inputs[0].is_cpu:
        peers = _make_numpy_peers(problem) | peers
    return peers


def _make_numpy_peers(problem: SizedProblem) -> dict[str, Contender]:
    arrays = [x.numpy() for x in problem.inputs]

    def call(function: Callable[..., Any]) -> torch.Tensor:
        return torch.from_numpy(np.asarray(function(*arrays)))

    return {
        name: Contender(
            call=partial(call, function),
            row={"impl": "numpy", "rung": name, "precision": "fp32"},
        )
        for name, function in problem.numpy.items()
    }


def _measure_error(problem: SizedProblem, call: Callable[[], torch.Tensor]) -> float:
    """Return the largest difference from float64, divided by the largest number.

    If an op keeps only some numbers, they are sorted first. The check of the rung has
    already compared their count and order.
    """
    wide = [t.double() if t.is_floating_point() else t for t in problem.inputs]
    want, got = (_take_first(y) for y in (problem.torch(*wide), call()))
    got = got.double()
    if problem.keeps_some:
        want, got = want.sort().values, got[: len(want)].sort().values
    return float((got - want).abs().max() / want.abs().max())


def _take_first(y: torch.Tensor | tuple[torch.Tensor, ...]) -> torch.Tensor:
    """Return the first of several results, which contains the numbers."""
    return y[0] if isinstance(y, tuple) else y


# ---- problems ----------------------------------------------------------------


def _load_problem(op: str, size: int, device: torch.device) -> SizedProblem:
    """Return the problem of the given size, from the op's Bench."""
    spec = find_op(op)
    bench = spec.bench
    sizes = bench.sizes_for(size, on_gpu=device.type == "cuda")
    inputs = spec.draw(sizes, device)
    arrays = [x for x in inputs if isinstance(x, torch.Tensor)]
    options = inputs[len(arrays) :]

    def ours(*tensors: torch.Tensor, rung: str) -> torch.Tensor:
        if spec.length and device.type == "cuda":
            plan = spec.plan
            return plan.forward_whole(rung, *plan.bind([*tensors, *options]))
        return spec.run([*tensors, *options], rung)

    return SizedProblem(
        *(sizes, arrays),
        ours,
        lambda *tensors: spec.twin(*tensors, *options),
        *(bench.flop(sizes), spec.count_bytes(sizes), bench.beside_copy),
        *(bool(spec.length), bool(spec.length) or bench.torch_waits),
        {
            name: lambda *arrays, call=call: call(*arrays, *options)
            for name, call in bench.numpy.items()
        },
        make_cub_call(op, arrays, sizes.get("threshold", 0.0))
        if arrays[0].is_cuda
        else None,
        in_triton.make_call(op, inputs) if arrays[0].is_cuda else None,
    )


# For each op: the function that makes a problem of a given size, and the usual sizes.
PROBLEMS: dict[str, tuple[Callable[..., SizedProblem], Sequence[int]]] = {
    op: (partial(_load_problem, op), spec.bench.usual)
    for op in OPS
    if (spec := find_op(op)) and spec.bench
}


# ---- CUB -----------------------------------------------------------------------------

CUB_SOURCE = Path(__file__).with_name("cub.cu")
# For each op, a function that allocates CUB's outputs for an input x.
_CUB_OUTPUTS: Mapping[str, Callable[[torch.Tensor], Sequence[torch.Tensor]]] = {
    "reduce": lambda x: [x.new_empty(1)],
    "scan": lambda x: [torch.empty_like(x)],
    "compact": lambda x: [torch.empty_like(x), x.new_empty(1, dtype=torch.int64)],
    "histogram": lambda x: [x.new_empty(256, dtype=torch.int32)],
    "sort": lambda x: [torch.empty_like(x)],
}


class _CubCall(ctypes.Structure):
    """The struct cub_call of cub.cu."""

    _fields_ = [
        *(("temporary", ctypes.c_void_p), ("outputs", ctypes.c_void_p * 2)),
        *(("inputs", ctypes.c_void_p * 2), ("count", ctypes.c_int64)),
        *(("threshold", ctypes.c_float), ("stream", ctypes.c_void_p)),
    ]


def make_cub_call(
    op: str, inputs: Sequence[torch.Tensor], threshold: float = 0.0
) -> Callable[[], torch.Tensor] | None:
    """Return a function that runs CUB's version of `op` on these CUDA tensors.

    The function returns the first output; for "compact", it has the input's length.
    All calls share their temporary memory. The result is None if CUB has no such
    function, or if nvcc is missing. Raises RuntimeError if CUB reports an error.
    """
    if op not in _CUB_OUTPUTS or nvcc() is None:
        return None
    kind = f"_{inputs[0].dtype}".replace("torch.", "") if op == "sort" else ""
    function = getattr(_open_cub(), f"bench_cub_{op}{kind}")
    call = _CubCall(count=inputs[0].numel(), threshold=threshold)
    call.inputs[: len(inputs)] = [x.data_ptr() for x in inputs]
    size = ctypes.c_size_t()
    _run_cub(function, call, size)
    temporary = inputs[0].new_empty(max(1, size.value), dtype=torch.uint8)
    call.temporary = temporary.data_ptr()

    def run() -> torch.Tensor:
        outputs = _CUB_OUTPUTS[op](inputs[0])
        call.outputs[: len(outputs)] = [y.data_ptr() for y in outputs]
        call.stream = torch.cuda.current_stream(temporary.device).cuda_stream
        _run_cub(function, call, size)
        return outputs[0]

    return run


def _run_cub(
    function: Callable[..., int], call: _CubCall, size: ctypes.c_size_t
) -> None:
    if status := function(ctypes.byref(call), ctypes.byref(size)):
        raise RuntimeError(f"CUB: CUDA error {status}")


@functools.cache
def _open_cub() -> ctypes.CDLL:
    flavour = build.Flavour.here("cuda")
    return ctypes.CDLL(str(build.library_of("bench_cub", [CUB_SOURCE], flavour)))
