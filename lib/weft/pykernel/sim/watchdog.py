"""Stop a thread from within, or a launch that exceeds its time limit."""

from __future__ import annotations

import contextlib
import ctypes
import sys
import threading
import time
from types import FrameType

from .record import AccessPlace


class Stop(Exception):
    """The exception that ends a thread.

    kind: kind of finding, as in report/cures.py.
    text: message, including the numbers.
    place: place of the access, if known.
    array, index: the element that the thread was about to touch.
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
        # The linear number of the thread, if no frame has it.
        self.thread: int | None = None

    def of(self, thread: int) -> Stop:
        """Set the thread, if it is not the running one, and return this exception."""
        self.thread = thread
        return self


_DEBUGGERS = ("pdb.py", "bdb.py", "cmd.py", "debugger.py", "pydevd.py")
# A separate function object, since all code shares the argtypes of ctypes.pythonapi.
_PROTOTYPE = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_ulong, ctypes.py_object)
_raise = _PROTOTYPE(("PyThreadState_SetAsyncExc", ctypes.pythonapi))
# Seconds before another attempt. It is needed if the exception arrives in __del__ or in
# the callback of a weak reference, where Python prints it and continues.
AGAIN = 5.0


class TooLong(Stop):
    """The exception that the watchdog's thread raises in the running thread."""

    def __init__(self) -> None:
        super().__init__("hang", "")


class Watchdog:
    """A context manager that stops a block `seconds` after its begin()."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.began = time.monotonic()
        self._ident = threading.get_ident()
        self._over = threading.Event()
        self._fired = 0
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Watchdog:
        self._launch: FrameType | None = sys._getframe(1)
        self._thread.start()
        return self

    def __exit__(self, kind: type | None, *_: object) -> None:
        with self._lock:
            self._over.set()
        self._launch = None
        if self._fired > (kind is TooLong):
            # An exception may still be pending. If it were cancelled, the interpreter
            # would keep checking for it at every turn of every loop. It arrives within
            # milliseconds, if at all.
            with contextlib.suppress(TooLong):
                for _ in range(50):
                    time.sleep(0.001)

    def begin(self) -> None:
        """Restart the time limit as a block begins."""
        self.began = time.monotonic()

    def _watch(self) -> None:
        while True:
            left = self.began + self.seconds - time.monotonic()
            if left > 0:
                if self._over.wait(left):
                    return
                continue
            with self._lock:
                if self._over.is_set():
                    return
                waits = self.seconds
                inside, debugged = self._looked()
                if not inside:  # the exception arrived in __exit__, without effect
                    self._launch = None
                    return
                if not debugged:
                    self._fired += 1
                    _raise(self._ident, TooLong)
                    waits = AGAIN
            self.began = time.monotonic() + waits - self.seconds

    def _looked(self) -> tuple[bool, bool]:
        """Return whether the thread is in the launch, and whether it is debugged."""
        inside = debugged = False
        frame: FrameType | None = sys._current_frames().get(self._ident)
        while frame is not None:
            inside |= frame is self._launch
            debugged |= frame.f_code.co_filename.endswith(_DEBUGGERS)
            frame = frame.f_back
        return inside, debugged
