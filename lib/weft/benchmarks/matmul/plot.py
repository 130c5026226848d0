"""Draw the matmul ladder, from the rows of `weft bench matmul`.

    ladder_plot(rows)       every rung in percent of cuBLAS (on a CPU: of torch.mm)
    size_plot(rows)         TFLOP/s against size: our best and the opponents

roofline.py draws the roofline. `committed`, results from bench.read_json(), is drawn as
hollow marks with card and date; the default is notebooks/results/. The reader's row
from command.time_mine() is drawn as a diamond.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from ...base import style as kit
from ...base.style import BESIDE, OPPONENT, OURS
from ...timing import STATISTIC
from ...timing.results import guard_figure
from .comparison import (
    OURSELVES,
    PEERS,
    PLOTTED,
    ResultFile,
    Row,
    fastest_row,
    find_fullest_size,
    find_opponent,
    peer_name,
    run_of,
    select_size,
    series_of,
    size_of,
    size_text,
)

# The height of each rung; _key_of() makes the keys.
Places = dict[tuple[str, str, str, str], float]

MARKS = {"weft": "o", "numba": "s", "mine": "D"}
KEY = ("precision", "impl", "rung", "target")


@guard_figure
def ladder_plot(
    rows: Sequence[Row],
    committed: Iterable[ResultFile] | None = None,
    size: str | None = None,
) -> Figure:
    """Draw each rung's speed in percent of the opponent's, by group, on a log axis.

    size: "4096" or "5120x256x5120"; None: the size with the most rungs. The opponent is
    cuBLAS in the same precision (in fp32 for 3xtf32) or, on a CPU, torch.mm.
    """
    series = series_of(rows, committed)
    shape = size_of(size) if size else find_fullest_size(series)
    series = [(machine, select_size(part, shape)) for machine, part in series]
    series = [(machine, part) for machine, part in series if part]
    ours = [r for _, part in series for r in part if r["impl"] in OURSELVES]
    order = _order_rungs(series)
    with kit.style():
        places = _place_rungs(order)
        high = 20 if len(series) < 2 else 28  # height of a line in SVG points
        figure = kit.new_figure(920, 130 + high * (max(places.values(), default=2) + 1))
        axes = figure.subplots()
        if not order:
            kit.draw_unmeasured(axes, "matmul")
            return figure
        axes.set_xscale("log")
        values = [end for row in ours if _ratio_of(row) for end in _band_of(row)]
        low = min(50.0, *(0.7 * value for value in values))
        high = 1.15 * max(120.0, *values)
        # The limit leaves room for the texts on the right.
        axes.set_xlim(low, high * (high / low) ** 0.34)
        for number, (machine, part) in enumerate(series):
            _draw_dots(axes, part, places, machine is None)
            _write_speeds(axes, part, places, 1.06 * high, number, series)
            _draw_opponent(axes, part, places, number)
        kit.mark_powers(axes, high)
        axes.xaxis.set_minor_locator(NullLocator())
        names = [name_of(dict(zip(KEY, key))) for key in places]
        axes.set_yticks([*places.values()], names)
        axes.set_ylim(max(places.values()) + 0.7, -1.5)
        kit.hide_lines(axes)
        axes.spines["left"].set_visible(False)
        peers = " or ".join(dict.fromkeys(peer_name(part) for _, part in series))
        label = f"% of {peers}'s speed, {size_text(shape)} (right is better)"
        axes.set_xlabel(label, loc="left")
        write_caption(figure, series)
        return figure


@guard_figure
def size_plot(
    rows: Sequence[Row],
    committed: Iterable[ResultFile] | None = None,
    precisions: Sequence[str] = (),
) -> Figure:
    """Draw a panel for each precision: TFLOP/s against the side of cubes, with bands.

    precisions: () draws all in the rows. 3xtf32 is compared with fp32's opponent. Sides
    that are not multiples of 4 have marks without a line. They are slower and so close
    to other sides that a line would zigzag.
    """
    series = series_of(rows, committed)
    series = [
        (m, [r for r in part if r["m"] == r["k"] == r["n"]]) for m, part in series
    ]
    series = [(machine, part) for machine, part in series if part]
    available = {r["race"] for _, part in series for r in part}
    panels = [p for p in precisions or PLOTTED if p in available]
    with kit.style():
        figure = kit.new_figure(920, 380)
        if not panels:
            kit.draw_unmeasured(figure.subplots(), "matmul")
            return figure
        sides = sorted({row["m"] for _, part in series for row in part})
        ticks = [2**p for p in range(6, 16) if sides[0] <= 2**p <= sides[-1]]
        axes_list = figure.subplots(1, len(panels), squeeze=False)[0]
        for axes, kind in zip(axes_list, panels):
            for machine, part in series:
                _draw_lines(axes, part, kind, machine is not None)
            axes.set_xscale("log", base=2)
            axes.set_ylim(0)
            small = {"fontsize": 11, "rotation": 0 if len(panels) < 4 else 45}
            axes.set_xticks(ticks or sides, ticks or sides, **small)
            axes.minorticks_off()
            axes.set_xlabel(f"m = k = n, {kind}")
        axes_list[0].set_ylabel("TFLOP/s (up is better)")
        axes_list[0].legend(loc="best")
        loose = any(map(_is_loose, sides))
        write_caption(figure, series, *["without a line: no multiples of 4"] * loose)
        return figure


# ---- rows ------------------------------------------------------------------------


def write_caption(figure: Figure, series: Sequence[tuple], *notes: str) -> None:
    """Write the caption: each machine with its date and timing method."""
    texts = []
    for machine, rows in series:
        prefix = "" if machine is None else "hollow: "
        words = [f"{prefix}{rows[0]['device']}", kit.describe_dates(rows)]
        threads = {row["threads"] for row in rows if row.get("threads")}
        words += [f"{count} thread{'s' * (count > 1)}" for count in sorted(threads)]
        words += [f"timer: {', '.join(sorted({r['timer'] for r in rows}))}"]
        words += ["/".join(sorted({r["cache"] for r in rows})) + " caches"]
        count = len({run_of(row) for row in rows})
        words += [f"{count} runs"] * (count > 1)
        texts.append(", ".join(words))
    kit.write_caption(figure, " · ".join([*texts, STATISTIC, *notes]))


def colour_of(row: Row) -> str:
    """Return our colour, or the opponent's."""
    return OURS if row["impl"] in OURSELVES else OPPONENT


def _is_loose(side: int) -> bool:
    return side % 4 > 0


def _ratio_of(row: Row) -> float | None:
    return row.get("vs_cublas") or row.get("vs_torch")


def _per_cent(row: Row) -> float:
    return 100 * (_ratio_of(row) or math.nan)


def _band_of(row: Row) -> list[float]:
    """Return the ends of the row's band in percent of the opponent's speed."""
    return [_per_cent(row) * row["us"] / row[end] for end in ("us_high", "us_low")]


# ---- marks -----------------------------------------------------------------------


def _draw_dots(axes: Axes, rows: Sequence[Row], places: Places, local: bool) -> None:
    for key, place in places.items():
        row = _find(rows, key)
        if row and _ratio_of(row):
            at, mark = (_per_cent(row), place), MARKS[key[1]]
            kit.draw_dot(axes, at, OURS, local, _band_of(row), mark, 7)


def _write_speeds(
    axes: Axes,
    rows: Sequence[Row],
    places: Places,
    x: float,
    number: int,
    series: Sequence[tuple],
) -> None:
    """Write a machine's speeds in a column, below those of the machines before it."""
    for key, place in places.items():
        if row := _find(rows, key):
            has_row = [_find(part, key) is not None for _, part in series]
            words = [speed_text(row["tflops"])]
            words += [f"{_per_cent(row):.3g} %"] if _ratio_of(row) else []
            up = 6 * (sum(has_row) - 1) - 12 * sum(has_row[:number])
            axes.annotate(" · ".join(words), (x, place), (0, up), **BESIDE)


def _draw_opponent(
    axes: Axes, rows: Sequence[Row], places: Places, number: int
) -> None:
    """Draw a line at 100 % across each precision's rungs, with the opponent's speed."""
    groups: dict[tuple, list[float]] = {}
    for key, place in places.items():
        groups.setdefault(_group_of(key), []).append(place)
    timed_here = {_group_of(key) for key in places if _find(rows, key)}
    for group, heights in groups.items():
        peer = find_opponent(rows, group[0]) if group in timed_here else None
        if peer is None:
            continue
        ends = [heights[0] - 0.9, heights[-1] + 0.45]
        axes.plot([100, 100], ends, color=OPPONENT, lw=1.6, zorder=1)
        name = f"{name_of(peer)}, {speed_text(peer['tflops'])}"
        name += " (hollow)" * (number > 0)
        # Opposite alignments keep the two texts apart.
        alignment = {"ha": "left"} if number else {"ha": "right"}
        look = BESIDE | {"color": OPPONENT} | alignment
        axes.annotate(name, (100, heights[0] - 0.65), (5 if number else -5, 0), **look)


def _order_rungs(series: Sequence[tuple]) -> list[tuple]:
    """Return the rungs' keys by precision; machines with more rungs set the order."""
    machines = [
        dict.fromkeys(_key_of(row) for row in part if row["impl"] in OURSELVES)
        for _, part in series
    ]
    machines.sort(key=len, reverse=True)
    order = dict.fromkeys(key for keys in machines for key in keys)
    ranks = {key: (PLOTTED.index(key[0]), OURSELVES.index(key[1])) for key in order}
    return sorted(order, key=lambda key: (key[3], *ranks[key]))


def _place_rungs(order: Sequence[tuple]) -> Places:
    """Return each rung's height, with a gap for a title before each precision."""
    heights: Places = {}
    place = -1.0
    for number, key in enumerate(order):
        place += 1.0 + (number > 0 and _group_of(order[number - 1]) != _group_of(key))
        heights[key] = place
    return heights


def _group_of(key: tuple) -> tuple[str, bool]:
    """Return a rung's group: its precision, and whether it ran on a CPU."""
    return key[0], key[3] == "cpu"


def _draw_lines(axes: Axes, rows: Sequence[Row], kind: str, elsewhere: bool) -> None:
    part = [row for row in rows if row["race"] == kind]
    marks = {"weft": "o", "mine": "D", "cublas": "^", "torch": "v"}
    for impl, mark in marks.items():
        sides = sorted({row["m"] for row in part if row["impl"] == impl})
        by_side = ([row for row in part if row["m"] == side] for side in sides)
        fastest = [fastest_row(rows_of_side, (impl,)) for rows_of_side in by_side]
        if not fastest:
            continue
        colour = colour_of(fastest[0])
        regular = [row for row in fastest if not _is_loose(row["m"])]
        loose = [row for row in fastest if _is_loose(row["m"])]
        low, high = (
            [row["tflops"] * row["us"] / row[end] for row in regular]
            for end in ("us_high", "us_low")
        )
        on_line = [row["m"] for row in regular]
        axes.fill_between(
            on_line, low, high, **kit.outlined(colour) | {"linewidth": 0.6}
        )
        fill = kit.fill_of(colour, not elsewhere)
        name = {"weft": "our best", "mine": "mine", **PEERS}[impl]
        name += " (hollow)" if elsewhere else ""
        look = {"mfc": fill, "mec": colour, "color": colour, "ms": 5, "lw": 1.3}
        speeds = [row["tflops"] for row in regular]
        axes.plot(on_line, speeds, mark, ls="-", label=name, **look)
        points = [row["m"] for row in loose], [row["tflops"] for row in loose]
        axes.plot(*points, mark, **look | {"ls": "none"})


def speed_text(tflops: float) -> str:
    """Write a speed: 54.1 TFLOP/s, or 185 GFLOP/s."""
    value, unit = (tflops, "T") if tflops >= 1 else (1e3 * tflops, "G")
    return f"{value:.0f} {unit}FLOP/s" if value >= 100 else f"{value:.3g} {unit}FLOP/s"


def _key_of(row: Row) -> tuple[str, str, str, str]:
    return tuple(row[name] for name in KEY)


def _find(rows: Iterable[Row], key: tuple) -> Row | None:
    """Return a rung's fastest row; it has several with other caches or timers."""
    return fastest_row((row for row in rows if _key_of(row) == key), (key[1],))


def name_of(row: Row) -> str:
    """Return the name to write next to a row's mark."""
    if row["impl"] in PEERS:
        return f"{PEERS[row['impl']]} {row['precision']}"
    return f"Numba {row['rung']}" if row["impl"] == "numba" else row["rung"]
