"""Draw where the kept numbers of a list go, and play the scans of a block.

    draw_compaction([3, 8, 4, 7], [False, True, True, False])
    play_scans([3, 1, 7, 0, 4, 1, 6, 3])      Kogge-Stone next to Brent-Kung

list_kogge_stone() and list_brent_kung() also return rounds for play_rounds(). Sources:
Kogge and Stone, A parallel algorithm for the efficient solution of a general class of
recurrence equations, 1973. Brent and Kung, A regular layout for parallel adders, 1982.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from ...base.errors import ArgumentError
from ...base.style import DIM, READ, WIDTH, WRITTEN
from ...base.text import count_things
from . import svg
from .panels import EDGE
from .rounds import APART, HIGH, LEFT, TOP, Board, Round, compute_rows
from .svg import Drawing, Slider, arrow, box, label, num, remark

CELL, GAP = 44.0, 92.0  # side of a place; pixels from the numbers to the output
FROM = 116.0  # x of the first number
LONGEST = 16  # maximum count of numbers

# ---- compaction ----------------------------------------------------------------------


def draw_compaction(numbers: Sequence[int], kept: Sequence[bool]) -> Drawing:
    """Return the picture of a compaction, with a slider for its three steps.

    numbers: 1 to 16 numbers. kept: whether each of them is kept. The arrows lead to
    places in the output, which the exclusive scan supplies. Raises ArgumentError for
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
    """Draw the numbers and their marks, then the scan, then the arrows."""
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
    """Return the rounds of a scan with few rounds: in each, all unfinished places add.

    count: a power of two. Raises ArgumentError for other counts.
    """
    _check_count("list_kogge_stone", count)
    steps = [1 << k for k in range(count.bit_length() - 1)]
    return [[(to, to - step) for to in range(step, count)] for step in steps]


def list_brent_kung(count: int) -> list[Round]:
    """Return the rounds of a scan with few additions: a tree up, and a tree down.

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
    """Play both scans of values side by side, with one slider for the rounds.

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
    """Draw the boards next to each other; a board that has ended no longer changes."""
    out = []
    for place, board in enumerate(boards):
        inner = "".join(board.draw_until(min(at, len(board.rounds))))
        out.append(f'<g transform="translate({num(place * each)} 0)">{inner}</g>')
    return out
