"""Ends a launch in which one block runs for too long."""

from __future__ import annotations

import contextlib
import ctypes
import sys
import threading
import time
from types import FrameType

from .stop import Stop

_DEBUGGERS = ("pdb.py", "bdb.py", "cmd.py", "debugger.py", "pydevd.py")
_raise = ctypes.pythonapi.PyThreadState_SetAsyncExc
_raise.argtypes = [ctypes.c_ulong, ctypes.c_void_p]


class TooLong(Stop):
    """Raised in the running thread from beside it."""

    def __init__(self) -> None:
        super().__init__("hang", "")


class Watchdog:
    """`with Watchdog(seconds) as watch:`, and watch.begin() as each block begins."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.began = time.monotonic()
        self._ident = threading.get_ident()
        self._over = threading.Event()
        self._fired = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Watchdog:
        self._thread.start()
        return self

    def __exit__(self, kind: type | None, *_: object) -> None:
        with self._lock:
            self._over.set()
        if self._fired and kind is not TooLong:
            # It is on its way; taking it back would leave the interpreter looking
            # for it at every turn of every loop.
            with contextlib.suppress(TooLong):
                while True:
                    time.sleep(0.001)

    def begin(self) -> None:
        """A block begins."""
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
                if not self._debugged():
                    self._fired = True
                    _raise(self._ident, id(TooLong))
                    return
            self.began = time.monotonic()

    def _debugged(self) -> bool:
        """Whether a person looks at the thread in a debugger."""
        frame: FrameType | None = sys._current_frames().get(self._ident)
        while frame is not None:
            if frame.f_code.co_filename.endswith(_DEBUGGERS):
                return True
            frame = frame.f_back
        return False
