"""python -m weft bench WHAT: time the rungs of an op, or run a benchmark."""

from __future__ import annotations

import argparse
import importlib
from typing import Any

from ..base import device as devices
from ..base.progress import PATIENCE, Progress
from ..timing import STATISTIC, table, write_json
from ..timing.results import describe_rows

# The benchmarks other than the timing of ops (ops.py). Each module defines rows() or
# rows_of(arguments), which return a list of rows. It can also define SHOWN, the columns
# to print; note(rows), the text below them; status(rows), the exit status; and
# merged(path, rows), the rows to write to a file that already contains rows.
BENCHMARKS = {
    "bodies": "weft.benchmarks.bodies",
    "simt": "weft.benchmarks.simt",
    "sim": "weft.benchmarks.sim",
    "check": "weft.benchmarks.check",
    "edit": "weft.benchmarks.edit",
    "launch": "weft.benchmarks.launch",
    "matmul": "weft.benchmarks.matmul.command",
    "mnist": "weft.benchmarks.race.command",
    "torch-kernels": "weft.benchmarks.race.inside",
    "transpose": "weft.benchmarks.transpose",
    "sectors": "weft.benchmarks.sectors",
    "streams": "weft.benchmarks.streams",
    "counters": "weft.benchmarks.counters",
    "graphs": "weft.benchmarks.graphs",
    "tensor": "weft.benchmarks.tensor",
    "bridges": "weft.benchmarks.bridges",
    "libraries": "weft.benchmarks.libraries",
}

# Benchmarks with additional options, which define TITLE and add_arguments().
OPTIONS = ("mnist", "matmul")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `python -m weft bench`."""
    # Imported lazily, since this module imports PyTorch.
    from ..benchmarks.ops import PROBLEMS

    what = f"a benchmark ({', '.join(BENCHMARKS)}) or an op ({', '.join(PROBLEMS)})"
    names = dict.fromkeys([*BENCHMARKS, *PROBLEMS])
    parser.add_argument("what", metavar="WHAT", choices=names, help=what)
    device = "device to measure: cpu, cuda or cuda:N (default: %(default)s)"
    parser.add_argument("--device", default="cpu", help=device)
    sizes = "sizes to measure: 256,512; for matmul also 5120x256x5120 (m x k x n) or "
    sizes += "64of256 (64 products)"
    parser.add_argument("--sizes", metavar="N,N", default="", help=sizes)
    rungs = "rungs to measure, kernels of counters, or ops of graphs and tensor"
    parser.add_argument("--rungs", metavar="NAME,NAME", default="", help=rungs)
    counted = "count an op's memory traffic on the CPU instead of timing it"
    parser.add_argument("--counted", action="store_true", help=counted)
    parser.add_argument("--json", metavar="PATH", help="write the rows to this file")
    for module in (importlib.import_module(BENCHMARKS[name]) for name in OPTIONS):
        module.add_arguments(parser.add_argument_group(module.TITLE))


def main(args: argparse.Namespace) -> int:
    """Run a benchmark; print its rows and, if requested, write them to a file."""
    _check_device(args.device)
    with Progress(f"measuring {args.what}", delay=PATIENCE):
        module, rows, columns, note = _measure(args)
    print(table(rows, columns))
    if note:
        print(note)
    if shared := describe_rows(rows):
        print(shared)
    if args.json:
        if hasattr(module, "merged"):
            rows = module.merged(args.json, rows)
        on_gpu = any(row["target"] == "cuda" and row["device"] for row in rows)
        write_json(args.json, rows, "cuda" if on_gpu else args.device)
    return module.status(rows) if hasattr(module, "status") else 0


def _measure(args: argparse.Namespace) -> tuple[Any, list[dict[str, Any]], Any, str]:
    """Return the benchmark's module, its rows, the columns to print, and a note."""
    # Imported lazily, since these modules import PyTorch.
    from ..benchmarks import counted, ops
    from ..ops.cases import find_op

    if args.counted:
        rows = counted.rows(args.what, *_list_choices(args))
        columns = ["rung", find_op(args.what).bench.size, *counted.COUNTS]
        return counted, rows, columns, counted.NOTE
    if args.what not in BENCHMARKS:
        rows = ops.rows(args.what, args.device, *_list_choices(args))
        size_keys = [key for key in rows[0] if key not in ops.COLUMNS]
        columns = ["impl", "rung", *size_keys, "us", "us_low", "us_high"]
        columns += ["gbs", "tflops", "error", "vs_torch"]
        beside = ("vs_numpy", "vs_cub", "copy_gbs", "of_copy")
        columns += [k for k in beside if k in rows[0]]
        head = f"{rows[0]['device']}; fp32; timer {rows[0]['timer']}, {STATISTIC}"
        return ops, rows, columns, head
    module = importlib.import_module(BENCHMARKS[args.what])
    rows = module.rows_of(args) if hasattr(module, "rows_of") else module.rows()
    all_keys = list(dict.fromkeys(key for row in rows for key in row))
    columns = getattr(module, "SHOWN", all_keys)
    note = f"{module.note(rows)}\n{STATISTIC}" if hasattr(module, "note") else ""
    return module, rows, columns, note


def _check_device(text: str) -> None:
    device, count = devices.parse_device(text), devices.count()
    if device.type == "cuda" and device.index >= count:
        raise ValueError(f"--device {text}: this machine has {count} CUDA GPUs")


def _list_choices(args: argparse.Namespace) -> tuple[list[int], list[str]]:
    """Return the sizes and rungs of an op on the command line."""
    sizes = [int(size) for size in args.sizes.split(",") if size]
    return sizes, [name for name in args.rungs.split(",") if name]
