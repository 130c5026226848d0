"""python -m weft mnist: train, compare with PyTorch, print a table, draw a chart."""

from __future__ import annotations

import argparse
import dataclasses
from typing import Any

from ..base import style
from ..base.errors import ArgumentError
from ..base.paths import ROOT
from ..mnist import parallel, train
from ..mnist.launcher import Launch, run_agent, write_options
from ..mnist.rungs import Config
from ..mnist.train import Result
from ..mnist.workers import is_worker
from ..timing import STATISTIC, read_json, table, write_json
from ..timing.results import describe_rows, label_row

RESULTS = ROOT / "notebooks/results"
COLUMNS = (
    *("who", "ms/step", "low", "high", "vs torch best", "vs torch eager"),
    *("epoch s", "test %", "MB"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `python -m weft mnist`."""
    parser.description += """.
        Batch norm has no running statistics: ours and PyTorch's use those of the
        batch, in training and in evaluation, which takes batches of 1000."""
    defaults = Config()
    add = parser.add_argument
    rungs = "rungs to train, e.g. numba,naive; ladder: all that run on the device "
    rungs += "(default: the fastest in fp32)"
    add("--rung", metavar="NAME,NAME", help=rungs)
    add("--device", default=defaults.device, help="cpu (default), cuda or cuda:N")
    end = " (default: %(default)s)"
    add("--epochs", type=int, default=defaults.epochs, help="epochs to train" + end)
    add("--batch", type=int, default=defaults.batch, help="images per step" + end)
    add("--lr", type=float, default=defaults.lr, help="learning rate" + end)
    seed = "seed of first weights and image orders" + end
    add("--seed", type=int, default=defaults.seed, help=seed)
    add("--threads", type=int, default=0, help="CPU threads (default: all cores)")
    add("--compare", action="store_true", help="race PyTorch: eager, compiled, ...")
    steps = dict(type=int, default=defaults.iterations, dest="iterations")
    add("--iterations", "--steps", help="steps timed per contender" + end, **steps)
    add("--limit", type=int, metavar="N", help="train only on the first N images")
    add("--load", metavar="W.npz", help="start with the weights in this file")
    add("--save", metavar="W.npz", help="write the weights, also after Ctrl-C")
    add("--plot", metavar="PATH", help="draw the comparison (.svg, .png or .pdf)")
    add("--json", metavar="PATH", help="write the rows to this file")
    _add_worker_arguments(parser)


def _add_worker_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of data-parallel training."""
    text = "each worker trains on a part of the batch; torchrun starts them"
    add = parser.add_argument_group("several workers", text).add_argument
    defaults, alone = Config(), Launch()
    end = " (default: %(default)s)"
    number = dict(type=int, metavar="N")
    add("--workers", default=alone.workers, help="on this machine" + end, **number)
    add("--nnodes", default=alone.machines, help="machines" + end, **number)
    where = "where the machines meet: an address of the first one, and a free port"
    add("--rdzv-endpoint", default="", metavar="HOST:PORT", help=where)
    restarts = "restarts after a worker has ended, from the last checkpoint" + end
    add("--max-restarts", default=0, help=restarts, **number)
    norm = "statistics of the worker's images, or of the whole batch" + end
    add("--batchnorm", choices=("local", "global"), default="local", help=norm)
    add("--checkpoint", metavar="DIR", help="write checkpoints to this folder")
    every = dict(type=int, metavar="STEPS", default=defaults.checkpoint_every)
    add("--checkpoint-every", help="steps between two checkpoints" + end, **every)
    add("--resume", action="store_true", help="continue from the last checkpoint")
    late = "seconds within which a hung worker becomes an error" + end
    add("--timeout", type=float, default=defaults.timeout, metavar="S", help=late)


def main(args: argparse.Namespace) -> int:
    """Run the training, print the table and write the requested files."""
    names = [field.name for field in dataclasses.fields(Config)]
    options = {name: value for name, value in vars(args).items() if name in names}
    config = Config(**options)
    launch = Launch(args.workers, args.nnodes, args.rdzv_endpoint, args.max_restarts)
    if is_worker() or launch.is_needed or config.checkpoint:
        if args.plot:
            raise ArgumentError("--plot: draws runs of one process without checkpoints")
        if launch.is_needed and not is_worker():
            words = write_options(config)
            words += ["--json", args.json] if args.json else []
            return run_agent(launch, config, words)
        result = parallel.run(config)
        if result is None:  # another worker reports
            return 0
    else:
        result = train.run(config)
    print(summarize_rows(result))
    if args.save:
        print(f"weights: {args.save}")
    if args.json:
        write_json(args.json, result.rows, result.cnn.device)
        print(f"rows: {args.json}")
    if args.plot:
        # Imported lazily: matplotlib is slow to import.
        from ..benchmarks.race.plot import plot_run

        ghosts = load_committed(result.rows) if args.compare else []
        style.save(plot_run(result.rows, ghosts), args.plot)
        print(f"picture: {args.plot}")
    return 0


def load_committed(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Load committed results of the Python rungs that did not run on this machine.

    These rungs need a GPU. Without one, the chart shows their times on another
    machine's GPU at the same batch size.
    """
    # Imported lazily: matplotlib is slow to import.
    from ..benchmarks.race.plot import PYTHON

    missing = {*PYTHON} - {row["rung"] for row in rows}
    selected = []
    for path in sorted(RESULTS.glob("mnist_*.json")):
        results = read_json(path)
        matching = [row for row in results["rows"] if row["rung"] in missing]
        matching = [row for row in matching if row["batch"] == rows[0]["batch"]]
        selected += [results | {"rows": matching}] * bool(matching)
    return selected


def summarize_rows(result: Result) -> str:
    """Format the rows as a table, with the method and the absent contenders."""
    lines = []
    for row in result.rows:
        accuracy, size = row["test_accuracy"], row["peak_bytes"]
        side = "PyTorch " if row["impl"] == "torch" else ""
        values = [
            side + label_row(row),
            *[f"{row[key] / 1e3:.3f}" for key in ("us", "us_low", "us_high")],
            *[row[key] and f"{row[key]:.2f}" for key in _RATIOS],
            row["epoch_s"] and f"{row['epoch_s']:.2f}",
            None if accuracy is None else f"{100 * accuracy:.2f}",
            size and f"{size / 1e6:.1f}",
        ]
        lines.append(dict(zip(COLUMNS, values)))
    first = result.rows[0]
    precisions = dict.fromkeys(row["precision"] for row in result.rows)
    threads = f", {first['threads']} threads" if first["target"] == "cpu" else ""
    notes = [
        f"{first['device']}{threads}; batch {first['batch']}, {', '.join(precisions)}; "
        f"timer {first['timer']}, {STATISTIC}.",
        "Accuracy over batches of 1000; batch norm uses each batch's statistics.",
    ]
    if first["target"] == "cpu" and "cuda" in result.cnn.rung.targets:
        notes.append("These CUDA kernels were simulated: ignore their times.")
    if first.get("workers", 1) > 1:
        notes += describe_workers(result.rows)
    if any(row["impl"] == "torch" for row in result.rows):
        notes.append(
            "vs: PyTorch's time divided by ours in the same precision; above 1, ours "
            "is faster. PyTorch's fastest eager variant was trained; the others were "
            "only timed."
        )
    notes += [f"{shared}."] if (shared := describe_rows(result.rows)) else []
    notes += [f"absent: {name}: {reason}" for name, reason in result.absent.items()]
    return "\n".join([table(lines, list(COLUMNS)), *notes])


def describe_workers(rows: list[dict[str, Any]]) -> list[str]:
    """Return sentences about the workers' speed, and the time of their sums."""
    first, notes = rows[0], []
    for row in rows:
        who = "PyTorch " * (row["impl"] == "torch") + label_row(row)
        notes.append(
            f"{who}: {row['workers']} workers are {row['speedup']:.2f} times as fast as"
            f" one with its part of the batch ({100 * row['efficiency']:.0f} %)."
        )
    sums = f"{first['backend']} adds {first['sent_bytes'] / 1e6:.2f} MB a step in "
    sums += f"{first['collective_us'] / 1e3:.2f} ms"
    if first["waited_us"] is not None:
        sums += f", of which {first['hidden_us'] / 1e3:.2f} ms pass during computation"
        sums += f"; a worker waits {first['waited_us'] / 1e3:.2f} ms"
    return [*notes, f"{sums}."]


_RATIOS = ("vs_torch_best", "vs_torch_eager")
