"""The sections of a step: rung beside rung, and below what the machine can do.

plot_sections(rows, committed, rungs)   µs of every section, on a log axis
    plot_limits(parts, title)               a step's sections and their floors

`committed` takes results read from JSON (bench.read_json): hollow marks.

plot_roofline(rows)   TFLOP/s over flops per byte, a panel for each precision

`committed` takes results read from JSON (bench.read_json): hollow marks. Flops and
bytes are counted in work.py, the times are those of the profiled sections.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import NullFormatter

from ...base.style import (
    INK,
    OURS,
    READ,
    SHARED,
    THREAD,
    WRITTEN,
    fade_colour,
    mark_powers,
    new_figure,
    reference_line,
    style,
)
from .plot import layer_groups
from .plot_batches import (
    BESIDE,
    PRECISIONS,
    Found,
    fastest_of,
    is_ours,
    mark_missing,
    roofs_of,
    rows_of,
    series_of,
    tell,
    time_text,
)
from .race import Row
from .work import Part, list_intensities

LOOKS = ((THREAD, "s"), (WRITTEN, "D"), (OURS, "o"), (SHARED, "^"))


def plot_sections(
    rows: Sequence[Row],
    committed: Iterable[Found] = (),
    rungs: Sequence[str] = ("naive", "tiled"),
    batch: int = 64,
) -> Figure:
    """Dots of every section's time, a line for each section that the rungs share.

    Of this machine, or of the first committed results.
    """

    def wanted(row: Row) -> bool:
        timed = row["batch"] == batch and row.get("layers_us")
        return bool(timed) and is_ours(row) and row["rung"] in rungs

    series = series_of(rows, committed, wanted)[:1]
    with style():
        machine, found = next(iter(series), (None, []))
        found = sorted(found, key=lambda row: rungs.index(row["rung"]))
        groups = layer_groups([row["layers_us"] for row in found])
        # Sections that only the fused rungs have come last there, after the update.
        groups = dict(
            sorted(groups.items(), key=lambda item: item[0].startswith("update"))
        )
        figure = new_figure(920, 110 + 24 * max(2, len(groups)))
        axes = figure.subplots()
        if not found:
            return mark_missing(figure, axes)
        axes.set_xscale("log")
        for place, times in enumerate(groups.values()):
            there = [us for us in times if us]
            axes.plot([min(there), max(there)], [place] * 2, color=INK, lw=1)
        for number, row in enumerate(found):
            colour, mark = LOOKS[number % len(LOOKS)]
            dots = [(t[number], y) for y, t in enumerate(groups.values()) if t[number]]
            axes.plot(
                *zip(*dots), mark, mec=colour, mfc="none" if machine else colour,
                ms=8, mew=1.4, label=f"{row['rung']}: {time_text(row['us'])} a step",
            )  # fmt: skip
        high = axes.get_xlim()[1]
        mark_powers(axes, high)
        axes.set_yticks(range(len(groups)), [_shorten_name(name) for name in groups])
        axes.set_ylim(len(groups) - 0.4, -0.6)
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel(f"µs, batch {batch} (left is better)")
        axes.legend(loc="upper right")
        tell(figure, series, "a clock between sections: together more than a step")
        return figure


def plot_limits(parts: Sequence[Part], title: str, here: bool = False) -> Figure:
    """Draw a bar per section: its floor in products or bytes, its launch, the rest.

    here: measured on this machine; other bars are hollow.
    """

    def fill(colour: str) -> Any:
        return fade_colour(colour) if here and colour != INK else "none"

    with style():
        figure = new_figure(920, 110 + 30 * len(parts))
        axes = figure.subplots()
        for place, part in enumerate(parts):
            floor = max(part.products, part.bytes)
            kind = SHARED if part.products >= part.bytes else READ
            start = 0.0
            for us, colour in (
                (floor, kind),
                (part.launch, WRITTEN),
                (part.waiting, INK),
            ):
                axes.barh(
                    place, us, left=start, height=0.6, lw=1.2, ec=colour,
                    fc=fill(colour),
                )  # fmt: skip
                start += us
            text = f"{part.us:.1f} µs, {part.binds}"
            axes.annotate(text, (start, place), (6, 0), **BESIDE)
        names = {"products": SHARED, "bytes": READ, "launch": WRITTEN, "waiting": INK}
        marks = [Patch(fc=fill(c), ec=c, label=name) for name, c in names.items()]
        above = {"loc": "lower right", "bbox_to_anchor": (1, 1), "ncols": len(marks)}
        axes.legend(handles=marks, **above)
        axes.set_yticks(
            range(len(parts)), [_shorten_name(part.section) for part in parts]
        )
        axes.set_ylim(len(parts) - 0.4, -0.6)
        axes.set_xlim(0, 1.3 * max(part.us for part in parts))
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="y", visible=False)
        axes.set_xlabel(f"µs, {title} (left is better)")
        return figure


def _shorten_name(section: str) -> str:
    """ "backward.pool2+bn2+conv2" -> "back: pool2 bn2 conv2", or in two lines."""
    direction, _, names = section.partition(".")
    words = names.replace("+", " ").replace(".weight", ", weights")
    if len(words) > 24:
        middle = words.rfind(" ", 0, len(words) // 2 + 3)
        words = words[:middle] + "\n" + words[middle + 1 :]
    return f"back: {words}" if direction == "backward" else words or direction


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
