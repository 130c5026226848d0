"""Write a report as HTML, and show it below the cell that produced it.

The page must be legible on light and dark backgrounds. Plain text therefore keeps the
page's colour, and every other colour accompanies a word or a mark. The report consists
only of elements and inline styles, so every front end can show it. Outside a notebook,
the report is written to stderr.
"""

from __future__ import annotations

import html
import numbers
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from ..base import style
from ..base.errors import running_shell, write_address
from ..base.style import FAULT, SHARED, WRITTEN, write_colour
from ..base.text import round_number, write_thousands
from .costs import (
    COLUMNS,
    HOT,
    CostCell,
    LineCost,
    annotate_lines,
    list_remarks,
    select_columns,
)
from .cures import in_python as cure_of
from .text import (
    SHOWN,
    colour_report,
    short_file,
    write_caret,
    write_costs,
    write_head,
    write_verdict,
)

if TYPE_CHECKING:
    from .model import Finding, ProgramReport, Report


def highlight_text(text: str, language: str = "cuda") -> str:
    """Return the text as coloured HTML. language: "cuda", "python", "ptx" or "diff"."""
    content = colour_text(text.strip("\n") + "\n", language)
    return f'<pre style="{style.PRE}">{content}</pre>'


def with_code(sentence: str) -> str:
    """Return a sentence as HTML, and format the text between backticks as code."""
    code = rf'<code style="{style.PRE};padding:0">\1</code>'
    return re.sub(r"`([^`]*)`", code, html.escape(sentence))


def colour_text(text: str, language: str = "cuda") -> str:
    """Return the text as coloured HTML, without an enclosing element."""
    from pygments.lexers import get_lexer_by_name
    from pygments.token import STANDARD_TYPES

    parts = []
    lexer = get_lexer_by_name(language, stripnl=False, ensurenl=False)
    for token, value in lexer.get_tokens(text):
        # In Pygments' short names, the first letter is the kind: "k" in "kt".
        kind = STANDARD_TYPES.get(token, "")
        colour = style.CODE.get(kind) or style.CODE.get(kind[:1])
        text = html.escape(value)
        look = f'<span style="{write_colour(colour)}">' if colour else ""
        parts.append(f"{look}{text}</span>" if colour else text)
    return "".join(parts)


# Each colour as "r,g,b", for CSS.
WARM = [",".join(map(str, bytes.fromhex(c[1:]))) for c in (WRITTEN, FAULT)]
MONO = f"font-family:{style.MONO};"
CODE = f"{MONO}font-size:12px;line-height:1.45;"
PRE = (
    f"{CODE}margin:4px 0;padding:0;background:none;color:inherit;border:none;"
    f"white-space:pre;overflow-x:auto;"
)
_CELL = "padding:0 8px;border:none;background:none;color:inherit;white-space:pre;"
NARROW = "padding:0 5px;"
FAINT = f"opacity:{style.FAINT};"
BOLD = "font-weight:600;"


def write_html(report: Report) -> str:
    """Return the report as HTML: verdict, findings at their lines, costs, listing."""
    costs = write_costs(report.counters) if report.counters else []
    parts = [write_top(report, write_head(report), costs), *write_findings(report)]
    if report.counters:
        parts += map(write_remark, list_remarks(report.counters))
        parts += write_listings(report)
    return make_page(parts)


def write_findings(report: Report | ProgramReport) -> list[str]:
    """Return the first findings, and the number of the remaining ones."""
    parts = [_write_finding(report, finding) for finding in report.findings[:SHOWN]]
    if len(report.findings) > SHOWN:
        remaining = len(report.findings) - SHOWN
        parts.append(f'<div style="{FAINT}">... and {remaining} more findings</div>')
    return parts


def write_listing(text: str, first: int, lines: dict, title: str, opened: bool) -> str:
    """Return a source text with the counters of its lines, folded below a title.

    The counters precede the lines, so that a narrow page cannot cut the counters off.
    """
    rows = annotate_lines(text, first, lines)
    columns = select_columns(rows)
    if not columns:
        return ""
    # Short heads and narrow cells leave room for the source.
    heads = {c: c.replace("/", "\n/").replace("wavef", "wave-\nf") for c in columns}
    look = f"{BOLD}{NARROW}vertical-align:bottom;"
    head = [make_cell(heads[c], look=look, hint=COLUMNS[c], kind="th") for c in columns]
    body = [_write_row(row, columns) for row in rows]
    return (
        f'<details{" open" if opened else ""} style="margin-top:6px">'
        f'<summary style="cursor:pointer">{escape(title)}</summary>'
        f'<div style="overflow-x:auto">'
        f"{make_table([head + [make_cell(kind='th')] * 2, *body])}</div></details>"
    )


def write_top(report: Report | ProgramReport, name: str, costs: list[str]) -> str:
    """Return the name, the verdict and the cost."""
    colour, mark = (SHARED, "✓") if report.ok else (FAULT, "✗")
    verdict = f"{mark} {escape(write_verdict(report))}"
    look = f"{write_colour(colour)};{BOLD}"
    verdict = f'<span style="{look}">{verdict}</span>'
    return write_title(name, costs, verdict)


def write_title(name: str, costs: list[str], more: str = "") -> str:
    """Return the name of a launch or program, followed by `more` and the cost."""
    below = f'<div style="{FAINT}">{escape("; ".join(costs))}</div>' if costs else ""
    return (
        f'<div><code style="{MONO}color:inherit;background:none;{BOLD}">'
        f"{escape(name)}</code> {more}</div>{below}"
    )


def _write_finding(report: Report | ProgramReport, finding: Finding) -> str:
    place = f"{short_file(finding.file)}, line {finding.line}" if finding.line else ""
    times = f" ({write_thousands(finding.count)} times)" if finding.count > 1 else ""
    excerpt = _write_excerpt(report, finding)
    if cure := cure_of(finding):
        cure = f'<div style="{FAINT}">usually cured by: {escape(cure)}</div>'
    return (
        f'<div style="border-left:3px solid {FAULT};padding:2px 0 2px 10px;'
        f'margin:6px 0"><div><b style="{write_colour(FAULT)}">'
        f"{escape(finding.kind)}</b> "
        f'<span style="{FAINT}">{escape(place)}</span> {link_entry(finding.kind)}</div>'
        f"<div>{escape(finding.text)}{times}</div>{excerpt}{cure}</div>"
    )


def link_entry(kind: str) -> str:
    """Return a small link to the explanation of a kind of finding on the site."""
    address = write_address(kind)
    look = f"color:inherit;{FAINT}font-size:11px;margin-left:6px"
    return f'<a href="{address}" target="_blank" style="{look}">explain</a>'


def _write_excerpt(report: Report | ProgramReport, finding: Finding) -> str:
    """Return the finding's source line with a caret, and the other thread's line."""
    numbers = [finding.line] * bool(finding.line)
    if finding.other_line and not finding.other_file:
        numbers.append(finding.other_line)
    rows = {n: report.line(finding.file, n) for n in numbers}
    rows = {n: text for n, text in rows.items() if text.strip()}
    if finding.line not in rows:
        return ""
    indent = min(len(t) - len(t.lstrip()) for t in rows.values())
    lines = []
    for number, text in sorted(rows.items()):
        lines.append((number, escape(text[indent:])))
        if number == finding.line:
            caret = write_caret(text, finding.column)[indent:]
            look = f"{write_colour(FAULT)};font-weight:700"
            lines.append(("", f'<span style="{look}">{caret}</span>'))
    numbered = [f'<span style="{FAINT}">{n:>4}  </span>{text}' for n, text in lines]
    return f'<pre style="{PRE}">{chr(10).join(numbered)}</pre>'


def write_remark(sentence: str, word: str = "slow") -> str:
    """Return a sentence about an avoidable cost, as HTML, marked with `word`."""
    look = f"border-left:3px solid {WRITTEN};padding-left:10px;margin:4px 0"
    return f'<div style="{look}"><b>{word}</b> {escape(sentence)}</div>'


def write_listings(report: Report | ProgramReport) -> list[str]:
    """Return each source with its lines' costs, open if costs are the only problem."""
    assert report.counters
    hot = bool(list_remarks(report.counters)) and report.ok
    listings = []
    for source in report.sources:
        lines = report.counters.lines_of(source.file)
        title = f"line by line: {short_file(source.file)}"
        listings.append(write_listing(source.text, source.first, lines, title, hot))
    return list(filter(None, listings))


def _write_row(row: LineCost, columns: list[str]) -> list[str]:
    numbers = [_warm_colour(row.cells.get(c, CostCell())) for c in columns]
    return [*numbers, make_cell(row.number, look=FAINT), make_cell(row.text, "left")]


def _warm_colour(cell: CostCell) -> str:
    colour, opacity = WARM[cell.heat > 0.6], 0.15 + 0.4 * cell.heat
    look = f"font-weight:700;background:rgba({colour},{opacity:.2f});"
    return make_cell(cell.text, look=NARROW + look * (cell.heat > HOT), hint=cell.why)


# ---- shared with the lab's other views ----------------------------------------------


def make_page(parts: list[str]) -> str:
    """Join the parts of a view into one HTML element."""
    look = "color:inherit;font-size:13px;line-height:1.5;max-width:920px"
    content = "\n".join(parts)
    return f'<div style="{look}">{content}</div>'


def make_table(rows: Iterable[Iterable[str]]) -> str:
    """Return an HTML table of rows of cells that make_cell() wrote."""
    body = "".join(f'<tr style="background:none">{"".join(row)}</tr>' for row in rows)
    look = "border-collapse:collapse;border:none;margin:4px 0;color:inherit"
    return f'<table style="{CODE}{look}">{body}</table>'


def make_cell(
    text: object = "", side: str = "right", look: str = "", hint: str = "", kind="td"
) -> str:
    """Return a cell for make_table().

    look: additional CSS. hint: text shown while the pointer is over the cell.
    """
    hint = f' title="{escape(hint)}"' if hint else ""
    style = f"{_CELL}text-align:{side};{look}"
    return f'<{kind}{hint} style="{style}">{escape(str(text))}</{kind}>'


# ---- tables of a lesson --------------------------------------------------------------

NUMBER = re.compile(r"[-+]?[\d., \u202f]+(e[-+]?\d+)?( ?[%x])?|nan|inf")
NONE = "\N{EN DASH}"  # shown for a missing value
_LINE = (
    "border:none;border-bottom:1px solid color-mix(in srgb, currentColor 25%, #0000);"
)
_TABLE_CELL = "padding:2px 12px;background:none;color:inherit;vertical-align:top;"


def table(rows: Mapping | Iterable, *heads: str) -> Table:
    """Return rows as a table, which a notebook shows below the cell.

    rows: dicts whose keys are the heads, sequences with a value for each head, or a
    single dict whose items are the rows. A float is rounded to three digits, so give a
    string for another format. A missing value is a dash. Columns of numbers are aligned
    to the right. A unit belongs in the head, after a comma: "time, µs".

    Raises ValueError if a row has fewer or more values than there are heads.
    """
    listed = list(rows.items() if isinstance(rows, Mapping) else rows)
    if listed and isinstance(listed[0], Mapping):
        heads = heads or tuple(dict.fromkeys(key for row in listed for key in row))
        listed = [[row.get(head) for head in heads] for row in listed]
    for number, row in enumerate(listed):
        if len(row) != len(heads or listed[0]):
            wanted = f"{len(heads or listed[0])} values, one for each head"
            raise ValueError(f"row {number} has {len(row)} values; want {wanted}")
    return Table([[_write_value(value) for value in row] for row in listed], heads)


class Table:
    """A table with heads, shown as HTML in a notebook and as aligned text elsewhere."""

    def __init__(self, rows: Sequence[Sequence[str]], heads: Sequence[str] = ()):
        self.rows, self.heads = rows, heads
        columns = list(zip(*rows))
        self.sides = ["right" if _are_numbers(column) else "left" for column in columns]

    def __repr__(self) -> str:
        lines = [self.heads, *self.rows] if self.heads else self.rows
        widths = [max(map(len, column)) for column in zip(*lines)]
        sides = self.sides or ["left"] * len(widths)
        return "\n".join(
            "  ".join(
                text.rjust(width) if side == "right" else text.ljust(width)
                for text, width, side in zip(line, widths, sides)
            ).rstrip()
            for line in lines
        )

    def _repr_html_(self) -> str:
        sides = self.sides or ["left"] * len(self.heads)
        heads = "".join(
            f'<th scope="col" style="{_TABLE_CELL}{_LINE}{BOLD}text-align:{side}">'
            f"{_write_head(head)}</th>"
            for head, side in zip(self.heads, sides)
        )
        rows = "".join(
            f'<tr style="background:none">{self._write_row(row)}</tr>'
            for row in self.rows
        )
        head = f"<thead><tr>{heads}</tr></thead>" if heads else ""
        look = "border-collapse:collapse;border:none;margin:4px 0;color:inherit;"
        look += "font-size:13px;line-height:1.5;font-variant-numeric:tabular-nums"
        return (
            f'<div style="overflow-x:auto"><table style="{look}">{head}'
            f"<tbody>{rows}</tbody></table></div>"
        )

    def _write_row(self, row: Sequence[str]) -> str:
        cells = zip(row, self.sides)
        return "".join(
            f'<td style="{_TABLE_CELL}{_LINE}text-align:{side}">{escape(text)}</td>'
            for text, side in cells
        )


def _write_value(value: Any) -> str:
    """Return a table's value as text."""
    if value is None:
        return NONE
    is_whole = isinstance(value, numbers.Integral)
    is_float = isinstance(value, numbers.Real) and not is_whole
    return round_number(float(value)) if is_float else str(value)


def _are_numbers(texts: Iterable[str]) -> bool:
    """Return whether all texts of a column, except missing values, are numbers."""
    present = [text for text in texts if text != NONE]
    return bool(present) and all(NUMBER.fullmatch(text) for text in present)


def _write_head(head: str) -> str:
    """Return a head as HTML, with a unit that is fainter and not bold."""
    name, comma, unit = head.partition(", ")
    if not comma:
        return escape(head)
    look = f"font-weight:400;{FAINT}"
    return f'{escape(name)}, <span style="{look}">{escape(unit)}</span>'


def show(report: Any) -> None:
    """Show a Report or ProgramReport below its cell; outside notebooks, on stderr."""
    running = running_shell()
    if not hasattr(running, "kernel"):
        text = str(report)
        print(colour_report(text) if sys.stderr.isatty() else text, file=sys.stderr)
        return
    from IPython.display import display

    display(report)
    report.cell = running.execution_count
