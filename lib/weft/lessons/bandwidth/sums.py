"""Sums of float32: their errors and bounds (09a), and running sums (09c).

draw_sums(sums, exact, bounds)    sums beside the exact one
time_scans(2**22)                 copies and running sums, for draw_ruler()
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from matplotlib.axes import Axes

from ...base import style as kit
from ...base.errors import ArgumentError
from ...base.style import OPPONENT, SHARED
from ...see.view import figure
from ...timing.results import Row
from ...toolchain import native
from .ruler import call_op, list_copies, time_calls

COLOURS = (OPPONENT, SHARED)


def draw_sums(
    sums: Mapping[str, Sequence[float]], exact: float, bounds: Mapping[str, float]
) -> None:
    """Draw how far each sum is from the exact one, and the bound of each order.

    sums: by order, the float32 sums of the same numbers. exact: their sum without
    rounding. bounds: by order, the largest error that theory allows, above 0. Raises
    ArgumentError if the two have different orders.
    """
    if sums.keys() != bounds.keys() or not sums:
        names = f"{', '.join(sums)} and bounds of {', '.join(bounds)}"
        raise ArgumentError(f"draw_sums: sums of {names}")
    errors = {name: [abs(float(s) - exact) for s in sums[name]] for name in sums}
    # A logarithmic axis has no place for an error of 0.
    least = min((e for row in errors.values() for e in row if e), default=1.0) / 4
    with figure(9, 1.1 + 0.75 * len(sums)) as ax:
        for place, (name, row) in enumerate(errors.items()):
            _draw_errors(ax, place, [max(e, least) for e in row], bounds[name])
        kit.name_lines(ax, list(sums))
        ax.set_xscale("log")
        ax.set_xlim(least / 2, 30 * max(bounds.values()))
        ax.set_xlabel(f"distance from the exact sum, {exact:,.6f} (left is better)")
        kit.hide_lines(ax)


def _draw_errors(ax: Axes, place: int, errors: Sequence[float], bound: float) -> None:
    """Draw a row of errors, one dot per sum, and the bound as a dashed line."""
    colour = COLOURS[place % len(COLOURS)]
    for number, error in enumerate(errors):
        height = place + 0.05 * (number - len(errors) / 2)  # keeps equal errors apart
        kit.draw_dot(ax, (error, height), colour, here=True, size=6)
    ax.plot([bound, bound], [place - 0.35, place + 0.35], **kit.reference_line())
    kit.label_beside(ax, f"bound: {_write_number(bound)}", (bound, place))


def _write_number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2g}"


# ---- running sums --------------------------------------------------------------------


def time_scans(count: int) -> list[Row]:
    """Time copy and running sums of `count` floats on this machine's processor.

    Returns rows like time_ops(): NumPy, PyTorch and Weft's plain C. Raises
    ArgumentError for a count below 1.
    """
    if count < 1:
        raise ArgumentError(f"time_scans({count}): the count must be at least 1")
    x = torch.from_numpy(np.random.default_rng(0).random(count, np.float32))
    y = torch.empty_like(x)
    numbers, target = x.numpy(), y.numpy()
    scans = {
        ("scan", "NumPy"): lambda: np.cumsum(numbers, out=target),
        ("scan", "PyTorch"): lambda: torch.cumsum(x, 0, out=y),
        ("scan", "Weft"): call_op("scan", y, x, count, native.NULL),
    }
    return time_calls(x.nbytes, list_copies(x, y) | scans)
