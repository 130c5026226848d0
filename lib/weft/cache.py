"""Where the lab keeps what it can make again: one folder of the user's."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import platformdirs

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


def size() -> int:
    """Bytes in the cache."""
    return sum(stat.st_size for _, stat in _files())


def clear() -> int:
    """Delete everything in the cache; returns the bytes freed."""
    freed = size()
    shutil.rmtree(folder(), ignore_errors=True)
    return freed


def prune(limit: int = LIMIT) -> None:
    """Delete the files used longest ago until at most `limit` bytes remain."""
    files = sorted(_files(), key=lambda item: item[1].st_mtime)
    total = sum(stat.st_size for _, stat in files)
    for path, stat in files:
        if total <= limit:
            return
        path.unlink(missing_ok=True)
        total -= stat.st_size


_root: Path | None = None


def _writable(path: Path) -> Path:
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            return path
    except OSError:
        return Path(tempfile.mkdtemp(prefix="weft-"))


def _files() -> list[tuple[Path, os.stat_result]]:
    found = []
    for path in folder().rglob("*"):
        try:
            if path.is_file():
                found.append((path, path.stat()))
        except OSError:
            continue  # another process pruned it meanwhile
    return found
