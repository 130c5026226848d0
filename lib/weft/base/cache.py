"""Where the lab keeps what it can make again: one folder of the user's.

Libraries in it are loaded, so they are code: a folder that is another user's, or that
others may write to, is refused, and no symbolic link inside it is followed.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import functools
import os
import shutil
import stat
import sys
import tempfile
from pathlib import Path

import platformdirs

from . import whole

KEPT = "kept"  # the folder of what cannot be made again (kept.py): it stays
LIMIT = 1 << 30  # bytes; the oldest files go first once the cache is larger


def cache_folder(*parts: str) -> Path:
    """The cache folder (WEFT_CACHE overrides), made if it is missing.

    Where it cannot be written, or is not the user's alone, a folder of this process's
    own in the system's temporary directory: slower next time, but it works. Raises
    CannotWrite if there is none either.
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
    if _temporary or parts[:1] == (KEPT,):  # for the latter, kept.py has a cure
        raise whole.CannotWrite(f"{path} {why}: let WEFT_CACHE name a folder of yours")
    _root = _make_temporary_folder(path, why)
    return cache_folder(*parts)


def has_file(path: Path) -> bool:
    """Whether a file of the cache is there; a link in its place is removed, and so is
    half a library, object or program."""
    binary = path.suffix in ("", ".o", ".so")
    if path.is_symlink() or (path.is_file() and binary and not whole.is_elf(path)):
        path.unlink(missing_ok=True)
    return path.is_file()


def is_lasting() -> bool:
    """Whether the cache outlives this process: not so in a temporary folder."""
    cache_folder()
    return not _temporary


def measure_cache() -> int:
    """Bytes in the cache, less those in KEPT."""
    return sum(about.st_size for _, about in _list_files())


def clear() -> int:
    """Delete everything in the cache but KEPT; returns the bytes freed."""
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
    """Delete the files used longest ago until at most `limit` bytes remain.

    Those in KEPT stay, and do not count.
    """
    files = sorted(_list_files(), key=lambda item: item[1].st_mtime)
    for parent in {path.parent for path, _ in files}:
        whole.sweep(parent)
    total = sum(about.st_size for _, about in files)
    for path, about in files:
        if total <= limit:
            return
        path.unlink(missing_ok=True)
        total -= about.st_size


@functools.cache
def prune_at_exit() -> None:
    """prune() when this process ends: to look at every file takes as long as to
    compile a cell."""
    atexit.register(prune)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line of `python -m weft cache`."""
    parser.add_argument(
        *("--clear",),
        action="store_true",
        help=f"delete all of it, but for the folder {KEPT!r}: your progress with the "
        f"puzzles and your guesses",
    )


def main(args: argparse.Namespace) -> int:
    """Say what is cached, or clear it."""
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
    """Where the cache should be, whether or not it can be there."""
    named = os.environ.get("WEFT_CACHE")
    with contextlib.suppress(RuntimeError):  # newer ones raise it without a home
        named = named or platformdirs.user_cache_dir("weft")
    return Path(os.path.expanduser(named or "~/.cache/weft"))


def _check_folder(path: Path) -> Path:
    """`path` if this user alone can write it, else a temporary folder."""
    if path.parts[:1] == ("~",):  # the system does not know the user either
        return _make_temporary_folder(
            path, "is in a home that nobody knows (HOME is not set)"
        )
    try:
        path = path.absolute()
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        str(path).encode()  # else no library in it can be opened
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
    """A temporary folder, since `path` is none for a cache; says so."""
    global _temporary
    try:
        made = Path(tempfile.mkdtemp(prefix="weft-"))
    except OSError as error:
        raise whole.CannotWrite(
            f"the cache folder {str(path)!r} {why}, and there is no temporary folder "
            f"({error.strerror}): let WEFT_CACHE or TMPDIR name one of yours"
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
    if os.getpid() == owner:  # and not a fork of it
        shutil.rmtree(made, ignore_errors=True)


def _explain_unsafe(path: Path) -> str:
    """Why code must not be loaded from a folder; "" if it may be."""
    about = path.stat()
    if about.st_uid != os.geteuid():
        return f"belongs to user {about.st_uid} and not to {os.geteuid()}"
    if about.st_mode & stat.S_IWOTH:
        return f"can be written by every user (chmod o-w {path})"
    if about.st_mode & stat.S_IWGRP and not _is_private(about.st_gid):
        return f"can be written by its group {about.st_gid} (chmod g-w {path})"
    return ""


def _is_private(group: int) -> bool:
    """Whether a group has this user alone in it, as many systems make one."""
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
