"""Draw arrays with their values, and the keys of a sort over its passes.

If values do not fit into their cells, larger values get stronger colours. play_cloud()
draws each key as a dot at its position (across) and value (up). Sorted keys form a
rising diagonal.

    play_cloud({"stable": [keys, after_pass_1, after_pass_2, ...]})
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...base.errors import ArgumentError
from ...base.style import PALE, READ, WIDTH
from . import svg
from .grid import LARGEST, NOWHERE, Grid, fit, fit_line
from .panels import EDGE, LEFT, LINE, cells, drawn_shape, step
from .svg import Drawing, Slider, label, num, remark

BETWEEN = 34.0  # distance in pixels between two arrays side by side
TALLEST = 300.0  # largest height of an array, in pixels
WORDED = 15.0  # smallest cell, in pixels, with room for a value
LEVELS = 6  # number of colour strengths that readers can distinguish
STEPS = 24  # number of pieces of a curve, each either hidden or visible
# Maximum number of cells of a heat map that get a ring; more get a thin outline.
HALOS = 64


@dataclass(frozen=True)
class Values:
    """An array with its values.

    colour: the colour of the cells and marks. above: whether the name is above the
    array instead of to its left. upright: whether a vector is drawn as a column, with
    each element next to the row to which it belongs. note: text after shape and type.
    blank: indices of elements without a known value, drawn as "?". indices: the
    position of a row's indices. about: text that replaces shape, type and note.
    """

    name: str
    array: np.ndarray
    colour: str
    grid: Grid = NOWHERE
    upright: bool = False
    above: bool = False
    note: str = ""
    blank: Sequence[int] = ()
    indices: str = "below"  # "below", "above" or "none"
    about: str = ""

    @property
    def width(self) -> float:
        """Return the width, including any name above the array, and the row numbers."""
        if not self.above:
            return self.grid.width
        name = svg.width_of(self.name, 14, mono=True)
        title = name + 8 + svg.width_of(self.caption, 11)
        return max(self.gutter + self.grid.width, title)

    @property
    def height(self) -> float:
        """Return the height, including any name above the array, and the indices."""
        return self.grid.height + (2 * LINE + 6 if self.above else LINE)

    @property
    def gutter(self) -> float:
        """Return the width of the row numbers in pixels."""
        rows = self.grid.rows
        return 7.0 * len(str(rows - 1)) + 8 if self.above and rows > 1 else 0.0

    @property
    def caption(self) -> str:
        """Return the text next to the name or below it."""
        if self.about:
            return self.about
        size = " × ".join(str(n) for n in self.array.shape) or "1"
        return f"{size} {self.array.dtype}{', ' if self.note else ''}{self.note}"

    def at(self, left: float, top: float) -> Values:
        """Return the same array with its upper left corner at this position."""
        down = 2 * LINE + 6 if self.above else 0
        return replace(self, grid=self.grid.at(left + self.gutter, top + down))

    def moved(self, right: float, down: float) -> Values:
        """Return the same array, moved by this many pixels."""
        grid = self.grid
        return replace(self, grid=grid.at(grid.left + right, grid.top + down))

    def rows(self) -> list[tuple[float, float, float, float]]:
        """Return the frame of each row of cells: (left, top, right, bottom).

        The first frame includes the indices above the row.
        """
        (left, top, right, bottom), *others = self.grid.frames()
        top -= (LINE - 1) * (self.indices == "above")
        return [(left, top, right, bottom), *others]

    def drawn(self) -> str:
        """Draw the name, the cells and their values."""
        name = svg.escape(self.name)
        body = self._draw_title() + self._draw_cells() + self._draw_numbers()
        return f'<g data-values="{name}">{body}{self.shades()}{self.held()}</g>'

    def _draw_cells(self) -> str:
        """Draw empty cells, in a tint of the array's colour if values fit into them."""
        if not self.grid.gap:
            return cells(self.grid, self.name)
        tint = ".05" if self.is_worded else "0"
        return (
            f'<path d="{self.grid.squares(range(self.grid.count))}" '
            f'fill="{self.colour}" fill-opacity="{tint}" stroke="{self.colour}" '
            f'stroke-width=".8" stroke-linejoin="round" '
            f'data-base="{svg.escape(self.name)}"/>'
        )

    def _draw_title(self) -> str:
        grid = self.grid
        if self.above:
            x, y = grid.left - self.gutter, grid.top - LINE - 9
            out = label(x, y, self.name, 14, mono=True, bold=True)
            start = x + svg.width_of(self.name, 14, mono=True) + 8
            return out + remark(start, y, self.caption)
        x, y = grid.left - 14, grid.top + min(grid.height, 30) / 2 + 2
        name = svg.clipped(self.name, LEFT - EDGE - 14, 14, mono=True)
        out = label(x, y, name, 14, anchor="end", mono=True, bold=True)
        text = svg.clipped(self.caption, LEFT - EDGE, 11)
        return out + remark(x, y + 15, text, anchor="end")

    def _draw_numbers(self) -> str:
        """Draw the indices of a row's cells, or the numbers of rows and columns.

        They are outside the array, above or below it, and thus avoid lines to other
        arrays.
        """
        grid, out = self.grid, []
        rows = range(0, grid.rows, step(grid.side, grid.rows, tall=True))
        cols = range(0, grid.cols, step(grid.side, grid.cols))
        if not self.above and grid.rows > 1:  # show the last index of some rows
            for row in rows:
                last = min(grid.count, (row + 1) * grid.cols) - 1
                x, y = grid.middle(last)
                out.append(remark(x + grid.cell / 2 + 6, y + 4, str(last)))
        elif grid.planes == 1:
            below = not self.above and self.indices == "below"
            y = grid.top + (grid.height + 11 if below else -5)
            shown = grid.cols > 1 if self.above else self.indices != "none"
            for col in cols if shown else ():
                out.append(remark(grid.middle(col)[0], y, str(col), anchor="middle"))
            for row in rows if grid.rows > 1 else ():
                y = grid.middle(row * grid.cols)[1] + 4
                out.append(remark(grid.left - 6, y, str(row), anchor="end"))
        return "".join(out)

    @functools.cached_property
    def is_worded(self) -> bool:
        """Return whether all values fit into their cells."""
        if self.grid.side < WORDED:
            return False
        blank = set(map(int, self.blank))
        values = enumerate(self.array.reshape(-1)[:400])
        return all(i in blank or _write_value(v, self.grid.cell) for i, v in values)

    def shades(self) -> str:
        """Draw values as strengths of colour if they do not fit into their cells."""
        if self.is_worded:
            return ""
        # The poison in unwritten outputs is a signalling NaN.
        with np.errstate(all="ignore"):
            flat = self.array.reshape(-1).astype(float)
        flat = np.where(np.isfinite(flat), flat, 0.0)
        low, high = float(flat.min()), float(flat.max())
        share = (flat - low) / (high - low) if high > low else np.full(len(flat), 0.5)
        level = np.rint(share * LEVELS).astype(int)
        out = []
        for one in range(1, LEVELS + 1):
            path = self.grid.squares(np.flatnonzero(level == one))
            if path:
                fill = f'fill="{self.colour}" fill-opacity="{one / LEVELS:.2g}"'
                out.append(f'<path d="{path}" {fill} data-level="{one}"/>')
        return "".join(out)

    def held(self) -> str:
        """Draw each value in its cell."""
        return self._write_words(range(self.array.size)) if self.is_worded else ""

    def _write_words(self, elements: Iterable[int], bold: bool = False) -> str:
        out = []
        size = 12 if self.grid.cell >= 26 and not self._is_tight else svg.SMALL
        blank, values = set(map(int, self.blank)), self.array.reshape(-1)
        for element in elements:
            x, y = self.grid.middle(element)
            value = np.nan if element in blank else values[element]
            text = _write_value(value, self.grid.cell)
            out.append(label(x, y + 4, text, size, anchor="middle", bold=bold))
        return "".join(out)

    @functools.cached_property
    def _is_tight(self) -> bool:
        """Return whether some value barely fits its cell at the usual font size."""
        cell, values = self.grid.cell, self.array.reshape(-1)[:400]
        return any(_measure_width(_write_value(v, cell)) > cell - 6 for v in values)

    def marked(
        self, elements: Iterable[int], kind: str, colour: str = "", empty: bool = False
    ) -> str:
        """Mark the cells that the picture currently describes.

        kind: the role of the cells in the picture. empty: draw only outlines.
        """
        elements = np.asarray(list(elements), int)
        path = self.grid.squares(elements)
        if not path:
            return ""
        colour = colour or self.colour
        # On a heat map, a fill would look like a value.
        filled = self.is_worded and not empty
        fill = f'fill="{colour}" fill-opacity=".28"' if filled else 'fill="none"'
        halo, wide = "", "1.8" if self.grid.gap else "1.5"
        if not self.is_worded and len(elements) > HALOS:
            wide = ".8"
        elif not self.is_worded:
            side = self.grid.cell + 4
            for x, y in zip(*self.grid.corners(elements)):
                halo += svg.box(x - 2, y - 2, side, side, stroke=1.6)
        numbers = ",".join(map(str, elements.tolist()))
        mark = (
            f'<path d="{path}" {fill} stroke="{colour}" stroke-width="{wide}" '
            f'stroke-linejoin="round" data-array="{svg.escape(self.name)}" '
            f'data-kind="{kind}" data-cells="{numbers}"/>'
        )
        # Repeat the values, since the fill covers them.
        words = self._write_words(elements.tolist() if filled else (), bold=True)
        return halo + mark + words


def arranged_as(
    wishes: Sequence[Values], top: float, largest: float = LARGEST
) -> tuple[list[Values], float]:
    """Arrange arrays in rows if all have one dimension, or else side by side.

    largest: the largest size of a cell in pixels. Also returns the y below them.
    """
    if all(one.array.ndim <= 1 for one in wishes):
        return in_rows(wishes, top + 6)
    return in_a_line(wishes, EDGE, top, WIDTH - 2 * EDGE, largest)


def in_rows(wishes: Sequence[Values], top: float) -> tuple[list[Values], float]:
    """Place one-dimensional arrays in rows; also return the y below them."""
    out = []
    for one in wishes:
        grid = fit_line(max(one.array.size, 1), WIDTH - LEFT - EDGE - 32, 200, LARGEST)
        above = LINE * (one.indices == "above")
        out.append(replace(one, grid=grid).at(LEFT, top + above))
        top += above + grid.height + LINE * (one.indices == "below") + 14
    return out, top


def in_a_line(
    wishes: Sequence[Values], left: float, top: float, room: float, largest=LARGEST
) -> tuple[list[Values], float]:
    """Place arrays side by side, with cells of one size; also return the y below.

    room: the width in pixels for all arrays. If cells are too small for values, colours
    show them.
    """
    side = min(largest, LARGEST)
    while True:
        arrays = [replace(w, grid=_fit_grid(w, side), above=True) for w in wishes]
        wide = sum(m.width for m in arrays) + BETWEEN * (len(arrays) - 1)
        tall = max(m.grid.height for m in arrays)
        if (wide <= room and tall <= TALLEST) or side <= 2:
            break
        side -= 1
    out = []
    for one in arrays:
        out.append(one.at(left, top))
        left += one.width + BETWEEN
    return out, top + max(m.height for m in arrays)


def stacked(wishes: Sequence[Values], side: float) -> tuple[list[Values], float]:
    """Place arrays below each other, with names above; also return the next y."""
    out, top = [], 0.0
    for one in wishes:
        out.append(replace(one, grid=_fit_grid(one, side), above=True).at(0, top))
        top += out[-1].height + 8
    return out, top


def _fit_grid(one: Values, side: float) -> Grid:
    count = max(one.array.size, 1)
    shape = (count, 1) if one.upright else one.array.shape
    planes, rows, cols = drawn_shape(shape)
    return fit(count, planes, rows, cols, 10_000, 10_000, side)


def _write_value(value: object, room: float) -> str:
    """Write a value with as many digits as fit into `room` pixels; "" if none fit."""
    value = getattr(value, "item", lambda: value)()
    if isinstance(value, bool):
        return "1" if value else "0"
    if value != value:
        return "?"
    options = [str(value)] if isinstance(value, int) else []
    if isinstance(value, float):
        if math.isinf(value):
            options = ["∞" if value > 0 else "-∞"]
        elif value == int(value) and abs(value) < 1e6:
            options = [str(int(value))]
        elif abs(value) < 0.0095:
            options = [f"{value:.2g}" if abs(value) > 1e-3 else f"{value:.0e}", "≈0"]
        else:
            options = [f"{value:.3g}", f"{value:.2g}", f"{value:.1g}"]
            if abs(value) < 1:
                options += [o.replace("0.", ".", 1) for o in options]
    return next((text for text in options if _measure_width(text) <= room - 1), "")


def _measure_width(text: str) -> float:
    """Return a number's width in pixels at the smallest size."""
    return svg.SMALL * sum(0.34 if letter in ".-" else 0.63 for letter in text)


def describe_value(value: object) -> str:
    """Write a value for use in a sentence."""
    return _write_value(value, 60) or f"{float(value):.3g}"  # type: ignore[arg-type]


def line(
    start: tuple[float, float],
    end: tuple[float, float],
    colour: str,
    behind: Sequence[tuple[float, float, float, float]] = (),
) -> str:
    """Draw a thin curve from one cell down to another.

    behind: the frames that hide the curve, as (left, top, right, bottom). If most of
    the curve is hidden, all of it is faint, since short visible pieces would not show
    where it leads.
    """
    (x0, y0), (x1, y1) = start, end
    t = np.linspace(0, 1, STEPS + 1)
    x = x0 + (x1 - x0) * (3 * t**2 - 2 * t**3)
    # The curve is a Bezier curve that is vertical at its ends.
    y = y0 + (y1 - y0) * (1.5 * t * (1 - t) + t**3)
    visible = np.ones(STEPS + 1, bool)
    for left, upper, right, lower in behind:
        visible &= (x <= left) | (x >= right) | (y <= upper) | (y >= lower)
    bend = 0.5 * (y1 - y0)
    body = f"M{num(x0)} {num(y0)}C{num(x0)} {num(y0 + bend)} {num(x1)} "
    body += f"{num(y1 - bend)} {num(x1)} {num(y1)}"
    faint = "" if visible.all() else svg.behind(body, colour)
    if visible.mean() < 0.5:
        return faint
    if faint:
        body = "".join(
            f"{'L' if i and visible[i - 1] else 'M'}{num(x[i])} {num(y[i])}"
            for i in np.flatnonzero(visible)
        )
    return f'{faint}<path d="{body}" fill="none" stroke="{colour}" stroke-width="1.3"/>'


# ---- clouds of keys ------------------------------------------------------------------

SIDE = 420.0  # side of the square with the dots, in pixels
CLOUD_LEFT, CLOUD_TOP = 58.0, 66.0
DOT = 4.0  # diameter of a dot
MANY = 4096  # maximum number of dots


def play_cloud(runs: Mapping[str, Sequence[np.ndarray]]) -> Drawing:
    """Return dots of keys, with a slider for the passes, and one for several runs.

    runs: by name, the keys (n) before the first pass and after each pass, as whole
    numbers from 0. All runs have the same numbers of passes and keys. Raises
    ArgumentError otherwise, for a negative key, and for more than 4096 keys.
    """
    _check_runs(runs)
    passes = len(next(iter(runs.values()))) - 1
    top = max(int(keys.max()) for run in runs.values() for keys in run) + 1
    stops = ("before", *(f"pass {number}" for number in range(1, passes + 1)))
    sliders = [Slider("pass", stops)]
    if len(runs) > 1:
        sliders.append(Slider("sort", tuple(runs)))
    frames, texts = {}, []
    for place, (name, run) in enumerate(runs.items()):
        for number, keys in enumerate(run):
            at = (number, place) if len(runs) > 1 else (number,)
            frames[at] = _draw_keys(keys, top)
        texts.append(f"{name}: {_describe_keys(run[-1])} after the last pass")
    title = "Keys over passes: the position and the key of each"
    size = CLOUD_LEFT + SIDE + EDGE, CLOUD_TOP + SIDE + 44
    start = (passes, 0) if len(runs) > 1 else (passes,)
    account = f"{title}. {'; '.join(texts)}"
    return Drawing(title, *size, _draw_axes(), sliders, frames, start, account)


def _check_runs(runs: Mapping[str, Sequence[np.ndarray]]) -> None:
    shapes = {(len(run), *(len(keys) for keys in run)) for run in runs.values()}
    if len(shapes) != 1 or len({*next(iter(shapes))[1:]}) != 1:
        raise ArgumentError(
            f"play_cloud: the runs {', '.join(runs) or 'are missing and'} must have as "
            f"many passes and keys, not {sorted(shapes)}"
        )
    count = len(next(iter(runs.values()))[0])
    least = min(int(keys.min(initial=0)) for run in runs.values() for keys in run)
    if not 1 <= count <= MANY or least < 0:
        raise ArgumentError(
            f"play_cloud: {count} keys from {least}; there must be 1 to {MANY}, from 0"
        )


def count_unordered(keys: np.ndarray) -> int:
    """Return the number of neighbours in the wrong order."""
    return int(np.count_nonzero(keys[1:] < keys[:-1]))


def _describe_keys(keys: np.ndarray) -> str:
    wrong = count_unordered(keys)
    if not wrong:
        return f"all {len(keys)} keys in order"
    return f"{wrong} of {len(keys) - 1} neighbours in the wrong order"


def _draw_axes() -> str:
    """Draw the title, the square's frame, and the names of its axes."""
    frame = f'x="{num(CLOUD_LEFT)}" y="{num(CLOUD_TOP)}" '
    frame += f'width="{num(SIDE)}" height="{num(SIDE)}"'
    out = label(EDGE, 24, "Keys over passes", 16, bold=True)
    out += f'<rect {frame} fill="none" {PALE}/>'
    out += remark(
        CLOUD_LEFT + SIDE / 2, CLOUD_TOP + SIDE + 24, "position", anchor="middle"
    )
    return out + remark(CLOUD_LEFT - 12, CLOUD_TOP + SIDE / 2, "key", anchor="end")


def _draw_keys(keys: np.ndarray, top: int) -> list[str]:
    """Draw a dot for each key. top: the end of the axis of keys."""
    scale = (SIDE - 2 * DOT) / len(keys), (SIDE - 2 * DOT) / top
    dots = (
        f"M{CLOUD_LEFT + DOT + (place + 0.5) * scale[0]:.0f} "
        f"{CLOUD_TOP + SIDE - DOT - (key + 0.5) * scale[1]:.0f}h0"
        for place, key in enumerate(keys.tolist())
    )
    path = f'<path d="{"".join(dots)}" fill="none" stroke="{READ}" '
    path += f'stroke-width="{num(DOT)}" stroke-linecap="round"/>'
    return [label(EDGE, 50, _describe_keys(keys), 13), path]
