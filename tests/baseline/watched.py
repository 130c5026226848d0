"""Programs in CUDA C under the watch build: one report for each case that they run."""

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
CHANCE = {"hang", "stack"}  # ... whose kernels get how far they get
ORDERS = {"forward": "0", "reverse": "1", "shuffled": "7"}
ONE_WORKER = {"WEFT_RUN_THREADS": "1"}  # else chance decides which blocks meet
SECONDS = 600  # for a program; a hang is found after some of its own CPU time


@dataclass(frozen=True)
class Run:
    """A run of one case. status: of its program's exit, or its CUDA error. seen: what
    the runtime wrote of it."""

    path: Path
    name: str
    status: int
    seen: str

    @cached_property
    def report(self) -> Any:
        """What was seen, on the source's lines; one report at a time is made."""
        files = Files(str(self.path.parent))
        report = program_report(self.seen, files, "PROGRAM")
        report.listing = "none"
        return report


def corpus(turn: int = 0) -> dict[str, list[Run]]:
    """The runs of each case, by its name: one for each order. Each turn runs anew."""
    found: dict[str, list[Run]] = defaultdict(list)
    for run in _runs(turn):
        found[run.name].append(run)
    return found


@cache
def _runs(turn: int) -> tuple[Run, ...]:
    """Every case of the corpora, each in a process of its own, in every order.

    A kernel that hangs runs in one order alone: that takes seconds.
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
        # First all executables, so that no two runs build the same.
        list(pool.map(watched_program, dict.fromkeys(path for path, *_ in jobs)))
        done = pool.map(lambda job: _run(*job), jobs)
        found = list(tqdm(done, "watched cases", len(jobs), disable=None))
    return (*found, *_races())


def _run(path: Path, case: Any, order: str) -> Run:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "report.json"
        env = {**os.environ, "WEFT_CHECK_REPORT": str(file)}
        env |= {"WEFT_RUN_ORDER": ORDERS[order], **ONE_WORKER}
        command = [watched_program(path), case.name]
        done = subprocess.run(command, env=env, capture_output=True, timeout=SECONDS)
        text = file.read_text() if file.exists() else '{"findings":[],"kernels":[]}'
    name = f"{path.parent.name} {case.name}"
    return Run(path, name, done.returncode, text)


def _races() -> list[Run]:
    """These programs write what was seen of each of their cases, in every order."""
    found = []
    for path in sorted(RACES.glob("*.cu")):
        done = subprocess.run(
            [watched_program(path)],
            env={**os.environ, **ONE_WORKER},
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=True,
        )
        for line in done.stdout.splitlines():
            if match := re.match(r"(\w+) \d (\d+) (\{.*)", line):
                case, error, text = match.groups()
                name = f"races {path.stem} {case}"
                found.append(Run(path, name, int(error), text))
    return found
