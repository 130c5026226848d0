"""What the rows of a race hold, measured of one contender or worked out of all."""

from __future__ import annotations

import datetime
import gc
import math
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import bench
from ...timing.samples import clock_for

if TYPE_CHECKING:
    from ...mnist.exact import Step
    from ...toolchain.native import AnyDevice

Row = dict[str, Any]
Run = Callable[[int], object]  # queues that many steps
Gradients = Callable[[np.ndarray], tuple[float, dict[str, np.ndarray]]]

SAMPLE = 0.015  # seconds of a sample, about
STEPS = (4, 512)  # in a sample: at least, at most
SLOWEST = 60.0  # seconds that a contender may be timed, in all
TIMES = 7  # the host is timed
PROFILED = 15  # steps whose sections are timed, and 3 before them


def ratios(rows: Sequence[Row]) -> None:
    """Give rows of a race vs_torch_eager and vs_torch_best, null without a peer.

    A peer is PyTorch's in the same precision at the same batch.
    """
    for row in rows:
        peers = [
            peer
            for peer in rows
            if peer["impl"] == "torch"
            and all(peer.get(key) == row.get(key) for key in ("precision", "batch"))
        ]
        eager = [peer for peer in peers if peer["rung"] == "eager"]
        for key, those in (("vs_torch_eager", eager), ("vs_torch_best", peers)):
            times = [peer["us"] for peer in those]
            ours = row["impl"] != "torch" and times
            row[key] = min(times) / row["us"] if ours else None


def label(row: Row) -> str:
    """What stands beside a row's mark: "weft reference", "eager channels-last"."""
    if row["impl"] != "torch":
        return f"weft {row['rung']}"
    layout = row.get("layout") or ""
    name = f"{row['rung']} {'NCHW' if layout == 'nchw' else layout.replace('_', '-')}"
    precision = row.get("precision", "fp32")
    return name if precision == "fp32" else f"{name}, {precision}"


def stamp() -> Row:
    """When and from which commit a row is: rows of several runs lie in one file."""
    date = datetime.date.today().isoformat()
    return {"date": date, "commit": bench.commit()}


def steps_of(run: Run, device: AnyDevice) -> int:
    """How many steps make a sample: a power of two, at about SAMPLE seconds."""
    run(2)
    us = clock_for(device).taken(lambda: run(STEPS[0])) / STEPS[0]
    if us > 1e6 * SAMPLE:
        return 1
    wanted = 2 ** int(math.log2(1e6 * SAMPLE / us))
    return min(STEPS[1], max(STEPS[0], wanted))


def host_us(run: Run, steps: int, device: AnyDevice) -> float | None:
    """The host's time to queue a step, `steps` at once; None where nothing queues."""
    if device.type == "cpu":
        return None
    times = []
    for _ in range(TIMES):
        sync(device)
        start = time.perf_counter()
        run(steps)
        times.append(1e6 * (time.perf_counter() - start) / steps)
    sync(device)
    return float(np.median(times))


def layer_times(profile: Callable[[], dict[str, float]]) -> dict[str, float]:
    """The median time of every section of a step, in microseconds."""
    steps = [profile() for _ in range(3 + PROFILED)][3:]
    return {name: float(np.median([step[name] for step in steps])) for name in steps[0]}


def errors(gradients: Gradients, exact: Iterable[tuple[np.ndarray, Step]]) -> Row:
    """The means of a contender's relative errors over some batches.

    exact: each batch's images, and its step in float64; without any, nulls.
    """
    each = [step.errors(*gradients(order)) for order, step in exact]
    if not each:
        return dict.fromkeys(("loss_error", "gradient_error", "gradient_errors"))
    mean = {
        name: float(np.mean([one["gradient_errors"][name] for one in each]))
        for name in each[0]["gradient_errors"]
    }
    return {
        "loss_error": float(np.mean([one["loss_error"] for one in each])),
        "gradient_error": float(np.max([*mean.values()])),
        "gradient_errors": mean,
    }


def free(device: AnyDevice) -> None:
    """Give memory back that nobody holds any more, PyTorch's too."""
    gc.collect()
    if device.type == "cuda":
        import torch

        torch.cuda.empty_cache()


def sync(device: AnyDevice) -> None:
    """Wait until what was queued is done, PyTorch's too."""
    if device.type == "cuda":
        import torch

        torch.cuda.synchronize(device)


def first_line(error: BaseException) -> str:
    """The first line of what it says, or its kind."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
