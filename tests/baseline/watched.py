"""Run programs in CUDA C under the watch build, with one report per case."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from baseline.corpora import INSPECT, RACES, marked_cases
from baseline.product import Files, program_report, watched_program
from tqdm import tqdm

HANGS = {"hang", "deadlock"}  # kinds of findings
CHANCE = {"hang", "stack"}  # ... whose kernels stop at a place that depends on chance
ORDERS = {"forward": "0", "reverse": "1", "shuffled": "7"}
# With more workers, chance decides which blocks conflict.
ONE_WORKER = {"WEFT_RUN_THREADS": "1"}
SECONDS = 600  # time limit of a program, since finding a hang takes CPU time


@dataclass(frozen=True)
class Run:
    """A run of one case. status: the program's exit status, or its CUDA error. text:
    the runtime's report."""

    path: Path
    name: str
    status: int
    text: str

    @cached_property
    def report(self) -> Any:
        """The report with the source's lines; one report at a time is converted."""
        files = Files(str(self.path.parent))
        report = program_report(self.text, files, "PROGRAM")
        report.listing = "none"
        return report


def corpus(turn: int = 0) -> dict[str, list[Run]]:
    """Return the runs of each case by its name: one for each order, repeated in each
    turn."""
    runs: dict[str, list[Run]] = defaultdict(list)
    for run in _runs(turn):
        runs[run.name].append(run)
    return runs


@cache
def _runs(turn: int) -> tuple[Run, ...]:
    """Run every case of the corpora in a separate process, in every order.

    A kernel that hangs takes seconds, so it runs in one order only.
    """
    jobs = [
        (path, case, order)
        for path in sorted(INSPECT.glob("*/*.cu"))
        for case in marked_cases(path)
        for order in ORDERS
        if order == "forward" or not HANGS & case.kinds
    ]
    workers = len(os.sched_getaffinity(0))
    with ThreadPoolExecutor(workers) as pool:
        # Build all executables first, so that no two runs build the same one.
        list(pool.map(watched_program, dict.fromkeys(path for path, *_ in jobs)))
        results = pool.map(lambda job: _run(*job), jobs)
        runs = list(tqdm(results, "watched cases", len(jobs), disable=None))
    return (*runs, *_races())


def _run(path: Path, case: Any, order: str) -> Run:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "report.json"
        env = {**os.environ, "WEFT_CHECK_REPORT": str(file)}
        env |= {"WEFT_RUN_ORDER": ORDERS[order], **ONE_WORKER}
        command = [watched_program(path), case.name]
        process = subprocess.run(command, env=env, capture_output=True, timeout=SECONDS)
        text = file.read_text() if file.exists() else '{"findings":[],"kernels":[]}'
    name = f"{path.parent.name} {case.name}"
    return Run(path, name, process.returncode, text)


def _races() -> list[Run]:
    """Run programs that print a report for each of their cases, in every order."""
    runs = []
    for path in sorted(RACES.glob("*.cu")):
        process = subprocess.run(
            [watched_program(path)],
            env={**os.environ, **ONE_WORKER},
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=True,
        )
        for line in process.stdout.splitlines():
            if match := re.match(r"(\w+) \d (\d+) (\{.*)", line):
                case, error, text = match.groups()
                name = f"races {path.stem} {case}"
                runs.append(Run(path, name, int(error), text))
    return runs
