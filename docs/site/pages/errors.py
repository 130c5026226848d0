"""Write "Explain this error": each kind of finding and refusal, its cause and cure.

Each example runs when the site is built, and the page shows what the lab reports. A
report in a notebook links to its entry here: weft.report.html.link_entry().
"""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from parts import examples, links
from parts.examples import Entry
from parts.findings import FINDINGS
from parts.refusals import ON_A_GPU, SECTIONS

THEME = Path(__file__).resolve().parents[1] / "theme"
HEAD = """\
# Explain this error

When the lab finds a fault or refuses a call, the message names the place. This page
explains the causes and the usual cures. In a notebook, the link *explain* next to a
finding or below an error leads to its entry. Every example was run when this page was
built."""
FINDING = """\
The watch build and the simulator report findings below a launch. A finding begins with
its kind, and names the line, the array, the thread and the block."""
GPU = "These two need a GPU, so this page has no example of them."


def write(folder: Path) -> None:
    """Write errors.md."""
    found = [dataclasses.replace(entry, finding=True) for entry in FINDINGS]
    blocks = [
        HEAD,
        links.write_raw(f"<style>\n{(THEME / 'errors.css').read_text()}</style>"),
        *write_list("Findings", FINDINGS),
        *(
            part
            for title, (_, rest) in SECTIONS.items()
            for part in write_list(title, rest)
        ),
        *write_list("On a GPU", ON_A_GPU),
        f"## Findings\n\n{FINDING}",
        *map(write_entry, found),
    ]
    for title, (anchor, entries) in SECTIONS.items():
        blocks += [f"(error-{anchor})=\n## {title}", *map(write_entry, entries)]
    blocks += ["## On a GPU", GPU, *map(write_entry, ON_A_GPU)]
    (folder / "errors.md").write_text("\n\n".join(blocks) + "\n")


def write_list(title: str, entries: list[Entry]) -> list[str]:
    """Return links to the entries of a section, as a list with its title."""
    rows = [f"- [{name_entry(entry)}](#error-{entry.anchor})" for entry in entries]
    head = links.write_raw(f'<p class="weft-list"><b>{title}</b></p>')
    return [head, "\n".join(rows)]


def name_entry(entry: Entry) -> str:
    """Return the entry's title; a finding's begins with its kind."""
    if entry.anchor in {one.anchor for one in FINDINGS}:
        return f"`{entry.anchor}`: {entry.title}"
    return entry.title[0].upper() + entry.title[1:]


def write_entry(entry: Entry) -> str:
    """Return an entry: the cause, the example, the lab's report, and the cure."""
    parts = [f"(error-{entry.anchor})=\n### {name_entry(entry)}", entry.cause]
    if source := examples.write_source(entry):
        report = examples.write_outcome(examples.run(entry))
        # The link would lead to this entry itself.
        report = re.sub(r"<a\b.*?</a>", "", report)
        parts += [source, links.write_raw(f'<div class="weft-report">{report}</div>')]
    parts.append(f"**Cure.** {entry.cure}")
    return "\n\n".join(parts)
