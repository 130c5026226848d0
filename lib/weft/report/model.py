"""Reports, findings and sources for launches and for whole programs.

Report covers the launches of one kernel, and ProgramReport all kernels of a program.
CellSource maps the files that a compiler names to a notebook's cell and its headers.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..base.errors import Mismatch, running_shell
from ..csource.diagnostics import CELL
from . import html, text
from .costs import Counters, list_remarks
from .places import Index, find_line
from .turns import Turns


class Source(Protocol):
    """A piece of source text: its file, its first line's number, and its lines."""

    file: str
    first: int
    text: str


@dataclass(frozen=True)
class Listing:
    """A piece of source text that a report may show."""

    file: str
    first: int
    text: str


@dataclass(frozen=True)
class Finding:
    """One fault, described at the first place and thread where it occurred.

    kind: one of KINDS. text: one sentence with the numbers. file, line, column: the
    place (lines from 1, columns from 0 in bytes of UTF-8, as in ast; line 0: unknown).
    block, thread: (x, y, z). other: the second thread of a race (the second block, if
    the race is between blocks). other_line: the second thread's line. count: number of
    occurrences. cure: a more specific cure than the kind's usual one, or "". pattern:
    a race's pattern, UPDATE, IN_PLACE, or "". kernel: the faulty kernel's name; "" if
    the report has only one. other_file: the file of other_line, if different. turns:
    the loop turns of a race's two accesses, if known. one_warp: whether all such races
    of the launch are within a warp.
    """

    kind: str
    text: str
    file: str = ""
    line: int = 0
    column: int = 0
    block: Index | None = None
    thread: Index | None = None
    other: Index | None = None
    array: str | None = None
    index: Index | None = None
    count: int = 1
    other_line: int = 0
    cure: str = ""
    pattern: str = ""
    kernel: str = ""
    other_file: str = ""
    turns: Turns | None = None
    one_warp: bool = False

    def json(self) -> dict[str, Any]:
        """Return the finding in the format of `python -m weft inspect --json`."""
        keys = ("kind", "file", "line", "column", "block", "thread", "other")
        keys += ("array", "index", "count", "text")
        return {key: getattr(self, key) for key in keys}


@dataclass
class Report:
    """The faults and cost of a launch, and its trace if one was kept.

    A report of several launches contains their sums and the shape of the last launch.

    seconds: duration of the launch. sources: the texts to show, beginning with the
    kernel's. Lines of other files come from Python's linecache. cell: the number of the
    notebook cell that has already shown the report, if any.
    """

    kernel: str
    grid: Index
    block: Index
    findings: list[Finding] = field(default_factory=list)
    counters: Counters | None = None
    trace: Any = None
    seconds: float = 0.0
    sources: Sequence[Source] = ()
    launches: int = 1
    cell: int | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.counters and self.sources and not self.counters.file:
            self.counters.file = self.sources[0].file

    @property
    def ok(self) -> bool:
        """True if the report has no findings."""
        return not self.findings

    def verify(self) -> Report:
        """Return this report; if it has findings, raise Mismatch with its text."""
        if not self.ok:
            raise Mismatch(self.text())
        return self

    def text(self) -> str:
        """Return the report as text for a terminal."""
        return text.write_text(self)

    def json(self) -> dict[str, Any]:
        """Return the report in the format of `python -m weft inspect --json`."""
        findings = [finding.json() for finding in self.findings]
        return {"findings": findings, "kernels": [self.kernel_json()]}

    def kernel_json(self) -> dict[str, Any]:
        """Return the kernel's name, launch shape and counters."""
        return {
            "name": self.kernel,
            "launches": self.launches,
            "grid": list(self.grid),
            "block": list(self.block),
            "counters": self.counters.json() if self.counters else None,
        }

    def line(self, file: str, number: int) -> str:
        """Return a line of a source, without its newline; "" if it is not known."""
        return find_line(self.sources, file, number)

    def __repr__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        return html.write_html(self)

    def _ipython_display_(self) -> None:
        """Show nothing in the cell that has already shown this report."""
        running = running_shell()
        if running is None or running.execution_count != self.cell:
            raise NotImplementedError  # IPython then requests the HTML


class CellSource:
    """The source of a cell, and the sources of the headers that it includes."""

    def __init__(self, name: str, text: str, headers: Mapping[str, str]) -> None:
        self.cell, self.texts = name, {name: text, **headers}

    def name(self, file: str) -> str:
        if os.path.basename(file) == CELL:
            return self.cell
        names = (name for name in self.texts if name != self.cell)
        matches = [name for name in names if f"/{file}".endswith(f"/{name}")]
        return max(matches, key=len, default="")

    def sources(self, names: Sequence[str]) -> list[Listing]:
        first = [self.cell] if self.cell in names else []
        included = [name for name in names if name in self.texts and name != self.cell]
        return [Listing(name, 1, self.texts[name]) for name in first + included]


LISTINGS = ("all", "hot", "none")


@dataclass
class ProgramReport:
    """The faults and cost of a program's kernels, each summed over its launches.

    findings: findings of all kernels, in order of occurrence. kernels: one Report per
    kernel, without findings. sources: the program's files with findings or costs.
    listing: the lines to show with their costs: "all", "hot" or "none".
    """

    program: str
    findings: list[Finding] = field(default_factory=list)
    kernels: list[Report] = field(default_factory=list)
    sources: Sequence[Source] = ()
    listing: str = "hot"
    cell: int | None = field(default=None, compare=False, repr=False)

    @property
    def ok(self) -> bool:
        """True if the report has no findings."""
        return not self.findings

    @property
    def counters(self) -> Counters:
        """The counters of all kernels, added up."""
        total = Counters()
        for report in self.kernels:
            if report.counters:
                total.places += report.counters.places
        return total

    def json(self) -> dict[str, Any]:
        """Return the report in the format of `python -m weft inspect --json`."""
        findings = [{**f.json(), "kernel": f.kernel or None} for f in self.findings]
        kernels = [kernel.kernel_json() for kernel in self.kernels]
        return {"findings": findings, "kernels": kernels}

    def line(self, file: str, number: int) -> str:
        """Return a line of a source, without its newline; "" if it is not known."""
        return find_line(self.sources, file, number)

    def text(self) -> str:
        """Return the report as text for a terminal."""
        parts = [f"{self.program}: {text.write_verdict(self)}"]
        parts += text.write_findings(self)
        for kernel in self.kernels:
            parts.append("; ".join([text.write_head(kernel), *write_costs(kernel)]))
        parts += [f"slow: {sentence}" for sentence in list_remarks(self.counters)]
        total, hot = self.counters, self.listing == "hot"
        for source in self.sources if self.listing != "none" else ():
            lines = total.lines_of(source.file)
            listing = text.write_listing(source.text, source.first, lines, hot)
            if lines and listing:
                parts += ["", f"{source.file}:", listing]
        return "\n".join(parts)

    def __repr__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        parts = [html.write_top(self, self.program, [])]
        parts += html.write_findings(self)
        for kernel in self.kernels:
            parts.append(html.write_title(html.write_head(kernel), write_costs(kernel)))
        parts += map(html.write_remark, html.list_remarks(self.counters))
        parts += html.write_listings(self)
        return html.make_page(parts)


def write_costs(report: Report) -> list[str]:
    """Describe the cost of a kernel in a few phrases."""
    return text.write_costs(report.counters) if report.counters else []
