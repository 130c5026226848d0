"""Time copies on one and on several streams: `python -m weft bench streams`.

The benchmark runs notebooks/programs/streams.cu, lesson 06's program, several times.
Parts of an array are copied to the device, changed and copied back. The array is in
pageable or in pinned memory, and the copies use one stream or several. With --device
cuda, nvcc compiles the program. On a CPU, a copy is a memcpy and a stream is a list.
The results are then checked, but the times do not represent a GPU.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from ..base import device as devices
from ..base.paths import ROOT
from ..timing.results import Row, device_name
from ..timing.timers import summarize
from ..toolchain.build import find_tool

PROGRAM = ROOT / "notebooks" / "programs" / "streams.cu"
RUNS = 15  # runs of the program; each run yields one sample
LINE = re.compile(
    r"(\w+) +1 stream +([\d.]+) ms, (\d+) streams +([\d.]+) ms, wrong (\d+)"
)
SHOWN = ["rung", "us", "us_low", "us_high", "timer"]


def rows_of(args: argparse.Namespace) -> list[Row]:
    """Return the rows for the options of the command line."""
    return rows(args.device)


def rows(device: str = "cpu", runs: int = RUNS) -> list[Row]:
    """Run the program and return a row for each way to copy.

    Raises RuntimeError if the program prints a wrong result.
    """
    where = devices.parse_device(device)
    with tempfile.TemporaryDirectory() as folder:
        command = _make_command(where.type, Path(folder) / "streams")
        samples: dict[str, list[float]] = {}
        for _ in range(runs):
            run = subprocess.run(command, capture_output=True, text=True, check=True)
            for name, us in read(run.stdout).items():
                samples.setdefault(name, []).append(us)
    common = {"op": "streams", "impl": "weft", "precision": "fp32"}
    common |= {"target": where.type, "device": device_name(where)}
    timer = "CUDA events" if where.type == "cuda" else "simulated events"
    return [
        common | {"rung": name} | summarize(us, timer).row()
        for name, us in samples.items()
    ]


def read(printed: str) -> dict[str, float]:
    """Return the printed times in microseconds, by kind of memory and stream count."""
    times = {}
    for kind, one, count, many, wrong in LINE.findall(printed):
        if int(wrong):
            raise RuntimeError(f"streams.cu: {wrong} elements are wrong, from {kind}")
        times[f"{kind}, 1 stream"] = 1e3 * float(one)
        times[f"{kind}, {count} streams"] = 1e3 * float(many)
    if not times:
        raise RuntimeError(f"streams.cu printed no times: {printed!r:.80}")
    return times


def note(rows: list[Row]) -> str:
    """Return the text below the table."""
    text = f"4 MiB there and back; {rows[0]['device']}"
    if rows[0]["target"] == "cpu":
        text += "\nOn a CPU, streams are simulated: these times do not represent a GPU"
    return text


def _make_command(target: str, program: Path) -> list[str]:
    if target == "cpu":
        return [sys.executable, "-m", "weft", "run", str(PROGRAM)]
    words = ["-O2", "-arch=native", str(PROGRAM), "-o", str(program)]
    subprocess.run([find_tool("nvcc"), *words], check=True)
    return [str(program)]
