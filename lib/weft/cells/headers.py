"""Headers that the cells of a session share: %%cuda_header name.cuh."""

from __future__ import annotations

import re
from pathlib import Path

from ..base.errors import ArgumentError

_texts: dict[str, str] = {}
version = 0  # grows with every change


def add(name: str, text: str) -> None:
    """Let later cells say #include "name"; a header of that name is replaced.

    The name is a plain one, with folders if need be ("tiles/load.cuh"). Raises
    ArgumentError for one that would lead out of them.
    """
    global version
    if not re.fullmatch(r"(?:[\w-][\w.-]*/)*[\w-][\w.-]*\.(?:cuh?|hpp|h|inc)", name):
        raise ArgumentError(
            f"{name!r} is no name for a header: letters, digits, - and _, ending in "
            f".cuh or .h, e.g. tiles.cuh"
        )
    if _texts.get(name) != text:
        _texts[name] = text
        version += 1


def list_headers() -> dict[str, str]:
    """Every header of the session, by name."""
    return dict(_texts)


def select_used(source: str, folder: Path | None = None) -> dict[str, str]:
    """Those that `source` includes, or that a header it includes does, by name.

    folder: that of the source, if it is a file: what it includes in quotes from there
    counts as well.
    """
    found: dict[str, str] = {}
    todo = [source]
    while todo:
        for bracket, name in _INCLUDE.findall(todo.pop()):
            if name in found:
                continue
            text = _texts.get(name)
            if text is None and folder and bracket == '"':
                text = _read_beside(folder, name)
            if text is not None:
                found[name] = text
                todo.append(text)
    return found


_INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)', re.M)


def _read_beside(folder: Path, name: str) -> str | None:
    """The text of a header in `folder`; None if it is not there, or not below."""
    if Path(name).is_absolute() or ".." in Path(name).parts:
        return None
    path = folder / name
    return path.read_text() if path.is_file() else None
