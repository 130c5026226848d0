"""The findings that the corpora of faulty and clean kernels produce.

inspect, races    CUDA C under the watch build, each case in three orders
simulator         Python kernels, each in three orders
check             kernels that weft.check() refuses, and those it accepts
zoo               libraries in which each rung has one fault
run, inspect      whole programs by `weft run` and `weft inspect`
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from baseline import watched
from baseline.corpora import (
    ALIASED,
    CASES,
    CLEAN,
    PROGRAMS,
    RIGHT_CHECKS,
    WRONG_CHECKS,
    ZOO,
    check_rung,
    zoo_library,
)
from baseline.texts import normalised

import weft

SURE = ("kind", "line", "column", "array", "other_line", "pattern", "kernel")
MORE = ("block", "thread", "other", "index", "count")
ORDERS = ("forward", "reverse", "shuffled")
_HOST = "main.cu other.cu host.cpp plain.c -Iinclude -DOFFSET=9"  # in files/
_COSTS = re.compile(r"^(?:\S+\[[^]]*\](?:;.*)?|slow: .*)\n?", re.M)


def record(options: argparse.Namespace) -> dict[str, Any]:
    """Return an entry for each case."""
    return {**in_cuda_c(), **in_python(), **checked(), **in_the_zoo(), **programs()}


def in_cuda_c() -> dict[str, Any]:
    """Return the findings of every case under the watch build."""
    return {
        name: {
            "status": [run.status for run in runs],
            **summarise([run.report for run in runs]),
        }
        for name, runs in watched.corpus().items()
    }


def in_python() -> dict[str, Any]:
    """Return the findings of the simulator."""
    return {
        f"simulator {case.name}": summarise([simulated(case, o) for o in ORDERS])
        for case in [*CASES, *CLEAN]
    }


def summarise(reports: list[Any]) -> dict[str, Any]:
    """Return the findings of a case's runs: their kinds, their places, and their texts.

    The place of a kernel that counts as hanging, or whose stack is full, depends on
    chance.
    """
    kinds = [" ".join(f.kind for f in report.findings) for report in reports]
    entry = {"kinds": kinds[0] if len({*kinds}) == 1 else kinds}
    if any(kinds) and not watched.CHANCE & {*kinds[0].split()}:
        entry["places"] = [places(report) for report in reports]
        entry["text"] = [_COSTS.sub("", normalised(r.text())) for r in reports]
    return entry


def places(report: Any) -> list[list[Any]]:
    """Return the place and the count of each finding.

    A conflict between blocks has fewer entries. Whether it occurs does not depend on
    chance, but which of the blocks conflict, and where, does.
    """
    findings = report.findings
    between_blocks = [f.other is not None and f.thread is None for f in findings]
    return [
        [getattr(finding, key) for key in (SURE if blocks else (*SURE, *MORE))]
        for finding, blocks in zip(findings, between_blocks)
    ]


def simulated(case: Any, order: str) -> Any:
    """Return the simulator's report of a case, even if the simulator ends the case."""
    args = case.args()
    if case.name in ALIASED:
        args[1] = args[0]
    launch = weft.sim(case.kernel, order=order, quiet=True, timeout=case.seconds)
    try:
        return launch[case.grid, case.block, 0, case.shared](*args)
    except weft.KernelFault as fault:
        return fault.report


def checked() -> dict[str, Any]:
    """Return the verdicts of weft.check()."""
    entries: dict[str, Any] = {}
    for subject, reference, options, *_ in [*WRONG_CHECKS, *RIGHT_CHECKS]:
        kernel = getattr(subject, "kernel", subject)
        key = f"check {type(subject).__name__} {getattr(kernel, '__name__', '')}"
        while key in entries:
            key += " again"
        entries[key] = verdict(partial(weft.check, subject, reference, **options))
    return entries


def in_the_zoo() -> dict[str, Any]:
    """Return the verdict on each rung of the zoo."""
    entries = {}
    for path in sorted(ZOO.glob("*.cu")):
        library = zoo_library(path.stem, "cpu")
        for rung in library.rungs:
            key = f"zoo {path.stem} {rung.name}"
            entries[key] = verdict(partial(check_rung, library, rung))
    return entries


def verdict(judge: Callable[[], Any]) -> dict[str, str]:
    """Return a judge's result, or the error with which it refuses."""
    try:
        return {"verdict": "right", "text": normalised(str(judge()))}
    except Exception as error:
        return {"verdict": type(error).__name__, "text": normalised(str(error))}


def programs() -> dict[str, Any]:
    """Return the output of `weft run` and `weft inspect` for whole programs."""
    jobs = {path.name: ([path.name, "-O1"], PROGRAMS) for path in PROGRAMS.glob("*.cu")}
    jobs["files"] = (_HOST.split(), PROGRAMS / "files")
    entries = {}
    for name, (words, folder) in sorted(jobs.items()):
        for command, more in (("run", []), ("inspect", ["--listing", "none"])):
            process = subprocess.run(
                [sys.executable, "-m", "weft", command, *words, *more],
                **{"cwd": folder, "text": True, "capture_output": True},
                stdin=subprocess.DEVNULL,
                timeout=watched.SECONDS,
            )
            entries[f"{command} {name}"] = {
                "status": process.returncode,
                "printed": process.stdout,
                "said": normalised(process.stderr),
            }
    return entries
