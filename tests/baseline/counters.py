"""The costs of accesses, as counted by the simulator and the watch build.

The number of times that a thread polls a flag depends on chance. So a case in CUDA C
runs three times, and counters that differ between these runs are not compared.
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
    """Return an entry for each Python kernel, run both ways, and each CUDA C case."""
    entries: dict[str, Any] = {}
    for name, case in COUNTED.items():
        launch = case.grid, case.block, 0, case.shared
        report = weft.sim(case.kernel, quiet=True)[launch](*case.arguments())
        entries[f"simulator {name}"] = {"kernel": costs(report.counters)}
        kernel = weft.inspect(weft.cuda_c(case.kernel), quiet=True)
        report = kernel[launch](*case.arguments())
        entries[f"watched {name}"] = {"kernel": costs(report.counters)}
    turns = [watched.corpus(turn) for turn in range(TURNS)]
    for name in turns[0]:
        first, *later = ([kernels_of(run) for run in turn[name]] for turn in turns)
        kinds = {f.kind for run in turns[0][name] for f in run.report.findings}
        constant = not kinds & watched.CHANCE and all(x == first for x in later)
        entries[name] = {"kernels": first if constant else CHANCE}
    return entries


def differences(
    old: Entries, new: Entries, options: argparse.Namespace
) -> list[compare.Difference]:
    """List the differences; counters that vary by chance in one record may differ."""
    pairs = [*old.items(), *new.items()]
    chance = {name for name, entry in pairs if CHANCE in entry.values()}
    changes = []
    for key in sorted(old.keys() | new.keys()):
        pair = ({key: entries[key]} if key in entries else {} for entries in (old, new))
        allowed = key in chance and key in old and key in new
        for change in compare.differences(*pair, options):
            changes.append(replace(change, allowed=allowed))
    return changes


def kernels_of(run: watched.Run) -> list[dict[str, Any]]:
    """Return the costs of each kernel of a run."""
    return [costs(kernel.counters) for kernel in run.report.kernels]


def costs(counters: Any) -> dict[str, Any]:
    """Return counters without the files of their places."""
    if counters is None:
        return {}
    result = counters.json()
    return {**result, "places": [_without_file(place) for place in counters.places]}


def _without_file(place: Any) -> dict[str, Any]:
    return {key: value for key, value in vars(place).items() if "file" not in key}
