"""What the check build found is shown below the cell that launched, once."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from ..report.shown import show

if TYPE_CHECKING:
    from ..report import Report
    from .checked import Seen
    from .module import Cell

_last: Seen | None = None


def remember(seen: Seen) -> None:
    """Keep what the last watched launch showed."""
    global _last
    _last = seen


def last_report() -> Report | None:
    """The Report of the last launch under the check build; None if there was none.

    What it did wrong, and what each line of its source cost.
    """
    return _last.report if _last is not None else None


def tell(module: Cell, seen: Seen, always: bool = False) -> None:
    """Show the findings of a launch that went on, each once in a run of a cell.

    always: also those that have been shown.
    """
    if seen.ok:
        return
    run = _cell()
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


def _cell() -> Any:
    """The number of the notebook's cell that runs; None outside of one."""
    try:
        from IPython import get_ipython
    except ImportError:
        return None
    shell = get_ipython()
    return shell.execution_count if shell is not None else None
