"""Errors that a reader may catch, and their short tracebacks in notebooks.

Each message is a sentence. A traceback in a notebook ends at the reader's line, or
consists of a message only. defer_interrupts() delays Ctrl-C, so that no error appears
in the middle of a write.
"""

from __future__ import annotations

import contextlib
import linecache
import os
import signal
import textwrap
import threading
from collections.abc import Iterator
from types import FrameType, TracebackType
from typing import Any

from .paths import PACKAGE, SITE


def running_shell() -> Any:
    """Return the running IPython shell, or None if there is none."""
    try:
        from IPython import get_ipython
    except ImportError:
        return None
    return get_ipython()


WIDE = 74  # characters per line; longer lines do not fit on an enlarged page
# Frames of files with these prefixes are omitted. cells/gpu/launch.py uses the second.
_OURS = str(PACKAGE), "<launch of "


class Short:
    """An exception whose traceback in IPython leaves out the frames of this package.

    Only frames below the reader's last frame are left out. Python's own traceback,
    `%debug` and debuggers show all frames.
    """

    __traceback__: TracebackType | None
    entry = ""  # the anchor of this error on the site's page of errors

    def _render_traceback_(self) -> list[str]:  # IPython calls this method
        from IPython import get_ipython

        lines = get_ipython().InteractiveTB.structured_traceback(
            type(self), self, cut_traceback(self.__traceback__)
        )
        return [*lines, *explain(self)]


def explain(error: BaseException) -> list[str]:
    """Return a line with the address of the error's entry; [] if there is none.

    A report has its own links. An error therefore needs none if a report accompanies
    it, or if its message is a report with addresses.
    """
    if write_address("") in str(error):
        return []
    return [] if getattr(error, "report", None) is not None else link_entry(error)


def link_entry(error: BaseException) -> list[str]:
    """Return explain()'s line for an error that is shown without its report."""
    entry = getattr(error, "entry", "")
    return [f"explain: {write_address(entry)}"] if entry else []


def write_address(entry: str) -> str:
    """Return the address of an entry of the site's page of errors."""
    return f"{SITE}/errors.html#error-{entry}"


def cut_traceback(traceback: TracebackType | None) -> TracebackType | None:
    """Return the traceback without the trailing frames of this package.

    The traceback is returned unchanged if it has no other frames.
    """
    frames = list(_walk_frames(traceback))
    while frames and frames[-1].tb_frame.f_code.co_filename.startswith(_OURS):
        frames.pop()
    chain = None
    for frame in reversed(frames):
        chain = TracebackType(chain, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return chain or traceback


def _walk_frames(traceback: TracebackType | None) -> Iterator[TracebackType]:
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


# ---- without a traceback -------------------------------------------------------------


@contextlib.contextmanager
def message_first(answer: Any, check: Any = None) -> Iterator[None]:
    """Make a notebook show only the message of the block's error, and no traceback.

    answer: the reader's function; its line that raised the error is added to the
    message. check: the caller of `answer`. If no line of `answer` raised the error, the
    line of `check` is added, unless the error is an AssertionError with a message.
    """
    try:
        yield
    except (Exception, KeyboardInterrupt) as error:
        shorten(error, answer, check)
        raise


def shorten(error: BaseException, answer: Any = None, check: Any = None) -> None:
    """Make a notebook show only an error's message; see message_first()."""
    message = f"{type(error).__name__}: {error}".removesuffix(": ")
    notes = getattr(error, "__notes__", ())
    text = "\n".join([message, *_describe_stop(error, answer, check), *notes])
    parts = [
        part
        for line in text.splitlines()
        for part in textwrap.wrap(line, WIDE, break_on_hyphens=False) or [""]
    ]
    lines = [f"\x1b[31m{part}\x1b[0m" for part in parts] + link_entry(error)
    error._render_traceback_ = lambda: lines  # type: ignore[attr-defined]


def line_of(function: Any, error: BaseException, but: Any = None) -> tuple[int, str]:
    """Return the number and text of the line at which a function raised an error.

    The line may be in any function of the same cell or file, except `but`.
    Returns (0, "") if none of them raised the error or its cause.
    """
    code, other = (getattr(f, "__code__", None) for f in (function, but))
    for raised in (error, error.__cause__):
        for entry in reversed(list(_walk_frames(raised and raised.__traceback__))):
            body = entry.tb_frame.f_code
            if code and body is not other and body.co_filename == code.co_filename:
                text = linecache.getline(code.co_filename, entry.tb_lineno)
                return entry.tb_lineno, text.strip()
    return 0, ""


def _describe_stop(error: BaseException, answer: Any, check: Any) -> list[str]:
    function = answer
    number, text = line_of(answer, error, but=check)
    if not text and not (isinstance(error, AssertionError) and str(error)):
        function = check
        number, text = line_of(check, error)
    is_redundant = not text or f"`{text}`" in str(error)
    return [] if is_redundant else [f"{function.__name__}, line {number}: `{text}`"]


@contextlib.contextmanager
def defer_interrupts() -> Iterator[None]:
    """Delay Ctrl-C until the block ends, so that its results are recorded."""
    handler = signal.getsignal(signal.SIGINT)
    in_main = threading.current_thread() is threading.main_thread()
    if not (in_main and callable(handler)):
        yield
        return
    interrupts: list[tuple[int, FrameType | None]] = []
    try:
        signal.signal(signal.SIGINT, lambda *event: interrupts.append(event))
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if interrupts:
            handler(*interrupts[0])


# ---- errors --------------------------------------------------------------------------


class KernelError(Short, RuntimeError):
    """A kernel, a library or a driver failed; the message explains why."""


class ArgumentError(KernelError, ValueError):
    """An argument is invalid; nothing was launched."""

    entry = "refused"


class OutOfMemory(KernelError, MemoryError):
    """The target does not have enough memory."""

    entry = "out-of-memory"


class DeviceLost(KernelError):
    """A fault destroyed the CUDA context; the notebook's kernel must be restarted."""

    entry = "device-lost"


class BuildError(Short, RuntimeError):
    """A compiler or another tool failed or is missing; the message explains why."""

    entry = "sources"


class Mismatch(Short, AssertionError):
    """A kernel returned a wrong result or wrote to memory that it must not touch.

    check() also sets these attributes if it can determine them: array, index, block,
    thread, got, want, sizes (by name), grid, launch_block, guess, wrong and total
    (numbers of elements), report (of the simulator). Attributes that it cannot
    determine are None.
    """

    entry = "mismatch"

    def __init__(self, message: str, **facts: Any) -> None:
        super().__init__(message)
        self.facts = facts

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "facts":
            raise AttributeError(name)
        return self.facts.get(name)


class KernelFault(KernelError):
    """A kernel made an illegal access or did not end; its launch was stopped.

    Its arrays keep their values from before the launch, unless it ran in place.
    kernel: its name. block, thread: their indices (x, y, z), or None. report: the
    observations before the fault, if the launch was watched. kind: the runtime's number
    for the fault.
    """

    entry = "stopped"

    def __init__(
        self,
        message: str,
        kernel: str = "",
        block: tuple[int, int, int] | None = None,
        thread: tuple[int, int, int] | None = None,
    ) -> None:
        super().__init__(message)
        self.kernel, self.block, self.thread = kernel, block, thread
        self.report: Any = None  # a weft Report
        self.kind = 0


class NotSolved(Mismatch):
    """The answer to an exercise or a puzzle is still its stub (if WEFT_GRADE=1)."""


def refuse_unsolved(line: str) -> None:
    """Report an unsolved task: print the line, or raise NotSolved if WEFT_GRADE=1."""
    if os.environ.get("WEFT_GRADE") == "1":
        raise NotSolved(line)
    print(line)
