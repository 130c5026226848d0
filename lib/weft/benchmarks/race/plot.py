"""Draw the results of a run as matplotlib figures.

    plot_steps(rows)      time per step, ours and PyTorch's
    plot_training(rows)   loss and test accuracy, ours drawn over PyTorch's
    plot_parts(rows)      a step's time by part
    plot_layers(rows)     a step's time by layer
    plot_run(rows)        the first two side by side: mnist.svg

`committed`, results of other machines from JSON (bench.read_json), is drawn as hollow
marks with device and date.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...base import style as kit
from ...base.style import BESIDE, INK, OPPONENT, OURS
from ...mnist.train import PARTS
from ...timing import STATISTIC, machine
from ...timing.results import Row, guard_figure, label_row

PYTHON = ("numba",)  # our rungs in Python, drawn thinner than those in C


@guard_figure
def plot_steps(
    rows: Sequence[Row],
    committed: Iterable[Row] = (),
    measured: dict[str, Any] | None = None,
) -> Figure:
    """Draw bars for the time per step, and a line for PyTorch's fastest.

    measured: if `rows` come from another machine, the "machine" entry of its results
    from JSON. All bars are then hollow.
    """
    with kit.style():
        elsewhere = _rows_elsewhere(committed)
        figure = kit.new_figure(620, 120 + 34 * (len(rows) + len(elsewhere)))
        _draw_steps(figure.subplots(), rows, elsewhere, measured is not None)
        _write_caption(figure, rows, *_write_notes(rows, elsewhere), measured=measured)
        return figure


def plot_training(rows: Sequence[Row], smooth: int = 50) -> Figure:
    """Draw every step's loss (mean of the last `smooth`) and every epoch's accuracy."""
    with kit.style():
        figure = kit.new_figure(620, 420)
        _draw_training(figure.subplots(2, 1, height_ratios=(3, 2)), rows, smooth)
        _write_caption(figure, rows)
        return figure


@guard_figure
def plot_parts(rows: Sequence[Row]) -> Figure:
    """Draw the µs of batch, forward, backward, update and zero for each contender."""
    with kit.style():
        best_rows = _best_of_each(rows, "parts_us")
        figure = kit.new_figure(620, 110 + 24 * len(PARTS) * max(1, len(best_rows)))
        groups = {part: [row["parts_us"][part] for row in best_rows] for part in PARTS}
        _draw_groups(figure.subplots(), groups, best_rows)
        _write_caption(figure, best_rows)
        return figure


@guard_figure
def plot_layers(rows: Sequence[Row]) -> Figure:
    """Draw the µs of every layer, grouped so that both sides are comparable."""
    with kit.style():
        best_rows = _best_of_each(rows, "layers_us")
        groups = layer_groups([row["layers_us"] for row in best_rows])
        figure = kit.new_figure(760, 110 + 22 * sum(map(len, groups.values())))
        _draw_groups(figure.subplots(), groups, best_rows)
        _write_caption(figure, best_rows)
        return figure


@guard_figure
def plot_versions(
    rows: Sequence[Row], committed: Iterable[Row] = (), python_us: float = math.nan
) -> Figure:
    """Draw dots for the time per step on a log axis, with the slowest version on top.

    python_us: scaled-up µs per step of the Python version on the simulator.
    """
    marks = [("~ Python, by sim", python_us, OURS, True)]
    for origin, part in kit.list_series(rows, committed):
        best = min((row["us"] for row in part if row["impl"] == "torch"), default=0)
        for row in part:
            if row["impl"] == "weft" or row["us"] == best:
                name = name_row(row) + (f", {row['device']}" if origin else "")
                colour = OURS if row["impl"] == "weft" else OPPONENT
                marks.append((name, row["us"], colour, origin is None))
    marks.sort(key=lambda mark: -mark[1])
    with kit.style():
        figure = Figure(figsize=(9, 0.8 + 0.32 * len(marks)), layout="constrained")
        ax = figure.subplots()
        for place, (_, us, colour, local) in enumerate(marks):
            fill = kit.fill_of(colour, local)
            ax.semilogx(us, place, "o", color=colour, mfc=fill, ms=8)
            text = f"{us / 1e3:.3g} ms" if us < 1e6 else f"{us / 1e6:.3g} s"
            ax.annotate(text, (us, place), (8, -4), textcoords="offset points")
        images = f"{rows[0]['batch']} images, fp32 (left is better)"
        ax.set(
            yticks=range(len(marks)),
            yticklabels=[name for name, *_ in marks],
            xlabel=f"µs per step of {images}",
            xlim=(marks[-1][1] / 3, marks[0][1] * 10),
        )
        ax.invert_yaxis()
    return figure


def name_row(row: Row) -> str:
    """Return the name of a row's contender: our rung, or PyTorch and its kind."""
    return f"PyTorch {label_row(row)}" if row["impl"] == "torch" else label_row(row)


@guard_figure
def plot_run(rows: Sequence[Row], committed: Iterable[Row] = ()) -> Figure:
    """Draw time per step on the left, loss and accuracy on the right."""
    with kit.style():
        elsewhere = _rows_elsewhere(committed)
        figure = kit.new_figure(920, 430)
        left, right = figure.subfigures(1, 2, width_ratios=(1.15, 1))
        for part in (left, right):
            part.set_facecolor("none")
        _draw_steps(left.subplots(), rows, elsewhere)
        _draw_training(right.subplots(2, 1, height_ratios=(3, 2)), rows, smooth=50)
        _write_caption(figure, rows, *_write_notes(rows, elsewhere))
        return figure


def colour_of(row: Row) -> str:
    """Return our colour, the opponent's, or grey for our rung that calls a library."""
    return {"weft": OURS, "torch": OPPONENT}.get(row["impl"], INK)


def layer_groups(sides: Sequence[dict[str, float]]) -> dict[str, list[float | None]]:
    """Merge sections of several steps until all sides have the same sections.

    For example, {"forward.conv1+bn1": 5} and {"forward.conv1": 3, "forward.bn1": 4}
    result in {"forward.conv1+bn1": [5, 7]}. A side without a group's sections has None.
    """
    groups: list[set[str]] = []
    sections = [name for side in sides for name in side]
    for name in sections:
        layers = set(_split_layers(name))
        for group in [g for g in groups if g & layers]:
            layers |= group
            groups.remove(group)
        groups.append(layers)
    times_by_title = {}
    for name in sections:  # groups follow the order of the sections
        group = next(g for g in groups if g & set(_split_layers(name)))
        times_by_title[_title_of(group, sides)] = [_sum(side, group) for side in sides]
    return times_by_title


# ---- drawing -------------------------------------------------------------------


def _draw_steps(
    axes: Axes,
    rows: Sequence[Row],
    elsewhere: Sequence[Row],
    all_hollow: bool = False,
) -> None:
    rows = sorted(rows, key=lambda row: row["rung"] not in PYTHON)  # Python rungs first
    all_rows = [*elsewhere, *rows]
    unit, scale = _choose_unit(max(row["us"] for row in all_rows))
    longest = max(row["us_high"] for row in all_rows) / scale
    peers = [row for row in rows if row["impl"] == "torch"]
    peers.sort(key=lambda row: -row["us"])
    # The fastest peer is last in the list, so the dict keeps it.
    best_of = {row["precision"]: row for row in peers}
    precisions = dict.fromkeys(row["precision"] for row in rows)
    # A single line is drawn only if all rows have the same precision.
    best = best_of.get(*precisions) if len(precisions) == 1 else None
    for place, row in enumerate(all_rows):
        colour = colour_of(row)
        is_elsewhere = place < len(elsewhere)
        look = kit.bar_look(colour, not (is_elsewhere or all_hollow))
        axes.barh(place, row["us"] / scale, height=0.62, **look)
        if not is_elsewhere:
            ends = [row["us_low"] / scale, row["us_high"] / scale]
            axes.plot(ends, [place, place], color=colour, lw=3, solid_capstyle="butt")
        ratio = row.get("vs_torch_best")
        if not is_elsewhere:
            peer = best_of.get(row["precision"])
            ratio = peer and peer["us"] / row["us"]
        text = _shorten_time(row["us"] / scale) + f" {unit}"
        text += f" · {_write_ratio(ratio)}" if ratio else ""
        edge = max(row["us"], row["us_high"]) / scale
        if best and edge < best["us"] / scale < edge + 0.3 * longest:
            edge = best["us"] / scale  # PyTorch's line must not cross the text
        kit.label_beside(axes, text, (edge, place))
    names = [_name(row, place < len(elsewhere)) for place, row in enumerate(all_rows)]
    kit.name_lines(axes, names, -1.1 if best else -0.6)
    kit.hide_lines(axes)
    axes.spines["left"].set_visible(False)
    axes.set_xlim(0, 1.42 * longest)  # room for the text after the longest bar
    work = f"batch {rows[0]['batch']}, {', '.join(precisions)}"
    axes.set_xlabel(f"{unit} per step, {work} (left is better)")
    if best:
        x = best["us"] / scale
        axes.axvline(x, color=OPPONENT, lw=1.6, zorder=0.5)
        side = {"ha": "left"} if x < 0.6 * longest else {"ha": "right"}
        text = f" PyTorch's fastest: {label_row(best)} "
        axes.text(x, -0.75, text, color=OPPONENT, va="center", **side)


def _draw_training(axes: Sequence[Axes], rows: Sequence[Row], smooth: int) -> None:
    loss, accuracy = axes
    trained_rows = [row for row in rows if row.get("losses")]
    for row in trained_rows:
        ours = row["impl"] != "torch"
        # PyTorch's line is broad because our thin line is drawn over it.
        python = row["rung"] in PYTHON
        look = {"color": OPPONENT, "lw": 3.5}
        if ours:
            look = {"color": OURS, "lw": 0.7 if python else 1.4, "zorder": 3}
        mark = {"marker": ("s" if python else "o") if ours else "D"}
        total = len(row["losses"])
        over = min(smooth, total)
        means = np.convolve(row["losses"], np.ones(over) / over, "valid")
        epochs_done = np.arange(over, total + 1) / (total / row["epochs"])
        loss.plot(epochs_done, means, label=name_row(row), **look)
        epochs = np.arange(1, len(row["test_accuracies"]) + 1)
        values = 100 * np.array(row["test_accuracies"])
        accuracy.plot(epochs, values, **look, **mark)
    loss.set_ylabel(f"loss, mean of {smooth} steps")
    accuracy.set_ylabel("test, % right")
    accuracy.set_xlabel("epochs")
    if not trained_rows:
        place = {"ha": "center", "transform": loss.transAxes}
        loss.text(0.5, 0.5, "nothing was trained", **place)
        return
    loss.set_yscale("log")
    kit.write_plain(loss.yaxis, (1, 3))
    loss.legend(loc="upper right")
    for part in (loss, accuracy):
        part.set_xlim(0, 1.16 * trained_rows[0]["epochs"])
        part.set_xticks(range(trained_rows[0]["epochs"] + 1))
    _label_ends(accuracy, trained_rows)


def _label_ends(accuracy: Axes, trained: Sequence[Row]) -> None:
    """Write the last accuracies next to their marks, the higher one above."""
    last = sorted(trained, key=lambda row: -row["test_accuracy"])
    for place, row in enumerate(last):
        value, look = 100 * row["test_accuracy"], BESIDE | {"color": colour_of(row)}
        up = 14 * ((len(last) - 1) / 2 - place)
        accuracy.annotate(f"{value:.2f}", (row["epochs"], value), (8, up), **look)
    accuracy.margins(y=0.35)


def _draw_groups(
    axes: Axes, groups: dict[str, list[float | None]], rows: Sequence[Row]
) -> None:
    """Draw bars side by side: one group per entry, with one bar per row."""
    largest = max(us for values in groups.values() for us in values if us)
    unit, scale = _choose_unit(largest)
    thick = 0.8 / max(1, len(rows))
    for number, row in enumerate(rows):
        torch = row["impl"] == "torch"
        hatch = "///" if torch else ".." if row["rung"] in PYTHON else ""
        kind = kit.outlined(colour_of(row)) | {"hatch": hatch}
        values = [group[number] for group in groups.values()]
        places = np.arange(len(groups)) + (number - (len(rows) - 1) / 2) * thick
        widths = [(us or 0) / scale for us in values]
        axes.barh(places, widths, height=0.9 * thick, label=name_row(row), **kind)
        for place, us in zip(places, values):
            text = "–" if us is None else f"{_shorten_time(us / scale)} {unit}"
            kit.label_beside(axes, text, ((us or 0) / scale, place), 5)
    kit.name_lines(axes, [_fold(name) for name in groups])
    kit.hide_lines(axes)
    axes.set_xlim(0, 1.2 * largest / scale)
    axes.set_xlabel(f"{unit} per step, batch {rows[0]['batch']} (left is better)")
    axes.legend(loc="best")


def _write_caption(
    figure: Figure,
    rows: Sequence[Row],
    *notes: str,
    measured: dict[str, Any] | None = None,
) -> None:
    """Write the caption: device, precision, timer, statistic, date and notes."""
    row, origin = rows[0], measured or machine()
    precision_names = ", ".join(dict.fromkeys(row["precision"] for row in rows))
    threads = f", {row['threads']} threads" if row["target"] == "cpu" else ""
    text = (
        f"{row['device']}{threads} · {precision_names} · PyTorch {origin['torch']} · "
        f"timer: {row['timer']}, {STATISTIC} · {origin['date']}"
    )
    kit.write_caption(figure, " · ".join([text, *notes]))


# ---- numbers and names -----------------------------------------------------------


def _write_notes(rows: Sequence[Row], elsewhere: Sequence[Row]) -> list[str]:
    """Explain the ratios and the hollow bars of plot_steps()."""
    notes = []
    if any(row["impl"] == "torch" for row in rows) or elsewhere:
        notes.append("×: the time of PyTorch's fastest divided by this one")
    if elsewhere:
        notes.append("hollow: measured elsewhere, × against PyTorch there")
    return notes


def _rows_elsewhere(committed: Iterable[Row]) -> list[Row]:
    """Return our rows of committed results, each with its machine and date."""
    return [
        row | {"measured": f"{row['device']}, {results['machine']['date']}"}
        for results in committed
        for row in results["rows"]
        if row["impl"] == "weft"
    ]


def _best_of_each(rows: Sequence[Row], key: str) -> list[Row]:
    """Return the rows that have `key`: all of ours, and PyTorch's fastest."""
    matching = [row for row in rows if row.get(key)]
    peers = [row for row in matching if row["impl"] == "torch"]
    best = min(peers, key=lambda row: row["us"], default=None)
    return [row for row in matching if row["impl"] != "torch" or row is best]


def _name(row: Row, elsewhere: bool) -> str:
    place = f"\n{_fold(row['measured'], 24)}" if elsewhere else ""
    return label_row(row) + place


def _split_layers(section: str) -> list[str]:
    """Split a name: "forward.conv1+bn1" -> ["forward.conv1", "forward.bn1"]."""
    direction, _, names = section.partition(".")
    return [f"{direction}.{name}" for name in names.split("+")]


def _title_of(group: set[str], sides: Sequence[dict[str, float]]) -> str:
    """Return the group's layers in the order of the first side that runs them."""
    order = [layer for side in sides for name in side for layer in _split_layers(name)]
    names = [layer for layer in dict.fromkeys(order) if layer in group]
    direction = names[0].partition(".")[0]
    return f"{direction}." + "+".join(name.partition(".")[2] for name in names)


def _sum(side: dict[str, float], group: set[str]) -> float | None:
    times = [us for name, us in side.items() if group & set(_split_layers(name))]
    return sum(times) if times else None


def _fold(text: str, width: int = 30) -> str:
    """Wrap long names at spaces and pluses to lines of about `width` characters."""
    return textwrap.fill(text.replace("+", "+ "), width).replace("+ ", "+")


def _choose_unit(largest_us: float) -> tuple[str, float]:
    return ("ms", 1e3) if largest_us >= 10_000 else ("µs", 1.0)


def _shorten_time(value: float) -> str:
    return f"{value:#.3g}" if value < 100 else f"{value:.0f}"


def _write_ratio(value: float) -> str:
    return f"{value:.2f}×" if value >= 0.1 else f"{value:.2g}×"
