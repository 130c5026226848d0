"""Medians of the times that users wait, in microseconds, and their spread.

Each time is measured in --runs processes, one after the other. The record has the
median of the runs' medians, and the lowest and highest of them; the spread is the
difference of these two. Record timings on an idle machine.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from baseline.compare import Difference, Entries
from baseline.product import EDIT
from baseline.texts import ROOT
from tqdm import tqdm

SLOWER = 0.03  # relative increase of a timing that is always allowed
STARTS = 5  # number of processes that import each module, per run
IMPORTS = {"import weft": "import weft", "import utils": "from utils import *"}


def record(options: argparse.Namespace) -> dict[str, Any]:
    """Return an entry for each number of each benchmark."""
    samples: dict[str, list[float]] = defaultdict(list)
    for number in tqdm(range(options.runs + 1), "timings", unit="run", disable=None):
        for measure in (edits, simulators, epochs, imports):
            for name, us in measure().items():
                if number:  # the first run only fills caches
                    samples[name].append(us)
    return {name: summary(values) for name, values in samples.items()}


def summary(medians: list[float]) -> dict[str, float]:
    """Return the median of medians, and their range."""
    low, high = min(medians), max(medians)
    middle = statistics.median(medians)
    return {"us": _short(middle), "low": _short(low), "high": _short(high)}


def differences(
    old: Entries, new: Entries, options: argparse.Namespace
) -> list[Difference]:
    """List timings; allow those within 3 % or within either spread."""
    changes = [Difference(f"{key}: missing now") for key in old if key not in new]
    changes += [
        Difference(f"{key}: new", allowed=True) for key in new if key not in old
    ]
    for key in sorted(old.keys() & new.keys()):
        before, after = old[key], new[key]
        limit = max(SLOWER, spread(before), spread(after))
        change = after["us"] / before["us"] - 1
        text = f"{key}: {before['us']:g} us before, {after['us']:g} us now"
        text += f", {change:+.1%} (limit {limit:.1%})"
        changes.append(Difference(text, allowed=change <= limit))
    return changes


def spread(timing: dict[str, float]) -> float:
    """Return the spread of the runs, as a share of the median."""
    return (timing["high"] - timing["low"]) / timing["us"]


def edits() -> dict[str, float]:
    """Time the path from an edited cell to its result."""
    rows = json.loads(_output(EDIT))
    return {f"edit {row['rung']} {row['target']}": row["us"] for row in rows}


def simulators() -> dict[str, float]:
    """Time a simulated thread in Python and in CUDA C on the CPU."""
    times = {}
    for name in ("sim", "simt"):
        for row in _rows("bench", name):
            if row["impl"] == "weft":
                key = f"{name} {row['rung']} {row.get('checks', '')}".strip()
                times[key] = row["us"]
    return times


def epochs() -> dict[str, float]:
    """Time a step and an epoch of the rung that `make mnist` trains."""
    (row,) = _rows("mnist", "--epochs", "1")
    rung = f"mnist {row['rung']} {row['target']}"
    return {f"{rung} step": row["us"], f"{rung} epoch": 1e6 * row["epoch_s"]}


def imports() -> dict[str, float]:
    """Time a process that imports a module and exits."""
    medians = {}
    for name, code in IMPORTS.items():
        times = []
        for _ in range(STARTS):
            start = time.perf_counter()
            _output([sys.executable, "-c", code])
            times.append(1e6 * (time.perf_counter() - start))
        medians[name] = statistics.median(times)
    return medians


def _rows(*words: str) -> list[dict[str, Any]]:
    """Return the rows that a `weft` command writes."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.json"
        _output([sys.executable, "-m", "weft", *words, "--json", str(file)])
        return json.loads(file.read_text())["rows"]


def _output(command: list[str]) -> str:
    process = subprocess.run(
        command, cwd=ROOT, text=True, capture_output=True, stdin=subprocess.DEVNULL
    )
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)}: {process.stderr}")
    return process.stdout


def _short(us: float) -> float:
    return float(f"{us:.5g}")
