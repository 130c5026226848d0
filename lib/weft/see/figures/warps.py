"""Pictures of one request of a warp: the sectors it takes, or the turns at the banks.

    lanes = np.arange(32)
    sectors({"x[i]": lanes, "x[2 * i]": 2 * lanes})
    banks({"s[33 * t]": 33 * lanes})

Each row is a request, given as the numbers of the 4-byte elements that the lanes 0 to
31 want. Element 0 stands at the beginning of a sector, and in bank 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from ...base.style import INK, READ, SHARED, fade_colour
from .view import figure

SECTOR = 8  # 4-byte elements, 32 bytes
BANKS = 32  # 4 bytes wide
CELL = 0.2  # inches, of an element
NAME = 6.5  # cells that the name may take, left of the elements
SHOWN_SECTORS = 5
SHOWN_TURNS = 4  # rows of the banks; of more turns the rest is told in words
Requests = Mapping[str, Sequence[int] | np.ndarray]


def sectors_of(elements: Sequence[int] | np.ndarray) -> np.ndarray:
    """The numbers of the sectors that these elements lie in, each once."""
    return np.unique(np.asarray(elements) // SECTOR)


def turns_of(elements: Sequence[int] | np.ndarray) -> np.ndarray:
    """For each element the turn at its bank, from 0, in which it is delivered.

    An element that several lanes want is delivered to all of them at once.
    """
    words = np.unique(elements)
    order = np.lexsort((words, words % BANKS))
    bank = words[order] % BANKS
    first = np.flatnonzero(np.diff(bank, prepend=-1))
    place = np.arange(len(bank)) - np.repeat(first, np.diff(first, append=len(bank)))
    turn = np.empty_like(place)
    turn[order] = place
    return turn[np.searchsorted(words, elements)]


def sectors(requests: Requests) -> None:
    """Draw the sectors that each request takes, from the first one on.

    The number in an element is the first lane that wants it; grey ones are moved
    along and wanted by none.
    """
    rows, width = len(requests), SECTOR * SHOWN_SECTORS
    with figure(CELL * (NAME + width + 1), CELL * 3.1 * rows) as ax:
        _prepare_sheet(ax, width + 0.5, 3.1 * rows)
        for row, (name, elements) in enumerate(requests.items()):
            top = 3.1 * row + 1.5
            _write_name(ax, top, name)
            touched = sectors_of(elements)
            first = int(touched[0])
            for number in range(first, first + SHOWN_SECTORS):
                left = SECTOR * (number - first)
                inside = {int(e) - SECTOR * number for e in elements}
                _draw_sector(ax, left, top, number in touched, inside)
            for lane, element in _list_first_lanes(elements):
                if element < (first + SHOWN_SECTORS) * SECTOR:
                    _draw_cell(ax, element - first * SECTOR, top, lane, READ)
            wanted = len(np.unique(elements))
            more = len(touched) - np.sum(touched < first + SHOWN_SECTORS)
            said = f"{_count_things(len(touched), 'sector')}, {32 * len(touched)} bytes"
            said += f", {4 * wanted} of them wanted"
            said += f"; {more} of the sectors lie further right" * bool(more)
            ax.text(0, top - 0.35, said, size=8.5)


def banks(requests: Requests) -> None:
    """Draw who is served by which bank in which turn; see turns_of().

    The number is the first lane that wants the element.
    """
    heights = []
    for elements in requests.values():
        heights.append(min(int(turns_of(elements).max()) + 1, SHOWN_TURNS))
    height = sum(h + 2 for h in heights)
    with figure(CELL * (NAME + BANKS + 8), CELL * height) as ax:
        _prepare_sheet(ax, BANKS + 7.5, height)
        top = 1.4
        for (name, elements), shown in zip(requests.items(), heights):
            _write_name(ax, top, name)
            turn = turns_of(elements)
            for bank in range(BANKS):
                _draw_outline(ax, bank, top, 1, shown, 0.5)
            for lane, element in _list_first_lanes(elements):
                if turn[lane] < shown:
                    _draw_cell(ax, element % BANKS, top + turn[lane], lane, SHARED)
            turns = int(turn.max()) + 1
            said = _count_things(turns, "turn")
            said += f", {shown} of them shown" * (turns > shown)
            ax.text(0, top - 0.35, said, size=8.5)
            top += shown + 2


def _list_first_lanes(elements: Sequence[int] | np.ndarray) -> list[tuple[int, int]]:
    """(lane, element): for each element the first lane that wants it."""
    words, lanes = np.unique(elements, return_index=True)
    return [(int(lane), int(word)) for lane, word in zip(lanes, words)]


def _count_things(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"


def _prepare_sheet(ax: Axes, columns: float, rows: float) -> None:
    ax.set(xlim=(-NAME, columns), ylim=(rows, 0), aspect="equal")
    ax.set_axis_off()


def _write_name(ax: Axes, top: float, name: str) -> None:
    where = {"family": "monospace", "size": 9, "va": "center"}
    ax.text(-NAME, top + 0.55, name, **where)


def _draw_sector(
    ax: Axes, left: float, top: float, touched: bool, wanted: set[int]
) -> None:
    for cell in range(SECTOR):
        _draw_outline(ax, left + cell, top, 1, 1, 0.4)
        if touched and cell not in wanted:
            moved = Rectangle((left + cell, top), 1, 1, fc=fade_colour(INK), ec="none")
            ax.add_patch(moved)
    _draw_outline(ax, left, top, SECTOR, 1, 1.8 if touched else 0.8)


def _draw_outline(
    ax: Axes, left: float, top: float, width: int, height: int, line: float
) -> None:
    box = Rectangle((left, top), width, height, fill=False, ec=INK, lw=line)
    ax.add_patch(box)


def _draw_cell(ax: Axes, left: float, top: float, lane: int, colour: str) -> None:
    look = {"ec": colour, "fc": fade_colour(colour), "lw": 1.2}
    ax.add_patch(Rectangle((left + 0.06, top + 0.08), 0.88, 0.84, **look))
    centred = {"ha": "center", "va": "center", "size": 8.5}
    ax.text(left + 0.5, top + 0.54, str(lane), **centred)
