"""A report below the cell that made it, or on stderr where there is no notebook."""

from __future__ import annotations

import sys
from typing import Any

from .colours import coloured


def show(report: Any) -> None:
    """Show a Report or ProgramReport."""
    try:
        from IPython import get_ipython
    except ImportError:
        return _print(report)
    shell = get_ipython()
    if shell is None or not hasattr(shell, "kernel"):
        return _print(report)
    from IPython.display import display

    display(report)
    report.cell = shell.execution_count


def _print(report: Any) -> None:
    text = str(report)
    print(coloured(text) if sys.stderr.isatty() else text, file=sys.stderr)
