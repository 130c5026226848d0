"""Draw the rows of `weft bench mnist` against the batch size, and select rows to draw.

plot_batches(rows)    µs per image, ours and PyTorch's, and their ratios

`committed`, results from JSON (bench.read_json), is drawn as hollow marks. Without a
GPU, all marks are hollow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from ...base import style as kit
from ...base.style import BESIDE, INK, OPPONENT, OURS
from ...mnist.rungs import parse_twin
from ...timing import STATISTIC
from ...timing.results import ResultFile, guard_figure
from .race import Row

PRECISIONS = ("fp32", "tf32", "bf16", "fp16")


def series_of(
    rows: Sequence[Row], committed: Iterable[ResultFile], wanted: Callable[[Row], bool]
) -> kit.Series:
    """Return (machine, step rows that `wanted` accepts); this machine first, as None.

    Only a GPU's rows are used: times of the simulated CPU target are meaningless.
    """

    def is_wanted(row: Row) -> bool:
        step = row.get("measure") == "step" and row["target"] == "cuda"
        return step and wanted(row)

    return kit.list_series(rows, committed, is_wanted)


def rows_of(committed: Iterable[ResultFile]) -> list[Row]:
    return [row for results in committed for row in results["rows"]]


def roofs_of(rows: Iterable[Row]) -> dict[str, Row]:
    return {row["precision"]: row for row in rows if row.get("measure") == "roof"}


def is_ours(row: Row) -> bool:
    return row["impl"] != "torch"


def row_of(rows: Iterable[Row], precision: str, rung: str) -> Row | None:
    """Return our row of the given rung and precision, or None."""
    ours = (row for row in rows if is_ours(row))
    wanted = precision, rung
    return next((r for r in ours if (r["precision"], r["rung"]) == wanted), None)


def best_of(rows: Iterable[Row], precision: str) -> Row | None:
    """Return PyTorch's fastest row in the given precision, or None."""
    peers = [r for r in rows if r["impl"] == "torch" and r["precision"] == precision]
    return min(peers, key=lambda row: row["us"], default=None)


def fastest_of(rows: Iterable[Row], precision: str, batch: int) -> Row | None:
    """Return our fastest row among those whose sections were timed."""
    wanted = "weft", precision, batch
    ours = [r for r in rows if (r["impl"], r["precision"], r["batch"]) == wanted]
    timed = [row for row in ours if row.get("layers_us")]
    return min(timed, key=lambda row: row["us"], default=None)


def per_batch(rows: Sequence[Row]) -> list[Row]:
    """Return the fastest row for each batch size, in ascending order."""
    slowest_first = reversed(sorted(rows, key=lambda row: row["us"]))
    fastest = {row["batch"]: row for row in slowest_first}
    return [fastest[batch] for batch in sorted(fastest)]


def time_text(us: float) -> str:
    if us >= 1000:
        return f"{us / 1e3:.3g} ms"
    return f"{us:#.3g} µs" if us < 100 else f"{us:.0f} µs"


def write_caption(figure: Figure, series: Sequence[tuple], *notes: str) -> None:
    """Write the caption: machines, dates, timer and the meaning of the marks."""
    texts = []
    for machine, rows in series:
        prefix = "" if machine is None else "hollow: "
        torch = f", PyTorch {machine['torch']}" if machine else ""
        texts.append(f"{prefix}{rows[0]['device']}, {kit.describe_dates(rows)}{torch}")
    texts += [f"timer: {series[0][1][0]['timer']}, {STATISTIC}", *notes]
    kit.write_caption(figure, " · ".join(texts))


def mark_missing(figure: Figure, axes: Axes) -> Figure:
    kit.draw_unmeasured(axes, "mnist")
    return figure


KINDS = {  # marks of PyTorch's kinds (TwinRung.family), from slow to fast
    "eager": "v",
    "compile": "^",
    "graph": "<",
    "compile+graph": "D",
}


@guard_figure
def plot_batches(rows: Sequence[Row], committed: Iterable[ResultFile] = ()) -> Figure:
    """Draw µs per image against the batch size: ours, PyTorch's and NVIDIA's.

    The line of each kind shows the fastest of its variants at each batch.
    """
    series = series_of(rows, committed, lambda row: True)
    with kit.style():
        all_rows = [row for _, part in series for row in part]
        available = {row["precision"] for row in all_rows}
        precisions = [name for name in PRECISIONS if name in available]
        figure = kit.new_figure(920, 400)
        if not precisions:
            return mark_missing(figure, figure.subplots())
        panels = figure.subplots(1, len(precisions), sharey=True, squeeze=False)[0]
        for axes, precision in zip(panels, precisions):
            for number, (machine, part) in enumerate(series):
                panel_rows = [row for row in part if row["precision"] == precision]
                _draw_lines(axes, panel_rows, machine is not None, named=number == 0)
            _batch_axis(axes, all_rows, precision)
        panels[0].set_ylabel("µs per image (down is better)")
        panels[0].legend(loc="upper right", handlelength=2.6)
        write_caption(figure, series, "×: PyTorch's fastest time over ours")
        return figure


def _draw_lines(axes: Axes, rows: Sequence[Row], elsewhere: bool, named: bool) -> None:
    ours = per_batch([row for row in rows if row["impl"] == "weft"])
    vendor = per_batch([row for row in rows if row["impl"] == "cudnn"])
    torch = [row for row in rows if row["impl"] == "torch"]
    lines = []
    for kind, mark in KINDS.items():
        peers = [row for row in torch if parse_twin(row["rung"]).family == kind]
        look = {"color": OPPONENT, "lw": 1.3, "marker": mark, "ms": 5}
        lines.append((f"PyTorch {kind}", per_batch(peers), look))
    look = {"color": INK, "lw": 1.3, "marker": "s", "ms": 5}
    lines.append(("cuDNN and cuBLAS", vendor, look))
    look = {"color": OURS, "lw": 2.2, "marker": "o", "ms": 7, "zorder": 3}
    lines.append(("weft", ours, look))
    for name, line, look in lines:
        look |= {"mfc": "none"} if elsewhere else {}
        points = [(row["batch"], row["us"] / row["batch"]) for row in line]
        if points:
            axes.plot(*zip(*points), label=name if named else None, **look)
    for row in ours if named else []:
        if row.get("vs_torch_best"):
            point = row["batch"], row["us"] / row["batch"]
            words = f"{row['vs_torch_best']:.1f}×"
            look = BESIDE | {"ha": "center", "va": "top", "color": OURS}
            axes.annotate(words, point, (0, -8), **look)


def _batch_axis(axes: Axes, rows: Sequence[Row], precision: str) -> None:
    batches = sorted({row["batch"] for row in rows})
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(batches, [f"{batch}" for batch in batches])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.margins(x=0.12, y=0.12)
    kit.write_plain(axes.yaxis, (1, 3))
    axes.set_xlabel(f"batch, {precision}")
