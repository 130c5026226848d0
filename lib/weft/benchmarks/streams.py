"""Does it pay to copy on several streams? `python -m weft bench streams`.

Runs notebooks/programs/streams.cu, lesson 06's program, several times: parts of an
array are copied to the device, changed and copied back, from pageable and from pinned
memory, on one stream and on several. With --device cuda nvcc compiles it. On a CPU a
copy is a memcpy and a stream a list: the answers are checked, and the times say
nothing of a GPU.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from ..base import device as devices
from ..base.paths import ROOT
from ..timing.results import device_name
from ..timing.timers import summarize
from ..toolchain.build import find_tool

PROGRAM = ROOT / "notebooks" / "programs" / "streams.cu"
RUNS = 15  # of the program, each with one sample
LINE = re.compile(
    r"(\w+) +1 stream +([\d.]+) ms, (\d+) streams +([\d.]+) ms, wrong (\d+)"
)
SHOWN = ["rung", "us", "us_low", "us_high", "timer"]

Row = dict[str, Any]


def rows_of(args: argparse.Namespace) -> list[Row]:
    """The rows for the options of the command line."""
    return rows(args.device)


def rows(device: str = "cpu", runs: int = RUNS) -> list[Row]:
    """Run the program and time each way to copy.

    Raises RuntimeError if the program prints a wrong result.
    """
    where = devices.parse_device(device)
    with tempfile.TemporaryDirectory() as folder:
        command = _make_command(where.type, Path(folder) / "streams")
        samples: dict[str, list[float]] = {}
        for _ in range(runs):
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            for name, us in read(done.stdout).items():
                samples.setdefault(name, []).append(us)
    common = {
        **{"op": "streams", "impl": "weft", "precision": "fp32"},
        **{"target": where.type, "device": device_name(where)},
    }
    timer = "CUDA events" if where.type == "cuda" else "simulated events"
    return [
        common | {"rung": name} | summarize(us, timer).row()
        for name, us in samples.items()
    ]


def read(printed: str) -> dict[str, float]:
    """Parse the program's output: microseconds by kind of memory and stream count."""
    found = {}
    for kind, one, count, many, wrong in LINE.findall(printed):
        if int(wrong):
            raise RuntimeError(f"streams.cu: {wrong} elements are wrong, from {kind}")
        found[f"{kind}, 1 stream"] = 1e3 * float(one)
        found[f"{kind}, {count} streams"] = 1e3 * float(many)
    if not found:
        raise RuntimeError(f"streams.cu printed no times: {printed!r:.80}")
    return found


def note(rows: list[Row]) -> str:
    """What stands under the table."""
    said = f"4 MiB there and back; {rows[0]['device']}"
    if rows[0]["target"] == "cpu":
        said += "\nOn a CPU streams are simulated: these times are no signal of a GPU's"
    return said


def _make_command(target: str, program: Path) -> list[str]:
    if target == "cpu":
        return [sys.executable, "-m", "weft", "run", str(PROGRAM)]
    compile_it = [
        find_tool("nvcc"),
        "-O2",
        "-arch=native",
        str(PROGRAM),
        "-o",
        str(program),
    ]
    subprocess.run(compile_it, check=True)
    return [str(program)]
