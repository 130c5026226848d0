"""Short error displays for notebooks: cut at the reader's line, or only the message."""

from __future__ import annotations

import contextlib
import linecache
import textwrap
from collections.abc import Iterator
from types import TracebackType
from typing import Any

from .paths import PACKAGE


def running_shell() -> Any:
    """Return the running IPython shell, or None if there is none."""
    try:
        from IPython import get_ipython
    except ImportError:
        return None
    return get_ipython()


WIDE = 74  # characters per line; longer lines do not fit on an enlarged page
_OURS = str(PACKAGE), "<launch of "  # the second: set by cells/gpu/launch.py


class Short:
    """An exception whose traceback in IPython leaves out the frames of this package.

    Only frames below the reader's last frame are left out. Python's own traceback,
    `%debug` and a debugger keep all of them.
    """

    __traceback__: TracebackType | None

    def _render_traceback_(self) -> list[str]:  # IPython calls this method
        from IPython import get_ipython

        shown = get_ipython().InteractiveTB.structured_traceback(
            type(self), self, cut_traceback(self.__traceback__)
        )
        return list(shown)


def cut_traceback(traceback: TracebackType | None) -> TracebackType | None:
    """Return the traceback without the trailing frames of this package.

    Return it unchanged if there are no other frames.
    """
    frames = list(_walk_frames(traceback))
    while frames and frames[-1].tb_frame.f_code.co_filename.startswith(_OURS):
        frames.pop()
    kept = None
    for one in reversed(frames):
        kept = TracebackType(kept, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return kept or traceback


def _walk_frames(traceback: TracebackType | None) -> Iterator[TracebackType]:
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


# ---- without a traceback -------------------------------------------------------------


@contextlib.contextmanager
def message_first(answer: Any, check: Any = None) -> Iterator[None]:
    """Make a notebook show an error raised inside as its message, without a traceback.

    answer: the reader's function; the line where it stopped is added to the message.
    check: the function that called `answer`. Its line is added if no line of `answer`
    raised the error, unless the error is an AssertionError with a message.
    """
    try:
        yield
    except (Exception, KeyboardInterrupt) as error:
        shorten(error, answer, check)
        raise


def shorten(error: BaseException, answer: Any = None, check: Any = None) -> None:
    """Make a notebook show an error as message_first() does."""
    message = f"{type(error).__name__}: {error}".removesuffix(": ")
    notes = getattr(error, "__notes__", ())
    said = "\n".join([message, *_stopped_at(error, answer, check), *notes])
    parts = [
        part
        for line in said.splitlines()
        for part in textwrap.wrap(line, WIDE, break_on_hyphens=False) or [""]
    ]
    lines = [f"\x1b[31m{part}\x1b[0m" for part in parts]
    error._render_traceback_ = lambda: lines  # type: ignore[attr-defined]


def line_of(function: Any, error: BaseException, but: Any = None) -> tuple[int, str]:
    """Return the number and the text of the line at which a function stopped.

    The line may be in any function of the same cell or file, except `but`.
    Return (0, "") if none of them raised the error or its cause.
    """
    code, other = (getattr(f, "__code__", None) for f in (function, but))
    for raised in (error, error.__cause__):
        for at in reversed(list(_walk_frames(raised and raised.__traceback__))):
            here = at.tb_frame.f_code
            if code and here is not other and here.co_filename == code.co_filename:
                text = linecache.getline(code.co_filename, at.tb_lineno)
                return at.tb_lineno, text.strip()
    return 0, ""


def _stopped_at(error: BaseException, answer: Any, check: Any) -> list[str]:
    function = answer
    number, text = line_of(answer, error, but=check)
    if not text and not (isinstance(error, AssertionError) and str(error)):
        function = check
        number, text = line_of(check, error)
    told = not text or f"`{text}`" in str(error)
    return [] if told else [f"{function.__name__}, line {number}: `{text}`"]
