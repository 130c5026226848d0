"""The picture of an answer: what it does at the size that is drawn, and what it gave.

A Python kernel is drawn as weft.show() does it, who touches what; CUDA C by the values
it computed. Below either stands how these differ from the goal.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base.errors import KernelFault
from ..base.style import READ, WIDTH
from ..check.cases import by_name
from ..check.limit import TooLong, time_limit
from ..check.problem import call, name_results
from ..check.runners import Python
from ..see.inspect import inspect
from ..see.pictures.foot import sentences, times
from ..see.pictures.panels import EDGE
from ..see.pictures.show import Picture
from ..see.pictures.show import show as weft_show
from ..see.pictures.svg import Drawing, label
from ..see.pictures.values import Values, arranged_as
from .answers import Answer, is_stub, parse_answer
from .compared import IMAGE, describe_verdict, draw_beside, draw_outcome
from .goal import draw_goal
from .instance import Instance, make_instance
from .launches import launch_of, launch_words

TIMEOUT = 0.8  # seconds that a block may run: on a busy machine, too; an endless one
# is drawn so far
NOTE = "Who touches what is drawn for Python kernels."
ENDED = "the launch was ended before its results came back"


def show(puzzle: Any, answer: Any) -> Picture | None:
    """What an answer does with the inputs of the goal's picture.

    answer: what Puzzle.check() takes. Of one that is not begun a line is printed; the
    goal has a call of its own. What the answer itself raises comes through, but for a
    fault that can be drawn.
    """
    given = parse_answer(puzzle, answer)
    try:
        if is_stub(puzzle, given) and puzzle.start is None:
            raise NotImplementedError
        case = make_instance(puzzle)
        if not puzzle.is_kernel:
            return _draw_function(puzzle, case, given)
        if given.function is not None:
            return _draw_python(puzzle, case, given)
        return _draw_c(puzzle, case, given)
    except NotImplementedError:
        print(f"{puzzle.name}: not solved yet, so there is nothing to draw")
        return None


# ---- a Python kernel -------------------------------------------------------------


def _draw_python(puzzle: Any, case: Instance, given: Answer) -> Picture:
    """Who touches what, and below it what came out."""
    arrays, args, shapes = _make_arguments(puzzle, case, given)
    shown = weft_show(given.function, shapes=shapes, timeout=TIMEOUT)
    picture = shown[_launch_key(puzzle, case, 0)](*args)
    got = {name: arrays[name] for name in case.wants}
    drawing = picture.drawing
    # One with a maker of its own, that is; a transpose has numbers of ours.
    image = any(w.ndim == 2 and w.size >= IMAGE for w in case.wants.values())
    image &= bool(case.problem.data)
    aside = draw_beside(case, got, drawing, image)
    body, drawing.height = draw_outcome(
        *(case, got, drawing.height, picture.report),
        drawn=image,
        told=bool(aside),
    )
    drawing.base += aside
    drawing.base += body
    drawing.account += f"\n{describe_verdict(case, got)[0]}"
    return picture


def _make_arguments(
    puzzle: Any, case: Instance, given: Answer
) -> tuple[dict[str, np.ndarray], list[Any], dict[str, tuple[int, ...]]]:
    """Fresh arrays, what a launch is called with, and the shapes of flat ones."""
    shaped = Python(given.function) if given.function is not None else None
    fresh = {n: a.copy() for n, a in (case.inputs | case.starts).items()}
    args, shapes = [], {}
    for name in given.parameters:
        if name not in fresh:
            args.append(case.numbers[name])
        elif shaped is not None and not shaped.flat(name):
            args.append(fresh[name])
        else:
            args.append(fresh[name].reshape(-1))
            if fresh[name].ndim > 1:
                shapes[name] = fresh[name].shape
    return fresh, args, shapes


def _launch_key(puzzle: Any, case: Instance, *between: Any) -> tuple[Any, ...]:
    """What stands in a launch's brackets. between: grid and block, and the bytes of
    dynamic shared memory."""
    grid, block = launch_of(puzzle, case)
    shared = puzzle.checks.get("shared", 0)
    if callable(shared):
        plain = block[0] if block[1:] == (1, 1) else block
        shared = by_name(shared, case.sizes | {"block": plain})
    return (grid, block, *between, shared)


# ---- CUDA C, and functions -------------------------------------------------------


def _draw_c(puzzle: Any, case: Instance, given: Answer) -> Picture:
    """What it computed, in the watch build on the CPU, and its counts."""
    arrays, args, _ = _make_arguments(puzzle, case, given)
    launch = inspect(given.subject, quiet=True, timeout=2 * TIMEOUT)
    got = {name: arrays[name] for name in case.wants}
    try:
        report = launch[_launch_key(puzzle, case)](*args)
    except KernelFault as fault:
        report = getattr(fault, "report", None)
        if report is None:
            raise
        got = None  # its arrays are as they were
    heading = f"{given.name}, {launch_words(*launch_of(puzzle, case))}: what it gave"
    return _draw_values(case, got, heading, NOTE, report)


def _draw_function(puzzle: Any, case: Instance, given: Answer) -> Picture:
    """What a function of NumPy returns."""
    try:
        with time_limit(given.name, 2 * TIMEOUT):
            result = call(given.function, case.inputs, case.inputs | case.numbers)
    except TooLong:
        return draw_goal(puzzle, "the answer does not come to an end")
    if result is None:
        return draw_goal(puzzle, "the answer returns nothing")
    got = name_results(result, list(case.wants), given.name)
    return _draw_values(case, got, f"{given.name}: what it returns", "", None)


def _draw_values(
    case: Instance,
    got: dict[str, np.ndarray] | None,
    heading: str,
    note: str,
    report: Any,
) -> Picture:
    """Inputs, and what came of them; got: None where the launch was ended."""
    inputs = [Values(n, a, READ) for n, a in case.inputs.items()]
    base = label(EDGE, 28, heading, 17, bold=True)
    made, y = arranged_as(inputs, 48)
    base += "".join(one.drawn() for one in made)
    said = ENDED
    if got is not None:
        body, y = draw_outcome(case, got, y + 8, report, drawn=True)
        base, said = base + body, describe_verdict(case, got)[0]
    if report is not None:
        body, y = _describe_watched(report, y + 16)
        base += body
    if note:
        base += label(EDGE, y, note, 12, faint=True)
        y += 18
    account = f"{heading}\n{said}"
    for one in report.findings if report is not None else ():
        account += f"\n✗ {one.text}"
    drawing = Drawing(heading, WIDTH, y + 4, base, [], {(): []}, (), account)
    return Picture(drawing, report)


def _describe_watched(report: Any, y: float) -> tuple[str, float]:
    """What was found wrong, and what a thread costs."""
    out, y = sentences(report.findings, EDGE, y)
    out = f'<g data-findings="{len(report.findings)}">{out}</g>'
    counters = report.counters
    if counters is None:
        return out, y
    each = []
    kinds = {n: getattr(counters, n) for n in ("reads", "writes", "atomics")}
    for array in dict.fromkeys(name for of in kinds.values() for name in of):
        counts = [
            times(of[array] / max(counters.threads, 1), what)
            for what, of in kinds.items()
            if of.get(array)
        ]
        if counts:
            each.append(f"{array} {' and '.join(counts)}")
    if each:
        out += label(EDGE, y, f"Per thread: {', '.join(each)}.", 12, faint=True)
        y += 18
    return out, y
