"""latency(kernel)[grid, block](*args): warps that take turns while loads are in flight.

    latency(sum_rows)[4, 64](out, x, 64, 100)          a picture with a slider
    latency(sum_rows, memory=800)[4, 64](...)          slower memory
    latency(sum_rows)[4, 64](...).utilisation          {2: 0.004, 4: 0.009, ...}

The launch runs on the simulator. A model of one multiprocessor replays its warps;
pictures.warps describes the model's rules and numbers. The picture has a row for each
warp, and time runs from left to right. The model ignores caches and bandwidth: it
explains how latency is hidden and does not forecast times.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ...base.errors import ArgumentError
from ...base.style import DIM, INK, PALE, READ, SHARED, THREAD, WIDTH
from ...base.text import count_things, write_thousands
from ...pykernel.language import PythonKernel
from ...pykernel.sim import sim
from . import svg
from .panels import EDGE
from .show import Picture
from .svg import Drawing, Slider, box, label, num, remark
from .warp_steps import programs
from .warps import ISSUING, MEMORY, NEAR, OTHERS, READY, Model, Run, replay

if TYPE_CHECKING:
    from ...report.model import Report


LEFT, WIDE = 88.0, 560.0  # x of cycle 0 and the width of the time axis, in pixels
TOP, HIGH = 112.0, 320.0  # y and height of the rows, in pixels
ROW = 40.0  # the largest height of a row
STRIP = 44.0  # height of the strip of issued instructions, in pixels
# The x of the bars for shares, and the width of a full share, in pixels.
BARS, BAR = 744.0, 106.0
STATES = (  # state, text, colour, angle of the hatching
    (ISSUING, "issues an instruction", THREAD, None),
    (MEMORY, "waits for global memory", READ, -45),
    (NEAR, "waits for shared memory or arithmetic", SHARED, 45),
    (READY, "ready, but another warp issues", INK, 90),
)


def draw(
    name: str, runs: Sequence[Run], window: int, model: Model, notes: str
) -> Drawing:
    """Draw the picture, with a slider for the number of resident warps.

    runs: the results, from few warps to many. window: the number of cycles drawn.
    notes: a line that describes the work.
    """
    scale = WIDE / window
    heading = f"{name}: warps take turns on one multiprocessor"
    base = label(EDGE, 28, heading, 17, bold=True)
    base += _draw_legend(76) + _draw_axis(window, scale)
    y = TOP + HIGH + STRIP + 60
    base += remark(EDGE, y, _describe_model(model)) + remark(EDGE, y + 17, notes)
    frames = {}
    for i, run in enumerate(runs):
        rows = _draw_rows(run, window, scale)
        frames[(i,)] = [_describe(runs, i, model), rows, _draw_bars(runs, i)]
    shares = [100 * run.warps / model.resident for run in runs]
    names = [f"{r.warps} ({share:.3g} % occupancy)" for r, share in zip(runs, shares)]
    title = f"{name}: how warps hide the time that loads take"
    sliders = [Slider("resident warps", tuple(names))]
    start, words = (min(3, len(runs) - 1),), account(name, runs, model)
    return Drawing(title, WIDTH, y + 36, base, sliders, frames, start, words)


def account(name: str, runs: Sequence[Run], model: Model) -> str:
    """Describe the result in words."""
    shares = ", ".join(f"{r.warps}: {percent(r.utilisation)}" for r in runs)
    text = f"{name}: issue slots used by number of resident warps: {shares}"
    return f"{text} ({_describe_model(model)})"


def percent(share: float) -> str:
    """Write a share as "0.49 %" or "12 %"."""
    value = 100 * share
    return f"{value:.0f} %" if value >= 9.95 else f"{value:.2g} %"


def needed(runs: Sequence[Run]) -> int:
    """Return the number of warps that fill every slot, by Little's law."""
    alone = runs[0]
    return round(alone.warps / alone.utilisation) if alone.issued else 0


def _describe(runs: Sequence[Run], at: int, model: Model) -> str:
    run, full, enough = runs[at], runs[-1], needed(runs)
    text = f"With {count_things(run.warps, 'warp')} the {model.schedulers} schedulers "
    text += f"issue in {percent(run.utilisation)} of their cycles"
    if run is not full:
        text += f", with {full.warps} in {percent(full.utilisation)}"
    if enough > full.warps:
        text += f"; issuing in all of them would take about {enough} warps."
    else:
        text += f"; about {enough} warps could issue in all of them"
        waits = full.utilisation < 0.9  # slots stay empty despite enough warps
        text += ", if they did not wait at the same time." if waits else "."
    return label(EDGE, 48, text, 13, faint=True)


def _describe_model(model: Model) -> str:
    return (
        f"The model: one instruction per scheduler and cycle, {model.schedulers} "
        f"schedulers; a result is ready {model.memory} cycles after a load from global "
        f"memory, {model.shared} from shared, {model.arithmetic} after arithmetic"
    )


def _draw_legend(y: float) -> str:
    out = "".join(
        svg.hatch(state, colour, angle) for state, _, colour, angle in STATES if angle
    )
    marks = [
        (svg.square(colour=_fill_of(state, colour), edge=colour, fill=1), text)
        for state, text, colour, _ in STATES
    ]
    marks.append((svg.square(strength=DIM), "at a barrier"))
    return f"<defs>{out}</defs>{svg.legend(EDGE, y, marks, gap=18)[0]}"


def _fill_of(state: str, colour: str) -> str:
    """Return the fill of a state: plain or hatched."""
    return colour if state == ISSUING else f"url(#weft-{state})"


def _draw_axis(window: int, scale: float) -> str:
    out = [remark(LEFT - 10, TOP - 8, "cycle", anchor="end")]
    for cycle in svg.list_ticks(window - 1):
        x = LEFT + cycle * scale
        out.append(remark(x, TOP - 8, str(cycle)))
        out.append(svg.rule(f"M{num(x)} {num(TOP - 4)}v4", opacity=f"{DIM}"))
    out.append(remark(BARS - 12, TOP - 8, "warps", anchor="end"))
    out.append(remark(BARS, TOP - 8, "issue slots used"))
    return "".join(out)


def _draw_rows(run: Run, window: int, scale: float) -> str:
    pitch = min(ROW, HIGH / run.warps)
    gap = 1.0 if pitch < 9 else 3.0
    named = -(-14 // int(max(1, pitch)))
    while run.warps % named and named < run.warps:
        named += 1
    out = []
    for place in range(0, run.warps, named):
        y = TOP + (place + 0.5) * pitch + 4
        out.append(remark(LEFT - 10, y, f"warp {place}", anchor="end"))
    # Flat rows are strokes, which need less SVG text.
    thin, high = pitch < 9, pitch - gap
    for state, _, colour, _ in (*reversed(STATES), (OTHERS, "", "none", None)):
        waits, path = state == OTHERS, ""
        for place, spans in enumerate(run.spans):
            y = TOP + place * pitch + gap / 2
            for x, wide in _merge_spans(spans, state, scale):
                if thin and not waits:
                    path += f"M{num(x)} {num(y + high / 2)}h{num(wide)}"
                else:
                    path += f"M{num(x)} {num(y)}h{num(wide)}v{num(high)}h{num(-wide)}z"
        fill = "none" if waits else _fill_of(state, colour)
        edge = PALE if waits else f'stroke="{colour}"' * (state != ISSUING)
        look = f'fill="{fill}" {edge} stroke-width=".7"'
        if thin and not waits:
            look = f'stroke="{fill}" stroke-width="{num(high)}"'
        out.append(f'<path data-state="{state}" d="{path}" {look}/>' * bool(path))
    return "".join(out) + _draw_strip(run, window, scale, TOP + run.warps * pitch + 12)


def _merge_spans(
    spans: Sequence[tuple[str, int, int]], state: str, scale: float
) -> list[tuple[float, float]]:
    """Return (x, width) of a row's parts with this state, merging adjacent ones."""
    least = 1.2 if state == ISSUING else 0.0
    parts: list[list[float]] = []
    for kind, start, end in spans:
        if kind != state:
            continue
        x0 = LEFT + start * scale
        x1 = max(LEFT + end * scale, x0 + least)
        if parts and x0 - parts[-1][1] < 0.5:
            parts[-1][1] = max(parts[-1][1], x1)
        else:
            parts.append([x0, x1])
    return [(x0, x1 - x0) for x0, x1 in parts if x1 - x0 >= 0.1]


def _draw_strip(run: Run, window: int, scale: float, top: float) -> str:
    """Draw the used share of the issue slots, in columns a few pixels wide."""
    cycles = max(1, round(4 / scale))
    bottom, path = top + STRIP, ""
    for start in range(0, window, cycles):
        part = run.slots[start : start + cycles]
        high = STRIP * sum(part) / (len(part) * run.schedulers)
        if high:
            x, wide = LEFT + start * scale, len(part) * scale
            path += f"M{num(x)} {num(bottom)}v{-high:.1f}h{wide:.1f}v{high:.1f}z"
    out = f'<path data-strip="1" d="{path}" fill="{THREAD}" />'
    edges = "".join(f"M{num(LEFT)} {num(y)}h{num(WIDE)}" for y in (top, bottom))
    out += svg.rule(edges, opacity=f"{DIM}")
    out += remark(LEFT - 10, top + 10, "100 %", anchor="end")
    return out + remark(LEFT - 10, bottom, "issue slots", anchor="end")


def _draw_bars(runs: Sequence[Run], at: int) -> str:
    out = []
    for i, run in enumerate(runs):
        y, now = TOP + 6 + 24 * i, i == at
        wide = max(1.0, BAR * run.utilisation)
        look = dict(bold=now, faint=not now)
        out.append(label(BARS - 12, y + 11, str(run.warps), 11, anchor="end", **look))
        out.append(box(BARS, y, wide, 14, colour=THREAD, fill=0.6 * now, radius=1))
        share = percent(run.utilisation)
        out.append(label(BARS + wide + 6, y + 11, share, 11, **look))
    y = TOP + 24 * len(runs) + 26
    cycles = write_thousands(runs[at].cycles)
    out.append(remark(BARS - 50, y, f"all of the work: {cycles} cycles"))
    return "".join(out)


# Maximum number of instructions that a picture replays. They take half a second.
ISSUES = 160_000
WINDOW = 4  # number of successive loads from global memory that fit into the drawing


class Replayed(Picture):
    """A picture of a replay; runs: the model's results by number of resident warps."""

    def __init__(self, drawing: Any, report: Report, runs: list[Run]) -> None:
        super().__init__(drawing, report)
        self.runs = {run.warps: run for run in runs}

    @property
    def utilisation(self) -> dict[int, float]:
        """The share of issue slots that were used, by number of resident warps."""
        return {warps: run.utilisation for warps, run in self.runs.items()}


class Latency:
    """A kernel to replay: [grid, block](*args) runs it and returns the picture."""

    def __init__(self, kernel: Any, model: Model, timeout: float) -> None:
        self.kernel, self.model, self.timeout = kernel, model, timeout
        try:
            self.python = PythonKernel(kernel)
        except ArgumentError as error:
            why = f"{error}; latency() replays a launch on the simulator"
            raise ArgumentError(why) from None

    def __getitem__(self, key: Any) -> Callable[..., Replayed]:
        self.python.config(key)

        def run(*args: Any) -> Replayed:
            one = sim(self.kernel, trace=True, quiet=True, timeout=self.timeout)
            return replayed(one[key](*args), self.model)

        return run

    def __repr__(self) -> str:
        return f"latency({self.python.name})[grid, block](*args) draws a launch"


def latency(
    kernel: Any,
    *,
    memory: int = 400,
    shared: int = 30,
    arithmetic: int = 4,
    schedulers: int = 4,
    resident: int = 64,
    timeout: float = 3.0,
) -> Latency:
    """Draw how warps hide latency: latency(kernel)[grid, block](*args).

    kernel: a Python kernel. memory, shared, arithmetic: cycles until the result of a
    load from global or shared memory, or of a computation, can be used. schedulers: the
    number of schedulers of a multiprocessor. resident: the maximum number of resident
    warps. timeout: time limit in seconds for one block. The slider goes from one block
    to as many as fit. At each stop, the warps of the resident blocks share the same
    work. Raises ArgumentError for invalid arguments, and the launch's own exceptions.
    """
    settings = dict(memory=memory, shared=shared, arithmetic=arithmetic)
    settings |= dict(schedulers=schedulers, resident=resident)
    for name, value in settings.items():
        if not hasattr(value, "__index__") or not 1 <= value <= 100_000:
            raise ArgumentError(
                f"{name}={value!r}: expected a whole number, 1 to 100000"
            )
    if resident > 128:
        raise ArgumentError(f"resident={resident}: at most 128 rows are drawn")
    return Latency(kernel, Model(**settings), timeout)


def replayed(report: Report, model: Model) -> Replayed:
    """Return the picture of a finished launch, whose report must contain a trace."""
    trace = report.trace
    x, y, z = trace.block
    warps = -(-x * y * z // 32)
    fit = model.resident // warps
    if not fit:
        raise ArgumentError(
            f"a block of {x * y * z} threads has {warps} warps, and the "
            f"multiprocessor has room for {model.resident}"
        )
    stops = [1 << i for i in range(fit.bit_length())]
    total = stops[-1]  # every stop runs this number of blocks
    most = max(16, ISSUES // (len(stops) * total * warps))
    blocks = programs(trace, report, most)
    if not any(any(block) for block in blocks):
        raise ArgumentError(f"{trace.kernel} touches no array: nothing to wait for")
    # The drawing has all cycles, or enough of them for a few successive loads.
    cycles = replay(blocks, total, total, model).cycles
    window = max(64, min(cycles, WINDOW * model.memory))
    runs = [replay(blocks, n, total, model, window) for n in stops]
    notes = _write_notes(blocks, total, warps, most)
    drawing = draw(trace.kernel, runs, window, model, notes)
    return Replayed(drawing, report, runs)


def _write_notes(blocks: list, total: int, warps: int, most: int) -> str:
    text = f"The work: {count_things(total, 'block')} of {count_things(warps, 'warp')}"
    if len(blocks) < total:
        text += f" (the launch has {len(blocks)}: they are repeated)"
    elif len(blocks) > total:
        text += f" (the first ones of {len(blocks)})"
    longest = max(len(program) for block in blocks for program in block)
    if longest == most:
        return f"{text}; only the first {most} instructions of each warp."
    return f"{text}; a warp has at most {count_things(longest, 'instruction')}."
