"""What every chart of measured rows has in common: its size, its caption, its axes."""

from __future__ import annotations

import math
import textwrap

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from ...base.style import INK

INCH = 72  # points of an SVG


def new_figure(width: float, height: float) -> Figure:
    """A figure of that many SVG points, which no notebook shows twice."""
    return Figure(figsize=(width / INCH, height / INCH), layout="constrained")


def write_caption(figure: Figure, text: str) -> None:
    """The text in lines below everything."""
    columns = int(figure.get_figwidth() * INCH / 5.9)
    figure.supxlabel(
        textwrap.fill(text, columns),
        **{"x": 0.008, "ha": "left", "fontsize": 11, "color": INK},
    )


def mark_powers(axes: Axes, high: float) -> None:
    """Ticks at 10, 30, 100, ... up to `high` as plain numbers."""
    low = axes.get_xlim()[0]
    ticks = [
        digit * 10**power
        for power in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        for digit in (1, 3)
    ]
    axes.set_xticks([t for t in ticks if low <= t <= high])
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.xaxis.set_minor_locator(NullLocator())
