"""The texts that an object is made of: a source's and those of its headers."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path

# What read() says of a path, for these folders of headers.
Reader = Callable[[str, tuple[str, ...]], tuple[str, list[str]] | None]


def list_texts(source: Path, folders: tuple[str, ...], read: Reader) -> list[str]:
    """The text of a source and of the headers in `folders` that it may include."""
    found: dict[str, str] = {}
    todo = [os.path.normpath(source)]
    if source.suffix == ".cu":  # see rewrite()
        todo += _in_any(folders, "cuda_runtime.h")
    while todo:
        path = todo.pop()
        if path not in found and (there := read(path, folders)):
            found[path], included = there
            todo += included
    return [found[path] for path in sorted(found)]


def read(path: str, folders: tuple[str, ...]) -> tuple[str, list[str]] | None:
    """A file's text and the headers there are for what it includes.

    None if the file is not there.
    """
    try:
        text = Path(path).read_text()
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        return None
    names = re.findall(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"]+)', text, re.M)
    here = os.path.dirname(path)
    return text, [p for name in names for p in _in_any((here, *folders), name)]


def _in_any(folders: Iterable[str], name: str) -> list[str]:
    """The files of that name below the folders."""
    paths = [os.path.normpath(os.path.join(folder, name)) for folder in folders]
    return [path for path in paths if os.path.isfile(path)]
