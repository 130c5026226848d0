"""Control the clock inside a lesson's kernel while the site is built.

The clock is replayed: at each reading, it advances by the time that was recorded on a
named machine. So a lesson produces the same page on any machine, and a busy build
server publishes none of its own times. A cell without a record, such as a new cell,
reads the real clock.

At the end, the session writes the readings, and the names of the lab's files that it
read.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import random
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
OURS = ("__main__", "weft.", "utils")  # modules whose readings are replayed
FUNCTIONS = {"perf_counter": 1e9, "perf_counter_ns": 1, "monotonic": 1e9}
# These modules read the clock only for limits and durations, which no page shows.
UNREAD = ("weft.pykernel.sim",)


class Clock:
    """The readings of each cell, in nanoseconds since the previous reading.

    recorded: the readings by the cell's key; None: record them now.
    """

    def __init__(self, recorded: dict[str, list[int]] | None):
        self.recorded = recorded
        self.taken: dict[str, list[int]] = {}
        # Cells that read the clock more often than recorded.
        self.unknown: set[str] = set()
        self.key, self.now, self.real = "0-0", 0, time.perf_counter_ns
        self.last, self.count = self.real(), Counter[str]()

    def begin_cell(self, info: Any) -> None:
        """Assign the readings that follow to another cell."""
        self.key = name_cell(info.raw_cell, self.count)
        self.last = self.real()

    def read(self) -> int:
        """Return the time, and record it as a reading of the current cell."""
        taken = self.taken.setdefault(self.key, [])
        step = self._step(len(taken))
        taken.append(step)
        self.now += step
        self.last = self.real()
        return self.now

    def _step(self, number: int) -> int:
        """Return the time since the last reading: the recorded one, or the real one."""
        known = (self.recorded or {}).get(self.key, [])
        if number < len(known):
            return known[number]
        if self.recorded is not None:
            self.unknown.add(self.key)
        return round_digits(self.real() - self.last)


def name_cell(code: str, count: Counter[str]) -> str:
    """Return a cell's key: the hash of its code, and the number of the run."""
    digest = hashlib.sha256(code.encode()).hexdigest()[:12]
    count[digest] += 1
    return f"{digest}-{count[digest]}"


def round_digits(number: int, digits: int = 4) -> int:
    """Round to a few leading digits, since a page shows no more."""
    return int(float(f"{number:.{digits - 1}e}"))


def replace_clock(clock: Clock) -> None:
    """Let the lab and the cells read this clock instead of Python's."""
    main = threading.main_thread()

    def replaced(original: Any, unit: float) -> Any:
        def read() -> float | int:
            caller = sys._getframe(1).f_globals.get("__name__", "")
            own = caller.startswith(OURS) and not caller.startswith(UNREAD)
            if not own or threading.current_thread() is not main:
                return original()
            now = clock.read()
            return now if unit == 1 else now / unit

        return read

    for name, unit in FUNCTIONS.items():
        setattr(time, name, replaced(getattr(time, name), unit))
    # The lab seeds the patterns of cloths with the clock. Here, each cell has a fixed
    # seed.
    time.time_ns = lambda: int(clock.key.partition("-")[0], 16)


def name_machine(machine: dict[str, Any]) -> None:
    """Let the lab report the machine on which the times were recorded."""
    import weft.base.device as device

    device.cpu_name = lambda: machine["cpu"]
    device.count_cores = lambda: machine["cores"]


def seed_generators() -> None:
    """Let each run of a lesson draw the same random numbers."""
    import numpy as np
    import torch

    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)


def register_playback(shell: Any) -> None:
    """Let the page show recorded widgets."""
    sys.path.append(str(Path(__file__).parent))
    import playback

    sys.path.pop()
    playback.register(shell)


def follow_files(opened: set[str]) -> None:
    """Record each file of the lab that this process opens."""
    top = f"{ROOT}/"

    def audit(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(arguments[0], str | Path):
            path = str(arguments[0])
            if path.startswith(top):
                opened.add(path.removeprefix(top))

    sys.addaudithook(audit)


def list_files(opened: set[str]) -> list[str]:
    """Return the lab's files that this session has read or imported."""
    modules = (getattr(m, "__file__", None) for m in list(sys.modules.values()))
    paths = {str(m).removeprefix(f"{ROOT}/") for m in modules if m}
    kept = ("lib/weft/", "kernels/", "notebooks/", "docs/site/", "utils.py")
    wanted = (p for p in paths | opened if p.startswith(kept))
    return sorted(p for p in wanted if "__pycache__" not in p and (ROOT / p).is_file())


def start(record: str, result: str, recording: bool) -> None:
    """Begin the session.

    record: the path of the committed readings. result: the path that end() writes.
    """
    from IPython import get_ipython

    known = Path(record)
    data = json.loads(known.read_text()) if known.exists() else {}
    clock, opened = Clock(None if recording else data.get("cells", {})), set[str]()
    if data and not recording:
        name_machine(data["machine"])
    get_ipython().events.register("pre_run_cell", clock.begin_cell)
    seed_generators()
    follow_files(opened)
    register_playback(get_ipython())
    replace_clock(clock)

    def end() -> None:
        outcome = {
            **{"files": list_files(opened), "cells": clock.taken},
            "unknown": sorted(clock.unknown),
        }
        Path(result).write_text(json.dumps(outcome))

    atexit.register(end)
