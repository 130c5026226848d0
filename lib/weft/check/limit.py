"""A time limit for a plain function of Python."""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Iterator

from ..base.errors import KernelError


class TooLong(KernelError):
    """It ran longer than it may, and was ended."""


@contextlib.contextmanager
def time_limit(name: str, seconds: float) -> Iterator[None]:
    """End what runs inside, in this thread, with TooLong after so many seconds.

    Python looks for it between two steps of its own: a call of C ends first.
    """
    thread, lock, state = threading.get_ident(), threading.Lock(), {"inside": True}
    # A function object of our own: that of the attribute has what others set on it.
    raise_in = ctypes.pythonapi["PyThreadState_SetAsyncExc"]
    raise_in.argtypes = ctypes.c_ulong, ctypes.py_object

    def end() -> None:
        with lock:
            if state["inside"]:
                state["late"] = True
                raise_in(thread, TooLong)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    except TooLong:
        raise TooLong(
            f"{name} ran longer than {seconds:g} s and was ended: look for a loop that "
            f"does not end, or allow it more with timeout="
        ) from None
    finally:
        timer.cancel()
        with lock:
            state["inside"] = False
