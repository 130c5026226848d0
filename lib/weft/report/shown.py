"""A report below the cell that made it, or on stderr where there is no notebook."""

from __future__ import annotations

import sys
from typing import Any

from ..base.ipython import shell
from .colours import coloured


def show(report: Any) -> None:
    """Show a Report or ProgramReport."""
    running = shell()
    if not hasattr(running, "kernel"):
        text = str(report)
        print(coloured(text) if sys.stderr.isatty() else text, file=sys.stderr)
        return
    from IPython.display import display

    display(report)
    report.cell = running.execution_count
