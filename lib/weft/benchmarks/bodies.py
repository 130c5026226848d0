"""The same work in Python, NumPy, Numba, C and PyTorch: `python -m weft bench bodies`.

The work consists of the grey values of an image and two matrix products. The contenders
are loops, the Python bodies on each of their runners, the lab's op and the libraries.
With --device cuda, Numba, C and PyTorch use the GPU. Their time then covers only the
kernel, and comes from a CUDA graph of many launches. host_us is the cost of a launch
from Python. A slow contender computes only some rows or blocks, and its time is scaled
up; `part` is the share that it computes.

--sizes 5x784x10,512x512x512,786432: m x k x n of a product, or the pixels of an image.
"""

from __future__ import annotations

import argparse
import functools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
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
from ..timing.race import Contender
from ..timing.timers import time_graph, time_host
from ..toolchain import native
from . import say

Call = Callable[[], torch.Tensor]
_compile_c = functools.cache(cuda_c)  # each body is compiled only once
Part = slice | tuple[slice, ...]
Shape = tuple[Any, Any]  # grid, block
SIZES = ("786432", "5x784x10", "512x512x512")
SHOWN = ["op", "impl", "rung", "m", "k", "n", "us", "us_low", "us_high", "host_us"]
SHOWN += ["error", "vs_torch"]
WEIGHTS = (0.2989, 0.587, 0.114)  # weights of red, green and blue, as in bodies.grey
LAUNCHES = 20  # launches in one CUDA graph
BURST = 50  # successive launches, for the host's time
PATIENCE = 1.0  # approximate seconds of timing per contender
LOOPS = 1 << 20  # multiplications in Python's loops
SIMULATED = 1 << 20  # memory accesses on the simulator
HANGS = 300.0  # time limit in seconds for a simulated block, even on a busy machine
SIMULATED_THREADS = 1024  # number of threads on Numba's simulator


@dataclass(eq=False)
class BodyRunner(Contender):
    """A contender whose call() does the work and returns the result, on any device.

    scale: factor for the time if only a part is computed; part: the part's index in the
    result. host: whether it runs on the host even if the other contenders use a GPU.
    """

    scale: float = 1.0
    part: Part = field(default_factory=lambda: slice(None))
    host: bool = False


def make_runner(impl: str, rung: str, call: Call, **more: Any) -> BodyRunner:
    """Return a BodyRunner with more fields; impl and rung identify its row."""
    return BodyRunner(call=call, row={"impl": impl, "rung": rung}, **more)


@dataclass
class Workload:
    """One problem: its op, sizes, inputs, float64 result and error bound."""

    op: str
    sizes: dict[str, int]
    inputs: tuple[torch.Tensor, ...]
    want: torch.Tensor
    bound: torch.Tensor
    contenders: Callable[[Workload], Iterator[BodyRunner]]

    def out(self) -> torch.Tensor:
        """Return an array for the result, filled with NaN."""
        shape, device = self.want.shape, self.inputs[0].device
        return torch.full(shape, torch.nan, device=device)


def rows_of(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the rows for the options of the command line."""
    sizes = [size for size in args.sizes.split(",") if size] or SIZES
    return rows(args.device, sizes)


def rows(
    device: str = "cpu", sizes: Sequence[str] = SIZES, patience: float = PATIENCE
) -> list[dict[str, Any]]:
    """Check and time every contender; return the rows.

    sizes: "MxKxN" for a product or "N" for an image of N pixels. Raises ValueError for
    other sizes and RuntimeError for a wrong result.
    """
    all_rows = []
    for text in sizes:
        works = [_make_work(text, torch.device(device))]
        if works[0].inputs[0].is_cuda:
            works.insert(0, _make_work(text, torch.device("cpu")))
        with precision("fp32"):
            rows = [r for work in works for r in _measure(work, works[-1], patience)]
        (torch_us,) = [row["us"] for row in rows if row["impl"] == "torch"]
        all_rows += [{**row, "vs_torch": torch_us / row["us"]} for row in rows]
    return all_rows


def note(rows: list[dict[str, Any]]) -> str:
    """Return the text below the table."""
    timers = {f"{row['timer']} on {row['device']}": None for row in rows}
    return f"fp32; {', '.join(timers)}"


# ---- measuring ------------------------------------------------------------------


def _measure(work: Workload, last: Workload, patience: float) -> list[dict[str, Any]]:
    """Return a row per contender; unless `work` is `last`, only host contenders run."""
    measured_rows = []
    device = work.inputs[0].device
    for contender in work.contenders(work):
        if work is not last and not contender.host:
            continue
        try:
            error = _measure_error(work, contender)
        except (ImportError, NotImplementedError) as missing:
            say(f"absent: {contender.name}: {missing}")
            continue
        timing, host = _time(contender, device, patience)
        row = {
            **{"op": work.op, **contender.row, "precision": "fp32"},
            **{"target": device.type, "device": device_name(device)},
            **{**timing.row(), **work.sizes, "host_us": host, "error": error},
        }
        if contender.scale != 1:
            row["part"] = 1 / contender.scale
        measured_rows.append(row)
    return measured_rows


def _measure_error(work: Workload, contender: BodyRunner) -> float:
    """Return the largest difference from float64, divided by the largest number.

    Raises RuntimeError if the result is wrong.
    """
    want, bound = work.want[contender.part], work.bound[contender.part]
    difference = (contender.call().double().cpu().reshape(want.shape) - want).abs()
    if (bad := ~(difference <= bound)).any():
        raise RuntimeError(
            f"{contender.name} is wrong: {int(bad.sum())} of {bad.numel()} "
            f"numbers of {work.op} differ from float64 by more than float32 rounding"
        )
    return float(difference.max() / want.abs().max())


def _time(
    one: BodyRunner, device: torch.device, patience: float
) -> tuple[Timing, float | None]:
    """Return the time of a call; on a GPU, also the host's time for a launch."""
    if device.type == "cuda":
        host = time_host(one.repeat, BURST, device, samples=20)
        return time_graph(one.call, device, launches=LAUNCHES), host
    start = time.perf_counter()
    one.call()
    once = time.perf_counter() - start
    calls = max(1, int(0.002 / once))
    samples = int(min(20, max(1, patience / (once * calls))))
    timing = time_call(one.call, device, samples, calls, warmup=0)
    return timing.scaled(one.scale), None


# ---- the work -------------------------------------------------------------------


def _make_work(text: str, device: torch.device) -> Workload:
    try:
        sizes = [int(size) for size in text.split("x")]
    except ValueError:
        sizes = []
    if len(sizes) not in (1, 3) or min(sizes) < 1:
        raise ValueError(f"--sizes {text}: expected MxKxN or a number of pixels")
    generator = torch.Generator().manual_seed(0)
    if len(sizes) == 1:
        x = torch.rand(3, sizes[0], generator=generator)
        want = (x.double() * torch.tensor(WEIGHTS, dtype=torch.double)[:, None]).sum(0)
        # Four terms: three products, and the rounded weights.
        bound = sum_bound(4, want)
        n, inputs = {"n": sizes[0]}, (x.to(device),)
        return Workload("grey", n, inputs, want, bound, _make_grey)
    m, k, n = sizes
    a, b = (torch.randn(size, generator=generator) for size in ((m, k), (k, n)))
    bound = sum_bound(k, a.double().abs() @ b.double().abs())
    sides, inputs = {"m": m, "n": n, "k": k}, (a.to(device), b.to(device))
    want = a.double() @ b.double()
    return Workload("matmul", sides, inputs, want, bound, _make_matmul)


def grey_loops(y, x, n, rows):
    """Compute the grey values of the first `rows` of n pixels in a loop."""
    for i in range(rows):
        y[i] = 0.2989 * x[i] + 0.587 * x[n + i] + 0.114 * x[2 * n + i]


def matmul_loops(c, a, b, n, k, rows):
    """Compute the first `rows` rows of c = a @ b in three loops."""
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
    yield make_runner("torch", "@", lambda: weights @ x)


def _make_matmul(work: Workload) -> Iterator[BodyRunner]:
    (a, b), (m, n, k) = work.inputs, work.sizes.values()
    side = bodies.TILE
    shape = (-(-n // side), -(-m // side)), (side, side)
    arguments = a.view(-1), b.view(-1), m, n, k
    if a.device.type == "cpu":
        rows = min(m, -(-LOOPS // (n * k)))
        yield from _make_loops(matmul_loops, (a, b), (n, k, rows), rows, m / rows)
        an, bn = a.numpy(), b.numpy()
        yield _make_numpy(lambda: an @ bn)
        yield from _make_simulated(work, bodies.matmul, shape, arguments, 2 * k)
    yield from _make_compiled(work, bodies.matmul, "", shape, arguments)
    yield from _make_compiled(work, bodies.matmul_tiled, " tiled", shape, arguments)
    lib = native.library("matmul", a.device.type)
    on_cpu = [lib.rung()]  # a simulated CUDA kernel's time is meaningless
    on_cuda = [r for r in lib.rungs if "cuda" in r.targets and r.precision == "fp32"]
    for rung in on_cpu if a.device.type == "cpu" else on_cuda:
        name = rung.name
        yield make_runner("weft", name, lambda name=name: ops.matmul(a, b, rung=name))
    yield make_runner("torch", "@", lambda: torch.mm(a, b))


def _make_numpy(compute: Callable[[], np.ndarray]) -> BodyRunner:
    return make_runner("numpy", "@", lambda: torch.from_numpy(compute()), host=True)


def _make_loops(
    loops: Callable[..., None],
    inputs: Sequence[torch.Tensor],
    sizes: tuple[int, ...],
    rows: int,
    scale: float,
) -> Iterator[BodyRunner]:
    """Yield Python loops over lists, and the same loops compiled by Numba."""
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

    part = {"scale": scale, "part": slice(0, rows)}
    yield make_runner("python", "loops", python, host=True, **part)
    yield make_runner("numba", "loops, njit", njit, host=True)


@functools.cache
def _compile_njit(loops: Callable[..., None]) -> Any:
    import numba  # imported lazily because it takes a second

    return numba.njit(loops)


def _make_simulated(
    work: Workload, body: Any, shape: Shape, arguments: tuple[Any, ...], accesses: int
) -> Iterator[BodyRunner]:
    """Yield the body on the simulator, with and without checks.

    accesses: number of memory accesses of one thread.
    """
    shape, part, scale = _select_blocks(work, shape, SIMULATED // accesses)

    def call(checks: bool, out: torch.Tensor) -> torch.Tensor:
        runner = sim(body, checks=checks, quiet=True, timeout=HANGS)
        runner[shape](out.view(-1), *arguments)
        return out[part]

    for name, checks in ("sim", True), ("sim, no checks", False):
        bound_call = functools.partial(call, checks, work.out())
        yield make_runner("weft", name, bound_call, scale=scale, part=part, host=True)


def _select_blocks(
    work: Workload, shape: Shape, threads: int
) -> tuple[Shape, Part, float]:
    """Return the first blocks of a launch, with about `threads` threads in total.

    The function selects at least one block. It also returns the part of the result that
    these blocks compute, and the ratio of the whole result's size to this part's.
    """
    (blocks, *rows), (side, *sides) = (np.atleast_1d(each) for each in shape)
    rows, sides = int(rows[0]) if rows else 1, int(sides[0]) if sides else 1
    max_blocks = max(1, threads // int(side * sides))
    rows_of_blocks = max(1, min(rows, max_blocks // int(blocks)))
    columns = int(blocks) if max_blocks >= blocks else max_blocks
    slices = (slice(0, rows_of_blocks * sides), slice(0, columns * int(side)))
    part = slices[1] if work.want.dim() == 1 else slices
    scale = work.want.numel() / work.want[part].numel()
    block = shape[1]
    return ((columns, rows_of_blocks), block), part, scale


def _make_compiled(
    work: Workload, body: Any, variant: str, shape: Shape, arguments: tuple[Any, ...]
) -> Iterator[BodyRunner]:
    """Yield the body compiled by numba_jit (for a GPU or simulator), and by cuda_c."""
    numba_out, c_out = work.out(), work.out()
    numba_flat, c_flat = numba_out.view(-1), c_out.view(-1)
    on_simulator = not on_gpu() or numba_out.device.type == "cpu"
    launch, part, scale = shape, slice(None), 1.0
    if on_simulator:
        launch, part, scale = _select_blocks(work, shape, SIMULATED_THREADS)

    def by_numba() -> torch.Tensor:
        kernel[launch](numba_flat, *arguments)
        return numba_out[part]

    def by_c() -> torch.Tensor:
        _compile_c(body)[shape](c_flat, *arguments)
        return c_out

    if not (on_simulator and variant):  # barriers are slow on the simulator
        kernel = numba_jit(body)
        name = "its simulator" if on_simulator else "numba_jit"
        yield make_runner("numba", name + variant, by_numba, scale=scale, part=part)
    yield make_runner("weft", "cuda_c" + variant, by_c)
