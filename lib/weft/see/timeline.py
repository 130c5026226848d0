"""timeline(fn, *args): what ran when, and on which stream; nvtx_range() names a part.

timeline(step)                          one call: kernels, copies, gaps
    timeline(step).gaps(5)                  where nothing ran for 5 µs and more
    timelines({"eager": a, "graph": b})     several, on one axis
    committed("mnist eager")                one that came with the lab
    modelled(queue, us)                     by the rules of streams, without a GPU

On a GPU the times are CUPTI's, through torch.profiler, which slows the host down: gaps
of a queue that the host fills one by one are longer than without it. Where there is no
GPU, what is shown are the operators of ATen and the time between them.

nvtx_range("step"): a name on the timeline of NVIDIA's profilers.

    with nvtx_range("epoch 0"):
        cnn.train(order)

Nsight Systems draws it above the kernels that were launched meanwhile; Nsight Compute
profiles only these with `ncu --nvtx --nvtx-include "epoch 0/"`. The ops and the steps
of the trainer name themselves (kernels/common/nvtx.cuh). While no tool listens, a range
costs about a microsecond. Where PyTorch has no CUDA, a range uses NVIDIA's package nvtx
if that is installed, and does nothing otherwise.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..base.errors import ArgumentError
from ..base.paths import ROOT
from ..timing import device_name, read_json
from ..timing.clocks import start_profile
from .kernel_names import explain

# What a span is.
KERNEL, TO_DEVICE, TO_HOST, OTHER = "kernel", "to device", "to host", "copy or fill"
HOST = "host"  # a call that asks for work
OPERATOR = "operator"  # of ATen, on the CPU
LAUNCH, FETCH = "launch", "fetch"  # parts of a kernel, in a drawing
FOLDER = "notebooks/results"
MARK = "weft timeline"  # the run that is kept
LEAST = 1.0  # µs of a gap that is told


@dataclass(frozen=True)
class Span:
    """Something that ran. row: "stream 7", "host"; start: µs since the first began."""

    row: str
    name: str
    kind: str
    start: float
    us: float

    @property
    def end(self) -> float:
        return self.start + self.us


@dataclass
class Timeline:
    """Spans by start. target: "cuda", "cpu" or "model".

    date: if it was measured elsewhere. note: what else is to be known.
    """

    spans: list[Span]
    device: str = ""
    target: str = "cuda"
    date: str = ""
    note: str = ""
    row: dict[str, Any] = field(default_factory=dict, repr=False)  # as committed

    @property
    def work(self) -> list[Span]:
        """What ran, without the host's calls."""
        return [span for span in self.spans if span.kind != HOST]

    @property
    def us(self) -> float:
        """From the first beginning to the last end."""
        return max(s.end for s in self.work) - min(s.start for s in self.work)

    @property
    def busy(self) -> float:
        """µs in which anything ran."""
        return self.us - sum(end - start for start, end in self.gaps(0))

    def gaps(self, least: float = LEAST) -> list[tuple[float, float]]:
        """(start, end) of each time between spans in which nothing ran."""
        found, until = [], min(span.start for span in self.work)
        for span in sorted(self.work, key=lambda span: span.start):
            if span.start > until and span.start - until >= least:
                found.append((until, span.start))
            until = max(until, span.end)
        return found

    def json(self) -> list[list[Any]]:
        """The spans as a row of results has them."""
        spans = self.spans
        return [
            [s.row, s.name, s.kind, round(s.start, 3), round(s.us, 3)] for s in spans
        ]

    def __repr__(self) -> str:
        # The pictures import PyTorch: slow where nothing is drawn.
        from .pictures import streams

        return streams.account(self)

    def _repr_html_(self) -> str:
        # The pictures import PyTorch: slow where nothing is drawn.
        from .pictures import streams

        return streams.draw({"": self})


class timelines(dict):
    """Timelines by name, in one picture. own_axis: each as wide as there is room."""

    def __init__(self, named: Mapping[str, Timeline | None], own_axis: bool = False):
        super().__init__({k: v for k, v in named.items() if v is not None})
        self.own_axis = own_axis

    def __repr__(self) -> str:
        return "\n".join(f"{name}: {one!r}" for name, one in self.items())

    def _repr_html_(self) -> str:
        # The pictures import PyTorch: slow where nothing is drawn.
        from .pictures import streams

        return streams.draw(self, self.own_axis) if self else "nothing measured yet"


def timeline(fn: Callable[..., Any], *args: Any, warmup: int = 2) -> Timeline:
    """What fn(*args) ran, and when: its last call of 2 + warmup.

    Raises ArgumentError if fn cannot be called or ran nothing.
    """
    import torch

    if not callable(fn):
        raise ArgumentError(f"timeline({fn!r:.40}): want a function to call")
    on_gpu = torch.cuda.is_available()
    wait = torch.cuda.synchronize if on_gpu else lambda: None
    for _ in range(warmup):
        fn(*args)
    wait()
    with start_profile(on_gpu) as profile:
        fn(*args)  # a profiler's first launches are slow
        wait()
        time.sleep(0.002)
        with torch.profiler.record_function(MARK):
            fn(*args)
        wait()
    events = _read_events(profile)
    spans = _read_gpu_spans(events) if on_gpu else []
    target = "cuda" if spans else "cpu"
    spans = spans or _read_cpu_spans(events)
    if not spans:
        raise ArgumentError("fn ran no kernel, and no operator of PyTorch")
    return Timeline(_shift_to_zero(spans), device_name(target), target)


def committed(name: str, folder: str | Path | None = None) -> Timeline | None:
    """A timeline that came with the lab; None if there is none of that name.

    The first notebooks/results/graphs_*.json has them, see `weft bench graphs`.
    """
    for path in sorted(Path(folder or ROOT / FOLDER).glob("graphs_*.json")):
        results = read_json(path)
        for row in results["rows"]:
            if row["op"] == "timeline" and row["rung"] == name:
                spans = [Span(*values) for values in row["spans"]]
                date = results["machine"]["date"]
                return Timeline(spans, row["device"], "cuda", date, row=row)
    return None


# ---- from a profile -----------------------------------------------------------


def _read_events(profile: Any) -> list[dict[str, Any]]:
    """The profile as the trace that torch writes, in which events have their stream."""
    with tempfile.TemporaryDirectory(prefix="weft_") as folder:
        path = os.path.join(folder, "trace.json")
        profile.export_chrome_trace(path)
        trace = json.loads(Path(path).read_text(errors="replace"))
    kept = [e for e in trace["traceEvents"] if e.get("ph") == "X" and "dur" in e]
    marks = [e for e in kept if e["name"] == MARK and e["cat"] == "user_annotation"]
    # Runs lie 2 ms apart; the clocks of host and device differ by less than half.
    start = max(e["ts"] for e in marks) - 1000 if marks else 0
    return [e for e in kept if e["ts"] >= start]


def _read_gpu_spans(events: Iterable[Mapping[str, Any]]) -> list[Span]:
    """Kernels, copies and fills by stream, and the host's calls that ask for them."""
    found, asked = [], []
    for event in events:
        kind, name = event.get("cat", ""), event["name"]
        if kind in ("kernel", "gpu_memcpy", "gpu_memset"):
            row = f"stream {event['args']['stream']}"
            what = KERNEL if kind == "kernel" else _classify_copy(name)
            short = name.partition(" (")[0].removeprefix("Memcpy ")
            short = explain(name).short if kind == "kernel" else short
            found.append(Span(row, short, what, event["ts"], event["dur"]))
        elif kind in ("cuda_runtime", "cuda_driver") and _is_request(name):
            asked.append(Span("host", name, HOST, event["ts"], event["dur"]))
    return (asked + found) if found else []


def _is_request(call: str) -> bool:
    """Whether a call of the runtime queues something."""
    return any(part in call for part in ("Launch", "Memcpy", "Memset"))


def _classify_copy(name: str) -> str:
    if "HtoD" in name:
        return TO_DEVICE
    return TO_HOST if "DtoH" in name else OTHER


def _read_cpu_spans(events: Iterable[Mapping[str, Any]]) -> list[Span]:
    """Operators that no other one called."""
    found, until = [], {}
    operators = [e for e in events if e.get("cat") == "cpu_op"]
    for event in sorted(operators, key=lambda e: (e["ts"], -e["dur"])):
        thread, end = event["tid"], event["ts"] + event["dur"]
        if event["ts"] < until.get(thread, 0):
            continue
        until[thread] = end
        name = event["name"].removeprefix("aten::")
        found.append(Span(str(thread), name, OPERATOR, event["ts"], event["dur"]))
    threads = list(dict.fromkeys(span.row for span in found))
    rows = {t: "operators" if i == 0 else f"thread {i}" for i, t in enumerate(threads)}
    return [replace(span, row=rows[span.row]) for span in found]


def _shift_to_zero(spans: Sequence[Span]) -> list[Span]:
    zero = min(span.start for span in spans)
    moved = [replace(span, start=span.start - zero) for span in spans]
    return sorted(moved, key=lambda span: span.start)


# ---- by the rules alone -------------------------------------------------------

ENGINES = {"in": TO_DEVICE, "work": KERNEL, "out": TO_HOST}


def modelled(
    queue: Iterable[tuple[str, Any, int]], us: Mapping[str, float], launch: float = 2.0
) -> Timeline:
    """What a GPU would do with a queue, in the order in which the host fills it.

    queue: ("in", part, stream), "work" or "out" likewise, which take us[what];
    ("record", event, stream) and ("wait", event, stream), where any value may name an
    event. The host needs `launch` µs for each. A stream runs its own in order, and of
    each kind one at a time runs: one copy each way, and a kernel fills the GPU. Raises
    ArgumentError for another kind, and for an event that was not recorded.
    """
    free: dict[Any, float] = {}  # when an engine, a stream, the host is free again
    events: dict[Any, float] = {}
    spans = []
    for number, (what, part, stream) in enumerate(queue):
        row = f"stream {stream}"
        ready = max(free.get(row, 0.0), launch * (number + 1))
        if what == "record":
            events[part] = ready
        elif what == "wait":
            if part not in events:
                raise ArgumentError(
                    f"event {part!r} is waited for, and not recorded yet"
                )
            free[row] = max(ready, events[part])
        elif what in ENGINES:
            begin = max(ready, free.get(what, 0.0))
            spans.append(Span(row, str(part), ENGINES[what], begin, us[what]))
            free[what] = free[row] = begin + us[what]
        else:
            raise ArgumentError(f"{what!r}: a queue has in, work, out, record and wait")
    if not spans:
        raise ArgumentError("an empty queue")
    said = "A model: one copy each way and one kernel at a time"
    return Timeline(_shift_to_zero(spans), target="model", note=said)


@contextlib.contextmanager
def nvtx_range(name: str) -> Iterator[None]:
    """Name what happens inside, also if it raises. ArgumentError: no text."""
    if not isinstance(name, str) or not name:
        raise ArgumentError(f"nvtx_range({name!r:.40}): want a name")
    push, pop = _load_calls()
    push(name)
    try:
        yield
    finally:
        pop()


@functools.cache
def _load_calls() -> tuple[Callable[[str], Any], Callable[[], Any]]:
    """How a range begins and how it ends here."""
    import torch

    if torch.version.cuda:
        return torch.cuda.nvtx.range_push, torch.cuda.nvtx.range_pop
    try:
        import nvtx
    except ImportError:
        return lambda name: None, lambda: None
    return nvtx.push_range, nvtx.pop_range
