"""Draw a GPU's work over time: a row for each stream, with gaps between its marks."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING

from ...base.style import READ, THREAD, WIDTH, WRITTEN
from ...base.text import count_things
from . import svg
from .panels import EDGE
from .svg import box, label, num

if TYPE_CHECKING:
    from ..timeline import Span, Timeline

LEFT, RIGHT = 100.0, 12.0  # left and right margin of the time axis, in pixels
ROW, LANE, HOST_ROW, GAPS = 26.0, 22.0, 12.0, 20.0  # heights of rows, in pixels
LEFT_OF = {"size": 11, "anchor": "end", "faint": True}  # style of a row's label
NARROW = 5.0  # Marks narrower than this, in pixels, have no outline.
KINDS = {  # text, colour and opacity for each kind of span
    "kernel": ("kernel", THREAD, 0.35),
    "operator": ("operator of ATen", THREAD, 0.35),
    "to device": ("copy to the device", READ, 0.25),
    "to host": ("copy to the host", WRITTEN, 0.4),
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
    longest = max(_find_end(timeline) for timeline in named.values())
    body, y = [], 0.0
    for name, timeline in named.items():
        wide = _find_end(timeline) if own_axis else longest
        part, y = _draw_timeline(name, timeline, (WIDTH - LEFT - RIGHT) / wide, y)
        body.append(part)
        if own_axis:
            body.append(_draw_axis(wide, y))
            y += 30
    if not own_axis:
        body.append(_draw_axis(longest, y))
        y += 30
    kinds = {span.kind for timeline in named.values() for span in timeline.spans}
    body.append(
        _draw_legend(kinds, any(timeline.date for timeline in named.values()), y + 14)
    )
    title = "; ".join(
        f"{name}: {account(timeline)}" for name, timeline in named.items()
    )
    return svg.document(WIDTH, y + 30, "".join(body), title.removeprefix(": "))


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
    details = ". ".join(part for part in (source, one.note) if part)
    out = [label(EDGE, top + 20, name, 13, bold=True)] if name else []
    y = top + 20 + 17 * bool(name)
    out.append(
        label(EDGE, y, f"{account(one)}. {details}".rstrip(". "), 12, faint=True)
    )
    y += 10
    for row in dict.fromkeys(
        ["host", *sorted({s.row for s in one.work}, key=_sort_key)]
    ):
        spans = [span for span in one.spans if span.row == row]
        if not spans:
            continue
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
    spans: list[Span], scale: float, y: float, high: float, hollow: bool
) -> str:
    """Draw the spans of a lane; those too narrow for an outline are plain."""
    out, end = [], -1.0
    for span in sorted(spans, key=lambda span: span.start):
        words, colour, fill = KINDS[span.kind]
        x, wide = LEFT + span.start * scale, max(span.us * scale, 0.7)
        if wide < NARROW:
            if x + wide <= end + 0.2:
                continue  # The previous mark covers this one.
            dense = 0.45 if hollow else 0.8
            mark = box(x, y, wide, high, colour=colour, fill=dense, radius=0, stroke=0)
        else:
            opacity = 0.0 if hollow else fill
            look = {"colour": colour, "fill": opacity, "radius": 2}
            mark = box(x, y, wide - 0.6, high, **look)
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
    return line + label((x0 + x1) / 2, y + 17, text, 11, anchor="middle", faint=True)


def _draw_axis(us: float, y: float) -> str:
    step = next(s for s in _choose_steps() if us <= 8 * s)
    scale = (WIDTH - LEFT - RIGHT) / us
    out = [
        f'<path d="M{num(LEFT)} {num(y)}H{num(WIDTH - RIGHT)}" stroke="currentColor" '
        'stroke-opacity=".5"/>'
    ]
    tick = 0.0
    while tick <= us:
        x = LEFT + tick * scale
        mark = f'<path d="M{num(x)} {num(y)}v4" stroke="currentColor"'
        out.append(f'{mark} stroke-opacity=".5"/>')
        if x < WIDTH - RIGHT - 40:
            out.append(label(x, y + 17, f"{tick:g}", 11, anchor="middle", faint=True))
        tick += step
    out.append(label(WIDTH - RIGHT, y + 17, "µs", 11, anchor="end", faint=True))
    return "".join(out)


def _choose_steps():
    step = 1.0
    while True:
        yield from (step, 2 * step, 5 * step)
        step *= 10


def _draw_legend(kinds: set[str], hollow: bool, y: float) -> str:
    out, x = [], EDGE
    for kind in [kind for kind in KINDS if kind in kinds]:
        words, colour, fill = KINDS[kind]
        out.append(box(x, y - 10, 13, 13, colour=colour, fill=fill))
        out.append(label(x + 19, y, words, 11, faint=True))
        x += 40 + svg.width_of(words, 11)
    if hollow:
        out.append(box(x, y - 10, 13, 13, strength=0.7))
        out.append(label(x + 19, y, "measured elsewhere", 11, faint=True))
    return "".join(out)


def _find_end(one: Timeline) -> float:
    """Return the end of the last span in µs."""
    return max(span.end for span in one.spans)


def _sort_key(row: str) -> tuple[str, int]:
    name, _, number = row.rpartition(" ")
    return name, int(number) if number.isdigit() else 0


def _format_us(value: float) -> str:
    if value >= 1e4:
        return f"{value / 1e3:.3g} ms"
    return f"{value:.0f} µs" if value >= 10 else f"{value:.2g} µs"
