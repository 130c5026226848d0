"""Pictures in a lesson: figures as SVG, and arrays as squares with their values.

with figure(9, 3) as ax:
    cells(ax, [[1, 2], [3, 4]], 0, 1, "x", "2 x 2", {(0, 1): READ})
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Rectangle

from .style import INK, faint, style, svg


@contextlib.contextmanager
def figure(width: float, height: float, columns: int = 1, **options: Any) -> Iterator:
    """A figure in the lab's style, shown below the cell as SVG when it is done.

    width, height: inches; 9.5 are the 920 pixels of a page. Yields the
    axes, or an array of `columns` axes. options: of matplotlib's subplots().
    """
    with style():
        made = Figure(figsize=(width, height), layout="constrained")
        yield made.subplots(1, columns, **options)
    show_figure(made)


def show_figure(made: Figure) -> None:
    """Show a figure below the cell as SVG."""
    from IPython.display import HTML, display

    text = svg(made)
    # As part of the page, so that the ink takes the colour of its text.
    inline = text[text.index("<svg") :].replace(' color="#444444"', "", 1)
    display(HTML(inline))


def sheet(ax: Axes, columns: float, rows: float) -> None:
    """Make `ax` a sheet for columns x rows cells, row 0 on top, no axes drawn."""
    ax.set(xlim=(-0.1, columns), ylim=(rows, 0), aspect="equal")
    ax.set_axis_off()


def cells(
    ax: Axes,
    values: Sequence[Sequence[Any]],
    left: float,
    top: float,
    name: str = "",
    note: str = "",
    colours: Mapping[tuple[int, int], str] | None = None,
) -> None:
    """Draw a 2D array as squares from (left, top) on, its name and note above.

    values: what stands in the squares ("" for nothing). colours: of the squares
    that are touched, by (row, column); the others stay grey.
    """
    ax.text(left, top - 0.75, name, family="monospace", weight="bold", size=11)
    ax.text(left, top - 0.2, note, size=8.5)
    for row, line in enumerate(values):
        for col, value in enumerate(line):
            colour = (colours or {}).get((row, col))
            _cell(ax, left + col, top + row, str(value), colour)


def frame(ax: Axes, left: float, top: float, columns: int, rows: int) -> None:
    """Draw a frame around columns x rows squares."""
    box = Rectangle((left, top), columns, rows, fill=False, lw=2, color=INK)
    ax.add_patch(box)


def _cell(ax: Axes, x: float, y: float, text: str, colour: str | None) -> None:
    look = {"ec": colour, "fc": faint(colour)} if colour else {"ec": INK, "fc": "none"}
    look |= {"lw": 1.4} if colour else {"lw": 0.7, "alpha": 0.7}
    corners = "round,pad=0,rounding_size=0.1"
    ax.add_patch(FancyBboxPatch((x + 0.1, y + 0.1), 0.8, 0.8, corners, **look))
    ax.text(x + 0.5, y + 0.52, text, size=8.5, ha="center", va="center")
