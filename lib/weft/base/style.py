"""The kit for every chart: colours (Okabe and Ito), axes, marks, labels, captions.

Text stays text and the background transparent, so a figure is legible on light and dark
pages. A full mark was measured on this machine, a hollow one elsewhere. Functions that
use matplotlib import it.
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
INK = "#767676"  # a grey legible on light and dark, for ink that the page cannot set
ALONE = f' color="{INK}"'  # of an SVG file, which cannot inherit its page's colour
WIDTH = 920  # maximal width of an SVG, in pixels
# In the element's own style: the style sheets of an exported page would change it.
MONO = "ui-monospace, Menlo, Consolas, monospace"
REFERENCE = 'stroke-dasharray="4 3"'  # of SVG
PALE = 'stroke="currentColor" stroke-opacity=".45"'
PRE = f"background:none;color:inherit;font-family:{MONO}"  # of code on a page
CODE = {  # by Pygments' short names of token kinds
    **{"c": "#6e7781", "s": "#1e8763", "m": "#2b7acb", "k": "#8b5ce1"},
    **{"nb": "#b7610d", "bp": "#b7610d", "kr": "#b7610d", "cp": "#b7610d"},
    **{"gd": FAULT, "gi": "#1e8763", "gu": "#8b5ce1"},  # of a diff
}

RULES = {
    "svg.fonttype": "none",
    "svg.hashsalt": "weft",  # makes equal pictures equal files
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
    """Draw in the lab's style inside the block, and restore matplotlib's afterwards."""
    import matplotlib as mpl  # a module that needs only colours skips it

    with mpl.rc_context(RULES):
        yield


def fade_colour(colour: str) -> tuple[float, float, float, float]:
    """Return the colour at a quarter of its strength, as a mark's fill."""
    from matplotlib.colors import to_rgb

    return (*to_rgb(colour), 0.25)


def outlined(colour: str) -> dict[str, Any]:
    """Return keywords of a bar or patch: a quarter-strength fill, a full outline."""
    return {"facecolor": fade_colour(colour), "edgecolor": colour, "linewidth": 1.4}


def hollow(colour: str) -> dict[str, Any]:
    """Return keywords that draw a bar or marker measured elsewhere as an outline."""
    return {"facecolor": "none", "edgecolor": colour, "linewidth": 1.2}


def reference_line(colour: str = INK, width: float = 1) -> dict[str, Any]:
    """Return keywords for a line to compare with: a bound, a prediction, the truth."""
    return {"color": colour, "linestyle": "--", "linewidth": width}


def pale_patch() -> dict[str, Any]:
    """Return keywords for a background patch, which shows no data."""
    return {"facecolor": "none", "edgecolor": INK, "linewidth": 0.8, "alpha": 0.5}


# Of a text beside a mark, at an offset in SVG points.
BESIDE: dict[str, Any] = {
    **{"textcoords": "offset points", "va": "center", "ha": "left"},
    "annotation_clip": False,
}


def fill_of(colour: str, here: bool) -> str:
    """Return the fill of a mark: full if measured here, hollow if elsewhere."""
    return colour if here else "none"


def bar_look(colour: str, here: bool) -> dict[str, Any]:
    """Return keywords of a bar: filled if measured here, an outline if elsewhere."""
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
    """Draw a mark; band: the ends of its band on the x axis, if it has one."""
    x, y = at
    if band:
        # Flat ends: round ones would fill the hollow mark of a narrow band.
        wide = {"lw": 5, "alpha": 0.4, "solid_capstyle": "butt"}
        axes.plot(band, [y, y], color=colour, **wide)
    fill = fill_of(colour, here)
    axes.plot(x, y, mark, ms=size, mfc=fill, mec=colour, mew=1.4, zorder=3)


def draw_stack(
    axes: Axes,
    place: float,
    parts: Iterable[tuple[float, Mapping[str, Any]]],
    text: str,
) -> None:
    """Draw a horizontal bar of parts, each with its width and look, and a text."""
    start = 0.0
    for width, look in parts:
        axes.barh(place, width, left=start, height=0.6, **look)
        start += width
    label_beside(axes, text, (start, place))


def label_beside(
    axes: Axes, text: str, at: tuple[float, float], right: float = 6, **look: Any
) -> None:
    """Write a text, offset to the right of a point by `right` SVG points."""
    axes.annotate(text, at, (right, 0), **BESIDE | look)


def name_lines(
    axes: Axes, names: Sequence[str], top: float = -0.6, below: float = 0.4
) -> None:
    """Name horizontal lines at 0, 1, 2, ... from the top down.

    top: the upper end of the axis. below: the room from its lower end to the line that
    would follow the last.
    """
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - below, top)


def hide_lines(axes: Axes) -> None:
    """Hide the ticks and the grid lines of the y axis."""
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y", visible=False)


def write_plain(axis: Any, subs: Sequence[float] = ()) -> None:
    """Write the numbers of a log axis plainly, and none at its minor ticks.

    subs: the digits that get a number; () leaves matplotlib's choice.
    """
    from matplotlib.ticker import LogLocator, NullFormatter

    if subs:
        axis.set_major_locator(LogLocator(subs=subs))
    axis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.set_minor_formatter(NullFormatter())


def spread_heights(wanted: Sequence[float], least: float, floor: float) -> list[float]:
    """Return heights near the wanted ones, from the top, at least `least` apart.

    If some would sink below the floor, all above move up.
    """
    places: list[float] = []
    for height in wanted:
        places.append(min(height, places[-1] - least) if places else height)
    for number in range(len(places) - 1, -1, -1):
        under = places[number + 1] + least if number + 1 < len(places) else floor
        places[number] = max(places[number], under)
    return places


Series = list[tuple[dict[str, Any] | None, list[dict[str, Any]]]]


def list_series(
    rows: Sequence[dict[str, Any]],
    others: Iterable[Mapping[str, Any]],
    wanted: Callable[[dict[str, Any]], Any] = bool,
) -> Series:
    """Return (machine, its wanted rows), for machines that have any.

    This machine's rows are first, with None as the machine. others: results from
    elsewhere, as read_json() returns them.
    """
    every = [(None, rows), *((found["machine"], found["rows"]) for found in others)]
    kept = [(machine, [r for r in those if wanted(r)]) for machine, those in every]
    return [(machine, found) for machine, found in kept if found]


def describe_dates(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return the date of the rows, or the first and the last one."""
    dates = sorted({row["date"] for row in rows})
    return dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}"


def list_machines(others: Iterable[Mapping[str, Any]]) -> str:
    """Return the devices of results from elsewhere, each with its date."""
    machines = (found["machine"] for found in others)
    return "; ".join(f"{one['device']}, {one['date']}" for one in machines)


def describe_hollow(others: Iterable[Mapping[str, Any]], what: str) -> str:
    """Return where the hollow marks of a chart of `weft bench WHAT` are from."""
    told = list_machines(others)
    return f"hollow: {told}" if told else describe_unmeasured(what)


def describe_unmeasured(what: str) -> str:
    """Return the text that replaces missing results of `weft bench WHAT`."""
    return f"nothing measured yet: python -m weft bench {what} --device cuda"


def draw_unmeasured(axes: Axes, what: str) -> None:
    """Write describe_unmeasured() in the middle of an otherwise empty picture."""
    place = {"ha": "center", "transform": axes.transAxes}
    axes.text(0.5, 0.5, describe_unmeasured(what), color=INK, **place)
    axes.set_axis_off()


def write_svg(figure: Figure) -> str:
    """Return the figure as SVG text; its ink has the colour of the page's text."""
    with style():
        out = io.StringIO()
        # 72 SVG points per inch; no date, so that equal pictures are equal files.
        figure.savefig(out, format="svg", metadata={"Date": None})
    text = re.sub(INK, "currentColor", out.getvalue(), flags=re.IGNORECASE)
    return text.replace("<svg", f"<svg{ALONE}", 1)


def write_inline_svg(figure: Figure) -> str:
    """Return the figure as part of a page; its ink has the colour of the page's text.

    It is no wider than the page; otherwise its right end would be cut off.
    """
    text = write_svg(figure)
    fits = '<svg style="max-width: 100%; height: auto"'
    return text[text.index("<svg") :].replace("<svg" + ALONE, fits, 1)


def save(figure: Figure, path: str | Path) -> None:
    """Write the figure: .svg as write_svg() returns it, any other format unchanged."""
    path = Path(path)
    if path.suffix.lower() != ".svg":
        with style():
            figure.savefig(path, dpi=150)
        return
    beside = path.with_name(path.name + ".part")
    beside.write_text(write_svg(figure), encoding="utf-8")
    os.replace(beside, path)


INCH = 72  # points of an SVG


def new_figure(width: float, height: float) -> Figure:
    """Return a figure of that many SVG points, which no notebook shows twice."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width / INCH, height / INCH), layout="constrained")


def write_caption(figure: Figure, text: str) -> None:
    """Write the text in lines below everything else."""
    columns = int(figure.get_figwidth() * INCH / 5.9)
    figure.supxlabel(
        textwrap.fill(text, columns),
        **{"x": 0.008, "ha": "left", "fontsize": 11, "color": INK},
    )


def mark_powers(axes: Axes, high: float) -> None:
    """Set ticks at 10, 30, 100, ... up to `high` as plain numbers."""
    from matplotlib.ticker import NullLocator

    low = axes.get_xlim()[0]
    ticks = [
        digit * 10**power
        for power in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        for digit in (1, 3)
    ]
    axes.set_xticks([t for t in ticks if low <= t <= high])
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.xaxis.set_minor_locator(NullLocator())
