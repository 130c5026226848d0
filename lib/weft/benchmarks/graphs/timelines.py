"""Timelines for `weft bench graphs`: what a GPU ran, and when.

Of copies beside kernels on 1, 2 and 4 streams, of a chain of short kernels one by one
and in a graph, and of training steps of the MNIST model, PyTorch's and ours: the last
STEPS of RUN that are queued at once, since a run's first step waits for its start.
us is measured apart, without the profiler, which makes the host slower; of a training
step it is that of RUN steps. step_rows() measures what a run's start adds.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from ...cells import load_cuda
from ...mnist.data import Split
from ...mnist.rungs import trainer
from ...mnist.twin import TwinTrainer, precision
from ...mnist.weights import initial_weights
from ...see.traces.timeline import KERNEL, Timeline, committed, timeline
from ...timing import Timing, device_name, time_call
from ...toolchain import native

RUN, STEPS = 8, 2  # training steps that are queued at once, and those that are kept
BATCH, LR = 64, 0.1
CALLS = (1, 2, 8, 64)  # training steps in one call, for step_rows()
PARTS, PART = 8, 2 << 20  # of the array that is copied; floats in each
TURNS = 2000
KERNELS = """
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
OURS = ("naive", "tiled", "fused", "graph", "pdl", "tf32", "bf16")  # if there
THEIRS = ("eager", "graph", "compile+graph")


def rows(where: torch.device, samples: int) -> list[dict[str, Any]]:
    """A row for each timeline; none where there is no GPU.

    What fails is told, and left out.
    """
    if where.type != "cuda":
        return []
    found = []
    for impl, name, make in _make_contenders(where):
        try:
            call, *closes = make()
            timing = time_call(call, where, samples)
            found.append(timeline_row(impl, name, timing, _profile(name, call)))
            for close in closes:
                close()
        except (RuntimeError, ValueError) as error:
            why = (str(error).splitlines() or [type(error).__name__])[0]
            print(f"weft: without {name}: {why}", file=sys.stderr)
    return found


def step_rows(where: torch.device, samples: int) -> list[dict[str, Any]]:
    """Time calls of `count` training steps, each on an idle GPU; `us` is a call's time.

    No rows where there is no GPU.
    """
    if where.type != "cuda":
        return []
    there = {rung.name for rung in native.rungs("mnist", "cuda")}
    found = []
    for rung in [name for name in OURS if name in there]:
        for count in CALLS:
            call, close = _make_ours(rung, where, count)
            timing = time_call(call, where, samples)
            close()
            found.append({
                **{"op": "steps", "impl": "weft", "rung": rung},
                **{"precision": rung if rung in ("tf32", "bf16") else "fp32"},
                **{"target": where.type, "device": device_name(where)},
                **{**timing.row(), "count": count, "batch": BATCH},
            })  # fmt: skip
    return found


def find_timeline(name: str, where: str | torch.device) -> Timeline | None:
    """The timeline of that name: run now on a GPU, else as it came with the lab."""
    where = torch.device(where)
    if where.type != "cuda":
        return committed(name)
    makes = {found: make for _, found, make in _make_contenders(where)}
    if name not in makes:
        return None
    call, *closes = makes[name]()
    seen = _profile(name, call)
    for close in closes:
        close()
    return seen


def last_steps(seen: Timeline, run: int, kept: int) -> Timeline:
    """Keep the last steps of a run whose steps have the same number of kernels."""
    starts = sorted(span.start for span in seen.spans if span.kind == KERNEL)
    each = len(starts) // run
    begin = starts[-kept * each]
    spans = [replace(s, start=s.start - begin) for s in seen.spans if s.start >= begin]
    return replace(seen, spans=spans)


def _profile(name: str, call: Callable[[], object]) -> Timeline:
    """Return the timeline of a call; a run of training steps keeps its last steps."""
    seen = timeline(call)
    return last_steps(seen, RUN, STEPS) if name.startswith("mnist") else seen


def timeline_row(
    impl: str, name: str, timing: Timing, seen: Timeline
) -> dict[str, Any]:
    """A timeline as a row of results."""
    return {
        **{"op": "timeline", "impl": impl, "rung": name},
        "precision": next((p for p in ("tf32", "bf16") if p in name), "fp32"),
        **{"target": seen.target, "device": seen.device, **timing.row()},
        **{"span_us": seen.us, "busy_us": seen.busy},
        **{"run": RUN, "steps": STEPS, "batch": BATCH, "spans": seen.json()},
    }


def _make_contenders(
    where: torch.device,
) -> Iterator[tuple[str, str, Callable[[], tuple]]]:
    for count in 1, 2, 4:
        name = f"overlap, {count} stream{'s' * (count > 1)}"
        yield "weft", name, lambda count=count: (make_parts(count, where),)
    yield "weft", "chain, Python", lambda: (make_chain(where),)
    yield "weft", "chain, graph", lambda: (graph_of(make_chain(where)),)
    for rung in THEIRS:
        yield "torch", f"mnist, torch {rung}", lambda rung=rung: _make_twin(rung, where)
    there = {rung.name for rung in native.rungs("mnist", "cuda")}
    for rung in OURS:
        if rung in there:
            yield "weft", f"mnist, {rung}", lambda rung=rung: _make_ours(rung, where)


def make_chain(where: torch.device, count: int = 20) -> Callable[[], None]:
    """So many short kernels, one after the other."""
    x = torch.zeros(65536, device=where)
    launch = load_cuda(KERNELS, target=where.type).step[256, 256]

    def run() -> None:
        for _ in range(count):
            launch(x, len(x))

    return run


def graph_of(run: Callable[[], object]) -> Callable[[], None]:
    """What `run` queues, captured once and launched as one."""
    run()  # compiled before it is recorded
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph.replay


def make_parts(count: int, where: torch.device, part: int = PART) -> Callable[[], None]:
    """x to the GPU, worked on there, and back, in PARTS parts on `count` streams."""
    x = torch.rand(PARTS, part).pin_memory()
    y = torch.empty_like(x).pin_memory()
    d_x, d_y = torch.empty(2, PARTS, part, device=where)
    streams = [torch.cuda.Stream() for _ in range(count)]
    launch = load_cuda(KERNELS, target="cuda").halve[-(-part // 256), 256]

    def run() -> None:
        now = torch.cuda.current_stream()
        for stream in streams:
            stream.wait_stream(now)
        for i in range(PARTS):
            with torch.cuda.stream(streams[i % count]):
                d_x[i].copy_(x[i], non_blocking=True)
                launch(d_y[i], d_x[i], part, TURNS)
                y[i].copy_(d_y[i], non_blocking=True)
        for stream in streams:
            now.wait_stream(stream)

    return run


# ---- training steps -----------------------------------------------------------


def random_data(count: int) -> Split:
    """Images and labels at random: what they show does not change the time."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (count, 28, 28), np.uint8)
    return Split(images, rng.integers(0, 10, count).astype(np.uint8))


def _make_twin(rung: str, where: torch.device) -> tuple[Callable[[], object]]:
    with precision("fp32"):
        made = TwinTrainer(
            *[initial_weights(0), random_data(RUN * BATCH)],
            **{"rung": rung, "device": where, "batch": BATCH},
        )
    order = made.order(np.arange(RUN * BATCH))

    def run() -> None:
        with precision("fp32"):
            for index in order.split(BATCH):
                made.step(index)

    return (run,)


def _make_ours(
    rung: str, where: torch.device, steps: int = RUN
) -> tuple[Callable[[], object], ...]:
    made = trainer(rung, where, max_batch=BATCH)
    made.set_weights(initial_weights(0))
    made.data(train=random_data(steps * BATCH))
    order = np.arange(steps * BATCH)
    return lambda: made.train(order, BATCH, LR), made.close
