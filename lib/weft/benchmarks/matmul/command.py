"""The matmul ladder compared with cuBLAS and torch.mm: `python -m weft bench matmul`.

For each size and precision, all contenders take turns. Each is first checked against
float64, and a rung that fails its check is not timed. A table then shows the ratios to
cuBLAS. In races with tensor cores, each burst of 2 ms follows a pause of 60 ms, and a
longer call follows a proportional pause. Without pauses, the timing would measure the
card's power limit and noise. Small products do not reach this limit and need no pauses.

--sizes 1024,5120x256x5120,64of256 (m x k x n; 64 cubes of side 256), or --set
summary|ladder|odd|awkward|layouts|cold|peaks|all; --rungs NAME,NAME; --precisions
fp32,3xtf32,tf32,bf16,fp16; --timer; --cold; --numba. --sustain SECONDS also times each
contender under a load without pauses. A file at --json keeps this device's rows until
they are measured again, so a run can be split into parts. On a CPU the rungs in plain C
race NumPy and torch, all with the number of threads in OMP_NUM_THREADS.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from ...base.errors import ArgumentError
from ...base.progress import remark
from ...timing import clocks, peaks, table, write_json
from ...timing.results import Row, merge_rows
from ...toolchain import native
from .. import say, split_words
from .calls import Operands, Product, Size, make_contender
from .comparison import beside_fastest, compare_fastest
from .race import (
    PRECISIONS,
    SETS,
    WRONG,
    RaceOptions,
    Speeds,
    plan_races,
    race_of,
    race_rows,
)

TITLE = "matmul, which also accepts --precisions (with 3xtf32) and --rounds"
SHOWN = ["impl", "rung", "precision", "layout", "batch", "m", "k", "n", "us", "us_low"]
SHOWN += ["us_high", "tflops", "gbs", "vs_cublas", "vs_torch", "error_rms", "error_max"]
SHOWN += ["cache", "spread", "clock_median", "throttled", "sustained_tflops"]
SHOWN += ["sustained_clock", "sustained_throttled"]
KEY = ("op", "impl", "rung", "precision", "layout", "m", "k", "n", "target", "timer")
KEY += ("cache", "race", "batch", "threads")


def add_arguments(parser: argparse._ArgumentGroup) -> None:
    """Add the options that only this benchmark has."""
    add = parser.add_argument
    add("--set", default="", help=f"a set of sizes: {', '.join(SETS)}")
    add("--timer", default="", help=f"one of {', '.join(clocks.TIMERS)}")
    add("--cold", action="store_true", help="use inputs that are in no cache")
    add("--numba", action="store_true", help="also time Numba's kernels")
    load = "also time each contender under a load of this many seconds without pauses"
    add("--sustain", metavar="SECONDS", type=float, default=0.0, help=load)


def rows_of(args: argparse.Namespace) -> list[Row]:
    """Return the rows for the command line's options; write --json part by part."""
    where = _parse_device(args.device)
    if args.rounds < 1:
        raise ArgumentError(f"--rounds {args.rounds}: must be at least 1")
    if not 0 <= args.sustain < math.inf:
        raise ArgumentError(f"--sustain {args.sustain}: expected seconds, at least 0")
    options = RaceOptions(
        *(where, args.timer, args.cold, args.numba, args.rounds), sustain=args.sustain
    )
    plan = plan_races(
        *(where, args.set),
        *map(split_words, (args.sizes, args.rungs, args.precisions)),
    )
    results: list[Row] = []
    if args.set in ("peaks", "all"):
        say("peaks")
        results += peaks.peaks(args.device, again=True)
    speeds = Speeds()
    try:
        for race in plan:
            results += race_rows(race, options, speeds)
            beside_fastest(results)
            if args.json:
                write_json(args.json, merged(args.json, results), args.device)
    except KeyboardInterrupt:
        if not results:
            raise
        remark("stopped: these rows were measured")
    if not results:
        raise ArgumentError("nothing could be measured")
    return results


def rows(
    device: str = "cpu",
    sizes: Sequence[str] = (),
    rungs: Sequence[str] = (),
    precisions: Sequence[str] = ("fp32",),
    **more: Any,
) -> list[Row]:
    """Return the rows of these sizes ("1024", "5120x256x5120").

    rungs: names; () selects all for `device` (on a CPU, only those in plain C). more:
    fields of RaceOptions.
    """
    where, speeds = _parse_device(device), Speeds()
    options = RaceOptions(where, **more)
    plan = plan_races(where, "", sizes, rungs, precisions)
    return [row for race in plan for row in race_rows(race, options, speeds)]


def time_mine(
    call: Product,
    size: int | str = 1024,
    name: str = "mine",
    kind: str = "fp32",
    device: str | None = None,
    rungs: Sequence[str] = (),
    **more: Any,
) -> list[Row]:
    """Time the reader's product with cuBLAS and torch.mm; return rows for the charts.

    call(c, a, b) writes c (m,n) float32 = a (m,k) @ b (k,n); all are tensors. rungs:
    names of our rungs that also take part. more: as in rows(). Raises Mismatch before
    timing if a result is wrong.
    """
    where = _parse_device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    if kind not in PRECISIONS:
        raise ArgumentError(f"kind={kind!r}: expected one of {', '.join(PRECISIONS)}")
    ours = tuple(native.library("matmul", where.type).rung(rung) for rung in rungs)
    race, options = race_of(Size.of(str(size)), kind, ours), RaceOptions(where, **more)
    operands = Operands.random(race.size, kind, where, options.cold)
    own = make_contender("mine", name, kind, operands, call)
    return race_rows(race, options, Speeds(), (own,), operands)


def merged(path: str | Path, rows: list[Row]) -> list[Row]:
    """Return the result of merge_rows(), without products in an older format."""
    both = merge_rows(path, rows, _row_key, _place)
    return [row for row in both if row["op"] == "peak" or "race" in row]


def note(rows: list[Row]) -> str:
    """Return the text below the table: the ratios to cuBLAS and the timing method."""
    lines = compare_fastest(rows)
    parts = ["", table(lines, [*lines[0]])] if lines else [""]
    caches = sorted({row["cache"] for row in rows if row.get("cache")})
    timed = [row for row in rows if row["timer"] and row["op"] == "matmul"]
    head = [*timed, rows[0]][0]
    pause = max(row.get("pause_ms") or 0 for row in rows)
    parts.append(
        f"{head['device']}; timer {head['timer']}; cache {', '.join(caches)}; pauses "
        f"of up to {pause:.0f} ms between bursts; vs: the peer's time / this time"
    )
    why = {row["throttled"] for row in rows if row.get("throttled")}
    parts += [f"throttled: {', '.join(sorted(why))}"] * bool(why)
    return "\n".join(parts)


def status(rows: list[Row]) -> int:
    """Return 1 if a kernel was wrong and therefore not timed."""
    return int(any(row.get(WRONG) for row in rows))


# ---- details ---------------------------------------------------------------------


def _parse_device(name: str) -> torch.device:
    where = torch.device(name)
    if where.type == "cuda" and where.index is None:
        return torch.device("cuda", torch.cuda.current_device())
    return where


def _row_key(row: Row) -> tuple:
    names = [name for name in KEY if row["op"] != "peak" or name != "batch"]
    return tuple(map(row.get, names))


def _place(row: Row) -> tuple:
    """Return a row's sort key in the file: peaks first, then size, then precision."""
    work = math.prod(row.get(name) or 0 for name in ("batch", "m", "k", "n"))
    return row["op"] != "peak", work, PRECISIONS.index(row["precision"])
