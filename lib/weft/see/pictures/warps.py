"""Draw how the lanes of one warp load bytes, and how they queue at bins.

draw_widths()                  512 bytes, with a slider for the width of the loads
play_queues(noise, digit)      queues of 32 keys, with a slider from noise to digit
"""

from __future__ import annotations

from collections.abc import Sequence

from ...base.errors import ArgumentError
from ...base.style import DIM, FAULT, READ, SHARED, WIDTH
from ...base.text import count_things
from . import svg
from .panels import EDGE
from .svg import Drawing, Slider, arrow, behind, box, label, num, remark, rule, thread

# ---- widths --------------------------------------------------------------------------

LANES, SECTOR, BYTES = 32, 32, 512  # lanes of a warp; bytes of a sector; bytes moved
WIDTHS = (1, 2, 4, 8, 16)  # bytes that a lane loads at a time
BYTE = (WIDTH - 2 * EDGE) / BYTES  # width of a byte in pixels
THREADS, ROW, HIGH = 86.0, 168.0, 34.0  # y of lanes; y and height of the row


def draw_widths(start: int = 4) -> Drawing:
    """Return the picture of one warp's requests.

    start: the first width, in bytes. Raises ArgumentError if it is not in WIDTHS.
    """
    if start not in WIDTHS:
        known = ", ".join(map(str, WIDTHS))
        raise ArgumentError(f"draw_widths({start}): a lane loads {known} bytes")
    title = f"A warp moves {BYTES} bytes: {BYTES // SECTOR} sectors, in any width"
    base = (
        label(EDGE, 20, title, 16, bold=True) + _draw_loading_lanes() + _draw_sectors()
    )
    frames = {(at,): _draw_width(width) for at, width in enumerate(WIDTHS)}
    stops = tuple(count_things(width, "byte") for width in WIDTHS)
    account = "; ".join(_describe_width(width) for width in WIDTHS)
    sliders, at = [Slider("per lane", stops)], (WIDTHS.index(start),)
    return Drawing(title, WIDTH, 248, base, sliders, frames, at, f"{title}. {account}")


def _describe_width(width: int) -> str:
    """Describe the requests of loads that have this width."""
    lanes = f"{count_things(width, 'byte')} per lane"
    requests = count_things(BYTES // (LANES * width), "request")
    return f"{lanes}: {requests} of {count_things(width, 'sector')}"


def _find_lane(lane: int) -> float:
    """Return the x of a lane's middle: above its bytes, if it loads 16 of them."""
    return EDGE + (lane + 0.5) * BYTES / LANES * BYTE


def _draw_loading_lanes() -> str:
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
    """Draw the requests of loads that have this width."""
    span = LANES * width * BYTE  # width of a request in pixels
    out = [label(EDGE, 42, _describe_width(width), 13)]
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


# ---- queues --------------------------------------------------------------------------

LANE, TOP = 26.0, 74.0  # width of a lane, and y of the lanes' circles, in pixels
BINS, PLACE = 200.0, 13.0  # y of the bins, and height of a place in a queue
STOPS = 5  # positions of the slider, from no lane of the second warp to all


def play_queues(noise: Sequence[int], digit: Sequence[int]) -> Drawing:
    """Return 32 lanes with arrows to their bins, and the queues below the bins.

    noise, digit: the bins of the lanes of two warps, 32 whole numbers each. The slider
    replaces the lanes of the first warp with those of the second, eight at a time.
    Raises ArgumentError for another number of lanes.
    """
    for name, keys in ("noise", noise), ("digit", digit):
        if len(keys) != LANES:
            raise ArgumentError(f"play_queues: {name} has {len(keys)} keys, not 32")
    counts = [LANES * stop // (STOPS - 1) for stop in range(STOPS)]
    warps = [[*map(int, digit[:n]), *map(int, noise[n:])] for n in counts]
    stops = ["noise", *(f"{n} lanes of a digit" for n in counts[1:-1]), "digit"]
    title = "The 32 lanes of a warp update their bins"
    frames = {(at,): _draw_warp(warp) for at, warp in enumerate(warps)}
    account = f"{title}. " + "; ".join(
        f"{stop}: {_describe_warp(warp)}" for stop, warp in zip(stops, warps)
    )
    longest = max(len(queue) for warp in warps for queue in list_queues(warp).values())
    size = 2 * EDGE + LANES * LANE, BINS + 34 + longest * PLACE
    base = label(EDGE, 24, title, 16, bold=True)
    sliders = [Slider("warp", tuple(stops))]
    return Drawing(title, *size, base, sliders, frames, (STOPS - 1,), account)


def list_queues(keys: Sequence[int]) -> dict[int, list[int]]:
    """Return the lanes that update each bin, by bin in ascending order."""
    return {
        key: [lane for lane, own in enumerate(keys) if own == key]
        for key in sorted(set(keys))
    }


def _describe_warp(keys: Sequence[int]) -> str:
    queues = list_queues(keys)
    longest = max(map(len, queues.values()))
    bins = count_things(len(queues), "bin")
    return f"{bins}; the longest queue has {count_things(longest, 'lane')}"


def _draw_warp(keys: Sequence[int]) -> list[str]:
    """Draw the lanes, an arrow for each, and the bins with their queues."""
    queues = list_queues(keys)
    out = [label(EDGE, 48, _describe_warp(keys), 13)]
    out += [_draw_updating_lane(lane) for lane in range(LANES)]
    apart = LANES * LANE / len(queues)
    for place, (key, lanes) in enumerate(queues.items()):
        middle = EDGE + (place + 0.5) * apart
        # Draw the first lane last, so that no pale curve covers its arrow.
        for lane in reversed(lanes):
            out.append(_draw_way(_find_middle(lane), middle, lane == lanes[0]))
        out.append(_draw_queue(middle, key, lanes))
    return out


def _find_middle(lane: int) -> float:
    return EDGE + (lane + 0.5) * LANE


def _draw_updating_lane(lane: int) -> str:
    x = _find_middle(lane)
    return thread(x, TOP, 11) + label(x, TOP + 4, str(lane), 11, anchor="middle")


def _draw_way(start: float, end: float, is_first: bool) -> str:
    """Draw the arrow of a bin's first lane, or the pale curve of a lane that waits."""
    top, bottom = TOP + 12, BINS - 2
    if is_first:
        return arrow((start, top), (end, bottom), SHARED)
    bend = 0.55 * (bottom - top)
    path = (
        f"M{num(start)} {num(top)}C{num(start)} {num(top + bend)} "
        f"{num(end)} {num(bottom - bend)} {num(end)} {num(bottom)}"
    )
    return behind(path, FAULT)


def _draw_queue(middle: float, key: int, lanes: Sequence[int]) -> str:
    """Draw a bin with its number, and below it a place for each lane that waits."""
    wide = LANE - 3
    out = box(middle - wide / 2, BINS, wide, 20, colour=SHARED, fill=svg.FILL)
    out += label(middle, BINS + 14, str(key), 11, anchor="middle")
    for turn in range(len(lanes) - 1):
        y = BINS + 24 + turn * PLACE
        out += box(middle - wide / 2, y, wide, PLACE - 2, strength=DIM, radius=2)
    if len(lanes) > 1:
        y = BINS + 24 + (len(lanes) - 1) * PLACE + 9
        out += remark(middle, y, f"+{len(lanes) - 1}", anchor="middle")
    return out
