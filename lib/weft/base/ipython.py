"""The IPython that runs us, if one does."""

from __future__ import annotations

from typing import Any


def running_shell() -> Any:
    """The running IPython; None outside of one."""
    try:
        from IPython import get_ipython
    except ImportError:
        return None
    return get_ipython()
