"""The sections of a step, rung beside rung, and what binds each.

    plot_sections(rows, committed, rungs)   µs of every section, on a log axis
    plot_limits(parts, title)               a step's sections and their floors

`committed` takes results read from JSON (bench.read_json): hollow marks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.patches import Patch

from ...base.style import (
    INK,
    OURS,
    READ,
    SHARED,
    THREAD,
    WRITTEN,
    fade_colour,
    mark_powers,
    new_figure,
    style,
)
from .limits import Part
from .plot import layer_groups
from .race_marks import BESIDE, Found, is_ours, mark_missing, series_of, tell, time_text
from .row import Row

LOOKS = ((THREAD, "s"), (WRITTEN, "D"), (OURS, "o"), (SHARED, "^"))


def plot_sections(
    rows: Sequence[Row],
    committed: Iterable[Found] = (),
    rungs: Sequence[str] = ("naive", "tiled"),
    batch: int = 64,
) -> Figure:
    """Dots of every section's time, a line for each section that the rungs share.

    Of this machine, or of the first committed results.
    """

    def wanted(row: Row) -> bool:
        timed = row["batch"] == batch and row.get("layers_us")
        return bool(timed) and is_ours(row) and row["rung"] in rungs

    series = series_of(rows, committed, wanted)[:1]
    with style():
        machine, found = next(iter(series), (None, []))
        found = sorted(found, key=lambda row: rungs.index(row["rung"]))
        groups = layer_groups([row["layers_us"] for row in found])
        # Sections that only the fused rungs have come last there, after the update.
        groups = dict(
            sorted(groups.items(), key=lambda item: item[0].startswith("update"))
        )
        figure = new_figure(920, 110 + 24 * max(2, len(groups)))
        axes = figure.subplots()
        if not found:
            return mark_missing(figure, axes)
        axes.set_xscale("log")
        for place, times in enumerate(groups.values()):
            there = [us for us in times if us]
            axes.plot([min(there), max(there)], [place] * 2, color=INK, lw=1)
        for number, row in enumerate(found):
            colour, mark = LOOKS[number % len(LOOKS)]
            dots = [(t[number], y) for y, t in enumerate(groups.values()) if t[number]]
            axes.plot(
                *zip(*dots), mark, mec=colour, mfc="none" if machine else colour,
                ms=8, mew=1.4, label=f"{row['rung']}: {time_text(row['us'])} a step",
            )  # fmt: skip
        high = axes.get_xlim()[1]
        mark_powers(axes, high)
        axes.set_yticks(range(len(groups)), [_shorten_name(name) for name in groups])
        axes.set_ylim(len(groups) - 0.4, -0.6)
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel(f"µs, batch {batch} (left is better)")
        axes.legend(loc="upper right")
        tell(figure, series, "a clock between sections: together more than a step")
        return figure


def plot_limits(parts: Sequence[Part], title: str, here: bool = False) -> Figure:
    """Draw a bar per section: its floor in products or bytes, its launch, the rest.

    here: measured on this machine; other bars are hollow.
    """

    def fill(colour: str) -> Any:
        return fade_colour(colour) if here and colour != INK else "none"

    with style():
        figure = new_figure(920, 110 + 30 * len(parts))
        axes = figure.subplots()
        for place, part in enumerate(parts):
            floor = max(part.products, part.bytes)
            kind = SHARED if part.products >= part.bytes else READ
            start = 0.0
            for us, colour in (
                (floor, kind),
                (part.launch, WRITTEN),
                (part.waiting, INK),
            ):
                axes.barh(
                    place, us, left=start, height=0.6, lw=1.2, ec=colour,
                    fc=fill(colour),
                )  # fmt: skip
                start += us
            text = f"{part.us:.1f} µs, {part.binds}"
            axes.annotate(text, (start, place), (6, 0), **BESIDE)
        names = {"products": SHARED, "bytes": READ, "launch": WRITTEN, "waiting": INK}
        marks = [Patch(fc=fill(c), ec=c, label=name) for name, c in names.items()]
        above = {"loc": "lower right", "bbox_to_anchor": (1, 1), "ncols": len(marks)}
        axes.legend(handles=marks, **above)
        axes.set_yticks(
            range(len(parts)), [_shorten_name(part.section) for part in parts]
        )
        axes.set_ylim(len(parts) - 0.4, -0.6)
        axes.set_xlim(0, 1.3 * max(part.us for part in parts))
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="y", visible=False)
        axes.set_xlabel(f"µs, {title} (left is better)")
        return figure


def _shorten_name(section: str) -> str:
    """ "backward.pool2+bn2+conv2" -> "back: pool2 bn2 conv2", or in two lines."""
    direction, _, names = section.partition(".")
    words = names.replace("+", " ").replace(".weight", ", weights")
    if len(words) > 24:
        middle = words.rfind(" ", 0, len(words) // 2 + 3)
        words = words[:middle] + "\n" + words[middle + 1 :]
    return f"back: {words}" if direction == "backward" else words or direction
