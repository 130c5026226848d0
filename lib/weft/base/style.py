"""The kit for every chart: colours (Okabe and Ito), axes, marks, labels, captions.

Text stays text and the background is transparent, so a figure is legible on light and
dark pages. A full mark was measured on this machine, a hollow one elsewhere. Functions
import matplotlib themselves, since it is slow to import.
"""

from __future__ import annotations

import contextlib
import io
import math
import os
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


OURS = READ = "#0072B2"  # blue
WRITTEN = "#E69F00"  # orange
SHARED = "#009E73"  # green
THREAD = "#CC79A7"  # purple
OPPONENT = FAULT = "#D55E00"  # vermilion
INK = "#767676"  # a grey that is legible on light and dark pages
ALONE = f' color="{INK}"'  # for SVG files, which inherit no colour from a page
WIDTH = 920  # maximal width of an SVG, in pixels
# Set in the element's style, which the style sheets of an exported page cannot change.
MONO = "ui-monospace, Menlo, Consolas, monospace"
REFERENCE = 'stroke-dasharray="4 3"'  # SVG attributes of a reference line
PALE = 'stroke="currentColor" stroke-opacity=".45"'
PRE = f"background:none;color:inherit;font-family:{MONO}"  # CSS of code on a page
CODE = {  # Pygments' short name of a token kind: its colour
    **{"c": "#6e7781", "s": "#1e8763", "m": "#2b7acb", "k": "#8b5ce1"},
    **{"nb": "#b7610d", "bp": "#b7610d", "kr": "#b7610d", "cp": "#b7610d"},
    **{"gd": FAULT, "gi": "#1e8763", "gu": "#8b5ce1"},  # in a diff
}

RULES = {
    "svg.fonttype": "none",
    "svg.hashsalt": "weft",  # equal pictures become equal files
    "font.family": "sans-serif",
    "font.size": 11,
    "axes.labelsize": 11,
    "xtick.labelsize": 11,
    "ytick.labelsize": 11,
    "legend.fontsize": 11,
    "legend.frameon": False,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.alpha": 0.25,
    "lines.linewidth": 1.6,
    "hatch.linewidth": 0.6,
    **{f"{name}color": INK for name in ("text.", "axes.label", "xtick.", "ytick.")},
    **{"axes.edgecolor": INK, "grid.color": INK, "legend.labelcolor": INK},
}


@contextlib.contextmanager
def style() -> Iterator[None]:
    """Apply the lab's style inside the block; restore matplotlib's afterwards."""
    import matplotlib as mpl  # imported lazily: some modules need only the colours

    with mpl.rc_context(RULES):
        yield


def fade_colour(colour: str) -> tuple[float, float, float, float]:
    """Return the colour at a quarter of its strength, for the fill of a mark."""
    from matplotlib.colors import to_rgb

    return (*to_rgb(colour), 0.25)


def outlined(colour: str) -> dict[str, Any]:
    """Return keywords for a bar or patch: a quarter-strength fill, a full outline."""
    return {"facecolor": fade_colour(colour), "edgecolor": colour, "linewidth": 1.4}


def hollow(colour: str) -> dict[str, Any]:
    """Return keywords that draw only an outline, for results of another machine."""
    return {"facecolor": "none", "edgecolor": colour, "linewidth": 1.2}


def reference_line(colour: str = INK, width: float = 1) -> dict[str, Any]:
    """Return keywords for a reference line: a bound, a prediction, the true value."""
    return {"color": colour, "linestyle": "--", "linewidth": width}


def pale_patch() -> dict[str, Any]:
    """Return keywords for a background patch, which shows no data."""
    return {"facecolor": "none", "edgecolor": INK, "linewidth": 0.8, "alpha": 0.5}


# Keywords for a text beside a mark, at an offset in SVG points.
BESIDE: dict[str, Any] = {
    **{"textcoords": "offset points", "va": "center", "ha": "left"},
    "annotation_clip": False,
}


def fill_of(colour: str, here: bool) -> str:
    """Return the fill of a mark: its colour if it was measured here, else "none"."""
    return colour if here else "none"


def bar_look(colour: str, here: bool) -> dict[str, Any]:
    """Return keywords for a bar: filled if it was measured here, else an outline."""
    return outlined(colour) if here else hollow(colour)


def draw_dot(
    axes: Axes,
    at: tuple[float, float],
    colour: str,
    here: bool,
    band: Sequence[float] = (),
    mark: str = "o",
    size: float = 8,
) -> None:
    """Draw a mark. band: the two ends of its band on the x axis, or ()."""
    x, y = at
    if band:
        # The ends are flat, since round ones would fill a hollow mark.
        look = {"lw": 5, "alpha": 0.4, "solid_capstyle": "butt"}
        axes.plot(band, [y, y], color=colour, **look)
    fill = fill_of(colour, here)
    axes.plot(x, y, mark, ms=size, mfc=fill, mec=colour, mew=1.4, zorder=3)


def draw_stack(
    axes: Axes,
    place: float,
    parts: Iterable[tuple[float, Mapping[str, Any]]],
    text: str,
) -> None:
    """Draw a horizontal bar of (width, look) parts, with a text beside it."""
    start = 0.0
    for width, look in parts:
        axes.barh(place, width, left=start, height=0.6, **look)
        start += width
    label_beside(axes, text, (start, place))


def label_beside(
    axes: Axes, text: str, at: tuple[float, float], right: float = 6, **look: Any
) -> None:
    """Write a text `right` SVG points to the right of a point."""
    axes.annotate(text, at, (right, 0), **BESIDE | look)


def name_lines(
    axes: Axes, names: Sequence[str], top: float = -0.6, below: float = 0.4
) -> None:
    """Name the horizontal lines at 0, 1, 2, ... from the top down.

    top: the upper end of the axis. below: the distance from its lower end to the line
    that would follow the last one.
    """
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - below, top)


def hide_lines(axes: Axes) -> None:
    """Hide the ticks and the grid lines of the y axis."""
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y", visible=False)


def write_plain(axis: Any, subs: Sequence[float] = ()) -> None:
    """Label only the major ticks of a log axis, with plain numbers.

    subs: the leading digits of the major ticks; () leaves matplotlib's choice.
    """
    from matplotlib.ticker import LogLocator, NullFormatter

    if subs:
        axis.set_major_locator(LogLocator(subs=subs))
    axis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.set_minor_formatter(NullFormatter())


def spread_heights(wanted: Sequence[float], least: float, floor: float) -> list[float]:
    """Return heights at least `least` apart, each close to the wanted one.

    The wanted heights descend. If a height would be below the floor, it and those above
    it move up.
    """
    heights: list[float] = []
    for height in wanted:
        heights.append(min(height, heights[-1] - least) if heights else height)
    for number in range(len(heights) - 1, -1, -1):
        lowest = heights[number + 1] + least if number + 1 < len(heights) else floor
        heights[number] = max(heights[number], lowest)
    return heights


Series = list[tuple[dict[str, Any] | None, list[dict[str, Any]]]]


def list_series(
    rows: Sequence[dict[str, Any]],
    others: Iterable[Mapping[str, Any]],
    wanted: Callable[[dict[str, Any]], Any] = bool,
) -> Series:
    """Return (machine, its wanted rows) for each machine that has wanted rows.

    This machine is first, as None. others: results from other machines, as read_json()
    returns them.
    """
    pairs = [(None, rows), *((file["machine"], file["rows"]) for file in others)]
    series = [(machine, [r for r in group if wanted(r)]) for machine, group in pairs]
    return [(machine, selected) for machine, selected in series if selected]


def describe_dates(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return the date of the rows, or the first and the last date."""
    dates = sorted({row["date"] for row in rows})
    return dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}"


def list_machines(others: Iterable[Mapping[str, Any]]) -> str:
    """List the devices of results from other machines, each with its date."""
    machines = (file["machine"] for file in others)
    return "; ".join(f"{machine['device']}, {machine['date']}" for machine in machines)


def describe_hollow(others: Iterable[Mapping[str, Any]], what: str) -> str:
    """Describe the machines of the hollow marks in a chart of `weft bench WHAT`."""
    machines = list_machines(others)
    return f"hollow: {machines}" if machines else describe_unmeasured(what)


def describe_unmeasured(what: str) -> str:
    """Return the text that replaces missing results of `weft bench WHAT`."""
    return f"nothing measured yet: python -m weft bench {what} --device cuda"


def draw_unmeasured(axes: Axes, what: str) -> None:
    """Write describe_unmeasured() in the middle of an otherwise empty picture."""
    place = {"ha": "center", "transform": axes.transAxes}
    axes.text(0.5, 0.5, describe_unmeasured(what), color=INK, **place)
    axes.set_axis_off()


def write_svg(figure: Figure) -> str:
    """Return the figure as SVG, with its ink in the colour of the page's text."""
    with style():
        out = io.StringIO()
        # Without a date, equal pictures become equal files.
        figure.savefig(out, format="svg", metadata={"Date": None})
    text = re.sub(INK, "currentColor", out.getvalue(), flags=re.IGNORECASE)
    return text.replace("<svg", f"<svg{ALONE}", 1)


def write_inline_svg(figure: Figure) -> str:
    """Return the figure as an SVG element in the colour of the page's text.

    The element is no wider than the page, since the page would cut off its right end.
    """
    text = write_svg(figure)
    tag = '<svg style="max-width: 100%; height: auto"'
    return text[text.index("<svg") :].replace("<svg" + ALONE, tag, 1)


def save(figure: Figure, path: str | Path) -> None:
    """Save the figure: as write_svg() returns it for .svg, else as matplotlib does."""
    path = Path(path)
    if path.suffix.lower() != ".svg":
        with style():
            figure.savefig(path, dpi=150)
        return
    part = path.with_name(path.name + ".part")
    part.write_text(write_svg(figure), encoding="utf-8")
    os.replace(part, path)


INCH = 72  # SVG points per inch


def new_figure(width: float, height: float) -> Figure:
    """Return a figure, sized in SVG points, that no notebook shows on its own."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width / INCH, height / INCH), layout="constrained")


def write_caption(figure: Figure, text: str) -> None:
    """Write the text, wrapped into lines, below everything else."""
    lines = textwrap.fill(text, int(figure.get_figwidth() * INCH / 5.9))
    figure.supxlabel(lines, x=0.008, ha="left", fontsize=11, color=INK)


def mark_powers(axes: Axes, high: float) -> None:
    """Set ticks at 10, 30, 100, ... up to `high` as plain numbers."""
    from matplotlib.ticker import NullLocator

    low = axes.get_xlim()[0]
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [digit * 10**power for power in powers for digit in (1, 3)]
    axes.set_xticks([t for t in ticks if low <= t <= high])
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.xaxis.set_minor_locator(NullLocator())
