"""Rows of the race for its pictures: which of them, and what is said of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...base.style import draw_unmeasured, write_caption
from ...timing import STATISTIC
from .row import Row

Found = dict[str, Any]  # as bench.read_json() has it: "machine" and "rows"
PRECISIONS = ("fp32", "tf32", "bf16", "fp16")
BESIDE: dict[str, Any] = {
    **{"textcoords": "offset points", "va": "center", "ha": "left"},
    "annotation_clip": False,
}


def series_of(
    rows: Sequence[Row], committed: Iterable[Found], wanted: Callable[[Row], bool]
) -> list[tuple[dict | None, list[Row]]]:
    """(machine, rows of steps that are `wanted`); this machine's first, it is None.

    Only a GPU's: what the CPU target simulates says nothing.
    """

    def kept(rows: Iterable[Row]) -> list[Row]:
        return [
            row
            for row in rows
            if row.get("measure") == "step" and row["target"] == "cuda" and wanted(row)
        ]

    every = [(None, kept(rows))]
    every += [(found["machine"], kept(found["rows"])) for found in committed]
    return [(machine, found) for machine, found in every if found]


def rows_of(committed: Iterable[Found]) -> list[Row]:
    return [row for found in committed for row in found["rows"]]


def roofs_of(rows: Iterable[Row]) -> dict[str, Row]:
    return {row["precision"]: row for row in rows if row.get("measure") == "roof"}


def is_ours(row: Row) -> bool:
    return row["impl"] != "torch"


def row_of(rows: Iterable[Row], precision: str, rung: str) -> Row | None:
    """Our row of that rung."""
    for row in rows:
        if (row["precision"], row["rung"]) == (precision, rung) and is_ours(row):
            return row
    return None


def best_of(rows: Iterable[Row], precision: str) -> Row | None:
    """PyTorch's fastest of that precision."""
    peers = [r for r in rows if r["impl"] == "torch" and r["precision"] == precision]
    return min(peers, key=lambda row: row["us"], default=None)


def fastest_of(rows: Iterable[Row], precision: str, batch: int) -> Row | None:
    """Ours, of those whose sections were timed."""
    those = [
        row
        for row in rows
        if row["impl"] == "weft" and row["batch"] == batch and row.get("layers_us")
        and row["precision"] == precision
    ]  # fmt: skip
    return min(those, key=lambda row: row["us"], default=None)


def per_batch(rows: Sequence[Row]) -> list[Row]:
    """The fastest row of each batch, by batch."""
    batches = sorted({row["batch"] for row in rows})
    return [
        min((row for row in rows if row["batch"] == batch), key=lambda row: row["us"])
        for batch in batches
    ]


def time_text(us: float) -> str:
    if us >= 1000:
        return f"{us / 1e3:.3g} ms"
    return f"{us:#.3g} µs" if us < 100 else f"{us:.0f} µs"


def tell(figure: Figure, series: Sequence[tuple], *notes: str) -> None:
    """Each machine with its date, the timer and what the marks mean."""
    told = []
    for machine, rows in series:
        dates = sorted({row["date"] for row in rows})
        when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
        there = "" if machine is None else "hollow: "
        torch = f", PyTorch {machine['torch']}" if machine else ""
        told.append(f"{there}{rows[0]['device']}, {when}{torch}")
    timer = series[0][1][0]["timer"]
    write_caption(figure, " · ".join([*told, f"timer: {timer}, {STATISTIC}", *notes]))


def mark_missing(figure: Figure, axes: Axes) -> Figure:
    draw_unmeasured(axes, "mnist")
    return figure
