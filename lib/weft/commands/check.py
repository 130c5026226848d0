"""python -m weft check: compare every rung with float64, with poisoned outputs."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import torch

from ..base.errors import ArgumentError, Mismatch, link_entry
from ..benchmarks import sanitizer
from ..ops.cases import OPS
from ..ops.check import RungVerdict, check_rung
from ..timing import device_name, table, write_json
from ..toolchain import native


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `python -m weft check`."""
    add = parser.add_argument
    add("op", nargs="?", choices=OPS, help="op to check (default: all)")
    add("--rung", help="rung to check (default: all that run on this machine)")
    add("--device", choices=("cpu", "cuda"), help="default: all of this machine")
    wide = "number of extra random cases; also adds the op's large cases"
    add("--wide", "-w", type=int, default=0, metavar="COUNT", help=wide)
    every = ",".join(sanitizer.TOOLS)
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
    rows = sanitizer.rows(tools, args.rung)
    lines = [row | {"rungs": len(row["rungs"])} for row in rows]
    print(table(lines, ["tool", "version", "device", "rungs", "errors", "seconds"]))
    for row in rows:
        for name in row["missing"]:
            print(f"WRONG  {row['tool']}: {name} computed a wrong result")
    if args.json:
        write_json(args.json, rows, "cuda")
    return int(not all(map(sanitizer.is_clean, rows)))


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
