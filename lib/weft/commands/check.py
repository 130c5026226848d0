"""python -m weft check: compare every rung with float64, with poisoned outputs.

With --sanitizer, NVIDIA's compute-sanitizer watches the rungs of matmul. every_rung.cu
is a C program that multiplies small integer matrices with each rung and checks the
results. Each of the sanitizer's tools watches one run of this program. All runs happen
at the same time.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch

from ..base import device as devices
from ..base.errors import ArgumentError, BuildError, Mismatch, link_entry
from ..benchmarks import say
from ..ops.cases import OPS
from ..ops.check import RungVerdict, check_rung
from ..timing import device_name, table, write_json
from ..timing.results import Row, stamp_row
from ..toolchain import build, native
from ..toolchain import tools as toolchain

SANITIZER = "compute-sanitizer"
TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
SOURCE = Path(__file__).with_name("every_rung.cu")
LAST = 3000  # number of characters shown from the end of a tool's output


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `python -m weft check`."""
    add = parser.add_argument
    add("op", nargs="?", choices=OPS, help="op to check (default: all)")
    add("--rung", help="rung to check (default: all that run on this machine)")
    add("--device", choices=("cpu", "cuda"), help="default: all of this machine")
    wide = "number of extra random cases; also adds the op's large cases"
    add("--wide", "-w", type=int, default=0, metavar="COUNT", help=wide)
    every = ",".join(TOOLS)
    tools = "run matmul on a GPU under compute-sanitizer, with these tools (default: "
    look = dict(metavar="TOOL,TOOL", help=f"{tools}{every})")
    add("--sanitizer", nargs="?", const=every, **look)
    add("--json", metavar="PATH", help="write the verdicts to this file")


def main(args: argparse.Namespace) -> int:
    """Print one line per rung; return exit status 1 if any rung is wrong."""
    if args.sanitizer is not None:
        return _run_sanitizer(args)
    targets = ["cpu"] + ["cuda"] * torch.cuda.is_available()
    targets = [args.device] if args.device else targets
    failures, rows = 0, []
    for op in [args.op] if args.op else OPS:
        if args.rung and not any(_select_rungs(op, args.rung, t) for t in targets):
            # For an unknown rung, the error lists all rungs.
            native.library(op, targets[0]).rung(args.rung)
        for target in targets:
            for result in _check_each(op, args.rung, target, args.wide):
                failures += isinstance(result, Mismatch)
                print(_write_line(result), flush=True)
                if isinstance(result, RungVerdict):
                    rows.append(_make_row(result))
    if args.json:
        write_json(args.json, rows)
    return 1 if failures else 0


def _run_sanitizer(args: argparse.Namespace) -> int:
    """Run the check under each tool of compute-sanitizer; return 1 for any finding."""
    if args.op != "matmul" or args.device == "cpu" or args.wide:
        what = "every rung of matmul on a GPU, or --rung NAME"
        raise ArgumentError(f"--sanitizer takes {what}: weft check matmul --sanitizer")
    tools = [word.strip() for word in args.sanitizer.split(",")]
    rows = run_tools(tools, args.rung)
    lines = [row | {"rungs": len(row["rungs"])} for row in rows]
    print(table(lines, ["tool", "version", "device", "rungs", "errors", "seconds"]))
    for row in rows:
        for name in row["missing"]:
            print(f"WRONG  {row['tool']}: {name} computed a wrong result")
    if args.json:
        write_json(args.json, rows, "cuda")
    return int(not all(map(is_clean, rows)))


def _check_each(
    op: str, rung: str | None, target: str, wide: int
) -> Iterator[RungVerdict | Mismatch]:
    for candidate in _select_rungs(op, rung, target):
        try:
            yield check_rung(native.library(op, target), candidate, wide)
        except Mismatch as error:
            yield error


def _select_rungs(op: str, rung: str | None, target: str) -> list[native.Rung]:
    """Return the rungs that run on `target`: the one called `rung`, or all for None."""
    available = native.library(op, target).here()
    return [r for r in available if target in r.targets and rung in (None, r.name)]


def _write_line(result: RungVerdict | Mismatch) -> str:
    if isinstance(result, Mismatch):
        return "\n".join([f"WRONG  {result}", *link_entry(result)])
    return (
        f"ok     {result.op:<14} {result.rung:<12} {result.target:<5} "
        f"{result.runs:>4} runs, largest error {result.worst:.2f} of its bound"
    )


def _make_row(verdict: RungVerdict) -> dict[str, Any]:
    return {
        **{"op": verdict.op, "impl": "weft", "rung": verdict.rung},
        **{"precision": verdict.precision, "target": verdict.target},
        **{"device": device_name(verdict.target), "runs": verdict.runs},
        **{"error_over_bound": verdict.worst},
    }


# ---- compute-sanitizer ---------------------------------------------------------------


def run_tools(tools: Sequence[str] = TOOLS, rung: str | None = None) -> list[Row]:
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
            return [*pool.map(lambda tool: _watch_rungs(tool, command, names), tools)]


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


def _watch_rungs(tool: str, command: Sequence[Any], names: Sequence[str]) -> Row:
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
