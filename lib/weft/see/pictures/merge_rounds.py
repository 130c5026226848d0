"""Play rounds in which places take numbers from other places: trees and scans.

    play_tree([3, 1, 7, 0, 4, 1, 6, 3])                  8 numbers, then 4, 2 and 1
    play_rounds(numbers, list_halves(8), merge, write)   any rounds, any merge

A round is a list of pairs (to, source): place `to` merges its value with the value that
`source` had before the round. Thus play_rounds() can also play a scan, or a tree of
pairs.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from ...base.errors import ArgumentError
from ...base.style import DIM, PALE, SHARED, THREAD, WIDTH
from ...base.text import count_things
from . import svg
from .panels import EDGE
from .svg import Drawing, Slider, box, label, num, remark

Round = Sequence[tuple[int, int]]
LEFT, TOP = 96.0, 62.0  # x of place 0, and y of the first row, in pixels
HIGH, APART = 28.0, 64.0  # height of a value, and distance between rows, in pixels


def list_halves(count: int) -> list[Round]:
    """Return the rounds of a tree: half of the places add the other half's numbers.

    count: a power of two. Raises ArgumentError for other counts.
    """
    if count < 1 or count & (count - 1):
        raise ArgumentError(f"list_halves({count}): the count must be a power of two")
    halves = [count >> k for k in range(1, count.bit_length())]
    return [[(to, to + half) for to in range(half)] for half in halves]


def play_tree(
    values: Sequence[Any],
    merge: Callable[[Any, Any], Any] = operator.add,
    write: Callable[[Any], str] = "{:g}".format,
) -> Drawing:
    """Play a tree over values, whose count is a power of two; see play_rounds()."""
    return play_rounds(values, list_halves(len(values)), merge, write)


def play_rounds(
    values: Sequence[Any],
    rounds: Sequence[Round],
    merge: Callable[[Any, Any], Any] = operator.add,
    write: Callable[[Any], str] = "{:g}".format,
    title: str = "",
) -> Drawing:
    """Return the picture of rounds, with a slider for the rounds.

    values: the values of the places before the first round. merge: the function of a
    place's own value and the source's. write: writes a value. title: by default, the
    number of rounds and of merges. Raises ArgumentError for a place that does not
    exist, or if the picture would be too wide.
    """
    rows = compute_rows(values, rounds, merge)
    texts = [[write(value) for value in row] for row in rows]
    wide = max(svg.width_of(text) for row in texts for text in row) + 18
    width = LEFT + len(values) * max(wide, 44.0) + EDGE
    if width > WIDTH:
        raise ArgumentError(
            f"{len(values)} values of up to {wide:.0f} pixels are wider than {WIDTH}"
        )
    merges = sum(map(len, rounds))
    done = f"{count_things(len(rounds), 'round')}, {count_things(merges, 'merge')}"
    title = title or f"{count_things(len(values), 'value')}: {done}"
    stops = ["before", *(f"round {number}" for number in range(1, len(rows)))]
    board = Board(texts, rounds, max(wide, 44.0))
    frames = {(at,): board.draw_until(at) for at in range(len(rows))}
    base = label(EDGE, 22, title, 16, bold=True)
    account = f"{title}. " + "; ".join(map(board.describe, range(len(rows))))
    size = max(width, 360.0), TOP + APART * len(rounds) + HIGH + 16
    slider, start = Slider("round", tuple(stops)), (len(rounds),)
    return Drawing(title, *size, base, [slider], frames, start, account)


def compute_rows(
    values: Sequence[Any], rounds: Sequence[Round], merge: Callable[[Any, Any], Any]
) -> list[list[Any]]:
    """Return the values of all places before the first round and after each round."""
    rows = [list(values)]
    for pairs in rounds:
        before, after = rows[-1], list(rows[-1])
        for to, source in pairs:
            if not {to, source} <= set(range(len(values))):
                raise ArgumentError(
                    f"round {len(rows)}: ({to}, {source}), but the places are "
                    f"0 to {len(values) - 1}"
                )
            after[to] = merge(before[to], before[source])
        rows.append(after)
    return rows


class Board:
    """The rows of a picture: texts by row and place, and the width of a place.

    texts: a row before the first round, and one after each round.
    """

    def __init__(
        self, texts: list[list[str]], rounds: Sequence[Round], wide: float
    ) -> None:
        self.texts, self.rounds, self.wide = texts, rounds, wide

    def draw_until(self, last: int) -> list[str]:
        """Draw the rows up to `last`; later rows are only outlines."""
        parts = [self._draw_row(row, row <= last) for row in range(len(self.texts))]
        parts += [self._draw_arrows(row, row == last) for row in range(1, last + 1)]
        return [*parts, remark(EDGE, 44, self.describe(last))]

    def describe(self, row: int) -> str:
        """Describe a round: its merges, and the values that it changed."""
        if row == 0:
            return f"before: {', '.join(self.texts[0])}"
        changed = [self.texts[row][to] for to, _ in self.rounds[row - 1]]
        count = count_things(len(changed), "merge")
        return f"round {row}, {count}: {', '.join(changed)}"

    def _is_used(self, row: int, place: int) -> bool:
        """Return whether a later round uses the place.

        After the last round, return whether that round changed the place.
        """
        if row == len(self.rounds):
            return row == 0 or place in [to for to, _ in self.rounds[-1]]
        return any(place in pair for later in self.rounds[row:] for pair in later)

    def _find_middle(self, place: int) -> float:
        return LEFT + (place + 0.5) * self.wide

    def _draw_row(self, row: int, known: bool) -> str:
        """Draw a row of values; an unknown row has neither values nor colour."""
        y = TOP + row * APART
        name = f"round {row}" if row else "before"
        out = remark(LEFT - 14, y + HIGH / 2 + 4, name, anchor="end")
        for place, text in enumerate(self.texts[row]):
            used = known and self._is_used(row, place)
            left, wide = self._find_middle(place) - self.wide / 2 + 4, self.wide - 8
            look = {"colour": SHARED, "fill": svg.FILL} if used else {"strength": DIM}
            out += box(left, y, wide, HIGH, **look)
            if known:
                middle, base = self._find_middle(place), y + HIGH / 2 + 4
                out += label(middle, base, text, anchor="middle", faint=not used)
        return out

    def _draw_arrows(self, row: int, newest: bool) -> str:
        """Draw the sources of a round's values; the newest round's are coloured."""
        top, bottom, out = TOP + (row - 1) * APART + HIGH, TOP + row * APART, ""
        for to, source in self.rounds[row - 1]:
            end = self._find_middle(to)
            for place in (to, source):
                start = self._find_middle(place)
                if newest:
                    out += svg.arrow((start, top + 1), (end, bottom - 1), THREAD)
                else:
                    path = f"M{num(start)} {num(top)}L{num(end)} {num(bottom)}"
                    out += f'<path d="{path}" fill="none" {PALE}/>'
        return out
