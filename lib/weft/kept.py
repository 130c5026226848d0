"""What a user would miss: small JSON files that a pruned or cleared cache keeps.

The guesses of predict() and what is solved of the puzzles. A change is made to what the
file holds at that moment, under a lock, and put into its place whole: two notebooks at
once do not take each other's away. A file that cannot be read is set aside, not
overwritten; a folder that cannot be written means this session's memory.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from . import cache

WAIT = 2.0  # seconds for another's change, which takes a millisecond
Records = dict[str, Any]


@functools.cache  # once, whatever is kept
def _say_not_lasting() -> None:
    here = cache.folder() / cache.KEPT
    print(
        f"weft: the cache folder cannot be written: what is solved or guessed is kept "
        f"in {here}, until this session ends",
        file=sys.stderr,
    )


class Kept:
    """Records by name in the file kept/<name>.json of the user's cache folder."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._held: Records = {}  # where no file is written
        self._memory_only = False
        self._said = ""

    @property
    def path(self) -> Path:
        """The file, in a folder that is there."""
        return cache.folder(cache.KEPT) / f"{self.name}.json"

    @property
    def in_memory(self) -> bool:
        """Whether no file is written: in the suite, or since writing one failed."""
        return self._memory_only or bool(os.environ.get("WEFT_SMALL"))

    def read(self) -> Records:
        """All records, a copy; none where there is no file."""
        if not self.in_memory:
            try:
                return self._load()
            except OSError as error:
                self._forget(f"cannot be read ({error.strerror or error})")
        return dict(self._held)

    def change(self, how: Callable[[Records], None]) -> Records:
        """Let `how` change the records; returns them as they are then.

        `how` may be called twice: where writing fails, on what is in memory.
        """
        if not self.in_memory:
            try:
                with self._alone():
                    records = self._load()
                    how(records)
                    self._write(records)
                if not cache.lasts():
                    _say_not_lasting()
                return records
            except OSError as error:
                with contextlib.suppress(OSError):
                    self._held = self._load()
                self._forget(f"cannot be written ({error.strerror or error})")
        how(self._held)
        return dict(self._held)

    def _load(self) -> Records:
        try:
            found = json.loads(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except ValueError:
            found = None
        if isinstance(found, dict):
            return found
        self._set_aside()
        return {}

    def _write(self, records: Records) -> None:
        path = self.path
        beside = path.with_name(f"{path.name}.{os.getpid()}.part")
        try:
            beside.write_text(json.dumps(records, indent=1), encoding="utf-8")
            os.replace(beside, path)
        except OSError:
            with contextlib.suppress(OSError):
                beside.unlink(missing_ok=True)
            raise

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Nobody else changes the file meanwhile; at most WAIT is waited for that.

        Where a file system knows no locks, go on without.
        """
        try:
            import fcntl
        except ImportError:  # not on Windows
            yield
            return
        # A file of its own: the one with the records is replaced by each change.
        with open(self.path.with_suffix(".lock"), "a") as lock:
            until = time.monotonic() + WAIT
            while True:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > until:
                        break
                    time.sleep(0.005)
                except OSError:
                    break
            yield  # closing the file gives the lock back

    def _set_aside(self) -> None:
        """Rename a damaged file, so that what is in it is not lost."""
        names = (f"{self.name}.damaged{n}.json" for n in itertools.count(1))
        free = (path for path in map(self.path.with_name, names) if not path.exists())
        aside = next(free)
        with contextlib.suppress(FileNotFoundError):  # another notebook was first
            os.replace(self.path, aside)
            self._said = ""
            self._say(f"is damaged: begun anew, what it held is in {aside.name}")

    def _forget(self, why: str) -> None:
        """From now on in memory."""
        self._memory_only = True
        self._say(f"{why}: kept for this session only")

    def _say(self, what: str) -> None:
        """One line on stderr, once."""
        if what != self._said:
            where = cache.folder() / cache.KEPT / f"{self.name}.json"
            print(f"weft: {where} {what}", file=sys.stderr)
        self._said = what
