"""One line about long-running work: it is updated in place and finally turns grey.

    with Progress("building relu", 3, "files") as job:
        job.update()

A notebook shows the line below the cell, once for all jobs of the cell; stderr, which a
notebook shows in red, is reserved for errors. A terminal shows the line at the cursor.
A job within a job replaces the text until it ends. Where nothing can be updated, such
as in a log, each job without a delay writes one line to stderr when it begins.
"""

from __future__ import annotations

import contextlib
import contextvars
import html
import os
import shutil
import sys
import threading
import time
from typing import Any, TextIO

from .errors import running_shell
from .text import write_thousands

PAUSE = 0.2  # minimum seconds between two changes of the line
PATIENCE = 1.0  # the delay for work that is usually brief, in seconds
SOON = 5  # seconds; the line omits a shorter remaining time
LINE = "white-space:nowrap;overflow:hidden;text-overflow:ellipsis"
GREY = "opacity:.65"  # legible on light and dark pages

_lock = threading.RLock()
_jobs: list[Progress] = []  # the jobs in progress, from the outermost to the innermost
_line: Any = None  # the line that shows the jobs; the next job of a cell reuses it


class Progress:
    """A job in a `with` block, shown on the line.

    title: begins with a verb, as in "building relu". total: number of steps, or 0
    if it is unknown; update() reports completed steps. unit: plural noun for the steps.
    delay: in seconds; a shorter job is never shown. quiet: whether to hide the job.
    """

    def __init__(
        self,
        title: str,
        total: int = 0,
        unit: str = "",
        *,
        delay: float = 0.0,
        quiet: bool = False,
    ) -> None:
        self.title, self.total, self.unit = title, total, unit
        self.delay, self.quiet = delay, quiet
        self.count, self.note, self.shown = 0, "", False
        self._thread = threading.get_ident()
        self._timer: threading.Timer | None = None
        self._last = 0.0

    def __enter__(self) -> Progress:
        self._start = time.perf_counter()
        if self.quiet:
            return self
        with _lock:
            if not _jobs:
                _choose_line()
            elif self._thread != _jobs[0]._thread:
                return self  # The outer job also counts work in threads.
            _jobs.append(self)
        try:
            if self.delay:
                self._start_timer()
            else:
                self._show()
        except BaseException:  # after Ctrl-C here, Python does not call __exit__()
            self.__exit__()
            raise
        return self

    def _start_timer(self) -> None:
        # With this context, the thread shows the line below this cell.
        show = contextvars.copy_context().run
        self._timer = threading.Timer(self.delay, show, [self._show])
        self._timer.daemon = True
        self._timer.start()

    def __exit__(self, *_: object) -> None:
        if self._timer:
            self._timer.cancel()
        with _lock:
            if self not in _jobs:
                return
            _jobs.remove(self)
            if self.shown:
                _line.finish(self, self._describe_end(), bool(_jobs))
            if _jobs:
                _jobs[-1]._show()

    def update(self, count: int = 1, note: str = "") -> None:
        """Report `count` more steps. note: replaces the text at the end of the line."""
        with _lock:
            self.count += count
            self.note = note or self.note
            now = time.perf_counter()
            late = now - max(self._last, self._start + self.delay) >= PAUSE
            if _jobs and _jobs[-1] is self and late:
                self._last = now
                self._show()

    def _show(self) -> None:
        with _lock:
            seconds = time.perf_counter() - self._start
            if _jobs and _jobs[-1] is self and seconds >= self.delay:
                _line.show(self, self._describe(seconds))
                self.shown = True

    def _describe(self, seconds: float) -> str:
        parts = []
        if self.total:
            done = write_thousands(min(self.count, self.total))
            total = write_thousands(self.total)
            parts.append(f"{done} of {total} {self.unit}".strip())
        parts += [self.note] * bool(self.note)
        if 0 < self.count < self.total:
            left = seconds * (self.total - self.count) / self.count
            parts += [f"about {left:.0f} s left"] * (left >= SOON)
        return f"{self.title}: {', '.join(parts)}" if parts else f"{self.title} ..."

    def _describe_end(self) -> str:
        seconds = time.perf_counter() - self._start
        note = f", {self.note}" if self.note else ""
        return f"{self.title}: {seconds:.1f} s{note}"


def step(text: str) -> None:
    """Show the current step of the running job; without a job, show only the text."""
    with _lock:
        if _jobs:
            _jobs[-1].note = text
        else:
            _choose_line()
        _line.step(text, _jobs[-1] if _jobs else None)


def remark(text: str) -> None:
    """Show a grey line that stays, about something unusual that is not an error."""
    with _lock:
        _make_line().remark(text)
        if _jobs and _jobs[-1].shown:
            _jobs[-1]._show()


def _forget_jobs() -> None:
    """Forget the parent's jobs and locks in a forked process."""
    global _lock
    _lock = threading.RLock()
    _jobs.clear()


os.register_at_fork(after_in_child=_forget_jobs)


# ---- where the line is shown ---------------------------------------------------------


def _choose_line() -> None:
    """Set _line: a new one, unless the previous job's line is below the same cell."""
    global _line
    line = _make_line()
    if _line is None or _line.place != line.place or line.place is None:
        _line = line


def _make_line() -> Any:
    shell = running_shell()
    if hasattr(shell, "kernel"):
        session = getattr(shell.kernel, "session", None)
        if getattr(session, "pid", os.getpid()) != os.getpid():
            return _Log(None)  # A forked process cannot use the notebook's connection.
        parent = getattr(shell, "get_parent", dict)() or {}
        message = parent.get("header", {}).get("msg_id", "")
        # A part of the cell whose output is captured has a separate display_pub.
        return _CellLine((message, id(shell.display_pub)))
    for stream in (sys.stderr, sys.stdout):
        # A stream may be None or closed.
        with contextlib.suppress(AttributeError, ValueError):
            if stream.isatty():
                return _TerminalLine(stream)
    return _Log(sys.stderr)


class _CellLine:
    """A line below a notebook's cell. place: identifies the cell."""

    def __init__(self, place: tuple[str, int]) -> None:
        self.place, self.name, self.visible = place, os.urandom(8).hex(), False
        self.jobs, self.seconds = 0, 0.0

    def show(self, job: Progress, text: str) -> None:
        self._write(text, LINE)

    def finish(self, job: Progress, text: str, nested: bool) -> None:
        """Show a finished job in grey, unless an outer one continues."""
        if nested:
            return
        self.jobs += 1
        self.seconds += time.perf_counter() - job._start
        if self.jobs > 1:
            text = f"{self.jobs} jobs, {self.seconds:.1f} s; the last: {text}"
        self._write(text, f"{LINE};{GREY}")

    def step(self, text: str, job: Progress | None) -> None:
        if job:
            job._show()
        else:
            self._write(text, f"{LINE};{GREY}")

    def remark(self, text: str) -> None:
        self._write(text, GREY)

    def _write(self, text: str, look: str) -> None:
        from IPython.display import display

        page = f'<div style="{look}">{html.escape(text)}</div>'
        bundle = {"text/plain": text, "text/html": page}
        update = {"update": True} if self.visible else {}
        display(bundle, raw=True, display_id=self.name, **update)
        self.visible = True


class _TerminalLine:
    """The line at a terminal's cursor; a finished job leaves its text there in grey."""

    place = None

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def show(self, job: Progress, text: str) -> None:
        self._write(f"\r\x1b[2K{self._cut(text)}")

    def finish(self, job: Progress, text: str, nested: bool) -> None:
        self._write("\r\x1b[2K")
        if not nested:
            self._write(f"\x1b[2m{self._cut(text)}\x1b[0m\n")

    def step(self, text: str, job: Progress | None) -> None:
        if job:
            job._show()
        else:
            self.remark(text)

    def remark(self, text: str) -> None:
        self._write(f"\r\x1b[2K\x1b[2mweft: {text}\x1b[0m\n")

    def _cut(self, text: str) -> str:
        columns = shutil.get_terminal_size().columns - 1
        text = f"weft: {text}"
        return text if len(text) <= columns else text[: columns - 1] + "…"

    def _write(self, text: str) -> None:
        # The terminal may have been closed.
        with contextlib.suppress(OSError, ValueError):
            self.stream.write(text)
            self.stream.flush()


class _Log:
    """A stream that cannot be updated, or None for no output at all."""

    place = None

    def __init__(self, stream: TextIO | None) -> None:
        self.stream = stream

    def show(self, job: Progress, text: str) -> None:
        if not job.shown and not job.delay:
            size = f" ({write_thousands(job.total)} {job.unit})" if job.total else ""
            self.remark(job.title + size)

    def finish(self, job: Progress, text: str, nested: bool) -> None:
        if job.note and not job.delay:
            self.remark(text)

    def step(self, text: str, job: Progress | None) -> None:
        self.remark(text)

    def remark(self, text: str) -> None:
        if self.stream:
            with contextlib.suppress(OSError, ValueError):
                print(f"weft: {text}", file=self.stream, flush=True)
