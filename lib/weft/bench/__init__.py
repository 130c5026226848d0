"""Timing, and the one JSON in which every measurement of the lab is written.

    {"machine": {device, cpu, cores, driver, toolkit, torch, date, commit},
     "rows": [{op, impl, rung, precision, target, device, timer, us, us_low,
               us_high, us_mean, ...}]}

us is the median over samples, us_low and us_high the 20th and 80th percentile.
vs_<peer> is the peer's time over ours in the same run: above 1 we are faster.
What cannot be measured is null.

The module itself can be called, bench(f, x): see timers.py.

timers, clocks         how long a call takes, and by which clock
gpu_state              the GPU's own clock, temperature, power
checked                nothing is timed that has not passed its check
peaks, cublas          what a product is measured against
ops                    an op's rungs beside PyTorch's
matmul/, tensor/, graphs/, mnist, transpose, torch_kernels  what a GPU reaches
bodies, launch, edit   one body by every runner; a launch; from an edit to its result
sim, simt, check, counters  what running kernels on a CPU costs; is the count right
plot_bodies, plot_transpose  charts
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import json
import math
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from .. import device as devices
from .. import native
from ..build import ROOT
from ..lazy import callable_as

if TYPE_CHECKING:
    from ..native import AnyDevice

callable_as(__name__, "bench.timers")

BAND = (20, 80)  # percentiles
STATISTIC = f"median, band {BAND[0]}th to {BAND[1]}th percentile"

# What `python -m weft bench WHAT` knows besides the ops (ops.py): a module
# with rows() -> list of rows, or rows_of(arguments); SHOWN, the columns to print, and
# note(rows), what stands under them, status(rows), the exit status, merged(path, rows),
# the rows to write where that file may have some already, if it has these.
BENCHMARKS = {
    "bodies": "weft.bench.bodies",
    "simt": "weft.bench.simt",
    "sim": "weft.bench.sim",
    "check": "weft.bench.check",
    "edit": "weft.bench.edit",
    "launch": "weft.bench.launch",
    "matmul": "weft.bench.matmul.command",
    "mnist": "weft.bench.mnist",
    "torch-kernels": "weft.bench.torch_kernels",
    "transpose": "weft.bench.transpose",
    "counters": "weft.bench.counters",
    "graphs": "weft.bench.graphs.command",
    "tensor": "weft.bench.tensor.command",
}

OPTIONS = (
    "mnist",
    "matmul",
)  # those of them with options of their own: TITLE, add_arguments()


@dataclass(frozen=True)
class Timing:
    """How long one call takes, in microseconds, and how that was found out."""

    median: float
    low: float
    high: float
    mean: float
    timer: str
    samples: int

    def row(self) -> dict[str, Any]:
        """The keys of a row of results."""
        return {
            **{"timer": self.timer, "us": self.median},
            **{"us_low": self.low, "us_high": self.high, "us_mean": self.mean},
        }


class Timer(Protocol):
    """A clock with a name: how long `call` takes, in microseconds."""

    name: str

    def measure(self, call: Callable[[], object]) -> float: ...


class CpuTimer:
    """The host's clock. It ends when the call returns: not for queued work."""

    name = "perf_counter_ns"

    def measure(self, call: Callable[[], object]) -> float:
        start = time.perf_counter_ns()
        call()
        return (time.perf_counter_ns() - start) / 1e3


class CudaTimer:
    """CUDA events on the current stream, around what `call` queues there."""

    name = "CUDA events"

    def __init__(self, device: AnyDevice):
        self.device = device

    def measure(self, call: Callable[[], object]) -> float:
        with native.on_device(self.device):
            stream = devices.stream(self.device.index)
            start, end = devices.Event(), devices.Event()
            start.record(stream)
            call()
            end.record(stream)
            end.synchronize()
        return start.until(end) * 1e3


def timer_for(device: AnyDevice | str) -> Timer:
    """The timer that fits what runs on `device`."""
    device = devices.named(device)
    return CudaTimer(device) if device.type == "cuda" else CpuTimer()


def summarize(samples: Iterable[float], timer: str) -> Timing:
    """The Timing of samples in microseconds; ValueError if there are none."""
    values = np.asarray(list(samples), dtype=float)
    if not values.size:
        raise ValueError("no samples to summarize")
    low, high = np.percentile(values, BAND)
    return Timing(
        *map(float, (np.median(values), low, high, values.mean())),
        timer,
        values.size,
    )


def time_call(
    call: Callable[[], object],
    device: AnyDevice | str = "cpu",
    samples: int = 30,
    calls: int = 1,
    warmup: int = 3,
) -> Timing:
    """Time `call`: `samples` times the mean of `calls` calls in a row."""
    if samples < 1 or calls < 1 or warmup < 0:
        raise ValueError(f"samples={samples}, calls={calls}, warmup={warmup}")
    timer = timer_for(device)

    def block() -> None:
        for _ in range(calls):
            call()

    for _ in range(warmup):
        timer.measure(block)
    times = [timer.measure(block) / calls for _ in range(samples)]
    return summarize(times, timer.name)


def interleave(
    blocks: dict[str, Callable[[int], object]],
    device: AnyDevice | str,
    iterations: int = 100,
    block: int = 5,
    tick: Callable[[], object] = lambda: None,
) -> dict[str, Timing]:
    """Time several contenders side by side, so that all see the same machine.

    blocks[name](n) runs n iterations of one contender. In each round every
    contender runs `block` iterations as one sample, after a pause (on a CPU, in which
    the others' threads fall asleep) and one iteration that is not timed. The mean is
    then that of `iterations` iterations (rounded up to whole blocks). `tick` is
    called after each sample.
    """
    if iterations < 1 or block < 1:
        raise ValueError(f"iterations={iterations}, block={block}: want at least 1")
    rounds = -(-iterations // block)
    return in_rounds(blocks, dict.fromkeys(blocks, block), device, rounds, tick=tick)


def in_rounds(
    blocks: Mapping[str, Callable[[int], object]],
    sizes: Mapping[str, int],
    device: AnyDevice | str,
    rounds: int,
    seconds: float = math.inf,
    tick: Callable[[], object] = lambda: None,
) -> dict[str, Timing]:
    """interleave() with sizes[name] iterations a sample, in that many rounds.

    A contender that has been timed for that many seconds sits out the other rounds.
    """
    timer = timer_for(device)
    samples: dict[str, list[float]] = {name: [] for name in blocks}
    spent = dict.fromkeys(blocks, 0.0)
    for _ in range(rounds):
        for name, run in blocks.items():
            if spent[name] < seconds:
                if isinstance(timer, CpuTimer):
                    time.sleep(0.01)
                run(1)
                size = sizes[name]
                us = timer.measure(lambda run=run, size=size: run(size))
                samples[name].append(us / size)
                spent[name] += 1e-6 * us
            tick()
    return {name: summarize(times, timer.name) for name, times in samples.items()}


# ---- what was measured where -------------------------------------------------


def device_name(device: AnyDevice | str = "cpu") -> str:
    """The full name of the GPU, or of the CPU."""
    from ..doctor import cpu_name

    device = devices.named(device)
    return devices.name(device.index) if device.type == "cuda" else cpu_name()


def machine(device: AnyDevice | str = "cpu") -> dict[str, Any]:
    """The machine, as every JSON file has it; what is not there is null."""
    import torch

    from .. import doctor

    return {
        "device": device_name(device),
        "cpu": doctor.cpu_name(),
        "cores": doctor.cores(),
        "driver": _known(doctor.driver()),
        "toolkit": _known(doctor.toolkit()),
        "torch": torch.__version__,
        "date": datetime.date.today().isoformat(),
        "commit": commit(),
    }


def commit() -> str | None:
    """The checkout's commit, "+" behind it if files differ; None outside git.

    WEFT_COMMIT names it where a copy without git is measured.
    """
    if named := os.environ.get("WEFT_COMMIT"):
        return named
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--exclude=*", "--dirty=+"],
            **{"cwd": ROOT, "text": True, "capture_output": True},
        )
    except OSError:
        return None
    return done.stdout.strip() or None


def write_json(
    path: str | Path,
    rows: list[dict[str, Any]],
    device: AnyDevice | str = "cpu",
    **more: Any,
) -> None:
    """Write machine, rows and `more` to `path`: whole, or not at all."""
    path = Path(path)
    text = json.dumps(
        {"machine": machine(device), "rows": rows, **more}, default=_plain
    )
    handle, beside = tempfile.mkstemp(dir=path.parent, suffix=".json")
    with os.fdopen(handle, "w") as file:
        file.write(_one_row_per_line(json.loads(text)))
    os.chmod(beside, 0o644)
    os.replace(beside, path)


def read_json(path: str | Path) -> dict[str, Any]:
    """What write_json() wrote; ValueError naming the file if it is not that."""
    try:
        results = json.loads(Path(path).read_text())
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} holds no results: {error}") from None
    if not isinstance(results, dict) or not {"machine", "rows"} <= results.keys():
        raise ValueError(f"{path} holds no results: 'machine' and 'rows' are missing")
    return results


def table(rows: list[dict[str, Any]], columns: list[str]) -> str:
    """The rows' columns as aligned text; a missing value is a dash."""
    cells = [[_cell(row.get(column)) for column in columns] for row in rows]
    widths = [max(map(len, column)) for column in zip(columns, *cells)]
    words = [all(isinstance(r.get(c), str | None) for r in rows) for c in columns]
    lines = []
    for line in [columns, *cells]:
        # Words are read from the left, numbers compared from the right.
        aligned = [
            cell.ljust(width) if word else cell.rjust(width)
            for cell, width, word in zip(line, widths, words)
        ]
        lines.append("  ".join(aligned).rstrip())
    return "\n".join(lines)


# ---- python -m weft bench ----------------------------------------------------


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line of `python -m weft bench`."""
    from .ops import PROBLEMS

    parser.add_argument("what", choices=[*BENCHMARKS, *PROBLEMS])
    parser.add_argument("--device", default="cpu", help="of an op: cpu, cuda, cuda:N")
    sizes = "of an op: 256,512; of matmul 5120x256x5120 (m x k x n), 64of256 too"
    parser.add_argument("--sizes", metavar="N,N", default="", help=sizes)
    parser.add_argument("--rungs", metavar="NAME,NAME", default="", help="of an op")
    parser.add_argument("--json", metavar="PATH", help="write the rows there")
    for module in (importlib.import_module(BENCHMARKS[name]) for name in OPTIONS):
        module.add_arguments(parser.add_argument_group(module.TITLE))


def main(args: argparse.Namespace) -> int:
    """Run a benchmark, print its rows and write them."""
    from . import ops as bench_ops

    _check_device(args.device)
    if args.what in BENCHMARKS:
        module = importlib.import_module(BENCHMARKS[args.what])
        rows = module.rows_of(args) if hasattr(module, "rows_of") else module.rows()
        every = list(dict.fromkeys(key for row in rows for key in row))
        shown = getattr(module, "SHOWN", every)
    else:
        sizes = [int(size) for size in args.sizes.split(",") if size]
        rungs = [name for name in args.rungs.split(",") if name]
        rows = bench_ops.rows(args.what, args.device, sizes, rungs)
        named = [key for key in bench_ops.SIZES if key in rows[0]]
        shown = ["impl", "rung", *named, "us", "us_low", "us_high"]
        shown += ["gbs", "tflops", "error", "vs_torch"]
    print(table(rows, shown))
    if args.what in BENCHMARKS:
        if hasattr(module, "note"):
            print(f"{module.note(rows)}\n{STATISTIC}")
    else:
        print(f"{rows[0]['device']}; fp32; timer {rows[0]['timer']}, {STATISTIC}")
    if args.json:
        if args.what in BENCHMARKS and hasattr(module, "merged"):
            rows = module.merged(args.json, rows)
        on_gpu = any(row["target"] == "cuda" and row["device"] for row in rows)
        write_json(args.json, rows, "cuda" if on_gpu else args.device)
    if args.what in BENCHMARKS and hasattr(module, "status"):
        return module.status(rows)
    return 0


def _check_device(text: str) -> None:
    wanted, there = devices.named(text), devices.count()
    if wanted.type == "cuda" and wanted.index >= there:
        raise ValueError(f"--device {text}: CUDA GPUs here: {there}")


def _known(text: str) -> str | None:
    return None if text == "none" else text


def _plain(value: Any) -> Any:
    """NumPy's numbers and arrays, as json knows them."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is not for JSON")


def _one_row_per_line(results: dict[str, Any]) -> str:
    """JSON that a diff can read: one line per row, short numbers."""
    results = _rounded(results)
    parts = []
    for key, value in results.items():
        if key == "rows":
            rows = ",\n  ".join(json.dumps(row) for row in value)
            parts.append(f'"rows": [\n  {rows}\n ]')
        else:
            parts.append(f"{json.dumps(key)}: {json.dumps(value)}")
    return "{" + ",\n ".join(parts) + "}\n"


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        # JSON knows neither NaN nor infinity.
        return float(f"{value:.6g}") if np.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _rounded(inner) for key, inner in value.items()}
    return [_rounded(inner) for inner in value] if isinstance(value, list) else value


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1e4 else f"{value:.0f}"
    return str(value)
