"""Draw an answer: its results and the expected ones.

A Python kernel is drawn by weft.show(), with the accesses of each thread. For CUDA
C, the picture shows the computed values. Either picture also shows the difference from
the goal.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..base.arrays import find_unwritten
from ..base.errors import KernelFault
from ..base.style import FAULT, READ, SHARED, WIDTH, WRITTEN
from ..base.text import count_things
from ..check.cases import by_name
from ..check.problem import call, name_results
from ..check.runners import FunctionTooLong, PythonRunner, time_limit
from ..see.pictures.arrows import place
from ..see.pictures.findings import sentences, times
from ..see.pictures.panels import EDGE
from ..see.pictures.show import Picture
from ..see.pictures.show import show as weft_show
from ..see.pictures.svg import Drawing, label
from ..see.pictures.touches import listed
from ..see.pictures.values import (
    HALOS,
    LARGEST,
    Values,
    arranged_as,
    describe_value,
    in_a_line,
    stacked,
)
from ..see.watched_runs import inspect
from .answers import PuzzleAnswer, is_stub, parse_answer
from .goal import draw_goal, launch_of, launch_words, narrow_dtype, write_element
from .instance import Instance, make_instance

# A two-dimensional array of at least this many elements is drawn as an image.
IMAGE = 400
SMALL = 10.0  # side of an image's cell in pixels
SMALLEST = 5.0  # side of the smallest cell of an image
READ_AT = 22.0  # side in pixels of the smallest cell with a readable number
# Tolerance of pictures, relative to the largest value of a float output. Checks do not
# use it.
TOLERANCE = 1e-4


def _find_differences(case: Instance, name: str, got: np.ndarray) -> np.ndarray:
    """Return the flat indices of the elements that differ from the goal."""
    want = case.wants[name].reshape(-1)
    result = np.asarray(got).reshape(-1)
    if result.shape != want.shape:
        return np.arange(want.size)
    start = case.starts.get(name)
    if result.dtype.kind in "fc" or start is None:
        with np.errstate(all="ignore"):  # the poison is a signalling NaN
            want, result = want.astype(float), result.astype(float)
            bound = TOLERANCE * max(1.0, float(np.abs(want).max(initial=0)))
            wrong = ~((np.abs(result - want) <= bound) | (result == want))
    else:
        wrong = result != want
    return np.flatnonzero(wrong)


def describe_verdict(case: Instance, got: dict[str, np.ndarray]) -> tuple[str, bool]:
    """Return a sentence about the results, and whether all outputs are right."""
    parts, first = [], ""
    for name, want in case.wants.items():
        wrong = _find_differences(case, name, got[name])
        if len(wrong):
            things = count_things(want.size, "element")
            parts.append(f"{len(wrong)} of {things} of {name}")
            first = first or _describe_element(case, name, got[name], int(wrong[0]))
    if not parts:
        names = listed(list(case.wants))
        verb = "agree" if len(case.wants) > 1 else "agrees"
        return f"{names} {verb} with the goal at this size.", True
    verb = "differs" if parts[0].startswith("1 ") and len(parts) == 1 else "differ"
    return f"{listed(parts)} {verb} from the goal: {first}.", False


def _describe_element(case: Instance, name: str, got: np.ndarray, element: int) -> str:
    """Describe a wrong element, such as "out[3] is 0, but should be 14"."""
    element_name = write_element(name, case.wants[name], element)
    expected = (
        f"should be {describe_value(narrow_dtype(case, name).reshape(-1)[element])}"
    )
    if np.shape(got) != case.wants[name].shape:
        return f"its shape is {np.shape(got)}, but should be {case.wants[name].shape}"
    if element in _find_unwritten(case, name, got):
        return f"{element_name} was not written, but {expected}"
    value = describe_value(np.reshape(got, -1)[element])
    return f"{element_name} is {value}, but {expected}"


def _find_unwritten(case: Instance, name: str, got: np.ndarray) -> np.ndarray:
    """Return the flat indices of an output's elements that kept their initial value."""
    start = case.starts.get(name)
    if start is None or name in case.inputs:
        return np.array([], int)
    flat = np.asarray(got).reshape(-1)
    return np.flatnonzero(find_unwritten(flat, start.reshape(-1)[0]))


def draw_outcome(
    case: Instance,
    got: dict[str, np.ndarray],
    top: float,
    report: Any,
    *,
    drawn: bool = False,
    elsewhere: bool = False,
) -> tuple[str, float]:
    """Write the verdict; draw the results and the goal if they differ.

    drawn: whether to draw the results even if they are right. elsewhere: whether
    another part of the picture shows the results. Return the SVG, and the y coordinate
    of its lower edge.
    """
    text, right = describe_verdict(case, got)
    sign, colour = ("✓", SHARED) if right else ("✗", FAULT)
    if right and report is not None and report.findings:
        text, sign = f"{text[:-1]}, but see the faults below.", ""
    out = label(EDGE, top + 14, sign, 14, colour=colour, bold=True)
    out += label(EDGE + 18 * bool(sign), top + 14, text, 13)
    y = top + 28
    for name in case.wants:
        wrong = _find_differences(case, name, got[name])
        if (len(wrong) or drawn) and not elsewhere:
            body, y = _draw_compared(case, name, got[name], wrong, y + 8)
            out += body
    return f'<g data-outcome="{"right" if right else "wrong"}">{out}</g>', y + 4


def draw_beside(
    case: Instance, got: dict[str, np.ndarray], drawing: Drawing, drawn: bool
) -> str:
    """Draw the results in a free part of the access picture; "" if no part is free."""
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
        for layout in (lines, columns):
            values = [one for placed, _ in layout for one in placed]
            wide = max(v.grid.left - v.gutter + v.width for v in values)
            tall = sum(bottom for _, bottom in layout) + 14 * (len(layout) - 1)
            fits = largest == SMALL or all(one.is_worded for one in values)
            corner = place(drawing.taken, wide, tall) if fits else None
            if corner is not None:
                return _draw_pairs(case, [w for _, w in pairs], layout, *corner)
    return ""


def _draw_pairs(
    case: Instance, differences: list[np.ndarray], layout: list, x: float, y: float
) -> str:
    """Draw the pairs one below another, starting at the upper left corner (x, y).

    layout: for each pair, its placed values and the y coordinate of their lower edge.
    """
    out = ""
    for wrong, (placed, bottom) in zip(differences, layout):
        out += _mark_cells(case, [one.moved(x, y) for one in placed], wrong)
        y += bottom + 14
    return f'<g data-beside="">{out}</g>'


def _side_length(pair: list[Values]) -> float:
    return SMALL if pair[0].array.size >= IMAGE else LARGEST


def _pair_values(
    case: Instance, name: str, got: np.ndarray, wrong: np.ndarray
) -> list[Values]:
    """Return the computed output and, if it is wrong, the expected one."""
    got = np.asarray(got)
    blank = _find_unwritten(case, name, got)
    pair = [Values(name, got, WRITTEN, about="the result", blank=blank)]
    if len(wrong):
        pair[0] = replace(pair[0], indices="none")
        want = narrow_dtype(case, name)
        pair.append(Values(name, want, WRITTEN, about="the goal"))
    return pair


def _draw_compared(
    case: Instance, name: str, got: np.ndarray, wrong: np.ndarray, top: float
) -> tuple[str, float]:
    """Draw an output and the goal at y = `top`; also return y of the lower edge."""
    pair = _pair_values(case, name, got, wrong)
    placed, y = arranged_as(pair, top, _side_length(pair))
    return _mark_cells(case, placed, wrong), y


def _mark_cells(case: Instance, placed: list[Values], wrong: np.ndarray) -> str:
    out = "".join(one.drawn() for one in placed)
    if len(wrong) and placed[0].array.shape == case.wants[placed[0].name].shape:
        out += placed[0].marked(wrong, "wrong", colour=FAULT, empty=True)
        if placed[1].is_worded or len(wrong) <= HALOS:
            out += placed[1].marked(wrong, "wanted")
    return out


# Time limit in seconds for a block. It stops endless kernels.
TIMEOUT = 0.8
NOTE = "The accesses of each thread are drawn for Python kernels."
ENDED = "the launch was stopped before it returned results"


def show(puzzle: Any, answer: Any) -> Picture | None:
    """Draw what an answer does with the inputs of the goal's picture.

    answer: as for Puzzle.check(). For an unchanged stub, print a line and return None;
    goal() draws the goal. Exceptions of the answer propagate, except a fault that the
    picture shows.
    """
    submission = parse_answer(puzzle, answer)
    try:
        if is_stub(puzzle, submission) and puzzle.start is None:
            raise NotImplementedError
        case = make_instance(puzzle)
        if not puzzle.is_kernel:
            return _draw_function(puzzle, case, submission)
        if submission.function is not None:
            return _draw_python(puzzle, case, submission)
        return _draw_c(puzzle, case, submission)
    except NotImplementedError:
        print(f"{puzzle.name}: not solved yet, so there is nothing to draw")
        return None


# ---- a Python kernel -------------------------------------------------------------


def _draw_python(puzzle: Any, case: Instance, answer: PuzzleAnswer) -> Picture:
    """Draw the accesses of each thread, and the results."""
    arrays, args, shapes = _make_arguments(puzzle, case, answer)
    launcher = weft_show(answer.function, shapes=shapes, timeout=TIMEOUT)
    picture = launcher[_launch_key(puzzle, case, 0)](*args)
    got = {name: arrays[name] for name in case.wants}
    drawing = picture.drawing
    # Right results are also drawn if they form an image of the puzzle's own data. A
    # transpose, for example, has no such data: make_instance() chooses its numbers.
    image = any(w.ndim == 2 and w.size >= IMAGE for w in case.wants.values())
    image &= bool(case.problem.data)
    aside = draw_beside(case, got, drawing, image)
    start = (case, got, drawing.height, picture.report)
    body, drawing.height = draw_outcome(*start, drawn=image, elsewhere=bool(aside))
    drawing.base += aside + body
    drawing.account += f"\n{describe_verdict(case, got)[0]}"
    return picture


def _make_arguments(
    puzzle: Any, case: Instance, answer: PuzzleAnswer
) -> tuple[dict[str, np.ndarray], list[Any], dict[str, tuple[int, ...]]]:
    """Return fresh arrays, the arguments of a launch, and the shapes of flat arrays."""
    shaped = answer.function and PythonRunner(answer.function)
    fresh = {n: a.copy() for n, a in (case.inputs | case.starts).items()}
    args, shapes = [], {}
    for name in answer.parameters:
        if name not in fresh:
            args.append(case.numbers[name])
        elif shaped and not shaped.flat(name):
            args.append(fresh[name])
        else:
            args.append(fresh[name].reshape(-1))
            if fresh[name].ndim > 1:
                shapes[name] = fresh[name].shape
    return fresh, args, shapes


def _launch_key(puzzle: Any, case: Instance, *between: Any) -> tuple[Any, ...]:
    """Return the launch configuration for kernel[...].

    It is (grid, block, *between, bytes of dynamic shared memory).
    """
    grid, block = launch_of(puzzle, case)
    shared = puzzle.checks.get("shared", 0)
    if callable(shared):
        plain = block[0] if block[1:] == (1, 1) else block
        shared = by_name(shared, case.sizes | {"block": plain})
    return (grid, block, *between, shared)


# ---- CUDA C, and functions -------------------------------------------------------


def _draw_c(puzzle: Any, case: Instance, answer: PuzzleAnswer) -> Picture:
    """Draw the results from the watch build on the CPU, with its counts."""
    arrays, args, _ = _make_arguments(puzzle, case, answer)
    launch = inspect(answer.subject, quiet=True, timeout=2 * TIMEOUT)
    got = {name: arrays[name] for name in case.wants}
    try:
        report = launch[_launch_key(puzzle, case)](*args)
    except KernelFault as fault:
        report = getattr(fault, "report", None)
        if report is None:
            raise
        got = None  # a launch with a fault leaves the arrays unchanged
    heading = f"{answer.name}, {launch_words(*launch_of(puzzle, case))}: its results"
    return _draw_values(case, got, heading, report)


def _draw_function(puzzle: Any, case: Instance, answer: PuzzleAnswer) -> Picture:
    """Draw the return value of a NumPy function."""
    try:
        with time_limit(answer.name, 2 * TIMEOUT):
            result = call(answer.function, case.inputs, case.inputs | case.numbers)
    except FunctionTooLong:
        return draw_goal(puzzle, "the answer does not end")
    if result is None:
        return draw_goal(puzzle, "the answer returns nothing")
    got = name_results(result, list(case.wants), answer.name)
    return _draw_values(case, got, f"{answer.name}: its result", None)


def _draw_values(case: Instance, got: Any, heading: str, report: Any) -> Picture:
    """Draw the inputs and results; got: the outputs; None for a stopped launch."""
    inputs = [Values(n, a, READ) for n, a in case.inputs.items()]
    base = label(EDGE, 28, heading, 17, bold=True)
    arrays, y = arranged_as(inputs, 48)
    base += "".join(one.drawn() for one in arrays)
    verdict = ENDED
    if got is not None:
        body, y = draw_outcome(case, got, y + 8, report, drawn=True)
        base, verdict = base + body, describe_verdict(case, got)[0]
    account = f"{heading}\n{verdict}"
    if report is not None:  # only kernels in CUDA C have a report
        body, y = _describe_watched(report, y + 16)
        base += body + label(EDGE, y, NOTE, 12, faint=True)
        y += 18
        account += "".join(f"\n✗ {one.text}" for one in report.findings)
    drawing = Drawing(heading, WIDTH, y + 4, base, [], {(): []}, (), account)
    return Picture(drawing, report)


def _describe_watched(report: Any, y: float) -> tuple[str, float]:
    """Write the findings and the accesses per thread; also return y of their end."""
    out, y = sentences(report.findings, EDGE, y)
    out = f'<g data-findings="{len(report.findings)}">{out}</g>'
    counters = report.counters
    if counters is None:
        return out, y
    each, threads = [], max(counters.threads, 1)
    kinds = {n: getattr(counters, n) for n in ("reads", "writes", "atomics")}
    for array in kinds["reads"] | kinds["writes"] | kinds["atomics"]:
        counts = {kind: by_array.get(array) for kind, by_array in kinds.items()}
        parts = [times(n / threads, kind) for kind, n in counts.items() if n]
        if parts:
            each.append(f"{array} {' and '.join(parts)}")
    if each:
        out += label(EDGE, y, f"Per thread: {', '.join(each)}.", 12, faint=True)
        y += 18
    return out, y
