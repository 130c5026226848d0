"""What tensor cores lose, and what limits them: `python -m weft bench tensor`.

Lesson 08c explains what is measured here, by the op of a row:

    staircase  1 + x / 2^23, added by a tensor core: `added` is what became of x
    promotion  errors of sums that begin anew every `every` of k (0: never)
    error      of a product in each precision over k, against float64
    heat       a product again and again, with pauses (`mode` cool) and without (hot),
               of random numbers or of zeros; series: [ms, TFLOP/s, MHz, W]
    clock      a product by each rung, cool: `ghz`, the clock at which it ran, from the
               cycles that multiprocessors counted between two moments
    ncu        Nsight Compute's counters of a product by each rung

errors are relative: the root mean square of c's differences over that of c; bias is
their mean over that of c, which shows where all err to one side. On a CPU tensor cores
are simulated and round once where a GPU's cut off: staircase, promotion and error run
there and are checked; heat, clock and ncu are a GPU's alone.

--device cuda; --rungs promotion,error: only those ops.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from ...timing import read_json
from ...timing.results import stamp_row
from . import limits, sums

SHOWN = ["op", "impl", "rung", "precision", "k", "every", "signs", "mode", "added"]
SHOWN += ["error_rms", "bias", "us", "tflops", "clock_median", "ghz", "power"]
SHOWN += ["tensor_pipe"]
OPS = sums.OPS | limits.OPS

Row = dict[str, Any]


def rows_of(args: argparse.Namespace) -> list[Row]:
    """The rows for the options of the command line."""
    return rows(args.device, [name for name in args.rungs.split(",") if name])


def rows(device: str = "cpu", ops: Sequence[str] = ()) -> list[Row]:
    """Measure all of it, or the named ops; each row has its date and commit.

    Raises ValueError for an op that there is not, NoCounters where ncu gives none.
    """
    where = torch.device(device)
    if unknown := set(ops) - OPS.keys():
        raise ValueError(f"--rungs {','.join(sorted(unknown))}: want {', '.join(OPS)}")
    if where.type == "cuda" and where.index is None:
        where = torch.device("cuda", torch.cuda.current_device())
    wanted = [name for name in OPS if name in (ops or OPS)]
    made = stamp_row()
    return [row | made for name in wanted for row in OPS[name](where)]


def merged(path: str | Path, rows: list[Row]) -> list[Row]:
    """`rows`, and those of the file at `path` of the same device and other ops."""
    if not Path(path).exists():
        return rows
    new, devices = {row["op"] for row in rows}, {row["device"] for row in rows}
    kept = [
        row
        for row in read_json(path)["rows"]
        if row["op"] not in new and row["device"] in devices
    ]
    return sorted([*kept, *rows], key=lambda row: [*OPS].index(row["op"]))


def note(rows: list[Row]) -> str:
    """What stands under the table."""
    said = f"{rows[0]['device']}; errors relative to c, against float64"
    if rows[0]["target"] == "cpu":
        said += "\nOn a CPU tensor cores are simulated: they round where a GPU's cut"
    return said
