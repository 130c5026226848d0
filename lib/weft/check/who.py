"""Which block and thread a wrong element belongs to, said in a line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..base.arrays import name_element
from .attempt import Attempt
from .problem import make_arguments
from .runners import Runner, Simulated

Index = tuple[int, int, int]


def find_writer(runner: Runner, attempt: Attempt, lines: list[str]) -> dict[str, Any]:
    """The block and the thread of the wrong element, said in a line."""
    error, shape = attempt.error, attempt.trial.shape
    assert error is not None
    if shape is None or error.index is None:
        return {}
    known, writer = _writer_of(runner, attempt)
    if writer is not None:
        block, thread = writer
        lines.append(
            f"Thread {_dimension_of(thread)} of block {_dimension_of(block)} "
            "wrote it last."
        )
        return {"block": block, "thread": thread}
    said = f"No thread wrote {name_element(error.array, error.index)}" if known else ""
    place = _map_element(runner, attempt) if shape.plain else None
    if place is None:
        if said:
            lines.append(f"{said}.")
        return {}
    block, thread = place
    who = f"thread {_dimension_of(thread)} of block {_dimension_of(block)}"
    if said:
        lines.append(f"{said}; with a thread for each element that is {who}.")
    else:
        lines.append(f"With a thread for each element, that is {who}.")
    return {"block": block, "thread": thread}


def _writer_of(runner: Runner, attempt: Attempt) -> tuple[bool, tuple | None]:
    """Whether a record tells, and the (block, thread) that wrote the element last."""
    error, shape = attempt.error, attempt.trial.shape
    if not isinstance(runner, Simulated) or error is None:
        return False, None
    _, args = make_arguments(runner, attempt.trial)
    trace = runner.trace(args, shape, attempt.order)
    if trace is None:
        return False, None
    starts = attempt.trial.starts
    flat = int(np.ravel_multi_index(error.index, starts[error.array].shape))
    numbers = [i for i, a in enumerate(trace.arrays) if a.name == error.array]
    sites = [
        i
        for i, s in enumerate(trace.sites)
        if s.array in numbers and s.kind in ("write", "atomic")
    ]
    found = None
    for interval in trace.intervals:
        rows = np.isin(interval.site, sites) & (interval.element == flat)
        if rows.any():
            last = int(np.flatnonzero(rows)[-1])
            found = interval.block, int(interval.thread[last])
    if found is None:
        return True, None
    return True, (
        _unravel_index(found[0], trace.grid),
        _unravel_index(found[1], trace.block),
    )


def _unravel_index(linear: int, sides: Sequence[int]) -> Index:
    x, y = (*sides, 1)[:2]
    return linear % x, linear // x % y, linear // (x * y)


def _map_element(runner: Runner, attempt: Attempt) -> tuple[Index, Index] | None:
    """Block and thread of the element, where each thread has one element."""
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


def _dimension_of(index: Sequence[int]) -> str:
    return "({},{},{})".format(*index)
