"""The picture of a puzzle's goal: inputs, what shall come out, and what of what.

Drawn from the reference alone (instance.py). A slider goes through the elements of
the outputs; each shows the input elements it depends on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..check.cases import by_name, three
from ..pictures import svg
from ..pictures.panels import EDGE, LEFT
from ..pictures.player import Drawing, Slider
from ..pictures.svg import label
from ..pictures.touches import listed
from ..pictures.values import Values, in_a_line, in_rows, line, said
from ..show import Picture
from ..style import READ, THREAD, WIDTH, WRITTEN
from ..words import plural
from .instance import COULD, NOW, Instance, depends, instance

STOPS = 96  # elements of the outputs that the slider stops at
LINES = 34  # to one element; with more, outlines say it
TOLD = 3  # elements that a sentence names


def goal(puzzle: Any, state: str = "") -> Picture:
    """What a puzzle asks for, at the size it is drawn with.

    puzzle: a Puzzle (or what has its title, spec, checks, drawn and launch). state:
    what is said of an answer in the heading: "not solved yet".
    """
    case = instance(puzzle)
    links = depends(case)
    sheet = arranged(case)
    launch = launch_of(puzzle, case)
    heading = f"{puzzle.title}: {state + ', ' if state else ''}the goal"
    base = label(EDGE, 28, heading, 17, bold=True)
    base += "".join(one.drawn() for one in (*sheet.inputs, *sheet.outputs))
    base += sheet.sign
    y = sheet.bottom + 16
    if launch is not None:
        body, y = _launch(*launch, y)
        base += body
    base += label(EDGE, y + 14, _counts(case, launch), 12, faint=True)
    base += _legend(EDGE, y + 38, bool((links == COULD).any()))
    stops = _stops(case, links)
    drawing = Drawing(
        heading,
        *(WIDTH, y + 52, base),
        [Slider("element", tuple(_element(case, n) for n in stops))],
        {(i,): _frame(case, sheet, links, n) for i, n in enumerate(stops)},
        (stops.index(_telling(case, links, stops)),),
    )
    drawing.account = _account(heading, case, launch)
    return Picture(drawing, None)


# ---- where it all stands ------------------------------------------------------------


@dataclass(frozen=True)
class Sheet:
    """The arrays in their places. sign: an arrow between inputs and outputs; flat:
    they stand one above the other, and lines can join their cells."""

    inputs: list[Values]
    outputs: list[Values]
    sign: str
    bottom: float
    flat: bool


def arranged(case: Instance) -> Sheet:
    """Arrays of one dimension in rows; with more of them, inputs left of outputs."""
    inputs = [
        Values(n, a, READ, upright=_upright(case, n), note="before" * (n in case.wants))
        for n, a in case.inputs.items()
    ]
    outputs = [
        Values(
            *(n, narrowed(case, n), WRITTEN),
            **dict(upright=_upright(case, n), note="after" * (n in case.inputs)),
        )
        for n in case.wants
    ]
    arrays = [one.array for one in (*inputs, *outputs)]
    if all(a.ndim <= 1 for a in arrays):
        return _in_rows(inputs, outputs)
    room = WIDTH - 2 * EDGE
    made, bottom = in_a_line([*inputs, *outputs], EDGE, 64, room)
    if made[0].grid.side < 16 and len(made) > 2:  # inputs above, outputs below
        above, y = in_a_line(inputs, EDGE, 64, room)
        below, bottom = in_a_line(outputs, EDGE, y + 24, room, above[0].grid.side)
        return Sheet(above, below, "", bottom, False)
    left, right = made[: len(inputs)], made[len(inputs) :]
    low = max(one.grid.top + one.grid.height for one in made)
    middle = right[0].grid.top + (low - right[0].grid.top) / 2
    x = right[0].grid.left - right[0].gutter - 28
    sign = label(x, middle + 6, "→", 18, faint=True)
    return Sheet(left, right, sign, bottom, False)


def _in_rows(inputs: list[Values], outputs: list[Values]) -> Sheet:
    above, y = in_rows(inputs, 66)
    below, bottom = in_rows(outputs, y + 40)
    return Sheet(above, below, "", bottom, True)


def _upright(case: Instance, name: str) -> bool:
    """Whether an array of one dimension belongs to the rows of one with two."""
    axes = case.axes.get(name, ())
    if len(axes) != 1 or not axes[0]:
        return False
    wide = [other for other in case.axes.values() if len(other) > 1]
    return any(axes[0] in other[:-1] for other in wide)


def narrowed(case: Instance, name: str) -> np.ndarray:
    """What an output shall hold, in its own dtype if that changes no number."""
    want = case.wants[name]
    start = case.starts.get(name)
    if start is None:
        return want
    with np.errstate(all="ignore"):
        return want.astype(start.dtype)


# ---- the launch ---------------------------------------------------------------------


def launch_of(puzzle: Any, case: Instance) -> tuple[tuple, tuple] | None:
    """(grid, block), both (x, y, z); None for what is no kernel."""
    launch = getattr(puzzle, "launch", None)
    if launch is None:
        return None
    if callable(launch):
        launch = by_name(launch, case.sizes)
    return three(launch[0]), three(launch[1])


def launch_words(grid: tuple, block: tuple) -> str:
    """ "2 blocks of 4 threads", "1 block of 3 × 3 threads"."""
    sides = [n for n in block if n > 1] or [1]
    of = " × ".join(str(n) for n in sides)
    blocks = plural(int(np.prod(grid)), "block")
    if sum(n > 1 for n in grid) > 1:
        blocks = " × ".join(str(n) for n in grid if n > 1) + " blocks"
    return f"{blocks} of {of} thread{'s' * (int(np.prod(block)) != 1)}"


def _launch(grid: tuple, block: tuple, top: float) -> tuple[str, float]:
    """The threads there are, lightly: a frame for each block, a circle for each."""
    (across, down, deep), (x, y, z) = grid, block
    x0, words = LEFT, launch_words(grid, block)
    out = label(x0 - 14, top + 19, "threads", 14, anchor="end", mono=True, bold=True)
    if y == z == 1 and x > 32:
        x, y = 32, -(-x // 32)
    room = WIDTH - LEFT - EDGE
    side = min(20.0, (room - 12 * across) / (x * across))
    high = down * (y * side + 18)
    if deep > 1 or z > 1 or side < 6 or high > 220:
        return out + label(x0, top + 19, words, 13), top + 34
    parts = []
    for number in range(across * down):
        bx, by = number % across, number // across
        left, upper = x0 + bx * (x * side + 14), top + by * (y * side + 18) + 2
        parts.append(
            svg.box(
                left - 4,
                upper,
                x * side + 6,
                y * side + 8,
                radius=8,
                strength=0.4,
            )
        )
        parts.append(_circles(left, upper + 4, x, y, side, int(np.prod(block))))
    end = x0 + across * (x * side + 14)
    if end + svg.width_of(words, 12) < WIDTH - EDGE:
        out += label(end + 4, top + 4 + (y * side + 8) / 2 + 2, words, 12, faint=True)
    return out + f'<g data-threads="{words}">{"".join(parts)}</g>', top + high


def _circles(
    left: float, top: float, cols: int, rows: int, side: float, count: int
) -> str:
    radius = side / 2 - 2
    r, d = svg.num(radius), svg.num(2 * radius)
    path = "".join(
        f"M{svg.num(left + (i % cols + 0.5) * side - 1 - radius)} "
        f"{svg.num(top + (i // cols + 0.5) * side)}"
        f"a{r} {r} 0 1 0 {d} 0a{r} {r} 0 1 0 -{d} 0z"
        for i in range(min(count, cols * rows))
    )
    return (
        f'<path d="{path}" fill="{THREAD}" fill-opacity=".18" stroke="{THREAD}" '
        f'stroke-opacity=".7"/>'
    )


# ---- one element --------------------------------------------------------------------


def _frame(case: Instance, sheet: Sheet, links: np.ndarray, number: int) -> list[str]:
    """The sentence, the element, and what it depends on."""
    text = svg.clipped(_sentence(case, links, number), WIDTH - 2 * EDGE, 13)
    out = [label(EDGE, 48, text, 13, faint=True)]
    place, element = _place(case, number)
    target = sheet.outputs[list(case.wants).index(place)]
    lines, at = [], 0
    total = int((links[number] == NOW).sum())
    for one in sheet.inputs:
        row = links[number, at : at + one.array.size]
        at += one.array.size
        now, could = np.flatnonzero(row == NOW), np.flatnonzero(row == COULD)
        out.append(one.marked(could, "could", dashed=True))
        out.append(one.marked(now, "depends"))
        if sheet.flat and total <= LINES:
            lines += _lines(sheet, one, now, target, element)
    out.append(target.marked([element], "wanted"))
    return [*out, "".join(lines)]


def _lines(
    sheet: Sheet, one: Values, elements: np.ndarray, target: Values, element: int
) -> list[str]:
    """From the cells of an input to an element; around the inputs below it."""
    x1, _ = target.grid.middle(element)
    row = element // target.grid.cols
    end = (x1, target.grid.top + row * target.grid.side - 2)
    out = []
    for each in elements.tolist():
        x0, y0 = one.grid.middle(each)
        start = (x0, y0 + one.grid.cell / 2 + 2)
        out.append(line(start, end, READ))
    return out


def _sentence(case: Instance, links: np.ndarray, number: int) -> str:
    name, element = _place(case, number)
    value = said(narrowed(case, name).reshape(-1)[element])
    parts, at, could = [], 0, False
    for one, array in case.inputs.items():
        row = links[number, at : at + array.size]
        at += array.size
        could |= bool((row == COULD).any())
        now = np.flatnonzero(row == NOW)
        if len(now) == array.size > 1:
            parts.append(f"all {array.size} of {one}")
        elif 0 < len(now) <= TOLD:
            parts.append(listed([indexed(one, array, int(n)) for n in now]))
        elif len(now):
            parts.append(f"{len(now)} of {one}")
    text = f"{_element(case, number)} shall be {value}"
    text += f": it depends on {listed(parts)}" if parts else ", whatever the inputs are"
    return text + ("; what is dashed could change it." if could else ".")


def indexed(name: str, array: np.ndarray, element: int) -> str:
    index = np.unravel_index(element, array.shape or (1,))
    return f"{name}[{', '.join(str(int(i)) for i in index)}]"


def _place(case: Instance, number: int) -> tuple[str, int]:
    """The output, and the element of it, with that number among all of them."""
    for name, want in case.wants.items():
        if number < want.size:
            return name, number
        number -= want.size
    raise IndexError(number)


def _element(case: Instance, number: int) -> str:
    name, element = _place(case, number)
    return indexed(name, case.wants[name], element)


def _stops(case: Instance, links: np.ndarray) -> list[int]:
    """Elements for the slider: all, or some of many, the telling one among them."""
    count = len(links)
    if count <= STOPS:
        return list(range(count))
    some = set(np.linspace(0, count - 1, STOPS).astype(int).tolist())
    return sorted({*some, _telling(case, links, range(count))})


def _telling(case: Instance, links: np.ndarray, stops: Sequence[int]) -> int:
    """The element to begin with: of those with most inputs, one off the diagonal."""
    first = next(iter(case.wants.values()))
    per = (links == NOW).sum(1)
    most = max(per[n] for n in stops if n < first.size)
    shape = first.shape[-2:] if first.ndim > 1 else (first.size,)

    def far(number: int) -> float:
        index = np.unravel_index(number % int(np.prod(shape)), shape)
        wish = (0.3, 0.7) if len(shape) > 1 else (0.55,)
        return sum(abs((i + 0.5) / n - w) for i, n, w in zip(index, shape, wish))

    return min((n for n in stops if n < first.size and per[n] == most), key=far)


# ---- below --------------------------------------------------------------------------


def _counts(case: Instance, launch: tuple | None) -> str:
    elements = [f"{plural(w.size, 'element')} of {n}" for n, w in case.wants.items()]
    numbers = ", ".join(
        f"{n} = {said(v)}" for n, v in case.numbers.items() if np.ndim(v) == 0
    )
    text = listed(elements)
    if launch is not None:
        threads = int(np.prod(launch[0]) * np.prod(launch[1]))
        text = f"{launch_words(*launch)}: {plural(threads, 'thread')} for {text}"
    return f"{text[0].upper()}{text[1:]}; {numbers}." if numbers else f"{text}."


def _legend(x: float, y: float, could: bool) -> str:
    out = []
    kinds = [(WRITTEN, False, "this element"), (READ, False, "what it depends on")]
    if could:
        kinds.append((READ, True, "what could change it"))
    for colour, dashed, text in kinds:
        fill = 0.0 if dashed else svg.FILL
        out.append(svg.box(x, y - 10, 13, 13, colour=colour, fill=fill, dashed=dashed))
        out.append(label(x + 20, y, text, 11, faint=True))
        x += 20 + svg.width_of(text, 11) + 18
    return "".join(out)


def _account(heading: str, case: Instance, launch: tuple | None) -> str:
    """The same in words, for a terminal and for who does not see the picture."""
    lines = [heading]
    lines += [f"{name} = {_listing(a)}" for name, a in case.inputs.items()]
    lines += [
        f"{name} shall be {_listing(narrowed(case, name))}" for name in case.wants
    ]
    return "\n".join([*lines, _counts(case, launch)])


def _listing(array: np.ndarray) -> str:
    text = np.array2string(array, threshold=40, precision=3, separator=", ")
    return " ".join(text.split())
