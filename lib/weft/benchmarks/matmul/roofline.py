"""Draw the roofline of the matmul ladder: TFLOP/s against flops per byte.

    plot_roofline(rows)

Bytes are those that must move: a and b read once and c written once. All rungs of a
size therefore have the same x, and further traffic appears as distance from the roof.
The right half spreads that column out: the rungs are side by side, each with a letter
that the list below explains. The roofs are "peak" rows among `rows` or in the cache.
"""

from __future__ import annotations

import itertools
import math
import string
from collections.abc import Iterable, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, NullLocator

from ...base import style as kit
from ...base.style import BESIDE, INK, OPPONENT
from ...timing.peaks import ceilings
from ...timing.results import guard_figure
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

# Width in SVG points; on a phone, the text of such a figure is 9 pixels high.
WIDE = 430
LEFT, RIGHT = 3.0, 3e3  # flops per byte at the ends of the left half
COLUMNS, LINE = 3, 15  # columns of the list, and the height of its lines
MANY = 24  # one row has no room for more letters
# The width of a letter, as a share of the right half; the height of a line of text, as
# a factor on the log axis.
LETTER, TALL = 0.026, 1.7


@guard_figure
def plot_roofline(
    rows: Sequence[Row],
    committed: Iterable[ResultFile] | None = None,
    size: str | None = None,
    precisions: Sequence[str] = (),
    rungs: Sequence[str] = (),
) -> Figure:
    """Draw dots with their bands on log axes, below the roofs of the machine.

    Without rows, the machine is that of the first committed results. size: None selects
    the size with the most rungs. precisions, rungs: () draws all; the reader's own rung
    is always included.
    """
    files = committed_results() if committed is None else list(committed)
    series = series_of(rows, files)[:1]
    with kit.style():
        if not series:
            figure = kit.new_figure(WIDE, 300)
            kit.draw_unmeasured(figure.subplots(), "matmul")
            return figure
        ((machine, part),) = series
        roofs = ceilings(rows if machine is None else _find_rows(files, machine))
        shape = size_of(size) if size else find_fullest_size(series)
        kinds = [p for p in PLOTTED if p in (precisions or PLOTTED)]
        part = [r for r in part if _is_wanted(r, rungs)]
        ours = [row for row in part if row["race"] in kinds]
        marked = _select_rungs(select_size(ours, shape), kinds)
        kinds = [k for k in kinds if k in {row["precision"] for row in marked}]
        peers = {k: find_opponent(select_size(part, shape), k) for k in kinds}
        entries = _list_entries(marked, peers, roofs)
        lines = math.ceil(len(entries) / COLUMNS)
        figure = kit.new_figure(WIDE, 330 + LINE * lines)
        grid = figure.add_gridspec(
            2, 2, width_ratios=(2, 5), height_ratios=(230, LINE * lines)
        )
        left = figure.add_subplot(grid[0, 0])
        right = figure.add_subplot(grid[0, 1], sharey=left)
        _scale_axes(left, marked, [roofs[k] for k in kinds if k in roofs])
        _draw_slope(left, roofs, kinds)
        # With several roofs, a small mark's roof would be unclear.
        is_alone = len(kinds) == 1
        has_small = is_alone and _draw_small(left, ours, shape)
        _draw_column(left, marked)
        _draw_rungs(right, marked, machine is None)
        right.set_xlabel(size_text(shape))
        _draw_levels(right, marked, roofs, peers)
        _write_list(figure.add_subplot(grid[1, :]), entries)
        left.set_xlabel("flops per byte")
        notes = ["bytes: a, b and c once"]
        notes += ["dots on the left: our best of other sizes"] * has_small
        notes += [] if "gbs" in roofs else ["no roofs: weft bench matmul --set peaks"]
        write_caption(figure, series, *notes)
        return figure


def count_intensity(row: Row) -> float:
    """Return flops per byte that must move."""
    return 2.0 * row["m"] * row["k"] * row["n"] / row["bytes"]


def _find_rows(files: Sequence[ResultFile], machine: dict) -> list[Row]:
    return next(results["rows"] for results in files if results["machine"] is machine)


def _is_wanted(row: Row, rungs: Sequence[str]) -> bool:
    always = row["impl"] == "mine" or row["impl"] not in OURSELVES
    return not rungs or always or row["rung"] in rungs


def _select_rungs(candidates: Sequence[Row], kinds: Sequence[str]) -> list[Row]:
    """Return our rungs by precision, each in its fastest layout."""
    fastest: dict[tuple, Row] = {}
    for row in candidates:
        if row["impl"] in OURSELVES:
            key = tuple(row[name] for name in KEY)
            fastest[key] = min(row, fastest.get(key, row), key=lambda row: row["us"])

    def rank(row: Row) -> tuple[int, int]:
        return kinds.index(row["precision"]), OURSELVES.index(row["impl"])

    return sorted(fastest.values(), key=rank)


# ---- the left half ---------------------------------------------------------------


def _scale_axes(axes: Axes, marked: Sequence[Row], roofs: Sequence[float]) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(LEFT, RIGHT)
    speeds = [*(row["tflops"] for row in marked), *roofs]
    axes.set_ylim(0.6 * min(speeds, default=0.1), 2 * max(speeds, default=1.0))
    unit, scale = _find_unit(marked)
    axes.yaxis.set_major_formatter(lambda value, _: f"{scale * value:g}")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_formatter(NullFormatter())
        axis.set_minor_locator(NullLocator())
    axes.set_xticks([10, 100, 1000])
    axes.set_ylabel(f"{unit}FLOP/s (up is better)")


def _draw_slope(axes: Axes, roofs: dict[str, float], kinds: Sequence[str]) -> None:
    """Draw the memory's slope, and a ceiling for each precision's units."""
    if "gbs" not in roofs:
        return
    slope = roofs["gbs"] / 1e3  # TFLOP/s at one flop per byte
    peaks = {roofs[kind] for kind in kinds if kind in roofs}
    for peak in peaks:
        axes.plot([peak / slope, RIGHT], [peak] * 2, **kit.reference_line(width=1.4))
    top = max(peaks, default=1.0)
    ends = [0.1, top / slope], [0.1 * slope, top]
    axes.plot(*ends, **kit.reference_line(width=1.6), zorder=1)


def _format(tera: float) -> str:
    """Write a number: "4.2 T" or "185 G"."""
    return f"{tera:.3g} T" if tera >= 1 else f"{1e3 * tera:.3g} G"


def _draw_small(axes: Axes, rows: Sequence[Row], shape: tuple) -> bool:
    """Draw our best rung of each other size; return whether there is any."""
    sizes = dict.fromkeys((r["m"], r["k"], r["n"]) for r in rows)
    found = [fastest_row(select_size(rows, size)) for size in sizes if size != shape]
    for row in filter(None, found):
        look = {"ms": 4, "color": colour_of(row)}
        axes.plot(count_intensity(row), row["tflops"], ".", **look)
    return any(found)


def _draw_column(axes: Axes, marked: Sequence[Row]) -> None:
    """Draw a short line at the height of each rung."""
    for row in marked:
        look = {"color": colour_of(row), "ms": 9, "mew": 1.4}
        axes.plot(count_intensity(row), row["tflops"], "_", **look)


# ---- the right half --------------------------------------------------------------


def _draw_rungs(axes: Axes, marked: Sequence[Row], here: bool) -> None:
    """Draw the rungs side by side, with the letters below them."""
    places, letters = _place_rungs(marked), _list_letters(marked)
    for place, row in zip(places, marked):
        y, colour = row["tflops"], colour_of(row)
        ends = [y * row["us"] / row[end] for end in ("us_high", "us_low")]
        look = {"lw": 2, "solid_capstyle": "butt"}
        axes.plot([place, place], ends, color=colour, **look)
        kit.draw_dot(axes, (place, y), colour, here, mark=MARKS[row["impl"]], size=7)
    axes.set_xlim(-0.9, places[-1] + 0.9 if places else 1)
    down = ["\n" * (len(letters) > MANY and n % 2) for n in range(len(letters))]
    axes.set_xticks(places, [a + b for a, b in zip(down, letters)])
    axes.tick_params(axis="x", length=0)
    axes.tick_params(axis="y", labelleft=False, length=0)
    axes.spines["left"].set_visible(False)


def _place_rungs(marked: Sequence[Row]) -> list[float]:
    """Return the x of each rung, with a gap between two precisions."""
    kinds = [row["precision"] for row in marked]
    gaps = [a != b for a, b in itertools.pairwise(kinds)]
    return [number + 0.8 * sum(gaps[:number]) for number in range(len(marked))]


def _list_letters(marked: Sequence[Row]) -> list[str]:
    letters = string.ascii_uppercase + string.ascii_lowercase
    return [letters[number % len(letters)] for number in range(len(marked))]


def _draw_levels(
    axes: Axes,
    marked: Sequence[Row],
    roofs: dict[str, float],
    peers: dict[str, Row | None],
) -> None:
    """Draw the roof and the opponent's speed across the rungs of each precision."""
    widest: list[tuple[float, Row]] = []  # each precision's rung with the widest line
    opponent = None
    spans: dict[str, list[float]] = {}  # both ends of each precision's roof
    for kind, peer in peers.items():
        pairs = zip(_place_rungs(marked), marked)
        group = [pair for pair in pairs if pair[1]["precision"] == kind]
        ends = [group[0][0] - 0.6, group[-1][0] + 0.6]
        if kind in roofs:
            axes.plot(ends, [roofs[kind]] * 2, **kit.reference_line(width=1.4))
            spans[kind] = ends
        if peer is None:
            continue
        axes.plot(ends, [peer["tflops"]] * 2, color=OPPONENT, lw=1.8, zorder=2)
        if len(group) > len(widest):
            widest, opponent = group, peer
    _name_roofs(axes, spans, roofs, marked)
    if opponent:
        _name_opponent(axes, opponent, widest)


def _name_roofs(
    axes: Axes,
    spans: dict[str, list[float]],
    roofs: dict[str, float],
    marked: Sequence[Row],
) -> None:
    """Write the height of each roof; equally high neighbours share one text."""
    unit = _find_unit(marked)[1]
    for height, group in itertools.groupby(spans, lambda k: f"{unit * roofs[k]:.3g}"):
        kinds = list(group)
        ends = spans[kinds[0]][0], spans[kinds[-1]][1]
        text = f"{', '.join(kinds)}: {height}"
        _name_roof(axes, text, ends, roofs[kinds[-1]], marked)


def _name_roof(
    axes: Axes, text: str, ends: Sequence[float], speed: float, marked: Sequence[Row]
) -> None:
    """Write a text above a roof, beginning at its left end or ending at its right end.

    A text is wider than the roof of a few rungs. It goes to the side with fewer marks.
    """
    places = _place_rungs(marked)
    wide = LETTER * len(text) * (places[-1] + 1.8)

    def count_marks(left: float) -> int:
        near = [row["tflops"] for x, row in zip(places, marked) if 0 < x - left < wide]
        return sum(0.8 < tflops / speed < TALL for tflops in near)

    left, right = ends
    side = "right" if count_marks(right - wide) < count_marks(left) else "left"
    look = {"ha": side, "va": "bottom", "xytext": (0, 2)}
    axes.annotate(text, (right if side == "right" else left, speed), **BESIDE | look)


def _name_opponent(axes: Axes, peer: Row, group: Sequence[tuple[float, Row]]) -> None:
    """Write a name below or above its line, at the end that is farther from marks."""
    speed = peer["tflops"]
    first, last = (math.log(row["tflops"] / speed) for _, row in (group[0], group[-1]))
    at_left = abs(first) >= abs(last)
    is_above = -0.7 < (first if at_left else last) <= 0
    x = group[0][0] - 0.6 if at_left else group[-1][0] + 0.6
    look = {"va": "bottom" if is_above else "top", "ha": "left" if at_left else "right"}
    look |= {"color": OPPONENT, "xytext": (0, 2 if is_above else -2)}
    axes.annotate(name_of(peer).split()[0], (x, speed), **BESIDE | look)


def _list_entries(
    marked: Sequence[Row], peers: dict[str, Row | None], roofs: dict[str, float]
) -> list[tuple[str, str]]:
    """Return (text, colour) for each rung, each opponent and the slope."""
    named = [*zip(_list_letters(marked), marked)]
    named += [("–", p) for k, p in peers.items() if p and k != "3xtf32"]
    scale = _find_unit(marked)[1]
    entries = []
    for mark, row in named:
        name = name_of(row).replace("matmul_", "")
        colour = INK if row["impl"] in OURSELVES else OPPONENT
        entries.append((f"{mark} {name} {scale * row['tflops']:.3g}", colour))
    if "gbs" in roofs:
        entries.append((f"/ copy {_format(roofs['gbs'] / 1e3)}B/s", INK))
    return entries


def _find_unit(marked: Sequence[Row]) -> tuple[str, int]:
    """Return the unit's prefix, and the factor to it from TFLOP/s.

    A processor's speeds are in GFLOP/s.
    """
    is_fast = any(row["tflops"] > 0.5 for row in marked)
    return ("T", 1) if is_fast or not marked else ("G", 1000)


def _write_list(axes: Axes, entries: Sequence[tuple[str, str]]) -> None:
    """Write each mark's letter, name and speed in its colour, column by column."""
    axes.set_axis_off()
    lines = math.ceil(len(entries) / COLUMNS)
    look = {"xycoords": ("figure points", "axes fraction"), "va": "center"}
    look |= {"annotation_clip": False, "in_layout": False}
    for number, (text, colour) in enumerate(entries):
        column, line = divmod(number, lines)
        at = 6 + column * (WIDE - 6) / COLUMNS, 1 - (line + 0.5) / lines
        axes.annotate(text, at, color=colour, **look)
