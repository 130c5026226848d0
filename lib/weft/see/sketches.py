"""Draw small pictures that need no launch: ideas, bits of a number, a warp's request.

Ideas for the glossary:

    warps((16, 4))            the warps of a block, and the lanes of their threads
    rounds("down", "xor")     how lanes add up their numbers, round by round
    tiles(8, 4)               the tiles of a and b that a block uses in turn

For lesson 08c, the bits of a number, and the lane of each element:

    bits({"fp32": (8, 23), "bf16": (8, 7)})
    lanes, registers = owners("a")            lane and register of each element
    fragments({"a": lanes}, lane=5)
    ring(stages=8, places=4, latency=3)       a producer ahead of consumers

One request of a warp, with the sectors it touches or the turns it needs at the banks:

    lanes = np.arange(32)
    sectors({"x[i]": lanes, "x[2 * i]": 2 * lanes})
    banks({"s[33 * t]": 33 * lanes})

Each row is a request, given as the indices of the 4-byte elements that lanes 0 to 31
access. Element 0 is at the start of a sector, and in bank 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from ..base.errors import ArgumentError
from ..base.style import INK, READ, SHARED, THREAD, WRITTEN, fade_colour
from ..base.text import count_things
from .view import cells, figure, frame, sheet, thread

CELL = 0.4  # size of a thread in inches
GAP = 1.7  # distance between rounds in cells
LANES = 32
ROUNDS = {  # by kind: its name, and the lane whose number lane `i` adds at `step`
    "down": ("from the right", lambda i, step: i + step),
    "xor": ("across", lambda i, step: i ^ step),
    "up": ("from the left", lambda i, step: i - step),
}


def warps(block: tuple[int, int]) -> None:
    """Draw a block of (x, y) threads with their lanes; warps alternate in colour."""
    wide, high = block
    with figure(CELL * (wide + 1), CELL * (high + 1)) as ax:
        sheet(ax, wide + 0.1, high + 0.1)
        for number in range(wide * high):
            warp, lane = divmod(number, LANES)
            x, y = number % wide, number // wide
            thread(ax, x, y, lane, colour=(THREAD, INK)[warp % 2])
        title = f"a block of {wide} x {high}: each thread's lane, a warp in one colour"
        ax.set_title(title, size=11, loc="left")


def rounds(*kinds: str, numbers: Sequence[float] = range(8)) -> None:
    """Draw how lanes add each other's numbers, round by round, and all interim results.

    kinds: "down" (a reduction: the sum ends in lane 0), "xor" (a reduction: all lanes
    get the sum) or "up" (a scan). Each kind gets a panel. Pale numbers are final or no
    longer used. numbers: the initial numbers, whose count must be a power of two.
    """
    count = len(numbers)
    if count & (count - 1) or not count or not set(kinds) <= set(ROUNDS) or not kinds:
        raise ArgumentError(
            f"rounds{kinds} of {count} numbers: kinds are {', '.join(ROUNDS)}; "
            "the count must be a power of two"
        )
    high = 1 + GAP * np.log2(count)
    size = CELL * (count + 1) * len(kinds), CELL * (high + 1.2)
    with figure(*size, columns=len(kinds), squeeze=False) as axes:
        for ax, kind in zip(axes[0], kinds):
            sheet(ax, count + 0.1, high + 0.1)
            _draw_rounds(ax, kind, list(numbers))


def _draw_rounds(ax: Axes, kind: str, values: list[float]) -> None:
    count = len(values)
    steps = [1 << k for k in range(count.bit_length() - 1)]
    if kind != "up":
        steps.reverse()
    direction, partner = ROUNDS[kind]
    for row, step in enumerate([*steps, 0]):
        top = GAP * row
        # The lanes whose numbers this round or a later one still uses.
        used = {"down": range(count >> row), "up": range((1 << row) // 2, count)}
        new = list(values)
        for lane, value in enumerate(values):
            runs = lane in used.get(kind, range(count))
            thread(ax, lane, top, f"{value:g}", runs=runs)
            other = partner(lane, step)
            takes_part = kind != "down" or lane < step
            if step and takes_part and 0 <= other < count:
                new[lane] = value + values[other]
                for start in lane, other:
                    ends = [start + 0.5, lane + 0.5], [top + 0.92, top + GAP + 0.08]
                    ax.plot(*ends, color=THREAD, lw=1)
        values = new
    title = f"{kind}: {direction}, by {', '.join(map(str, steps))}"
    ax.set_title(title, size=11, loc="left")


def tiles(side: int, tile: int) -> None:
    """Draw c = a @ b, each side x side: one tile of c, and the tiles that it needs.

    Each number is the iteration of the block's loop that loads the tile.
    """
    if tile < 1 or side % tile:
        raise ArgumentError(f"tiles({side}, {tile}): the tile must divide the side")
    # The tile of c, by row and column of tiles.
    row, col = side // tile - 1, side // tile // 2
    step = side + 2
    with figure(0.25 * (2 * step + 1), 0.25 * (2 * step + 1)) as ax:
        sheet(ax, 2 * step, 2 * step)
        text = "c = a @ b: the block that computes\nthis tile of c loads one tile\n"
        ax.text(0, 3, text + "of a and of b in each turn", size=11, va="center")
        for name, left, top, tiles_used, colour in (
            ("b", step, 1, [(turn, col) for turn in range(side // tile)], READ),
            ("a", 0, step + 1, [(row, turn) for turn in range(side // tile)], READ),
            ("c", step, step + 1, [(row, col)], WRITTEN),
        ):
            values: list[list[object]] = [[""] * side for _ in range(side)]
            marks = {}
            for turn, (tile_row, tile_col) in enumerate(tiles_used):
                for y, x in np.ndindex(tile, tile):
                    at = tile_row * tile + y, tile_col * tile + x
                    marks[at] = colour
                    values[at[0]][at[1]] = turn if name != "c" else ""
            cells(ax, values, left, top, name, "", marks)
            for tile_row, tile_col in tiles_used:
                frame(ax, left + tile_col * tile, top + tile_row * tile, tile, tile)


WORD = 32  # bits of a word
FRAGMENT_NAME = 5.5  # width of a name in cells
BIT = 0.235  # size of a bit in inches
BIT_GAP = 2  # distance between fragments in cells


def bits(formats: Mapping[str, tuple[int, int]]) -> None:
    """Draw number formats one below the other, given their exponent and mantissa bits.

    Pale cells are bits that a 32-bit float in memory has and the format ignores.
    """
    with figure(BIT * (FRAGMENT_NAME + WORD + 0.5), BIT * 1.7 * len(formats)) as ax:
        sheet(ax, FRAGMENT_NAME + WORD + 0.3, 1.7 * len(formats))
        for row, (name, (exponent, mantissa)) in enumerate(formats.items()):
            top = 1.7 * row + 0.4
            look = {"va": "center", "family": "monospace", "weight": "bold"}
            ax.text(0, top + 0.5, name, size=11, **look)
            used = 1 + exponent + mantissa
            for place in range(used if used <= 16 else WORD):
                kind = "s" if not place else "e" if place <= exponent else "m"
                _draw_bit(ax, FRAGMENT_NAME + place, top, kind if place < used else "")


def owners(which: str) -> tuple[np.ndarray, np.ndarray]:
    """Return each element's lane, and its index in that lane, for 16-bit m16n8k16.

    which: "a" (16,16), "b" (16,8) or "c" (16,8). Indices of a and b count 16-bit
    elements, two to a register. Source: PTX ISA, "Matrix Fragments for mma.m16n8k16".
    """
    rows, cols = np.indices({"a": (16, 16), "b": (16, 8), "c": (16, 8)}[which])
    if which == "b":  # a column of b corresponds to a row of a
        rows, cols = cols, rows
    lane = rows % 8 * 4 + cols % 8 // 2
    lower, right = rows // 8, cols // 8
    index = cols % 2 + 2 * (right if which == "b" else lower + 2 * right)
    return lane, index


def fragments(lanes: Mapping[str, np.ndarray], lane: int | None = None) -> None:
    """Draw matrices side by side; each cell shows the lane that stores the element.

    lane: the lane whose elements are marked.
    """
    wide = sum(table.shape[1] + BIT_GAP for table in lanes.values())
    high = max(table.shape[0] for table in lanes.values())
    with figure(BIT * (wide + 0.2), BIT * (high + 1.6)) as ax:
        sheet(ax, wide, high + 1.5)
        left = 0
        for name, table in lanes.items():
            marks = {tuple(at): THREAD for at in np.argwhere(table == lane)}
            cells(ax, table, left, 1.4, name, "", marks)
            left += table.shape[1] + BIT_GAP


def ring(stages: int, places: int, latency: float, apart: float = 0.5) -> float:
    """Draw when each stage arrives in its place of a ring, and when it is multiplied.

    latency: time from the producer's request until a stage arrives. apart: time between
    two arrivals. The unit is the time to multiply a stage. Returns the fraction of the
    time during which the tensor cores work.
    """
    requests, arrivals, starts = stages_of(stages, places, latency, apart)
    end = starts[-1] + 1
    with figure(9.5, 0.32 * (places + 2) + 0.5) as ax:
        for stage, (request, arrival, start) in enumerate(
            zip(requests, arrivals, starts)
        ):
            row = stage % places
            _draw_span(ax, row, request, arrival, READ, stage)
            for at in (row, places + 0.3):
                _draw_span(ax, at, start, start + 1, THREAD, stage)
        names = [f"place {place}" for place in range(places)]
        ax.set_yticks([*range(places), places + 0.3], [*names, "tensor cores"])
        ax.set(ylim=(places + 0.8, -0.6), xlim=(0, max(end, 24)))
        label = "time of one stage's products; blue: being loaded, purple: being used"
        ax.set_xlabel(label)
        ax.grid(False)
    return stages / end


def stages_of(
    stages: int, places: int, latency: float, apart: float
) -> tuple[list[float], list[float], list[float]]:
    """Return the times of each stage's request, its arrival, and its first product."""
    requests: list[float] = []
    arrivals: list[float] = []
    starts: list[float] = []
    for stage in range(stages):
        # A place is free once its previous stage has been multiplied.
        free = starts[stage - places] + 1 if stage >= places else 0.0
        requests.append(max(free, requests[-1] if requests else 0.0))
        last = arrivals[-1] + apart if arrivals else 0.0
        arrivals.append(max(requests[-1] + latency, last))
        starts.append(max(arrivals[-1], starts[-1] + 1 if starts else 0.0))
    return requests, arrivals, starts


def _draw_span(
    ax: Axes, row: float, start: float, end: float, colour: str, stage: int
) -> None:
    look = {"fc": fade_colour(colour), "ec": colour, "lw": 1.2}
    ax.add_patch(Rectangle((start, row - 0.36), end - start, 0.72, **look))
    middle = {"ha": "center", "va": "center", "size": 9}
    ax.text((start + end) / 2, row, str(stage), **middle)


def _draw_bit(ax: Axes, left: float, top: float, kind: str) -> None:
    """Draw a bit of sign ("s"), exponent ("e") or mantissa ("m"), or an ignored one."""
    look = {"lw": 0.9, "ec": INK, "fc": fade_colour(INK) if kind == "e" else "none"}
    look |= {} if kind else {"lw": 0.4}
    ax.add_patch(Rectangle((left + 0.05, top), 0.9, 1, **look))
    centred = {"size": 9, "ha": "center", "va": "center"}
    ax.text(left + 0.5, top + 0.53, kind, **centred)


SECTOR = 8  # 4-byte elements in a sector of 32 bytes
BANKS = 32  # number of banks, each 4 bytes wide
LANE_CELL = 0.2  # size of an element in inches
WARP_NAME = 6.5  # width of the name, to the left of the elements, in cells
SHOWN_SECTORS = 5
SHOWN_TURNS = 4  # maximum number of turns that are drawn; later turns are only counted
Requests = Mapping[str, Sequence[int] | np.ndarray]


def sectors_of(elements: Sequence[int] | np.ndarray) -> np.ndarray:
    """Return the distinct indices of the sectors that contain these elements."""
    return np.unique(np.asarray(elements) // SECTOR)


def turns_of(elements: Sequence[int] | np.ndarray) -> np.ndarray:
    """Return, for each element, the turn (from 0) in which its bank delivers it.

    If several lanes request the same element, all of them receive it in one turn.
    """
    words = np.unique(elements)
    order = np.lexsort((words, words % BANKS))
    bank = words[order] % BANKS
    first = np.flatnonzero(np.diff(bank, prepend=-1))
    place = np.arange(len(bank)) - np.repeat(first, np.diff(first, append=len(bank)))
    turn = np.empty_like(place)
    turn[order] = place
    return turn[np.searchsorted(words, elements)]


def sectors(requests: Requests) -> None:
    """Draw the sectors that each request takes, beginning with the lowest.

    The number in an element is the first lane that requests it. Grey elements are
    transferred although no lane requests them.
    """
    rows, width = len(requests), SECTOR * SHOWN_SECTORS
    with figure(LANE_CELL * (WARP_NAME + width + 1), LANE_CELL * 3.1 * rows) as ax:
        sheet(ax, width + 0.5, 3.1 * rows, -WARP_NAME)
        for row, (name, elements) in enumerate(requests.items()):
            top = 3.1 * row + 1.5
            _write_name(ax, top, name)
            numbers = sectors_of(elements)
            first = int(numbers[0])
            offsets = np.asarray(elements) - first * SECTOR
            for place in range(SHOWN_SECTORS):
                _draw_sector(ax, SECTOR * place, top, first + place in numbers, offsets)
            for lane, element in _list_first_lanes(elements):
                if element < (first + SHOWN_SECTORS) * SECTOR:
                    _draw_lane(ax, element - first * SECTOR, top, lane, READ)
            requested = len(np.unique(elements))
            hidden = len(numbers) - np.sum(numbers < first + SHOWN_SECTORS)
            note = f"{count_things(len(numbers), 'sector')}, {32 * len(numbers)} bytes"
            note += f", {4 * requested} of them requested"
            note += f"; {hidden} of the sectors are further right" * bool(hidden)
            ax.text(0, top - 0.35, note, size=8.5)


def banks(requests: Requests) -> None:
    """Draw the lanes that each bank serves in each turn; see turns_of().

    The number in a cell is the first lane that requests the element.
    """
    counts = [int(turns_of(elements).max()) + 1 for elements in requests.values()]
    heights = [min(count, SHOWN_TURNS) for count in counts]
    height = sum(h + 2 for h in heights)
    with figure(LANE_CELL * (WARP_NAME + BANKS + 8), LANE_CELL * height) as ax:
        sheet(ax, BANKS + 7.5, height, -WARP_NAME)
        top = 1.4
        for (name, elements), turns in zip(requests.items(), counts):
            _write_name(ax, top, name)
            turn, visible = turns_of(elements), min(turns, SHOWN_TURNS)
            for bank in range(BANKS):
                _draw_outline(ax, bank, top, 1, visible, 0.5)
            for lane, element in _list_first_lanes(elements):
                if turn[lane] < visible:
                    _draw_lane(ax, element % BANKS, top + turn[lane], lane, SHARED)
            note = count_things(turns, "turn")
            note += f", {visible} of them shown" * (turns > visible)
            ax.text(0, top - 0.35, note, size=8.5)
            top += visible + 2


def _list_first_lanes(elements: Sequence[int] | np.ndarray) -> list[tuple[int, int]]:
    """Return (lane, element) for each element, with the first lane that requests it."""
    words, lanes = np.unique(elements, return_index=True)
    return [(int(lane), int(word)) for lane, word in zip(lanes, words)]


def _write_name(ax: Axes, top: float, name: str) -> None:
    look = {"family": "monospace", "size": 9, "va": "center"}
    ax.text(-WARP_NAME, top + 0.55, name, **look)


def _draw_sector(
    ax: Axes, left: int, top: float, touched: bool, requested: np.ndarray
) -> None:
    for cell in range(left, left + SECTOR):
        _draw_outline(ax, cell, top, 1, 1, 0.4)
        if touched and cell not in requested:
            unused = Rectangle((cell, top), 1, 1, fc=fade_colour(INK), ec="none")
            ax.add_patch(unused)
    _draw_outline(ax, left, top, SECTOR, 1, 1.8 if touched else 0.8)


def _draw_outline(
    ax: Axes, left: float, top: float, width: int, height: int, line: float
) -> None:
    box = Rectangle((left, top), width, height, fill=False, ec=INK, lw=line)
    ax.add_patch(box)


def _draw_lane(ax: Axes, left: float, top: float, lane: int, colour: str) -> None:
    look = {"ec": colour, "fc": fade_colour(colour), "lw": 1.2}
    ax.add_patch(Rectangle((left + 0.06, top + 0.08), 0.88, 0.84, **look))
    centred = {"ha": "center", "va": "center", "size": 8.5}
    ax.text(left + 0.5, top + 0.54, str(lane), **centred)
