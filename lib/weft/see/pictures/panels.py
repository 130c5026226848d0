"""Place arrays on the access picture as panels, several in a row if they fit.

From top to bottom: arrays that are only read, the threads, shared memory, and arrays
that are written.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...base.style import DIM, PALE, READ, SHARED, WIDTH
from ...pykernel.sim.layout import TracedArray
from . import svg
from .grid import LARGEST, NOWHERE, Grid, fit, fit_line
from .svg import label, num, remark, width_of
from .touches import size_of

EDGE = 20.0  # left and right margin of the picture, in pixels
LEFT = 150.0  # x of the first cell or thread of a row, in pixels
LINE = 15.0  # height of a line of small text, in pixels
TALLEST = 256.0  # largest height of an array, in pixels
READABLE = 16.0  # smallest cell, in pixels, with room for its index


@dataclass(frozen=True)
class Wish:
    """An array to draw whose position is not yet known.

    number: its index among the launch's arrays. gutter: the width in pixels for row
    numbers, or for a flat array's name.
    """

    number: int
    array: TracedArray
    lines: int  # number of lines of index expressions
    gutter: float
    caption: str = ""  # text that replaces shape and type
    before: float = 0.0  # pixels for a cell before the first one, outside the array
    after: float = 0.0  # pixels for a cell after the last one, outside the array
    words: float = 0.0  # width of its index expressions in pixels

    @property
    def flat(self) -> bool:
        """Whether cells are in one row, or rows of 32, to the right of the name."""
        return len(self.array.shape) <= 1

    @property
    def colour(self) -> str:
        """The colour of reads."""
        return SHARED if self.array.space == "shared" else READ

    @property
    def note(self) -> str:
        """The text after the name: by default the array's shape and type."""
        shared = ", shared" * (self.array.space == "shared")
        return self.caption or f"{size_of(self.array)} {self.array.dtype}{shared}"

    @property
    def name_width(self) -> float:
        """The width of a flat array's name or note, with the space around it."""
        name = width_of(self.array.name, 14, mono=True)
        return max(name, width_of(self.note, 11)) + 24


@dataclass(frozen=True)
class Panel(Wish):
    """An array on the drawing.

    place: "above", "right" or "below" relative to the threads. room: the available
    width in pixels.
    """

    grid: Grid = NOWHERE
    place: str = ""
    left: float = 0.0
    top: float = 0.0
    room: float = 0.0
    frame: float = 0.0  # distance in pixels between the grid and its numbers
    beside: bool = False  # whether its index expressions are next to the cells

    @property
    def above(self) -> bool:
        """Whether the text is above the cells, away from the arrows."""
        return self.place != "below"

    @property
    def words_at(self) -> tuple[float, float]:
        """The position of the first index expression: x, and y of its baseline."""
        grid = self.grid
        if self.beside:
            middle = grid.top + grid.cell / 2 - (self.lines - 1) * LINE / 2
            return grid.left + grid.width + 12 + self.after, middle + 4
        x = grid.left if self.flat else self.left
        if self.above:
            return x, self.top + 12 + (0 if self.flat else LINE + 2)
        below = grid.top + grid.height
        return x, below + 14 + (0 if self.flat else self.axis + LINE + 3)

    @property
    def axis(self) -> float:
        """The height in pixels of the numbers and the labels of the columns."""
        if self.flat:
            return 0
        return (2 * LINE - 4 if self.numbered else LINE) + self.frame

    @property
    def numbered(self) -> bool:
        """Whether there is room for the numbers of rows and columns."""
        return not self.flat and self.grid.side >= 5

    @property
    def height(self) -> float:
        words = self.lines * LINE
        if self.flat:
            return self.grid.height + 4 + words * (not self.beside)
        return self.grid.height + words + self.axis + LINE + 8

    @property
    def width(self) -> float:
        """The width of the grid with its numbers, or of the title if that is longer."""
        name = width_of(self.array.name, 14, mono=True) + 10
        return max(self.gutter + self.grid.width, name + width_of(self.note, 11))

    def at(self, left: float, top: float) -> Panel:
        """Return the same panel with its upper left corner at this position."""
        words = self.lines * LINE * (not self.beside)
        down = words + (4 if self.flat else LINE + 6 + self.axis)
        grid = self.grid.at(left + self.gutter + self.before, top + down * self.above)
        return replace(self, left=left, top=top, grid=grid)

    def drawn(self) -> str:
        """Draw the array before any access."""
        return self.title() + cells(self.grid, self.array.name) + self.numbers()

    def title(self) -> str:
        """Write the array's name with its shape and type."""
        name, grid = self.array.name, self.grid
        if not self.flat:
            y = self.top + 12 if self.above else grid.top + grid.height + self.axis + 14
            after = self.left + width_of(name, 14, mono=True) + 8
            out = label(self.left, y, name, 14, mono=True, bold=True)
            return out + remark(after, y, self.note)
        name = svg.clipped(name, self.gutter - 14, 14, mono=True)
        x, y = grid.left - 14 - self.before, grid.top + min(grid.side, 30) / 2 + 2
        out = label(x, y, name, 14, anchor="end", mono=True, bold=True)
        note = svg.clipped(self.note, self.gutter - 10, 11)
        return out + remark(x, y + 15, note, anchor="end")

    def numbers(self) -> str:
        """Draw the numbers of rows and columns, or a flat array's cell indices."""
        grid = self.grid
        if self.flat and not has_indices(grid):
            return _draw_ends(grid)
        out = []
        if self.flat:
            for element in range(grid.count):
                x, y = grid.middle(element)
                out.append(remark(x, y + 4, str(element), anchor="middle"))
        if not self.numbered:
            return "".join(out)
        spacing = step(grid.side, grid.cols)
        for plane in range(grid.planes):
            x, y = grid.origin(plane)
            edge = 0 if self.above else (grid.planes - 1) // grid.line
            if plane // grid.line == edge:
                below = y + grid.rows * grid.side + 10 + self.frame
                down = y - 5 - self.frame if self.above else below
                for col in range(0, grid.cols, spacing):
                    at = x + col * grid.side + grid.cell / 2
                    out.append(remark(at, down, str(col), anchor="middle"))
            if plane % grid.line == 0:
                for r in range(0, grid.rows, step(grid.side, grid.rows, tall=True)):
                    at = y + r * grid.side + grid.cell / 2 + 4
                    out.append(remark(x - 5 - self.frame, at, str(r), anchor="end"))
        return "".join(out)


def step(side: float, count: int, *, tall: bool = False) -> int:
    """Return the spacing, in cells, between printed row and column numbers."""
    need = 13.0 if tall else 8.0 + 6.5 * len(str(count - 1))
    return next(n for n in (1, 2, 4, 8, 16, 32, 64, 128, 1 << 40) if n * side >= need)


def cells(grid: Grid, name: str) -> str:
    """Draw empty cells; if they are tiny, draw only the outline of each plane."""
    if grid.gap and grid.count <= 6000:
        path = grid.squares(range(grid.count))
        return (
            f'<path d="{path}" fill="none" {PALE} '
            f'stroke-linejoin="round" data-base="{svg.escape(name)}"/>'
        )
    out, lines = [], ""
    for plane in range(grid.planes):
        x, y = grid.origin(plane)
        wide, high = grid.cols * grid.side, grid.rows * grid.side
        out.append(svg.box(x, y, wide, high, strength=DIM, radius=0))
        for row in range(1, grid.rows if grid.side >= 5 else 0):
            lines += f"M{num(x)} {num(y + row * grid.side)}h{num(wide)}"
        for col in range(1, grid.cols if grid.side >= 5 else 0):
            lines += f"M{num(x + col * grid.side)} {num(y)}v{num(high)}"
    look = f'fill="none" stroke-width=".6" {PALE}'
    return "".join(out) + (f'<path d="{lines}" {look}/>' if lines else "")


def has_indices(grid: Grid) -> bool:
    """Return whether each cell has room for an index."""
    return svg.width_of(str(grid.count - 1), 11) <= grid.cell - 3 and grid.side >= 16


def _draw_ends(grid: Grid) -> str:
    """Draw the last index of some rows of a long flat array, if there is room."""
    spacing = step(grid.side, grid.rows, tall=True)
    if grid.rows == 1 or LEFT + grid.width > WIDTH - 50:
        return ""
    out = ""
    for row in range(spacing - 1, grid.rows, spacing):
        y = grid.top + row * grid.side + grid.cell / 2 + 4
        last = min(grid.count, (row + 1) * grid.cols) - 1
        out += remark(grid.left + grid.width + 6, y, str(last))
    return out


def drawn_shape(shape: Sequence[int]) -> tuple[int, int, int]:
    """Return (planes, rows, columns) of an array with any number of dimensions."""
    *planes, rows, cols = (1, 1, *shape)
    return max(math.prod(planes), 1), max(rows, 1), max(cols, 1)


MANY = 20  # if an array has at least this many rows, its cells contain no text
LOWER = 168.0  # Largest height of such an array in pixels, so that two fit on a screen.


def stack(wishes: Sequence[Wish], place: str, top: float) -> tuple[list[Panel], float]:
    """Stack the panels of arrays from `top` downwards.

    Short arrays of one dimension share a row, and so do two or three arrays of more
    dimensions. Returns the panels and the y below them.
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
        side = 30 if len(line) > 1 else LARGEST
        gutters = [LEFT - EDGE, *(wish.name_width for wish in line[1:])]
        row = [_flatten(w, place, tall, side, g) for w, g in zip(line, gutters)]
        left = EDGE
        for panel in _align_words(row):
            out.append(panel.at(left, top))
            left = out[-1].grid.left + panel.grid.width + 16 + panel.after
            left += panel.words * panel.beside
        top += max(panel.height for panel in out[-len(row) :]) + 12
    per = 2 if len(wide) == 4 else 3
    for i in range(0, len(wide), per):
        placed = beside(wide[i : i + per], place, EDGE, top, WIDTH - 2 * EDGE)
        out += placed
        top += max(p.height for p in placed) + 12
    return out, top


def _place_together(
    flat: Sequence[Wish], wide: Sequence[Wish], top: float
) -> tuple[list[Panel], float]:
    """Place one-dimensional arrays to the right of those with rows and columns.

    The lower edges of all these arrays are level, next to the threads. Returns no
    panels if there is not enough room.
    """
    rows = [_flatten(wish, "above", 66.0, 30, wish.name_width) for wish in flat]
    taken = sum(p.gutter + p.before + p.grid.width + 16 for p in rows)
    taken += sum(max(0.0, p.words - p.grid.width) + p.after for p in rows)
    free = WIDTH - 2 * EDGE - taken - 26
    # A separate row would need more height, so wide arrays may be a little smaller.
    if len(wide) > 3 or free < 200 * len(wide):
        return [], top
    out = beside(wide, "above", EDGE, top, free)
    bottom = max(p.grid.top + p.grid.height for p in out)
    left = max(p.left + max(p.room, p.width) for p in out) + 26
    for row in rows:
        out.append(row.at(left, bottom - row.height))
        left = out[-1].grid.left + row.grid.width + 16 + row.after
    return out, max(p.top + p.height for p in out) + 12


def _align_words(row: Sequence[Panel]) -> Sequence[Panel]:
    """Put the index expressions next to the cells, if there is room.

    No arrow from the threads to another row crosses that area.
    """
    wide = sum(p.gutter + p.before + p.grid.width + p.after + p.words + 16 for p in row)
    if EDGE + 24 + wide > WIDTH - EDGE or any(p.grid.rows > 1 for p in row):
        return row
    return [replace(panel, beside=True) for panel in row]


def _split_lines(wishes: Sequence[Wish]) -> list[list[Wish]]:
    """Group one-dimensional arrays into rows that fit the picture's width."""
    lines: list[list[Wish]] = []
    used = WIDTH
    for wish in wishes:
        wide = 30.0 * wish.array.size + 16 + wish.before + wish.after
        if lines and used + wish.name_width + wide <= WIDTH - EDGE:
            lines[-1].append(wish)
            used += wish.name_width + wide
        else:
            lines.append([wish])
            used = LEFT + wide
    return lines


def _flatten(wish: Wish, place: str, tall: float, side: float, gutter: float) -> Panel:
    count = max(wish.array.size, 1)
    grid = fit_line(count, WIDTH - LEFT - EDGE - 36, tall, side)
    return Panel(**vars(wish) | {"gutter": gutter}, grid=grid, place=place)


def beside(
    row: Sequence[Wish],
    place: str,
    left: float,
    top: float,
    free: float,
    largest: float = 30.0,
    frame: float = 0.0,
) -> list[Panel]:
    """Place panels side by side in `free` pixels, with equal cells if readable."""
    free -= 26 * (len(row) - 1)

    def build_panel(wish: Wish, most: float) -> Panel:
        planes, rows, cols = drawn_shape(wish.array.shape)
        share = free / len(row) - wish.gutter
        tall = TALLEST if rows < MANY else LOWER
        grid = fit(max(wish.array.size, 1), planes, rows, cols, share, tall, most)
        return Panel(**vars(wish), grid=grid, place=place, frame=frame)

    sides = [build_panel(wish, largest).grid.side for wish in row]
    alike = max(sides) <= 1.6 * min(sides)
    most = min(sides) if alike else max(min(sides), 12)
    panels = [build_panel(wish, most) for wish in row]
    extra = max(0.0, (free - sum(p.width for p in panels)) / len(panels))
    out: list[Panel] = []
    for panel in panels:
        room = panel.width + min(extra, 220.0)
        out.append(replace(panel.at(left, top), room=room))
        left += room + 26
    bottom = max(p.grid.top + p.grid.height for p in out)
    if place == "above":  # align the lower edges, next to the threads
        out = [p.at(p.left, top + bottom - p.grid.top - p.grid.height) for p in out]
    return out
