"""What accesses cost, as the simulator and the watch build count it."""

from __future__ import annotations

import argparse
from typing import Any

from baseline import watched
from baseline.corpora import COUNTED

import weft


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
    for name, runs in watched.corpus().items():
        reports = [run.report for run in runs]
        kernels = [[costs(one.counters) for one in r.kernels] for r in reports]
        if not any(one.kind == "hang" for r in reports for one in r.findings):
            found[name] = {"kernels": kernels}
    return found


def costs(counters: Any) -> dict[str, Any]:
    """Counters without the files that their places are in."""
    if counters is None:
        return {}
    whole = counters.json()
    return {**whole, "places": [_without_file(place) for place in counters.places]}


def _without_file(place: Any) -> dict[str, Any]:
    return {key: value for key, value in vars(place).items() if "file" not in key}
