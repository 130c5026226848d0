"""Draw a GPU's work over time: a row for each stream, with gaps between its marks."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING

from ...base.style import DIM, READ, THREAD, WIDTH, WRITTEN
from ...base.text import count_things
from . import svg
from .panels import EDGE
from .svg import box, label, num, remark

if TYPE_CHECKING:
    from ..timeline import Span, Timeline

LEFT, RIGHT = 100.0, 12.0  # left and right margin of the time axis, in pixels
ROW, LANE, HOST_ROW, GAPS = 26.0, 22.0, 12.0, 20.0  # heights of rows, in pixels
LEFT_OF = {"size": 11, "anchor": "end", "faint": True}  # style of a row's label
NARROW = 5.0  # smallest width of a mark with an outline, in pixels
KINDS = {  # text, colour and opacity for each kind of span
    "kernel": ("kernel", THREAD, 0.35),
    "operator": ("operator of ATen", THREAD, 0.35),
    "to device": ("copy to the device", READ, 0.15),
    "to host": ("copy to the host", WRITTEN, 0.5),
    "copy or fill": ("copy or fill on the device", "currentColor", 0.25),
    "host": ("call of the host", "currentColor", 0.5),
    "launch": ("launch", "currentColor", 0.1),
    "fetch": ("fetches weights", READ, 0.25),
}


COPIES = ("to device", "to host", "copy or fill")


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
    kernels = sum(span.kind in ("kernel", "operator") for span in work)
    noun = "operator" if work[0].kind == "operator" else "kernel"
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
