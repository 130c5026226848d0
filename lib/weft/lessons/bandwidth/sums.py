"""The errors of float32 sums, beside the exact sum and the bounds of their orders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes

from ...base import style as kit
from ...base.errors import ArgumentError
from ...base.style import OPPONENT, SHARED
from ...see.view import figure

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
        height = place + 0.05 * (number - len(errors) / 2)  # apart, if errors are equal
        kit.draw_dot(ax, (error, height), colour, here=True, size=6)
    ax.plot([bound, bound], [place - 0.35, place + 0.35], **kit.reference_line())
    kit.label_beside(ax, f"bound: {_write_number(bound)}", (bound, place))


def _write_number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2g}"
