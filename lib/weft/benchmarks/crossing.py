"""From which size on a GPU is ahead of one core: where two lines cross.

    rows = time_relu([4**k for k in range(3, 12)], "cuda")
    show_figure(plot_times(rows))
    list_crossings(rows)

Beside these rows are those of other machines, which came with the lab.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from matplotlib.figure import Figure

from ..base.style import READ, WRITTEN, style
from ..timing.results import Row
from ..toolchain.native import set_threads
from . import ops
from .plot_bodies import find_crossing, load_elsewhere, lowest_times

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
