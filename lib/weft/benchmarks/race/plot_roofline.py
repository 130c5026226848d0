"""The sections of a step below what the machine can do, from `weft bench mnist`.

    plot_roofline(rows)   TFLOP/s over flops per byte, a panel for each precision

`committed` takes results read from JSON (bench.read_json): hollow marks. Flops and
bytes are counted in work.py, the times are those of the profiled sections.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from ...base.style import (
    INK,
    READ,
    SHARED,
    THREAD,
    WRITTEN,
    new_figure,
    reference_line,
    style,
)
from .race_marks import (
    BESIDE,
    PRECISIONS,
    Found,
    fastest_of,
    mark_missing,
    roofs_of,
    rows_of,
    series_of,
    tell,
)
from .row import Row
from .work import list_intensities

RIGHT = 3000  # flops per byte, where the picture ends


def plot_roofline(
    rows: Sequence[Row],
    committed: Iterable[Found] = (),
    batches: Sequence[int] = (64, 4096),
) -> Figure:
    """TFLOP/s of the sections of our fastest rungs over their flops per byte.

    Those of this machine, or of the first committed results. The roofs, rows "roof",
    are what a copy and multiply-adds reach there.
    """
    committed = [*committed]
    series = series_of(rows, committed, lambda row: row["batch"] in batches)
    machine, found = next(iter(series), (None, []))
    roofs = roofs_of(rows if machine is None else rows_of(committed))
    fastest = [
        row
        for precision in PRECISIONS
        for batch in batches
        if (row := fastest_of(found, precision, batch))
    ]
    with style():
        shown = [
            name for name in PRECISIONS if name in {r["precision"] for r in fastest}
        ]
        figure = new_figure(920, 430)
        if not fastest:
            return mark_missing(figure, figure.subplots())
        panels = figure.subplots(1, len(shown), sharey=True, squeeze=False)[0]
        for axes, precision in zip(panels, shown):
            those = [row for row in fastest if row["precision"] == precision]
            _draw_roof(axes, roofs, precision)
            _draw_sections(axes, those, machine is not None)
        panels[0].set_ylabel("TFLOP/s of the products (up is better)")
        roofs_are = "roofs: a copy and multiply-adds there"
        tell(figure, series[:1], roofs_are, "lines: largest batch")
        return figure


def _draw_roof(axes: Axes, roofs: dict[str, Row], precision: str) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel(f"flops per byte, {precision}")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: f"{value:g}")
        axis.set_minor_formatter(NullFormatter())
    axes.set_xlim(5, RIGHT)
    roof = roofs.get(precision)
    if roof is None:
        return
    peak, gbs = roof["tflops"], roof["gbs"]
    ridge = 1e3 * peak / gbs
    line = [1, ridge, RIGHT], [gbs / 1e3, peak, peak]
    axes.plot(*line, **reference_line(width=1.6), zorder=1)
    text = f"roofs: {peak:.0f} TFLOP/s, {gbs / 1e3:.1f} TB/s"
    axes.text(0.03, 0.97, text, va="top", transform=axes.transAxes)


def _draw_sections(axes: Axes, rows: Sequence[Row], elsewhere: bool) -> None:
    marks = ("o", "s", "D", "^")
    for mark, row in zip(marks, rows):
        found = list_intensities(row["layers_us"], row["batch"], row["precision"])
        for section, (intensity, tflops) in found.items():
            colour = _name_section(section)[1]
            fill = "none" if elsewhere else colour
            axes.plot(intensity, tflops, mark, ms=8, mfc=fill, mec=colour, mew=1.4)
        name = f"batch {row['batch']}"
        axes.plot([], [], mark, mfc="none", mec=INK, ls="", label=name)
    axes.set_ylim(0.3, 2000)  # room for the legend
    axes.legend(loc="upper right")
    _name_sections(axes, found)


def _name_sections(axes: Axes, found: dict[str, tuple[float, float]]) -> None:
    """Names in a column on the right, as high as their marks but never on another."""
    low, high = (math.log(end) for end in axes.get_ylim())
    least = 0.045 * (high - low)
    at = math.inf
    for section, (x, y) in sorted(found.items(), key=lambda item: -item[1][1]):
        at = min(math.log(y), at - least)
        name, colour = _name_section(section)
        look = BESIDE | {"fontsize": 9, "color": colour}
        arrow = {"arrowstyle": "-", "color": colour, "lw": 0.6, "shrinkB": 5}
        axes.annotate(
            name, (x, y), (RIGHT / 7, math.exp(at)), **look | {"textcoords": "data"},
            arrowprops=arrow,
        )  # fmt: skip


def _name_section(section: str) -> tuple[str, str]:
    """A section's short name and the colour of its product."""
    direction, _, names = section.partition(".")
    if section.endswith(".weight"):
        return "conv2 dw", WRITTEN
    products = [n for n in names.split("+") if n in ("conv1", "conv2", "fc1", "fc2")]
    main = "conv2" if "conv2" in products else products[0]
    colours = {"conv1": THREAD, "conv2": READ, "fc1": SHARED, "fc2": INK}
    if direction == "forward":
        return main, colours[main]
    return f"{main} back", colours[main]
