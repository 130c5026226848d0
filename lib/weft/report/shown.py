"""A report below the cell that made it, or on stderr where there is no notebook."""

from __future__ import annotations

import sys
from typing import Any

from ..base.tracebacks import running_shell
from .text import colour_report


def show(report: Any) -> None:
    """Show a Report or ProgramReport."""
    running = running_shell()
    if not hasattr(running, "kernel"):
        text = str(report)
        print(colour_report(text) if sys.stderr.isatty() else text, file=sys.stderr)
        return
    from IPython.display import display

    display(report)
    report.cell = running.execution_count
