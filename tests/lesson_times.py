"""Measure how long the lessons take, and list the cells that take the longest.

    python tests/lesson_times.py               all lessons, one after another
    python tests/lesson_times.py 00 04_numba   lessons by the start of their names

A busy machine changes the wall time, but hardly the processor time. So the table has
both: "wall" and "cpu". The latter adds up user and system mode, and includes all
compilers. At first the caches contain only the runtime, which `make` has compiled for a
new reader. The lessons share them.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import psutil
from nbclient import NotebookClient

from weft.base.paths import ROOT

sys.path.append(str(ROOT / "docs" / "site"))
from lessons import NOTEBOOKS, copy_runtime, list_names, read_code

SECONDS = 1800  # time limit of a cell, on a busy machine
LONGEST = 12  # number of cells to list
PICTURES = ("image/png", "image/svg+xml", "text/html")


@dataclass
class CellTime:
    """The seconds of one cell. end: the wall time since its lesson began."""

    lesson: str
    code: str
    wall: float
    cpu: float
    end: float
    has_picture: bool


class Stopwatch:
    """The times of a lesson's cells; a NotebookClient calls the methods."""

    def __init__(self, lesson: str) -> None:
        self.lesson, self.times = lesson, list[CellTime]()
        self.client: NotebookClient | None = None
        self.began = time.perf_counter()
        self.wall = self.cpu = 0.0

    def start(self, cell, cell_index) -> None:
        self.wall, self.cpu = time.perf_counter(), self._read_cpu()

    def stop(self, cell, cell_index, execute_reply) -> None:
        now = time.perf_counter()
        data = [kind for output in cell.outputs for kind in output.get("data", {})]
        lines = [line for line in cell.source.splitlines() if line.strip()]
        seconds = now - self.wall, self._read_cpu() - self.cpu, now - self.began
        shown = any(kind in data for kind in PICTURES)
        self.times.append(CellTime(self.lesson, lines[-1], *seconds, shown))

    def _read_cpu(self) -> float:
        """Return the kernel's CPU seconds, with those of its finished children."""
        process = psutil.Process(self.client.km.provisioner.process.pid)
        times = process.cpu_times()
        own = times.user + times.system
        return own + times.children_user + times.children_system


def time_lesson(name: str, cache: Path) -> list[CellTime]:
    """Run a lesson with its answers in a fresh kernel; return its cells' times."""
    watch = Stopwatch(name)
    watch.client = NotebookClient(
        read_code(name),
        timeout=SECONDS,
        resources={"metadata": {"path": str(NOTEBOOKS)}},
        on_cell_start=watch.start,
        on_cell_executed=watch.stop,
    )
    paths = os.pathsep.join([str(ROOT / "lib"), str(ROOT)])
    watch.client.execute(
        env={**os.environ, "PYTHONPATH": paths, "WEFT_CACHE": str(cache)}
    )
    return watch.times


def main(arguments: list[str]) -> None:
    """Run the lessons, and print a line for each and for the longest cells."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("names", nargs="*", metavar="LESSON")
    beginnings = tuple(parser.parse_args(arguments).names) or ("",)
    times = list[CellTime]()
    print(f"{'lesson':<26} {'wall s':>7} {'cpu s':>7}   first picture after")
    with tempfile.TemporaryDirectory() as cache:
        copy_runtime(Path(cache))
        for name in filter(lambda name: name.startswith(beginnings), list_names()):
            lesson = time_lesson(name, Path(cache))
            wall, cpu = lesson[-1].end, sum(cell.cpu for cell in lesson)
            pictures = [f"{cell.end:.1f} s" for cell in lesson if cell.has_picture]
            first = pictures[0] if pictures else "-"
            print(f"{name:<26} {wall:7.1f} {cpu:7.1f}   {first}", flush=True)
            times += lesson
    print("\nthe longest cells")
    for cell in sorted(times, key=lambda cell: -cell.cpu)[:LONGEST]:
        print(f"{cell.lesson:<26} {cell.wall:7.1f} {cell.cpu:7.1f}   {cell.code[:60]}")


if __name__ == "__main__":
    main(sys.argv[1:])
