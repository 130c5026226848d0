"""From which size on a GPU is ahead of one core: where two lines cross.

    rows = time_relu([4**k for k in range(3, 12)], "cuda")
    show_figure(plot_times(rows))
    list_crossings(rows)

Beside these rows are those of other machines, which came with the lab.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from matplotlib.figure import Figure

from ..base.style import READ, WRITTEN, style
from ..toolchain.native import set_threads
from . import ops
from .plot_bodies import load_elsewhere

Row = dict[str, Any]
MARKS = ("o-", "s-", "^-")  # of other machines


def time_relu(sizes: Sequence[int], device: str) -> list[Row]:
    """Time relu on one core and, if `device` is "cuda", on the GPU.

    One core, since more of them would compete with other programs.
    """
    threads = set_threads(1), torch.get_num_threads()
    torch.set_num_threads(1)
    rows = ops.rows("relu", "cpu", sizes, samples=7)
    set_threads(threads[0])
    torch.set_num_threads(threads[1])
    return rows + (
        ops.rows("relu", "cuda", sizes, samples=7) if device == "cuda" else []
    )


def plot_times(rows: Sequence[Row]) -> Figure:
    """Draw time over size: of this machine, and hollow of other machines' GPUs."""
    elsewhere = load_elsewhere("relu")
    lines = [(rows, "cpu", "o-", WRITTEN), (rows, "cuda", "o-", READ)]
    lines += [
        (found["rows"], "cuda", mark, READ) for found, mark in zip(elsewhere, MARKS)
    ]
    with style():
        figure = Figure(figsize=(9.2, 4), layout="constrained")
        ax = figure.subplots()
        for measured, target, mark, color in lines:
            us = lowest_times(measured, target)
            names = {row["device"] for row in measured if row["target"] == target}
            fill = color if measured is rows else "none"
            if us:
                look = {"color": color, "mfc": fill, "label": names.pop()}
                ax.loglog(us.keys(), us.values(), mark, **look)
        label = "µs per call, the lowest of the samples"
        ax.set(xlabel="numbers in the array", ylabel=label)
        ax.legend()
    return figure


def list_crossings(rows: Sequence[Row]) -> dict[str, float]:
    """The size from which on each GPU is ahead of this machine's core, by its name."""
    elsewhere = load_elsewhere("relu")
    host = lowest_times(rows, "cpu")
    crossings = {}
    for measured in (rows, *(found["rows"] for found in elsewhere)):
        size = find_crossing(host, lowest_times(measured, "cuda"))
        if size:
            row = next(row for row in measured if row["target"] == "cuda")
            crossings[f"{row['device']}, {row['timer']}"] = size
    return crossings


def lowest_times(rows: Iterable[Mapping[str, Any]], target: str) -> dict[int, float]:
    """Map each size to the microseconds of our fastest rung on a target.

    rows: of ops.py.

    The lowest sample of each counts, not the median: other work on the machine only
    adds time.
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
    """The size from which on `faster` needs less time than `slower`, or None.

    Between two measured sizes the lines are straight on logarithmic axes. None: it is
    not ahead at the largest size. The smallest common size: it always is.
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
