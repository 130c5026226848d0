"""Show a kernel's printed output where Python's print() writes, and in order.

printf() in a kernel is the C function: it writes to file descriptor 1 and bypasses
Python's sys.stdout. In a notebook, descriptor 1 is not the cell's output.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from typing import IO

from cffi import FFI

MOST = 1 << 20  # maximum number of bytes to show
# A launch that prints more bytes than this is stopped so that it cannot fill the disk.
MOST_PRINTED = 64 << 20

ffi = FFI()
ffi.cdef("int fflush(void *file);")
_libc = ffi.dlopen(None)


@contextlib.contextmanager
def capture_output(prints: bool = True, shown: bool = True) -> Iterator[None]:
    """Redirect C's output in the block to the place of Python's output.

    The function does nothing if `prints` is false. The text appears when the block
    ends, even with an exception; with shown=False it is dropped.
    """
    if not prints:
        yield
        return
    sys.stdout.flush()
    if shown and _is_descriptor_1():
        try:
            yield
        finally:
            flush()
        return
    flush()  # earlier output does not belong to the block
    with tempfile.TemporaryFile() as file:
        saved = os.dup(1)
        os.dup2(file.fileno(), 1)
        try:
            yield
        finally:
            flush()
            os.dup2(saved, 1)
            os.close(saved)
            if shown:
                sys.stdout.write(read_output(file))
                sys.stdout.flush()


def flush() -> None:
    """Flush C's output streams."""
    _libc.fflush(ffi.NULL)


def read_output(file: IO[bytes]) -> str:
    """Return the content of a binary file, at most its first MOST bytes."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    text = file.read(MOST).decode(errors="replace")
    return text + (f"\n... and {size - MOST} more bytes\n" if size > MOST else "")


def _is_descriptor_1() -> bool:
    try:
        return sys.stdout.fileno() == 1 and type(sys.stdout).__name__ != "OutStream"
    except (OSError, AttributeError, ValueError):
        return False
