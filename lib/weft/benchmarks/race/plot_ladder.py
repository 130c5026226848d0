"""The ladder of `weft bench mnist`: from the slowest rung to the fastest.

    plot_ladder(rows)     at one batch, what each rung gains

`committed` takes results read from JSON (bench.read_json): hollow marks with their
device and date. Without a GPU there are no others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...base.style import OPPONENT, mark_powers, new_figure, reference_line, style
from .plot import colour_of
from .plot_batches import (
    BESIDE,
    PRECISIONS,
    Found,
    best_of,
    is_ours,
    mark_missing,
    roofs_of,
    row_of,
    rows_of,
    series_of,
    tell,
    time_text,
)
from .race import Row
from .work import STEP_FLOPS, floor_us


def plot_ladder(
    rows: Sequence[Row], committed: Iterable[Found] = (), batch: int = 64
) -> Figure:
    """Dots of the time per step of every rung on a log axis, and what each one gains.

    Dashed and grey is the floor: the step's products at the peak rate of multiply-adds
    in that precision, where a row "roof" has it.
    """
    committed = [*committed]
    series = series_of(rows, committed, lambda row: row["batch"] == batch)
    with style():
        every = [row for _, found in series for row in found if is_ours(row)]
        rungs = dict.fromkeys((row["precision"], row["rung"]) for row in every)
        order = sorted(rungs, key=lambda key: PRECISIONS.index(key[0]))
        figure = new_figure(920, 150 + 34 * len(order))
        axes = figure.subplots()
        if not every:
            return mark_missing(figure, axes)
        axes.set_xscale("log")
        for number, (machine, found) in enumerate(series):
            _draw_climb(axes, found, order, machine is not None)
            _draw_opponents(axes, found, order, machine is not None, named=number == 0)
        _draw_floors(
            axes, [r for rs in (rows, rows_of(committed)) for r in rs], order, batch
        )
        low, high = axes.get_xlim()
        axes.set_xlim(low, 25 * high)  # room for the words on the right
        _write_column(axes, series, order, 1.3 * high)
        mark_powers(axes, high)
        axes.set_yticks(range(len(order)), [rung for _, rung in order])
        axes.set_ylim(len(order) - 0.4, -0.8)
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="y", visible=False)
        axes.spines["left"].set_visible(False)
        axes.set_xlabel(f"µs per step, batch {batch} (left is better)", loc="left")
        notes = (
            "÷: the rung above over this one",
            "×: PyTorch's fastest over this one",
        )
        tell(figure, series, *notes)
        return figure


def _draw_climb(
    axes: Axes, rows: Sequence[Row], order: Sequence[tuple], elsewhere: bool
) -> None:
    """A mark for each rung, joined to the one above."""
    before = None
    for place, (precision, rung) in enumerate(order):
        row = row_of(rows, precision, rung)
        if row is None:
            continue
        colour, us = colour_of(row), row["us"]
        if before is not None and row["impl"] == "weft":
            above, there = before
            axes.plot(
                [there, there, us], [above, place, place],
                color=colour, lw=0.8 if elsewhere else 1.2, alpha=0.6,
            )  # fmt: skip
        axes.plot(
            [row["us_low"], row["us_high"]], [place] * 2, color=colour, lw=5, alpha=0.4,
            solid_capstyle="butt",  # else a narrow band fills a hollow mark
        )  # fmt: skip
        fill = "none" if elsewhere else colour
        axes.plot(us, place, "o", ms=8, mfc=fill, mec=colour, mew=1.4, zorder=3)
        if row["impl"] == "weft":
            before = place, us


def _write_column(
    axes: Axes, series: Sequence[tuple], order: Sequence[tuple], x: float
) -> None:
    """Times and ratios in a column: this machine's, and below it the others'."""
    for number, (machine, rows) in enumerate(series):
        above = None
        for place, (precision, rung) in enumerate(order):
            row = row_of(rows, precision, rung)
            if row is None:
                continue
            words = [time_text(row["us"])]
            if row.get("vs_torch_best"):
                words.append(f"{_write_factor(row['vs_torch_best'])}×")
            if above and row["impl"] == "weft":
                words.append(f"÷{_write_factor(above / row['us'])}")
            if row["impl"] == "weft":
                above = row["us"]
            if machine and len(series) > 1:
                words.append("(hollow)")
            down = 13 * (number - (len(series) - 1) / 2)
            size = 11 if len(series) == 1 else 9
            look = {**BESIDE, "fontsize": size}
            axes.annotate(" · ".join(words), (x, place), (0, -down), **look)


def _draw_opponents(
    axes: Axes,
    rows: Sequence[Row],
    order: Sequence[tuple],
    elsewhere: bool,
    named: bool,
) -> None:
    """PyTorch's fastest of each precision, as a line beside that precision's rungs."""
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
        axes.annotate(
            name, (best["us"], ends[0]), (4, -1),
            **{**BESIDE, "color": OPPONENT, "fontsize": 9, "va": "top"},
        )  # fmt: skip


def _draw_floors(
    axes: Axes, rows: Sequence[Row], order: Sequence[tuple], batch: int
) -> None:
    roofs = roofs_of(rows)
    for place, (precision, _) in enumerate(order):
        if precision in roofs:
            us = floor_us(batch, roofs[precision]["tflops"])
            axes.plot([us] * 2, [place - 0.3, place + 0.3], **reference_line(width=2))
            first = [name for name, _ in order].index(precision)
            if first == place:
                text = f"floor {time_text(us)}"
                text += "" if first else f": {STEP_FLOPS / 1e6:.0f} MFLOP an image"
                beside = {**BESIDE, "fontsize": 9, "va": "top"}
                axes.annotate(text, (us, place + 0.32), (-2, -1), **beside)


def _write_factor(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:#.2g}"
