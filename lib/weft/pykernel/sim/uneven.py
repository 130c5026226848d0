"""What is said where not all threads of a block come to one barrier."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...report.model import Finding
from ...report.places import Index, unflatten, write_index
from .record import Place


def make_finding(
    places: Sequence[Place],
    waiting: Mapping[int, Sequence[int]],
    gone: Sequence[int],
    at: int,
    grid: Index,
    block: Index,
) -> Finding:
    """The Finding for one opening of a barrier.

    waiting: the threads at each place, by its number in places. gone: those that have
    come to the kernel's end. at: the number of the block.
    """
    main = max(waiting, key=lambda place: len(waiting[place]))
    place, here = places[main], sorted(waiting[main])
    where = unflatten(at, grid)
    others = [
        f"{_name_threads(numbers, block)} {_wait(numbers)} at that of line "
        f"{places[p].line}"
        for p, numbers in waiting.items()
        if p != main
    ]
    missing = [n for p, numbers in waiting.items() if p != main for n in numbers]
    if gone:
        has = "has" if len(gone) == 1 else "have"
        others.append(
            f"{_name_threads(gone, block)} {has} come to the kernel's end without it"
        )
        missing = list(gone)
    text = (
        f"{_name_threads(here, block)} of block {write_index(where, grid)} "
        f"{_wait(here)} at the barrier of line {place.line}, but {' and '.join(others)}"
    )
    return Finding(
        "barrier",
        text,
        *(place.file, place.line, place.column),
        block=where,
        thread=unflatten(missing[0], block),
        other=unflatten(here[0], block),
    )


def _name_threads(numbers: Sequence[int], block: tuple[int, int, int]) -> str:
    shown = [write_index(unflatten(n, block), block) for n in sorted(numbers)[:3]]
    if len(numbers) == 1:
        return f"thread {shown[0]}"
    if len(numbers) <= 3:
        return f"threads {', '.join(shown[:-1])} and {shown[-1]}"
    return f"{len(numbers)} threads ({', '.join(shown)} ...)"


def _wait(numbers: Sequence[int]) -> str:
    return "waits" if len(numbers) == 1 else "wait"
