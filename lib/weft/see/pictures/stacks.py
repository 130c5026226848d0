"""Arrays on the picture of who touches what: several in a line, lines below others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...base.style import WIDTH
from ...pykernel.sim.record import Array
from . import svg
from .grid import LARGEST, fit, fit_line
from .panels import EDGE, LEFT, TALLEST, Panel, drawn_shape

MANY = 20  # rows of an array of which no cell has a word in it
LOWER = 168.0  # pixels that such a one may be tall: two of them fit on a screen


@dataclass(frozen=True)
class Wish:
    """An array that is to be drawn, before its place is known."""

    number: int
    array: Array
    lines: int
    gutter: float
    said: str = ""
    before: float = 0.0  # pixels for a cell before the first, which is not there
    after: float = 0.0  # the same behind the last
    words: float = 0.0  # pixels that its index expressions take

    @property
    def flat(self) -> bool:
        return len(self.array.shape) <= 1


def stack(wishes: Sequence[Wish], place: str, top: float) -> tuple[list[Panel], float]:
    """Panels of arrays from `top` downwards.

    Short arrays of one dimension share a line, as do those of more dimensions.
    Returns the panels and where the next thing may begin.
    """
    out: list[Panel] = []
    flat = [wish for wish in wishes if wish.flat]
    wide = [wish for wish in wishes if not wish.flat]
    if flat and wide and place == "above" and len(_split_lines(flat)) == 1:
        out, bottom = _place_together(flat, wide, top)
        if out:
            return out, bottom
    for line in _split_lines(flat):
        tall = 66.0 if len(flat) > 2 else 176.0
        left = EDGE
        made = [_flatten_wish(wish, place, tall, i == 0) for i, wish in enumerate(line)]
        if len(made) > 1:
            made = [
                _flatten_wish(w, place, tall, i == 0, 30) for i, w in enumerate(line)
            ]
        made = _align_words(line, made)
        for wish, panel in zip(line, made):
            out.append(panel.at(left, top))
            left = out[-1].grid.left + panel.grid.width + 16 + wish.after
            left += wish.words * panel.beside
        top += max(panel.height for panel in made) + 12
    per = 2 if len(wide) == 4 else 3
    for i in range(0, len(wide), per):
        placed = beside(wide[i : i + per], place, EDGE, top, WIDTH - 2 * EDGE)
        out += placed
        top += max(p.height for p in placed) + 12
    return out, top


def _place_together(
    flat: Sequence[Wish], wide: Sequence[Wish], top: float
) -> tuple[list[Panel], float]:
    """Arrays with rows and columns, and right of them, next to the threads, those of
    one dimension; none where there is no room."""
    rows = [_flatten_wish(wish, "above", 66.0, False, 30) for wish in flat]
    taken = sum(p.gutter + p.before + p.grid.width + 16 for p in rows)
    taken += sum(max(0.0, w.words - p.grid.width) + w.after for w, p in zip(flat, rows))
    free = WIDTH - 2 * EDGE - taken - 26
    # As a row above them would take its own height, they may be a little smaller.
    if len(wide) > 3 or free < 200 * len(wide):
        return [], top
    out = beside(wide, "above", EDGE, top, free)
    bottom = max(p.grid.top + p.grid.height for p in out)
    left = max(p.left + max(p.room, p.width) for p in out) + 26
    for wish, row in zip(flat, rows):
        placed = row.at(left, bottom - row.height)
        out.append(placed)
        left = placed.grid.left + row.grid.width + 16 + wish.after
    return out, max(p.top + p.height for p in out) + 12


def _align_words(line: Sequence[Wish], made: Sequence[Panel]) -> Sequence[Panel]:
    """With the index expressions beside the cells, if there is room: no arrow from
    the threads to another line passes there."""
    wide = EDGE + 24
    for wish, panel in zip(line, made):
        wide += panel.gutter + wish.before + panel.grid.width + wish.after + wish.words
        wide += 16
    if wide > WIDTH - EDGE or any(panel.grid.rows > 1 for panel in made):
        return made
    return [replace(p, beside=True, after=w.after) for w, p in zip(line, made)]


def _split_lines(wishes: Sequence[Wish]) -> list[list[Wish]]:
    """Arrays of one dimension by the line they stand in."""
    lines: list[list[Wish]] = []
    used = WIDTH
    for wish in wishes:
        wide = 30.0 * wish.array.size + 16 + wish.before + wish.after
        if lines and used + _measure_name(wish) + wide <= WIDTH - EDGE:
            lines[-1].append(wish)
            used += _measure_name(wish) + wide
        else:
            lines.append([wish])
            used = LEFT + wide
    return lines


def _measure_name(wish: Wish) -> float:
    note = Panel(0, wish.array, fit(1, 1, 1, 1, 1, 1), "", True, said=wish.said).note
    name = svg.width_of(wish.array.name, 14, mono=True)
    return max(name, svg.width_of(note, 11)) + 24


def _flatten_wish(
    wish: Wish, place: str, tall: float, first: bool, side: float = LARGEST
) -> Panel:
    count = max(wish.array.size, 1)
    grid = fit_line(count, WIDTH - LEFT - EDGE - 36, tall, side)
    gutter = LEFT - EDGE if first else _measure_name(wish)
    return Panel(
        *(wish.number, wish.array, grid, place, True),
        **dict(lines=wish.lines, gutter=gutter, said=wish.said, before=wish.before),
    )


def beside(
    row: Sequence[Wish],
    place: str,
    left: float,
    top: float,
    free: float,
    largest: float = 30.0,
    frame: float = 0.0,
) -> list[Panel]:
    """Panels side by side in `free` pixels; of one scale if that stays readable."""
    free -= 26 * (len(row) - 1)

    def made(wish: Wish, most: float) -> Panel:
        planes, rows, cols = drawn_shape(wish.array.shape)
        share = free / len(row) - wish.gutter
        tall = TALLEST if rows < MANY else LOWER
        grid = fit(max(wish.array.size, 1), planes, rows, cols, share, tall, most)
        more = dict(gutter=wish.gutter, lines=wish.lines, said=wish.said, frame=frame)
        return Panel(wish.number, wish.array, grid, place, False, **more)

    panels = [made(wish, largest) for wish in row]
    smallest = min(panel.grid.side for panel in panels)
    largest = max(panel.grid.side for panel in panels)
    alike = largest <= 1.6 * smallest
    panels = [made(wish, smallest if alike else max(smallest, 12)) for wish in row]
    extra = max(0.0, (free - sum(p.width for p in panels)) / len(panels))
    out: list[Panel] = []
    for panel in panels:
        room = panel.width + min(extra, 220.0)
        out.append(replace(panel.at(left, top), room=room))
        left += room + 26
    bottom = max(p.grid.top + p.grid.height for p in out)
    if place == "above":  # they stand on one line, next to the threads
        out = [p.at(p.left, top + bottom - p.grid.top - p.grid.height) for p in out]
    return out
