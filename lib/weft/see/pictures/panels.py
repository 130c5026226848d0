"""Where everything stands in the picture of who touches what.

From above: arrays that are only read, the threads, shared memory, arrays written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...base.style import WIDTH
from ...pykernel.sim.record import Array
from . import svg
from .grid import Grid
from .svg import label, width_of
from .touches import size_of

EDGE = 20.0  # pixels left and right of everything
LEFT = 150.0  # where a row of cells or threads begins
LINE = 15.0  # pixels of a line of small text
TALLEST = 256.0  # pixels of an array
READABLE = 16.0  # pixels of a cell from which on its index can stand in it


@dataclass(frozen=True)
class Panel:
    """An array on the drawing. number: into the launch's arrays.

    place: "above", "right" or "below" of the threads. flat: cells in a row or in rows
    of 32, its name left of them. room: pixels it may take in width. gutter: for the
    numbers left of it, and for `indent` pixels of a flat one's name.
    """

    number: int
    array: Array
    grid: Grid
    place: str
    flat: bool
    left: float = 0.0
    top: float = 0.0
    room: float = 0.0
    gutter: float = 0.0
    lines: int = 1  # of index expressions
    said: str = ""  # instead of shape and type
    frame: float = 0.0  # pixels around the grid before its numbers
    before: float = 0.0  # pixels between a flat one's name and its first cell
    after: float = 0.0  # the same between its last cell and what stands there
    beside: bool = False  # its index expressions stand there

    @property
    def above(self) -> bool:
        """Whether its words stand above its cells: arrows come from below or left."""
        return self.place != "below"

    @property
    def note(self) -> str:
        """Its shape and type."""
        if self.said:
            return self.said
        shared = ", shared" if self.array.space == "shared" else ""
        return f"{size_of(self.array)} {self.array.dtype}{shared}"

    @property
    def words_at(self) -> tuple[float, float]:
        """Where its first index expression stands (x, and a baseline)."""
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
        """Pixels for the numbers and the names of its columns."""
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
        """Of the grid with its numbers, or of its name if that is longer."""
        name = width_of(self.array.name, 14, mono=True) + 10
        return max(self.gutter + self.grid.width, name + width_of(self.note, 11))

    def at(self, left: float, top: float) -> Panel:
        """The same panel with its upper left corner there."""
        if self.flat:
            words = self.lines * LINE * (not self.beside)
            down = words + 4 if self.above else 0
            grid = self.grid.at(left + self.gutter + self.before, top + down)
            return replace(self, left=left, top=top, grid=grid)
        down = LINE + 6 + self.lines * LINE + self.axis
        down = down if self.above else 0
        grid = self.grid.at(left + self.gutter, top + down)
        return replace(self, left=left, top=top, grid=grid)

    def drawn(self) -> str:
        """The array as it is before anything touches it."""
        return self.title() + cells(self.grid, self.array.name) + self.numbers()

    def title(self) -> str:
        """Its name with its shape and type."""
        name, grid = self.array.name, self.grid
        if not self.flat:
            y = self.top + 12 if self.above else grid.top + grid.height + self.axis + 14
            after = self.left + width_of(name, 14, mono=True) + 8
            out = label(self.left, y, name, 14, mono=True, bold=True)
            return out + label(after, y, self.note, 11, faint=True)
        name = svg.clipped(name, self.gutter - 14, 14, mono=True)
        x, y = grid.left - 14 - self.before, grid.top + min(grid.side, 30) / 2 + 2
        out = label(x, y, name, 14, anchor="end", mono=True, bold=True)
        note = svg.clipped(self.note, self.gutter - 10, 11)
        return out + label(x, y + 15, note, 11, anchor="end", faint=True)

    def numbers(self) -> str:
        """Those of the rows and columns; of a flat array the indices of its cells."""
        grid = self.grid
        if self.flat:
            return _list_indices(grid) if has_indices(grid) else _list_starts(grid)
        if not self.numbered:
            return ""
        out = []
        every = step(grid.side, grid.cols)
        for plane in range(grid.planes):
            x = grid.left + (plane % grid.line) * (grid.cols * grid.side + 14)
            row = plane // grid.line
            y = grid.top + row * (grid.rows * grid.side + 14)
            edge = row == 0 if self.above else row == (grid.planes - 1) // grid.line
            if edge:
                below = y + grid.rows * grid.side + 10 + self.frame
                down = y - 5 - self.frame if self.above else below
                for col in range(0, grid.cols, every):
                    at = x + col * grid.side + grid.cell / 2
                    out.append(label(at, down, str(col), anchor="middle", faint=True))
            if plane % grid.line == 0:
                for r in range(0, grid.rows, step(grid.side, grid.rows, tall=True)):
                    at = y + r * grid.side + grid.cell / 2 + 4
                    out.append(
                        label(x - 5 - self.frame, at, str(r), anchor="end", faint=True)
                    )
        return "".join(out).replace('font-size="12"', 'font-size="11"')


def step(side: float, count: int, *, tall: bool = False) -> int:
    """Every how many cells a number stands beside them."""
    need = 13.0 if tall else 8.0 + 6.5 * len(str(count - 1))
    return next(n for n in (1, 2, 4, 8, 16, 32, 64, 128, 1 << 40) if n * side >= need)


def cells(grid: Grid, name: str) -> str:
    """Empty cells; where they are tiny, the outline of them all."""
    if grid.gap and grid.count <= 6000:
        path = grid.squares(range(grid.count))
        return (
            f'<path d="{path}" fill="none" stroke="currentColor" stroke-opacity=".38" '
            f'stroke-linejoin="round" data-base="{svg.escape(name)}"/>'
        )
    out, lines = [], ""
    for plane in range(grid.planes):
        x = grid.left + (plane % grid.line) * (grid.cols * grid.side + 14)
        y = grid.top + (plane // grid.line) * (grid.rows * grid.side + 14)
        wide, high = grid.cols * grid.side, grid.rows * grid.side
        out.append(svg.box(x, y, wide, high, strength=0.45, radius=0))
        for row in range(1, grid.rows if grid.side >= 5 else 0):
            lines += f"M{svg.num(x)} {svg.num(y + row * grid.side)}h{svg.num(wide)}"
        for col in range(1, grid.cols if grid.side >= 5 else 0):
            lines += f"M{svg.num(x + col * grid.side)} {svg.num(y)}v{svg.num(high)}"
    look = 'fill="none" stroke="currentColor" stroke-opacity=".2"'
    return "".join(out) + (f'<path d="{lines}" {look}/>' if lines else "")


def has_indices(grid: Grid) -> bool:
    """Whether there is room for an index in each cell."""
    return svg.width_of(str(grid.count - 1), 11) <= grid.cell - 3 and grid.side >= 16


def _list_indices(grid: Grid) -> str:
    out = []
    for element in range(grid.count):
        x, y = grid.middle(element)
        out.append(label(x, y + 4, str(element), 11, anchor="middle", faint=True))
    return "".join(out)


def _list_starts(grid: Grid) -> str:
    """The index with which each row of a long array ends, where rows are apart."""
    every = step(grid.side, grid.rows, tall=True)
    if grid.rows == 1 or LEFT + grid.width > WIDTH - 50:
        return ""
    return "".join(
        label(
            grid.left + grid.width + 6,
            grid.top + row * grid.side + grid.cell / 2 + 4,
            str(min(grid.count, (row + 1) * grid.cols) - 1),
            11,
            faint=True,
        )
        for row in range(every - 1, grid.rows, every)
    )


def drawn_shape(shape: Sequence[int]) -> tuple[int, int, int]:
    """(planes, rows, columns) of an array with any number of dimensions."""
    *planes, rows, cols = (1, 1, *shape)
    count = 1
    for side in planes:
        count *= side
    return max(count, 1), max(rows, 1), max(cols, 1)
