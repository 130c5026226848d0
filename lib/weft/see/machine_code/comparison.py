"""The table of `weft bench counters`: our counters and ncu's, kernel by kernel."""

from __future__ import annotations

from html import escape
from typing import Any

from ... import timing
from ...base.paths import ROOT
from ...base.style import FAULT, WRITTEN
from ...report.html import BOLD, FAINT, make_cell, make_page, make_table
from ...timing import read_json
from .profile import number


class Comparison:
    """The table of a comparison: one line for each kernel, and its differences.

    results: as `bench counters --json` wrote them.
    """

    def __init__(self, results: dict[str, Any]) -> None:
        self.machine, self.rows = results["machine"], results["rows"]

    @classmethod
    def committed(cls) -> Comparison:
        """What lies in notebooks/results; ValueError if there is none."""
        found = sorted((ROOT / "notebooks" / "results").glob("counters_*.json"))
        if not found:
            raise ValueError("notebooks/results has no counters_*.json")
        return cls(read_json(found[-1]))

    def lines(self) -> list[tuple[str, str, str, str, str]]:
        """(kernel, counter, CPU, ncu, verdict) of all that was compared."""
        return [
            (
                *(row["rung"], row["metric"], number(row["cpu"]), number(row["ncu"])),
                row["verdict"] or "not compared",
            )
            for row in self.rows
            if row["agrees"] is not None
        ]

    def sentence(self) -> str:
        """How many agree, where and when."""
        compared = [row for row in self.rows if row["agrees"] is not None]
        same = sum(row["difference"] == 0 for row in compared)
        kernels = len({row["rung"] for row in compared})
        wrong = sum(row["agrees"] is False for row in compared)
        where = f"{self.machine['device']}, {self.machine['date']}"
        return (
            f"{len(compared)} counters of {kernels} kernels, the CPU's and ncu's: "
            f"{same} the same, {wrong} apart without a reason ({where})"
        )

    def __repr__(self) -> str:
        rows = [
            dict(zip(("kernel", "counter", "CPU", "ncu", "verdict"), line))
            for line in self.lines()
        ]
        table = timing.table(rows, list(rows[0])) if rows else "nothing was compared"
        return f"{self.sentence()}\n{table}"

    def _repr_html_(self) -> str:
        sides = ("left", "left", "right", "right", "left")
        heads = zip(("kernel", "counter", "CPU", "ncu", ""), sides)
        rows, before = [[make_cell(name, side, kind="th") for name, side in heads]], ""
        for kernel, *numbers, verdict in self.lines():
            colour = FAULT if verdict.startswith("DIFFERS") else WRITTEN
            plain = verdict == "same" or verdict.startswith("within")
            look = FAINT if plain else f"color:{colour};white-space:normal;"
            name = kernel if kernel != before else ""
            before = kernel
            row = [make_cell(name, "left", BOLD), *map(make_cell, numbers, sides[1:])]
            rows.append([*row, make_cell(verdict, "left", look)])
        scrolled = (
            f'<div style="max-height:480px;overflow:auto">{make_table(rows)}</div>'
        )
        return make_page([escape(self.sentence()), scrolled])
