"""Draw how a warp moves 512 bytes, with a slider for the width of its loads.

    draw_widths()

Each lane loads 1 to 16 bytes at a time. The sectors that a request needs are framed
together; the first request is coloured, with lines from its lanes.
"""

from __future__ import annotations

from ...base.errors import ArgumentError
from ...base.style import DIM, READ, WIDTH
from ...base.text import count_things
from . import svg
from .panels import EDGE
from .svg import Drawing, Slider, box, label, num, remark, rule

LANES, SECTOR, BYTES = 32, 32, 512  # lanes of a warp; bytes of a sector; bytes moved
WIDTHS = (1, 2, 4, 8, 16)  # bytes that a lane loads at a time
BYTE = (WIDTH - 2 * EDGE) / BYTES  # width of a byte in pixels
THREADS, ROW, HIGH = 86.0, 168.0, 34.0  # y of the lanes and of the row; its height


def draw_widths(start: int = 4) -> Drawing:
    """Return the picture of one warp's requests.

    start: the width that is shown first, in bytes, one of WIDTHS; else ArgumentError.
    """
    if start not in WIDTHS:
        known = ", ".join(map(str, WIDTHS))
        raise ArgumentError(f"draw_widths({start}): a lane loads {known} bytes")
    title = f"A warp moves {BYTES} bytes: {BYTES // SECTOR} sectors, in any width"
    base = label(EDGE, 20, title, 16, bold=True) + _draw_lanes() + _draw_sectors()
    frames = {(at,): _draw_width(width) for at, width in enumerate(WIDTHS)}
    stops = tuple(count_things(width, "byte") for width in WIDTHS)
    account = "; ".join(_describe(width) for width in WIDTHS)
    sliders, at = [Slider("per lane", stops)], (WIDTHS.index(start),)
    return Drawing(title, WIDTH, 248, base, sliders, frames, at, f"{title}. {account}")


def _describe(width: int) -> str:
    """Describe the requests of loads of this width."""
    lanes = f"{count_things(width, 'byte')} per lane"
    requests = count_things(BYTES // (LANES * width), "request")
    return f"{lanes}: {requests} of {count_things(width, 'sector')}"


def _find_lane(lane: int) -> float:
    """Return the x of a lane's middle; at 16 bytes per lane, its bytes are below."""
    return EDGE + (lane + 0.5) * BYTES / LANES * BYTE


def _draw_lanes() -> str:
    """Draw the lanes with their numbers."""
    out = remark(EDGE, THREADS - 20, "the lanes of the warp")
    for lane in range(LANES):
        out += svg.thread(_find_lane(lane), THREADS, 11)
        out += label(_find_lane(lane), THREADS + 4, str(lane), 11, anchor="middle")
    return out


def _draw_sectors() -> str:
    """Draw the row of sectors, and the first byte of each."""
    out = ""
    for sector in range(BYTES // SECTOR):
        left, wide = EDGE + sector * SECTOR * BYTE, SECTOR * BYTE
        out += box(left, ROW, wide, HIGH, radius=0, strength=DIM)
        out += remark(left + 2, ROW + HIGH + 14, str(sector * SECTOR))
    return out + remark(WIDTH - EDGE, ROW + HIGH + 28, "byte", anchor="end")


def _draw_width(width: int) -> list[str]:
    """Draw the requests of loads of this width."""
    span = LANES * width * BYTE  # width of a request in pixels
    out = [label(EDGE, 42, _describe(width), 13)]
    out.append(
        rule("".join(_draw_line(lane, width) for lane in range(LANES)), width="1")
    )
    for request in range(BYTES // (LANES * width)):
        left = EDGE + request * span
        look = {"colour": READ, "fill": 0.0 if request else svg.FILL}
        out.append(box(left + 1.5, ROW + 2, span - 3, HIGH - 4, stroke=2, **look))
        out.append(label(left + 8, ROW + 21, str(request)))
    text = "blue: the bytes of a request, with its number"
    return [*out, remark(EDGE, ROW + HIGH + 34, text)]


def _draw_line(lane: int, width: int) -> str:
    """Draw a line from a lane to its bytes of the first request."""
    below = EDGE + (lane + 0.5) * width * BYTE
    return f"M{num(_find_lane(lane))} {num(THREADS + 12)}L{num(below)} {num(ROW)}"
