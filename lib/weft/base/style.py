"""Tools for every chart: colours (Okabe and Ito), axes, marks, labels, captions.

Text stays text and the background is transparent, so a figure is legible on light and
dark pages. A mark has a contrast of 3:1 with both. Coloured text has a contrast of
4.5:1, since write_ink() mixes its colour with that of the page's text. A filled mark
shows a measurement from this machine, and a hollow mark one from another machine.
Functions import matplotlib themselves, since it is slow to import.
"""

from __future__ import annotations

import contextlib
import html
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
WRITTEN = "#C58600"  # orange, darker than Okabe and Ito's, which is pale on white
SHARED = "#009E73"  # green
THREAD = "#CC79A7"  # purple
OPPONENT = FAULT = "#D55E00"  # vermilion
INK = "#767676"  # a grey that is legible on light and dark pages
# A file or an image inherits no colour from a page, so it has its own background.
GROUND = (
    "<style>.weft-ground{color:#24292f;background:#fff}@media(prefers-color-scheme:"
    "dark){.weft-ground{color:#d7dce2;background:#16191d}}</style>"
)
WIDTH = 920  # maximum width of an SVG, in pixels
# The font is set in each element's own style, which the style sheets of an exported
# page cannot override.
MONO = "ui-monospace, Menlo, Consolas, monospace"
REFERENCE = 'stroke-dasharray="4 3"'  # SVG attributes of a reference line
DIM = 0.55  # Opacity of a grey mark that keeps a contrast of 3:1 on white and on black.
FAINT = 0.72  # Opacity of secondary text that keeps a contrast of 4.5:1 on both.
INKED = (
    65  # Percentage of a colour in coloured text; the rest is the page's text colour.
)
PALE = f'stroke="currentColor" stroke-opacity="{DIM}"'
# CSS of code on a page
PRE = f"background:none;color:inherit;font-family:{MONO};overflow-x:auto"
CODE = {  # Pygments' short name of each kind of token, with its colour
    **{"c": "#6e7781", "s": "#1e8763", "m": "#2b7acb", "k": "#8b5ce1"},
    **{"nb": "#b7610d", "bp": "#b7610d", "kr": "#b7610d", "cp": "#b7610d"},
    # Deleted, inserted and changed lines of a diff.
    **{"gd": FAULT, "gi": "#1e8763", "gu": "#8b5ce1"},
}


def write_ink(colour: str) -> str:
    """Return the CSS colour of coloured text, dark on light pages, light on dark."""
    return f"color-mix(in srgb, {colour} {INKED}%, currentColor)"


def write_colour(colour: str, name: str = "color") -> str:
    """Return CSS declarations for coloured text; old browsers use only the first."""
    return f"{name}:{colour};{name}:{write_ink(colour)}"


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
    """Return keywords for a patch in the background that shows no data."""
    return {"facecolor": "none", "edgecolor": INK, "linewidth": 0.8, "alpha": DIM}


# Keywords for text next to a mark, at an offset in SVG points.
BESIDE: dict[str, Any] = {
    **{"textcoords": "offset points", "va": "center", "ha": "left"},
    "annotation_clip": False,
}


def fill_of(colour: str, here: bool) -> str:
    """Return the fill of a mark: its colour for a local result, else "none"."""
    return colour if here else "none"


def bar_look(colour: str, here: bool) -> dict[str, Any]:
    """Return keywords for a bar: filled for a local result, else an outline."""
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
        look = {"lw": 2, "solid_capstyle": "butt"}
        axes.plot(band, [y, y], color=colour, **look)
    fill = fill_of(colour, here)
    axes.plot(x, y, mark, ms=size, mfc=fill, mec=colour, mew=1.4, zorder=3)


def draw_stack(
    axes: Axes,
    place: float,
    parts: Iterable[tuple[float, Mapping[str, Any]]],
    text: str,
) -> None:
    """Draw a horizontal bar of (width, look) parts, with text to its right."""
    start = 0.0
    for width, look in parts:
        axes.barh(place, width, left=start, height=0.6, **look)
        start += width
    label_beside(axes, text, (start, place))


def label_beside(
    axes: Axes, text: str, at: tuple[float, float], right: float = 6, **look: Any
) -> None:
    """Write text `right` SVG points to the right of a point."""
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
    """List the devices of results from other machines, each with its dates."""
    machines = (file["machine"] for file in others)
    names = [f"{machine['device']}, {machine['date']}" for machine in machines]
    return "; ".join(dict.fromkeys(names))


def describe_hollow(others: Iterable[Mapping[str, Any]], what: str) -> str:
    """Describe the machines of the hollow marks in a chart of `weft bench WHAT`."""
    machines = list_machines(others)
    return f"hollow: {machines}" if machines else describe_unmeasured(what)


def describe_unmeasured(what: str) -> str:
    """Return the text that replaces missing results of `weft bench WHAT`."""
    return f"nothing measured yet: python -m weft bench {what} --device cuda"


def draw_unmeasured(axes: Axes, what: str) -> None:
    """Write, in an otherwise empty picture, that nothing has been measured yet."""
    write_instead(axes, describe_unmeasured(what))


def write_instead(axes: Axes, text: str) -> None:
    """Write text in the middle of an otherwise empty picture."""
    place = {"ha": "center", "va": "center", "transform": axes.transAxes}
    axes.text(0.5, 0.5, text, color=INK, **place)
    axes.set_axis_off()


def write_svg(figure: Figure) -> str:
    """Return the figure as SVG in the page's text colour, with alternative text."""
    with style():
        out = io.StringIO()
        # Without a date, equal pictures become equal files.
        figure.savefig(out, format="svg", metadata={"Date": None})
    text = re.sub(INK, "currentColor", out.getvalue(), flags=re.IGNORECASE)
    text = re.sub(r"<text [^>]*", _ink_text, text)
    account = html.escape(describe_figure(figure))
    return text.replace("<svg", f'<svg role="img" aria-label="{account}"', 1)


def set_ground(text: str) -> str:
    """Return the SVG with a background that is light or dark, as the reader prefers."""
    root, body = text[text.index("<svg") :].split(">", 1)
    return f'{root} class="weft-ground">{GROUND}{body}'


def _ink_text(tag: re.Match[str]) -> str:
    """Mix the colour of coloured text with the page's text colour."""
    return re.sub(r"\bfill: (#\w{6})", lambda m: write_colour(m[1], "fill"), tag[0])


def save(figure: Figure, path: str | Path) -> None:
    """Save the figure. Only an .svg gets the lab's background."""
    path = Path(path)
    if path.suffix.lower() != ".svg":
        with style():
            figure.savefig(path, dpi=150)
        return
    part = path.with_name(path.name + ".part")
    part.write_text(set_ground(write_svg(figure)), encoding="utf-8")
    os.replace(part, path)


INCH = 72  # SVG points per inch


def new_figure(width: float, height: float) -> Figure:
    """Return a figure, sized in SVG points, that no notebook shows automatically."""
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


# ---- a chart in words ---------------------------------------------------------------

MOST = 1500  # maximum number of characters in a chart's alternative text
VALUES = 8  # A series with more values is described by its range.


def describe_figure(figure: Figure) -> str:
    """Return the alternative text of a chart: its axes, series, texts and caption."""
    parts = [part for axes in figure.axes for part in _describe_axes(axes)]
    # The caption is one of these texts.
    parts += [text.get_text() for text in figure.texts]
    lines = (" ".join(part.split()) for part in parts)
    return textwrap.shorten(". ".join(filter(None, lines)), MOST, placeholder=" ...")


def _describe_axes(axes: Axes) -> Iterator[str]:
    """Describe one panel: its title, axes, series, and the texts at its marks."""
    yield axes.get_title() or axes.get_title("left")
    texts = [(text.get_text(), getattr(text, "xy", (0, 0))) for text in axes.texts]
    names: dict[str, list[str]] = {}
    if axes.axison and not axes.images:
        for number, name in enumerate("xy"):
            ticks = _list_names(getattr(axes, f"{name}axis"))
            names[name] = list(ticks.values())
            named = {
                at: [text, *_take(texts, number, at)] for at, text in ticks.items()
            }
            yield _describe_axis(axes, name, map(" ".join, named.values()))
    yield from _describe_bars(axes, names)
    yield from _describe_lines(axes)
    for image in axes.images:
        rows, columns = image.get_array().shape[:2]
        yield f"an image of {rows} by {columns} pixels"
    if axes.axison:
        yield ", ".join(dict.fromkeys(text for text, _ in texts if text))
    else:
        yield "; ".join(_read_rows(axes.texts))


def _read_rows(texts: Iterable[Any]) -> Iterator[str]:
    """Read a drawing's texts row by row; consecutive numbers become "0 to 31"."""
    rows: dict[float, list[str]] = {}
    for text in filter(lambda text: text.get_text(), texts):
        rows.setdefault(float(text.get_position()[1]), []).append(text.get_text())
    for row in rows.values():
        runs: list[list[str]] = []
        for text in row:
            before = runs[-1][-1] if runs else ""
            if before.isdecimal() and text == str(int(before) + 1):
                runs[-1].append(text)
            else:
                runs.append([text])
        yield ", ".join(
            f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(run) for run in runs
        )


def _list_names(axis: Any) -> dict[float, str]:
    """Return an axis's tick labels by position, or {} if they are numbers."""
    texts = [tick.get_text() for tick in axis.get_ticklabels()]
    # Labels in TeX, as on log axes, are numbers.
    named = [t for t in texts if re.search(r"[^\W\d_]{2}", t) and "$" not in t]
    return dict(zip(map(float, axis.get_ticklocs()), texts)) if named else {}


def _take(texts: list, axis: int, place: float) -> list[str]:
    """Remove the texts at one tick from the list; return the removed texts."""
    here = [one for one in texts if one[1] != (0, 0) and one[1][axis] == place]
    texts[:] = [one for one in texts if one not in here]
    return [text for text, _ in here]


def _describe_axis(axes: Axes, name: str, names: Iterable[str]) -> str:
    head = f"{name} axis: {getattr(axes, f'get_{name}label')()}".rstrip(": ")
    if listed := ", ".join(filter(None, names)):
        return f"{head}: {listed}"
    low, high = getattr(axes, f"get_{name}lim")()
    scale = ", logarithmic" * (getattr(axes, f"get_{name}scale")() == "log")
    return f"{head}, {low:.3g} to {high:.3g}{scale}"


def _describe_bars(axes: Axes, names: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Describe each group of bars: its label, and the lengths in order."""
    alone: list[str] = []
    for group in axes.containers:
        lengths = getattr(group, "datavalues", ())
        upright = getattr(group, "orientation", "vertical") == "vertical"
        heads = names.get("x" if upright else "y") or []
        heads = heads if len(heads) == len(lengths) > 1 else [""] * len(lengths)
        text = _list_values([f"{h} {v:.5g}" for h, v in zip(heads, lengths)], lengths)
        if group.get_label().startswith("_") and len(lengths) == 1:
            alone.append(text)
        elif len(lengths):
            yield f"bars {_write_label(group)}{text}"
    yield f"bars: {', '.join(alone)}" if alone else ""


def _describe_lines(axes: Axes) -> Iterator[str]:
    """Describe each labelled or long series, and count the other marks."""
    marks = 0
    for line in axes.lines:
        across, up = line.get_data(orig=False)
        labelled = not str(line.get_label()).startswith("_")
        if not len(up) or not (labelled or len(up) > 3):
            marks += len(up) == 1
            continue
        points = [f"({x:.5g}, {y:.5g})" for x, y in zip(across, up)]
        yield f"series {_write_label(line)}{_list_values(points, up)}"
    yield f"{marks} marks" if marks else ""


def _write_label(artist: Any) -> str:
    label = str(artist.get_label())
    return "" if label.startswith("_") else f"{label}: "


def _list_values(texts: Sequence[str], values: Sequence[float]) -> str:
    """List a few values, or return their number and range."""
    if len(texts) <= VALUES:
        return ", ".join(text.strip() for text in texts)
    return f"{len(texts)} values, {min(values):.5g} to {max(values):.5g}"
