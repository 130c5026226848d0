"""What is said where not all threads come to a barrier, or lanes to their warp."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..report import Finding, Index, named, position
from .places import Place
from .warp import WARP, shown, sources


def finding(
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
    where = position(at, grid)
    others = [
        f"{_several(numbers, block)} {_wait(numbers)} at that of line {places[p].line}"
        for p, numbers in waiting.items()
        if p != main
    ]
    missing = [n for p, numbers in waiting.items() if p != main for n in numbers]
    if gone:
        has = "has" if len(gone) == 1 else "have"
        others.append(
            f"{_several(gone, block)} {has} come to the kernel's end without it"
        )
        missing = list(gone)
    text = (
        f"{_several(here, block)} of block {named(where, grid)} {_wait(here)} at the "
        f"barrier of line {place.line}, but {' and '.join(others)}"
    )
    return Finding(
        "barrier",
        text,
        *(place.file, place.line, place.column),
        block=where,
        thread=position(missing[0], block),
        other=position(here[0], block),
    )


def _several(numbers: Sequence[int], block: tuple[int, int, int]) -> str:
    shown = [named(position(n, block), block) for n in sorted(numbers)[:3]]
    if len(numbers) == 1:
        return f"thread {shown[0]}"
    if len(numbers) <= 3:
        return f"threads {', '.join(shown[:-1])} and {shown[-1]}"
    return f"{len(numbers)} threads ({', '.join(shown)} ...)"


def _wait(numbers: Sequence[int]) -> str:
    return "waits" if len(numbers) == 1 else "wait"


@dataclass
class Absence:
    """Lanes that a call's mask names, and that take no part in it.

    thread: who calls; mask, operation: with what. lanes: the absent ones; reads: which
    of them the thread's lane reads, if any does; why: they are absent.
    """

    thread: int
    operation: str
    mask: int
    lanes: list[int]
    reads: int | None
    why: str


def absence(
    here: Mapping[int, tuple], gone: Sequence[int], at_end: Sequence[int], threads: int
) -> Absence | None:
    """What is wrong with a meeting without the threads in `gone`; None: nothing.

    here: what each thread that has come waits for. at_end: those that have come to the
    kernel's end; the others in `gone` have returned, or are beyond the block's last
    thread. A GPU waits for neither of these, but a lane may not read them.
    """
    first = next(iter(here))
    operation, _, mask, *_ = here[first]
    asked = sources(operation, {n % WARP: got[4] for n, got in here.items()})
    ended = [n for n in gone if n in at_end]
    for number in here:
        source = number - number % WARP + asked.get(number % WARP, number % WARP)
        if source in gone:
            why = "it has returned"
            if source >= threads:
                why = "the block has no such thread"
            elif source in ended:
                why = "it has come to the kernel's end"
            lane = source % WARP
            return Absence(number, operation, mask, [lane], lane, why)
    if not ended:
        return None
    has = "it has" if len(ended) == 1 else "they have"
    lanes = [n % WARP for n in ended]
    why = f"{has} come to the kernel's end without it"
    return Absence(first, operation, mask, lanes, None, why)


def without(
    missing: Absence, place: Place, at: int, grid: Index, block: Index
) -> Finding:
    """The Finding for lanes that take no part."""
    where, thread = position(at, grid), position(missing.thread, block)
    whose = f" of block {named(where, grid)}" if grid != (1, 1, 1) else ""
    text = (
        f"thread {named(thread, block)}{whose} calls cuda.{missing.operation} at line "
        f"{place.line} with the mask 0x{missing.mask:08x}: "
    )
    if missing.reads is not None:
        text += (
            f"lane {missing.thread % WARP} reads lane {missing.reads}, which takes no "
            f"part ({missing.why})"
        )
    else:
        take = "takes" if len(missing.lanes) == 1 else "take"
        text += f"{shown(missing.lanes)} {take} no part ({missing.why})"
    return Finding(
        "warp",
        text,
        *(place.file, place.line, place.column),
        block=where,
        thread=thread,
    )
