"""What accesses cost, as the simulator and the watch build count it.

How often a thread looks at a flag until another raises it is chance: a case in CUDA C
runs three times, and what these do not agree on is not compared.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

from baseline import compare, watched
from baseline.compare import Entries
from baseline.corpora import COUNTED

import weft

CHANCE = "chance"
TURNS = 3


def record(options: argparse.Namespace) -> dict[str, Any]:
    """An entry for each kernel in Python, run both ways, and each case in CUDA C."""
    found: dict[str, Any] = {}
    for name, case in COUNTED.items():
        launch = case.grid, case.block, 0, case.shared
        seen = weft.sim(case.kernel, quiet=True)[launch](*case.arguments())
        found[f"simulator {name}"] = {"kernel": costs(seen.counters)}
        kernel = weft.inspect(weft.cuda_c(case.kernel), quiet=True)
        seen = kernel[launch](*case.arguments())
        found[f"watched {name}"] = {"kernel": costs(seen.counters)}
    turns = [watched.corpus(turn) for turn in range(TURNS)]
    for name in turns[0]:
        first, *others = ([kernels_of(run) for run in turn[name]] for turn in turns)
        kinds = {one.kind for run in turns[0][name] for one in run.report.findings}
        sure = not kinds & watched.CHANCE and all(one == first for one in others)
        found[name] = {"kernels": first if sure else CHANCE}
    return found


def differences(
    old: Entries, new: Entries, options: argparse.Namespace
) -> list[compare.Difference]:
    """What differs; where one record found chance that is only mentioned."""
    chance = {k for one in (old, new) for k, v in one.items() if CHANCE in v.values()}
    found = []
    for key in sorted(old.keys() | new.keys()):
        pair = ({key: one[key]} if key in one else {} for one in (old, new))
        allowed = key in chance and key in old and key in new
        for one in compare.differences(*pair, options):
            found.append(replace(one, allowed=allowed))
    return found


def kernels_of(run: watched.Run) -> list[dict[str, Any]]:
    """What each kernel of a run cost."""
    return [costs(one.counters) for one in run.report.kernels]


def costs(counters: Any) -> dict[str, Any]:
    """Counters without the files that their places are in."""
    if counters is None:
        return {}
    whole = counters.json()
    return {**whole, "places": [_without_file(place) for place in counters.places]}


def _without_file(place: Any) -> dict[str, Any]:
    return {key: value for key, value in vars(place).items() if "file" not in key}
