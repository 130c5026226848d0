"""Loops whose accesses are written down all at once, as the loop begins.

A thread that goes round a plain loop touches a[first], a[first + step], ... An entry of
the log that says how often it goes round and by which steps (a Shape, by its number),
and one with the first element of each access, are enough.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .places import SITES

HEADER = SITES - 1  # instead of a site: the entry holds a Shape's number


@dataclass(frozen=True)
class Shape:
    """A loop goes round `count` times; by how many elements each access moves."""

    count: int
    steps: tuple[int, ...]


class Shapes(dict):
    """The numbers of one loop's Shapes, by (count, step, step, ...)."""

    def __init__(self, known: list[Shape]) -> None:
        super().__init__()
        self.known = known

    def __missing__(self, key: tuple[int, ...]) -> int:
        number = self[key] = len(self.known)
        self.known.append(Shape(key[0], key[1:]))
        return number


class Table:
    """Shapes as columns. width: how many accesses a turn has; rows: of all turns."""

    def __init__(self, shapes: list[Shape]) -> None:
        self.width = np.array([len(s.steps) for s in shapes])
        self.rows = self.width * np.array([s.count for s in shapes])
        self.steps = np.zeros((len(shapes), int(self.width.max())), np.int64)
        for number, shape in enumerate(shapes):
            self.steps[number, : len(shape.steps)] = shape.steps

    def lengths(self, packed: np.ndarray, cut: bool = False) -> np.ndarray:
        """How many rows each entry stands for: all those of a loop, its header.

        cut: the last loop may be half noted.
        """
        headers = np.flatnonzero(packed & (SITES - 1) == HEADER)
        times = np.ones(len(packed), np.int64)
        if len(headers):
            shape = packed[headers] // SITES
            width = self.width[shape]
            begins = np.repeat(headers + 1 - (np.cumsum(width) - width), width)
            inside = begins + np.arange(len(begins))
            times[inside[inside < len(packed)] if cut else inside] = 0
            times[headers] = self.rows[shape]
        return times

    def unrolled(self, packed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Entries as rows: the entry that each comes from, and it as an entry."""
        times = self.lengths(packed)
        source = np.repeat(np.arange(len(packed)), times)
        row = packed[source]
        looped = np.flatnonzero(row & (SITES - 1) == HEADER)
        if len(looped):
            header, shape = source[looped], row[looped] // SITES
            begins = np.cumsum(times) - times
            turn, access = np.divmod(looped - begins[header], self.width[shape])
            moved = turn * self.steps[shape, access]
            row[looped] = packed[header + 1 + access] + moved * SITES
        return source, row
