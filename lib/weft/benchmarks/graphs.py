"""Measure the time between kernels: `python -m weft bench graphs`.

Lesson 14 explains the measurements. The op of a row is one of these:

    chain     one of `count` short kernels, launched in several ways
    host      the host's cost of launching one of these kernels
    fetch     a kernel that fetches its weights before or after it waits
    crowd     dependent launch where the next kernel's blocks crowd out this one's
    many      dependent launch of kernels with very many short blocks
    fork      two kernels in parallel
    overlap   copies that overlap kernels, on 1 to 4 streams
    fusion    three kernels, or one; gbs is the rate of the `bytes` that each must move
    remat     pixels stored as floats, or normalised by each reader
    timeline  activity over time; spans: [row, name, kind, start, us], see timeline.py
    steps     a call of `count` training steps on an idle GPU, see step_rows()

Timelines show copies that overlap kernels on 1, 2 and 4 streams, and a chain of short
kernels, one by one and in a graph. Other timelines show training steps of the MNIST
model, PyTorch's and ours. If RUN training steps are queued together, a timeline
contains the last STEPS, since the start of a run delays its first step. us is measured
separately, without the profiler, which slows the host down. For a training step, us is
the time of RUN steps. step_rows() measures the cost of a run's start.

graphs.cu is a separate program, since it launches chains from C; fusion.cu contains the
kernels of fusion and remat. On a CPU everything but timelines and steps runs and is
checked, but the times do not represent a GPU.

--device cuda; --rungs overlap,chain: only those ops.
"""

from __future__ import annotations

import argparse
import functools
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..base.errors import BuildError
from ..cells import load_cuda
from ..mnist.data import Split
from ..mnist.rungs import trainer
from ..mnist.twin import TwinTrainer, precision
from ..mnist.weights import initial_weights
from ..programs.program import Program, build_executable
from ..see.timeline import KERNEL, Timeline, committed, timeline
from ..timing import Timing, device_name, summarize, time_call
from ..timing.race import Contender
from ..timing.results import Row, first_line
from ..toolchain import build, native
from . import say
from .transpose import time_on

RUN, STEPS = 8, 2  # training steps queued together, and the number kept
BATCH, LR = 64, 0.1
CALLS = (1, 2, 8, 64)  # training steps in one call, for step_rows()
PARTS, PART = 8, 2 << 20  # parts of the copied array; floats in each
TURNS = 2000
TIMELINE_KERNELS = """
__global__ void step(float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] += 1;
}
__global__ void halve(float *y, const float *x, int n, int turns) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = x[i];
    for (int turn = 0; turn < turns; turn++) v = 0.5f * v + 1;
    y[i] = v;
}
"""
# Each rung is timed where it is available.
OURS = ("naive", "tiled", "fused", "graph", "pdl", "tf32", "bf16")
THEIRS = ("eager", "graph", "compile+graph")


def timeline_rows(where: torch.device, samples: int) -> list[dict[str, Any]]:
    """Return a row for each timeline, or an empty list if there is no GPU.

    A timeline that fails is reported and omitted.
    """
    if where.type != "cuda":
        return []
    results = []
    for impl, name, make in _make_chains(where):
        try:
            call, *closes = make()
            timing = time_call(call, where, samples)
            results.append(timeline_row(impl, name, timing, _profile(name, call)))
            for close in closes:
                close()
        except (RuntimeError, ValueError) as error:
            say(f"absent: {name}: {first_line(error)}")
    return results


def step_rows(where: torch.device, samples: int) -> list[dict[str, Any]]:
    """Time calls of `count` training steps, each on an idle GPU; `us` is a call's time.

    Returns no rows without a GPU.
    """
    if where.type != "cuda":
        return []
    available = {rung.name for rung in native.rungs("mnist", "cuda")}
    results = []
    for rung in [name for name in OURS if name in available]:
        for count in CALLS:
            call, close = _make_ours(rung, where, count)
            timing = time_call(call, where, samples)
            close()
            row = _make_row(where, "steps", rung, timing, count=count, batch=BATCH)
            results.append(row | {"precision": _precision_of(rung)})
    return results


def find_timeline(name: str, where: str | torch.device) -> Timeline | None:
    """Record the named timeline on a GPU; without a GPU, return the committed one."""
    where = torch.device(where)
    if where.type != "cuda":
        return committed(name)
    makers = {label: make for _, label, make in _make_chains(where)}
    if name not in makers:
        return None
    call, *closes = makers[name]()
    record = _profile(name, call)
    for close in closes:
        close()
    return record


def last_steps(seen: Timeline, run: int, kept: int) -> Timeline:
    """Keep the last `kept` of `run` steps, all of which have equally many kernels."""
    starts = sorted(span.start for span in seen.spans if span.kind == KERNEL)
    kernels_per_step = len(starts) // run
    begin = starts[-kept * kernels_per_step]
    spans = [replace(s, start=s.start - begin) for s in seen.spans if s.start >= begin]
    return replace(seen, spans=spans)


def _profile(name: str, call: Callable[[], object]) -> Timeline:
    """Return the timeline of a call, or of the last steps of a training run."""
    record = timeline(call)
    return last_steps(record, RUN, STEPS) if name.startswith("mnist") else record


def timeline_row(
    impl: str, name: str, timing: Timing, seen: Timeline
) -> dict[str, Any]:
    """Return a timeline as a row of results."""
    return {
        **{"op": "timeline", "impl": impl, "rung": name},
        "precision": _precision_of(name),
        **{"target": seen.target, "device": seen.device, **timing.row()},
        **{"span_us": seen.us, "busy_us": seen.busy},
        **{"run": RUN, "steps": STEPS, "batch": BATCH, "spans": seen.json()},
    }


def _precision_of(name: str) -> str:
    return next((kind for kind in ("tf32", "bf16") if kind in name), "fp32")


def _make_chains(where: torch.device) -> Iterator[tuple[str, str, Callable]]:
    """Yield each timeline's impl, its name and a function.

    The function returns the call to record, and functions to call afterwards.
    """
    for count in 1, 2, 4:
        name = f"overlap, {count} stream{'s' * (count > 1)}"
        yield "weft", name, lambda count=count: (make_parts(count, where),)
    yield "weft", "chain, Python", lambda: (make_chain(where),)
    yield "weft", "chain, graph", lambda: (graph_of(make_chain(where)),)
    for rung in THEIRS:
        yield "torch", f"mnist, torch {rung}", lambda rung=rung: _make_twin(rung, where)
    available = {rung.name for rung in native.rungs("mnist", "cuda")}
    for rung in OURS:
        if rung in available:
            yield "weft", f"mnist, {rung}", lambda rung=rung: _make_ours(rung, where)


def make_chain(where: torch.device, count: int = 20) -> Callable[[], None]:
    """Make a chain of short kernels, one after the other."""
    x = torch.zeros(65536, device=where)
    launch = load_cuda(TIMELINE_KERNELS, target=where.type).step[256, 256]

    def run() -> None:
        for _ in range(count):
            launch(x, len(x))

    return run


def graph_of(run: Callable[[], object]) -> Callable[[], None]:
    """Capture the work of `run` in a graph; return a call that launches the graph."""
    run()  # this call compiles the kernels before the capture
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph.replay


def make_parts(count: int, where: torch.device, part: int = PART) -> Callable[[], None]:
    """Make a call that copies PARTS parts to the GPU and back on `count` streams."""
    x = torch.rand(PARTS, part).pin_memory()
    y = torch.empty_like(x).pin_memory()
    d_x, d_y = torch.empty(2, PARTS, part, device=where)
    streams = [torch.cuda.Stream() for _ in range(count)]
    launch = load_cuda(TIMELINE_KERNELS, target="cuda").halve[-(-part // 256), 256]

    def run() -> None:
        current = torch.cuda.current_stream()
        for stream in streams:
            stream.wait_stream(current)
        for i in range(PARTS):
            with torch.cuda.stream(streams[i % count]):
                d_x[i].copy_(x[i], non_blocking=True)
                launch(d_y[i], d_x[i], part, TURNS)
                y[i].copy_(d_y[i], non_blocking=True)
        for stream in streams:
            current.wait_stream(stream)

    return run


# ---- training steps -----------------------------------------------------------


def random_data(count: int) -> Split:
    """Make random images and labels, since their contents do not change the time."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (count, 28, 28), np.uint8)
    return Split(images, rng.integers(0, 10, count).astype(np.uint8))


def _make_twin(rung: str, where: torch.device) -> tuple[Callable[[], object]]:
    with precision("fp32"):
        twin = TwinTrainer(
            *[initial_weights(0), random_data(RUN * BATCH)],
            **{"rung": rung, "device": where, "batch": BATCH},
        )
    order = twin.order(np.arange(RUN * BATCH))

    def run() -> None:
        with precision("fp32"):
            for index in order.split(BATCH):
                twin.step(index)

    return (run,)


def _make_ours(
    rung: str, where: torch.device, steps: int = RUN
) -> tuple[Callable[[], object], ...]:
    cnn = trainer(rung, where, max_batch=BATCH)
    cnn.set_weights(initial_weights(0))
    cnn.data(train=random_data(steps * BATCH))
    order = np.arange(steps * BATCH)
    return lambda: cnn.train(order, BATCH, LR), cnn.close


HERE = Path(__file__).parent
PROGRAM = [HERE / "graphs.cu", HERE / "overlap.cu"]
KERNELS = HERE / "fusion.cu"
SHOWN = ["op", "impl", "rung", "count", "us", "us_low", "us_high", "gbs", "vs_copy"]
# The program's arguments FLOATS, TURNS and PART.
PROGRAM_SIZES = {"cuda": (65536, 2000, 2 << 20), "cpu": (1024, 10, 4096)}
# The number of elements in each measurement of fusion and remat.
FUSION_SIZES = {"cuda": (1 << 26, 1 << 16), "cpu": (1 << 12,)}
CHAIN = 100  # launches from Python in one sample
CHANNELS, MEAN, STD = 64, 0.1307, 0.3081
FACTOR = 0.5

Call = Callable[[], object]


def rows_of(args: argparse.Namespace) -> list[Row]:
    """Return the rows for the options of the command line."""
    return rows(args.device, [name for name in args.rungs.split(",") if name])


def rows(device: str = "cpu", ops: Sequence[str] = (), samples: int = 30) -> list[Row]:
    """Check and time everything, or the named ops.

    Raises ValueError for an unknown op, RuntimeError for a wrong result and BuildError
    if the program cannot be built.
    """
    where = torch.device(device)
    if unknown := set(ops) - OPS.keys():
        names = ",".join(sorted(unknown))
        raise ValueError(f"--rungs {names}: expected some of {', '.join(OPS)}")
    results = []
    parts = [part for name, part in OPS.items() if name in (ops or OPS)]
    for part in dict.fromkeys(parts):
        results += part(where, samples)
    return [row for row in results if row["op"] in (ops or OPS)]


def note(rows: list[Row]) -> str:
    """Return the text below the table."""
    if not rows:
        return "nothing was measured: this GPU has no such launch"
    timers = dict.fromkeys(f"{row['timer']} on {row['device']}" for row in rows)
    text = f"fp32; {'; '.join(timers)}"
    if rows[0]["target"] == "cpu":
        text += "\nOn a CPU, threads are simulated: these times do not represent a GPU"
    return text


def _make_row(where: torch.device, op: str, rung: str, timing: Timing, **more) -> Row:
    return {
        **{"op": op, "impl": "weft", "rung": rung, "precision": "fp32"},
        **{"target": where.type, "device": device_name(where), **timing.row()},
        **more,
    }


# ---- the program --------------------------------------------------------------


def _run_program(what: str, where: torch.device, samples: int) -> list[Row]:
    """Run an op in graphs.cu; return a row for each line that it prints."""
    results = []
    with tempfile.TemporaryDirectory(prefix="weft_") as folder:
        words = [_build_program(where, Path(folder)), samples]
        words += [*PROGRAM_SIZES[where.type], what]
        process = subprocess.run([*map(str, words)], text=True, capture_output=True)
    if process.returncode:
        raise RuntimeError(f"bench_graphs: {process.stderr.strip()}")
    for line in process.stdout.splitlines():
        op, rung, count, *times = line.split("\t")
        timer = "CUDA events" if op not in ("host", "overlap") else "host's clock"
        timing = summarize(map(float, times), timer)
        extra = {"count": int(count)}
        if op == "overlap":  # the bytes move in both directions
            extra = {"bytes": 2 * int(count)}
            extra["gbs"] = extra["bytes"] / timing.median / 1e3
        results.append(_make_row(where, op, rung, timing, **extra))
    return results


def _build_program(where: torch.device, folder: Path) -> Path:
    """Build the program with nvcc for a GPU, otherwise as `weft run` does."""
    sources = [str(path) for path in PROGRAM]
    if where.type == "cpu":
        return build_executable(Program(sources))
    if not (nvcc := build.nvcc()):
        raise BuildError("no nvcc: install the CUDA Toolkit")
    command = [nvcc, "-O3", "-std=c++17", "-arch=native", *sources]
    command += ["-o", f"{folder}/program"]
    process = subprocess.run(command, text=True, capture_output=True)
    if process.returncode:
        raise BuildError(process.stderr.strip())
    return folder / "program"


# ---- launches from Python -----------------------------------------------------


def _time_chain(where: torch.device, samples: int) -> list[Row]:
    """Time a chain that C launches, and the same chain, launched by a Python loop."""
    results = _run_program("chain", where, samples)
    size = PROGRAM_SIZES[where.type][0]
    x = torch.zeros(size, device=where)
    kernels = load_cuda(TIMELINE_KERNELS, target=where.type)
    launch = kernels.step[-(-size // 256), 256]
    ways: dict[str, tuple[str, Call]] = {
        "Python, a launch each": ("weft", lambda: launch(x, size)),
        "Python, x.add_(1)": ("torch", lambda: x.add_(1)),
    }
    for rung, (impl, call) in ways.items():
        x.zero_()
        timing = time_call(call, where, samples, calls=CHAIN, warmup=1)
        if not (x == (samples + 1) * CHAIN).all():
            raise RuntimeError(f"{rung}: x[0] is {x[0]}")
        row = _make_row(where, "chain", rung, timing, count=CHAIN)
        results.append(row | {"impl": impl})
    return results


# ---- fusion and rematerialisation ---------------------------------------------


def _time_kernels(where: torch.device, samples: int) -> list[Row]:
    names = {"target": where.type, "name": KERNELS.name}
    kernels = load_cuda(KERNELS.read_text(), inplace=True, **names)
    results = []
    for size in FUSION_SIZES[where.type]:
        copy_us = None
        for contender in _make_contenders(kernels, where, size):
            op, rung = contender.row.values()
            contender.out.fill_(torch.nan)
            contender.call()
            if not torch.allclose(contender.out, contender.want, rtol=1e-5, atol=1e-5):
                raise RuntimeError(f"{op}: {rung} is wrong for {size} numbers")
            timing = time_on(contender, where, samples)
            copy_us = copy_us or timing.median
            row = _make_row(where, op, rung, timing, count=size, bytes=contender.bytes)
            row |= {"gbs": contender.bytes / timing.median / 1e3}
            results.append(row | {"vs_copy": copy_us / timing.median})
    return results


def _make_contenders(
    kernels: Any, where: torch.device, size: int
) -> Iterator[Contender]:
    """Yield the plain copy, then the other contenders."""
    quarter = size // 4
    grid, four = -(-quarter // 256), CHANNELS // 4
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(size, generator=generator).to(where)
    bias = torch.randn(CHANNELS, generator=generator).to(where)
    y = torch.empty_like(x)

    def launch(name: str, *args: Any) -> None:
        getattr(kernels, name)[grid, 256](*args)

    copy = functools.partial(launch, "copy", y, x, quarter)
    fusion = functools.partial(_make_contender, "fusion", y)
    yield fusion("copy", copy, x, 8 * size)

    def run_three() -> None:
        launch("add_bias", y, x, bias, quarter, four)
        launch("relu", y, y, quarter)
        launch("scale", y, y, FACTOR, quarter)

    def run_one() -> None:
        launch("bias_relu_scale", y, x, bias, FACTOR, quarter, four)

    want = (x.view(-1, CHANNELS) + bias).relu().mul(FACTOR).view(-1)
    yield fusion("three kernels", run_three, want, 24 * size)
    yield fusion("one kernel", run_one, want, 8 * size)

    pixels = torch.randint(0, 256, (size,), generator=generator, dtype=torch.uint8)
    pixels, by, less = pixels.to(where), 1 / (255 * STD), MEAN / STD
    small = torch.empty(quarter, device=where)

    def read_stored() -> None:
        launch("normalise", y, pixels, by, less, quarter)
        for _ in range(2):
            launch("pool_stored", small, y, quarter)

    def recompute() -> None:
        for _ in range(2):
            launch("pool_again", small, pixels, by, less, quarter)

    want = pixels.view(-1, 4).amax(1).float().mul(by).sub(less)
    remat = functools.partial(_make_contender, "remat", small)
    yield remat("stored, read twice", read_stored, want, size * (1 + 4 + 2 * 5))
    yield remat("worked out twice", recompute, want, size * 2 * 2)


def _make_contender(
    op: str, out: torch.Tensor, rung: str, call: Call, want: torch.Tensor, needed: int
) -> Contender:
    row = {"op": op, "rung": rung}
    return Contender(call=call, row=row, out=out, want=want, bytes=needed)


# The function that measures each op; some functions measure several ops.
OPS = {
    **{"chain": _time_chain, "host": _time_chain},
    **{
        name: functools.partial(_run_program, name)
        for name in ("fetch", "crowd", "many", "fork", "overlap")
    },
    **{"fusion": _time_kernels, "remat": _time_kernels},
    **{"timeline": timeline_rows, "steps": step_rows},
}
