"""Draw the roofline of the matmul ladder: TFLOP/s over flops per byte.

    plot_roofline(rows)

Bytes are those that must move: a and b read once and c written once. All rungs of a
size therefore have the same x, and further traffic appears as distance from the roof.
peaks.py measures the roofs, which are "peak" rows among `rows` or in the cache.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, NullLocator

from ...base import style as kit
from ...base.style import BESIDE, INK
from ...timing.peaks import ceilings
from .comparison import (
    OURSELVES,
    PLOTTED,
    ResultFile,
    Row,
    committed_results,
    fastest_row,
    find_fullest_size,
    find_opponent,
    select_size,
    series_of,
    size_of,
    size_text,
)
from .plot import KEY, MARKS, colour_of, name_of, write_caption

LEFT, RIGHT, NAMES = 3.0, 3e5, 1.4e4  # flops per byte at the ends, and at the names
DECADE = 840 / math.log10(RIGHT / LEFT)  # approximate SVG points for a factor of ten
LETTER = 5.8  # approximate width of a letter in SVG points
UNITS = {"fp32": "fused multiply-adds", "3xtf32": "tf32 / 3"}  # default: the precision


def plot_roofline(
    rows: Sequence[Row],
    committed: Iterable[ResultFile] | None = None,
    size: str | None = None,
    precisions: Sequence[str] = (),
) -> Figure:
    """Draw dots with their bands on log axes, below the roofs of the machine.

    Without rows, the machine is that of the first committed results. size: None selects
    the size with the most rungs; other sizes have small marks for our best. precisions:
    () draws all.
    """
    files = committed_results() if committed is None else list(committed)
    series = series_of(rows, files)[:1]
    with kit.style():
        if not series:
            figure = kit.new_figure(920, 430)
            kit.draw_unmeasured(figure.subplots(), "matmul")
            return figure
        ((machine, part),) = series
        roofs = ceilings(rows if machine is None else _find_rows(files, machine))
        shape = size_of(size) if size else find_fullest_size(series)
        kinds = [p for p in PLOTTED if p in (precisions or PLOTTED)]
        ours = [row for row in part if row["race"] in kinds]
        labelled = (select_size(candidates, shape) for candidates in (ours, part))
        marked = _select_marked(*labelled, kinds)
        kinds = [k for k in kinds if k in {row["precision"] for row in marked}]
        figure = kit.new_figure(920, 180 + 16 * max(18, len(marked)))
        axes = figure.subplots()
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlim(LEFT, RIGHT)
        speeds = [row["tflops"] for row in marked]
        speeds += [roofs[kind] for kind in kinds if kind in roofs]
        axes.set_ylim(0.6 * min(speeds, default=0.1), 2 * max(speeds, default=1.0))
        _draw_roofs(axes, roofs, kinds)
        has_small = _draw_small(axes, ours, shape)
        for row in marked:
            _mark(axes, row, machine is not None)
        _write_names(axes, marked, kinds)
        # A processor's speeds are in GFLOP/s.
        unit, scale = ("T", 1) if axes.get_ylim()[1] > 1 else ("G", 1000)
        axes.yaxis.set_major_formatter(lambda value, _: f"{scale * value:g}")
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_minor_formatter(NullFormatter())
            axis.set_minor_locator(NullLocator())
        axes.set_xticks([10, 100, 1000, 10000])
        axes.set_xlabel(f"flops per byte that must move; labelled: {size_text(shape)}")
        axes.set_ylabel(f"{unit}FLOP/s (up is better)")
        notes = ["bytes: a, b and c once"]
        notes += ["small: our best of other sizes"] * has_small
        notes += [] if "gbs" in roofs else ["no roofs: weft bench matmul --set peaks"]
        write_caption(figure, series, *notes)
        return figure


def count_intensity(row: Row) -> float:
    """Return flops per byte that must move."""
    return 2.0 * row["m"] * row["k"] * row["n"] / row["bytes"]


def _find_rows(files: Sequence[ResultFile], machine: dict) -> list[Row]:
    return next(results["rows"] for results in files if results["machine"] is machine)


def _select_marked(
    candidates: Sequence[Row], all_rows: Sequence[Row], kinds: Sequence[str]
) -> list[Row]:
    """Return our rungs, each in its fastest layout, and the opponents.

    As in the ladder, an opponent's fastest row may come from another race.
    """
    ours: dict[tuple, Row] = {}
    for row in sorted(candidates, key=lambda row: row["us"]):
        if row["impl"] in OURSELVES:
            ours.setdefault(tuple(row[name] for name in KEY), row)
    peers = [find_opponent(all_rows, kind) for kind in kinds if kind != "3xtf32"]
    return [*ours.values(), *filter(None, peers)]


def _draw_roofs(axes: Axes, roofs: dict[str, float], kinds: Sequence[str]) -> None:
    """Draw the memory's slope, and a ceiling for each precision's units."""
    if "gbs" not in roofs:
        return
    slope = roofs["gbs"] / 1e3  # TFLOP/s at one flop per byte
    levels = {kind: roofs[kind] for kind in kinds if kind in roofs}
    levels.pop("fp16" if "bf16" in levels else "", None)  # has the same peak
    for kind, peak in levels.items():
        ends = [peak / slope, NAMES / 1.3]
        axes.plot(ends, [peak] * 2, **kit.reference_line(width=1.4), zorder=1)
        _name_roof(axes, UNITS.get(kind, kind), f"{_format(peak)}FLOP/s", peak, slope)
    top = max(levels.values(), default=1.0)
    ends = [0.1, top / slope], [0.1 * slope, top]
    axes.plot(*ends, **kit.reference_line(width=1.6), zorder=1)
    text = f"copy: {_format(slope)}B/s"
    levels_up = sorted(levels.values())
    gaps = [(b / a, math.sqrt(a * b)) for a, b in itertools.pairwise(levels_up)]
    _, middle = max(gaps, default=(1.0, slope * LEFT))  # the widest gap
    if _distance_from_left(middle / slope) > LETTER * len(text):
        look = {"ha": "right", "color": INK}
        axes.annotate(text, (middle / slope, middle), (-8, 0), **BESIDE | look)
        return
    at_left = max(2 * LEFT, 2.5 * axes.get_ylim()[0] / slope)
    if at_left < top / slope:  # otherwise the slope is outside
        axes.annotate(text, (at_left, at_left * slope), (10, -6), **BESIDE)


def _name_roof(axes: Axes, unit: str, speed: str, peak: float, slope: float) -> None:
    """Write a roof's name left of the slope, where there is no mark, or on the roof."""
    ridge = peak / slope
    look: dict = {"va": "bottom", "color": INK}
    for text in (f"{unit}: {speed}", f"{unit}:\n{speed}"):
        if _distance_from_left(ridge) > LETTER * max(map(len, text.split("\n"))) + 6:
            look |= {"ha": "right", "multialignment": "right"}
            axes.annotate(text, (ridge, peak), (-4, 0), **BESIDE | look)
            return
    start = max(ridge, LEFT), peak
    axes.annotate(f"{unit}: {speed}", start, (4, 2), **BESIDE | look)


def _distance_from_left(intensity: float) -> float:
    """Return the approximate distance in SVG points from the left end."""
    return DECADE * math.log10(intensity / LEFT)


def _format(tera: float) -> str:
    """Write a number: "4.2 T" or "185 G"."""
    return f"{tera:.3g} T" if tera >= 1 else f"{1e3 * tera:.3g} G"


def _draw_small(axes: Axes, rows: Sequence[Row], shape: tuple) -> bool:
    """Draw our best of each other size and precision; return whether there is any."""
    is_drawn = False
    keys = dict.fromkeys((r["m"], r["k"], r["n"], r["precision"]) for r in rows)
    for *size, kind in keys:
        same_size = select_size(rows, tuple(size))
        row = fastest_row(r for r in same_size if r["precision"] == kind)
        if row and tuple(size) != shape:
            look = {"ms": 6, "alpha": 0.6, "color": colour_of(row)}
            axes.plot(count_intensity(row), row["tflops"], ".", **look)
            is_drawn = True
    return is_drawn


def _mark(axes: Axes, row: Row, elsewhere: bool) -> None:
    x, y, colour = count_intensity(row), row["tflops"], colour_of(row)
    if row["impl"] not in OURSELVES:
        axes.plot([x / 1.25, x * 1.25], [y, y], color=colour, lw=1.8, zorder=2)
        return
    ends = [y * row["us"] / row[end] for end in ("us_high", "us_low")]
    thick = 2 if elsewhere else 5  # a thick line would fill hollow marks
    axes.plot([x, x], ends, color=colour, lw=thick, alpha=0.4, solid_capstyle="butt")
    kit.draw_dot(axes, (x, y), colour, not elsewhere, mark=MARKS[row["impl"]], size=7)


def _write_names(axes: Axes, marked: Sequence[Row], kinds: Sequence[str]) -> None:
    """Write names in a column on the right, level with the marks, without overlaps."""
    low, high = (math.log(end) for end in axes.get_ylim())
    ordered = sorted(marked, key=lambda row: -row["tflops"])
    min_gap = (high - low) / max(1.25 * len(ordered), 24)
    heights = [math.log(row["tflops"]) for row in ordered]
    places = kit.spread_heights(heights, min_gap, low + 0.6 * min_gap)
    for row, place in zip(ordered, places):
        speed = row["tflops"] if axes.get_ylim()[1] > 1 else 1e3 * row["tflops"]
        text = f"{name_of(row)}  {speed:.3g}"
        look = BESIDE | {"color": colour_of(row), "textcoords": "data"}
        arrow = {"arrowstyle": "-", "color": colour_of(row), "lw": 0.5, "shrinkB": 5}
        arrow |= {"relpos": (0, 0.5)}  # at the name's left end, not under it
        point = count_intensity(row), row["tflops"]
        axes.annotate(text, point, (NAMES, math.exp(place)), **look, arrowprops=arrow)
