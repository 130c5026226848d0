"""Lines of sources, and indices of threads and elements, as a report writes them."""

from __future__ import annotations

import linecache
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .model import Source

Index = tuple[int, ...]


def find_line(sources: Sequence[Source], file: str, number: int) -> str:
    """A line of one of these sources, or of a file that is not among them."""
    for source in sources:
        lines = source.text.splitlines()
        if source.file == file and 0 <= number - source.first < len(lines):
            return lines[number - source.first]
    return linecache.getline(file, number).rstrip("\n")


def text_before(source: str, column: int) -> str:
    """What stands in a line before a column, which counts bytes of UTF-8."""
    return source.encode()[:column].decode(errors="ignore")


def unflatten(number: int, shape: Index) -> Index:
    """The (x, y, z) of a linear number: x runs fastest."""
    x, y = shape[0], shape[1]
    return number % x, number // x % y, number // (x * y)


def write_index(index: Index, shape: Index) -> str:
    """A thread or block as a person would name it: 4, (1,2) or (0,1,2).

    shape: of its block or grid; sides of 1 at the end are left out.
    """
    sides = max([n for n, side in enumerate(shape, 1) if side > 1], default=1)
    return str(index[0]) if sides == 1 else f"({','.join(map(str, index[:sides]))})"
