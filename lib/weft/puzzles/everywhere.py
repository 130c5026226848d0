"""Whether an answer meets its puzzle's limits in every case that check() tries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from ..check.plan import plan_cases
from ..check.runners import make_runners
from .counts import COUNTS, count_value

if TYPE_CHECKING:
    from ..check.runners import Runner
    from .score import Case


def judge_everywhere(scored: Case, runner: Runner, limits: Mapping[str, Any]) -> None:
    """Raise Mismatch for the first of the puzzle's cases with a limit that is not met.

    scored: the case that its score counts; limits: what it was held to there. A limit
    on a mean speaks of that case alone: elsewhere it changes as the mean of the best
    known answer does, as where a launch has fewer numbers than a warp has lanes.
    """
    if not limits:
        return
    for case in _list_cases(scored):
        moved = {n: _move_limit(n, one, scored, case) for n, one in limits.items()}
        case.judge(runner.name, case.launched(runner), moved)


def _list_cases(scored: Case) -> Iterator[Case]:
    """The sizes and launches that check() tries."""
    puzzle = scored.puzzle
    options = puzzle.checks
    if "sizes" not in options:
        return
    best, shared = _best_runner(puzzle.answer), options.get("shared", 0)
    wanted = options["sizes"], None, None, options["launch"], shared
    for sizes, shape in plan_cases(scored.problem(), best, *wanted):
        assert shape is not None  # as there is a launch
        yield type(scored)(puzzle, sizes, (shape.grid, shape.block))


def _move_limit(name: str, limit: Any, scored: Case, case: Case) -> Any:
    """A limit on the scored case as it holds in another."""
    if not COUNTS[name.partition(".")[0]].is_mean:
        return limit
    there, here = _mean_counts(scored)[name], _mean_counts(case)[name]
    part = here / there if there else 1.0
    if isinstance(limit, tuple):
        return tuple(None if one is None else one * part for one in limit)
    return limit * part


_known: dict[Any, dict[str, float]] = {}


def _mean_counts(case: Case) -> dict[str, float]:
    """The means that limits speak of, of the best known answer."""
    key = case.puzzle.answer, str(case.sizes), str(case.launch)
    if key not in _known:
        seen = case.launched(_best_runner(case.puzzle.answer)).counters
        assert seen is not None
        _known[key] = {name: count_value(seen, name) for name in case.puzzle.limits}
    return _known[key]


@cache
def _best_runner(answer: Any) -> Runner:
    return make_runners(answer, True, "cpu", True)[0]
