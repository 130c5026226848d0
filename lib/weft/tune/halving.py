"""Who is fastest: timed in turn, and the slow ones are let go early.

Successive halving: all run a little, the slower half leaves, the rest run twice as
much, and so on (Karnin, Koren and Somekh, ICML 2013; Jamieson and Talwalkar, AISTATS
2016, for tuning). The few that are left are timed until their medians are known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..timing import timers
from ..timing.clocks import Contender, WallTimer
from ..timing.gpu_state import Watch
from .space import Candidate

FAR = 3.0  # times the fastest, at first sight: let go at once
NEAR = 1.01  # within a percent of the best nobody is let go
FIRST = 3  # samples in the first round
MOST = 50  # and in the last one that lets anybody go
LAST = 3  # candidates that are timed until their medians are known
SECONDS = 0.6  # for each of those

Tick = Callable[[int], object]


def race(
    candidates: Sequence[Candidate],
    args: Sequence[Any],
    device: torch.device,
    timer: str,
    tick: Tick,
) -> None:
    """Time the candidates that are ready; those that end as "timed" are known best.

    tick: told how many are done with, after each round.
    """
    runs = {str(one): one for one in candidates if one.state == "ready"}
    contenders = {
        name: Contender(lambda i, run=one.run: run(*args), checked=True)
        for name, one in runs.items()
    }
    _first_sight(runs, contenders, device)
    samples, done = FIRST, 0
    while True:
        alive = {n: c for n, c in contenders.items() if runs[n].state == "ready"}
        tick(len(runs) - len(alive) - done)
        done = len(runs) - len(alive)
        last = len(alive) <= LAST or samples > MOST
        found = timers.side_by_side(
            alive,
            *(device, timer),
            seconds=SECONDS if last else 60.0,
            samples=200 if last else samples,
            spread=timers.SPREAD if last else 0.0,
        )
        for name, timed in found.items():
            runs[name].timed = timed
        if last:
            break
        _let_go([runs[name] for name in alive], samples)
        samples *= 2
    for name in alive:
        runs[name].state = "timed"
    tick(len(alive))


def _first_sight(
    runs: dict[str, Candidate], contenders: dict[str, Contender], device: torch.device
) -> None:
    """Let go who is slower by far, after two calls."""
    clock, seen = WallTimer(device), {}
    for name, one in contenders.items():
        one.turn()
        seen[name] = min(clock.span(one, 1, Watch(device)) for _ in range(2))
    fastest = min(seen.values())
    for name, us in seen.items():
        if us > FAR * max(fastest, 50.0):  # what is shorter is the host's launch
            runs[name].more["us_at_sight"] = us
            runs[name].out(
                *("dropped", "slow"),
                f"let go at first sight: {us / fastest:.1f} times the fastest",
            )


def _let_go(alive: list[Candidate], samples: int) -> None:
    """Drop the slower half, but none that is as good as the best."""
    alive.sort(key=lambda one: one.timed.us)
    best = alive[0].timed.us
    for one in alive[-(-len(alive) // 2) :]:
        if one.timed.us > NEAR * best:
            one.out(
                *("dropped", "slow"),
                f"let go after {samples} samples, in the slower half",
            )
