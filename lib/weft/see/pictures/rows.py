"""Draw passes over a row, the threads that own a row, and the programs of Triton.

    play_passes([3, 1, 7, 0], ["maximum", "sum", "quotients"])
    play_online([3, 1, 7, 0])
    draw_owners(rows)
    play_programs(10); draw_program(error)

Sliders move a thread through the row. play_online() shows how the old sum shrinks when
a larger number is read (Milakov and Gimelshein, Online normalizer calculation for
softmax, 2018). draw_owners() draws the counted bytes of rungs relative to the floor,
and their active lanes, with a slider for the row's length. play_programs() draws the
lanes of programs and their mask.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ...base.errors import ArgumentError
from ...base.style import DIM, FAULT, PALE, READ, REFERENCE, SHARED, WIDTH, WRITTEN
from ...base.text import count_things
from ...ops.in_triton import OutOfArray
from . import svg
from .panels import EDGE
from .svg import Drawing, Slider, box, label, num, remark

LEFT, SIDE = 130.0, 44.0  # x of the first cell, and the side of a cell, in pixels
FIRST, APART = 82.0, 92.0  # y of the first pass's cells; pixels between two passes
LONGEST = 16  # maximum number of cells
BAR, HIGH = 172.0, 30.0  # y of the old sum's bar, and the height of a bar


def _check_row(name: str, numbers: Sequence[float]) -> None:
    """Raise ArgumentError unless the numbers are finite, and few enough to draw."""
    if not 1 <= len(numbers) <= LONGEST:
        count = len(numbers)
        raise ArgumentError(f"{name}: {count} numbers; 1 to {LONGEST} have room")
    if not all(map(math.isfinite, numbers)):
        raise ArgumentError(f"{name}: {list(numbers)} are not all finite")


def _draw_cells(
    numbers: Sequence[float], top: float, done: int, *, written: bool = False
) -> str:
    """Draw a row of cells, the first `done` marked as read, and the thread below."""
    out = ""
    for place, number in enumerate(numbers):
        x = LEFT + place * SIDE
        look = {"colour": READ, "fill": svg.FILL} if place < done else {"strength": 0.6}
        out += box(x + 2, top, SIDE - 4, SIDE - 10, **look)
        out += label(x + SIDE / 2, top + 22, f"{number:g}", 13, anchor="middle")
        if written and place < done:
            path = svg.corner(x + 2, top - 6, SIDE - 4)
            out += f'<path d="{path}" fill="{WRITTEN}"/>'
    if done:
        out += svg.thread(LEFT + (done - 0.5) * SIDE, top + SIDE + 2, 8)
    return out


# ---- passes --------------------------------------------------------------------------


def play_passes(numbers: Sequence[float], passes: Sequence[str]) -> Drawing:
    """Return the picture of passes over a row, with a slider for the steps.

    numbers: 1 to 16 finite numbers. passes: the name of each pass's result. The last
    pass also writes. Raises ArgumentError for other numbers, or if `passes` is empty.
    """
    _check_row("play_passes", numbers)
    if not passes:
        raise ArgumentError("play_passes: no passes")
    count, total = len(numbers), len(passes) * len(numbers)
    title = f"{count_things(len(passes), 'pass')} over a row"
    frames = {(at,): _draw_passes(numbers, passes, at) for at in range(total + 1)}
    stops = tuple(str(at) for at in range(total + 1))
    size = max(LEFT + count * SIDE + EDGE, 480.0), FIRST + APART * len(passes) - 20
    account = f"{title}: {', '.join(passes)}. {_count_accesses(count, passes, total)}"
    base, sliders = label(EDGE, 24, title, 16, bold=True), [Slider("step", stops)]
    return Drawing(title, *size, base, sliders, frames, (total,), account)


def _count_accesses(count: int, passes: Sequence[str], steps: int) -> str:
    writes = max(0, steps - (len(passes) - 1) * count)
    return f"{count_things(steps, 'read')}, {count_things(writes, 'write')}"


def _draw_passes(
    numbers: Sequence[float], passes: Sequence[str], steps: int
) -> list[str]:
    """Draw all passes after `steps` numbers have been read."""
    count, out = len(numbers), []
    for turn, name in enumerate(passes):
        top = FIRST + turn * APART
        done = min(max(steps - turn * count, 0), count)
        writes = turn == len(passes) - 1
        out.append(label(EDGE, top + 16, f"pass {turn + 1}", 13, bold=True))
        out.append(remark(EDGE, top + 34, name))
        out.append(_draw_cells(numbers, top, done, written=writes))
    counts = f"{_count_accesses(count, passes, steps)} so far"
    return [*out, label(EDGE, 50, counts, 13)]


# ---- one pass ------------------------------------------------------------------------


def play_online(numbers: Sequence[float]) -> Drawing:
    """Return the picture of an online softmax, with a slider for the numbers.

    numbers: 1 to 16 finite numbers. Two bars show the sum before and after each number.
    The old sum shrinks if the number is a new maximum. Raises ArgumentError for other
    numbers.
    """
    _check_row("play_online", numbers)
    pairs = [(-math.inf, 0.0)]
    for number in numbers:
        most = max(pairs[-1][0], number)
        kept = pairs[-1][1] * math.exp(pairs[-1][0] - most)
        pairs.append((most, kept + math.exp(number - most)))
    unit = (WIDTH - LEFT - 60) / max(total for _, total in pairs)
    title = "Maximum and sum in one pass"
    frames = {(0,): [_draw_cells(numbers, FIRST, 0), remark(EDGE, 50, "before")]}
    for at in range(1, len(pairs)):
        frames[at,] = _draw_step(numbers, pairs, at, unit)
    stops = ("before", *(f"{at}: {x:g}" for at, x in enumerate(numbers, 1)))
    steps = (_describe_step(numbers, pairs, at) for at in range(1, len(pairs)))
    base, account = (
        label(EDGE, 24, title, 16, bold=True),
        f"{title}. {'; '.join(steps)}",
    )
    # A still picture shows the last new maximum, at which the sum shrinks.
    start = max(at for at in range(1, len(pairs)) if pairs[at][0] > pairs[at - 1][0])
    sliders = [Slider("number", stops)]
    return Drawing(title, WIDTH, BAR + 146, base, sliders, frames, (start,), account)


Pairs = Sequence[tuple[float, float]]  # the maximum and the sum after each number


def _describe_step(numbers: Sequence[float], pairs: Pairs, at: int) -> str:
    """Describe how the number changes the maximum and the sum."""
    number, (before, _), (most, total) = numbers[at - 1], pairs[at - 1], pairs[at]
    now = f"sum {total:.3f}"
    if at == 1:
        return f"{number:g}: the first maximum; {now}"
    if number > before:
        factor = math.exp(before - most)
        shrinks = f"the sum shrinks by exp({before:g} - {number:g}) = {factor:.3f}"
        return f"{number:g}: a new maximum; {shrinks}, and 1 is added; {now}"
    term = math.exp(number - most)
    return f"{number:g}: exp({number:g} - {most:g}) = {term:.3f} is added; {now}"


def _draw_step(
    numbers: Sequence[float], pairs: Pairs, at: int, unit: float
) -> list[str]:
    """Draw the state after `at` numbers; unit: the width of 1 in pixels."""
    (before, old), (most, total) = pairs[at - 1], pairs[at]
    kept = old * math.exp(before - most) * unit
    below, words = BAR + HIGH + 28, _describe_step(numbers, pairs, at)
    names = [("sum before", BAR), ("sum now", below)]
    out = [_draw_cells(numbers, FIRST, at), label(EDGE, 50, words, 13)]
    out += [remark(LEFT - 12, y + 19, name, anchor="end") for name, y in names]
    dashed = f'<path d="{_outline(LEFT, BAR, old * unit)}" fill="none" {PALE} '
    out.append(f"{dashed}{REFERENCE}/>")
    # The line leads from the old sum's end to the end of its remainder.
    ends = (
        f"M{num(LEFT + old * unit)} {num(BAR + HIGH)}L{num(LEFT + kept)} {num(below)}"
    )
    out.append(f'<path d="{ends}" fill="none" {PALE}/>')
    out.append(box(LEFT, below, kept, HIGH, colour=SHARED, fill=svg.FILL, radius=0))
    new = total * unit - kept
    out.append(box(LEFT + kept, below, new, HIGH, colour=READ, fill=0.5, radius=0))
    marks = [
        (svg.square(colour=SHARED, fill=svg.FILL), "what is left of the old sum"),
        (svg.square(colour=READ, fill=0.5), "the new number's term"),
    ]
    legend, _ = svg.legend(LEFT, below + HIGH + 24, marks)
    state = f"{total:.3f}, for the maximum {most:g}"
    at_end = label(LEFT, below + HIGH + 46, state, 13)
    return [*out, legend, at_end]


def _outline(x: float, y: float, width: float) -> str:
    return f"M{num(x)} {num(y)}h{num(width)}v{num(HIGH)}h{num(-width)}z"


# ---- owners --------------------------------------------------------------------------

BARS, FLOOR = 160.0, 110.0  # x of the bars, and the width of the floor in pixels
CUT, LANES = 2.0, 510.0  # multiple of the floor at which bars are cut; x of the lanes
# The y of the first rung, the distance between rungs, and the height of a bar.
RUNGS, RUNG_APART, RUNG_HIGH = 96.0, 44.0, 24.0
WARP = 32

Row = Mapping[str, Any]


def draw_owners(rows: Sequence[Row]) -> Drawing:
    """Return the picture of rungs at each length of a row.

    rows: each has rung, cols, over_floor and lanes (the mean number of active threads
    in a warp's request). Raises ArgumentError if a rung lacks a length, or if there
    are no rows.
    """
    lengths = list(dict.fromkeys(row["cols"] for row in rows))
    names = list(dict.fromkeys(row["rung"] for row in rows))
    row_of = {(row["cols"], row["rung"]): row for row in rows}
    if not rows or len(row_of) != len(lengths) * len(names):
        sizes = f"{len(row_of)} rows, {len(names)} rungs, {len(lengths)} lengths"
        raise ArgumentError(f"draw_owners: {sizes}: a row for each pair is required")
    groups = [[row_of[cols, name] for name in names] for cols in lengths]
    frames = {(at,): _draw_group(group) for at, group in enumerate(groups)}
    stops = tuple(f"{cols:,}" for cols in lengths)
    title, bottom = "Who owns a row?", RUNGS + RUNG_APART * len(names)
    base = label(EDGE, 24, title, 16, bold=True) + _draw_frame(bottom)
    account = f"{title} {'; '.join(map(_describe_group, groups))}"
    sliders, start = [Slider("columns", stops)], (len(lengths) // 2,)
    return Drawing(title, WIDTH, bottom + 14, base, sliders, frames, start, account)


def _describe_group(group: Sequence[Row]) -> str:
    """Describe all rungs at one length."""
    rungs = [
        f"{row['rung']} {row['over_floor']:.2f} times the floor, "
        f"{row['lanes']:.0f} of {WARP} lanes"
        for row in group
    ]
    return f"{group[0]['cols']:,} columns: {', '.join(rungs)}"


def _draw_frame(bottom: float) -> str:
    """Draw the floor's line and the names of both columns."""
    out = remark(BARS, RUNGS - 14, "bytes over the floor")
    out += remark(LANES, RUNGS - 14, "active lanes of a request")
    path = f"M{num(BARS + FLOOR)} {num(RUNGS - 8)}V{num(bottom)}"
    return out + f'<path d="{path}" fill="none" {PALE} {REFERENCE}/>'


def _draw_group(group: Sequence[Row]) -> list[str]:
    """Draw the rungs at one length; the best ones have bold numbers."""
    best = min(row["over_floor"] for row in group)
    shape = f"{group[0]['rows']:,} x {group[0]['cols']:,} numbers"
    out = [label(EDGE, 50, shape, 13)]
    for place, row in enumerate(group):
        y, value = RUNGS + place * RUNG_APART, row["over_floor"]
        out.append(label(EDGE, y + 17, row["rung"], 12, mono=True))
        wide = min(value, CUT) * FLOOR
        out.append(box(BARS, y, wide, RUNG_HIGH, colour=READ, fill=svg.FILL, radius=0))
        text = f"{value:.2f}" + " (cut off)" * (value > CUT)
        bold = value < 1.02 * best
        out.append(label(BARS + wide + 8, y + 17, text, bold=bold))
        out.append(_draw_lanes(y + RUNG_HIGH / 2, row["lanes"]))
    return out


def _draw_lanes(y: float, lanes: float) -> str:
    """Draw a warp with its active lanes filled, and their mean number."""
    apart = 10.4
    circles = (
        svg.thread(LANES + 5 + lane * apart, y, 4, runs=lane < round(lanes))
        for lane in range(WARP)
    )
    return "".join(circles) + label(LANES + WARP * apart + 10, y + 4, f"{lanes:.0f}")


# ---- programs and masks --------------------------------------------------------------

CELL = 30.0  # pixels: the side of an element or a lane
BLOCKS = (2, 4, 8, 16)


def play_programs(count: int) -> Drawing:
    """Draw an array of `count` elements and the programs that cover it.

    A slider sets the block. Dashed lanes are past the end, so the mask excludes them.
    """
    if not 1 <= count <= 24:
        raise ArgumentError(f"play_programs({count}): the picture has room for 1 to 24")
    title = f"Programs that cover {count_things(count, 'element')}"
    base = label(EDGE, 24, title, 16, bold=True)
    frames, told = {}, []
    for at, block in enumerate(BLOCKS):
        lanes = list(range(-(-count // block) * block))
        used = [lane < count for lane in lanes]
        frames[at,] = [_draw_program_lanes("x", count, lanes, used, block)]
        text = f"{count_things(len(lanes) // block, 'program')} of {block} lanes; "
        text += f"the mask excludes {count_things(len(lanes) - count, 'lane')}"
        frames[at,].append(label(EDGE, 190, text, 13))
        told.append(text)
    stops = tuple(f"BLOCK = {block}" for block in BLOCKS)
    account = f"{title}. {'. '.join(told)}"
    sliders = [Slider("block", stops)]
    return Drawing(title, WIDTH, 206, base, sliders, frames, (1,), account)


def draw_program(error: OutOfArray) -> Drawing:
    """Draw the program of an OutOfArray: its lanes, and the array's end."""
    at, used = error.at.tolist(), error.used.tolist()
    program = ", ".join(map(str, error.program[: error.axes]))
    title = f"{error.verb} of {error.array}, program {program}"
    base = label(EDGE, 24, title, 16, bold=True)
    first = max(0, min(at[0], error.count - 4))
    body = _draw_program_lanes(error.array, error.count, at, used, len(at), first)
    outside = sum(u and not 0 <= i < error.count for i, u in zip(at, used))
    text = f"{outside} of {len(at)} lanes use an element past the end"
    body += label(EDGE, 190, text, 13, colour=FAULT)
    return Drawing(title, WIDTH, 206, base, [], {(): [body]}, (), f"{title}: {text}")


def _draw_program_lanes(
    name: str,
    count: int,
    at: Sequence[int],
    used: Sequence[bool],
    block: int,
    first: int = 0,
) -> str:
    """Draw elements from `first` on, and below each the lane that uses it."""
    left = EDGE + 70
    shown = int((WIDTH - left - EDGE) // CELL)
    out = label(EDGE, 72, name, 14, mono=True)
    out += label(EDGE, 142, "lanes", 13)
    for i in range(first, min(count, first + shown)):
        x = left + (i - first) * CELL
        out += box(x, 52, CELL, CELL, colour=READ, fill=svg.FILL, radius=0)
        out += label(x + CELL / 2, 71, str(i), 11, anchor="middle")
    for turn, (i, does) in enumerate(zip(at, used)):
        x = left + (i - first) * CELL
        if not 0 <= i - first < shown:
            continue
        outside = not 0 <= i < count
        if does and outside:
            out += box(x, 52, CELL, CELL, colour=FAULT, fill=svg.FILL, stroke=2)
            out += label(x + CELL / 2, 71, str(i), 11, anchor="middle", colour=FAULT)
        centre = x + CELL / 2, 137.0
        circle = svg.thread(*centre, 12, runs=does)
        if not does:
            circle = circle.replace("<circle", f"<circle {REFERENCE}")
        out += svg.rule(f"M{centre[0]} 86V122", opacity=str(DIM)) if does else ""
        out += circle + label(centre[0], 141, str(turn % block), 11, anchor="middle")
    for start in range(0, len(at), block):
        x = left + (at[start] - first) * CELL + 2
        wide = block * CELL - 4
        if x - left >= 0 and x + wide <= WIDTH:
            out += box(x, 120, wide, 50, radius=8, strength=DIM)
            out += remark(x + 6, 165, f"program {start // block}" * (len(at) > block))
    return out
