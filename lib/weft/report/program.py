"""The report of a whole program: what went wrong in it, what each kernel cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from . import html, text
from .counters import Counters, list_remarks
from .model import Finding, Report, Source
from .places import find_line

LISTINGS = ("all", "hot", "none")


@dataclass
class ProgramReport:
    """What the kernels of a program did, each summed over its launches.

    findings: of all kernels, in the order in which they were made. kernels: one
    Report each, without findings. sources: the program's files that say something.
    listing: which lines the text shows with their costs: "all", "hot" ones, "none".
    """

    program: str
    findings: list[Finding] = field(default_factory=list)
    kernels: list[Report] = field(default_factory=list)
    sources: Sequence[Source] = ()
    listing: str = "hot"
    cell: int | None = field(default=None, compare=False, repr=False)

    @property
    def ok(self) -> bool:
        """Whether nothing was found wrong."""
        return not self.findings

    @property
    def counters(self) -> Counters:
        """The counters of all kernels together."""
        total = Counters()
        for one in self.kernels:
            if one.counters:
                total.places += one.counters.places
        return total

    def json(self) -> dict[str, Any]:
        """The report as `python -m weft inspect --json` writes it."""
        return {
            "findings": [
                {**one.json(), "kernel": one.kernel or None} for one in self.findings
            ],
            "kernels": [one.kernel_json() for one in self.kernels],
        }

    def line(self, file: str, number: int) -> str:
        """A line of a source, without its newline; "" if that is not known."""
        return find_line(self.sources, file, number)

    def text(self) -> str:
        """The report for a terminal."""
        parts = [f"{self.program}: {text.write_verdict(self)}"]
        parts += text.write_findings(self)
        for one in self.kernels:
            parts.append("; ".join([text.write_head(one), *write_costs(one)]))
        parts += [f"slow: {said}" for said in list_remarks(self.counters)]
        if self.listing != "none":
            parts += self._listings()
        return "\n".join(parts)

    def _listings(self) -> list[str]:
        total, shown = self.counters, []
        for source in self.sources:
            hot = self.listing == "hot"
            lines = total.lines_of(source.file)
            said = (
                text.write_listing(source.text, source.first, lines, hot)
                if lines
                else ""
            )
            if said:
                shown += ["", f"{source.file}:", said]
        return shown

    def __repr__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        parts = [html.write_top(self, self.program, [])]
        parts += html.write_findings(self)
        for one in self.kernels:
            parts.append(html.write_title(html.write_head(one), write_costs(one)))
        parts += [html.write_remark(said) for said in html.list_remarks(self.counters)]
        parts += html.write_listings(self)
        return html.make_page(parts)


def write_costs(one: Report) -> list[str]:
    """What a kernel cost, in a few phrases."""
    return text.write_costs(one.counters) if one.counters else []
