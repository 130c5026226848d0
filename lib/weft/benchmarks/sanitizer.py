"""Run NVIDIA's compute-sanitizer over every rung: `weft check matmul --sanitizer`.

every_rung.cu is a C program that multiplies small integer matrices with each rung and
checks the results. Each of the sanitizer's tools watches one run of this program. All
runs happen at the same time.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ..base import device as devices
from ..base.errors import ArgumentError, BuildError
from ..timing import device_name
from ..timing.results import Row, stamp_row
from ..toolchain import build, native
from ..toolchain import tools as toolchain
from . import say

SANITIZER = "compute-sanitizer"
TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
SOURCE = Path(__file__).with_name("every_rung.cu")
LAST = 3000  # number of characters shown from the end of a tool's output


def rows(tools: Sequence[str] = TOOLS, rung: str | None = None) -> list[Row]:
    """Run each tool over all rungs, or over `rung` alone, and return a row for each.

    In a row, `errors` is a count, or None if the tool did not finish. `rungs` lists the
    rungs with correct results, and `missing` lists the others. Findings are printed.
    Raises ArgumentError for an unknown tool or rung, or if there is no sanitizer, nvcc
    or GPU.
    """
    for tool in tools:
        if tool not in TOOLS:
            raise ArgumentError(f"{SANITIZER} '{tool}': expected {', '.join(TOOLS)}")
    if not devices.count():
        raise ArgumentError(f"{SANITIZER} requires a GPU, and this machine has none")
    if not shutil.which(SANITIZER):
        raise ArgumentError(f"{SANITIZER} of the CUDA toolkit is not on the PATH")
    lib = native.library("matmul", "cuda")
    rungs = [lib.rung(rung)] if rung else lib.here()
    names = [one.name for one in rungs]
    with tempfile.TemporaryDirectory() as folder:
        command = [_build_program(Path(folder)), lib.path, *([rung] if rung else [])]
        with ThreadPoolExecutor(len(tools)) as pool:
            return [*pool.map(lambda tool: _make_row(tool, command, names), tools)]


def is_clean(row: Row) -> bool:
    """Return whether the tool found no errors and every rung's result was correct."""
    return row["errors"] == 0 and not row["missing"]


def _build_program(folder: Path) -> Path:
    """Compile every_rung.cu into the folder and return the program's path."""
    nvcc = toolchain.nvcc()
    if not nvcc:
        raise ArgumentError(f"compiling {SOURCE.name} requires nvcc, which is missing")
    program = folder / SOURCE.stem
    command = [nvcc, "-I", build.KERNELS, SOURCE, "-o", program, "-ldl"]
    process = subprocess.run([*map(str, command)], text=True, capture_output=True)
    if process.returncode:
        raise BuildError(f"{SOURCE.name}: {process.stderr[-LAST:]}")
    return program


def _make_row(tool: str, command: Sequence[Any], names: Sequence[str]) -> Row:
    """Run one tool and return its row; copy its output to stderr while it runs."""
    start, lines, right = time.monotonic(), [], []
    watched = [SANITIZER, "--tool", tool, "--error-exitcode", "1", *map(str, command)]
    with subprocess.Popen(
        watched, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        for line in process.stdout:
            lines.append(line)
            if line.startswith("done: "):
                right.append(line.removeprefix("done: ").strip())
                say(f"{tool}: {right[-1]}, {len(right)} of {len(names)}")
    errors = _count_errors("".join(lines), process.returncode)
    row = {
        **{"op": "matmul", "impl": SANITIZER, "tool": tool, "version": _tool_version()},
        **{"target": "cuda", "device": device_name("cuda"), "errors": errors},
        **{"rungs": right, "missing": [name for name in names if name not in right]},
        **{"seconds": time.monotonic() - start, **stamp_row()},
    }
    if not is_clean(row):
        print("".join(lines)[-LAST:], file=sys.stderr)
    return row


def _count_errors(text: str, status: int) -> int | None:
    """Return the number of errors or hazards; None if the tool stopped early."""
    counts = re.findall(r"SUMMARY: (\d+) (?:error|hazard)", text)
    if not counts or (status and not any(map(int, counts))):
        return None
    return sum(map(int, counts))


def _tool_version() -> str | None:
    process = subprocess.run([SANITIZER, "--version"], text=True, capture_output=True)
    match = re.search(r"Version (\S+)", process.stdout)
    return match and match[1]
