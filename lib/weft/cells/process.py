"""Another Python, for work that may ruin or block the one in which it is done."""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
from multiprocessing import connection
from typing import Any


class Process:
    """The other process, and the pipe to it.

    arguments: of Python; after them comes the number of the pipe's other end, which
    multiprocessing.connection.Connection takes. environment: on top of this one's.
    """

    def __init__(self, *arguments: str, **environment: str) -> None:
        self.owner = os.getpid()
        self.pipe, theirs = connection.Pipe()
        paths = os.pathsep.join(p for p in sys.path if p)
        with theirs:
            self.child = subprocess.Popen(
                [sys.executable, *arguments, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is ours to handle
                env={**os.environ, "PYTHONPATH": paths, **environment},
            )
        atexit.register(self.end)

    def first_word(self, seconds: float) -> Any:
        """What it says first; None if it says nothing for so long.

        Raises EOFError if it ends instead. Whatever is raised, it is gone then.
        """
        try:
            return self.pipe.recv() if self.pipe.poll(seconds) else None
        except BaseException:
            self.end()
            raise

    def alive(self) -> bool:
        """Whether it takes work."""
        return not self.pipe.closed and self.child.poll() is None

    def end(self) -> None:
        """End it, whatever it does, and wait until it is gone."""
        if self.owner != os.getpid():
            return  # this is a fork of the one whose process it is
        atexit.unregister(self.end)
        self.pipe.close()
        self.child.kill()
        self.child.wait()
