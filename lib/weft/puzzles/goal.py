"""Draw a puzzle's goal: its inputs, the expected outputs, and its launch.

The launch appears in words, and its threads as circles. The picture is drawn from the
reference alone (instance.py). A slider moves through the elements of the outputs. Each
stop shows the input elements on which the output element depends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..base.style import DIM, READ, THREAD, WIDTH, WRITTEN
from ..base.text import count_things
from ..check.cases import by_name, make_three
from ..see.pictures import svg
from ..see.pictures.grid import Grid
from ..see.pictures.panels import EDGE, LEFT
from ..see.pictures.show import Picture
from ..see.pictures.svg import Drawing, Slider, label
from ..see.pictures.touches import listed
from ..see.pictures.values import (
    LARGEST,
    Values,
    describe_value,
    in_a_line,
    in_rows,
    line,
)
from .instance import COULD, MANY, NOW, Instance, find_dependences, make_instance


def launch_of(puzzle: Any, case: Instance) -> tuple[tuple, tuple] | None:
    """Return (grid, block), both (x, y, z); None if the puzzle is not a kernel."""
    launch = getattr(puzzle, "launch", None)
    if launch is None:
        return None
    if callable(launch):
        launch = by_name(launch, case.sizes)
    return make_three(launch[0]), make_three(launch[1])


def launch_words(grid: tuple, block: tuple) -> str:
    """Describe a launch: "2 blocks of 4 threads", "1 block of 16 × 8 threads (x × y)".

    The order (x × y) is named because an array's shape begins with its rows, which are
    y.
    """
    sides = [n for n in block if n > 1] or [1]
    size = " × ".join(str(n) for n in sides)
    blocks = count_things(int(np.prod(grid)), "block")
    if sum(n > 1 for n in grid) > 1:
        blocks = " × ".join(str(n) for n in grid if n > 1) + " blocks"
    order = " (x × y)" if grid[:2] != grid[1::-1] or block[:2] != block[1::-1] else ""
    order = order if len(sides) == 2 else ""
    return f"{blocks} of {size} thread{'s' * (int(np.prod(block)) != 1)}{order}"


def launch_drawn(
    grid: tuple, block: tuple, left: float, top: float, cell: float = 0.0
) -> tuple[str, float]:
    """Draw the threads lightly: a frame for each block, a circle for each thread.

    left: x of the first block; the label is to its left. cell: width in pixels of the
    cells in the row above; 0 if threads cannot be below these cells. This alignment
    shows where a block ends. If there are too many threads, only the line of counts
    describes them. Return the SVG, and the y coordinate of its lower edge.
    """
    (across, down, deep), (x, y, z) = grid, block
    if cell and x * across * cell <= WIDTH - left - EDGE and y * z * down * deep == 1:
        return _below_cells(across, x, left, top, cell)
    if y == z == 1 and x > 32:
        x, y = 32, -(-x // 32)
    side = min(20.0, (WIDTH - left - EDGE - 14 * across) / (x * across))
    high = down * (y * side + 18)
    if deep > 1 or z > 1 or side < 7 or high > 165:
        return "", top - 8
    parts = []
    for number in range(across * down):
        bx, by = number % across, number // across
        at, upper = left + bx * (x * side + 14), top + by * (y * side + 18) + 2
        wide, tall = x * side + 6, y * side + 8
        parts.append(svg.box(at - 4, upper, wide, tall, radius=8, strength=DIM))
        parts.append(_draw_circles(at, upper + 4, x, side, int(np.prod(block)), side))
    return _describe_launch(launch_words(grid, block), parts, left, top), top + high


def _below_cells(
    blocks: int, count: int, left: float, top: float, cell: float
) -> tuple[str, float]:
    """Draw a one-dimensional launch, with each thread below a cell of the row above."""
    side, parts = min(cell, 20.0), []
    for number in range(blocks):
        at, wide = left + number * count * cell, count * cell
        frame = svg.box(at, top + 2, wide - 3, side + 8, radius=8, strength=DIM)
        parts.append(frame + _draw_circles(at, top + 6, count, side, count, cell))
    words = launch_words((blocks, 1, 1), (count, 1, 1))
    return _describe_launch(words, parts, left, top), top + side + 18


def _describe_launch(words: str, parts: list[str], left: float, top: float) -> str:
    """Label the threads like the arrays: left of the first block, or at the edge."""
    at, anchor = (left - 14, "end") if left == LEFT else (EDGE, "start")
    name = label(at, top + 19, "threads", 14, anchor=anchor, mono=True, bold=True)
    return name + f'<g data-threads="{words}">{"".join(parts)}</g>'


def _draw_circles(
    left: float, top: float, cols: int, side: float, count: int, spacing: float
) -> str:
    """Draw circles in rows `side` pixels apart; spacing: the distance within a row."""
    radius = side / 2 - 2
    r, d = svg.num(radius), svg.num(2 * radius)
    path = "".join(
        f"M{svg.num(left + (i % cols + 0.5) * spacing - 1 - radius)} "
        f"{svg.num(top + (i // cols + 0.5) * side)}"
        f"a{r} {r} 0 1 0 {d} 0a{r} {r} 0 1 0 -{d} 0z"
        for i in range(count)
    )
    return f'<path d="{path}" fill="{THREAD}" fill-opacity=".18" stroke="{THREAD}"/>'


STOPS = 96  # Largest number of slider stops; each stop is an element of an output.
FEWER = 10  # Largest number of stops if many inputs make each stop slow.
LINES = 16  # Largest number of lines to one element; if there are more, none is drawn.
NAMED = 3  # Largest number of elements that a sentence names.


def draw_goal(puzzle: Any, state: str = "") -> Picture:
    """Draw a puzzle's task, at its `drawn` sizes.

    puzzle: a Puzzle (or an object with the attributes title, spec, checks, drawn and
    launch). state: a remark on an answer for the heading, such as "the answer returns
    nothing".
    """
    case = make_instance(puzzle)
    stops = _choose_stops(case)
    links = find_dependences(case, stops)
    sheet = arrange_arrays(case)
    launch = launch_of(puzzle, case)
    heading = f"{puzzle.title}: {state + ', ' if state else ''}the goal"
    base = label(EDGE, 28, heading, 17, bold=True)
    base += "".join(one.drawn() for one in (*sheet.inputs, *sheet.outputs))
    base += sheet.sign
    y = sheet.bottom + 16
    if launch is not None:
        left, last = LEFT if sheet.flat else EDGE + 84, sheet.outputs[-1].grid
        cell = last.side if sheet.flat and last.rows == 1 else 0.0
        body, y = launch_drawn(*launch, left, y, cell)
        base += body
    base += label(EDGE, y + 14, _write_counts(case, launch), 12, faint=True)
    base += _write_legend(EDGE, y + 38, bool((links == COULD).any()))
    slider = Slider("element", tuple(_describe_element(case, n) for n in stops))
    frames = {(i,): _draw_frame(case, sheet, links[i], n) for i, n in enumerate(stops)}
    first = (_choose_first_stop(case, links, stops),)
    account = _write_account(heading, case, launch)
    drawing = Drawing(heading, WIDTH, y + 52, base, [slider], frames, first, account)
    return Picture(drawing, None)


# ---- the layout ---------------------------------------------------------------------


@dataclass(frozen=True)
class Sheet:
    """The arrays with their places. sign: an arrow from inputs to outputs, as SVG.

    flat: whether the arrays are in rows, so that lines can join their cells.
    """

    inputs: list[Values]
    outputs: list[Values]
    sign: str
    bottom: float
    flat: bool


def arrange_arrays(case: Instance) -> Sheet:
    """Place one-dimensional arrays in rows; otherwise, place inputs left of outputs."""

    def place(name: str, array: np.ndarray, colour: str, note: str) -> Values:
        changed = name in case.wants and name in case.inputs
        upright = _is_upright(case, name)
        return Values(name, array, colour, upright=upright, note=note * changed)

    inputs = [place(n, a, READ, "before") for n, a in case.inputs.items()]
    outputs = [place(n, narrow_dtype(case, n), WRITTEN, "after") for n in case.wants]
    arrays = [one.array for one in (*inputs, *outputs)]
    if all(a.ndim <= 1 for a in arrays):
        return _in_rows(inputs, outputs)
    room = WIDTH - 2 * EDGE
    placed, bottom = in_a_line([*inputs, *outputs], EDGE, 64, room)
    if len(placed) > 2 and not all(one.is_worded for one in placed):
        above, y = in_a_line(inputs, EDGE, 64, room)
        below, bottom = in_a_line(outputs, EDGE, y + 24, room, above[0].grid.side)
        return Sheet(above, below, "", bottom, False)
    left, right = placed[: len(inputs)], placed[len(inputs) :]
    middle = right[0].grid.top + right[0].grid.height / 2
    x = right[0].grid.left - right[0].gutter - 26
    sign = label(x, middle + 6, "→", 18, faint=True)
    return Sheet(left, right, sign, bottom, False)


def _in_rows(inputs: list[Values], outputs: list[Values]) -> Sheet:
    """Place inputs above outputs; inputs of unequal lengths share a row if possible."""
    alike = len({one.array.size for one in inputs}) == 1
    first = [replace(one, indices="above") for one in inputs]
    beside = [] if alike or not inputs else _place_beside(first, 66 + 15)
    if beside:
        above, y = beside, 66 + 15 + LARGEST + 14
    else:
        plain = [replace(one, indices="none") for one in inputs] if alike else first
        above, y = in_rows([*first[:1], *plain[1:]], 66)
    below, bottom = in_rows(outputs, y + 32)
    return Sheet(above, below, "", bottom, True)


def _place_beside(wishes: list[Values], top: float) -> list[Values]:
    """Place one-dimensional arrays in one row; return [] if there is no room."""
    names = [max(60.0, svg.width_of(one.caption, 11)) + 28 for one in wishes]
    names[0] = LEFT
    cells = sum(one.array.size for one in wishes)
    side = min(LARGEST, (WIDTH - EDGE - sum(names)) // max(cells, 1))
    if side < 24:
        return []
    out, left = [], 0.0
    for one, name in zip(wishes, names):
        count = max(one.array.size, 1)
        left += name
        out.append(replace(one, grid=Grid(count, 1, 1, count, side)).at(left, top))
        left += count * side
    return out


def _is_upright(case: Instance, name: str) -> bool:
    """Return whether a vector belongs to the rows of a two-dimensional array."""
    axes = case.axes.get(name, ())
    if len(axes) != 1 or not axes[0]:
        return False
    wide = [other for other in case.axes.values() if len(other) > 1]
    return any(axes[0] in other[:-1] for other in wide)


def narrow_dtype(case: Instance, name: str) -> np.ndarray:
    """Return an output's goal in the output's own dtype, if it has one."""
    want = case.wants[name]
    start = case.starts.get(name)
    if start is None:
        return want
    with np.errstate(all="ignore"):
        return want.astype(start.dtype)


# ---- one element --------------------------------------------------------------------


def _draw_frame(
    case: Instance, sheet: Sheet, links: np.ndarray, number: int
) -> list[str]:
    """Draw a sentence, an element and its inputs. links: the element's dependences."""
    text = svg.clipped(_write_sentence(case, links, number), WIDTH - 2 * EDGE, 13)
    out = [label(EDGE, 48, text, 13, faint=True)]
    place, element = _place(case, number)
    target = sheet.outputs[list(case.wants).index(place)]
    lines, at = [], 0
    total = int((links == NOW).sum())
    for one in sheet.inputs:
        row = links[at : at + one.array.size]
        at += one.array.size
        now, could = np.flatnonzero(row == NOW), np.flatnonzero(row == COULD)
        out.append(one.marked(could, "could", empty=True))
        out.append(one.marked(now, "depends"))
        if sheet.flat and total <= LINES:
            lines += _draw_lines(sheet, one, now, target, element)
    out.append(target.marked([element], "wanted"))
    return [*out, "".join(lines)]


def _draw_lines(
    sheet: Sheet, one: Values, elements: np.ndarray, target: Values, element: int
) -> list[str]:
    """Draw lines from an input's cells to an element, behind arrays on the way."""
    x1, y1 = target.grid.middle(element)
    end = (x1, y1 - target.grid.cell / 2 - 2)
    between = [row for array in (*sheet.inputs, *sheet.outputs) for row in array.rows()]
    out = []
    for each in elements.tolist():
        x0, y0 = one.grid.middle(each)
        start = (x0, y0 + one.grid.cell / 2 + 1)
        frames = [row for row in between if start[1] < row[3] and row[1] < end[1]]
        out.append(line(start, end, READ, frames))
    return out


def _write_sentence(case: Instance, links: np.ndarray, number: int) -> str:
    name, element = _place(case, number)
    value = describe_value(narrow_dtype(case, name).reshape(-1)[element])
    parts, at, could = [], 0, False
    for one, array in case.inputs.items():
        row = links[at : at + array.size]
        at += array.size
        could |= bool((row == COULD).any())
        now = np.flatnonzero(row == NOW)
        if len(now):
            note = " before" * (one in case.wants)
            parts.append(_describe_elements(one, array, now) + note)
    text = f"{_describe_element(case, number)} should be {value}"
    text += f": it depends on {listed(parts)}" if parts else ", whatever the inputs are"
    return text + ("; the outlined inputs could change it." if could else ".")


def _describe_elements(name: str, array: np.ndarray, elements: np.ndarray) -> str:
    """Describe some elements, such as "all 8 elements of a" or "a[2] to a[5]"."""
    count = len(elements)
    if count == array.size > 1:
        return f"all {count} elements of {name}"
    if array.ndim == 2 and count > 1:
        row, col = np.unravel_index(elements, array.shape)
        for kind, fixed, size in (
            ("row", row, array.shape[1]),
            ("column", col, len(array)),
        ):
            if len(set(fixed)) == 1 and count == size:
                return f"{kind} {fixed[0]} of {name}"
    if count <= NAMED:
        return listed([write_element(name, array, int(n)) for n in elements])
    if array.ndim == 1 and elements[-1] - elements[0] == count - 1:
        return f"{name}[{elements[0]}] to {name}[{elements[-1]}]"
    return f"{count} elements of {name}"


def write_element(name: str, array: np.ndarray, element: int) -> str:
    index = np.unravel_index(element, array.shape or (1,))
    return f"{name}[{', '.join(str(int(i)) for i in index)}]"


def _place(case: Instance, number: int) -> tuple[str, int]:
    """Return the output with element `number` of all outputs, and the index in it."""
    for name, want in case.wants.items():
        if number < want.size:
            return name, number
        number -= want.size
    raise IndexError(number)


def _describe_element(case: Instance, number: int) -> str:
    name, element = _place(case, number)
    return write_element(name, case.wants[name], element)


def _choose_stops(case: Instance) -> list[int]:
    """Choose elements for the slider: all, or some if there are too many."""
    count = sum(w.size for w in case.wants.values())
    inputs = sum(a.size for a in case.inputs.values())
    most = STOPS if inputs <= MANY else FEWER
    if count <= most:
        return list(range(count))
    middle = _choose_wished(case, range(count))
    return sorted({*np.linspace(0, count - 1, most).astype(int).tolist(), middle})


def _choose_first_stop(case: Instance, links: np.ndarray, stops: Sequence[int]) -> int:
    """Choose the first stop: an instructive element with the largest number of inputs.

    If other input values could change some elements, only these elements count.
    """
    first = next(iter(case.wants.values()))
    rows = {n: row for n, row in zip(stops, links) if n < first.size}
    open_ = {n: row for n, row in rows.items() if (row == COULD).any()}
    per = {n: int((row == NOW).sum()) for n, row in (open_ or rows).items()}
    most = max(per.values())
    return stops.index(_choose_wished(case, [n for n in per if per[n] == most]))


def _choose_wished(case: Instance, numbers: Sequence[int]) -> int:
    """Choose the most instructive of these elements of the first output.

    The choice should be neither zero, nor in a corner, nor on the diagonal.
    """
    first = next(iter(case.wants.values()))
    shape = first.shape[-2:] if first.ndim > 1 else (first.size,)
    wish = (0.3, 0.7) if len(shape) > 1 else (0.55,)

    def far(number: int) -> tuple[bool, float]:
        index = np.unravel_index(number % int(np.prod(shape)), shape)
        way = sum(abs((i + 0.5) / n - w) for i, n, w in zip(index, shape, wish))
        return not first.reshape(-1)[number], way

    return min((n for n in numbers if n < first.size), key=far)


# ---- captions -----------------------------------------------------------------------


def _write_counts(case: Instance, launch: tuple | None) -> str:
    wants, numbers = case.wants.items(), case.numbers.items()
    text = listed([f"{count_things(w.size, 'element')} of {n}" for n, w in wants])
    numbers = ", ".join(
        f"{n} = {describe_value(v)}" for n, v in numbers if np.ndim(v) == 0
    )
    if launch is not None:
        threads = int(np.prod(launch[0]) * np.prod(launch[1]))
        text = f"{launch_words(*launch)}: {count_things(threads, 'thread')} for {text}"
    return f"{text[0].upper()}{text[1:]}; {numbers}." if numbers else f"{text}."


def _write_legend(x: float, y: float, could: bool) -> str:
    out = []
    kinds = [(WRITTEN, False, "this element"), (READ, False, "its inputs")]
    if could:
        kinds.append((READ, True, "inputs that could change it"))
    for colour, empty, text in kinds:
        fill = 0.0 if empty else svg.FILL
        out.append(svg.box(x, y - 10, 13, 13, colour=colour, fill=fill))
        out.append(label(x + 20, y, text, 11, faint=True))
        x += 20 + svg.width_of(text, 11) + 18
    return "".join(out)


def _write_account(heading: str, case: Instance, launch: tuple | None) -> str:
    """Describe the picture in words, for terminals and screen readers."""
    lines = [f"{name} = {_write_listing(a)}" for name, a in case.inputs.items()]
    for name in case.wants:
        lines.append(f"{name} should be {_write_listing(narrow_dtype(case, name))}")
    return "\n".join([heading, *lines, _write_counts(case, launch)])


def _write_listing(array: np.ndarray) -> str:
    text = np.array2string(array, threshold=40, precision=3, separator=", ")
    return " ".join(text.split())
