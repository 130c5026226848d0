"""Where the lab keeps what it can make again: one folder of the user's."""

from __future__ import annotations

import argparse
import atexit
import functools
import os
import shutil
import tempfile
from pathlib import Path

import platformdirs

KEPT = "kept"  # the folder of what cannot be made again (kept.py): it stays
LIMIT = 1 << 30  # bytes; the oldest files go first once the cache is larger


def folder(*parts: str) -> Path:
    """The cache folder (WEFT_CACHE overrides), made if it is missing.

    Where it cannot be written, a folder of this process's own in the system's
    temporary directory: slower next time, but it works.
    """
    global _root
    if _root is None:
        _root = _writable(
            Path(os.environ.get("WEFT_CACHE") or platformdirs.user_cache_dir("weft"))
        )
    path = _root.joinpath(*parts)
    path.mkdir(parents=True, exist_ok=True)
    return path


def lasts() -> bool:
    """Whether the cache outlives this process: not so in a temporary folder."""
    folder()
    return not _temporary


def size() -> int:
    """Bytes in the cache, less those in KEPT."""
    return sum(stat.st_size for _, stat in _files())


def clear() -> int:
    """Delete everything in the cache but KEPT; returns the bytes freed."""
    freed = size()
    for path in folder().iterdir():
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
    files = sorted(_files(), key=lambda item: item[1].st_mtime)
    total = sum(stat.st_size for _, stat in files)
    for path, stat in files:
        if total <= limit:
            return
        path.unlink(missing_ok=True)
        total -= stat.st_size


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
        print(f"freed {clear() / 2**20:.1f} MiB in {folder()}")
        if folder(KEPT).exists() and any(folder(KEPT).iterdir()):
            print(f"kept: {folder(KEPT)} (progress with the puzzles, guesses)")
        return 0
    print(f"{folder()}: {size() / 2**20:.1f} of at most {LIMIT / 2**20:.0f} MiB")
    for part in sorted(path for path in folder().iterdir() if path.is_dir()):
        files = [path.stat().st_size for path in part.rglob("*") if path.is_file()]
        print(f"  {part.name:<12} {sum(files) / 2**20:8.1f} MiB in {len(files)} files")
    return 0


_root: Path | None = None
_temporary = False


def _writable(path: Path) -> Path:
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            return path
    except OSError:
        global _temporary
        _temporary = True
        return Path(tempfile.mkdtemp(prefix="weft-"))


def _files() -> list[tuple[Path, os.stat_result]]:
    found = []
    kept = folder() / KEPT
    for path in folder().rglob("*"):
        try:
            if path.is_file() and kept not in path.parents:
                found.append((path, path.stat()))
        except OSError:
            continue  # another process pruned it meanwhile
    return found
