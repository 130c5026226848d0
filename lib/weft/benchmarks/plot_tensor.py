"""Charts of `weft bench tensor` for this machine and others.

    with figure(9, 4) as ax:
        plot_promotions(ax, rows, load_elsewhere("tensor"), "positive")

Filled marks were measured on this machine; hollow marks are committed results. The rows
come from a GPU or a CPU. A CPU's simulated tensor cores round their sums; a GPU's
truncate them. A chart without any measurement explains how to make one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from ..base import style as kit
from ..base.style import INK, OPPONENT, OURS, READ, SHARED, THREAD, WRITTEN
from ..timing.results import ResultFile, Row

# The rows, and whether this machine measured them.
Series = list[tuple[list[Row], bool]]
INKS = {16: READ, 32: READ, 64: SHARED, 128: WRITTEN, 512: THREAD, 0: OPPONENT}
MARKS = {16: "v", 32: "o", 64: "s", 128: "^", 512: "D", 0: "X"}
KINDS = {  # the colour and the mark of each precision
    "fp32": (INK, "o"),
    "3xtf32": (SHARED, "D"),
    "tf32": (READ, "s"),
    "fp16": (WRITTEN, "^"),
    "bf16": (THREAD, "v"),
}


def select_series(
    op: str, rows: Sequence[Row], others: Sequence[ResultFile], **more: Any
) -> Series:
    """Return an op's rows, this machine's first; more: required values of each row."""
    required = ({"op": op} | more).items()

    def is_wanted(row: Row) -> bool:
        return all(row.get(key) == value for key, value in required)

    series = kit.list_series(rows, others, is_wanted)
    return [(part, machine is None) for machine, part in series]


def find_value(
    key: str, op: str, rows: Sequence[Row], others: Sequence[ResultFile], **more: Any
) -> float:
    """Return row[key] of the first row with this key, a GPU's if possible, or NaN."""
    series = select_series(op, rows, others, **more)
    matches = [row for part, _ in series for row in part if row.get(key) is not None]
    matches.sort(key=lambda row: row["target"] != "cuda")
    return matches[0][key] if matches else math.nan


def plot_staircases(
    ax: Axes, rows: Sequence[Row], others: Sequence[ResultFile]
) -> None:
    """Draw the result of 1 + x / 2^23: rounded to the nearest, and by tensor cores."""
    series = select_series("staircase", rows, others)
    if not series:
        return kit.draw_unmeasured(ax, "tensor")
    x = np.linspace(0, 2, 401)
    ax.plot(x, x, **kit.reference_line(), label="exact")
    ax.plot(x, np.round(x), color=INK, lw=1, label="rounded to the nearest float")
    for part, local in series:
        simulated = part[0]["target"] == "cpu"
        colour, mark = (SHARED, "s") if simulated else (READ, "o")
        name = "simulated" if simulated else part[0]["device"]
        name += "" if local else ", committed"
        look = {"mfc": kit.fill_of(colour, local), "mec": colour, "ls": "none"}
        look |= {"ms": 9, "mew": 1.5}
        points = [[row["x"] for row in part], [row["added"] for row in part]]
        ax.plot(*points, mark, label=name, **look)
    ax.set(xlabel="x, in units of 1's last bit", ylabel="result of 1 + x, minus 1")
    ax.set_yticks([0, 1, 2])
    ax.legend(loc="upper left", fontsize=9)


def plot_promotions(
    ax: Axes, rows: Sequence[Row], others: Sequence[ResultFile], signs: str = "both"
) -> None:
    """Draw errors against k, with a line for each length of the tensor cores' sums."""
    series = select_series("promotion", rows, others, signs=signs)
    series = [(part, local) for part, local in series if part[0]["target"] == "cuda"]
    if not series:
        return kit.draw_unmeasured(ax, "tensor")
    ax.set(xscale="log", yscale="log")
    ends = {}
    for part, local in series:
        for every in dict.fromkeys(row["every"] for row in part):
            line = [row for row in part if row["every"] == every]
            name = f"every {every}" if every else "never"
            ends[name] = _draw_line(ax, line, INKS[every], MARKS[every], local)
    # Panels for other signs use the same scale.
    on_gpu = select_series("promotion", rows, others, target="cuda")
    errors = [row["error_rms"] for part, _ in on_gpu for row in part]
    ax.set_ylim(0.6 * min(errors), 1.8 * max(errors))
    _finish_axes(ax, series, ends)


def plot_errors(ax: Axes, rows: Sequence[Row], others: Sequence[ResultFile]) -> None:
    """Draw errors of a product against k: ours by precision, cuBLAS's without marks."""
    series = select_series("error", rows, others)
    if not series:
        return kit.draw_unmeasured(ax, "tensor")
    ax.set(xscale="log", yscale="log")
    ends = {}
    for part, local in series:
        for kind, (colour, mark) in KINDS.items():
            same = [row for row in part if row["precision"] == kind]
            line = [row for row in same if row["impl"] == "weft"]
            peer = [row for row in same if row["impl"] == "cublas"]
            if peer:
                points = [r["k"] for r in peer], [r["error_rms"] for r in peer]
                ax.plot(*points, color=OPPONENT, lw=1, zorder=1)
            if line:
                ends[kind] = _draw_line(ax, line, colour, mark, local)
    _finish_axes(ax, series, ends)


def plot_speed_and_power(
    axes: Sequence[Axes], rows: Sequence[Row], others: Sequence[ResultFile]
) -> None:
    """Draw TFLOP/s and watts over time, in one panel each, by mode and numbers."""
    series = select_series("heat", rows, others, precision="bf16", impl="weft")
    if not series:
        return kit.draw_unmeasured(axes[0], "tensor")
    for part, local in series:
        for row in part:
            hot, zeros = row["mode"] == "hot", row["numbers"] == "zeros"
            colour = INK if zeros else OPPONENT if hot else READ
            name = "zeros" if zeros else "hot" if hot else "cool"
            ms, speed, _, watts = zip(*row["series"])
            for ax, values in zip(axes, (speed, watts)):
                if None not in values:
                    look = {"mfc": kit.fill_of(colour, local), "mec": colour, "lw": 1}
                    ax.plot(ms, values, "." if hot else "o", ms=5, ls="none", **look)
                    last = (ms[-1], float(np.median(values[-5:])))
                    kit.label_beside(ax, name, last, fontsize=9, color=colour)
    for ax, text in zip(axes, ("TFLOP/s of a burst", "watts, as reported by the card")):
        ax.set(xlabel="ms since the first burst", title="")
        ax.set_ylabel(text)
        ax.set_ylim(0)
        ax.set_xlim(0, 1.2 * ax.get_xlim()[1])


def plot_pipes(ax: Axes, rows: Sequence[Row], others: Sequence[ResultFile]) -> None:
    """Draw each rung's use of the tensor cores, as Nsight Compute reports it."""

    def is_counted(row: Row) -> bool:
        return row["op"] == "ncu" and row.get("tensor_pipe") is not None

    series = kit.list_series(rows, others, is_counted)
    if not series:
        return kit.draw_unmeasured(ax, "tensor")
    machine, part = series[0]
    part = [row for row in part if row["precision"] != "fp32"]
    for place, row in enumerate(part):
        colour = OPPONENT if row["impl"] == "cublas" else OURS
        look = kit.bar_look(colour, machine is None)
        ax.barh(place, row["tensor_pipe"], 0.7, **look)
        text = f"{row['tensor_pipe']:.0f} %, {row['tflops']:.0f} TFLOP/s"
        kit.label_beside(ax, text, (row["tensor_pipe"], place), fontsize=9)
    kit.name_lines(ax, [_name(row) for row in part], -0.5, 0.5)
    ax.set(xlim=(0, 125), xticks=range(0, 101, 20))
    ax.set_xlabel("% of cycles in which the tensor cores were busy")
    ax.grid(axis="y", visible=False)


def make_caption(rows: Sequence[Row], others: Sequence[ResultFile], op: str) -> str:
    """Return a caption with the machines and dates of the rows of `op`."""
    devices = dict.fromkeys(row["device"] for row in rows)
    texts = [f"full: {device}" for device in devices]
    for results in others:
        machine = results["machine"]
        op_rows = [row for row in results["rows"] if row["op"] == op]
        days = sorted({row.get("date") or machine["date"] for row in op_rows})
        texts += [f"hollow: {machine['device']}, {' and '.join(days)}"] * bool(days)
    return "; ".join(texts) or "nothing measured"


# ---- details ---------------------------------------------------------------------


def _name(row: Row) -> str:
    return f"cuBLAS {row['precision']}" if row["impl"] == "cublas" else row["rung"]


def _draw_line(
    ax: Axes, line: Sequence[Row], colour: str, mark: str, local: bool
) -> tuple[float, float]:
    """Draw a line with marks; return the position of the last mark."""
    k, error = [row["k"] for row in line], [row["error_rms"] for row in line]
    fill = kit.fill_of(colour, local)
    look = {"mfc": fill, "mec": colour, "color": colour, "lw": 1, "ms": 6}
    ax.plot(k, error, mark, ls="-", **look)
    return k[-1], error[-1]


def _finish_axes(
    ax: Axes, series: Series, ends: dict[str, tuple[float, float]]
) -> None:
    """Format the axes; write each line's name at its end, without overlaps."""
    depths = sorted({row["k"] for part, _ in series for row in part})
    ax.set_xticks(depths, [str(k) for k in depths])
    ax.minorticks_off()
    ax.set_xlim(depths[0] / 1.3, depths[-1] * (depths[-1] / depths[0]) ** 0.22)
    ax.set(xlabel="k", ylabel="error, relative (down is better)")
    low, high = (math.log(end) for end in ax.get_ylim())
    sorted_ends = sorted(ends.items(), key=lambda end: -end[1][1])
    heights = [math.log(error) for _, (_, error) in sorted_ends]
    places = kit.spread_heights(heights, 0.052 * (high - low), -math.inf)
    for (name, (k, _)), place in zip(sorted_ends, places):
        kit.label_beside(ax, name, (k, math.exp(place)), 10, fontsize=9)
