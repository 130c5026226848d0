"""Draw bytes over the floor and active lanes, with a slider for the row's length.

draw_owners(rows)

rows: counted rungs, as weft.lessons.rows.count_owners() returns them. A bar is cut off
where it would hide the others; its number remains.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...base.errors import ArgumentError
from ...base.style import PALE, READ, REFERENCE, WIDTH
from . import svg
from .panels import EDGE
from .svg import Drawing, Slider, box, label, num, remark

BARS, FLOOR = 160.0, 110.0  # x of the bars, and the width of the floor in pixels
CUT, LANES = 2.0, 510.0  # times the floor at which a bar ends; x of the lanes
# The y of the first rung, the distance between rungs, and the height of a bar.
TOP, APART, HIGH = 96.0, 44.0, 24.0
WARP = 32

Row = Mapping[str, Any]


def draw_owners(rows: Sequence[Row]) -> Drawing:
    """Return the picture of rungs at each length of a row.

    rows: each has rung, cols, over_floor and lanes (the mean of active threads of a
    warp's request). Raises ArgumentError if a rung lacks a length, or without rows.
    """
    lengths = list(dict.fromkeys(row["cols"] for row in rows))
    names = list(dict.fromkeys(row["rung"] for row in rows))
    found = {(row["cols"], row["rung"]): row for row in rows}
    if not rows or len(found) != len(lengths) * len(names):
        sizes = f"{len(found)} rows, {len(names)} rungs, {len(lengths)} lengths"
        raise ArgumentError(f"draw_owners: {sizes}: a row for each pair is required")
    groups = [[found[cols, name] for name in names] for cols in lengths]
    frames = {(at,): _draw_group(group) for at, group in enumerate(groups)}
    stops = tuple(f"{cols:,}" for cols in lengths)
    title, bottom = "Who owns a row?", TOP + APART * len(names)
    base = label(EDGE, 24, title, 16, bold=True) + _draw_frame(bottom)
    account = f"{title} {'; '.join(map(_describe, groups))}"
    sliders, start = [Slider("columns", stops)], (len(lengths) // 2,)
    return Drawing(title, WIDTH, bottom + 14, base, sliders, frames, start, account)


def _describe(group: Sequence[Row]) -> str:
    """Describe all rungs at one length."""
    rungs = [
        f"{row['rung']} {row['over_floor']:.2f} times the floor, "
        f"{row['lanes']:.0f} of {WARP} lanes"
        for row in group
    ]
    return f"{group[0]['cols']:,} columns: {', '.join(rungs)}"


def _draw_frame(bottom: float) -> str:
    """Draw the floor's line and the names of both columns."""
    out = remark(BARS, TOP - 14, "bytes over the floor")
    out += remark(LANES, TOP - 14, "active lanes of a request")
    path = f"M{num(BARS + FLOOR)} {num(TOP - 8)}V{num(bottom)}"
    return out + f'<path d="{path}" fill="none" {PALE} {REFERENCE}/>'


def _draw_group(group: Sequence[Row]) -> list[str]:
    """Draw the rungs at one length; the best ones have bold numbers."""
    best = min(row["over_floor"] for row in group)
    shape = f"{group[0]['rows']:,} x {group[0]['cols']:,} numbers"
    out = [label(EDGE, 50, shape, 13)]
    for place, row in enumerate(group):
        y, value = TOP + place * APART, row["over_floor"]
        out.append(label(EDGE, y + 17, row["rung"], 12, mono=True))
        wide = min(value, CUT) * FLOOR
        out.append(box(BARS, y, wide, HIGH, colour=READ, fill=svg.FILL, radius=0))
        text = f"{value:.2f}" + " (cut off)" * (value > CUT)
        bold = value < 1.02 * best
        out.append(label(BARS + wide + 8, y + 17, text, bold=bold))
        out.append(_draw_lanes(y + HIGH / 2, row["lanes"]))
    return out


def _draw_lanes(y: float, lanes: float) -> str:
    """Draw a warp, of which the active lanes are filled, and their mean number."""
    apart = 10.4
    circles = (
        svg.thread(LANES + 5 + lane * apart, y, 4, runs=lane < round(lanes))
        for lane in range(WARP)
    )
    return "".join(circles) + label(LANES + WARP * apart + 10, y + 4, f"{lanes:.0f}")
