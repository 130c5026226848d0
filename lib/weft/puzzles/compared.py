"""What an answer gave, beside what it shall give."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..base.arrays import find_unwritten
from ..base.style import FAULT, SHARED, WIDTH, WRITTEN
from ..base.text import count_things
from ..see.pictures.arrows import place
from ..see.pictures.panels import EDGE
from ..see.pictures.svg import Drawing, label
from ..see.pictures.touches import listed
from ..see.pictures.values import (
    HALOS,
    LARGEST,
    Values,
    arranged_as,
    in_a_line,
    said,
    stacked,
)
from .goal import narrow_dtype, write_element
from .instance import Instance

IMAGE = 400  # elements of rows and columns from which on they are seen as an image
SMALL = 10.0  # pixels of a cell of an image
SMALLEST = 5.0  # ... where there is little room
READ_AT = 22.0  # pixels of a cell, at least, in which a number can be read
TOLERANCE = 1e-4  # of a float output's largest value: the picture's, no checker's


def _find_differences(case: Instance, name: str, got: np.ndarray) -> np.ndarray:
    """The elements that are not as wanted, flat."""
    want = case.wants[name].reshape(-1)
    mine = np.asarray(got).reshape(-1)
    if mine.shape != want.shape:
        return np.arange(want.size)
    start = case.starts.get(name)
    if mine.dtype.kind in "fc" or start is None:
        with np.errstate(all="ignore"):  # poison is a signalling NaN
            want, mine = want.astype(float), mine.astype(float)
            bound = TOLERANCE * max(1.0, float(np.abs(want).max(initial=0)))
            wrong = ~((np.abs(mine - want) <= bound) | (mine == want))
    else:
        wrong = mine != want
    return np.flatnonzero(wrong)


def describe_verdict(case: Instance, got: dict[str, np.ndarray]) -> tuple[str, bool]:
    """One sentence on the whole, and whether all is as wanted."""
    parts, first = [], ""
    for name, want in case.wants.items():
        wrong = _find_differences(case, name, got[name])
        if len(wrong):
            parts.append(
                f"{len(wrong)} of {count_things(want.size, 'element')} of {name}"
            )
            first = first or _describe_element(case, name, got[name], int(wrong[0]))
    if not parts:
        names = listed(list(case.wants))
        verb = "hold" if len(case.wants) > 1 else "holds"
        return f"{names} {verb} what the goal asks for, at this size.", True
    verb = "differs" if parts[0].startswith("1 ") and len(parts) == 1 else "differ"
    return f"{listed(parts)} {verb} from the goal: {first}.", False


def _describe_element(case: Instance, name: str, got: np.ndarray, element: int) -> str:
    """ "out[3] is 0, and shall be 14"."""
    where = write_element(name, case.wants[name], element)
    wanted = f"shall be {said(narrow_dtype(case, name).reshape(-1)[element])}"
    if np.shape(got) != case.wants[name].shape:
        return f"its shape is {np.shape(got)}, and shall be {case.wants[name].shape}"
    if element in _find_unwritten(case, name, got):
        return f"{where} was not written, and {wanted}"
    return f"{where} is {said(np.reshape(got, -1)[element])}, and {wanted}"


def _find_unwritten(case: Instance, name: str, got: np.ndarray) -> np.ndarray:
    """The elements that still hold what they held before, flat; of an output only."""
    start = case.starts.get(name)
    if start is None or name in case.inputs:
        return np.array([], int)
    return np.flatnonzero(
        find_unwritten(np.asarray(got).reshape(-1), start.reshape(-1)[0])
    )


def draw_outcome(
    case: Instance,
    got: dict[str, np.ndarray],
    top: float,
    report: Any,
    *,
    drawn: bool = False,
    told: bool = False,
) -> tuple[str, float]:
    """What came out beside the goal, where they differ. drawn: also where not; told:
    that is drawn elsewhere."""
    text, right = describe_verdict(case, got)
    sign, colour = ("✓", SHARED) if right else ("✗", FAULT)
    if right and report is not None and report.findings:
        text, sign = f"{text[:-1]}, but see what went wrong.", ""
    out = label(EDGE, top + 14, sign, 14, colour=colour, bold=True)
    out += label(EDGE + 18 * bool(sign), top + 14, text, 13)
    y = top + 28
    for name in case.wants:
        wrong = _find_differences(case, name, got[name])
        if (len(wrong) or drawn) and not told:
            body, y = _draw_compared(case, name, got[name], wrong, y + 8)
            out += body
    return f'<g data-outcome="{"right" if right else "wrong"}">{out}</g>', y + 4


def draw_beside(
    case: Instance, got: dict[str, np.ndarray], drawing: Drawing, drawn: bool
) -> str:
    """What came out, where the picture of who touches what has room; "" if nowhere."""
    pairs = []
    for name in case.wants:
        wrong = _find_differences(case, name, got[name])
        if len(wrong) or drawn:
            pairs.append((_pair_values(case, name, got[name], wrong), wrong))
    largest = max((_side_length(pair) for pair, _ in pairs), default=0.0)
    smallest = SMALLEST if largest == SMALL else READ_AT
    for side in np.arange(largest, smallest - 1, -1):
        columns = [stacked(pair, float(side)) for pair, _ in pairs]
        lines = [in_a_line(pair, 0, 0, WIDTH, float(side)) for pair, _ in pairs]
        for made in (lines, columns):
            wide = max(max(_right_edge(one) for one in placed) for placed, _ in made)
            tall = sum(bottom for _, bottom in made) + 14 * (len(made) - 1)
            worded = [one.is_worded or largest == SMALL for p, _ in made for one in p]
            corner = place(drawing.taken, wide, tall) if all(worded) else None
            if corner is not None:
                return _set(case, got, pairs, made, corner)
    return ""


def _set(
    case: Instance,
    got: dict[str, np.ndarray],
    pairs: list[tuple[list[Values], np.ndarray]],
    made: list[tuple[list[Values], float]],
    corner: tuple[float, float],
) -> str:
    """The pairs with that corner, one below the other."""
    x, y = corner
    out = ""
    for (_, wrong), (placed, bottom) in zip(pairs, made):
        at = [one.moved(x, y) for one in placed]
        right = np.shape(got[at[0].name]) == case.wants[at[0].name].shape
        out += _mark_cells(at, wrong, right)
        y += bottom + 14
    return f'<g data-beside="">{out}</g>'


def _right_edge(one: Values) -> float:
    return one.grid.left - one.gutter + one.width


def _side_length(pair: list[Values]) -> float:
    return SMALL if pair[0].array.size >= IMAGE else LARGEST


def _pair_values(
    case: Instance, name: str, got: np.ndarray, wrong: np.ndarray
) -> list[Values]:
    """An output as it came out; where it is wrong, what it shall be as well."""
    got = np.asarray(got)
    blank = _find_unwritten(case, name, got)
    pair = [Values(name, got, WRITTEN, about="what it gave", blank=blank)]
    if len(wrong):
        pair[0] = replace(pair[0], indices="none")
        want = narrow_dtype(case, name)
        pair.append(Values(name, want, WRITTEN, about="what it shall be"))
    return pair


def _draw_compared(
    case: Instance, name: str, got: np.ndarray, wrong: np.ndarray, top: float
) -> tuple[str, float]:
    """The pair below all else; and where that ends."""
    pair = _pair_values(case, name, got, wrong)
    placed, y = arranged_as(pair, top, _side_length(pair))
    return _mark_cells(placed, wrong, np.shape(got) == case.wants[name].shape), y


def _mark_cells(placed: list[Values], wrong: np.ndarray, comparable: bool) -> str:
    out = "".join(one.drawn() for one in placed)
    if len(wrong) and comparable:
        out += placed[0].marked(wrong, "wrong", colour=FAULT, empty=True)
        if placed[1].is_worded or len(wrong) <= HALOS:
            out += placed[1].marked(wrong, "wanted")
    return out
