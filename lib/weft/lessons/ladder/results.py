"""How fast the rungs are: measured on this machine, or what came with the lab."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...benchmarks.matmul.goals import BETTER
from ...benchmarks.matmul.plot import ladder_plot
from ...benchmarks.matmul.series import (
    committed_results,
    select_size,
    series_of,
    size_of,
)
from ...see.figures.view import show_figure
from ...timing.peaks import ceilings

Row = dict[str, Any]


class Results:
    """Rows of `bench matmul`; each size is told by one machine alone.

    By this one if it has measured any product of that size, else by the first results
    that came along and have it: a ratio of two cards says nothing. What the machine
    that tells of a size has not measured there is NaN.

    rows: measured here, peaks too; more can be added to .rows. told: results as
    committed_results() has them; None: those.
    """

    def __init__(self, rows: Sequence[Row] = (), told: list[Any] | None = None):
        self.rows = list(rows)
        self.told = committed_results() if told is None else told

    def row(
        self, rung: str, size: int | str = 4096, precision: str = "fp32"
    ) -> Row | None:
        """The fastest row of a rung, or of "cublas", "torch", "numpy", at a size.

        None if the machine that tells of this size has not measured it. a and b lie as
        (m,k) and (k,n), or where the better layout counts (goals.BETTER) as they like.
        """
        those = [
            row
            for row in self._find_rows(size)[1]
            if row["precision"] == precision and rung in (row["rung"], row["impl"])
            if row["layout"] == "nn" or precision in BETTER
        ]
        return min(those, key=lambda row: row["us"], default=None)

    def device(self, size: int | str = 4096) -> str:
        """The device that tells of a size; "" if nobody has measured it."""
        there = self._find_rows(size)[1]
        return there[0]["device"] if there else ""

    def ceilings(self, size: int | str = 4096) -> dict[str, float]:
        """The peaks of that device, as bench.peaks.ceilings() has them.

        "gbs", and TFLOP/s by precision; those that were not measured there lack.
        """
        machine, there = self._find_rows(size)
        told = [found["rows"] for found in self.told if found["machine"] is machine]
        return ceilings([*told, self.rows][0]) if there else {}

    def _find_rows(self, size: int | str) -> tuple[dict | None, list[Row]]:
        """The machine that tells of a size, None for this one, and its rows there."""
        sizes = size_of(str(size))
        for machine, rows in series_of(self.rows, self.told):
            if there := select_size(rows, sizes):
                return machine, there
        return None, []

    def tflops(
        self, rung: str, size: int | str = 4096, precision: str = "fp32"
    ) -> float:
        """Its TFLOP/s; NaN where row() is None."""
        row = self.row(rung, size, precision)
        return row["tflops"] if row else math.nan

    def us(self, rung: str, size: int | str = 4096, precision: str = "fp32") -> float:
        """Its time in microseconds; NaN where row() is None."""
        row = self.row(rung, size, precision)
        return row["us"] if row else math.nan

    def ladder(self, rungs: Sequence[str], size: int | str = 4096) -> None:
        """Draw the ladder with these rungs (and the reader's own) alone."""
        told = [
            {**found, "rows": _select_rungs(found["rows"], rungs)}
            for found in self.told
        ]
        rows = _select_rungs(self.rows, rungs)
        everywhere = [rows, *(found["rows"] for found in told)]
        there = any(select_size(found, size_of(str(size))) for found in everywhere)
        show_figure(ladder_plot(rows, told, str(size) if there else None))

    def source(self) -> str:
        """Where the numbers are from: this machine, or devices and dates."""
        here = list(dict.fromkeys(row["device"] for row in self.rows))
        told = [f"{f['machine']['device']}, {f['machine']['date']}" for f in self.told]
        words = [f"here: {', '.join(here)}"] * bool(here)
        words += [f"came with the lab: {'; '.join(told)}"] * bool(told)
        return "; ".join(words) or "nothing measured yet"


def _select_rungs(rows: Sequence[Row], rungs: Sequence[str]) -> list[Row]:
    """The rows of these rungs, of the reader's own and of the opponents."""
    return [
        row
        for row in rows
        if row["op"] == "matmul"
        and "m" in row
        and (row["rung"] in rungs or row["impl"] in ("mine", "cublas", "torch"))
    ]
