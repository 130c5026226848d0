"""Reports of check() on mistakes: element, thread, sizes, and a guess at the cause.

find_writer() names the block and the thread of a wrong element in one line.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..base.arrays import find_unwritten, find_wrong, name_element, number
from ..base.errors import Mismatch
from . import mistakes, plan
from .mistakes.inputs import of_fault
from .problem import Attempt, Problem, Trial, make_arguments
from .runners import FunctionTooLong, Runner, SimulatedRunner

Index = tuple[int, int, int]


def find_writer(runner: Runner, attempt: Attempt, lines: list[str]) -> dict[str, Any]:
    """Return the block and thread of the wrong element; describe them in `lines`."""
    error, shape = attempt.error, attempt.trial.shape
    assert error is not None
    if shape is None or error.index is None:
        return {}
    traced, writer = _writer_of(runner, attempt)
    text = f"No thread wrote {name_element(error.array, error.index)}" if traced else ""
    place = writer or (_map_element(runner, attempt) if shape.plain else None)
    if place is None:
        lines += [f"{text}."] * bool(text)
        return {}
    block, thread = ("({},{},{})".format(*index) for index in place)
    name = f"thread {thread} of block {block}"
    if writer is not None:
        lines.append(f"{name.capitalize()} wrote it last.")
    elif text:
        lines.append(f"{text}; with a thread for each element that is {name}.")
    else:
        lines.append(f"With a thread for each element, that is {name}.")
    return {"block": place[0], "thread": place[1]}


def _writer_of(runner: Runner, attempt: Attempt) -> tuple[bool, tuple | None]:
    """Return whether accesses were recorded, and the element's last writer.

    The writer is (block, thread); None if there is none.
    """
    error, shape = attempt.error, attempt.trial.shape
    if not isinstance(runner, SimulatedRunner) or error is None:
        return False, None
    _, args = make_arguments(runner, attempt.trial)
    trace = runner.trace(args, shape, attempt.order)
    if trace is None:
        return False, None
    starts = attempt.trial.starts
    flat = int(np.ravel_multi_index(error.index, starts[error.array].shape))
    numbers = [i for i, a in enumerate(trace.arrays) if a.name == error.array]
    kinds = [s.kind if s.array in numbers else "" for s in trace.sites]
    sites = [i for i, kind in enumerate(kinds) if kind in ("write", "atomic")]
    writer = None
    for interval in trace.intervals:
        rows = np.isin(interval.site, sites) & (interval.element == flat)
        if rows.any():
            thread = int(interval.thread[np.flatnonzero(rows)[-1]])
            block = _unravel_index(interval.block, trace.grid)
            writer = block, _unravel_index(thread, trace.block)
    return True, writer


def _unravel_index(linear: int, sides: Sequence[int]) -> Index:
    x, y = (*sides, 1)[:2]
    return linear % x, linear // x % y, linear // (x * y)


def _map_element(runner: Runner, attempt: Attempt) -> tuple[Index, Index] | None:
    """Return the block and thread of the wrong element; None if that is unclear.

    The function assumes that each thread has one element of the first output.
    """
    error, shape = attempt.error, attempt.trial.shape
    assert error is not None and shape is not None
    first = next(iter(attempt.trial.starts))
    lengths = list(attempt.trial.starts[first].shape)
    if error.array != first or not lengths:
        return None
    flat = int(np.ravel_multi_index(error.index, lengths))
    at, sides = [], lengths[::-1][: runner.dimensions - 1]
    for side in sides:
        at.append(flat % side)
        flat //= side
    at += [flat] + [0] * (2 - len(sides))
    block = tuple(i // b for i, b in zip(at, shape.block))
    thread = tuple(i % b for i, b in zip(at, shape.block))
    return block, thread  # type: ignore[return-value]


EXPLORED = 12  # maximum number of later cases that are also run for the report


# again(number, order) runs case `number` of the plan; again(number, order, case)
# runs `case` instead.
Again = Callable[..., Attempt]


def refuse_run(
    problem: Problem,
    runner: Runner,
    first: Attempt,
    passed: Sequence[Attempt],
    cases: int,
    again: Again,
) -> Mismatch:
    """Return the Mismatch for the first failing run, with all available facts.

    passed: the runs before it. cases: the number of cases in the plan.
    """
    assert first.error is not None
    name = f"{runner.name} {runner.where}".strip()
    lines = [f"{name} is wrong with {first}: {first.error}"]
    facts = dict(first.error.facts)
    facts |= {"sizes": first.trial.sizes}
    if first.trial.shape is not None:
        facts |= {"grid": first.trial.shape.grid}
        facts |= {"launch_block": first.trial.shape.block}
    if first.by_value:
        facts |= find_writer(runner, first, lines)
    later_runs = []
    # After a fault, this process can no longer use the GPU.
    gpu_lost = runner.device is not None and not first.by_value
    too_long = isinstance(first.error.__cause__, FunctionTooLong)
    if not (gpu_lost or too_long or _is_hanging(first)):
        later_runs = _explore_cases(runner, first, cases, again)
        if not runner.few and not runner.device:
            later_runs += _probe(problem, [*passed, first, *later_runs], cases, again)
    guesses = _guess_mistakes(problem, runner, first, passed, later_runs, again)
    lines += guesses
    facts["guess"] = " ".join(guesses)
    return Mismatch("\n".join(lines), **facts)


def _is_hanging(attempt: Attempt) -> bool:
    text = str(attempt.error)
    kind = attempt.error.kind if attempt.error else ""
    return kind in ("hang", "deadlock") or "longer than" in text


def _explore_cases(runner: Runner, first: Attempt, cases: int, again: Again) -> list:
    """Run some cases after the failing case, with threads in the same order."""
    limit, attempts = 3 if runner.few else EXPLORED, []
    for index in range(first.trial.index + 1, cases)[:limit]:
        attempts.append(again(index, first.order))
        if _is_hanging(attempts[-1]):
            return attempts[:-1]
    return attempts


def _probe(
    problem: Problem, runs: Sequence[Attempt], cases: int, again: Again
) -> list[Attempt]:
    """Repeat a right run with one size at a time taken from a wrong run.

    The repetition finds the decisive size. In a plan, sizes often grow together.
    """
    passing = [run for run in runs if run.error is None]
    failing = [run for run in runs if run.error is not None]
    if not passing or len(problem.symbols) < 2:
        return []
    base = max(passing, key=lambda run: min(run.trial.sizes.values())).trial
    probes: list[Attempt] = []
    for name in problem.symbols:
        good = {run.trial.sizes[name] for run in passing}
        values = sorted({run.trial.sizes[name] for run in failing} - good)
        size = next((n for n in values if n > 1), values[0] if values else 0)
        if not size:
            continue
        sizes = base.sizes | {name: size}
        with contextlib.suppress(Exception):  # These sizes may be invalid.
            shape = plan.shape_for_sizes(problem, base.shape, sizes)
            probes.append(again(cases + len(probes), failing[0].order, (sizes, shape)))
            if _is_hanging(probes[-1]):
                break
    return probes


# ---- guesses ----------------------------------------------------------------------


def _guess_mistakes(
    problem: Problem,
    runner: Runner,
    first: Attempt,
    passed: Sequence[Attempt],
    later_runs: Sequence[Attempt],
    again: Again,
) -> list[str]:
    """Return sentences that guess the mistake."""
    guesses = []
    order = _by_order(runner, first, again)
    runs = [*passed, first, *later_runs]
    spacing = "" if order else _guess_spacing(problem, first, runs)
    if order:
        guesses.append(order)
    else:
        text = spacing or ("" if first.by_value else of_fault(first.error, first.trial))
        text = text or _guess(problem, first, later_runs)
        guesses += [text] if text else []
    output, axes = problem.first_output, {}
    if output is not None and runner.dimensions >= len(output.axes):
        axes = {n: i for i, n in enumerate(reversed(output.axes)) if n}
    rows = [(a.trial.sizes, _block_of(a), a.error is None) for a in runs]
    pattern = mistakes.describe_pattern(rows, axes, _grid_of(first) is not None)
    if spacing and "depended on that" in pattern:
        pattern = ""  # a sentence has already reported the pattern
    is_explained = any(not text.startswith("looks like the ") for text in guesses)
    if (is_explained or not first.by_value) and "threadIdx" in pattern:
        # Another sentence gives this hint, or there are several blocks.
        pattern = pattern.partition(":")[0] + "."
    if guesses and pattern.endswith(" is 1.") and "only where" in pattern:
        # Most mistakes stay hidden at size 1.
        pattern = "" if "is right" in pattern else pattern
    sentences = [f"It {text}{'' if text.endswith('?') else '.'}" for text in guesses]
    return sentences + [pattern] * bool(pattern)


def _guess_spacing(problem: Problem, first: Attempt, runs: Sequence[Attempt]) -> str:
    """Guess whether all runs' blocks begin too close together or too far apart."""
    if not first.by_value:
        return ""
    launches = []
    for run in runs:
        shape, name = run.trial.shape, first.wrong
        if shape is None or (*shape.grid[1:], *shape.block[1:]) != (1, 1, 1, 1):
            return ""
        mask = np.ones(run.trial.want[name].shape, bool)
        if run.error is not None:
            scene = _make_scene(problem, run) if run.wrong == name else None
            if scene is None or scene.unwritten is None:
                return ""
            mask = ~scene.unwritten
            if (scene.bad & mask).any():
                return ""  # Some of the written elements are wrong as well.
        launched = shape.grid[0], shape.block[0], mask.ravel()
        launches.append(mistakes.Launched(*launched))
    reported = launches[[run is first for run in runs].index(True)]
    output = first.wrong, first.trial.want[first.wrong].shape
    return mistakes.guess_spacing(*output, reported, launches)


def _guess(problem: Problem, first: Attempt, later_runs: Sequence[Attempt]) -> str:
    """Guess from the wrong numbers of the largest runs, otherwise of the first.

    The report is about the first run. A guess that mentions positions from another run
    also names that run. A guess at a cause is kept only if the larger runs support it.
    Anything that the first run proves takes precedence, since a larger run may fail in
    another way.
    """
    base = ""  # the guess from the reported run
    if first.by_value:
        scene = _make_scene(problem, first)
        if proven := mistakes.describe_proof(scene):
            return proven
        base = mistakes.guess(scene)
    failing = [a for a in (first, *later_runs) if a.by_value]
    # Large runs contain more evidence.
    failing.sort(key=lambda a: -a.got[a.wrong].size)
    for attempt in failing[:2]:
        is_first = attempt is first
        guess = base if is_first else mistakes.guess(_make_scene(problem, attempt))
        if not guess:
            continue
        if re.sub(r"\d+", "", base) == re.sub(r"\d+", "", guess):
            return base  # the two guesses differ only in their numbers
        needs_place = _PLACE.search(guess) or not first.by_value
        return guess + (f" (with {attempt})" if needs_place else "")
    if any(attempt is not first for attempt in failing[:2]):
        return _CAUSE.sub("", base)
    return base


_PLACE = re.compile(r"\b(from|first|last) \d")  # as in "the elements from 9 on"
_CAUSE = re.compile(
    r"(?<=looks like ).*: (?=(the|all but|elements|rows|columns) .*"
    r"(never written|wrong, the rest right)$)"
)


def _block_of(attempt: Attempt) -> Index | None:
    return attempt.trial.shape.block if attempt.trial.shape else None


def _grid_of(attempt: Attempt) -> Index | None:
    """Return the grid if the caller chose it; None otherwise."""
    shape = attempt.trial.shape
    return None if shape is None or shape.plain else shape.grid  # type: ignore


def _by_order(runner: Runner, first: Attempt, again: Again) -> str:
    """Describe a result that depends on the order of the threads."""
    if not first.by_value or len(runner.orders) < 2:
        return ""
    name, at = first.wrong, first.error.index  # type: ignore[union-attr]
    for order in runner.orders:
        if order == first.order:
            continue
        attempt = again(first.trial.index, order)
        if not attempt.got:
            continue
        bound = 2 * first.trial.bound[name]
        differs = find_wrong(first.got[name], attempt.got[name], bound)
        if differs.any():
            if not differs[at]:
                at = tuple(map(int, np.argwhere(differs)[0]))
            values = []
            for run, place in ((first, first.order), (attempt, order)):
                place = "in reverse" if place == "reverse" else place
                values.append(f"{number(run.got[name][at])} with threads {place}")
            cause = "two threads access the same element, or a barrier is missing"
            text = f"{name_element(name, at)} is {', '.join(values)}"
            return f"looks like a race: {text}; {cause}"
    return ""


def _make_scene(problem: Problem, attempt: Attempt) -> mistakes.WrongOutput:
    trial, name = attempt.trial, attempt.wrong
    want, got = trial.want[name], attempt.got[name]
    start = trial.starts.get(name) if name in problem.outputs else None
    poison = start.flat[0] if start is not None and start.size else None
    unwritten = None
    if poison is not None and got.dtype == start.dtype and got.dtype.itemsize > 1:
        unwritten = find_unwritten(got, poison)
    inputs = {n: a for n, a in trial.pool.items() if n in trial.inputs}

    def again(changed: dict[str, np.ndarray]) -> np.ndarray:
        result = problem.answer(trial.pool | changed)
        return problem._wants(result, trial.starts)[name]

    specs = problem.inputs | problem.inout
    axes = {n: specs[n].axes for n in inputs}
    output = problem.outputs.get(name) or problem.inout.get(name)
    return mistakes.WrongOutput(
        *(name, got.reshape(want.shape), want, trial.bound[name], _block_of(attempt)),
        *(unwritten, poison, inputs, again, axes),
        output=output.axes if output else _list_unnamed(trial, want),
        grid=_grid_of(attempt),
    )


def _list_unnamed(trial: Trial, want: np.ndarray) -> tuple[str, ...]:
    """Name the size that equals each side of a returned array; "" if none does."""
    names = {v: n for n, v in trial.sizes.items()}
    return tuple(names.get(length, "") for length in want.shape)
