"""What was seen of a launch: faults, and what each line of the source cost.

One form for the Python simulator and for the check build of CUDA C. Counters have the
definitions of Nsight Compute (ncu), whose names stand beside each.

    counters     what a launch cost, by place in the source, by line and by array
    lines        a source with what each of its lines cost
    turns        in which turn of a loop the accesses of a race were
    cures        what usually cures a finding, in Python's words and in CUDA C's
    text, html   a report for a terminal, and for a page
    program      the report of a whole program, which launches several kernels
    shown        a report below the cell, or on stderr
    colours      its text in those of a terminal
    highlight    a program's text as HTML, in colour
    raw          the watch build's JSON, as reports on the reader's lines
    symbols      from an offset in a library to a line of the source
    carets, cells, loops, shifts  where on a line an access is; cells' names; loops
"""

from __future__ import annotations

import linecache
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..base.errors import Mismatch
from ..base.ipython import shell
from .counters import Counters, Line, Place, Sums
from .turns import Turns

__all__ = ["Counters", "Finding", "Line", "Listing", "Place", "Report", "Sums"]

Index = tuple[int, ...]
UPDATE = "update"  # of a race: each thread reads one element, and writes it again
IN_PLACE = "in place"  # ... one statement reads what another thread's one overwrites

KINDS = {
    "bounds": "an access outside of an array",
    "race": "a read and a write of one element with nothing that orders them",
    "unwaited": "an access to memory that a copy, not waited for, brings or takes",
    "conflict": "different values written to one element by several threads",
    "uninitialised": "a read of an element that nobody has written",
    "barrier": "a barrier that some threads of a block reach and others do not",
    "absent-lane": "a lane that a warp's call names or reads and that takes no part",
    "deadlock": "threads that wait for one another for ever",
    "hang": "a launch that does not end",
    "misaligned": "an access whose address is no multiple of its size",
    "use-after-free": "an access to memory that was given back",
    "host-pointer": "an access to the host's memory from a kernel",
    "stack": "more local memory than a thread has",
    "undefined": "a shift or a conversion with a result on a GPU, and none in C++",
    "exception": "an error that a thread raised",
}


class Source(Protocol):
    """A piece of source text: its file, the number of its first line, its lines."""

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
    """One fault, told at the first place and thread where it was seen.

    kind: one of KINDS. text: one sentence with the numbers. file, line, column: where
    (lines from 1, columns from 0 in bytes of UTF-8, as in ast; line 0: unknown).
    block, thread: (x, y, z). other: the second thread of a race (the second block, if
    the race is between blocks), other_line: where it is. count: how often the same was
    seen. cure: what usually cures it, where more is known than its kind; or "".
    pattern: what both sides of a race make together: UPDATE, IN_PLACE, or "".
    kernel: in which it was; "" if that is clear. other_file: of other_line, if it is
    not the same. turns: of a race, in which turns of a loop its sides are, if known.
    one_warp: whether all such races of the launch are within a warp.
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
        """The finding as `python -m weft inspect --json` writes it."""
        keys = ("kind", "file", "line", "column", "block", "thread", "other")
        keys += ("array", "index", "count", "text")
        return {key: getattr(self, key) for key in keys}


@dataclass
class Report:
    """What one launch did: faults, cost, and the trace where one was kept.

    Or several launches of a kernel: their sum, and the shape of the last.

    seconds: of the launch. sources: the texts to show, the kernel's own first. What
    is shown of a file that is not among them comes from Python's linecache. cell: the
    number of the notebook's cell below which it stands already, if any.
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
        """Whether nothing was found wrong."""
        return not self.findings

    def verify(self) -> Report:
        """This report; Mismatch, with the findings as text, if there are any."""
        if not self.ok:
            raise Mismatch(self.text())
        return self

    def text(self) -> str:
        """The report for a terminal."""
        from .text import text

        return text(self)

    def json(self) -> dict[str, Any]:
        """The report as `python -m weft inspect --json` writes it."""
        return {
            "findings": [one.json() for one in self.findings],
            "kernels": [self.kernel_json()],
        }

    def kernel_json(self) -> dict[str, Any]:
        """What it says of its kernel."""
        return {
            "name": self.kernel,
            "launches": self.launches,
            "grid": list(self.grid),
            "block": list(self.block),
            "counters": self.counters.json() if self.counters else None,
        }

    def line(self, file: str, number: int) -> str:
        """A line of a source, without its newline; "" if that is not known."""
        return line_of(self.sources, file, number)

    def __repr__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        from .html import html

        return html(self)

    def _ipython_display_(self) -> None:
        """Show nothing as the last value of a cell that has shown it."""
        running = shell()
        if running is None or running.execution_count != self.cell:
            raise NotImplementedError  # IPython asks for the HTML then


def line_of(sources: Sequence[Source], file: str, number: int) -> str:
    """A line of one of these sources, or of a file that is not among them."""
    for source in sources:
        lines = source.text.splitlines()
        if source.file == file and 0 <= number - source.first < len(lines):
            return lines[number - source.first]
    return linecache.getline(file, number).rstrip("\n")


def before(source: str, column: int) -> str:
    """What stands in a line before a column, which counts bytes of UTF-8."""
    return source.encode()[:column].decode(errors="ignore")


def position(number: int, shape: Index) -> Index:
    """The (x, y, z) of a linear number: x runs fastest."""
    x, y = shape[0], shape[1]
    return number % x, number // x % y, number // (x * y)


def named(index: Index, shape: Index) -> str:
    """A thread or block as a person would name it: 4, (1,2) or (0,1,2).

    shape: of its block or grid; sides of 1 at the end are left out.
    """
    sides = max([n for n, side in enumerate(shape, 1) if side > 1], default=1)
    return str(index[0]) if sides == 1 else f"({','.join(map(str, index[:sides]))})"
