"""Why ncu's counters may differ from ours, and by how much at most.

The compiler merges accesses, lets one lane act for its warp, and makes more
instructions of one piece of the source than of another. Each reason explains a range of
ncu's numbers, which follows from our own counts and the instructions; what lies beyond
it is a difference without a reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..report.counters import Counters, Place
from ..see.machine_code.instructions import Instruction, find_loops
from ..see.machine_code.ncu import Metric

WEIGHED = "ncu weighs each instruction, the CPU each straight piece of the source"
# Instructions by which one lane does the atomic operation of its warp.
_TOGETHER = {"REDUX", "CREDUX", "POPC", "UPOPC", "MATCH"}

Code = Sequence[Instruction]
Share = tuple[float, float]  # what a piece adds: threads, and executions by warps


@dataclass(frozen=True)
class Excuse:
    """A reason, and the least and the most of ncu's number that it explains."""

    why: str
    least: float
    most: float


def find_excuse(metric: Metric, counters: Counters, code: Code) -> Excuse | None:
    """What the machine code excuses of a metric; None: nothing."""
    if metric.tight:
        return _weigh(counters, code)
    places = [
        p
        for p in counters.places
        if (p.space, p.kind) == (metric.space, metric.kind) and p.requests
    ]
    if not places:
        return None
    return _merge(metric, places, code) or _act_for_warps(metric, places, code)


# ---- counts ---------------------------------------------------------------------


def _merge(metric: Metric, places: list[Place], code: Code) -> Excuse | None:
    """The compiler merged neighbouring accesses into wider ones.

    A wide one costs no less than the dearest of those in it. A loop's instructions run
    equally often, so their numbers say how many of a line's accesses were merged.
    """
    operation = {"read": "load", "write": "store"}.get(metric.kind, metric.kind)
    accesses = [one for one in code if one.kind == f"{metric.space} {operation}"]
    source = max(8 * p.size for p in places)
    wide = [one for one in accesses if one.bits > max(32, source)]
    if not wide:
        return None
    names = Counter(f"{one.opcode.split('.')[0]}.{one.bits}" for one in wide)
    which = ", ".join(f"{count} {name}" for name, count in names.items())
    near = _on_lines(places, wide)
    lines = {one.place for one in wide}
    same = [one for one in accesses if one.place in lines]
    least = 8 * min(p.size for p in near)
    saved = max(
        _share_of_merged(group, least, source, conflict=metric.what == "conflicts")
        for group in _by_loop(code, same)
    )
    cost = max(getattr(p, metric.what) / p.requests for p in near)
    ours = metric.ours_of(places)
    lost = saved * cost * sum(p.requests for p in near)
    lost = min(lost, sum(getattr(p, metric.what) for p in near))
    why = f"the compiler merged accesses of {source} bits: {which}"
    return Excuse(why, ours - lost, ours)


def _share_of_merged(group: Code, least: int, source: int, conflict: bool) -> float:
    """Which part of a group's accesses in the source are none of the machine's.

    least, source: bits of the narrowest and of the widest. conflict: all merged ones
    count, since a wide access may have no conflict at all.
    """
    merged = [one.bits // least for one in group if one.bits > max(32, source)]
    gone = sum(merged) - (0 if conflict else len(merged))
    return gone / max(1, len(group) - len(merged) + sum(merged))


def _by_loop(code: Code, those: Code) -> list[Code]:
    """Instructions of one innermost loop each, and those of none."""
    found = sorted(find_loops(code), key=lambda loop: len(loop.body))
    wanted = {id(one) for one in those}
    groups: dict[int, list[Instruction]] = {}
    for at, one in enumerate(code):
        if id(one) in wanted:
            inside = (loop.head for loop in found if at in loop.body)
            groups.setdefault(next(inside, -1), []).append(one)
    return list(groups.values())


def _act_for_warps(metric: Metric, places: list[Place], code: Code) -> Excuse | None:
    """One lane adds for all of its warp: what is left is one turn for each request."""
    together = [one for one in code if one.opcode.split(".")[0] in _TOGETHER]
    if metric.kind != "atomic" or not together:
        return None
    near = _on_lines(places, together, otherwise=False)
    left = 0 if metric.what == "conflicts" else 1
    lost = sum(max(0, getattr(p, metric.what) - left * p.requests) for p in near)
    if not lost:
        return None
    names = sorted({one.opcode.split(".")[0] for one in together})
    ours = metric.ours_of(places)
    why = f"one lane acts for its warp: {', '.join(names)} before the atomic"
    return Excuse(why, ours - lost, ours)


def _on_lines(places: list[Place], code: Code, otherwise: bool = True) -> list[Place]:
    """The places on the lines of some instructions; all if one has no line.

    otherwise: all, too, where none is there.
    """
    lines = {one.place for one in code}
    found = [p for p in places if (p.file, p.line) in lines]
    unknown = not all(one.line for one in code) or (otherwise and not found)
    return places if unknown else found


# ---- active threads -------------------------------------------------------------


def _weigh(counters: Counters, code: Code) -> Excuse | None:
    """The machine makes several instructions of a piece, or of some pieces none.

    An instruction runs as a piece of its line does: as often, or once a warp if a loop
    is unrolled. One with a predicate may run with the threads around it, too.
    """
    pieces = [p for p in counters.places if p.kind == "step" and p.requests]
    if not pieces:
        return None
    shares = [
        _compute_shares(_pieces_of(one, pieces), counters.warps)
        for one in code
        if one.opcode != "NOP"
    ] or [[(p.lanes, 1.0) for p in pieces]]
    return Excuse(WEIGHED, *(_largest_mean(shares, sign) for sign in (-1, 1)))


def _pieces_of(one: Instruction, pieces: list[Place]) -> list[Place]:
    """The pieces that an instruction may be part of."""
    here = [p for p in pieces if p.file == one.file and p.line <= one.line <= p.last]
    if here and one.guard:
        most = max(p.lanes for p in here)
        here += [p for p in pieces if p.lanes > most]
    return here or pieces


def _compute_shares(pieces: Iterable[Place], warps: int) -> list[Share]:
    """What an instruction of one of these pieces adds at most, and at least."""
    found: list[Share] = []
    for p in pieces:
        once = min(1.0, warps / p.requests)
        found += [(p.accesses * part, p.requests * part) for part in (1.0, once)]
    return found


def _largest_mean(shares: list[list[Share]], sign: int) -> float:
    """The largest mean of threads (sign 1), or the least (-1), with a share of each.

    By Dinkelbach's method: what beats the mean so far gives the next one.
    """
    mean = 0.0
    while True:
        best = [max(some, key=lambda s: sign * (s[0] - mean * s[1])) for some in shares]
        found = sum(s[0] for s in best) / sum(s[1] for s in best)
        if abs(found - mean) <= 1e-9 * mean:
            return found
        mean = found
