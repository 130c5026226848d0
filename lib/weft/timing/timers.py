"""Timers with names, side by side: how long a call takes, and how sure that is.

How long a call takes, in so many samples.

time_call() is for one call, in_rounds() for several that take turns, by events on a
GPU and the host's clock on a CPU, without PyTorch. Where the number of samples is not
known beforehand, timers.py goes on until the median is.

kernel  the kernels' own durations, as CUPTI has them, through torch.profiler
    graph   a CUDA graph of many calls, between two events: what a busy GPU needs
    event   many calls between two events; of short ones the host's launches are timed
    wall    the host's clock, until the work is done

    bench(torch.mm, a, b)             one call
    side_by_side({"a": ..., ...})     several in turn, so that all see the same machine

Warm: the same inputs again and again. Cold: inputs that are in no cache, either
"rotated", since copies of them take turns that together are larger than the cache, or
"flushed" before each call, where so many copies would be too many. A burst of calls is
one sample (with `kernel` each call is). Measuring ends once the median is known well
enough, or when the time is up: `stopped` says which.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base import device as devices
from ..base.errors import ArgumentError
from ..base.text import round_number
from .clocks import BURST, Contender, WallTimer, Watch, burst_of, timer_named
from .results import device_name

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


PAUSE = 60e-3  # seconds between samples when tensor cores are to stay cool
LEAST = 8  # samples before a spread is believed
SPREAD = 0.005  # the median is known to half a percent
# Of the inputs; a graph of a burst has a call of each. At 2048 those of 60 kB and more
# take turns in an L2 of 60 MiB, for smaller ones it is flushed.
MOST_COPIES = 2048


@dataclass
class Timed:
    """A Timing, and what else must be said of it.

    cache: "warm", "cold, rotated" or "cold, flushed"; checked: whether the call had
    passed a check before it was timed; spread: the width of the median's 95 % interval
    over the median; stopped: "spread", "time" or "samples"; pause: seconds between
    bursts; fastest: of all samples, in microseconds.
    """

    timing: Timing
    device: str
    cache: str
    checked: bool
    spread: float
    stopped: str
    calls: int
    pause: float
    fastest: float
    state: dict[str, Any] = field(default_factory=dict)

    @property
    def us(self) -> float:
        """The median in microseconds."""
        return self.timing.median

    def row(self) -> dict[str, Any]:
        """The keys of a row of results."""
        return {
            **self.timing.row(),
            **{"cache": self.cache, "checked": self.checked},
            "samples": self.timing.samples,
            **{"calls": self.calls, "pause_ms": 1e3 * self.pause},
            "spread": self.spread if self.spread < math.inf else None,
            **{"stopped": self.stopped, **self.state},
        }

    def __repr__(self) -> str:
        t, said = self.timing, f"{self.cache}, median of {self.timing.samples}"
        said += "" if self.checked else ", unchecked"
        text = (
            f"{round_number(t.median)} µs ({round_number(t.low)} to "
            f"{round_number(t.high)}; "
        )
        text += f"{t.timer}, {said}"
        clocks = self.state.get("clock")
        text += f", {clocks[0]} to {clocks[1]} MHz" if clocks else ""
        if why := self.state.get("throttled"):
            text += f", throttled: {why}"
        if self.stopped != "spread":
            known = f"{100 * self.spread:.2g} %" if self.spread < math.inf else "?"
            text += f"; stopped by {self.stopped}, the median is known to {known}"
        return f"{text}) on {self.device}"


def bench(
    call: Callable[..., object],
    *args: Any,
    timer: str = "",
    cold: bool = False,
    device: AnyDevice | str | None = None,
    check: Callable[[], object] | None = None,
    seconds: float = 1.0,
    spread: float = SPREAD,
    cool: bool = False,
) -> Timed:
    """How long call(*args) takes.

    timer: of TIMERS; by default "kernel" on a GPU and "wall" on a CPU. device: where
    the work is done, by default where the arrays among args lie. check: called first;
    if it raises or returns False nothing is timed; without one the result is said to be
    unchecked. cold: arrays among args take turns with copies of themselves; without
    any, or where it would take too many copies, the cache is flushed before each call.
    seconds: at most, about. cool: bursts of 2 ms with pauses of 60 ms; calls that take
    longer than a burst get pauses in proportion.
    Raises ArgumentError for what makes no sense.
    """
    if not callable(call):
        raise ArgumentError(f"bench({call!r:.40}): want a function to call")
    if check is not None and (not callable(check) or check() is False):
        raise ArgumentError("bench: not timed, since it has not passed its check")
    where = devices.parse_device(_device_of(args) if device is None else device)
    one = make_contender(call, args, where, cold)
    one.checked = check is not None
    found = side_by_side(
        {"it": one}, where, timer, seconds=seconds, spread=spread, cool=cool
    )
    return found["it"]


def make_contender(
    call: Callable[..., object], args: Sequence[Any], device: AnyDevice, cold: bool
) -> Contender:
    """call(*args) as a contender; cold, its arrays are copied as often as needed."""
    arrays = [a for a in args if hasattr(a, "nbytes")]
    size = sum(a.nbytes for a in arrays)
    if not cold:
        return Contender(lambda i: call(*args))
    copies = copies_for(size, device)
    if copies == 1:
        return Contender(lambda i: call(*args), flush=make_flusher(device))
    sets = [args, *(tuple(map(_copy, args)) for _ in range(copies - 1))]
    return Contender(lambda i: call(*sets[i % copies]), copies)


def copies_for(size: int, device: AnyDevice) -> int:
    """How many inputs of `size` bytes in turn are never found in a cache.

    1 where that would be more than MOST_COPIES: the cache is to be flushed then.
    """
    wanted = 1 + math.ceil(2 * cache_size(device) / max(size, 1))
    return wanted if wanted <= MOST_COPIES else 1


def side_by_side(
    contenders: Mapping[str, Contender],
    device: AnyDevice | str,
    timer: str = "",
    *,
    seconds: float = 1.0,
    samples: int = 200,
    spread: float = SPREAD,
    cool: bool = False,
) -> dict[str, Timed]:
    """Time several contenders in turn, each for about `seconds` at most.

    samples: bursts of each at most. Raises ArgumentError for a timer that is not there.
    """
    where = devices.parse_device(device)
    clock = timer_named(timer, where)
    spins = max((one.spins for one in contenders.values()), default=0.0)
    pause = max(REST, spins) if where.type == "cpu" else 0.0
    for one in contenders.values():
        _set_calls(one, where)
    pauses = {
        name: _cooling_pause(one) if cool else pause for name, one in contenders.items()
    }
    watches = {name: Watch(where) for name in contenders}
    found: dict[str, list[float]] = {name: [] for name in contenders}
    start = time.monotonic()
    for rounds in itertools.count(1):
        taken = clock.round(contenders, watches, pauses)
        for name, us in taken.items():
            found[name] += us
        spreads = {name: spread_of(us) for name, us in found.items()}
        stopped = _explain_stop(
            *(spreads, spread, rounds, samples),
            time.monotonic() - start >= seconds * len(contenders),
        )
        if stopped:
            break
    shown = device_name(where)
    return {
        name: Timed(
            summarize(us, clock.name),
            *(shown, contenders[name].cache, contenders[name].checked, spreads[name]),
            "spread" if spreads[name] <= spread else stopped,
            *(contenders[name].calls, pauses[name], min(us), watches[name].row()),
        )
        for name, us in found.items()
    }


def spread_of(samples: Sequence[float]) -> float:
    """Width of the 95 % confidence interval of the median, over the median.

    By order statistics (binomial, its normal approximation): no distribution is
    assumed. Infinite for fewer than LEAST samples.
    """
    n = len(samples)
    if n < LEAST:
        return math.inf
    ordered = np.sort(np.asarray(samples))
    half = 0.98 * math.sqrt(n)  # 1.96 / 2
    low = max(0, math.floor(n / 2 - half))
    high = min(n - 1, math.ceil(n / 2 + half))
    return float((ordered[high] - ordered[low]) / np.median(ordered))


def cache_size(device: AnyDevice) -> int:
    """Bytes of the largest cache: a GPU's L2, a CPU's last level."""
    if device.type == "cuda":
        import torch

        return torch.cuda.get_device_properties(device).L2_cache_size
    from pathlib import Path

    sizes = Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")
    found = [int(path.read_text().strip().rstrip("K")) for path in sizes]
    return 1024 * max(found, default=32 << 10)


def make_flusher(device: AnyDevice) -> Callable[[], object]:
    """A function after which nothing of before is in the cache."""
    import torch

    words = 2 * cache_size(device) // 8
    room = torch.zeros(words, dtype=torch.int64, device=device)
    return room.bitwise_not_


# ---- details ---------------------------------------------------------------------


def _set_calls(one: Contender, device: AnyDevice) -> None:
    """Warm up, and decide how many calls make a burst."""
    if one.calls:
        return
    timer, plain = WallTimer(device), Contender(one.run, one.copies)
    plain.turn()
    one.calls = 1
    for _ in range(3):  # until the burst is long enough for a clock
        us = timer.span(plain, one.calls, Watch(device)) / one.calls
        one.calls = burst_of(us)
        one.burst = 1e-6 * us * one.calls
        if one.calls == 1:
            return


def _cooling_pause(one: Contender) -> float:
    """Seconds of pause before its burst: where a call takes longer than a burst
    should, the pause is longer as well, so that as little of the time is work."""
    return PAUSE * max(1.0, one.burst / BURST)


def _explain_stop(
    spreads: Mapping[str, float], wanted: float, rounds: int, most: int, late: bool
) -> str:
    """Why to stop now, or ""."""
    if all(value <= wanted for value in spreads.values()):
        return "spread"
    if late:
        return "time"
    return "samples" if rounds >= most else ""


def _device_of(args: Sequence[Any]) -> str:
    """Where the arrays among the arguments lie; without any, where torch works."""
    places = [str(a.device) for a in args if hasattr(a, "data_ptr")]
    if any(hasattr(a, "__cuda_array_interface__") for a in args) and not places:
        return "cuda"
    for place in places:
        if place.startswith("cuda"):
            return place
    arrays = places or [a for a in args if hasattr(a, "nbytes")]
    return "cuda" if not arrays and devices.torchs_cuda() else "cpu"


def _copy(value: Any) -> Any:
    if hasattr(value, "data_ptr"):
        return value.clone()
    return value.copy() if hasattr(value, "nbytes") else value
