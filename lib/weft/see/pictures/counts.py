"""The line of numbers below a picture, from the report's counters."""

from __future__ import annotations

from typing import Any

from ...base.text import round_number
from .scene import Scene


def counts(scene: Scene) -> list[str]:
    """What a thread costs, array by array: at most three lines."""
    counters = scene.report.counters if scene.report else None
    if counters is None:
        return []
    each = []
    for number in scene.arrays:
        array = scene.trace.arrays[number]
        said = [
            times(
                _read_counter(counters, what, array.name) / max(counters.threads, 1),
                what,
            )
            for what in ("reads", "writes", "atomics")
            if _read_counter(counters, what, array.name)
        ]
        if said:
            each.append(f"{array.name} {' and '.join(said)}")
    lines = [f"Per thread: {', '.join(each)}."] if each else []
    more = []
    for number in scene.arrays:
        array = scene.trace.arrays[number]
        if array.space == "shared":
            continue
        per = _read_counter(counters, "sectors_per_request", array.name)
        if per:
            more.append(f"{array.name} {round_number(per)}")
    if more:
        lines.append(f"Sectors per request: {', '.join(more)}.")
    shared = [a.name for a in scene.trace.arrays if a.space == "shared"]
    if shared:
        conflicts = [
            f"{n} {round_number(_read_counter(counters, 'bank_conflicts', n))}"
            for n in shared
        ]
        lines.append(f"Bank conflicts: {', '.join(conflicts)}.")
    return [" ".join(lines[:1]), " ".join(lines[1:])] if lines else []


def _read_counter(counters: Any, what: str, name: str) -> float:
    try:
        return float(getattr(counters, what)[name])
    except (AttributeError, KeyError, TypeError):
        return 0.0


def times(value: float, what: str) -> str:
    """ "2 reads", "1 write", "0.5 writes"."""
    word = {"atomics": "atomic updates"}.get(what, what)
    return f"{round_number(value)} {word.removesuffix('s') if value == 1 else word}"
