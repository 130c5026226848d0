"""Charts of `weft bench graphs` for this machine's GPU and others.

    with figure(9, 4) as ax:
        plot_chains(ax, rows, load_elsewhere("graphs"))
    show_figure(plot_ratios(BYTES, rows, load_elsewhere("graphs"), "copy = 1"))

Filled marks were measured on this machine; hollow marks are committed results from
notebooks/results/. `rows` come from a GPU or are empty, since a CPU's times are not
meaningful. A chart without any measurement explains how to make one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..base import style as kit
from ..base.style import INK, OPPONENT, READ
from ..timing.results import ResultFile, Row

WIDE = 430  # SVG points: a phone shows the text of such a figure 9 pixels high
THICK = {"color": INK, "lw": 3, "solid_capstyle": "butt"}
WAYS = (  # ways to launch a chain, from slow to fast
    "Python, x.add_(1)",
    "Python, a launch each",
    "C, a launch each",
    "C, dependent launch, early",
    "a graph",
    "a graph, dependent launch, late",
    "a graph, dependent launch, early",
)


def find_value(
    op: str, rung: str, rows: list[Row], others: list[ResultFile], **more
) -> float:
    """Return `us` of the first matching row, or NaN if no row matches.

    Rows of this machine come first, then those of `others`. more: further keys and
    values that the row must have.
    """
    required = {"op": op, "rung": rung} | more
    for row in [*rows, *(row for results in others for row in results["rows"])]:
        if all(row.get(key) == required[key] for key in required):
            return row["us"]
    return float("nan")


def plot_chains(
    ax: Axes, rows: list[Row], others: list[ResultFile], floor: float, count: int = 100
) -> None:
    """Draw µs per kernel of a chain, on a log axis, for each way to launch it.

    floor: time in µs that a kernel's bytes alone would take.
    """
    series = _group_rows(rows, others, "chain", count)
    if not series:
        return kit.draw_unmeasured(ax, "graphs")
    present = {row["rung"] for part, _ in series for row in part}
    ways = [way for way in WAYS if way in present]
    ax.set_xscale("log")
    for number, (part, full) in enumerate(series):
        for row in part:
            y = ways.index(row["rung"]) + 0.3 * number
            band = [row["us_low"], row["us_high"]]
            kit.draw_dot(ax, (row["us"], y), READ, full, band)
            kit.label_beside(ax, f"{row['us']:.2f} µs", (row["us"], y), 10)
    ax.axvline(floor, **kit.reference_line(OPPONENT))
    style = {"rotation": 90, "va": "bottom", "ha": "right"}
    ax.text(floor, len(ways) - 0.6, "its bytes", **style)
    most = max(row["us"] for part, _ in series for row in part)
    kit.name_lines(ax, ways, -0.5)
    label = "µs for each kernel, median (left is better)"
    ax.set(xlim=(floor / 2, 5 * most), xlabel=label)
    kit.write_plain(ax.xaxis)


@dataclass(frozen=True)
class Group:
    """Several ways to do one thing. rungs: each rung's name in the chart.

    reference: the op and the rung whose time is 1 on the axis. least: the theoretical
    minimum times of some rungs, as factors of the reference. If a row contains bytes,
    its factor is instead the ratio of its bytes to the reference's.
    """

    title: str
    op: str
    rungs: Mapping[str, str]
    reference: tuple[str, str]
    count: int | None = None
    least: Mapping[str, float] = field(default_factory=dict)

    def select_rows(self, rows: Iterable[Row]) -> list[Row]:
        """Return the rows of this group and its reference."""
        wanted = {(self.op, rung) for rung in self.rungs} | {self.reference}
        rows = [row for row in rows if (row["op"], row["rung"]) in wanted]
        return [row for row in rows if self.count in (None, row.get("count"))]

    def scale_rows(
        self, rows: Sequence[Row]
    ) -> Iterator[tuple[str, Row, float, float]]:
        """Yield (rung, row, its time and its least time as factors of the reference).

        The least time is NaN where it is not known.
        """
        by_name = {(row["op"], row["rung"]): row for row in self.select_rows(rows)}
        for rung in self.rungs:
            row = by_name.get((self.op, rung))
            if row and (one := by_name.get(self.reference)):
                least = self.least.get(rung, math.nan)
                if row.get("bytes"):
                    least = row["bytes"] / one["bytes"]
                yield rung, row, row["us"] / one["us"], least


def _group_launches(title: str, op: str, rungs: Mapping[str, str], **more) -> Group:
    """Return a group whose reference is its first rung."""
    return Group(title, op, rungs, (op, next(iter(rungs))), **more)


_FUSED = {
    "three kernels": "three kernels",
    "one kernel": "one kernel",
    "copy": "a copy",
}
_AGAIN = {"stored, read twice": "stored once", "worked out twice": "computed twice"}
BYTES = [
    Group(f"{what}, {size} numbers", op, rungs, ("fusion", "copy"), count)
    for what, op, rungs in (
        ("three layers", "fusion", _FUSED),
        ("pixels, read twice", "remat", _AGAIN),
    )
    for size, count in (("67 million", 1 << 26), ("65536", 1 << 16))
]
_EARLY = "a graph, dependent launch, early"
_LATE = "a graph, dependent launch, late"
OVERLAPS = [
    *(
        _group_launches(
            f"{kind} kernels on two streams",
            "fork",
            {f"{kind}, in sequence": "in sequence", f"{kind}, forked": "forked"},
            # Three of four kernels must run one after another.
            least={f"{kind}, forked": 3 / 4},
        )
        for kind in ("short", "long")
    ),
    _group_launches(
        "chain of short kernels",
        "chain",
        {"a graph": "plain", _LATE: "late", _EARLY: "early"},
        count=100,
    ),
    _group_launches(
        "chain that fetches weights",
        "fetch",
        {name: name for name in ("plain", "wait, then fetch", "fetch, then wait")},
    ),
]
HURTS = [
    _group_launches(
        "eight times as many blocks",
        "many",
        {name: name for name in ("plain", "late", "early")},
    ),
    _group_launches(
        "large and small kernels in turn",
        "crowd",
        {
            "plain": "plain",
            "early, room for two blocks": "early, room for two",
            "early, room for one block": "early, room for one",
        },
    ),
]


def plot_ratios(
    groups: Sequence[Group], rows: list[Row], others: list[ResultFile], label: str
) -> Figure:
    """Draw each group's times as bars on one axis, on which its reference is 1.

    A thick mark shows a rung's least time. label: the name of the axis.
    """
    series = kit.list_series(
        rows, others, lambda row: any(group.select_rows([row]) for group in groups)
    )
    lines = sum(len(group.rungs) + 1.3 for group in groups)
    with kit.style():
        pitch = 6 + 12 * max(1, len(series))
        figure = kit.new_figure(WIDE, pitch * lines + 80)
        ax = figure.subplots()
        if not series:
            kit.draw_unmeasured(ax, "graphs")
            return figure
        drawn = [group.scale_rows(part) for _, part in series for group in groups]
        factors = [
            factor for part in drawn for *_, us, least in part for factor in (us, least)
        ]
        high = max(1.0, *(f for f in factors if f > 0))
        top = 0.0
        ticks: dict[float, str] = {}
        for group in groups:
            ax.text(0, top + 0.1, group.title, va="center", weight="bold")
            places = {rung: top + 1 + i for i, rung in enumerate(group.rungs)}
            ticks |= {places[rung]: name for rung, name in group.rungs.items()}
            for number, (machine, part) in enumerate(series):
                height = 0.9 / len(series)
                down = (number + 0.5) * height - 0.45
                for rung, row, ratio, least in group.scale_rows(part):
                    at, look = places[rung] + down, kit.bar_look(READ, machine is None)
                    ax.barh(at, ratio, 0.8 * height, **look)
                    ends = [at - height / 2, at + height / 2]
                    ax.plot([least] * 2, ends, **THICK)
                    text = f"{_describe_time(row['us'])} · {ratio:.2f}"
                    # All texts form one column on the right.
                    kit.label_beside(ax, text, (high, at))
            top += len(places) + 1.3
        ax.axvline(1, **kit.reference_line())
        ax.set_yticks([*ticks], [*ticks.values()])
        ax.set(ylim=(top - 0.6, -0.6), xlim=(0, 1.5 * high))
        steps = [tick / 2 for tick in range(int(2 * high) + 1)]
        ax.set_xticks(steps, [f"{tick:g}" for tick in steps])
        ax.set_xlabel(label, loc="left")
        kit.hide_lines(ax)
        kit.write_caption(figure, f"medians; {make_caption(others)}")
    return figure


def plot_streams(rows: list[Row], others: list[ResultFile], parts: int) -> Figure:
    """Draw the time of copies and kernels against the number of streams.

    parts: the number of parts. A dashed line at (parts + 2) / (3 parts) of one stream's
    time is the best that streams can reach. It assumes that all steps of a part take
    equally long.
    """
    series = _group_rows(rows, others, "overlap", None)
    with kit.style():
        figure = kit.new_figure(WIDE, 270)
        ax = figure.subplots()
        if not series:
            kit.draw_unmeasured(ax, "graphs")
            return figure
        for part, here in series:
            _draw_memory(ax, part, "pageable", OPPONENT, here)
            times = _draw_memory(ax, part, "pinned", READ, here)
            if 1 in times:
                best = times[1] * (parts + 2) / (3 * parts)
                ax.axhline(best, **kit.reference_line())
                under = kit.BESIDE | {"va": "top"}
                ax.annotate("at best, by the model", (1, best), (0, -3), **under)
        ax.set(xlim=(0.7, 5), xlabel="streams", ylabel="ms (down is better)")
        ax.set_xticks([1, 2, 4])
        ax.set_ylim(0, 1.12 * ax.get_ylim()[1])
        kit.write_caption(figure, f"medians; {make_caption(others)}")
    return figure


def _draw_memory(
    ax: Axes, rows: Sequence[Row], memory: str, colour: str, here: bool
) -> dict[int, float]:
    """Draw the times in ms of one kind of memory; return them by number of streams."""
    rows = [row for row in rows if row["rung"].startswith(memory)]
    times = {int(row["rung"].split()[-1]): row["us"] / 1e3 for row in rows}
    mark = "s" if memory == "pageable" else "o"
    look = {"color": colour, "mec": colour, "mfc": kit.fill_of(colour, here)}
    ax.plot([*times], [*times.values()], mark, ls="-", ms=8, **look)
    for streams, ms in times.items():
        text = f"{ms:.3g} {memory}" if streams == max(times) else f"{ms:.3g}"
        above = kit.BESIDE | {"va": "bottom", "color": colour}
        ax.annotate(text, (streams, ms), (0, 8), **above)
    return times


def make_caption(others: Sequence[ResultFile]) -> str:
    """Return the names of the cards measured elsewhere, and the dates."""
    return kit.describe_hollow(others, "graphs")


def _group_rows(
    rows: list[Row], others: list[ResultFile], op: str, count: int | None
) -> list[tuple[list[Row], bool]]:
    """Return (a machine's rows, whether it is this machine); this machine is first."""

    def is_wanted(row: Row) -> bool:
        return row["op"] == op and count in (None, row.get("count"))

    series = kit.list_series(rows, others, is_wanted)
    return [(part, machine is None) for machine, part in series]


def _describe_time(us: float) -> str:
    return f"{us:.2f} µs" if us < 100 else f"{us:,.0f} µs"
