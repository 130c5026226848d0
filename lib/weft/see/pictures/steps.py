"""In what order the threads of a warp go through a kernel together.

A warp that diverges takes both sides of a branch one after the other and meets again
behind it, and leaves a loop when its last thread does. So a step's place is the path of
loops around it, each with its turn, and its line: steps of different threads with the
same place happen at once.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ...pykernel.sim.record import STEP, Interval, Site
from ...pykernel.sim.warp import WARP

Place = tuple  # (interval, (line of a loop, turn), ..., (line, site))


@dataclass(frozen=True)
class Step:
    """One step of a warp: which site, in which interval, by which lanes."""

    site: int
    interval: int
    lanes: np.ndarray


@dataclass
class _Loop:
    first: int
    last: int
    turn: int = 0
    seen: set[int] = field(default_factory=set)


def loops_of(text: str, first: int) -> list[tuple[int, int]]:
    """First and last line of each loop of a source whose first line is `first`."""
    try:
        tree = ast.parse(textwrap.dedent(text))
    except SyntaxError:
        return []
    nodes = [n for n in ast.walk(tree) if isinstance(n, (ast.For, ast.While))]
    return sorted(
        (n.lineno + first - 1, (n.end_lineno or n.lineno) + first - 1) for n in nodes
    )


def steps_of(
    intervals: Sequence[Interval],
    sites: Sequence[Site],
    loops: Sequence[tuple[int, int]],
    warp: int,
    every: bool = False,
) -> list[Step]:
    """The steps of one warp of one block, in order.

    intervals: of that block. Without STEP sites among them, accesses count as steps;
    every: both do.
    """
    steps = [i for i, site in enumerate(sites) if site.kind == STEP]
    there = any(np.isin(part.site, steps).any() for part in intervals)
    lanes: dict[Place, set[int]] = {}
    stacks: dict[int, list[_Loop]] = {}
    for part in intervals:
        keep = part.thread // WARP == warp
        entered = np.isin(part.site, steps)
        touched = part.element >= 0
        keep &= entered | touched if every else entered if there else touched
        order = np.argsort(part.thread[keep], kind="stable")
        rows = zip(part.thread[keep][order].tolist(), part.site[keep][order].tolist())
        for thread, site in rows:
            stack = stacks.setdefault(thread, [])
            place = (part.number, *_follow_path(stack, site, sites[site].line, loops))
            lanes.setdefault(place, set()).add(thread % WARP)
    return [
        Step(place[-1][1], place[0], np.array(sorted(lanes[place])))
        for place in sorted(lanes)
    ]


def _follow_path(
    stack: list[_Loop], site: int, line: int, loops: Sequence[tuple[int, int]]
) -> list[tuple[int, int]]:
    """The loops around a site with their turns, after a thread's step to it."""
    chain = [loop for loop in loops if loop[0] <= line <= loop[1]]
    same = 0
    while (
        same < min(len(chain), len(stack))
        and (stack[same].first, stack[same].last) == chain[same]
    ):
        same += 1
    del stack[same:]
    if stack and site in stack[-1].seen:  # here again: the loop's next turn
        stack[-1].turn += 1
        stack[-1].seen.clear()
    stack += [_Loop(*loop) for loop in chain[same:]]
    for loop in stack:
        loop.seen.add(site)
    return [*((loop.first, loop.turn) for loop in stack), (line, site)]
