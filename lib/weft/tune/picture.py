"""Draw a tuning result: time against each constant, and against two constants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import LogLocator, NullLocator

from ..base.errors import ArgumentError
from ..base.style import (
    INCH,
    INK,
    OURS,
    fade_colour,
    style,
    write_caption,
)
from ..base.text import round_number
from ..see.view import make_chart_bundle
from ..timing import STATISTIC
from ..timing.results import Row

if TYPE_CHECKING:
    from .tuned import Tuned

ACROSS = 5  # number of panels in a row


class TuningPicture(Figure):
    """A figure that displays itself below a cell, as SVG in the page's text colour."""

    @staticmethod
    def of(width: float, height: float) -> TuningPicture:
        """Return a figure of this size in SVG points."""
        size = width / INCH, height / INCH
        return TuningPicture(figsize=size, layout="constrained")

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return make_chart_bundle(self)


def draw_strips(tuned: Tuned) -> TuningPicture:
    """Draw a panel for each constant that varies, with a dot for each candidate.

    A line joins the best time of each value. Hollow dots were dropped early; framed
    numbers at the bottom count candidates that were not timed.
    """
    names = [n for n in tuned.constants if len(_list_values(tuned.rows, n)) > 1]
    names = names or list(tuned.constants)[:1]
    timed = [row for row in tuned.rows if _time_of(row)]
    lines = -(-len(names) // ACROSS)
    with style():
        figure = TuningPicture.of(920, 60 + 250 * lines)
        if not timed:
            axes = figure.subplots()
            axes.text(0.5, 0.5, "nothing is timed on a processor", ha="center")
            axes.set_axis_off()
            return figure
        columns = min(ACROSS, len(names))
        grid = figure.subplots(lines, columns, squeeze=False, sharey=True)
        every = grid.ravel()
        for axes, name in zip(every, names):
            _strip(axes, tuned, name)
        for axes in every[len(names) :]:
            axes.set_axis_off()
        for axes in grid[:, 0]:
            axes.set_ylabel("µs, down is better")
        _scale(every[0], [_time_of(row) for row in timed])
        marks = "diamond: the best; hollow: dropped early; framed: number not timed"
        _write_caption(figure, tuned, marks)
    return figure


def draw_heat(tuned: Tuned, x: str, y: str) -> TuningPicture:
    """Draw the best time for each pair of values as a cell; frame the winner's cell."""
    for name in (x, y):
        if name not in tuned.constants:
            known = ", ".join(tuned.constants)
            raise ArgumentError(f"there is no constant {name!r}; there are {known}")
    across, down = _list_values(tuned.rows, x), _list_values(tuned.rows, y)
    with style():
        width, height = 160 + 90 * len(across), 130 + 56 * len(down)
        figure = TuningPicture.of(min(920, width), min(900, height))
        axes = figure.subplots()
        times: dict[tuple, list[float | None]] = {}
        for row in tuned.rows:
            pair = row["constants"][x], row["constants"][y]
            times.setdefault(pair, []).append(_time_of(row))
        for i, at_x in enumerate(across):
            for j, at_y in enumerate(down):
                us = min(filter(None, times.get((at_x, at_y), ())), default=None)
                won = (tuned.constants[x], tuned.constants[y]) == (at_x, at_y)
                _draw_cell(axes, i, j, us, tuned.us, won)
        axes.set_xticks(range(len(across)), across)
        axes.set_yticks(range(len(down)), down)
        axes.set(xlim=(-0.5, len(across) - 0.5), ylim=(len(down) - 0.5, -0.5))
        axes.set_xlabel(x)
        axes.set_ylabel(y)
        axes.grid(False)
        _write_caption(figure, tuned, "µs; fuller is faster; empty: none timed")
    return figure


def _scale(axes: Axes, times: list[float]) -> None:
    """Start the time axis at 0, or make it logarithmic; leave room for labels."""
    low, high = min(times), max(times)
    if high < 4 * low:
        axes.set_ylim(-0.14 * high, 1.08 * high)
        ticks = [tick for tick in axes.get_yticks() if 0 <= tick <= 1.08 * high]
        axes.set_yticks(ticks)  # no time is below 0
        return
    axes.set_yscale("log")
    axes.set_ylim(low / (high / low) ** 0.25, high * 1.2)
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(lambda value, _: round_number(value))
    axes.yaxis.set_minor_locator(NullLocator())


def _strip(axes: Axes, tuned: Tuned, name: str) -> None:
    values = _list_values(tuned.rows, name)
    fastest = []
    for place, value in enumerate(values):
        rows = [row for row in tuned.rows if row["constants"][name] == value]
        timed = [row for row in rows if _time_of(row)]
        for row in timed:
            fill = fade_colour(OURS) if row["state"] == "timed" else "none"
            axes.plot(place, _time_of(row), "o", mec=OURS, mfc=fill, ms=6, mew=1.1)
        fastest.append(min(map(_time_of, timed), default=np.nan))
        if missing := len(rows) - len(timed):
            look = {"ha": "center", "va": "bottom", "fontsize": 9, "color": INK}
            look["bbox"] = {"boxstyle": "round", "fc": "none", "ec": INK, "lw": 0.6}
            look["transform"] = axes.get_xaxis_transform()
            axes.text(place, 0.02, f"{missing}", **look)
    axes.plot(range(len(values)), fastest, "-", color=OURS, lw=1.2, zorder=1)
    won = values.index(tuned.constants[name])
    axes.plot(won, fastest[won], "D", color=OURS, ms=9, zorder=3)
    below = {"xytext": (0, -16), "textcoords": "offset points", "ha": "center"}
    text = f"{round_number(fastest[won])} µs"
    axes.annotate(text, (won, fastest[won]), **below)
    axes.set_xticks(range(len(values)), values)
    axes.set_xlim(-0.6, len(values) - 0.4)
    axes.set_xlabel(name)


def _draw_cell(
    axes: Axes, i: int, j: int, us: float | None, best: float | None, won: bool
) -> None:
    strength = best / us if us and best else 0.0
    look: dict[str, Any] = {"ec": INK, "fc": "none", "lw": 0.5}
    if us:
        fill = (*fade_colour(OURS)[:3], 0.05 + 0.5 * strength**2)
        look = {"ec": OURS, "fc": fill, "lw": 1}
    if won:
        look["lw"] = 3.5
    axes.add_patch(Rectangle((i - 0.46, j - 0.46), 0.92, 0.92, **look))
    text = round_number(us) if us else "–"
    axes.text(i, j, text, ha="center", va="center", fontsize=11)


def _write_caption(figure: Figure, tuned: Tuned, marks: str) -> None:
    row = tuned.row
    text = f"{tuned.name}, {row['precision']}; {row['device']}; timer {row['timer']}, "
    write_caption(figure, f"{text}{STATISTIC}; {marks}")


def _list_values(rows: list[Row], name: str) -> list[Any]:
    found = dict.fromkeys(row["constants"][name] for row in rows)
    try:
        return sorted(found)
    except TypeError:  # the values mix numbers and strings
        return list(found)


def _time_of(row: Row) -> float | None:
    return row["us"] or row.get("us_at_sight")
