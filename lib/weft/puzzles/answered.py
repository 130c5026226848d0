"""The picture of an answer: what it does at the size that is drawn, and what it gave.

A Python kernel is drawn as weft.show() does it, who touches what; CUDA C by the values
it computed. Below either stands how these differ from the goal.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..guarded import unwritten
from ..pictures.faults import sentences
from ..pictures.panels import EDGE
from ..pictures.player import Drawing
from ..pictures.svg import label
from ..pictures.touches import listed
from ..pictures.values import LARGEST, Values, arranged_as, said
from ..show import Picture
from ..style import FAULT, READ, SHARED, WIDTH, WRITTEN
from ..words import plural, rounded
from .answers import Answer, is_stub, understood
from .goal import goal, indexed, launch_of, launch_words, narrowed
from .instance import Instance, instance

SMALL = 10.0  # pixels of a cell of an image
TIMEOUT = 0.3  # seconds that a block may run; an endless one is drawn so far
NOTE = "Who touches what is drawn for Python kernels."
IMAGE = 400  # elements of rows and columns from which on they are seen as an image
ENDED = "the launch was ended before its results came back"
TOLERANCE = 1e-4  # of a float output's largest value: the picture's, no checker's


def show(puzzle: Any, answer: Any) -> Picture:
    """What an answer does with the inputs of the goal's picture.

    answer: what Puzzle.check() takes. One that is not begun gives the goal. What the
    answer itself raises comes through, but for a fault that can be drawn.
    """
    given = understood(puzzle, answer)
    try:
        if is_stub(puzzle, given) and puzzle.start is None:
            raise NotImplementedError
        case = instance(puzzle)
        if not puzzle.is_kernel:
            return _function(puzzle, case, given)
        if given.function is not None:
            return _python(puzzle, case, given)
        return _c(puzzle, case, given)
    except NotImplementedError:
        return goal(puzzle, "not solved yet")


# ---- a Python kernel -------------------------------------------------------------


def _python(puzzle: Any, case: Instance, given: Answer) -> Picture:
    """Who touches what, and below it what came out."""
    from .. import show as weft_show

    arrays, args, shapes = _arguments(puzzle, case, given)
    shown = weft_show(given.function, shapes=shapes, timeout=TIMEOUT)
    picture = shown[_key(puzzle, case, 0)](*args)
    got = {name: arrays[name] for name in case.wants}
    drawing = picture.drawing
    # One with a maker of its own, that is; a transpose has numbers of ours.
    image = any(w.ndim == 2 and w.size >= IMAGE for w in case.wants.values())
    image &= bool(case.problem.data)
    body, drawing.height = _outcome(
        *(case, got, drawing.height, picture.report), drawn=image
    )
    drawing.base += body
    drawing.account += f"\n{_verdict(case, got)[0]}"
    return picture


def _arguments(
    puzzle: Any, case: Instance, given: Answer
) -> tuple[dict[str, np.ndarray], list[Any], dict[str, tuple[int, ...]]]:
    """Fresh arrays, what a launch is called with, and the shapes of flat ones."""
    from ..check.runners import Python

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


def _key(puzzle: Any, case: Instance, *between: Any) -> tuple[Any, ...]:
    """What stands in a launch's brackets. between: grid and block, and the bytes of
    dynamic shared memory."""
    grid, block = launch_of(puzzle, case)
    shared = puzzle.checks.get("shared", 0)
    if callable(shared):
        from ..check.cases import by_name

        plain = block[0] if block[1:] == (1, 1) else block
        shared = by_name(shared, case.sizes | {"block": plain})
    return (grid, block, *between, shared)


# ---- CUDA C, and functions -------------------------------------------------------


def _c(puzzle: Any, case: Instance, given: Answer) -> Picture:
    """What it computed, in the check build on the CPU, and its counts."""
    from ..inspect import inspect
    from ..jit import KernelFault

    arrays, args, _ = _arguments(puzzle, case, given)
    launch = inspect(given.subject, quiet=True, timeout=2 * TIMEOUT)
    got = {name: arrays[name] for name in case.wants}
    try:
        report = launch[_key(puzzle, case)](*args)
    except KernelFault as fault:
        report = getattr(fault, "report", None)
        if report is None:
            raise
        got = None  # its arrays are as they were
    heading = f"{given.name}, {launch_words(*launch_of(puzzle, case))}: what it gave"
    return _values(case, got, heading, NOTE, report)


def _function(puzzle: Any, case: Instance, given: Answer) -> Picture:
    """What a function of NumPy returns."""
    from ..check.limit import TooLong, time_limit
    from ..check.problem import call, named

    try:
        with time_limit(given.name, 2 * TIMEOUT):
            result = call(given.function, case.inputs, case.inputs | case.numbers)
    except TooLong:
        return goal(puzzle, "the answer does not come to an end")
    if result is None:
        return goal(puzzle, "the answer returns nothing")
    got = named(result, list(case.wants), given.name)
    return _values(case, got, f"{given.name}: what it returns", "", None)


def _values(
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
    verdict = ENDED
    if got is not None:
        body, y = _outcome(case, got, y + 8, report, drawn=True)
        base, verdict = base + body, _verdict(case, got)[0]
    if report is not None:
        body, y = _watched(report, y + 16)
        base += body
    if note:
        base += label(EDGE, y, note, 12, faint=True)
        y += 18
    account = f"{heading}\n{verdict}"
    for one in report.findings if report is not None else ():
        account += f"\n✗ {one.text}"
    drawing = Drawing(heading, WIDTH, y + 4, base, [], {(): []}, (), account)
    return Picture(drawing, report)


def _watched(report: Any, y: float) -> tuple[str, float]:
    """What was found wrong, and what a thread costs."""
    out, y = sentences(report.findings, EDGE, y)
    out = f'<g data-findings="{len(report.findings)}">{out}</g>'
    counters = report.counters
    if counters is None:
        return out, y
    each = []
    for array in dict.fromkeys([*counters.reads, *counters.writes]):
        counts = [
            f"{rounded(of[array] / max(counters.threads, 1))} {verb}"
            for verb, of in (("reads", counters.reads), ("writes", counters.writes))
            if of.get(array)
        ]
        if counts:
            each.append(f"{array} {' and '.join(counts)}")
    if each:
        out += label(EDGE, y, f"Per thread: {', '.join(each)}.", 12, faint=True)
        y += 18
    return out, y


# ---- how it differs from the goal ------------------------------------------------


def _differ(case: Instance, name: str, got: np.ndarray) -> np.ndarray:
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


def _verdict(case: Instance, got: dict[str, np.ndarray]) -> tuple[str, bool]:
    """One sentence on the whole, and whether all is as wanted."""
    parts, first = [], ""
    for name, want in case.wants.items():
        wrong = _differ(case, name, got[name])
        if len(wrong):
            parts.append(f"{len(wrong)} of {plural(want.size, 'element')} of {name}")
            first = first or _told(case, name, got[name], int(wrong[0]))
    if not parts:
        names = listed(list(case.wants))
        verb = "hold" if len(case.wants) > 1 else "holds"
        return f"{names} {verb} what the goal asks for, at this size.", True
    verb = "differs" if parts[0].startswith("1 ") and len(parts) == 1 else "differ"
    return f"{listed(parts)} {verb} from the goal: {first}.", False


def _told(case: Instance, name: str, got: np.ndarray, element: int) -> str:
    """ "out[3] is 0, and shall be 14"."""
    where = indexed(name, case.wants[name], element)
    wanted = f"shall be {said(narrowed(case, name).reshape(-1)[element])}"
    if np.shape(got) != case.wants[name].shape:
        return f"its shape is {np.shape(got)}, and shall be {case.wants[name].shape}"
    if element in _unwritten(case, name, got):
        return f"{where} was not written, and {wanted}"
    return f"{where} is {said(np.reshape(got, -1)[element])}, and {wanted}"


def _unwritten(case: Instance, name: str, got: np.ndarray) -> np.ndarray:
    """The elements that still hold what they held before, flat; of an output only."""
    start = case.starts.get(name)
    if start is None or name in case.inputs:
        return np.array([], int)
    return np.flatnonzero(unwritten(np.asarray(got).reshape(-1), start.reshape(-1)[0]))


def _outcome(
    case: Instance,
    got: dict[str, np.ndarray],
    top: float,
    report: Any,
    *,
    drawn: bool = False,
) -> tuple[str, float]:
    """What came out beside the goal, where they differ. drawn: also where not."""
    text, right = _verdict(case, got)
    sign, colour = ("✓", SHARED) if right else ("✗", FAULT)
    if right and report is not None and report.findings:
        text, sign = f"{text[:-1]}, but see what went wrong.", ""
    out = label(EDGE, top + 14, sign, 14, colour=colour, bold=True)
    out += label(EDGE + 18 * bool(sign), top + 14, text, 13)
    y = top + 28
    for name in case.wants:
        wrong = _differ(case, name, got[name])
        if len(wrong) or drawn:
            body, y = _compared(case, name, got[name], wrong, y + 8)
            out += body
    return f'<g data-outcome="{"right" if right else "wrong"}">{out}</g>', y + 4


def _compared(
    case: Instance, name: str, got: np.ndarray, wrong: np.ndarray, top: float
) -> tuple[str, float]:
    """An output as it came out; where it is wrong, what it shall be as well."""
    want = narrowed(case, name)
    got = np.asarray(got)
    blank = _unwritten(case, name, got)
    mine = Values(name, got, WRITTEN, about="what it gave", blank=blank)
    pair = [mine]
    if len(wrong):
        goal_ = Values(name, want, WRITTEN, about="what it shall be")
        pair = [replace(mine, indices="none"), goal_]
    side = SMALL if want.size >= IMAGE else LARGEST
    placed, y = arranged_as(pair, top, side)
    out = "".join(one.drawn() for one in placed)
    if len(wrong) and got.shape == want.shape:
        out += placed[0].marked(wrong, "wrong", colour=FAULT, dashed=True)
        out += placed[1].marked(wrong, "wanted")
    return out, y
