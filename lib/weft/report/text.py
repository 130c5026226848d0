"""Write a report as text: one line if all is well, or findings with source lines.

In a terminal, faults are red and slow places are yellow.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from ..base.errors import write_address
from ..base.text import count_things
from .costs import (
    HOT,
    CostCell,
    Counters,
    annotate_lines,
    list_remarks,
    select_columns,
    write_short,
)
from .cures import KINDS
from .cures import in_python as cure_of
from .places import text_before, write_index

if TYPE_CHECKING:
    from .model import Finding, ProgramReport, Report

SHOWN = 8  # maximum number of findings shown, since later ones seldom help


def write_text(report: Report) -> str:
    """Return the whole report for a terminal."""
    parts = [write_summary(report), *write_findings(report)]
    if report.counters:
        parts += [f"slow: {sentence}" for sentence in list_remarks(report.counters)]
    return "\n".join(parts)


def write_findings(report: Report | ProgramReport) -> list[str]:
    """Return the first findings, the number of the remaining ones, and addresses.

    The site's page of errors explains each kind of finding at its address.
    """
    parts = [write_finding(report, finding) for finding in report.findings[:SHOWN]]
    if len(report.findings) > SHOWN:
        parts.append(f"... and {len(report.findings) - SHOWN} more findings")
    kinds = dict.fromkeys(finding.kind for finding in report.findings)
    return parts + [f"explain: {write_address(kind)}" for kind in kinds]


def write_listing(text: str, first: int, lines: dict, hot: bool = False) -> str:
    """Return a source text with the counters of its lines; mark the hot numbers.

    lines: the counts of each line by number, as Counters.lines_of returns them. hot:
    show only hot lines and their neighbours, or return "" if there are none.
    """
    rows = annotate_lines(text, first, lines)
    columns = select_columns(rows)
    if hot:
        heats = [max([0.0, *(c.heat for c in row.cells.values())]) for row in rows]
        near = {
            j for i, heat in enumerate(heats) if heat > HOT for j in (i - 1, i, i + 1)
        }
        rows = [row for i, row in enumerate(rows) if i in near]
    if not rows:
        return ""
    width = max(len(row.text.expandtabs(4)) for row in rows)
    cell_texts = [[_mark_number(row.cells.get(c)) for c in columns] for row in rows]
    widths = [max(map(len, column)) + 2 for column in zip(columns, *cell_texts)]
    head = "".join(f"{c:>{n}}" for c, n in zip(columns, widths))
    rows_text = [" " * (width + 6) + head]
    previous = rows[0].number - 1
    for row, cells in zip(rows, cell_texts):
        numbers = "".join(f"{cell:>{n}}" for cell, n in zip(cells, widths))
        if row.number != previous + 1:
            rows_text.append("   ...")
        previous = row.number
        rows_text.append(f"{row.number:>4}  {row.text.expandtabs(4):<{width}}{numbers}")
    return "\n".join(line.rstrip() for line in rows_text)


def _mark_number(cell: CostCell | None) -> str:
    """Return a cell's number for the listing, followed by a mark if it is hot."""
    return f"{cell.text}{' !' * (cell.heat > HOT)}" if cell else ""


def write_summary(report: Report) -> str:
    """Return one line: the launch, the verdict, and the memory accesses per thread."""
    costs = write_costs(report.counters) if report.counters else []
    return "; ".join([write_head(report), write_verdict(report), *costs])


def write_head(report: Report) -> str:
    """Return the kernel and its launch shape, such as `tiled[(4,4), (16,16)]`."""
    sides = [write_index(shape, shape) for shape in (report.grid, report.block)]
    times = f" x{report.launches}" if report.launches > 1 else ""
    return f"{report.kernel}[{', '.join(sides)}]{times}"


def write_verdict(report: Report | ProgramReport) -> str:
    """Return the number of findings in words."""
    return how_many(len(report.findings))


def how_many(count: int) -> str:
    """Return "3 findings" or "nothing wrong"."""
    return count_things(count, "finding") if count else "nothing wrong"


def write_costs(counters: Counters) -> list[str]:
    """Describe the memory accesses of a launch in a few phrases with numbers."""
    amounts = {
        "reads per thread": counters.reads_per_thread,
        "writes per thread": counters.writes_per_thread,
        "atomics per thread": counters.atomics_per_thread,
        "sectors per request": counters.sectors_per_request,
    }
    phrases = []
    for what, means in amounts.items():
        numbers = [f"{name} {write_short(number)}" for name, number in means.items()]
        phrases += [f"{what}: {', '.join(numbers)}"] * bool(numbers)
    if clashes := counters.bank_conflicts:
        several = sum(clashes.values())
        phrases.append(f"{several or 'no'} bank conflict{'s' * (several != 1)}")
    return phrases


def write_finding(report: Report | ProgramReport, finding: Finding) -> str:
    """Return a finding: its sentence, its source line with a caret, and its cure."""
    place = f"{short_file(finding.file)}:{finding.line}: " if finding.line else ""
    times = f" ({finding.count} times)" if finding.count > 1 else ""
    rows = [f"{place}{finding.kind}: {finding.text}{times}"]
    source = report.line(finding.file, finding.line) if finding.line else ""
    if source.strip():
        rows += [f"    {source}", f"    {write_caret(source, finding.column)}"]
    file, number = finding.other_file or finding.file, finding.other_line
    if number and (number != finding.line or finding.other_file):
        other_text = report.line(file, number).strip()
        name = f"{short_file(file)}, " if file != finding.file else ""
        if other_text:
            rows.append(f"    {name}line {number}: {other_text}")
    if cure := cure_of(finding):
        rows.append(f"    usually cured by: {cure}")
    return "\n".join(rows)


def write_caret(source: str, column: int) -> str:
    """Return a line with a caret under a column, aligned with the tabs of `source`."""
    return "".join(c if c == "\t" else " " for c in text_before(source, column)) + "^"


def short_file(file: str) -> str:
    """Return the name of a file, or `cell` for a notebook's cell."""
    name = os.path.basename(file)
    cell = name.startswith("<") or "ipykernel" in file
    return "cell" if cell else name or "kernel"


_RED, _YELLOW, _BOLD = "\x1b[1;31m", "\x1b[33m", "\x1b[1m"
_FAINT, _END = "\x1b[2m", "\x1b[0m"
_KIND = rf"^((?:\S[^\n]*?:\d+: )?)({'|'.join(map(re.escape, KINDS))})(?=: )"
_MARKS = [
    (re.compile(_KIND, re.M), rf"\1{_RED}\2{_END}"),
    (re.compile(r"^(\s+)\^$", re.M), rf"\1{_RED}^{_END}"),
    (re.compile(r"^slow(?=: )", re.M), f"{_YELLOW}slow{_END}"),
    (re.compile(r"(\S+) !(?=\s|$)", re.M), rf"{_YELLOW}\1 !{_END}"),
    (re.compile(r"\b(\d+ findings?)(?=$|;)", re.M), rf"{_BOLD}\1{_END}"),
    (re.compile(r"^(\s+usually cured by: .*)$", re.M), rf"{_FAINT}\1{_END}"),
    (re.compile(r"^(explain: .*)$", re.M), rf"{_FAINT}\1{_END}"),
]


def colour_report(text: str) -> str:
    """Add ANSI colours to the text, unless NO_COLOR is set (no-color.org)."""
    if os.environ.get("NO_COLOR"):
        return text
    for pattern, replacement in _MARKS:
        text = pattern.sub(replacement, text)
    return text
