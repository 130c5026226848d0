"""Errors that end, in a notebook, at the reader's own line."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

_OURS = str(Path(__file__).parent), "<launch of "  # the latter: jit/launch.py's


class Short:
    """An exception whose traceback in IPython leaves out the frames of this package.

    Only those behind the reader's last one: where the error came up inside. Python's
    own traceback, `%debug` and a debugger have all of them.
    """

    __traceback__: TracebackType | None

    def _render_traceback_(self) -> list[str]:  # IPython's name for it
        from IPython import get_ipython

        shown = get_ipython().InteractiveTB.structured_traceback(
            type(self), self, readers(self.__traceback__)
        )
        return list(shown)


def readers(traceback: TracebackType | None) -> TracebackType | None:
    """The traceback without the last frames that are this package's.

    As it is if there are no others.
    """
    frames = []
    at = traceback
    while at is not None:
        frames.append(at)
        at = at.tb_next
    while frames and frames[-1].tb_frame.f_code.co_filename.startswith(_OURS):
        frames.pop()
    kept = None
    for one in reversed(frames):
        kept = TracebackType(kept, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return kept or traceback
