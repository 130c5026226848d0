"""What the watch build found is shown below the cell that launched, once."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...base.ipython import running_shell
from ...report.shown import show

if TYPE_CHECKING:
    from ...report.model import Finding, Report
    from ..module import Cell
    from .watched import Seen

_last: Seen | None = None
_gathering: list[list[Finding]] = []  # of each gather() that is open


def keep_report(seen: Seen) -> None:
    """Keep what the last watched launch showed."""
    global _last
    _last = seen
    if _gathering and not seen.ok:
        for findings in _gathering:
            findings += seen.report.findings


@contextlib.contextmanager
def gather() -> Iterator[list[Finding]]:
    """The findings of all watched launches of the block, those shown before too."""
    findings: list[Finding] = []
    _gathering.append(findings)
    try:
        yield findings
    finally:
        _gathering.remove(findings)


def last_report() -> Report | None:
    """The Report of the last launch under the watch build; None if there was none.

    What it did wrong, and what each line of its source cost.
    """
    return _last.report if _last is not None else None


def tell(module: Cell, seen: Seen, always: bool = False) -> None:
    """Show the findings of a launch that went on, each once in a run of a cell.

    always: also those that have been shown.
    """
    if seen.ok:
        return
    running = running_shell()
    run = running.execution_count if running is not None else None
    fresh = []
    for one in seen.report.findings:
        key = run, one.kind, one.file, one.line, one.column, one.array
        if always or key not in module.told:
            module.told.add(key)
            fresh.append(one)
    if fresh:
        part = copy.copy(seen.report)
        part.findings = fresh
        show(part)
        seen.report.cell = part.cell
