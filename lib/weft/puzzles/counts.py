"""Define the counts of a puzzle's score and limits, and judge the limits.

The counts are defined as in report.Counters. A name with a star may be followed by a
parameter's name, as in "reads.a"; otherwise, the count covers all arrays in global
memory.

    reads*, writes*, atomics*     elements accessed, by all threads together
    requests*                     accesses of warps to arrays
    rounds*                       requests per warp of the launch; a thread that works
                                  alone needs one for every element
    sectors*                      sectors (32 bytes) moved to and from global memory
    sectors_per_request*          mean number of sectors; 4 for adjacent 4-byte elements
    load_sectors_per_request*     ... for reads alone
    store_sectors_per_request*    ... for writes alone
    lanes*                        threads, of 32, that take part in a request (at least)
    shared_reads, shared_writes,  elements of shared memory accessed, by all threads
    shared_atomics                together
    shared_read_lanes             threads, of 32, that take part in a request to read
                                  shared memory (at least)
    shared_turns                  turns (wavefronts) of shared memory for these accesses
    bank_conflicts                turns beyond the necessary ones
    barriers                      barriers at which each block waits
    active_lanes                  active threads, of 32, per step of a warp (at least)

A limit is a number, or a function that takes any of these by name: the sizes, threads,
blocks, and the grid's extents in blocks (across, down). A limit is the largest value
allowed for a right answer, or the smallest for counts marked "at least". A pair is
(least, most), either of which may be None. A limit on the reads of an array also
counts the array's atomics, since they read.

judge_everywhere() checks the limits in every case that check() tries.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from ..base.errors import ArgumentError
from ..check.cases import by_name
from ..check.plan import plan_cases
from ..check.runners import make_runners
from ..report.costs import CostPlace, Counters, Sums, write_short
from ..report.model import Report

if TYPE_CHECKING:
    from ..check.runners import Runner
    from .answer_cost import ScoredCase


CLOSE = 1e-9  # Ratios that differ by less are equal up to rounding.
SAME, TWICE, ANY = "the same", "twice as much and one more", "any number"


@dataclass(frozen=True)
class Count:
    """One of the counts: the numbers to sum, and the wording.

    of: the wording for a row. refusal: the wording of a refusal, with the number and,
    for global memory, the array. space, kind: which places to sum ("" for any kind).
    column: the column to sum. per: "thread", "block" or "warp", the divisor for a row;
    a limit covers the whole launch, unless `per` is "block" or "warp". least: whether
    more is better. budget: SAME, TWICE or ANY, the allowed amount relative to the best
    answer's.
    """

    of: str
    refusal: str
    thing: str = "element"
    space: str = "global"
    kind: str = ""
    column: str = "accesses"
    per: str = ""
    least: bool = False
    budget: str = SAME

    @property
    def is_mean(self) -> bool:
        """Whether the count is a mean over requests or steps, not a sum."""
        return self.least or self.column == "sectors_per_request"

    def allowed(self, best: float) -> float:
        """Return the largest count in the budget if the best answer needs `best`."""
        return {SAME: best, TWICE: 2 * best + 1, ANY: math.inf}[self.budget]

    def places(self, counters: Counters, array: str = "") -> list[CostPlace]:
        """Return the places in the source whose costs the count sums up."""
        places = [p for p in counters.places if p.space == self.space]
        places = [p for p in places if self.kind in ("", p.kind)]
        return [p for p in places if array in ("", p.array)]


def _make_element_count(kind: str, space: str = "global") -> Count:
    place = "{}" if space == "global" else "shared memory"
    wording = f"{kind}s" if space == "global" else f"shared {kind}s"
    refusal, thing = f"{kind}s {{}} of {place} in all", "element"
    if kind == "atomic":
        refusal, thing = f"makes {{}} of {place} in all", "atomic update"
    # Accesses to shared memory have no budget: their cost is measured in turns.
    free = ANY if space == "shared" else SAME
    return Count(wording, refusal, thing, space, kind, per="thread", budget=free)


def _make_ratio_count(wording: str, verb: str, kind: str = "") -> Count:
    refusal = f"{verb} {{}} of {{}} for each request of a warp"
    return Count(wording, refusal, "sector", kind=kind, column="sectors_per_request")


_SHARED = {"space": "shared"}
_NONE = {"space": ""}
COUNTS = {
    **{f"{kind}s": _make_element_count(kind) for kind in ("read", "write", "atomic")},
    "requests": Count("requests", "makes {} to {}", "request", column="requests"),
    "rounds": Count(
        *("rounds", "needs {} over {} for each of its warps, on average", "round"),
        # Limits apply to rounds, but the budget ignores rounds.
        **dict(column="requests", per="warp", budget=ANY),
    ),
    "sectors": Count("sectors", "moves {} of {}", "sector", column="sectors"),
    "sectors_per_request": _make_ratio_count("sectors per request", "touches"),
    "load_sectors_per_request": _make_ratio_count("sectors per read", "reads", "read"),
    "store_sectors_per_request": _make_ratio_count(
        "sectors per write", "writes", "write"
    ),
    "lanes": Count(
        *("lanes per request", "has {} in each request to {}", "thread"),
        **dict(column="lanes", least=True),
    ),
    **{
        f"shared_{kind}s": _make_element_count(kind, "shared")
        for kind in ("read", "write", "atomic")
    },
    "shared_read_lanes": Count(
        *("lanes per shared read", "has {} in each read of shared memory", "thread"),
        **dict(kind="read", column="lanes", least=True, **_SHARED),
    ),
    "shared_turns": Count(
        *("shared turns", "takes {} in shared memory", "turn"),
        **dict(column="wavefronts", budget=TWICE, **_SHARED),
    ),
    "bank_conflicts": Count(
        *("bank conflicts", "has {}", "bank conflict"),
        **dict(column="conflicts", **_SHARED),
    ),
    "barriers": Count(
        *("barriers", "waits at {} in each block", "barrier"),
        **dict(per="block", budget=TWICE, **_NONE),
    ),
    "active_lanes": Count(
        *("active lanes", "keeps {} of a warp's 32 busy", "lane"), least=True, **_NONE
    ),
}


def count_value(counters: Counters, key: str) -> float:
    """Return a count by its name in limits, such as "reads.a"."""
    name, _, array = key.partition(".")
    if name == "barriers":
        return counters.barriers / max(1, counters.blocks)
    if name == "active_lanes":
        return counters.active_lanes or 0.0
    total = Sums()
    for place in COUNTS[name].places(counters, array):
        total.add(place)
    total_value = getattr(total, COUNTS[name].column)
    return total_value / max(1, counters.warps) if name == "rounds" else total_value


def allowed_count(puzzle: Any, key: str, best: float) -> float:
    """Return the amount of a count that is within a puzzle's budget.

    For a mean (such as lanes, or sectors per request), this is the puzzle's limit, if
    it has one. Otherwise, it is the puzzle's own budget, or the default for this count.
    """
    count, limit = COUNTS[key.partition(".")[0]], puzzle.limits.get(key)
    if count.is_mean and isinstance(limit, (int, float)):
        return limit
    return puzzle.budget.get(key, count.allowed(best))


def is_above(number: float, other: float) -> bool:
    """Return whether a count exceeds another by more than rounding."""
    return number > other + CLOSE * max(1.0, abs(other))


# ---- limits ----------------------------------------------------------------------


def names_known(limits: Mapping[str, Any], arrays: Any = None) -> None:
    """Raise ArgumentError for an unknown count, or for an object that is not a limit.

    arrays: the names of the puzzle's arrays; None: unknown, so names are not checked.
    """
    for name, limit in limits.items():
        count, dot, array = name.partition(".")
        if count not in COUNTS:
            raise ArgumentError(f"limits: no count {name!r}; {', '.join(COUNTS)}")
        if dot and COUNTS[count].space != "global":
            raise ArgumentError(f"limits: {name!r}: {count} is not counted by array")
        if dot and (not array or (arrays is not None and array not in arrays)):
            available = f", only {', '.join(arrays)}" if arrays else ""
            raise ArgumentError(f"limits: {name!r}: no array {array!r}{available}")
        pair = limit if isinstance(limit, tuple) else (limit,)
        if not all(map(_is_limit, pair)) or len(pair) > 2 or set(pair) == {None}:
            raise ArgumentError(
                f"limits: {name!r}: expected a non-negative number, a function of "
                f"sizes, or a pair (least, most) of these, but got {limit!r}"
            )


def _is_limit(limit: Any) -> bool:
    number = isinstance(limit, (int, float)) and not isinstance(limit, bool)
    return limit is None or callable(limit) or (number and limit >= 0)


def list_refusals(
    name: str, report: Report, limits: Mapping[str, Any], sizes: Mapping[str, int]
) -> Iterator[tuple[str, str, str]]:
    """Yield (message, array, limit's name) for each limit that a launch misses."""
    counters = report.counters
    assert counters is not None
    grid = {"blocks": counters.blocks, "across": report.grid[0], "down": report.grid[1]}
    pool = {"threads": counters.threads, **grid, **sizes}
    for key, limit in limits.items():
        base, _, array = key.partition(".")
        count, yours = COUNTS[base], count_value(counters, key)
        single = (limit, None) if count.least else (None, limit)
        least, most = (
            by_name(one, pool) if callable(one) else one
            for one in (limit if isinstance(limit, tuple) else single)
        )
        counted = yours
        if base == "reads" and most is not None:
            counted += count_value(counters, key.replace("reads", "atomics"))
        if most is not None and is_above(counted, most):
            wants = f"allows {write_short(most) if most else 'none'}"
        elif least is None or not is_above(least, yours):
            continue
        elif count.is_mean and not yours:
            # There is nothing to average in the launch. For example, lanes that
            # exchange numbers do not read.
            continue
        else:
            counted, wants = yours, f"requires at least {write_short(least)}"
        number = write_short(counted) if counted else "no"
        things = f"{number} {count.thing}{'s' * (counted != 1)}"
        text = count.refusal.format(things, array or "global memory")
        message = f"the numbers are right, but it {text}, and this puzzle {wants}"
        place = _find_line(report, count, array) if counted else ""
        yield f"{name}: {message}{place}", array, key


def _find_line(report: Report, count: Count, array: str) -> str:
    """Return advice that names the line with the largest count.

    If more is better, the line with the smallest count is named. The advice has only
    the line's number, since the line's text may also be in the best known answer.
    """
    places = [p for p in count.places(report.counters, array) if p.line]
    if not count.space or not places:
        return ""
    choose = min if count.least else max
    worst = choose(places, key=lambda place: getattr(place, count.column))
    first = next((s.first for s in report.sources if s.file == worst.file), 1)
    return f"; see line {worst.line - first + 1} of the kernel"


def judge_everywhere(
    scored: ScoredCase, runner: Runner, limits: Mapping[str, Any]
) -> None:
    """Raise Mismatch for the first of the puzzle's cases that misses a limit.

    scored: the case that the score counts; limits: the limits for that case. A limit on
    a mean is scaled for other cases, like the best known answer's mean. That mean
    changes if a launch has fewer numbers than a warp has lanes.
    """
    if not limits:
        return
    for case in _list_cases(scored):
        held = {n: _convert_limit(n, one, scored, case) for n, one in limits.items()}
        case.judge(runner.name, case.launched(runner), held)


def _list_cases(scored: ScoredCase) -> Iterator[ScoredCase]:
    """Yield cases with the sizes and launches that check() tries."""
    puzzle = scored.puzzle
    options = puzzle.checks
    if "sizes" not in options:
        return
    best, shared = _best_runner(puzzle.answer), options.get("shared", 0)
    plan = options["sizes"], None, None, options["launch"], shared
    for sizes, shape in plan_cases(scored.problem(), best, *plan):
        assert shape is not None  # a kernel always has a launch shape
        yield type(scored)(puzzle, sizes, (shape.grid, shape.block))


def _convert_limit(name: str, limit: Any, scored: ScoredCase, case: ScoredCase) -> Any:
    """Return a limit on the scored case, converted for another case."""
    if not COUNTS[name.partition(".")[0]].is_mean:
        return limit
    scored_mean, case_mean = _mean_counts(scored)[name], _mean_counts(case)[name]
    part = case_mean / scored_mean if scored_mean else 1.0
    if isinstance(limit, tuple):
        return tuple(None if one is None else one * part for one in limit)
    return limit * part


_limit_counts: dict[Any, dict[str, float]] = {}


def _mean_counts(case: ScoredCase) -> dict[str, float]:
    """Return the best known answer's counts, by the limits' names."""
    key = case.puzzle.answer, str(case.sizes), str(case.launch)
    if key not in _limit_counts:
        counters = case.launched(_best_runner(case.puzzle.answer)).counters
        assert counters is not None
        limits = case.puzzle.limits
        _limit_counts[key] = {name: count_value(counters, name) for name in limits}
    return _limit_counts[key]


@cache
def _best_runner(answer: Any) -> Runner:
    return make_runners(answer, True, "cpu", True)[0]
