"""Files that the lab writes: atomic writes, permanent records, and a cache.

A file is written next to its target under another name, then renamed. Concurrent
writers and processes that die therefore never leave half a file.

Kept stores data that a user would miss: guesses of predict() and solved puzzles. These
small JSON files are neither pruned nor cleared; weft.keep() moves them elsewhere.
Each change applies, under a lock, to the file's current content, so two notebooks do
not overwrite each other. A damaged file is renamed, not overwritten; if the folder is
not writable, records last for this session only.

Results that can be recomputed are in the user's cache folder. It contains libraries,
which are code. A folder that other users own or can write to is therefore refused, and
no symbolic link inside it is followed.
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
import stat
import struct
import sys
import tempfile
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import platformdirs

from .errors import Short, defer_interrupts

PART = "libweft_part_"  # name prefix of unfinished files; see `make clean`
LEFT = 86400.0  # age in seconds at which an unfinished file counts as abandoned


class CannotWrite(Short, OSError):
    """A file cannot be written; the message names the file and suggests a cure."""


@contextlib.contextmanager
def replace_file(path: Path) -> Iterator[Path]:
    """Yield an empty file next to `path`; it replaces `path` if the block succeeds.

    Raises CannotWrite if either file cannot be written.
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
        reason = error.strerror or str(error)
        cure = f"The folder {path.parent} does not exist"
        if path.parent.is_dir():
            cure = f"Free some space, or make {path.parent} writable"
        raise CannotWrite(f"cannot write {path}: {reason}. {cure}") from error
    finally:
        if part:
            part.unlink(missing_ok=True)


def write(path: Path, data: str | bytes) -> None:
    """Write a file, with text in UTF-8; raise CannotWrite if that fails."""
    with replace_file(path) as part:
        part.write_bytes(data.encode() if isinstance(data, str) else data)


def is_complete_elf(path: Path) -> bool:
    """Return whether a library, an object file or a program is complete.

    A power failure may leave an incomplete one, and opening it would kill the process.
    """
    try:
        with path.open("rb") as file:
            head = file.read(64)
        size = path.stat().st_size
    except OSError:
        return False
    if len(head) < 64 or head[:4] != b"\x7fELF":
        return False
    # The section table comes last: read its offset, its entry size and entry count.
    offset, entry_size, count = struct.unpack("<40xQ10xHH2x", head)
    return offset + entry_size * count <= size


def sweep(folder: Path) -> None:
    """Delete unfinished files in a folder that are older than LEFT."""
    for path in folder.glob(f"{PART}*"):
        with contextlib.suppress(OSError):  # another process may have deleted it first
            if _is_abandoned(path, path.lstat()):
                path.unlink()


@contextlib.contextmanager
def lock_file(
    lock: Path, seconds: float, say_waiting: Callable[[], None] | None = None
) -> Iterator[None]:
    """Lock a file for the block; wait for the lock for at most `seconds`.

    The system releases the lock of a killed process. If the file system does not
    support locks, or the time runs out, the block runs without a lock. say_waiting:
    called after one second.
    """
    import filelock  # imported lazily: it takes 30 ms

    # filelock's fallback without locks, a marker file, would outlive a killed process.
    try:
        file_lock = filelock.FileLock(lock, fallback_to_soft=False)
    except TypeError:  # filelock 3.25, as in Kaggle, has no such parameter
        file_lock = filelock.FileLock(lock)
    try:
        try:
            file_lock.acquire(min(seconds, 1.0), poll_interval=0.005)
        except filelock.Timeout:
            if say_waiting:
                say_waiting()
            file_lock.acquire(max(seconds - 1.0, 0.0), poll_interval=0.05)
    except filelock.Timeout:
        pass
    except (OSError, NotImplementedError) as error:
        if getattr(error, "errno", errno.ENOSYS) not in _NO_LOCKS:
            raise
    try:
        yield
    finally:
        file_lock.release()


# Errors of flock() on file systems without locks; NotImplementedError means ENOSYS.
_NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL)


WAIT = 2.0  # seconds to wait for another process's change, which usually takes 1 ms
Records = dict[str, Any]
Merge = Callable[[Records, Records], Any]


@functools.cache  # the message appears only once
def _warn_not_lasting() -> None:
    kept = f"kept in {cache_folder() / KEPT} until this session ends"
    text = f"the cache folder is not writable: solutions and guesses are {kept}"
    print(f"weft: {text}", file=sys.stderr)


all_kept: weakref.WeakSet[Kept] = weakref.WeakSet()


class Kept:
    """Records in the file <name>.json of kept_folder().

    merge: adds the second records to the first, when weft.keep() joins two files; by
    default, the second records take precedence.
    """

    def __init__(self, name: str, merge: Merge | None = None) -> None:
        self.name, self.merge = name, merge or dict.update
        all_kept.add(self)
        self._records: Records = {}  # the records if no file can be written
        self._memory_only = False
        self._last_message = ""

    @property
    def path(self) -> Path:
        """The path of the file; its folder exists."""
        return kept_folder() / f"{self.name}.json"

    @property
    def in_memory(self) -> bool:
        """Whether records stay in memory: in the tests, or after a failed write."""
        return self._memory_only or bool(os.environ.get("WEFT_SMALL"))

    def read(self) -> Records:
        """Return a copy of all records, which is empty if there is no file."""
        if not self.in_memory:
            try:
                return self._load()
            except OSError as error:
                self._forget(f"cannot be read ({error.strerror or error})")
        return dict(self._records)

    def change(self, how: Callable[[Records], None]) -> Records:
        """Call `how` to change the records; return the changed records.

        If writing fails, `how` is called again, on the records in memory.
        """
        if not self.in_memory:
            try:
                # Each change replaces the file, so the lock is another file.
                with lock_file(self.path.with_suffix(".lock"), WAIT):
                    records = self._load()
                    how(records)
                    write(self.path, json.dumps(records, indent=1))
                if not os.environ.get(KEEP) and not is_lasting():
                    _warn_not_lasting()
                return records
            except OSError as refused:
                error = refused.__cause__ or refused
                with contextlib.suppress(OSError):
                    self._records = self._load()
                self._forget(f"cannot be written ({error.strerror or error})")
        how(self._records)
        return dict(self._records)

    def resume(self, others: Records) -> None:
        """Add records to the file, even if an earlier write failed.

        Raises CannotWrite if writing fails again.
        """
        self._memory_only = False
        self.change(lambda records: self.merge(records, others))
        if self._memory_only:
            raise CannotWrite(f"cannot write {self.name}.json in {kept_folder()}")

    def _load(self) -> Records:
        try:
            records = json.loads(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except ValueError:
            records = None
        if isinstance(records, dict):
            return records
        self._set_aside()
        return {}

    def _set_aside(self) -> None:
        """Rename a damaged file, so that its content is not lost."""
        names = (f"{self.name}.damaged{n}.json" for n in itertools.count(1))
        target = next(p for p in map(self.path.with_name, names) if not p.exists())
        with contextlib.suppress(FileNotFoundError):  # another notebook renamed it
            os.replace(self.path, target)
            self._last_message = ""
            self._say(f"is damaged: its old contents are now in {target.name}")

    def _forget(self, reason: str) -> None:
        """Keep the records only in memory until this session ends."""
        self._memory_only = True
        self._say(f"{reason}: kept for this session only")

    def _say(self, message: str) -> None:
        """Print one line on stderr, unless it repeats the previous one."""
        if message != self._last_message:
            folder = os.environ.get(KEEP) or cache_folder() / KEPT
            print(f"weft: {folder}/{self.name}.json {message}", file=sys.stderr)
        self._last_message = message


KEPT = "kept"  # folder of data that cannot be recomputed; see Kept
KEEP = "WEFT_KEEP"  # environment variable: another folder for KEPT; weft.keep() sets it
SAVED = "// Saved from a notebook's cell by %%cuda --save: "
LIMIT = 1 << 30  # maximum size of the cache, in bytes


def kept_folder(*parts: str) -> Path:
    """Return the folder of data that a user would miss; create it if it is missing.

    Raises CannotWrite if the folder above WEFT_KEEP is missing (an unmounted drive).
    """
    if not (chosen := os.environ.get(KEEP)):
        return cache_folder(KEPT, *parts)
    path = Path(chosen, *parts)
    try:
        Path(chosen).mkdir(exist_ok=True)
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CannotWrite(f"{path} cannot be used: {error.strerror}") from error
    return path


def cache_folder(*parts: str) -> Path:
    """Return the cache folder (WEFT_CACHE overrides); create it if it is missing.

    If the folder is not writable, or others can write to it, this process uses a new
    folder in the system's temporary directory. The next start is then slower. Raises
    CannotWrite if that folder cannot be used either.
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
        reason = "" if os.access(path, os.W_OK | os.X_OK) else "cannot be written"
    except OSError as error:
        reason = f"cannot be created ({error.strerror})"
    if not reason:
        return path
    if _temporary or parts[:1] == (KEPT,):  # Kept handles this error itself
        raise CannotWrite(f"{path} {reason}: set WEFT_CACHE to a folder that you own")
    _root = _make_temporary_folder(path, reason)
    return cache_folder(*parts)


def has_file(path: Path) -> bool:
    """Return whether the cache has a file; delete a link or an incomplete binary."""
    binary = path.suffix in ("", ".o", ".so")
    if path.is_symlink() or (path.is_file() and binary and not is_complete_elf(path)):
        path.unlink(missing_ok=True)
    return path.is_file()


def is_lasting() -> bool:
    """Return whether the cache outlives this process, unlike a temporary folder."""
    cache_folder()
    return not _temporary


def measure_cache() -> int:
    """Return the size of the cache in bytes, without KEPT."""
    return sum(status.st_size for _, status in _list_files())


def clear() -> int:
    """Delete everything in the cache except KEPT; return the number of bytes freed."""
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
    for path, status in files:
        if _is_abandoned(path, status):
            path.unlink(missing_ok=True)
    total = sum(status.st_size for _, status in files)
    for path, status in files:
        if total <= limit:
            return
        path.unlink(missing_ok=True)
        total -= status.st_size


@functools.cache
def prune_at_exit() -> None:
    """Call prune() when this process ends, since pruning takes as long as compiling."""
    atexit.register(prune)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `python -m weft cache`."""
    kept = "which contains your progress with the puzzles and your guesses"
    text = f"delete everything except the folder {KEPT!r}, {kept}"
    parser.add_argument("--clear", action="store_true", help=text)


def main(args: argparse.Namespace) -> int:
    """Print the size of each folder in the cache, or clear the cache."""
    if args.clear:
        print(f"freed {clear() / 2**20:.1f} MiB in {cache_folder()}")
        if cache_folder(KEPT).exists() and any(cache_folder(KEPT).iterdir()):
            print(f"kept: {cache_folder(KEPT)} (progress with the puzzles, guesses)")
        return 0
    used = f"{measure_cache() / 2**20:.1f} of at most {LIMIT / 2**20:.0f} MiB used"
    print(f"{cache_folder()}: {used}")
    for part in sorted(path for path in cache_folder().iterdir() if path.is_dir()):
        sizes = [status.st_size for _, status in _list_files(part.name)]
        print(f"  {part.name:<12} {sum(sizes) / 2**20:8.1f} MiB in {len(sizes)} files")
    return 0


_root: Path | None = None
_temporary = False


def _choose_folder() -> Path:
    """Return the path intended for the cache, even if it is unusable."""
    folder = os.environ.get("WEFT_CACHE")
    with contextlib.suppress(RuntimeError):  # newer Pythons raise this without HOME
        folder = folder or platformdirs.user_cache_dir("weft")
    return Path(os.path.expanduser(folder or "~/.cache/weft"))


def _check_folder(path: Path) -> Path:
    """Return `path` if it is safe and writable, else a temporary folder."""
    if path.parts[:1] == ("~",):  # the home folder is unknown
        reason = "is in an unknown home folder (HOME is not set)"
        return _make_temporary_folder(path, reason)
    try:
        path = path.absolute()
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        str(path).encode()  # opening a library requires a path in valid UTF-8
        reason = _explain_unsafe(path)
        if not reason:
            with tempfile.TemporaryFile(dir=path):
                return path
        reason += ": nothing in it is loaded"
    except UnicodeEncodeError:
        reason = "has a name that is not UTF-8"
    except OSError as error:
        reason = f"cannot be written ({error.strerror})"
    return _make_temporary_folder(path, reason)


def _make_temporary_folder(path: Path, reason: str) -> Path:
    """Create a temporary folder, since `path` is unusable; print the reason."""
    global _temporary
    try:
        folder = Path(tempfile.mkdtemp(prefix="weft-"))
    except OSError as error:
        raise CannotWrite(
            f"the cache folder {str(path)!r} {reason}, and no temporary folder can be "
            f"created ({error.strerror}): set WEFT_CACHE or TMPDIR to a folder that "
            f"you own"
        ) from None
    _temporary = True
    atexit.register(_remove, folder, os.getpid())
    effect = "this session uses a temporary folder (set WEFT_CACHE to use another)"
    text = f"weft: the cache folder {str(path)!r} {reason}; {effect}"
    print(text, file=sys.stderr)
    return folder


def _remove(folder: Path, owner: int) -> None:
    if os.getpid() == owner:  # a forked child must not delete the folder
        shutil.rmtree(folder, ignore_errors=True)


def _explain_unsafe(path: Path) -> str:
    """Return the reason why code from a folder is unsafe; "" if it is safe."""
    status = path.stat()
    if status.st_uid != os.geteuid():
        return f"belongs to user {status.st_uid} and not to {os.geteuid()}"
    if status.st_mode & stat.S_IWOTH:
        return f"can be written by every user (chmod o-w {path})"
    if status.st_mode & stat.S_IWGRP and not _is_private(status.st_gid):
        return f"can be written by its group {status.st_gid} (chmod g-w {path})"
    return ""


def _is_private(group: int) -> bool:
    """Return whether this user is the group's only member, which is usual on Linux."""
    try:
        import grp
        import pwd

        entry, user = grp.getgrgid(group), pwd.getpwuid(os.geteuid())
    except (ImportError, KeyError):
        return False
    members = set(entry.gr_mem) - {user.pw_name}
    return group == user.pw_gid and entry.gr_name == user.pw_name and not members


def _is_abandoned(path: Path, status: os.stat_result) -> bool:
    return path.name.startswith(PART) and status.st_mtime < time.time() - LEFT


def _list_files(*parts: str) -> list[tuple[Path, os.stat_result]]:
    """List the files below a part of the cache, without those in KEPT.

    os.walk() skips a folder that another process has deleted; rglob() would fail.
    """
    files, kept_folder = [], cache_folder() / KEPT
    for folder, folders, names in os.walk(cache_folder().joinpath(*parts)):
        for path in [Path(folder, name) for name in [*folders, *names]]:
            with contextlib.suppress(OSError):  # another process may have deleted it
                status = path.lstat()
                if not stat.S_ISDIR(status.st_mode) and kept_folder not in path.parents:
                    files.append((path, status))
    return files
