"""Compute cache keys: hashes of the sources that determine a cached object.

list_texts() returns the texts of one object: its source and the headers it includes.
hash_sources() covers whole folders, so adding, renaming or splitting a file changes the
key, and no list of files needs maintenance. A process computes each key once.
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from ..base.paths import PACKAGE, ROOT
from ..csource.scanner import INCLUDE

# The type of read(), whose parameters are a path and the folders of headers.
Reader = Callable[[str, tuple[str, ...]], tuple[str, list[str]] | None]


def list_texts(source: Path, folders: tuple[str, ...], read: Reader) -> list[str]:
    """Return the texts of a source and of the headers in `folders` that it includes."""
    texts: dict[str, str] = {}
    queue = [os.path.normpath(source)]
    if source.suffix == ".cu":  # rewrite() adds this header
        queue += _in_any(folders, "cuda_runtime.h")
    while queue:
        path = queue.pop()
        if path not in texts and (contents := read(path, folders)):
            texts[path], included = contents
            queue += included
    return [texts[path] for path in sorted(texts)]


def read(path: str, folders: tuple[str, ...]) -> tuple[str, list[str]] | None:
    """Return a file's text and the paths of the headers that it includes.

    Returns None if the file does not exist.
    """
    try:
        text = Path(path).read_text()
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        return None
    names = [match["name"] for match in INCLUDE.finditer(text)]
    folder = os.path.dirname(path)
    return text, [p for name in names for p in _in_any((folder, *folders), name)]


def _in_any(folders: Iterable[str], name: str) -> list[str]:
    """Return the existing files called `name` in the folders."""
    paths = [os.path.normpath(os.path.join(folder, name)) for folder in folders]
    return [path for path in paths if os.path.isfile(path)]


SUFFIXES = {".py", ".c", ".cpp", ".cu", ".cuh", ".h", ""}

REWRITER = (
    *("csource/rewrite.py", "csource/preprocess.py", "csource/scanner.py"),
    *("csource/shared.py", "csource/unsupported.py"),
)
RUNTIME = ("kernels/simt",)
BUILDER = ("toolchain",)
CELL = ("csource", "cells", "kernels/simt")
CHECKER = ("ops", "base/arrays.py")
PROGRAM = ("csource", "programs", "toolchain", "kernels/simt")


def list_sources(*places: str) -> list[Path]:
    """Return the source files at or below `places`, sorted.

    places: files and folders, relative to lib/weft, or to the checkout if they begin
    with "kernels". C++ headers without a suffix (cuda/atomic) are included. Raises
    FileNotFoundError for a place without source files, whose key would never change.
    """
    files: set[Path] = set()
    for place in places:
        sources = set(_walk(_locate(place)))
        if not sources:
            raise FileNotFoundError(f"no source file at {_locate(place)}")
        files |= sources
    return sorted(files)


@functools.cache
def hash_sources(*places: str) -> str:
    """Return the SHA-256, in hexadecimal, of the files of list_sources(*places).

    The hash covers the files' names relative to the checkout, and their bytes.
    """
    digest = hashlib.sha256()
    for path in list_sources(*places):
        text = path.read_bytes()
        digest.update(f"{path.relative_to(ROOT)}\0{len(text)}\0".encode())
        digest.update(text)
    return digest.hexdigest()


def _locate(place: str) -> Path:
    return (ROOT if place.split("/")[0] == "kernels" else PACKAGE) / place


def _walk(place: Path) -> Iterator[Path]:
    if place.is_file():
        yield place
        return
    for path in place.rglob("*"):
        parts = path.relative_to(place).parts
        # Jupyter keeps copies of saved files in hidden folders.
        if any(part.startswith((".", "__pycache__")) for part in parts):
            continue
        if path.suffix in SUFFIXES and path.is_file():
            yield path
