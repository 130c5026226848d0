"""Charts of `weft bench bodies` and `weft bench launch`, and sizes where lines cross.

    with figure(9.5, 5, columns=2, sharey=True) as axes:
        plot_times_of_contenders(axes, rows, load_elsewhere())
    print(make_caption(rows, load_elsewhere()))

Filled marks show this machine. Hollow marks show the results in notebooks/results.
find_crossing() finds the size at which one machine overtakes another. Lesson 00
compares a GPU with one core in this way:

    rows = time_relu([4**k for k in range(3, 12)], "cuda")
    show_figure(plot_times(rows))
    list_crossings(rows)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..base import style as kit
from ..base.paths import ROOT
from ..base.style import INK, OPPONENT, READ, WRITTEN
from ..timing import STATISTIC, read_json
from ..timing.results import ResultFile, Row, Timing, guard_figure, hide_times
from ..toolchain.native import set_threads
from . import ops


def lowest_times(rows: Iterable[Mapping[str, Any]], target: str) -> dict[int, float]:
    """Map each size to the microseconds of our fastest rung on a target.

    rows: the result of ops.rows(). The function uses each row's lowest sample, not the
    median, since other work on the machine only adds time.
    """
    lowest: dict[int, float] = {}
    for row in rows:
        if (row["target"], row["impl"]) == (target, "weft"):
            count, time = row["count"], row["us_low"]
            lowest[count] = min(time, lowest.get(count, time))
    return lowest


def find_crossing(
    slower: Mapping[int, float], faster: Mapping[int, float]
) -> float | None:
    """Return the size from which `faster` needs less time than `slower`, or None.

    The function interpolates linearly on logarithmic axes. It returns None if `faster`
    needs more time at the largest size, and the smallest common size if it always needs
    less.
    """
    sizes = sorted(set(slower) & set(faster))
    lead = [math.log(slower[size] / faster[size]) for size in sizes]
    if not sizes or lead[-1] <= 0:
        return None
    behind = max((at for at, value in enumerate(lead) if value <= 0), default=None)
    if behind is None:
        return sizes[0]
    low, high = math.log(sizes[behind]), math.log(sizes[behind + 1])
    share = -lead[behind] / (lead[behind + 1] - lead[behind])
    return math.exp(low + share * (high - low))


RESULTS = ROOT / "notebooks/results"
OWN = "CUDA C, a rung of the lab"
NAMES = {  # a row's label, by its (impl, rung)
    ("python", "loops"): "Python, loops",
    ("weft", "sim"): "sim",
    ("numba", "its simulator"): "Numba's simulator",
    ("numba", "loops, njit"): "Numba, loops on the CPU",
    ("numba", "numba_jit"): "numba_jit",
    ("numba", "numba_jit tiled"): "numba_jit, tiled",
    ("weft", "cuda_c"): "cuda_c",
    ("weft", "cuda_c tiled"): "cuda_c, tiled",
    ("weft", "reference"): "C by hand",
    ("weft", "best"): OWN,
    ("numpy", "@"): "NumPy",
    ("torch", "@"): "torch",
}


def load_elsewhere(what: str = "bodies") -> list[ResultFile]:
    """Return the committed results of `weft bench WHAT`."""
    return [read_json(path) for path in sorted(RESULTS.glob(f"{what}_*.json"))]


# ---- all contenders on the same work ----------------------------------------------


def plot_times_of_contenders(
    axes: Sequence[Axes], rows: list[Row], others: list[ResultFile]
) -> None:
    """Draw a panel for each op, with a line per contender and time on a log axis.

    Rows of `others` that did the same work on a GPU have hollow marks.
    """
    if hide_times(axes, rows):
        return
    works = _group_works(rows)
    # For each op, this machine's rows before other rows.
    groups: dict[str, list[dict]] = {}
    for op, sizes in works.items():
        groups[op] = [_group_by_name(_select_same(rows, op, sizes))]
        for theirs in others:
            same = _select_same(theirs["rows"], op, sizes)
            groups[op].append(_group_by_name(same, "cuda"))
    present = {name for group in groups.values() for part in group for name, _ in part}
    names = [name for name in NAMES.values() if name in present]
    for ax, (op, (m, k, n)) in zip(axes, works.items()):
        ax.set_xscale("log")
        for part in groups[op]:
            _draw_dots(ax, part, names, full=part is groups[op][0])
        own = groups[op][0].items()
        (peer,) = [row["us"] for (name, _), row in own if name == "torch"]
        ax.axvline(peer, color=OPPONENT, lw=1)
        ax.annotate("torch here ", (peer, -0.9), color=OPPONENT, ha="right")
        kit.name_lines(ax, names, -1.3, 0.3)
        ax.set_xlabel("µs, fp32 (left is better)")
        ax.margins(x=0.2)
        work = f"{m}x{k} by {k}x{n}" if m else f"{n:,} pixels"
        ax.set_title(f"{op}, {work}", fontsize=11, loc="left")


def make_caption(rows: list[Row], others: list[ResultFile]) -> str:
    """Return the caption: the machines, the timers and the statistic."""
    devices = ", ".join(dict.fromkeys(row["device"] for row in rows))
    timers = ", ".join(dict.fromkeys(row["timer"] for row in rows))
    machines = kit.list_machines(others)
    hollow = f"; hollow, below: {machines}" if machines else ""
    return (
        f"filled, above: {devices}{hollow}. Blue: on a GPU. ~: only a part was run.\n"
        f"{timers}; {STATISTIC}"
    )


def _group_works(rows: list[Row]) -> dict[str, list[int | None]]:
    return {row["op"]: [row.get(key) for key in "mkn"] for row in rows}


def _select_same(rows: list[Row], op: str, sizes: list[int | None]) -> list[Row]:
    return [r for r in rows if r["op"] == op and _group_works([r])[op] == sizes]


def _group_by_name(rows: list[Row], target: str = "") -> dict[tuple[str, str], Row]:
    """Group rows by name and target; keep only the fastest of the lab's own rungs."""
    grouped = {}
    for row in sorted(rows, key=lambda row: -row["us"]):
        key = row["impl"], row["rung"]
        if key not in NAMES and key[0] == "weft" and not key[1].startswith("sim"):
            key = "weft", "best"
        if key in NAMES and target in ("", row["target"]):
            grouped[NAMES[key], row["target"]] = row
    return grouped


def _draw_dots(
    ax: Axes, rows_by_name: dict[tuple[str, str], Row], names: list[str], full: bool
) -> None:
    """Draw a mark, its band and its time for each row, on the line of its name."""
    for (name, target), row in rows_by_name.items():
        colour = READ if target == "cuda" else INK
        place, us = names.index(name), row["us"]
        ax.plot([row["us_low"], row["us_high"]], [place] * 2, color=colour, lw=2)
        inside = kit.fill_of(colour, full)
        ax.plot(us, place, "o" if full else "D", color=colour, ms=7, mfc=inside)
        text = "~" * ("part" in row) + _time(us) + f", {row['rung']}" * (name == OWN)
        look = {"ha": "center", "va": "center", "fontsize": 9}
        offset = {"xytext": (0, 11 if full else -11), "textcoords": "offset points"}
        ax.annotate(text, (us, place), **offset, **look)


def _time(us: float) -> str:
    """Write a time with three digits and a unit."""
    power = min(2, max(0, int(np.log10(max(us, 1)) // 3)))
    value = us / 1000**power
    digits = f"{value:,.0f}" if value >= 999.5 else f"{value:.3g}"
    return f"{digits} {('µs', 'ms', 's')[power]}"


# ---- clocks and launches ------------------------------------------------------------


def plot_clocks(ax: Axes, rows: list[Row], full: bool) -> None:
    """Draw two clocks' times for each Python body on a GPU.

    One time comes from events around the kernel. The other comes from the host's clock,
    which does not wait for the kernel.
    """
    clocks = list(_list_clocks(rows))
    if not clocks:
        raise ValueError("no row has a host_us: no row was measured on a GPU")
    ax.set_xscale("log")
    inside = kit.fill_of(READ, full)
    for place, (_, event, host) in enumerate(clocks):
        names = "events: the kernel", "a clock that does not wait"
        of_kernel, of_host = names if place == 0 else (None, None)
        ax.plot([event, host], [place, place], color=INK, lw=1)
        ax.plot(event, place, "o", color=READ, mfc=inside, ms=8, label=of_kernel)
        ax.plot(host, place, "s", color=OPPONENT, mfc="none", ms=8, label=of_host)
        text = f"{host / event:.2g} x the kernel's"
        ax.text(1.25 * max(event, host), place, text, va="center")
    times = [time for _, *pair in clocks for time in pair]
    kit.name_lines(ax, [name for name, *_ in clocks])
    ax.set(xlim=(0.5 * min(times), 30 * max(times)), xlabel="µs, fp32, median")
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=2)


def _list_clocks(rows: list[Row]) -> Iterator[tuple[str, float, float]]:
    for row in rows:
        body = row["rung"].startswith(("numba_jit", "cuda_c"))
        if body and row.get("host_us"):
            sizes = (row.get(side) for side in "mkn")
            work = "grey" if row["op"] == "grey" else "x".join(map(str, sizes))
            yield f"{row['rung']}, {work}", row["us"], row["host_us"]


def plot_launches(ax: Axes, rows: list[Row]) -> None:
    """Draw the host's cost of a launch on a GPU, as `weft bench launch` measures it."""
    burst = [r for r in rows if r["target"] == "cuda" and r["rung"].startswith("burst")]
    for place, row in enumerate(burst):
        band = [row["us_low"], row["us_high"]]
        kit.draw_dot(ax, (row["us"], place), READ, False, band)
        ax.text(row["us_high"] + 0.6, place, f"{row['us']:.1f} µs", va="center")
    names = [f"{row['impl']} {row['rung'].partition(' ')[2]}" for row in burst]
    kit.name_lines(ax, names, -0.5, 0.5)
    label = "µs per launch in Python, median and band (left is better)"
    ax.set(xlim=(0, 1.2 * max(row["us_high"] for row in burst)), xlabel=label)


def plot_samples(ax: Axes, samples: Sequence[float], summary: Timing) -> None:
    """Draw samples in microseconds, in order, with their median, mean and band.

    On a shared machine, a sentence replaces the drawing; see timing/results.py.
    """
    if hide_times(ax, [summary.row()]):
        return
    ax.semilogy(samples, ".", color=INK, subs=[2, 5])
    ax.axhspan(summary.low, summary.high, **kit.outlined(READ))
    for name, us, width in ("median", summary.median, 2), ("mean", summary.mean, 0.7):
        ax.axhline(us, color=READ, lw=width, label=f"{name} {us:.1f} µs")
    kit.write_plain(ax.yaxis, subs=(1, 2, 5))
    ax.set(xlabel="sample", ylabel="µs (lower is better)")
    ax.legend(loc="upper center")


MARKS = ("o-", "s-", "^-")  # marks of other machines


def time_relu(sizes: Sequence[int], device: str) -> list[Row]:
    """Time relu on one core and, if `device` is "cuda", on the GPU.

    The CPU's time is that of one core, since several would compete with other programs.
    """
    threads = set_threads(1), torch.get_num_threads()
    torch.set_num_threads(1)
    rows = ops.rows("relu", "cpu", sizes, samples=7)
    set_threads(threads[0])
    torch.set_num_threads(threads[1])
    if device == "cuda":  # a short array's time is that of its launch
        options = {"samples": 7, "compiled": False, "timer": "event"}
        rows += ops.rows("relu", "cuda", sizes, **options)
    return rows


@guard_figure
def plot_times(rows: Sequence[Row]) -> Figure:
    """Draw time against size for this machine and for other GPUs, with hollow marks."""
    elsewhere = load_elsewhere("relu")
    lines = [(rows, "cpu", "o-", WRITTEN), (rows, "cuda", "o-", READ)]
    lines += [(file["rows"], "cuda", m, READ) for file, m in zip(elsewhere, MARKS)]
    with kit.style():
        figure = Figure(figsize=(9.2, 4), layout="constrained")
        ax = figure.subplots()
        for measured, target, mark, color in lines:
            us = lowest_times(measured, target)
            names = {row["device"] for row in measured if row["target"] == target}
            if us:
                fill = kit.fill_of(color, measured is rows)
                look = {"color": color, "mfc": fill, "label": names.pop()}
                ax.loglog(us.keys(), us.values(), mark, **look)
        label = "µs per call, the lowest of the samples"
        ax.set(xlabel="numbers in the array", ylabel=label)
        ax.legend()
    return figure


def list_crossings(rows: Sequence[Row]) -> dict[str, float]:
    """Map each GPU's name to the size at which it overtakes this machine's core."""
    elsewhere = load_elsewhere("relu")
    host = lowest_times(rows, "cpu")
    crossings = {}
    for measured in (rows, *(results["rows"] for results in elsewhere)):
        size = find_crossing(host, lowest_times(measured, "cuda"))
        if size:
            row = next(row for row in measured if row["target"] == "cuda")
            crossings[f"{row['device']}, {row['timer']}"] = size
    return crossings
