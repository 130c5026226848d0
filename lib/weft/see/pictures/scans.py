"""Draw compactions, scans within a block, and scans by blocks that wait.

    draw_compaction([3, 8, 4, 7], [False, True, True, False])
    play_scans([3, 1, 7, 0, 4, 1, 6, 3])      Kogge-Stone next to Brent-Kung
    run_blocks(order, slots=4)      the flags of all tiles after each step
    play_chain()                    a chained scan: sliders for the order and the tiles
    play_chain(look_back=True)      a scan that adds partial sums of several tiles
    draw_windows()                  lengths of look-back windows in 100 schedules

list_kogge_stone() and list_brent_kung() also return rounds for play_rounds() (Kogge and
Stone, A parallel algorithm for the efficient solution of a general class of recurrence
equations, 1973; Brent and Kung, A regular layout for parallel adders, 1982).

In the model of a chain, a few blocks run at a time, each in a slot. A block adds up its
tile for some steps, and publishes a partial sum. It then waits for the sum of all
tiles before its own, publishes a final sum, and leaves its slot to the next block
(Merrill and Garland, Single-pass parallel prefix scan with decoupled look-back,
2016).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from ...base.errors import ArgumentError
from ...base.style import DIM, FAULT, PALE, READ, REFERENCE, SHARED, WIDTH, WRITTEN
from ...base.text import count_things
from . import svg
from .merge_rounds import APART, HIGH, LEFT, TOP, Board, Round, compute_rows
from .panels import EDGE
from .svg import Drawing, Slider, arrow, box, label, num, remark

CELL, GAP = 44.0, 92.0  # side of a place; pixels from the numbers to the output
FROM = 116.0  # x of the first number
LONGEST = 16  # maximum number of cells

# ---- compaction ----------------------------------------------------------------------


def draw_compaction(numbers: Sequence[int], kept: Sequence[bool]) -> Drawing:
    """Return the picture of a compaction, with a slider for its three steps.

    numbers: 1 to 16 numbers. kept: whether each of them is kept. The exclusive scan
    supplies the places in the output to which the arrows lead. Raises ArgumentError for
    other counts.
    """
    if not 1 <= len(numbers) <= LONGEST or len(kept) != len(numbers):
        raise ArgumentError(
            f"draw_compaction: {len(numbers)} numbers and {len(kept)} marks; expected "
            f"equal counts, 1 to {LONGEST}"
        )
    marks = [int(bool(one)) for one in kept]
    places = [0, *accumulate(marks)]
    title = f"{places[-1]} of {count_things(len(marks), 'number')} kept, in order"
    stops = ("1 count", "2 scan", "3 scatter")
    frames = {(at,): _draw_until(numbers, marks, places, at) for at in range(3)}
    moves = ", ".join(
        f"{x} to {to}" for x, mark, to in zip(numbers, marks, places) if mark
    )
    account = f"{title}. Exclusive scan: {', '.join(map(str, places[:-1]))}. {moves}"
    size = max(FROM + len(marks) * CELL + EDGE, 420.0), 296.0
    base = label(EDGE, 24, title, 16, bold=True)
    return Drawing(title, *size, base, [Slider("step", stops)], frames, (2,), account)


def _draw_until(
    numbers: Sequence[int], marks: Sequence[int], places: Sequence[int], last: int
) -> list[str]:
    """Draw the numbers and their marks, and in later steps the scan and the arrows."""
    rows = [("x", numbers, 48.0), ("keep", marks, 92.0), ("scan", places, 136.0)]
    out = [_draw_row(name, row, marks, y) for name, row, y in rows[: last + 2]]
    if last < 1:
        out = out[:2]
    bottom = 136.0 + GAP
    out.append(remark(FROM - 14, bottom + 20, "out", anchor="end", mono=True))
    for place in range(places[-1]):
        x = FROM + place * CELL
        out.append(box(x + 3, bottom, CELL - 6, 30, colour=WRITTEN, fill=svg.FILL / 2))
        out.append(remark(x + CELL / 2, bottom + 46, str(place), anchor="middle"))
    if last == 2:
        for number, mark, start, to in zip(numbers, marks, range(len(marks)), places):
            if mark:
                out.append(_draw_move(number, start, to, 166.0, bottom))
    return out


def _draw_row(name: str, row: Sequence[int], marks: Sequence[int], y: float) -> str:
    """Draw a row of values; the cells of kept numbers are filled."""
    out = remark(FROM - 14, y + 20, name, anchor="end", mono=True)
    for place, (value, mark) in enumerate(zip(row, marks)):
        x = FROM + place * CELL
        look = {"colour": READ, "fill": svg.FILL} if mark else {"strength": DIM}
        out += box(x + 3, y, CELL - 6, 30, **look)
        out += label(
            x + CELL / 2, y + 20, str(value), 13, anchor="middle", faint=not mark
        )
    return out


def _draw_move(number: int, start: int, to: int, top: float, bottom: float) -> str:
    """Draw the arrow of a kept number, and the number in the output."""
    x, end = FROM + (start + 0.5) * CELL, FROM + (to + 0.5) * CELL
    return arrow((x, top), (end, bottom - 1), WRITTEN) + label(
        end, bottom + 20, str(number), 13, anchor="middle"
    )


# ---- scans in a block ----------------------------------------------------------------


def list_kogge_stone(count: int) -> list[Round]:
    """Return the rounds of a scan with few rounds; all unfinished places add in each.

    count: a power of two. Raises ArgumentError for other counts.
    """
    _check_count("list_kogge_stone", count)
    steps = [1 << k for k in range(count.bit_length() - 1)]
    return [[(to, to - step) for to in range(step, count)] for step in steps]


def list_brent_kung(count: int) -> list[Round]:
    """Return the rounds of a scan with few additions: up a tree, then down.

    count: a power of two. Raises ArgumentError for other counts.
    """
    _check_count("list_brent_kung", count)
    steps = [1 << k for k in range(count.bit_length() - 1)]
    up = [[(to, to - s) for to in range(2 * s - 1, count, 2 * s)] for s in steps]
    down = [
        [(to, to - s) for to in range(3 * s - 1, count, 2 * s)] for s in steps[-2::-1]
    ]
    return [*up, *(pairs for pairs in down if pairs)]


def _check_count(name: str, count: int) -> None:
    if count < 1 or count & (count - 1):
        raise ArgumentError(f"{name}({count}): the count must be a power of two")


def play_scans(values: Sequence[float]) -> Drawing:
    """Return both scans of `values`, side by side, with one slider for the rounds.

    values: 2, 4 or 8 numbers that are short enough for two players side by side. Raises
    ArgumentError for others.
    """
    _check_count("play_scans", len(values))
    scans = {"Kogge-Stone": list_kogge_stone, "Brent-Kung": list_brent_kung}
    boards, titles = [], []
    for name, list_rounds in scans.items():
        rounds = list_rounds(len(values))
        rows = compute_rows(values, rounds, lambda own, other: own + other)
        texts = [[f"{value:g}" for value in row] for row in rows]
        boards.append(Board(texts, rounds, 44.0))
        additions = count_things(sum(map(len, rounds)), "addition")
        titles.append(f"{name}: {count_things(len(rounds), 'round')}, {additions}")
    each = LEFT + len(values) * 44.0
    widest = max(svg.width_of(t) for one in boards for row in one.texts for t in row)
    if 2 * each > WIDTH or widest > 34:
        raise ArgumentError(
            f"{len(values)} values of up to {widest:.0f} pixels: no room"
        )
    most = max(len(board.rounds) for board in boards)
    frames = {(at,): _draw_beside(boards, at, each) for at in range(most + 1)}
    base = label(EDGE, 22, titles[0], 15, bold=True)
    base += label(EDGE + each, 22, titles[1], 15, bold=True)
    stops = ("before", *(f"round {number}" for number in range(1, most + 1)))
    account = "; ".join(titles)
    size = 2 * each + EDGE, TOP + APART * most + HIGH + 16
    return Drawing(
        "Two scans", *size, base, [Slider("round", stops)], frames, (most,), account
    )


def _draw_beside(boards: Sequence[Board], at: int, each: float) -> list[str]:
    """Draw the boards next to each other; a finished board no longer changes."""
    out = []
    for place, board in enumerate(boards):
        inner = "".join(board.draw_until(min(at, len(board.rounds))))
        out.append(f'<g transform="translate({num(place * each)} 0)">{inner}</g>')
    return out


# ---- chains of blocks ----------------------------------------------------------------

ABSENT, EMPTY, PARTIAL, FINAL = range(4)  # a tile without a block, then flags of a tile
LETTERS = {PARTIAL: "p", FINAL: "f"}


@dataclass(frozen=True)
class Schedule:
    """A run of all blocks.

    steps: the state of each tile after each step. blocks: the block of each tile, or
    None if no block took it. windows: the number of flags that each tile needed, or 0
    if it never finished. A tile adds the final sum of the first tile of its window.
    """

    steps: list[list[int]]
    blocks: list[int | None]
    windows: list[int]

    @property
    def hangs(self) -> bool:
        """Return whether some tile never becomes final."""
        return any(state != FINAL for state in self.steps[-1])


def run_blocks(
    order: Sequence[int],
    slots: int,
    *,
    look_back: bool = False,
    ticket: bool = False,
    times: Sequence[int] | None = None,
) -> Schedule:
    """Run a scan's blocks until all tiles are final, or until nothing changes.

    order: the order in which blocks begin. slots: the number of blocks that run at the
    same time. look_back: whether a tile may add partial sums; otherwise it waits for
    the final sum of the tile before it. ticket: whether a block takes the next tile;
    otherwise, block i takes tile i. times: steps that each tile's own sum takes
    (default: 1). Raises ArgumentError unless `order` is a permutation, and slots and
    times are positive.
    """
    count = len(order)
    times = [1] * count if times is None else list(times)
    if sorted(order) != list(range(count)) or not count or len(times) != count:
        raise ArgumentError(
            f"run_blocks: {list(order)} is no order of {len(times)} tiles"
        )
    if slots < 1 or min(times) < 1:
        raise ArgumentError(f"run_blocks: slots={slots}, times={times}: at least 1")
    flags, left = [ABSENT] * count, list(times)
    blocks: list[int | None] = [None] * count
    windows: list[int] = [0] * count
    steps, begun, running = [], 0, []
    while True:
        while begun < count and len(running) < slots:
            tile = begun if ticket else order[begun]
            blocks[tile], flags[tile] = order[begun], EMPTY
            running.append(tile)
            begun += 1
        before, changed = list(flags), False
        for tile in list(running):
            if left[tile]:
                left[tile] -= 1
                flags[tile] = EMPTY if left[tile] else PARTIAL
                changed = True
            elif window := _find_window(before, tile, look_back):
                flags[tile], changed = FINAL, True
                windows[tile] = window
                running.remove(tile)
        steps.append(list(flags))
        if not changed or FINAL * count == sum(flags):
            return Schedule(steps, blocks, windows)


def _find_window(flags: Sequence[int], tile: int, look_back: bool) -> int:
    """Return the number of flags that a tile needs to become final; 0 if it must wait.

    Tile 0 needs no flag, but counts as needing 1.
    """
    first = tile - 1
    while look_back and first >= 0 and flags[first] == PARTIAL:
        first -= 1
    if first < 0:
        return max(tile, 1)
    return tile - first if flags[first] == FINAL else 0


# ---- one schedule --------------------------------------------------------------------

TILES, SLOTS = 8, 4
ORDERS = {
    "forward": list(range(TILES)),
    "shuffled": [1, 0, 3, 2, 5, 7, 4, 6],
    "reverse": list(range(TILES))[::-1],
}
NUMBERS = ("blockIdx", "ticket")
ROW, COLUMN = 30.0, 34.0  # height of a tile's row, and width of a step
FIRST, STEPS_LEFT = 104.0, 150.0  # y of the first row, x of the first step


def play_chain(look_back: bool = False) -> Drawing:
    """Return the picture of eight tiles' flags over time; four blocks run at a time.

    Sliders select the order in which blocks begin, and where a block's tile comes from:
    its own index, or a ticket. Tiles need one, two or three steps for their own sums.
    """
    title = "Look-back" if look_back else "A chained scan"
    runs = {
        (at, way): run_blocks(
            order, SLOTS, look_back=look_back, ticket=way == 1, times=[1, 3, 1, 2] * 2
        )
        for at, order in enumerate(ORDERS.values())
        for way in range(2)
    }
    frames = {key: _draw_run(run) for key, run in runs.items()}
    sliders = [Slider("order", tuple(ORDERS)), Slider("tile", NUMBERS)]
    longest = max(len(run.steps) for run in runs.values())
    size = STEPS_LEFT + max(longest, 12) * COLUMN + 130, FIRST + TILES * ROW + 40
    base = label(EDGE, 24, title, 16, bold=True)
    names = [(order, number) for order in ORDERS for number in NUMBERS]
    account = f"{title}. " + "; ".join(
        f"{order}, {number}: {_describe_run(runs[key])}"
        for key, (order, number) in zip(runs, names)
    )
    # The still picture shows a chained scan that hangs, or a look-back that finishes.
    start = 2, int(look_back)
    return Drawing(title, *size, base, sliders, frames, start, account)


def _describe_run(run: Schedule) -> str:
    """Describe how a schedule ends."""
    if not run.hangs:
        return f"all tiles are final after {count_things(len(run.steps), 'step')}"
    absent = [tile for tile, block in enumerate(run.blocks) if block is None]
    waits = [tile for tile, block in enumerate(run.blocks) if block is not None]
    waits = [tile for tile in waits if run.steps[-1][tile] != FINAL]
    return (
        f"it never ends: tile {min(waits)} waits for tile {min(waits) - 1}, and "
        f"{count_things(len(absent), 'tile')} cannot begin"
    )


def _draw_run(run: Schedule) -> list[str]:
    """Draw a row for each tile, with its flag after each step."""
    out = [label(EDGE, 50, _describe_run(run), 13), _draw_legend()]
    for tile, block in enumerate(run.blocks):
        y = FIRST + tile * ROW
        out.append(label(EDGE, y + 17, f"tile {tile}", 12, mono=True))
        name = "not begun" if block is None else f"block {block}"
        out.append(remark(EDGE + 58, y + 17, name))
        out += [
            _draw_flag(STEPS_LEFT + at * COLUMN, y, states[tile])
            for at, states in enumerate(run.steps)
        ]
        end = STEPS_LEFT + len(run.steps) * COLUMN + 6
        if run.hangs and run.steps[-1][tile] == PARTIAL:
            out.append(label(end, y + 17, "waits forever", 12, colour=FAULT))
    bottom = FIRST + TILES * ROW + 16
    out.append(remark(STEPS_LEFT, bottom, "time: one column for each step"))
    return out


def _draw_flag(x: float, y: float, state: int) -> str:
    """Draw a tile's flag after one step; nothing before its block begins."""
    if state == ABSENT:
        return ""
    wide, high = COLUMN - 4, ROW - 6
    if state == EMPTY:
        place = f'x="{num(x)}" y="{num(y)}" width="{num(wide)}" height="{num(high)}"'
        return f'<rect {place} rx="3" fill="none" {PALE} {REFERENCE}/>'
    colour = READ if state == PARTIAL else SHARED
    out = box(x, y, wide, high, colour=colour, fill=svg.FILL)
    return out + label(x + wide / 2, y + 16, LETTERS[state], 12, anchor="middle")


def _draw_legend() -> str:
    marks = [
        (svg.square(strength=0.6), "empty: the block adds up its tile"),
        (svg.square(colour=READ, fill=svg.FILL), "p: partial sum, the tile alone"),
        (svg.square(colour=SHARED, fill=svg.FILL), "f: final sum, all tiles so far"),
    ]
    return svg.legend(EDGE, 80, marks)[0]


# ---- many schedules ------------------------------------------------------------------

SCHEDULES, MANY = 100, 64  # schedules, and tiles in each
RESIDENT = (2, 8, 32)  # numbers of slots
BARS = 16  # number of window lengths that have separate bars


def count_windows(slots: int, seed: int = 0) -> Counter[int]:
    """Count the windows of 64 tiles in 100 schedules, by length.

    Each tile's own sum takes 1 to 8 steps at random; blocks take tickets.
    """
    rng = np.random.default_rng(seed)
    lengths: Counter[int] = Counter()
    for _ in range(SCHEDULES):
        times = rng.integers(1, 9, MANY).tolist()
        run = run_blocks(range(MANY), slots, look_back=True, ticket=True, times=times)
        lengths.update(run.windows)
    return lengths


def draw_windows() -> Drawing:
    """Return a picture of the lengths of look-back windows, with a slider for slots."""
    counts = [count_windows(slots) for slots in RESIDENT]
    title = f"Flags that a tile needs: {SCHEDULES} schedules of {MANY} tiles"
    frames = {(at,): _draw_lengths(one) for at, one in enumerate(counts)}
    stops = tuple(f"{slots} at a time" for slots in RESIDENT)
    texts = [f"{s}: {_describe_lengths(one)}" for s, one in zip(stops, counts)]
    base = label(EDGE, 24, title, 16, bold=True)
    sliders, account = [Slider("blocks", stops)], f"{title}. {'; '.join(texts)}"
    return Drawing(title, WIDTH, 300.0, base, sliders, frames, (1,), account)


def _describe_lengths(lengths: Counter[int]) -> str:
    total = sum(lengths.values())
    mean = sum(length * count for length, count in lengths.items()) / total
    return f"{mean:.1f} flags on average, {max(lengths)} at most"


def _draw_lengths(lengths: Counter[int]) -> list[str]:
    """Draw a bar for each length, with its share of all tiles."""
    total, bottom, high = sum(lengths.values()), 250.0, 160.0
    wide = (WIDTH - 2 * EDGE) / (BARS + 1)
    shares = [lengths[length] / total for length in range(1, BARS + 1)]
    shares.append(sum(n for length, n in lengths.items() if length > BARS) / total)
    out = [label(EDGE, 50, _describe_lengths(lengths), 13)]
    for place, share in enumerate(shares):
        x = EDGE + place * wide
        tall = high * share / max(shares)
        look = dict(colour=READ, fill=svg.FILL, radius=0)
        out.append(box(x + 4, bottom - tall, wide - 8, tall, **look))
        middle, name = x + wide / 2, str(place + 1) if place < BARS else f"> {BARS}"
        out.append(label(middle, bottom + 18, name, anchor="middle"))
        text = f"{share:.1%}" if share else "0"
        out.append(remark(middle, bottom - tall - 6, text, anchor="middle"))
    return [*out, remark(EDGE, bottom + 38, "length of the window, in tiles")]
