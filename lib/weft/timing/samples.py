"""How long a call takes, in so many samples; and when the sections of a step end.

time_call() is for one call, in_rounds() for several that take turns, by events on a
GPU and the host's clock on a CPU, without PyTorch. Where the number of samples is not
known beforehand, timers.py goes on until the median is.

When the sections of a step end: by events on a GPU, by the clock elsewhere.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ..base import device as devices
from .clocks import timer_named

if TYPE_CHECKING:
    from ..toolchain.native import AnyDevice


BAND = (20, 80)  # percentiles
STATISTIC = f"median, band {BAND[0]}th to {BAND[1]}th percentile"
REST = 10e-3  # seconds between samples on a CPU, in which others' threads fall asleep


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
    clock = clock_for(device)

    def block() -> None:
        for _ in range(calls):
            call()

    for _ in range(warmup):
        clock.taken(block)
    times = [clock.taken(block) / calls for _ in range(samples)]
    return summarize(times, clock.name)


def in_rounds(
    blocks: Mapping[str, Callable[[int], object]],
    sizes: Mapping[str, int],
    device: AnyDevice | str,
    rounds: int,
    seconds: float = math.inf,
    tick: Callable[[], object] = lambda: None,
) -> dict[str, Timing]:
    """Time several contenders in turn, so that all see the same machine.

    blocks[name](n) runs n iterations of one. In each round every contender runs
    sizes[name] of them as one sample, after a pause (on a CPU) and one iteration that
    is not timed; one that has been timed for `seconds` sits out the other rounds.
    `tick` is called after each sample.
    """
    clock = clock_for(device)
    samples: dict[str, list[float]] = {name: [] for name in blocks}
    spent = dict.fromkeys(blocks, 0.0)
    for _ in range(rounds):
        for name, run in blocks.items():
            if spent[name] < seconds:
                if clock.device.type == "cpu":
                    time.sleep(REST)
                run(1)
                size = sizes[name]
                us = clock.taken(lambda run=run, size=size: run(size))
                samples[name].append(us / size)
                spent[name] += 1e-6 * us
            tick()
    return {name: summarize(times, clock.name) for name, times in samples.items()}


def clock_for(device: AnyDevice | str) -> Any:
    """Events on a GPU, the host's clock on a CPU: clock.taken(work), microseconds."""
    where = devices.parse_device(device)
    return timer_named("event" if where.type == "cuda" else "wall", where)


SAMPLE = 0.015  # seconds of a sample, about

STEPS = (4, 512)  # in a sample: at least, at most

SLOWEST = 60.0  # seconds that a contender may be timed, in all

HOST_TIMES = 7  # the host is timed


def count_steps(run: Run, device: AnyDevice) -> int:
    """How many steps make a sample: a power of two, at about SAMPLE seconds."""
    run(2)
    us = clock_for(device).taken(lambda: run(STEPS[0])) / STEPS[0]
    if us > 1e6 * SAMPLE:
        return 1
    wanted = 2 ** int(math.log2(1e6 * SAMPLE / us))
    return min(STEPS[1], max(STEPS[0], wanted))


def time_host(run: Run, steps: int, device: AnyDevice) -> float | None:
    """The host's time to queue a step, `steps` at once; None where nothing queues."""
    if device.type == "cpu":
        return None
    times = []
    for _ in range(HOST_TIMES):
        synchronize(device)
        start = time.perf_counter()
        run(steps)
        times.append(1e6 * (time.perf_counter() - start) / steps)
    synchronize(device)
    return float(np.median(times))


def synchronize(device: AnyDevice) -> None:
    """Wait until what was queued is done, PyTorch's too."""
    if device.type == "cuda":
        import torch

        torch.cuda.synchronize(device)


Run = Callable[[int], object]  # queues that many steps


class Marks:
    """Notes when sections end, by events on a GPU and by the clock elsewhere."""

    def __init__(self, device: torch.device):
        self.device, self.names = device, []
        self.now: Callable[[], Any] = _read_clock
        if device.type == "cuda":
            torch.cuda.synchronize(device)
            # Backward runs in a thread of its own, whose current stream may differ.
            self.stream = torch.cuda.current_stream(device)
            self.now = self._event
        self.times = [self.now()]

    def note(self, name: str) -> None:
        self.names.append(name)
        self.times.append(self.now())

    def read(self) -> dict[str, float]:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
            spans = [
                a.elapsed_time(b) * 1e3 for a, b in zip(self.times, self.times[1:])
            ]
        else:
            spans = [b - a for a, b in zip(self.times, self.times[1:])]
        return dict(zip(self.names, spans))

    def _event(self) -> torch.cuda.Event:
        event = torch.cuda.Event(enable_timing=True)
        event.record(self.stream)
        return event


def _read_clock() -> float:
    return time.perf_counter_ns() / 1e3
