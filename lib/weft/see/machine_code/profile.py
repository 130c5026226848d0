"""profile(kernel)[grid, block](*args): Nsight Compute's counters next to the CPU's.

The launch runs in this process under the watch build or the simulator, which counts its
work. Then ncu launches the same kernel with the same arguments in another process, and
counts its work there. Comparison is the table of `weft bench counters`, with our
counters and ncu's for each kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from typing import Any

from ... import timing
from ...base.errors import ArgumentError
from ...base.paths import ROOT
from ...base.style import FAULT, WRITTEN, write_colour
from ...cells.module import select_only_kernel
from ...report import html
from ...report.costs import Counters
from ...report.html import BOLD, FAINT, make_cell, make_page, make_table
from ...timing import read_json
from ..watched_runs import inspect
from . import ncu
from .ncu import Metric

HEAD = ("", "CPU", "ncu", "difference")


@dataclass(frozen=True)
class MetricRow:
    """One metric: the CPU's number and ncu's, each None if not available."""

    metric: Metric
    ours: float | None
    theirs: float | None

    @property
    def difference(self) -> float | None:
        return ncu.difference(self.ours, self.theirs)

    @property
    def is_shown(self) -> bool:
        """Whether the row has a number other than zero."""
        return bool(self.ours or self.theirs)

    def cells(self) -> list[str]:
        """Return the name, both numbers and their difference as text."""
        ratio = self.difference
        text = "" if ratio is None else "same" if ratio == 0 else f"{ratio:+.1%}"
        theirs = f"{number(self.theirs)} {self.metric.unit}".strip()
        theirs *= self.theirs is not None
        return [self.metric.name, number(self.ours), theirs, text]


class Profile:
    """The cost of a launch, counted by the CPU and by ncu.

    rows: the metrics. report: the report of the launch on the CPU. why: why ncu's
    counters are missing, with the cure; "" if they are present.
    """

    def __init__(self, name: str, report: Any, theirs: dict, why: str) -> None:
        self.name, self.report, self.why = name, report, why
        ours = report.counters or Counters()
        self.rows = [MetricRow(m, m.ours(ours), m.theirs(theirs)) for m in ncu.ALL]

    def shown(self) -> list[list[str]]:
        """Return the rows that have a number other than zero, as text."""
        return [row.cells() for row in self.rows if row.is_shown]

    def __getitem__(self, name: str) -> MetricRow:
        """Return the row of a metric, by its name in the table."""
        for row in self.rows:
            if row.metric.name == name:
                return row
        names = ", ".join(row.metric.name for row in self.rows if row.is_shown)
        raise KeyError(f"{name!r}: there are {names}")

    def __repr__(self) -> str:
        table = [row[: self._count_columns] for row in (list(HEAD), *self.shown())]
        first, *widths = [max(map(len, column)) for column in zip(*table)]
        lines = [self.name, *[f"without ncu: {self.why}"] * bool(self.why)]
        for name, *cells in table:
            padded = [cell.rjust(width) for cell, width in zip(cells, widths)]
            lines.append("  ".join([name.ljust(first), *padded]).rstrip())
        return "\n".join(lines)

    @property
    def _count_columns(self) -> int:
        return 2 if self.why else 4

    def _repr_html_(self) -> str:
        head = [make_cell(name, kind="th") for name in HEAD[: self._count_columns]]
        body = [self._write_row(row) for row in self.rows if row.is_shown]
        why = [html.write_remark(self.why, "without ncu")] * bool(self.why)
        title = html.write_title(self.name, [])
        return make_page([title, *why, make_table([head, *body])])

    def _write_row(self, row: MetricRow) -> list[str]:
        name, *numbers = row.cells()[: self._count_columns]
        cells = [make_cell(n, look=FAINT * (n == "same")) for n in numbers]
        return [make_cell(name, "left", hint=row.metric.formula), *cells]


def profile(kernel: Any) -> Profiled:
    """Count the work of a launch: profile(kernel)[grid, block](*args) -> Profile.

    kernel: a kernel of load_cuda() or %%cuda, cuda_c(k), or a Python kernel, which ncu
    runs as CUDA C. The launch writes into its arrays once, like any launch. If ncu is
    missing or not permitted, the Profile contains only the CPU's counters and the
    reason. Raises the launch's own exceptions on the CPU.
    """
    if not callable(kernel) and not hasattr(kernel, "__getitem__"):
        raise ArgumentError(f"profile() takes a kernel, not {kernel!r:.60}")
    return Profiled(select_only_kernel(kernel))


class Profiled:
    """A kernel to profile: [grid, block](*args) runs and counts a launch."""

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel

    def __getitem__(self, key: Any) -> Callable[..., Profile]:
        def run(*args: Any) -> Profile:
            shape = key if isinstance(key, tuple) else (key,)
            # Record the arguments before the launch, which may overwrite them.
            name, launch = ncu.record(self.kernel, shape, args)
            report = counted(self.kernel, key, args)
            theirs, why = {}, ""
            try:
                ncu.require()
                names = ncu.ncu_names(ncu.ALL)
                theirs = ncu.measure([launch], [name], names)[0]
            except ncu.NoCounters as error:
                why = str(error)
            return Profile(name, report, theirs, why)

        return run

    def __repr__(self) -> str:
        return "profile(kernel)[grid, block](*args) counts the work of a launch"


def counted(kernel: Any, key: Any, args: tuple[Any, ...]) -> Any:
    """Run the launch on the CPU and return its report.Report with counters."""
    return inspect(kernel, quiet=True)[key](*args)


def number(value: float | None) -> str:
    """Write a whole number in full, and any other with four digits."""
    if value is None:
        return ""
    return f"{value:.0f}" if value == int(value) else f"{value:.4g}"


class Comparison:
    """The table of a comparison: one line for each counter of each kernel.

    results: the contents of a file from `bench counters --json`.
    """

    def __init__(self, results: dict[str, Any]) -> None:
        self.machine, self.rows = results["machine"], results["rows"]

    @classmethod
    def committed(cls) -> Comparison:
        """Load the newest comparison in notebooks/results; ValueError if none."""
        paths = sorted((ROOT / "notebooks" / "results").glob("counters_*.json"))
        if not paths:
            raise ValueError("notebooks/results has no counters_*.json")
        return cls(read_json(paths[-1]))

    def lines(self) -> list[tuple[str, str, str, str, str]]:
        """Return (kernel, counter, CPU, ncu, verdict) for each compared number."""
        compared = [row for row in self.rows if row["agrees"] is not None]
        numbers = [(number(row["cpu"]), number(row["ncu"])) for row in compared]
        return [
            (row["rung"], row["metric"], *pair, row["verdict"] or "not compared")
            for row, pair in zip(compared, numbers)
        ]

    def sentence(self) -> str:
        """Write the number of counters that agree, with the machine and the date."""
        compared = [row for row in self.rows if row["agrees"] is not None]
        same = sum(row["difference"] == 0 for row in compared)
        kernels = len({row["rung"] for row in compared})
        wrong = sum(row["agrees"] is False for row in compared)
        source = f"{self.machine['device']}, {self.machine['date']}"
        return (
            f"{len(compared)} counters of {kernels} kernels, on the CPU and by ncu: "
            f"{same} equal, {wrong} different without a reason ({source})"
        )

    def __repr__(self) -> str:
        columns = ["kernel", "counter", "CPU", "ncu", "verdict"]
        rows = [dict(zip(columns, line)) for line in self.lines()]
        table = timing.table(rows, columns) if rows else "nothing was compared"
        return f"{self.sentence()}\n{table}"

    def _repr_html_(self) -> str:
        sides = ("left", "left", "right", "right", "left")
        heads = zip(("kernel", "counter", "CPU", "ncu", ""), sides)
        rows = [[make_cell(name, side, kind="th") for name, side in heads]]
        previous = ""
        for kernel, *numbers, verdict in self.lines():
            colour = FAULT if verdict.startswith("DIFFERS") else WRITTEN
            plain = verdict == "same" or verdict.startswith("within")
            look = FAINT if plain else f"{write_colour(colour)};white-space:normal;"
            name, previous = kernel * (kernel != previous), kernel
            row = [make_cell(name, "left", BOLD), *map(make_cell, numbers, sides[1:])]
            rows.append([*row, make_cell(verdict, "left", look)])
        look = "max-height:480px;overflow:auto"
        scrolled = f'<div style="{look}">{make_table(rows)}</div>'
        return make_page([escape(self.sentence()), scrolled])
