"""One look for every chart: colours (Okabe and Ito), size, caption, axes.

Text stays text, and the ground stays clear: a figure is legible on light and on dark
pages. matplotlib is imported where it is used.
"""

from __future__ import annotations

import contextlib
import io
import math
import os
import re
import textwrap
from collections.abc import Iterator
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
INK = "#767676"  # grey enough for light and for dark where the page has no say
ALONE = f' color="{INK}"'  # of an SVG file, which does not know its page's colour
WIDTH = 920  # pixels of an SVG at most
# In an element's own style: the sheets of an exported page have other ideas of code.
MONO = "ui-monospace, Menlo, Consolas, monospace"
REFERENCE = 'stroke-dasharray="4 3"'  # of SVG
PALE = 'stroke="currentColor" stroke-opacity=".45"'
PRE = f"background:none;color:inherit;font-family:{MONO}"  # of code on a page
CODE = {  # by Pygments' short names of kinds of tokens
    **{"c": "#6e7781", "s": "#1e8763", "m": "#2b7acb", "k": "#8b5ce1"},
    **{"nb": "#b7610d", "bp": "#b7610d", "kr": "#b7610d", "cp": "#b7610d"},
    **{"gd": FAULT, "gi": "#1e8763", "gu": "#8b5ce1"},  # of a difference
}

RULES = {
    "svg.fonttype": "none",
    "svg.hashsalt": "weft",  # equal pictures are equal files
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
    """Draw in the lab's style inside; outside, matplotlib is as it was."""
    import matplotlib as mpl  # colours alone do not need it

    with mpl.rc_context(RULES):
        yield


def fade_colour(colour: str) -> tuple[float, float, float, float]:
    """The colour at a quarter of its strength: how a mark is filled."""
    from matplotlib.colors import to_rgb

    return (*to_rgb(colour), 0.25)


def outlined(colour: str) -> dict[str, Any]:
    """Keywords of a bar or patch: filled at a quarter, outlined in full."""
    return {"facecolor": fade_colour(colour), "edgecolor": colour, "linewidth": 1.4}


def hollow(colour: str) -> dict[str, Any]:
    """Return keywords that draw a bar or marker measured elsewhere as an outline."""
    return {"facecolor": "none", "edgecolor": colour, "linewidth": 1.2}


def reference_line(colour: str = INK, width: float = 1) -> dict[str, Any]:
    """Return keywords for a line to compare with: a bound, a prediction, the truth."""
    return {"color": colour, "linestyle": "--", "linewidth": width}


def pale_patch() -> dict[str, Any]:
    """Return keywords for a patch that takes no part in what the figure shows."""
    return {"facecolor": "none", "edgecolor": INK, "linewidth": 0.8, "alpha": 0.5}


def describe_unmeasured(what: str) -> str:
    """What is said where there are no results of `weft bench WHAT`, and its cure."""
    return f"nothing measured yet: python -m weft bench {what} --device cuda"


def draw_unmeasured(axes: Axes, what: str) -> None:
    """describe_unmeasured() in the middle of an otherwise empty picture."""
    place = {"ha": "center", "transform": axes.transAxes}
    axes.text(0.5, 0.5, describe_unmeasured(what), color=INK, **place)
    axes.set_axis_off()


def write_svg(figure: Figure) -> str:
    """The figure as SVG text, its ink in the colour of the page's own text."""
    with style():
        out = io.StringIO()
        # 72 SVG points an inch; no date, so that equal pictures are equal files.
        figure.savefig(out, format="svg", metadata={"Date": None})
    text = re.sub(INK, "currentColor", out.getvalue(), flags=re.IGNORECASE)
    return text.replace("<svg", f"<svg{ALONE}", 1)


def write_inline_svg(figure: Figure) -> str:
    """The figure as part of a page: its ink takes the colour of the page's text.

    No wider than the page has room, or what stands at its right end would be cut off.
    """
    text = write_svg(figure)
    fits = '<svg style="max-width: 100%; height: auto"'
    return text[text.index("<svg") :].replace("<svg" + ALONE, fits, 1)


def save(figure: Figure, path: str | Path) -> None:
    """Write the figure: .svg as write_svg() has it, any other format as it is."""
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
    """A figure of that many SVG points, which no notebook shows twice."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width / INCH, height / INCH), layout="constrained")


def write_caption(figure: Figure, text: str) -> None:
    """The text in lines below everything."""
    columns = int(figure.get_figwidth() * INCH / 5.9)
    figure.supxlabel(
        textwrap.fill(text, columns),
        **{"x": 0.008, "ha": "left", "fontsize": 11, "color": INK},
    )


def mark_powers(axes: Axes, high: float) -> None:
    """Ticks at 10, 30, 100, ... up to `high` as plain numbers."""
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
