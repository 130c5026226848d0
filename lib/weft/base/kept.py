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
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import cache, whole

WAIT = 2.0  # seconds for another's change, which takes a millisecond
Records = dict[str, Any]


@functools.cache  # once, whatever is kept
def _say_not_lasting() -> None:
    here = cache.cache_folder() / cache.KEPT
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
        return cache.cache_folder(cache.KEPT) / f"{self.name}.json"

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
                with whole.lock_file(self.path.with_suffix(".lock"), WAIT):
                    records = self._load()
                    how(records)
                    self._write(records)
                if not cache.is_lasting():
                    _say_not_lasting()
                return records
            except OSError as refused:
                error = refused.__cause__ or refused
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
        # A lock of its own: this file is replaced by each change.
        whole.write(self.path, json.dumps(records, indent=1))

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
            where = cache.cache_folder() / cache.KEPT / f"{self.name}.json"
            print(f"weft: {where} {what}", file=sys.stderr)
        self._said = what
