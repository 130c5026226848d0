"""timeline(fn, *args): the work on each stream over time; nvtx_range() names a part.

    timeline(step)                          one call: kernels, copies, gaps
    timeline(step).gaps(5)                  gaps of at least 5 µs in which nothing ran
    timelines({"eager": a, "graph": b})     several timelines, on one axis
    committed("chain, graph")               a timeline that came with the lab
    modelled(queue, us)                     a model that follows the rules of streams

On a GPU, torch.profiler reads the times from CUPTI. The profiler slows the host down,
so gaps become longer in a queue that the host fills call by call. Without a GPU,
the timeline shows the operators of ATen and the time between them.

nvtx_range("step") names a part on the timeline of NVIDIA's profilers.

    with nvtx_range("epoch 0"):
        cnn.train(order)

Nsight Systems draws the range above the kernels launched within it. With `ncu
--nvtx --nvtx-include "epoch 0/"`, Nsight Compute profiles only these kernels. The ops
and the trainer's steps have their own ranges (kernels/common/nvtx.cuh). Without a
profiler, a range costs about a microsecond. If PyTorch has no CUDA, a range uses
NVIDIA's package nvtx if that is installed, and does nothing otherwise.
"""

from __future__ import annotations

import contextlib
import functools
import json
import re
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from pathlib import Path
from typing import Any

from ..base.errors import ArgumentError
from ..base.paths import ROOT
from ..base.style import DIM, READ, THREAD, WIDTH, WRITTEN
from ..base.text import count_things
from ..timing import device_name, read_json
from ..timing.clocks import start_profile
from .kernel_names import explain
from .pictures import svg
from .pictures.panels import EDGE
from .pictures.svg import box, label, make_bundle, num, remark

# The kinds of spans.
KERNEL, TO_DEVICE, TO_HOST, OTHER = "kernel", "to device", "to host", "copy or fill"
HOST = "host"  # a call that queues work
OPERATOR = "operator"  # an operator of ATen, on the CPU
LAUNCH, FETCH = "launch", "fetch"  # parts of a kernel in a drawing
FOLDER = "notebooks/results"
MARK = "weft timeline"  # name of the profiled range that contains the reported call
LEAST = 1.0  # length of the shortest reported gap in µs
# The names of calls that queue work for the GPU contain one of these words.
_QUEUES = re.compile("Launch|Memcpy|Memset")


@dataclass(frozen=True)
class Span:
    """A piece of work. row: a name, e.g. "stream 7". start: µs since the first span."""

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
    """Spans in order of their start times. target: "cuda", "cpu" or "model".

    date: the date of a measurement on another machine. note: other remarks.
    """

    spans: list[Span]
    device: str = ""
    target: str = "cuda"
    date: str = ""
    note: str = ""
    # The timeline's row in the committed results, if it has one.
    row: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def work(self) -> list[Span]:
        """The spans without the host's calls."""
        return [span for span in self.spans if span.kind != HOST]

    @property
    def us(self) -> float:
        """The time in µs from the first start to the last end."""
        return max(s.end for s in self.work) - min(s.start for s in self.work)

    @property
    def busy(self) -> float:
        """The time in µs during which at least one span ran."""
        return self.us - sum(end - start for start, end in self.gaps(0))

    def gaps(self, least: float = LEAST) -> list[tuple[float, float]]:
        """Return (start, end) of each gap of at least `least` µs between spans."""
        gaps, until = [], min(span.start for span in self.work)
        for span in sorted(self.work, key=lambda span: span.start):
            if span.start > until and span.start - until >= least:
                gaps.append((until, span.start))
            until = max(until, span.end)
        return gaps

    def json(self) -> list[list[Any]]:
        """Return the spans as lists, as in a row of results."""
        spans = self.spans
        return [
            [s.row, s.name, s.kind, round(s.start, 3), round(s.us, 3)] for s in spans
        ]

    def __repr__(self) -> str:
        return account(self)

    def svg(self) -> str:
        """Draw the timeline."""
        return timelines({"": self}).svg()

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return timelines({"": self})._repr_mimebundle_()


class timelines(dict):
    """Timelines by name, in one picture. own_axis: whether each uses the full width."""

    def __init__(self, named: Mapping[str, Timeline | None], own_axis: bool = False):
        super().__init__({k: v for k, v in named.items() if v is not None})
        self.own_axis = own_axis

    def __repr__(self) -> str:
        return "\n".join(f"{name}: {one!r}" for name, one in self.items())

    def svg(self) -> str:
        """Draw the timelines, one below the other."""
        return draw(self, self.own_axis)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        if not self:
            return {"text/plain": "nothing measured yet"}
        return make_bundle(self.svg(), repr(self).removeprefix(": "))


def timeline(fn: Callable[..., Any], *args: Any, warmup: int = 2) -> Timeline:
    """Return a timeline of fn(*args), for the last of its warmup + 2 calls.

    Raises ArgumentError if fn cannot be called or ran nothing.
    """
    import torch

    if not callable(fn):
        raise ArgumentError(f"timeline({fn!r:.40}): expected a function to call")
    on_gpu = torch.cuda.is_available()
    wait = torch.cuda.synchronize if on_gpu else lambda: None
    for _ in range(warmup):
        fn(*args)
    wait()
    with start_profile(on_gpu) as profile:
        # The first launches under a profiler are slow, so this call is not reported.
        fn(*args)
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
        raise ArgumentError("fn ran no kernel and no operator of PyTorch")
    return Timeline(_shift_to_zero(spans), device_name(target), target)


def committed(name: str, folder: str | Path | None = None) -> Timeline | None:
    """Return a timeline that came with the lab; None if no timeline has that name.

    The timelines are in the first notebooks/results/graphs_*.json; see `weft bench
    graphs`.
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
    """Return the profile as events of torch's trace, which include the stream."""
    with tempfile.TemporaryDirectory(prefix="weft_") as folder:
        path = Path(folder, "trace.json")
        profile.export_chrome_trace(str(path))
        trace = json.loads(path.read_text(errors="replace"))
    complete = [e for e in trace["traceEvents"] if e.get("ph") == "X" and "dur" in e]
    marks = [e for e in complete if e["name"] == MARK and e["cat"] == "user_annotation"]
    # The calls are 2 ms apart, and the host's and the device's clocks differ by < 1 ms.
    start = max(e["ts"] for e in marks) - 1000 if marks else 0
    return [e for e in complete if e["ts"] >= start]


def _read_gpu_spans(events: Iterable[Mapping[str, Any]]) -> list[Span]:
    """Return kernels, copies and fills by stream, and host calls that queue them."""
    work, calls = [], []
    for event in events:
        kind, name = event.get("cat", ""), event["name"]
        if kind in ("kernel", "gpu_memcpy", "gpu_memset"):
            row = f"stream {event['args']['stream']}"
            kind_of_work = KERNEL if kind == "kernel" else _classify_copy(name)
            short = name.partition(" (")[0].removeprefix("Memcpy ")
            short = explain(name).short if kind == "kernel" else short
            work.append(Span(row, short, kind_of_work, event["ts"], event["dur"]))
        elif kind in ("cuda_runtime", "cuda_driver") and _QUEUES.search(name):
            calls.append(Span("host", name, HOST, event["ts"], event["dur"]))
    return (calls + work) if work else []


def _classify_copy(name: str) -> str:
    if "HtoD" in name:
        return TO_DEVICE
    return TO_HOST if "DtoH" in name else OTHER


def _read_cpu_spans(events: Iterable[Mapping[str, Any]]) -> list[Span]:
    """Return the operators that no other operator called."""
    spans, until = [], {}
    operators = [e for e in events if e.get("cat") == "cpu_op"]
    for event in sorted(operators, key=lambda e: (e["ts"], -e["dur"])):
        thread, end = event["tid"], event["ts"] + event["dur"]
        if event["ts"] < until.get(thread, 0):
            continue
        until[thread] = end
        name = event["name"].removeprefix("aten::")
        spans.append(Span(str(thread), name, OPERATOR, event["ts"], event["dur"]))
    threads = list(dict.fromkeys(span.row for span in spans))
    rows = {t: "operators" if i == 0 else f"thread {i}" for i, t in enumerate(threads)}
    return [replace(span, row=rows[span.row]) for span in spans]


def _shift_to_zero(spans: Sequence[Span]) -> list[Span]:
    zero = min(span.start for span in spans)
    shifted = [replace(span, start=span.start - zero) for span in spans]
    return sorted(shifted, key=lambda span: span.start)


# ---- modelled by the rules of streams -----------------------------------------

ENGINES = {"in": TO_DEVICE, "work": KERNEL, "out": TO_HOST}


def modelled(
    queue: Iterable[tuple[str, Any, int]], us: Mapping[str, float], launch: float = 2.0
) -> Timeline:
    """Model how a GPU runs a queue that the host fills in this order.

    queue: entries ("in", part, stream), ("work", part, stream) or ("out", part,
    stream), which take us["in"], us["work"] or us["out"] µs. Other entries are
    ("record", event, stream) and ("wait", event, stream), where any value may name an
    event. launch: the host's time for each entry in µs. A stream runs its entries in
    order. At most one of each kind runs at a time, since there is one copy engine per
    direction and a kernel fills the GPU. Raises ArgumentError for another kind, and for
    an event that was not recorded.
    """
    free: dict[Any, float] = {}  # the time at which each engine or stream is free
    events: dict[Any, float] = {}
    spans = []
    for number, (action, part, stream) in enumerate(queue):
        row = f"stream {stream}"
        ready = max(free.get(row, 0.0), launch * (number + 1))
        if action == "record":
            events[part] = ready
        elif action == "wait":
            if part not in events:
                raise ArgumentError(f"event {part!r} is not recorded before the wait")
            free[row] = max(ready, events[part])
        elif action in ENGINES:
            begin = max(ready, free.get(action, 0.0))
            spans.append(Span(row, str(part), ENGINES[action], begin, us[action]))
            free[action] = free[row] = begin + us[action]
        else:
            raise ArgumentError(f"{action!r}: expected in, work, out, record or wait")
    if not spans:
        raise ArgumentError("the queue has no work")
    note = "A model: one copy each way and one kernel at a time"
    return Timeline(_shift_to_zero(spans), target="model", note=note)


@contextlib.contextmanager
def nvtx_range(name: str) -> Iterator[None]:
    """Name the work in a `with` block for Nsight Systems and other NVTX tools.

    Raises ArgumentError unless `name` is a non-empty string.
    """
    if not isinstance(name, str) or not name:
        raise ArgumentError(f"nvtx_range({name!r:.40}): expected a name")
    push, pop = _load_calls()
    push(name)
    try:
        yield
    finally:
        pop()


@functools.cache
def _load_calls() -> tuple[Callable[[str], Any], Callable[[], Any]]:
    """Return the functions that begin and end a range on this machine."""
    import torch

    if torch.version.cuda:
        return torch.cuda.nvtx.range_push, torch.cuda.nvtx.range_pop
    try:
        import nvtx
    except ImportError:
        return lambda name: None, lambda: None
    return nvtx.push_range, nvtx.pop_range


# ---- the picture ---------------------------------------------------------------------

LEFT, RIGHT = 100.0, 12.0  # left and right margin of the time axis, in pixels
ROW, LANE, HOST_ROW, GAPS = 26.0, 22.0, 12.0, 20.0  # heights of rows, in pixels
LEFT_OF = {"size": 11, "anchor": "end", "faint": True}  # style of a row's label
NARROW = 5.0  # smallest width of a mark with an outline, in pixels
KINDS = {  # text, colour and opacity for each kind of span
    KERNEL: ("kernel", THREAD, 0.35),
    OPERATOR: ("operator of ATen", THREAD, 0.35),
    TO_DEVICE: ("copy to the device", READ, 0.15),
    TO_HOST: ("copy to the host", WRITTEN, 0.5),
    OTHER: ("copy or fill on the device", "currentColor", 0.25),
    HOST: ("call of the host", "currentColor", 0.5),
    LAUNCH: ("launch", "currentColor", 0.1),
    FETCH: ("fetches weights", READ, 0.25),
}
COPIES = (TO_DEVICE, TO_HOST, OTHER)


def draw(named: Mapping[str, Timeline], own_axis: bool = False) -> str:
    """Draw timelines below one another, on a common axis or each on its own, as SVG.

    Timelines with a date were measured elsewhere and are drawn hollow.
    """
    ends = [max(span.end for span in one.spans) for one in named.values()]
    body, y = "", 0.0
    for number, (name, one) in enumerate(named.items(), 1):
        wide = ends[number - 1] if own_axis else max(ends)
        part, y = _draw_timeline(name, one, (WIDTH - LEFT - RIGHT) / wide, y)
        body += part
        if own_axis or number == len(named):
            body += _draw_axis(wide, y)
            y += 30
    kinds = {span.kind for one in named.values() for span in one.spans}
    marks = [
        (svg.square(colour=colour, fill=fill), words)
        for kind, (words, colour, fill) in KINDS.items()
        if kind in kinds
    ]
    if any(one.date for one in named.values()):
        marks.append((svg.square(strength=DIM), "measured elsewhere"))
    body += svg.legend(EDGE, y + 14, marks, gap=19, apart=21)[0]
    title = "; ".join(f"{name}: {account(one)}" for name, one in named.items())
    return svg.document(WIDTH, y + 30, body, title.removeprefix(": "))


def account(one: Timeline) -> str:
    """Describe a timeline in words."""
    work = one.work
    kernels = sum(span.kind in (KERNEL, OPERATOR) for span in work)
    noun = "operator" if work[0].kind == OPERATOR else "kernel"
    text = count_things(kernels, noun) if kernels else ""
    if copies := sum(span.kind in COPIES for span in work):
        text += f"{' and ' * bool(text)}{copies} {'copy' if copies == 1 else 'copies'}"
    streams = len({span.row for span in work if span.row.startswith("stream")})
    text += f" on {count_things(streams, 'stream')}" * bool(streams)
    text += f" in {_format_us(one.us)}, {100 * one.busy / one.us:.0f} % of it busy"
    if gaps := one.gaps():
        longest = _format_us(max(b - a for a, b in gaps))
        text += f"; {count_things(len(gaps), 'gap')}, longest {longest}"
    return text


def _draw_timeline(
    name: str, one: Timeline, scale: float, top: float
) -> tuple[str, float]:
    """Draw one timeline from `top` downwards; also return its end."""
    source = f"{one.device}, {one.date}" if one.date else one.device
    details = ". ".join(filter(None, (account(one), source, one.note))).rstrip(". ")
    out = [label(EDGE, top + 20, name, 13, bold=True)] if name else []
    y = top + 20 + 17 * bool(name)
    out.append(label(EDGE, y, details, 12, faint=True))
    y += 10
    for row in sorted({span.row for span in one.spans}, key=_sort_key):
        spans = [span for span in one.spans if span.row == row]
        out.append(label(LEFT - 10, y + 15 - 5 * (row == "host"), row, **LEFT_OF))
        lanes = _assign_lanes(spans, 0.5 / scale)
        high = HOST_ROW if row == "host" else ROW if len(lanes) == 1 else LANE
        for lane in lanes:
            out.append(_draw_marks(lane, scale, y, high - 4, hollow=bool(one.date)))
            y += high
    gaps = one.gaps(max(1.0, 3 / scale))
    if gaps:
        out.append(label(LEFT - 10, y + 8, "nothing runs", **LEFT_OF))
        out.append("".join(_draw_gap(a, b, scale, y) for a, b in gaps))
        y += GAPS
    return "".join(out), y + 2


def _assign_lanes(spans: list[Span], touch: float) -> list[list[Span]]:
    """Group a row's spans by lane: overlaps longer than `touch` need separate lanes.

    Kernels of one stream overlap if they use programmatic dependent launch.
    """
    lanes: list[list[Span]] = []
    for span in sorted(spans, key=lambda span: span.start):
        for lane in lanes:
            if lane[-1].end <= span.start + touch:
                lane.append(span)
                break
        else:
            lanes.append([span])
    return lanes


def _draw_marks(
    lane: list[Span], scale: float, y: float, high: float, hollow: bool
) -> str:
    """Draw the spans of a lane; narrow ones have no outline."""
    out, end = [], -1.0
    for span in lane:
        words, colour, fill = KINDS[span.kind]
        x, wide = LEFT + span.start * scale, max(span.us * scale, 0.7)
        if wide < NARROW:
            if x + wide <= end + 0.2:
                continue  # the previous mark covers this one
            dense = 0.45 if hollow else 0.8
            mark = box(x, y, wide, high, colour=colour, fill=dense, radius=0, stroke=0)
        else:
            opacity = 0.0 if hollow else fill
            mark = box(x, y, wide - 0.6, high, colour=colour, fill=opacity, radius=2)
            text = svg.clipped(span.name, wide - 5, 11) if high > 14 else ""
            if len(text) > 2 or text == span.name:
                mark += label(x + 3, y + high / 2 + 4, text, 11)
        end = x + wide
        us, start = _format_us(span.us), _format_us(span.start)
        hint = f"{span.name}: {us}, {words}, from {start} on"
        kind = span.kind.replace(" ", "-")
        out.append(f'<g data-kind="{kind}"><title>{escape(hint)}</title>{mark}</g>')
    return "".join(out)


def _draw_gap(start: float, end: float, scale: float, y: float) -> str:
    """Draw a line across a gap, with its length if there is room."""
    x0, x1 = LEFT + start * scale, LEFT + end * scale
    text = _format_us(end - start)
    line = f'<path data-gap="{num(end - start)}" d="M{num(x0)} {num(y)}v6M{num(x1)} '
    line += f'{num(y)}v6M{num(x0)} {num(y + 3)}H{num(x1)}" stroke="currentColor" '
    line += 'stroke-opacity=".7" fill="none"/>'
    if svg.width_of(text, 11) + 6 > x1 - x0:
        return line
    return line + remark((x0 + x1) / 2, y + 17, text, anchor="middle")


def _draw_axis(us: float, y: float) -> str:
    scale = (WIDTH - LEFT - RIGHT) / us
    out = [svg.rule(f"M{num(LEFT)} {num(y)}H{num(WIDTH - RIGHT)}", opacity=f"{DIM}")]
    for tick in svg.list_ticks(us):
        x = LEFT + tick * scale
        out.append(svg.rule(f"M{num(x)} {num(y)}v4", opacity=f"{DIM}"))
        if x < WIDTH - RIGHT - 40:
            out.append(remark(x, y + 17, f"{tick:g}", anchor="middle"))
    out.append(remark(WIDTH - RIGHT, y + 17, "µs", anchor="end"))
    return "".join(out)


def _sort_key(row: str) -> tuple[bool, str, int]:
    name, _, number = row.rpartition(" ")
    return row != "host", name, int(number) if number.isdigit() else 0


def _format_us(value: float) -> str:
    if value >= 1e4:
        return f"{value / 1e3:.3g} ms"
    return f"{value:.0f} µs" if value >= 10 else f"{value:.2g} µs"
