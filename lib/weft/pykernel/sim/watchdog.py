"""Stop a thread at a fault, and stop a launch that runs for too long."""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import sys
import threading
import time
from types import FrameType

from .layout import AccessPlace


class Stop(Exception):
    """Raised to end a thread.

    kind, text: the finding's kind, as in report/cures.py, and its message.
    place: place of the access, if known.
    array, index: the element that the thread was about to access.
    """

    def __init__(
        self,
        kind: str,
        text: str,
        place: AccessPlace | None = None,
        array: str | None = None,
        index: tuple[int, ...] | None = None,
    ) -> None:
        super().__init__(text)
        self.kind, self.text, self.place = kind, text, place
        self.array, self.index = array, index
        # The thread's linear number; None if a frame of the traceback contains it.
        self.thread: int | None = None

    def of(self, thread: int) -> Stop:
        """Attribute the stop to a thread that is not running, and return the stop."""
        self.thread = thread
        return self


_DEBUGGERS = ("pdb.py", "bdb.py", "cmd.py", "debugger.py", "pydevd.py")
# This is a separate object, because ctypes.pythonapi's argtypes are process-wide.
_PROTOTYPE = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_ulong, ctypes.py_object)
_raise = _PROTOTYPE(("PyThreadState_SetAsyncExc", ctypes.pythonapi))
# Seconds until the next attempt. In a weak reference's callback and in __del__, an
# attempt has no effect, since Python only prints exceptions there.
AGAIN = 5.0


class TooLong(Stop):
    """Raised by the watcher in the thread of a late launch."""

    def __init__(self) -> None:
        super().__init__("hang", "")


class Watchdog:
    """A context manager that limits the time of each block; begin() starts a block."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.began = time.monotonic()
        self._ident = threading.get_ident()
        self._over = False
        self._fired = 0
        self._lock = threading.Lock()

    def __enter__(self) -> Watchdog:
        self._launch: FrameType | None = sys._getframe(1)
        _watcher.add(self)
        return self

    def __exit__(self, kind: type | None, *_: object) -> None:
        with self._lock:
            self._over = True
        _watcher.watches.discard(self)
        self._launch = None
        if self._fired > (kind is TooLong):
            # A TooLong may be pending, and then arrives during these sleeps. Canceling
            # it would make the interpreter check for it in every turn of each loop.
            with contextlib.suppress(TooLong):
                for _ in range(50):
                    time.sleep(0.001)

    @property
    def due(self) -> float:
        """The time at which the running block exceeds its limit."""
        return self.began + self.seconds

    def begin(self) -> None:
        """Restart the clock when a block begins."""
        self.began = time.monotonic()

    def end_late_launch(self) -> bool:
        """End the launch if it is late; return False if it is already over."""
        if self.due > time.monotonic():
            return True
        with self._lock:
            if self._over:
                return False
            delay = self.seconds
            inside, debugged = self._inspect_thread()
            if not inside:  # TooLong was raised in __exit__(), and had no effect
                self._launch = None
                return False
            if not debugged:
                self._fired += 1
                _raise(self._ident, TooLong)
                delay = AGAIN
            self.began = time.monotonic() + delay - self.seconds
            return True

    def _inspect_thread(self) -> tuple[bool, bool]:
        """Return whether the thread is in the launch, and whether a debugger runs."""
        inside = debugged = False
        frame: FrameType | None = sys._current_frames().get(self._ident)
        while frame is not None:
            inside |= frame is self._launch
            debugged |= frame.f_code.co_filename.endswith(_DEBUGGERS)
            frame = frame.f_back
        return inside, debugged


class _Watcher:
    """The thread that ends late launches.

    All launches share it, because starting a thread takes longer than a small launch.
    It sleeps until the earliest launch is due, so most launches begin and end without
    waking it.
    """

    def __init__(self) -> None:
        self.watches: set[Watchdog] = set()
        # The time at which the thread wakes; infinity if only a launch wakes it.
        self.alarm = math.inf
        self._wake = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def add(self, watch: Watchdog) -> None:
        """Watch a launch until it ends."""
        self.watches.add(watch)
        if self._thread is None or not self._thread.is_alive():
            with self._lock:
                if self._thread is None or not self._thread.is_alive():
                    self._thread = threading.Thread(target=self._run, daemon=True)
                    self._thread.start()
        if watch.due < self.alarm:
            self._wake.set()

    def _run(self) -> None:
        while True:
            self.alarm = math.inf
            self._wake.clear()
            for watch in list(self.watches):
                if not watch.end_late_launch():
                    self.watches.discard(watch)
            due = min((watch.due for watch in list(self.watches)), default=math.inf)
            self.alarm = due
            remaining = due - time.monotonic()
            self._wake.wait(None if remaining == math.inf else max(remaining, 0))


def _start_anew() -> None:
    """Replace the watcher in a forked child, which has only the forking thread."""
    global _watcher
    _watcher = _Watcher()


_watcher = _Watcher()
os.register_at_fork(after_in_child=_start_anew)
