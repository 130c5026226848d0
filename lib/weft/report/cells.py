"""What a notebook's cell and its headers are called, and what stands in them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from ..csource.diagnostics import CELL
from .model import Listing


class CellSource:
    """A cell's source, and those of the headers that it includes."""

    def __init__(
        self, name: str, text: str, headers: Mapping[str, str] | None = None
    ) -> None:
        self.cell, self.texts = name, {name: text, **(headers or {})}

    def name(self, file: str) -> str:
        base = os.path.basename(file)
        if base == CELL:
            return self.cell
        here = [one for one in self.texts if one != self.cell and _is_end(file, one)]
        return max(here, key=len, default="")

    def sources(self, names: Sequence[str]) -> list[Listing]:
        first = [self.cell] if self.cell in names else []
        rest = [one for one in names if one in self.texts and one != self.cell]
        return [Listing(one, 1, self.texts[one]) for one in first + rest]


def _is_end(file: str, name: str) -> bool:
    return file == name or file.endswith(f"/{name}")
