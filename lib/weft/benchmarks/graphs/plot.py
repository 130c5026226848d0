"""Charts of `weft bench graphs` for this machine's GPU and others.

    with figure(9, 4) as ax:
        plot_chains(ax, rows, load_elsewhere("graphs"))

Filled marks were measured on this machine; hollow marks are committed results from
notebooks/results/. `rows` come from a GPU or are empty, since a CPU's times are not
meaningful. A chart without any measurement explains how to make one.
"""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes

from ...base import style as kit
from ...base.style import OPPONENT, READ
from ...timing.results import ResultFile, Row

WAYS = (  # ways to launch a chain, from slow to fast
    "Python, x.add_(1)",
    "Python, a launch each",
    "C, a launch each",
    "C, dependent launch, early",
    "a graph",
    "a graph, dependent launch, late",
    "a graph, dependent launch, early",
)


def find_value(
    op: str, rung: str, rows: list[Row], others: list[ResultFile], **more
) -> float:
    """Return `us` of the first matching row, or NaN if no row matches.

    Rows of this machine come first, then those of `others`. more: further keys and
    values that the row must have.
    """
    required = {"op": op, "rung": rung} | more
    for row in [*rows, *(row for results in others for row in results["rows"])]:
        if all(row.get(key) == required[key] for key in required):
            return row["us"]
    return float("nan")


def plot_chains(
    ax: Axes, rows: list[Row], others: list[ResultFile], floor: float, count: int = 100
) -> None:
    """Draw µs per kernel of a chain, on a log axis, for each way to launch it.

    floor: time in µs that a kernel's bytes alone would take.
    """
    series = _group_rows(rows, others, "chain", count)
    if not series:
        return kit.draw_unmeasured(ax, "graphs")
    present = {row["rung"] for part, _ in series for row in part}
    ways = [way for way in WAYS if way in present]
    ax.set_xscale("log")
    for number, (part, full) in enumerate(series):
        for row in part:
            y = ways.index(row["rung"]) + 0.3 * number
            band = [row["us_low"], row["us_high"]]
            ax.plot(band, [y, y], color=READ, lw=4, alpha=0.3)
            ax.plot(row["us"], y, "o", color=READ, ms=8, mfc=kit.fill_of(READ, full))
            kit.label_beside(ax, f"{row['us']:.2f} µs", (row["us"], y), 10, fontsize=9)
    ax.axvline(floor, **kit.reference_line(OPPONENT))
    style = {"rotation": 90, "va": "bottom", "ha": "right", "fontsize": 9}
    ax.text(floor, len(ways) - 0.6, "its bytes", **style)
    most = max(row["us"] for part, _ in series for row in part)
    kit.name_lines(ax, ways, -0.5)
    label = "µs for each kernel, median (left is better)"
    ax.set(xlim=(floor / 1.6, 2.5 * most), xlabel=label)


def plot_bars(
    ax: Axes,
    op: str,
    rows: list[Row],
    others: list[ResultFile],
    count: int | None = None,
    only: Sequence[str] = (),
) -> None:
    """Draw a bar in µs for each rung of an op, with GB/s if known.

    only: rungs to draw, in this order; () draws all.
    """
    series = _group_rows(rows, others, op, count)
    rungs = [row["rung"] for part, _ in series for row in part]
    rungs = [rung for rung in only or dict.fromkeys(rungs) if rung in rungs]
    if not rungs:
        return kit.draw_unmeasured(ax, "graphs")
    height, most = 0.8 / len(series), 0.0
    for number, (part, full) in enumerate(series):
        for row in (row for row in part if row["rung"] in rungs):
            most = max(most, row["us"])
            y = rungs.index(row["rung"]) + (number + 0.5) * height - 0.4
            ax.barh(y, row["us"], 0.85 * height, **kit.bar_look(READ, full))
            kit.label_beside(ax, _describe_row(row), (row["us"], y), fontsize=9)
    kit.name_lines(ax, rungs, -0.5, 0.5)
    ax.set(xlim=(0, 1.45 * most), xlabel="µs, median (left is better)")


def make_caption(others: Sequence[ResultFile]) -> str:
    """Return the names of the cards measured elsewhere, and the dates."""
    return kit.describe_hollow(others, "graphs")


def _group_rows(
    rows: list[Row], others: list[ResultFile], op: str, count: int | None
) -> list[tuple[list[Row], bool]]:
    """Return (a machine's rows, whether it is this machine); this machine is first."""

    def is_wanted(row: Row) -> bool:
        return row["op"] == op and count in (None, row.get("count"))

    series = kit.list_series(rows, others, is_wanted)
    return [(part, machine is None) for machine, part in series]


def _describe_row(row: Row) -> str:
    us = row["us"]
    text = f"{us:.2f} µs" if us < 100 else f"{us:,.0f} µs"
    text = f"{us / 1e3:.3g} ms" if us >= 1e4 else text
    if row.get("gbs"):
        text += f", {row['gbs']:,.0f} GB/s"
    if row.get("vs_copy"):
        text += f", {1 / row['vs_copy']:.2g} x a copy"
    return text
