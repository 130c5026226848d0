"""The race over batches and precisions: `python -m weft bench mnist --device cuda`.

For each precision and batch, race.py times our rungs and PyTorch's twins in turn
and compares their gradients with float64. A table then shows the ratios of PyTorch's
fastest time to ours. Neither side needs the biases that batch norm cancels: our fused
rungs skip them, and so do PyTorch's rungs with "nobias" in their names. --measure adds
other milestones (milestones.py): an epoch, the time to 99 % accuracy on the test set,
the accuracy over seeds, a cold start, and the machine's roofs for the kernels.

A file at --json keeps this device's rows until they are measured again, so a sweep can
be split into parts. The file is written after each part. Every row contains its date
and commit.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ...base.errors import ArgumentError
from ...mnist.rungs import TwinRung, parse_twin
from ...timing import table, write_json
from ...timing.results import Row, merge_rows
from .. import say, split_words

TITLE = "mnist"
BATCHES = {"cuda": (64, 256, 1024, 4096, 16384), "cpu": (64,)}
PRECISIONS = {"cuda": ("fp32", "tf32", "bf16"), "cpu": ("fp32",)}
MEASURES = ("step", "roof", "epoch", "target", "seeds", "cold")
SHOWN = ["measure", "impl", "rung", "layout", "precision", "batch", "us", "us_low"]
SHOWN += ["us_high", "vs_torch_best", "vs_torch_eager", "host_us", "peak_bytes"]
SHOWN += ["loss_error", "gradient_error", "test_accuracy"]
KEY = ("op", "measure", "impl", "rung", "layout", "precision", "batch", "target")


def add_arguments(parser: argparse._ArgumentGroup) -> None:
    """Add the options that only this benchmark has."""
    add = parser.add_argument
    add("--batches", metavar="N,N", default="", help="default on a GPU: 64 to 16384")
    add("--precisions", metavar="P,P", default="", help="some of fp32,tf32,bf16,fp16")
    add(
        "--twins",
        metavar="T,T",
        default=None,
        help='PyTorch\'s variants: RUNG or RUNG LAYOUT; "" for none. RUNG: eager, '
        "compile (forward and backward pass) or compile-step (also the update), then "
        "+autotune (max-autotune), +graph or +graph64 (a CUDA graph of 1 or 64 steps) "
        "and +nobias (without the biases that batch norm cancels). LAYOUT: nchw or "
        "channels_last. Default: all that can win, and the eager ones",
    )
    add("--rounds", type=int, default=25, help="samples (default: %(default)s)")
    add("--warm", action="store_true", help="first compile all twins in parallel")
    measures = f"some of {','.join(MEASURES)} (default: %(default)s)"
    add("--measure", metavar="M,M", default="step", help=measures)


def rows_of(args: argparse.Namespace) -> list[Row]:
    """Return the rows for the command line's options; write --json part by part."""
    target = args.device.partition(":")[0]
    batches = [_parse_whole(batch) for batch in split_words(args.batches)]
    measures = split_words(args.measure)
    for name in measures:
        if name not in MEASURES:
            choices = ",".join(MEASURES)
            raise ArgumentError(f"--measure {name}: expected some of {choices}")
    if args.rounds < 1:
        raise ArgumentError(f"--rounds {args.rounds}: must be at least 1")
    results: list[Row] = []
    parts = _run_parts(
        *[args.device, measures],
        batches=batches or BATCHES.get(target, BATCHES["cuda"]),
        precisions=split_words(args.precisions) or PRECISIONS.get(target, ("fp32",)),
        rungs=split_words(args.rungs) or None,
        twins=None if args.twins is None else split_words(args.twins),
        rounds=args.rounds,
        warm=args.warm,
    )
    for rows in parts:
        results += rows
        if args.json:
            write_json(args.json, merged(args.json, results), args.device)
    if not results:
        raise ArgumentError("nothing could be measured")
    return results


def merged(path: str | Path, rows: list[Row]) -> list[Row]:
    """Return the file's rows that `rows` do not replace, then `rows`; see KEY."""
    return merge_rows(path, rows, _row_key, _place)


def compare_best(rows: Sequence[Row]) -> list[Row]:
    """Compare both sides' best rows for each precision and batch that both ran."""
    lines = []
    steps = [row for row in rows if row["measure"] == "step"]
    for precision, batch in dict.fromkeys((r["precision"], r["batch"]) for r in steps):
        fastest = {}  # the fastest row of each impl
        for row in sorted(steps, key=lambda row: row["us"]):
            if (row["precision"], row["batch"]) == (precision, batch):
                fastest.setdefault(row["impl"], row)
        if fastest.keys() >= {"weft", "torch"}:
            ours, best = fastest["weft"], fastest["torch"]
            line = {"precision": precision, "batch": batch}
            line |= {"PyTorch's fastest": f"{best['rung']} {best['layout']}"}
            line |= {"us": best["us"], "ours": ours["rung"], "our us": ours["us"]}
            lines.append(line | {"ratio": best["us"] / ours["us"]})
    return lines


def list_twins(rows: Iterable[Row]) -> list[TwinRung]:
    """Return the kinds of PyTorch's steps among the rows, without their layouts."""
    steps = [r for r in rows if r["measure"] == "step" and r["impl"] == "torch"]
    return [parse_twin(name) for name in dict.fromkeys(row["rung"] for row in steps)]


def note(rows: list[Row]) -> str:
    """Return the text below the table."""
    lines = compare_best(rows)
    parts = [f"{rows[0]['device']}; timer {rows[0]['timer']}"]
    if lines:
        parts = [table(lines, [*lines[0]]), *parts]
        parts.append("ratio: PyTorch's fastest time over ours")
    if any(row["target"] == "cpu" and row["impl"] == "weft" for row in rows):
        parts.append("CUDA kernels are simulated on a CPU: ignore their times.")
    return "\n".join(["", *parts])


def _run_parts(device: str, measures: list[str], **options: Any) -> Iterator[list[Row]]:
    # Imported lazily: `bench --help` does not need PyTorch.
    from . import milestones, work
    from .race import run_heat, warm_twins

    sides = {key: options[key] for key in ("rungs", "twins")}
    precisions = options["precisions"]
    batches = options["batches"] if "step" in measures else ()
    if options["warm"]:
        cells = [(name, batch) for name in precisions for batch in batches]
        cells = cells or [(name, milestones.EPOCH.batch) for name in precisions]
        warm_twins(cells, device, options["twins"], say)
    for precision in precisions:
        for batch in batches:
            say(f"{precision}, batch {batch}")
            how = {"device": device, "rounds": options["rounds"], "say": say}
            yield run_heat(precision, batch, **how, **sides)
    for precision in precisions:
        if "roof" in measures:
            yield work.find_roof(precision, device)
        schedules = [name for name in measures if name in milestones.SCHEDULES]
        if schedules:
            yield milestones.train_sides(schedules, precision, device, say=say, **sides)
        if "cold" in measures:
            options = {"rungs": sides["rungs"], "say": say}
            yield milestones.time_cold_starts(precision, device, **options)


def _parse_whole(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise ArgumentError(f"--batches {text}: expected whole numbers, at least 1")
    return int(text)


def _row_key(row: Row) -> tuple:
    return tuple(map(row.get, KEY))


def _place(row: Row) -> tuple:
    """Return a row's sort key in the file: measurement, precision, then batch."""
    precisions = ["fp32", "tf32", "bf16", "fp16", row["precision"]]
    place = precisions.index(row["precision"])
    return MEASURES.index(row["measure"]), place, row["batch"] or 0
