"""The same work in Python, NumPy, Numba, C and PyTorch: `python -m weft bench bodies`.

Grey values of an image and two matrix products, by loops, by the Python bodies on
each of their runners, by the lab's own op and by the libraries. With --device cuda
Numba, C and PyTorch work on the GPU: the time is that of the kernel alone, from a CUDA
graph of many launches, and host_us is what a launch costs Python. Whatever takes too
long here runs a part of the rows, or of the blocks (`part` says which share), and is
scaled up.

--sizes 5x784x10,512x512x512,786432: m x k x n of a product, or the pixels of an image.
"""

from __future__ import annotations

import argparse
import functools
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from .. import ops
from ..mnist.twin import precision
from ..ops.cases import sum_bound
from ..pykernel import bodies
from ..pykernel.numba import numba_jit, on_gpu
from ..pykernel.sim import sim
from ..pykernel.to_cuda.cuda_c import cuda_c
from ..timing import Timing, device_name, time_call
from ..toolchain import native

Call = Callable[[], torch.Tensor]
_in_c = functools.cache(cuda_c)  # compiled once
Part = slice | tuple[slice, ...]
Shape = tuple[Any, Any]  # grid, block
SIZES = ("786432", "5x784x10", "512x512x512")
SHOWN = ["op", "impl", "rung", "m", "k", "n", "us", "us_low", "us_high", "host_us"]
SHOWN += ["error", "vs_torch"]
WEIGHTS = (0.2989, 0.587, 0.114)  # of red, green and blue, as bodies.grey has them
LAUNCHES = 20  # in one graph
BURST = 50  # launches in a row, for the host's time
PATIENCE = 1.0  # seconds that one contender is timed, about
LOOPS = 1 << 20  # multiplications that Python does by loops
SIMULATED = 1 << 20  # accesses that the simulator is given
HANGS = 300.0  # seconds for a simulated block: a busy machine is slow, not stuck
SIMULATED_THREADS = 1024  # and the threads that Numba's simulator is


@dataclass
class BodyRunner:
    """One way to do the work. call() does it and returns the result, on any device.

    scale: the time is multiplied by this, as only a part is done; part: its index in
    the result. host: it works on the host, also where the others have a GPU.
    """

    impl: str
    rung: str
    call: Call
    scale: float = 1.0
    part: Part = field(default_factory=lambda: slice(None))
    host: bool = False


@dataclass
class Workload:
    """What is to be done: its sizes, its inputs, the float64 answer, its bound."""

    op: str
    sizes: dict[str, int]
    inputs: tuple[torch.Tensor, ...]
    want: torch.Tensor
    bound: torch.Tensor
    contenders: Callable[[Workload], Iterator[BodyRunner]]

    def out(self) -> torch.Tensor:
        """A place for the result, with NaN in it."""
        shape, device = self.want.shape, self.inputs[0].device
        return torch.full(shape, torch.nan, device=device)


def rows_of(args: argparse.Namespace) -> list[dict[str, Any]]:
    """The rows for the options of the command line."""
    sizes = [size for size in args.sizes.split(",") if size] or SIZES
    return rows(args.device, sizes)


def rows(
    device: str = "cpu", sizes: Sequence[str] = SIZES, patience: float = PATIENCE
) -> list[dict[str, Any]]:
    """Check and time every contender. sizes: "MxKxN" of a product, "N" pixels.

    Raises ValueError for other sizes and RuntimeError for a wrong result.
    """
    found = []
    for text in sizes:
        works = [_make_work(text, torch.device(device))]
        if works[0].inputs[0].is_cuda:
            works.insert(0, _make_work(text, torch.device("cpu")))
        with precision("fp32"):
            rows = [
                row for work in works for row in _measure(work, works[-1], patience)
            ]
        (torchs,) = [row["us"] for row in rows if row["impl"] == "torch"]
        found += [{**row, "vs_torch": torchs / row["us"]} for row in rows]
    return found


def note(rows: list[dict[str, Any]]) -> str:
    """What stands under the table."""
    timers = {f"{row['timer']} on {row['device']}": None for row in rows}
    return f"fp32; {', '.join(timers)}"


# ---- measuring ------------------------------------------------------------------


def _measure(work: Workload, last: Workload, patience: float) -> list[dict[str, Any]]:
    """The rows of all contenders; where `last` is another one, of the host's only."""
    found = []
    device = work.inputs[0].device
    for one in work.contenders(work):
        if work is not last and not one.host:
            continue
        try:
            error = _measure_error(work, one)
        except (ImportError, NotImplementedError) as missing:
            print(f"weft: without {one.impl} {one.rung}: {missing}", file=sys.stderr)
            continue
        timing, host = _time(one, device, patience)
        row = {
            **{"op": work.op, "impl": one.impl, "rung": one.rung, "precision": "fp32"},
            **{"target": device.type, "device": device_name(device)},
            **timing.row(),
            **work.sizes,
            **{"host_us": host, "error": error},
        }
        if one.scale != 1:
            row["part"] = 1 / one.scale
        found.append(row)
    return found


def _measure_error(work: Workload, one: BodyRunner) -> float:
    """The largest difference from float64 over the largest number, if all are right."""
    want, bound = work.want[one.part], work.bound[one.part]
    off = (one.call().double().cpu().reshape(want.shape) - want).abs()
    if (bad := ~(off <= bound)).any():
        raise RuntimeError(
            f"{one.impl} {one.rung} is wrong: {int(bad.sum())} of {bad.numel()} "
            f"numbers of {work.op} are further from float64 than float32 may round"
        )
    return float(off.max() / want.abs().max())


def _time(
    one: BodyRunner, device: torch.device, patience: float
) -> tuple[Timing, float | None]:
    """The time of a call, and on a GPU also the host's time for one."""
    if device.type == "cuda":
        return _on_gpu(one.call, device)
    once = _parse_seconds(one.call)
    calls = max(1, int(0.002 / once))
    samples = int(min(20, max(1, patience / (once * calls))))
    timing = time_call(one.call, device, samples, calls, warmup=0)
    return _scale_timing(timing, one.scale), None


def _on_gpu(call: Call, device: torch.device) -> tuple[Timing, float]:
    bursts = []
    for _ in range(20):
        torch.cuda.synchronize()
        start = time.perf_counter_ns()
        for _ in range(BURST):
            call()
        bursts.append((time.perf_counter_ns() - start) / 1e3 / BURST)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(LAUNCHES):
            call()
    timing = time_call(graph.replay, device, samples=30)
    timing = replace(timing, timer=f"{timing.timer}, graph of {LAUNCHES}")
    return _scale_timing(timing, 1 / LAUNCHES), float(np.median(bursts))


def _scale_timing(timing: Timing, scale: float) -> Timing:
    """A timing of so many times the work."""
    names = ("median", "low", "high", "mean")
    return replace(timing, **{name: getattr(timing, name) * scale for name in names})


def _parse_seconds(call: Call) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


# ---- the work -------------------------------------------------------------------


def _make_work(text: str, device: torch.device) -> Workload:
    try:
        sizes = [int(size) for size in text.split("x")]
    except ValueError:
        sizes = []
    if len(sizes) not in (1, 3) or min(sizes) < 1:
        raise ValueError(f"--sizes {text}: want MxKxN or a number of pixels")
    generator = torch.Generator().manual_seed(0)
    if len(sizes) == 1:
        x = torch.rand(3, sizes[0], generator=generator)
        want = (x.double() * torch.tensor(WEIGHTS, dtype=torch.double)[:, None]).sum(0)
        bound = sum_bound(
            4, want
        )  # three products and, of the weights, a rounding more
        return Workload(
            "grey", {"n": sizes[0]}, (x.to(device),), want, bound, _make_grey
        )
    m, k, n = sizes
    a, b = (torch.randn(size, generator=generator) for size in ((m, k), (k, n)))
    bound = sum_bound(k, a.double().abs() @ b.double().abs())
    return Workload(
        *("matmul", {"m": m, "n": n, "k": k}, (a.to(device), b.to(device))),
        *(a.double() @ b.double(), bound, _make_matmul),
    )


def grey_loops(y, x, n, rows):
    """Grey values of the first `rows` of n pixels, by a loop."""
    for i in range(rows):
        y[i] = 0.2989 * x[i] + 0.587 * x[n + i] + 0.114 * x[2 * n + i]


def matmul_loops(c, a, b, n, k, rows):
    """The first `rows` rows of c = a @ b, by three loops."""
    for row in range(rows):
        for col in range(n):
            total = 0.0
            for i in range(k):
                total += a[row * k + i] * b[i * n + col]
            c[row * n + col] = total


def _make_grey(work: Workload) -> Iterator[BodyRunner]:
    (x,), n = work.inputs, work.sizes["n"]
    device = x.device
    grid, block = bodies.blocks_for(n), bodies.THREADS
    if device.type == "cpu":
        rows = min(n, LOOPS)
        yield from _make_loops(grey_loops, (x,), (n, rows), rows, n / rows)
        weights, planes = np.array(WEIGHTS, np.float32), x.numpy()
        yield _make_numpy(lambda: weights @ planes)
        yield from _make_simulated(work, bodies.grey, (grid, block), (x.view(-1), n), 4)
    yield from _make_compiled(work, bodies.grey, "", (grid, block), (x.view(-1), n))
    weights = torch.tensor(WEIGHTS, device=device)
    yield BodyRunner("torch", "@", lambda: weights @ x)


def _make_matmul(work: Workload) -> Iterator[BodyRunner]:
    (a, b), (m, n, k) = work.inputs, work.sizes.values()
    side = bodies.TILE
    shape = (-(-n // side), -(-m // side)), (side, side)
    given = a.view(-1), b.view(-1), m, n, k
    if a.device.type == "cpu":
        rows = min(m, -(-LOOPS // (n * k)))
        yield from _make_loops(matmul_loops, (a, b), (n, k, rows), rows, m / rows)
        an, bn = a.numpy(), b.numpy()
        yield _make_numpy(lambda: an @ bn)
        yield from _make_simulated(work, bodies.matmul, shape, given, 2 * k)
    yield from _make_compiled(work, bodies.matmul, "", shape, given)
    yield from _make_compiled(work, bodies.matmul_tiled, " tiled", shape, given)
    lib = native.library("matmul", a.device.type)
    on_cpu = [lib.rung()]  # there the time of a CUDA kernel says nothing
    on_cuda = [r for r in lib.rungs if "cuda" in r.targets and r.precision == "fp32"]
    for rung in on_cpu if a.device.type == "cpu" else on_cuda:
        name = rung.name
        yield BodyRunner("weft", name, lambda name=name: ops.matmul(a, b, rung=name))
    yield BodyRunner("torch", "@", lambda: torch.mm(a, b))


def _make_numpy(compute: Callable[[], np.ndarray]) -> BodyRunner:
    return BodyRunner("numpy", "@", lambda: torch.from_numpy(compute()), host=True)


def _make_loops(
    loops: Callable[..., None],
    inputs: Sequence[torch.Tensor],
    sizes: tuple[int, ...],
    rows: int,
    scale: float,
) -> Iterator[BodyRunner]:
    """Loops in Python over lists, and the same compiled by Numba for the CPU."""
    lists = [tensor.flatten().tolist() for tensor in inputs]
    flat = [tensor.flatten().numpy() for tensor in inputs]
    count = rows * (sizes[0] if len(sizes) == 3 else 1)

    def python() -> torch.Tensor:
        out = [0.0] * count
        loops(out, *lists, *sizes)
        return torch.tensor(out)

    def njit() -> torch.Tensor:
        out = np.full(round(count * scale), np.nan, np.float32)
        _compile_njit(loops)(out, *flat, *sizes[:-1], round(rows * scale))
        return torch.from_numpy(out)

    yield BodyRunner("python", "loops", python, scale, slice(0, rows), host=True)
    yield BodyRunner("numba", "loops, njit", njit, host=True)


@functools.cache
def _compile_njit(loops: Callable[..., None]) -> Any:
    import numba  # late: it takes a second

    return numba.njit(loops)


def _make_simulated(
    work: Workload, body: Any, shape: Shape, given: tuple[Any, ...], accesses: int
) -> Iterator[BodyRunner]:
    """The body on the lab's simulator; accesses: to memory, of one thread."""
    shape, part, scale = _some_blocks(work, shape, SIMULATED // accesses)

    def call(checks: bool, out: torch.Tensor) -> torch.Tensor:
        runner = sim(body, checks=checks, quiet=True, timeout=HANGS)
        runner[shape](out.view(-1), *given)
        return out[part]

    for name, checks in ("sim", True), ("sim, no checks", False):
        call_it = functools.partial(call, checks, work.out())
        yield BodyRunner("weft", name, call_it, scale, part, host=True)


def _some_blocks(
    work: Workload, shape: Shape, threads: int
) -> tuple[Shape, Part, float]:
    """The first blocks of a launch, so many that they have about `threads` threads.

    At least one block; also what of the result is theirs, and how many times as much
    the whole is.
    """
    (blocks, *rows), (side, *sides) = (np.atleast_1d(each) for each in shape)
    rows, sides = int(rows[0]) if rows else 1, int(sides[0]) if sides else 1
    most = max(1, threads // int(side * sides))
    rows_of_blocks = max(1, min(rows, most // int(blocks)))
    columns = int(blocks) if most >= blocks else most
    done = (slice(0, rows_of_blocks * sides), slice(0, columns * int(side)))
    part = done[1] if work.want.dim() == 1 else done
    scale = work.want.numel() / work.want[part].numel()
    block = shape[1]
    return ((columns, rows_of_blocks), block), part, scale


def _make_compiled(
    work: Workload, body: Any, what: str, shape: Shape, given: tuple[Any, ...]
) -> Iterator[BodyRunner]:
    """The body by numba_jit, on whatever it runs on, and by cuda_c."""
    mine, other = work.out(), work.out()
    flat, flat_other = mine.view(-1), other.view(-1)
    on_simulator = not on_gpu() or mine.device.type == "cpu"
    launch, part, scale = shape, slice(None), 1.0
    if on_simulator:
        launch, part, scale = _some_blocks(work, shape, SIMULATED_THREADS)

    def by_numba() -> torch.Tensor:
        kernel[launch](flat, *given)
        return mine[part]

    def by_c() -> torch.Tensor:
        _in_c(body)[shape](flat_other, *given)
        return other

    if not (on_simulator and what):  # there a barrier takes as long as a thread
        kernel = numba_jit(body)
        name = "its simulator" if on_simulator else "numba_jit"
        yield BodyRunner("numba", name + what, by_numba, scale, part)
    yield BodyRunner("weft", "cuda_c" + what, by_c)
