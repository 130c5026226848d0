"""Draw the ladder of `weft bench mnist`, and the sections of a step.

    plot_ladder(rows)                       the gain of each rung at one batch size
    plot_sections(rows, committed, rungs)   µs of every section, on a log axis
    plot_limits(parts, title)               a step's sections and their floors
    plot_roofline(rows)                     TFLOP/s against flops per byte, by precision

`committed`, results from JSON (bench.read_json), is drawn as hollow marks with device
and date. Without a GPU, all marks are hollow. work.py counts flops and bytes; the times
come from profiled sections.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from ...base import style as kit
from ...base.style import BESIDE, INK, OPPONENT, OURS, READ, SHARED, THREAD, WRITTEN
from .plot import colour_of, layer_groups
from .plot_batches import (
    PRECISIONS,
    ResultFile,
    best_of,
    fastest_of,
    is_ours,
    mark_missing,
    roofs_of,
    row_of,
    rows_of,
    series_of,
    time_text,
    write_caption,
)
from .race import Row
from .work import STEP_FLOPS, StepPart, floor_us, list_intensities


def plot_ladder(
    rows: Sequence[Row], committed: Iterable[ResultFile] = (), batch: int = 64
) -> Figure:
    """Draw a dot for each rung's time per step on a log axis, and the rung's gain.

    If a "roof" row exists, a dashed grey line marks the floor: the step's products at
    the peak rate of multiply-adds in that precision.
    """
    committed = [*committed]
    series = series_of(rows, committed, lambda row: row["batch"] == batch)
    with kit.style():
        our_rows = [row for _, part in series for row in part if is_ours(row)]
        rungs = dict.fromkeys((row["precision"], row["rung"]) for row in our_rows)
        order = sorted(rungs, key=lambda key: PRECISIONS.index(key[0]))
        figure = kit.new_figure(920, 150 + 34 * len(order))
        axes = figure.subplots()
        if not our_rows:
            return mark_missing(figure, axes)
        axes.set_xscale("log")
        for number, (machine, part) in enumerate(series):
            elsewhere = machine is not None
            _draw_climb(axes, part, order, elsewhere)
            _draw_opponents(axes, part, order, elsewhere, named=number == 0)
        _draw_floors(axes, [*rows, *rows_of(committed)], order, batch)
        low, high = axes.get_xlim()
        axes.set_xlim(low, 25 * high)  # room for the texts
        _write_column(axes, series, order, 1.3 * high)
        kit.mark_powers(axes, high)
        kit.name_lines(axes, [rung for _, rung in order], -0.8)
        kit.hide_lines(axes)
        axes.spines["left"].set_visible(False)
        axes.set_xlabel(f"µs per step, batch {batch} (left is better)", loc="left")
        notes = (
            "÷: the time of the rung above divided by this one",
            "×: the time of PyTorch's fastest divided by this one",
        )
        write_caption(figure, series, *notes)
        return figure


def _draw_climb(
    axes: Axes, rows: Sequence[Row], order: Sequence[tuple], elsewhere: bool
) -> None:
    """Draw a mark for each rung and a line to the mark above."""
    previous = None
    for place, (precision, rung) in enumerate(order):
        row = row_of(rows, precision, rung)
        if row is None:
            continue
        colour, us = colour_of(row), row["us"]
        if previous is not None and row["impl"] == "weft":
            above, above_us = previous
            corner = [above_us, above_us, us], [above, place, place]
            thick = 0.8 if elsewhere else 1.2
            axes.plot(*corner, color=colour, lw=thick)
        band = [row["us_low"], row["us_high"]]
        kit.draw_dot(axes, (us, place), colour, not elsewhere, band)
        if row["impl"] == "weft":
            previous = place, us


def _write_column(
    axes: Axes, series: Sequence[tuple], order: Sequence[tuple], x: float
) -> None:
    """Write a column of times and ratios, this machine's above the others'."""
    for number, (machine, rows) in enumerate(series):
        above_us = None
        for place, (precision, rung) in enumerate(order):
            row = row_of(rows, precision, rung)
            if row is None:
                continue
            words = [time_text(row["us"])]
            if row.get("vs_torch_best"):
                words.append(f"{_write_factor(row['vs_torch_best'])}×")
            if above_us and row["impl"] == "weft":
                words.append(f"÷{_write_factor(above_us / row['us'])}")
            if row["impl"] == "weft":
                above_us = row["us"]
            if machine and len(series) > 1:
                words.append("(hollow)")
            offset = 13 * (number - (len(series) - 1) / 2)
            look = BESIDE | {"fontsize": 11 if len(series) == 1 else 9}
            axes.annotate(" · ".join(words), (x, place), (0, -offset), **look)


def _draw_opponents(
    axes: Axes,
    rows: Sequence[Row],
    order: Sequence[tuple],
    elsewhere: bool,
    named: bool,
) -> None:
    """Draw PyTorch's fastest time as a line next to each precision's rungs."""
    for precision in dict.fromkeys(precision for precision, _ in order):
        best = best_of(rows, precision)
        places = [n for n, (name, _) in enumerate(order) if name == precision]
        if best is None:
            continue
        ends = [places[0] - 0.4, places[-1] + 0.4]
        thick = 0.8 if elsewhere else 1.6
        axes.plot([best["us"]] * 2, ends, color=OPPONENT, lw=thick, zorder=1)
        if not named:
            continue
        name = f"PyTorch {best['rung']}, {precision}: {time_text(best['us'])}"
        look = BESIDE | {"color": OPPONENT, "fontsize": 9, "va": "top"}
        axes.annotate(name, (best["us"], ends[0]), (4, -1), **look)


def _draw_floors(
    axes: Axes, rows: Sequence[Row], order: Sequence[tuple], batch: int
) -> None:
    roofs = roofs_of(rows)
    for place, (precision, rung) in enumerate(order):
        if precision in roofs:
            us = floor_us(batch, roofs[precision]["tflops"], rung)
            ends = [place - 0.3, place + 0.3]
            axes.plot([us] * 2, ends, **kit.reference_line(width=2))
            first = [name for name, _ in order].index(precision)
            if first == place:
                text = f"floor {time_text(us)}"
                text += "" if first else f": {STEP_FLOPS / 1e6:.0f} MFLOP an image"
                style = {**BESIDE, "fontsize": 9, "va": "top"}
                axes.annotate(text, (us, place + 0.32), (-2, -1), **style)


def _write_factor(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:#.2g}"


LOOKS = ((THREAD, "s"), (WRITTEN, "D"), (OURS, "o"), (SHARED, "^"))


def plot_sections(
    rows: Sequence[Row],
    committed: Iterable[ResultFile] = (),
    rungs: Sequence[str] = ("naive", "tiled"),
    batch: int = 64,
) -> Figure:
    """Draw a dot for each section's time, with a line per section and a mark per rung.

    The rows come from this machine or from the first committed results.
    """

    def wanted(row: Row) -> bool:
        timed = row["batch"] == batch and row.get("layers_us")
        return bool(timed) and is_ours(row) and row["rung"] in rungs

    series = series_of(rows, committed, wanted)[:1]
    with kit.style():
        machine, machine_rows = next(iter(series), (None, []))
        machine_rows = sorted(machine_rows, key=lambda row: rungs.index(row["rung"]))
        groups = layer_groups([row["layers_us"] for row in machine_rows])
        # The update comes last, after sections that exist only in the fused rungs.
        names = sorted(groups, key=lambda name: name.startswith("update"))
        groups = {name: groups[name] for name in names}
        figure = kit.new_figure(920, 110 + 24 * max(2, len(groups)))
        axes = figure.subplots()
        if not machine_rows:
            return mark_missing(figure, axes)
        axes.set_xscale("log")
        for place, times in enumerate(groups.values()):
            measured = [us for us in times if us]
            axes.plot([min(measured), max(measured)], [place] * 2, color=INK, lw=1)
        for number, row in enumerate(machine_rows):
            colour, mark = LOOKS[number % len(LOOKS)]
            dots = [(t[number], y) for y, t in enumerate(groups.values()) if t[number]]
            look = {"mec": colour, "mfc": kit.fill_of(colour, not machine)}
            name = f"{row['rung']}: {time_text(row['us'])} a step"
            axes.plot(*zip(*dots), mark, ms=8, mew=1.4, label=name, **look)
        high = axes.get_xlim()[1]
        kit.mark_powers(axes, high)
        kit.name_lines(axes, [_shorten_name(name) for name in groups])
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel(f"µs, batch {batch} (left is better)")
        axes.legend(loc="upper right")
        write_caption(figure, series, "clocks between sections add to their times")
        return figure


def plot_limits(parts: Sequence[StepPart], title: str, here: bool = False) -> Figure:
    """Draw a bar per section: its floor in products or bytes, its launch, the rest.

    here: whether `parts` were measured on this machine; if not, the bars are hollow.
    """

    def look_of(colour: str) -> dict[str, Any]:
        pale = here and colour != INK
        return {"ec": colour, "fc": kit.fade_colour(colour) if pale else "none"}

    names = {"products": SHARED, "bytes": READ, "launch": WRITTEN, "waiting": INK}
    looks = {name: look_of(colour) for name, colour in names.items()}
    with kit.style():
        figure = kit.new_figure(920, 110 + 30 * len(parts))
        axes = figure.subplots()
        for place, part in enumerate(parts):
            floor = "products" if part.products >= part.bytes else "bytes"
            times = {floor: max(part.products, part.bytes), "launch": part.launch}
            times["waiting"] = part.waiting
            pieces = [(us, looks[name] | {"lw": 1.2}) for name, us in times.items()]
            kit.draw_stack(axes, place, pieces, f"{part.us:.1f} µs, {part.binds}")
        marks = [Patch(label=name, **look) for name, look in looks.items()]
        above = {"loc": "lower right", "bbox_to_anchor": (1, 1), "ncols": len(marks)}
        axes.legend(handles=marks, **above)
        kit.name_lines(axes, [_shorten_name(part.section) for part in parts])
        kit.hide_lines(axes)
        axes.set_xlim(0, 1.3 * max(part.us for part in parts))
        axes.set_xlabel(f"µs, {title} (left is better)")
        return figure


def _shorten_name(section: str) -> str:
    """Shorten "backward.pool2+bn2+conv2" to "back: pool2 bn2 conv2" in 1 or 2 lines."""
    direction, _, names = section.partition(".")
    words = names.replace("+", " ").replace(".weight", ", weights")
    if len(words) > 24:
        middle = words.rfind(" ", 0, len(words) // 2 + 3)
        words = words[:middle] + "\n" + words[middle + 1 :]
    return f"back: {words}" if direction == "backward" else words or direction


RIGHT = 3000  # flops per byte at the picture's right end


def plot_roofline(
    rows: Sequence[Row],
    committed: Iterable[ResultFile] = (),
    batches: Sequence[int] = (64, 4096),
) -> Figure:
    """Draw TFLOP/s of our fastest rungs' sections against their flops per byte.

    The rows come from this machine or from the first committed results. The roofs come
    from the same machine's "roof" rows: the rates of a copy and of multiply-adds.
    """
    committed = [*committed]
    series = series_of(rows, committed, lambda row: row["batch"] in batches)
    machine, machine_rows = next(iter(series), (None, []))
    roofs = roofs_of(rows if machine is None else rows_of(committed))
    fastest = [
        row
        for precision in PRECISIONS
        for batch in batches
        if (row := fastest_of(machine_rows, precision, batch))
    ]
    with kit.style():
        precisions = [*dict.fromkeys(row["precision"] for row in fastest)]
        figure = kit.new_figure(920, 430)
        if not fastest:
            return mark_missing(figure, figure.subplots())
        panels = figure.subplots(1, len(precisions), sharey=True, squeeze=False)[0]
        for axes, precision in zip(panels, precisions):
            panel_rows = [row for row in fastest if row["precision"] == precision]
            _draw_roof(axes, roofs, precision)
            _draw_sections(axes, panel_rows, machine is not None)
        panels[0].set_ylabel("TFLOP/s of the products (up is better)")
        notes = (
            "roofs: rates of a copy and of multiply-adds",
            "names: the largest batch",
        )
        write_caption(figure, series[:1], *notes)
        return figure


def _draw_roof(axes: Axes, roofs: dict[str, Row], precision: str) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel(f"flops per byte, {precision}")
    for axis in (axes.xaxis, axes.yaxis):
        kit.write_plain(axis)
    axes.set_xlim(5, RIGHT)
    roof = roofs.get(precision)
    if roof is None:
        return
    peak, gbs = roof["tflops"], roof["gbs"]
    ridge = 1e3 * peak / gbs
    line = [1, ridge, RIGHT], [gbs / 1e3, peak, peak]
    axes.plot(*line, **kit.reference_line(width=1.6), zorder=1)
    text = f"roofs: {peak:.0f} TFLOP/s, {gbs / 1e3:.1f} TB/s"
    axes.text(0.03, 0.97, text, va="top", transform=axes.transAxes)


def _draw_sections(axes: Axes, rows: Sequence[Row], elsewhere: bool) -> None:
    marks = ("o", "s", "D", "^")
    for mark, row in zip(marks, rows):
        kind = row["batch"], row["precision"], row["rung"]
        intensities = list_intensities(row["layers_us"], *kind)
        for section, (intensity, tflops) in intensities.items():
            colour = _name_section(section)[1]
            fill = kit.fill_of(colour, not elsewhere)
            axes.plot(intensity, tflops, mark, ms=8, mfc=fill, mec=colour, mew=1.4)
        name = f"batch {row['batch']}"
        axes.plot([], [], mark, mfc="none", mec=INK, ls="", label=name)
    axes.set_ylim(0.3, 6000)  # room for the legend above the roofs
    axes.legend(loc="upper right")
    _name_sections(axes, intensities)


def _name_sections(axes: Axes, intensities: dict[str, tuple[float, float]]) -> None:
    """Write names in a column on the right, near their marks, without overlaps."""
    low, high = (math.log(end) for end in axes.get_ylim())
    ordered = sorted(intensities.items(), key=lambda item: -item[1][1])
    heights = [math.log(y) for _, (_, y) in ordered]
    places = kit.spread_heights(heights, 0.045 * (high - low), -math.inf)
    marks = [(math.log(x), math.log(y)) for _, (x, y) in ordered]
    places = _uncross(marks, places, math.log(RIGHT / 7))
    for (section, (x, y)), at in zip(ordered, places):
        name, colour = _name_section(section)
        look = BESIDE | {"fontsize": 9, "color": colour, "textcoords": "data"}
        arrow = {"arrowstyle": "-", "color": colour, "lw": 0.6, "shrinkB": 5}
        place = RIGHT / 7, math.exp(at)
        axes.annotate(name, (x, y), place, **look, arrowprops=arrow)


def _uncross(
    marks: Sequence[tuple[float, float]], places: Iterable[float], x: float
) -> list[float]:
    """Exchange the heights of names at `x` until no two lines to their marks cross.

    Each exchange makes the lines shorter in total, so the loop ends.
    """
    places = list(places)
    pairs = [*itertools.combinations(range(len(marks)), 2)]

    def height(i: int, at: float) -> float:
        """Return a line's height at the abscissa `at`."""
        (left, low), high = marks[i], places[i]
        return low + (high - low) * (at - left) / (x - left)

    def do_cross(i: int, j: int) -> bool:
        later = max(marks[i][0], marks[j][0])
        return (height(i, later) - height(j, later)) * (places[i] - places[j]) < 0

    while found := next((pair for pair in pairs if do_cross(*pair)), None):
        i, j = found
        places[i], places[j] = places[j], places[i]
    return places


def _name_section(section: str) -> tuple[str, str]:
    """Return a section's short name and the colour of its product."""
    direction, _, names = section.partition(".")
    if section.endswith(".weight"):
        return "conv2 dw", WRITTEN
    products = [n for n in names.split("+") if n in ("conv1", "conv2", "fc1", "fc2")]
    main = "conv2" if "conv2" in products else products[0]
    colours = {"conv1": THREAD, "conv2": READ, "fc1": SHARED, "fc2": INK}
    if direction == "forward":
        return main, colours[main]
    return f"{main} back", colours[main]
