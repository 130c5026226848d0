"""Files that the lab keeps: written whole or not at all, cached, or permanent.

A file is written beside its target under another name, then takes its place. So other
writers, or a process that dies, never leave half a file.

Kept holds data that a user would miss: the guesses of predict() and the puzzles solved.
Pruning or clearing the cache keeps these small JSON files. Each change applies, under a
lock, to the file's current content, so two notebooks do not overwrite each other. A
damaged file is set aside, not overwritten; if the folder is not writable, records last
for this session only.

Results that can be recomputed go to one cache folder of the user's. The libraries in it
are loaded, so they are code. A folder that other users own or can write to is refused,
and no symbolic link inside it is followed.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import errno
import functools
import itertools
import json
import os
import shutil
import signal
import stat
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import platformdirs

from .tracebacks import Short

PART = "libweft_part_"  # prefix of unfinished files, which `make clean` uses
LEFT = 86400.0  # seconds after which an unfinished file counts as abandoned


class CannotWrite(Short, OSError):
    """A file cannot be written; the message names it and suggests a cure."""


@contextlib.contextmanager
def replace_file(path: Path) -> Iterator[Path]:
    """Yield an empty file next to `path`; it replaces `path` if the block succeeds.

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
    """Write a file, text in UTF-8; raise CannotWrite if that fails."""
    with replace_file(path) as part:
        part.write_bytes(data.encode() if isinstance(data, str) else data)


def is_elf(path: Path) -> bool:
    """Return whether a library, an object or a program is complete.

    A power failure may leave half of one, and opening that would kill the process.
    """
    try:
        with path.open("rb") as file:
            head = file.read(64)
        size = path.stat().st_size
    except OSError:
        return False
    if len(head) < 64 or head[:4] != b"\x7fELF":
        return False
    # The section table comes last: its offset, the size and number of its entries.
    at, each, count = struct.unpack("<40xQ10xHH2x", head)
    return at + each * count <= size


def sweep(folder: Path) -> None:
    """Delete the unfinished files that killed processes left in a folder."""
    before = time.time() - LEFT
    for path in folder.glob(f"{PART}*"):
        with contextlib.suppress(OSError):  # another process did it first
            if path.lstat().st_mtime < before:
                path.unlink()


@contextlib.contextmanager
def defer_interrupts() -> Iterator[None]:
    """Delay Ctrl-C until the block ends, so that its results are recorded."""
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
    """Hold a lock file in the block; wait for it for at most `seconds`.

    The lock of a killed process is released. Where a file system has no locks, or the
    time is up, the block runs without one. say_waiting: called once after a second.
    """
    import filelock  # not at the top, since it takes 30 ms

    # Marker files in place of missing locks would outlive a killed process.
    held = filelock.FileLock(lock, fallback_to_soft=False)
    try:
        try:
            held.acquire(min(seconds, 1.0), poll_interval=0.005)
        except filelock.Timeout:
            if say_waiting:
                say_waiting()
            held.acquire(max(seconds - 1.0, 0.0), poll_interval=0.05)
    except filelock.Timeout:
        pass
    except (OSError, NotImplementedError) as error:
        if getattr(error, "errno", errno.ENOSYS) not in _NO_LOCKS:
            raise
    try:
        yield
    finally:
        held.release()


# Errors of flock() on file systems without locks. NotImplementedError is ENOSYS.
_NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL)


def _find_cure(path: Path) -> str:
    if path.parent.is_dir():
        return f"Make room there, or see that you may write in {path.parent}"
    return f"There is no folder {path.parent}"


WAIT = 2.0  # seconds to wait for another's change, which takes a millisecond
Records = dict[str, Any]


@functools.cache  # one message, regardless of what is kept
def _say_not_lasting() -> None:
    here = cache_folder() / KEPT
    print(
        f"weft: the cache folder cannot be written: solutions and guesses are kept "
        f"in {here}, until this session ends",
        file=sys.stderr,
    )


class Kept:
    """Records by name in the file kept/<name>.json of the user's cache folder."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._held: Records = {}  # used where no file is written
        self._memory_only = False
        self._said = ""

    @property
    def path(self) -> Path:
        """The path of the file; its folder exists."""
        return cache_folder(KEPT) / f"{self.name}.json"

    @property
    def in_memory(self) -> bool:
        """Whether records stay in memory: in the tests, or after a failed write."""
        return self._memory_only or bool(os.environ.get("WEFT_SMALL"))

    def read(self) -> Records:
        """Return a copy of all records; an empty one if there is no file."""
        if not self.in_memory:
            try:
                return self._load()
            except OSError as error:
                self._forget(f"cannot be read ({error.strerror or error})")
        return dict(self._held)

    def change(self, how: Callable[[Records], None]) -> Records:
        """Let `how` change the records; return them as they are then.

        If writing fails, `how` is called a second time, on the records in memory.
        """
        if not self.in_memory:
            try:
                with lock_file(self.path.with_suffix(".lock"), WAIT):
                    records = self._load()
                    how(records)
                    self._write(records)
                if not is_lasting():
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
        # The lock is a file of its own, since each change replaces this one.
        write(self.path, json.dumps(records, indent=1))

    def _set_aside(self) -> None:
        """Rename a damaged file, so that its content is not lost."""
        names = (f"{self.name}.damaged{n}.json" for n in itertools.count(1))
        free = (path for path in map(self.path.with_name, names) if not path.exists())
        aside = next(free)
        with contextlib.suppress(FileNotFoundError):  # another notebook did it first
            os.replace(self.path, aside)
            self._said = ""
            self._say(f"is damaged: started afresh, old contents in {aside.name}")

    def _forget(self, why: str) -> None:
        """Keep the records in memory from now on."""
        self._memory_only = True
        self._say(f"{why}: kept for this session only")

    def _say(self, what: str) -> None:
        """Print one line on stderr, once."""
        if what != self._said:
            where = cache_folder() / KEPT / f"{self.name}.json"
            print(f"weft: {where} {what}", file=sys.stderr)
        self._said = what


KEPT = "kept"  # folder of data that cannot be recomputed (Kept); it stays
LIMIT = 1 << 30  # bytes; a larger cache loses its oldest files first


def cache_folder(*parts: str) -> Path:
    """Return the cache folder (WEFT_CACHE overrides); create it if it is missing.

    If it is not writable, or others can write to it, this process uses its own folder
    in the system's temporary directory. That works, but the next start is slower.
    CannotWrite is raised if that folder cannot be used either.
    """
    global _root
    if _root is None:
        _root = _check_folder(_choose_folder())
    path = _root
    for part in parts:
        path = path / part
        if path.is_symlink():
            path.unlink()
    try:
        path.mkdir(parents=True, exist_ok=True)
        why = "" if os.access(path, os.W_OK | os.X_OK) else "cannot be written"
    except OSError as error:
        why = f"cannot be made ({error.strerror})"
    if not why:
        return path
    if _temporary or parts[:1] == (KEPT,):  # Kept handles the latter itself
        raise CannotWrite(f"{path} {why}: let WEFT_CACHE name a folder of yours")
    _root = _make_temporary_folder(path, why)
    return cache_folder(*parts)


def has_file(path: Path) -> bool:
    """Return whether a file is in the cache; remove a link in its place, and half of a
    library, object or program."""
    binary = path.suffix in ("", ".o", ".so")
    if path.is_symlink() or (path.is_file() and binary and not is_elf(path)):
        path.unlink(missing_ok=True)
    return path.is_file()


def is_lasting() -> bool:
    """Return whether the cache outlives this process; a temporary folder does not."""
    cache_folder()
    return not _temporary


def measure_cache() -> int:
    """Return the bytes in the cache, without those in KEPT."""
    return sum(about.st_size for _, about in _list_files())


def clear() -> int:
    """Delete everything in the cache but KEPT; return the bytes freed."""
    freed = measure_cache()
    for path in cache_folder().iterdir():
        if path.name == KEPT:
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    return freed


def prune(limit: int = LIMIT) -> None:
    """Delete the least recently used files until at most `limit` bytes remain.

    The files in KEPT stay and do not count.
    """
    files = sorted(_list_files(), key=lambda item: item[1].st_mtime)
    for parent in {path.parent for path, _ in files}:
        sweep(parent)
    total = sum(about.st_size for _, about in files)
    for path, about in files:
        if total <= limit:
            return
        path.unlink(missing_ok=True)
        total -= about.st_size


@functools.cache
def prune_at_exit() -> None:
    """Call prune() when this process ends: checking every file takes as long as
    compiling a cell."""
    atexit.register(prune)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `python -m weft cache`."""
    parser.add_argument(
        *("--clear",),
        action="store_true",
        help=f"delete all of it, but for the folder {KEPT!r}: your progress with the "
        f"puzzles and your guesses",
    )


def main(args: argparse.Namespace) -> int:
    """Print what is cached, or clear it."""
    if args.clear:
        print(f"freed {clear() / 2**20:.1f} MiB in {cache_folder()}")
        if cache_folder(KEPT).exists() and any(cache_folder(KEPT).iterdir()):
            print(f"kept: {cache_folder(KEPT)} (progress with the puzzles, guesses)")
        return 0
    print(
        f"{cache_folder()}: {measure_cache() / 2**20:.1f} of at most "
        f"{LIMIT / 2**20:.0f} MiB"
    )
    for part in sorted(path for path in cache_folder().iterdir() if path.is_dir()):
        files = [path.stat().st_size for path in part.rglob("*") if path.is_file()]
        print(f"  {part.name:<12} {sum(files) / 2**20:8.1f} MiB in {len(files)} files")
    return 0


_root: Path | None = None
_temporary = False


def _choose_folder() -> Path:
    """Return the path intended for the cache, whether or not it is usable."""
    named = os.environ.get("WEFT_CACHE")
    with contextlib.suppress(RuntimeError):  # newer Pythons raise it without a home
        named = named or platformdirs.user_cache_dir("weft")
    return Path(os.path.expanduser(named or "~/.cache/weft"))


def _check_folder(path: Path) -> Path:
    """Return `path` if only this user can write to it, else a temporary folder."""
    if path.parts[:1] == ("~",):  # the system does not know the user either
        return _make_temporary_folder(
            path, "is in an unknown home folder (HOME is not set)"
        )
    try:
        path = path.absolute()
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        str(path).encode()  # otherwise no library in it can be opened
        why = _explain_unsafe(path)
        if not why:
            with tempfile.TemporaryFile(dir=path):
                return path
        why += ": nothing in it is loaded"
    except UnicodeEncodeError:
        why = "has a name that is not UTF-8"
    except OSError as error:
        why = f"cannot be written ({error.strerror})"
    return _make_temporary_folder(path, why)


def _make_temporary_folder(path: Path, why: str) -> Path:
    """Return a temporary folder because `path` is unusable; print why."""
    global _temporary
    try:
        made = Path(tempfile.mkdtemp(prefix="weft-"))
    except OSError as error:
        raise CannotWrite(
            f"the cache folder {str(path)!r} {why}, and there is no temporary folder "
            f"({error.strerror}): let WEFT_CACHE or TMPDIR name a folder of yours"
        ) from None
    _temporary = True
    atexit.register(_remove, made, os.getpid())
    print(
        f"weft: the cache folder {str(path)!r} {why}; this session uses a temporary "
        f"folder (WEFT_CACHE names another)",
        file=sys.stderr,
    )
    return made


def _remove(made: Path, owner: int) -> None:
    if os.getpid() == owner:  # not a fork of it
        shutil.rmtree(made, ignore_errors=True)


def _explain_unsafe(path: Path) -> str:
    """Explain why code must not be loaded from a folder; "" if it may be."""
    about = path.stat()
    if about.st_uid != os.geteuid():
        return f"belongs to user {about.st_uid} and not to {os.geteuid()}"
    if about.st_mode & stat.S_IWOTH:
        return f"can be written by every user (chmod o-w {path})"
    if about.st_mode & stat.S_IWGRP and not _is_private(about.st_gid):
        return f"can be written by its group {about.st_gid} (chmod g-w {path})"
    return ""


def _is_private(group: int) -> bool:
    """Return whether this user is a group's only member, as many systems set up."""
    try:
        import grp
        import pwd

        entry, user = grp.getgrgid(group), pwd.getpwuid(os.geteuid())
    except (ImportError, KeyError):
        return False
    members = set(entry.gr_mem) - {user.pw_name}
    return group == user.pw_gid and entry.gr_name == user.pw_name and not members


def _list_files() -> list[tuple[Path, os.stat_result]]:
    found = []
    kept = cache_folder() / KEPT
    for path in cache_folder().rglob("*"):
        try:
            about = path.lstat()
            if not stat.S_ISDIR(about.st_mode) and kept not in path.parents:
                found.append((path, about))
        except OSError:
            continue  # another process pruned it meanwhile
    return found
