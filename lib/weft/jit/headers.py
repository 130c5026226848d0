"""Headers that the cells of a session share: %%cuda_header name.cuh."""

from __future__ import annotations

import re

from ..native import ArgumentError

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


def texts() -> dict[str, str]:
    """Every header of the session, by name."""
    return dict(_texts)


def used(source: str) -> dict[str, str]:
    """Those that `source` includes, or that a header it includes does."""
    found: dict[str, str] = {}
    todo = [source]
    while todo:
        for name in re.findall(r'^\s*#\s*include\s*["<]([^">]+)', todo.pop(), re.M):
            if name in _texts and name not in found:
                found[name] = _texts[name]
                todo.append(_texts[name])
    return found
