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


def unrolled(
    site: np.ndarray, element: np.ndarray, shapes: list[Shape]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Entries with loops as rows: (the entry of each row, its site, its element).

    For what is in a loop the first of these is the loop's header.
    """
    headers = np.flatnonzero(site == HEADER)
    if not len(headers):
        return np.arange(len(site)), site, element
    count = np.array([s.count for s in shapes])
    width = np.array([len(s.steps) for s in shapes])
    steps = np.zeros((len(shapes), int(width.max())), np.int64)
    for number, shape in enumerate(shapes):
        steps[number, : len(shape.steps)] = shape.steps
    mine = element[headers]
    times = np.ones(len(site), np.int64)
    inside = np.repeat(headers - np.cumsum(width[mine]) + width[mine], width[mine])
    times[inside + np.arange(len(inside)) + 1] = 0
    times[headers] = count[mine] * width[mine]
    rows = np.repeat(np.arange(len(site)), times)
    looped = np.flatnonzero(site[rows] == HEADER)
    header = rows[looped]
    number = element[header]
    ends = np.cumsum(times)
    at = looped - (ends - times)[header]
    turn, access = np.divmod(at, width[number])
    base = header + 1 + access
    found_site, found = site[rows], element[rows]
    found_site[looped] = site[base]
    found[looped] = element[base] + turn * steps[number, access]
    return rows, found_site, found
