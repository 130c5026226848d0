"""Files that are there whole or not at all.

Whoever else writes the same file at once, and however this process ends: what is made
lies beside the file under another name until it takes its place.
"""

from __future__ import annotations

import contextlib
import os
import signal
import struct
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

from .tracebacks import Short

PART = "libweft_part_"  # a file being made begins so; `make clean` knows the name
LEFT = 86400.0  # seconds after which it is one that a killed process left


class CannotWrite(Short, OSError):
    """A file cannot be written; the message names it, and says what to do."""


@contextlib.contextmanager
def replace_file(path: Path) -> Iterator[Path]:
    """An empty file next to `path`, which takes its place if the block ends well.

    Raises CannotWrite if the system refuses to write either.
    """
    part = None
    try:
        with defer_interrupts():
            handle, name = tempfile.mkstemp(path.suffix, PART, path.parent)
            part = Path(name)
            os.close(handle)
        yield part
        os.replace(part, path)
    except CannotWrite:
        raise
    except OSError as error:
        why = error.strerror or str(error)
        raise CannotWrite(f"cannot write {path}: {why}. {_find_cure(path)}") from error
    finally:
        if part:
            part.unlink(missing_ok=True)


def write(path: Path, data: str | bytes) -> None:
    """Write a file, text in UTF-8; CannotWrite if that fails."""
    with replace_file(path) as part:
        part.write_bytes(data.encode() if isinstance(data, str) else data)


def is_elf(path: Path) -> bool:
    """Whether a library, an object or a program is there to its end.

    A machine that loses its power may leave half of one; who opened that would die.
    """
    try:
        with path.open("rb") as file:
            head = file.read(64)
        size = path.stat().st_size
    except OSError:
        return False
    if len(head) < 64 or head[:4] != b"\x7fELF":
        return False
    # The table of sections comes last: its offset, an entry's size, their number.
    at, each, count = struct.unpack("<40xQ10xHH2x", head)
    return at + each * count <= size


def sweep(folder: Path) -> None:
    """Delete what processes that were killed left half made in a folder."""
    before = time.time() - LEFT
    for path in folder.glob(f"{PART}*"):
        with contextlib.suppress(OSError):  # another process was first
            if path.lstat().st_mtime < before:
                path.unlink()


@contextlib.contextmanager
def defer_interrupts() -> Iterator[None]:
    """Ctrl-C waits for the end of this block: what it makes is known by then."""
    before = signal.getsignal(signal.SIGINT)
    main = threading.current_thread() is threading.main_thread()
    if not (main and callable(before)):
        yield
        return
    late: list[tuple[int, FrameType | None]] = []
    try:
        signal.signal(signal.SIGINT, lambda *what: late.append(what))
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if late:
            before(*late[0])


@contextlib.contextmanager
def lock_file(
    lock: Path, seconds: float, say_waiting: Callable[[], None] | None = None
) -> Iterator[None]:
    """Nobody else is in such a block with this file; wait so long for that at most.

    A process that is killed gives its lock back. Where a file system knows no locks,
    go on without. say_waiting: is called once if one has to wait for a second.
    """
    try:
        import fcntl
    except ImportError:  # not on Windows
        yield
        return
    with open(lock, "a") as file:
        begun = time.monotonic()
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                waited = time.monotonic() - begun
                if waited > seconds:
                    break
                if waited > 1 and say_waiting:
                    say_waiting()
                    say_waiting = None
                time.sleep(0.005 if waited < 1 else 0.05)
            except OSError:
                break
        yield  # closing the file gives the lock back


def _find_cure(path: Path) -> str:
    if path.parent.is_dir():
        return f"Make room there, or see that you may write in {path.parent}"
    return f"There is no folder {path.parent}"
