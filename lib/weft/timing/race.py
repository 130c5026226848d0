"""Describe work to time, and time it in a race of several contenders.

    results = race({"ours": Contender(run), "theirs": Contender(call=f)}, "cuda")
    results["ours"].us                  the median, in microseconds

Contenders take turns, sample by sample, so that all run under the same conditions. A
pause (on a CPU, or with `cool`) and one untimed call precede each sample, unless the
contender's `lead` is false. race() takes samples until all medians are precise enough,
the time is up, or the maximum number of samples is reached; `stopped` records the
reason. With `rounds`, it takes exactly that many samples and does not need PyTorch: it
times them with events on a GPU, and with the host's clock on a CPU.

Warm: each call uses the same inputs. Cold: the inputs are in no cache. Copies of the
inputs that together exceed the cache take turns ("rotated"). If that needs too many
copies, the cache is "flushed" before each call instead. A sample is a burst of calls;
with timer `kernel`, it is one call.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base import device as devices
from ..base.text import round_number
from .clocks import BURST, WallTimer, Watch, burst_of, clock_for, timer_named
from .results import CoreWait, Row, Timing, describe_wait, device_name, summarize

if TYPE_CHECKING:
    from ..toolchain.native import AnyDevice


REST = 10e-3  # seconds between samples on a CPU, during which other threads fall asleep
PAUSE = 60e-3  # seconds between samples that keep tensor cores cool
LEAST = 8  # minimum number of samples for a spread
SPREAD = 0.005  # the median's uncertainty at which a race ends: half a percent


@dataclass(eq=False)
class Contender:
    """Work to time, and the keys that identify it in a row of results.

    One of three functions does the work. run(i) does it once, on the i-th copy of its
    inputs. call() does it once, always on the same inputs. block(n) does it n times.
    """

    run: Callable[[int], object] | None = None
    copies: int = 1  # copies of its inputs; more than one only for cold runs
    flush: Callable[[], object] | None = None  # a function that empties the cache
    calls: int = 0  # calls in a sample; 0: as many as fill a burst
    burst: float = 0.0  # approximate seconds of a burst
    # Number of calls of run() so far; each burst continues with the next copy.
    done: int = 0
    checked: bool = False  # whether its result has passed a check
    spins: float = 0.0  # seconds for which its threads keep cores busy afterwards
    call: Callable[[], Any] | None = None
    block: Callable[[int], object] | None = None
    # The first keys of the contender's row: impl, rung, ...
    row: Row = field(default_factory=dict)
    facts: Row = field(default_factory=dict)  # keys that follow the measurement's keys
    before: Callable[[], object] | None = None  # called before a sample is timed
    after: Callable[[], object] | None = None  # called after a sample is timed
    lead: bool = True  # whether a pause and an untimed call precede each sample
    limit: float = math.inf  # seconds of timing after which it is no longer timed
    most: float = math.inf  # number of samples after which it is no longer timed
    out: Any = None  # the array that it writes, if a benchmark checks it
    want: Any = None  # the expected contents of that array
    bytes: int = 0  # bytes that it must move

    @property
    def name(self) -> str:
        """The contender's name in messages, such as "weft tiled fp32 nn"."""
        keys = ("impl", "rung", "precision", "layout")
        return " ".join(self.row[key] for key in keys if key in self.row)

    @property
    def cache(self) -> str:
        """The state of the caches before a call: "warm", or "cold" with the method."""
        if self.flush:
            return "cold, flushed"
        return "cold, rotated" if self.copies > 1 else "warm"

    def run_once(self) -> None:
        """Do the work once, on the next copy."""
        if self.run:
            self.run(self.done)
            self.done += 1
        else:
            self.repeat(1)

    def repeat(self, calls: int) -> None:
        """Do the work `calls` times."""
        if self.block:
            self.block(calls)
        elif call := self.call:
            for _ in range(calls):
                call()
        else:
            for _ in range(calls):
                self.run_once()


@dataclass
class Timed:
    """A Timing and the conditions of its measurement.

    cache: "warm", "cold, rotated" or "cold, flushed". checked: whether the call passed
    a check before timing. spread: the width of the median's 95 % confidence interval,
    divided by the median. stopped: "spread", "time" or "samples". pause: seconds
    between bursts. samples_us: every sample, in microseconds.
    """

    timing: Timing
    device: str
    cache: str
    checked: bool
    spread: float
    stopped: str
    calls: int
    pause: float
    samples_us: Sequence[float]
    state: dict[str, Any] = field(default_factory=dict)

    @property
    def us(self) -> float:
        """The median in microseconds."""
        return self.timing.median

    @property
    def fastest(self) -> float:
        """The fastest sample, in microseconds."""
        return min(self.samples_us)

    def row(self) -> dict[str, Any]:
        """Return the keys of a row of results."""
        return {
            **self.timing.row(),
            **{"cache": self.cache, "checked": self.checked},
            "samples": self.timing.samples,
            **{"calls": self.calls, "pause_ms": 1e3 * self.pause},
            "spread": self.spread if self.spread < math.inf else None,
            **{"stopped": self.stopped, **self.state},
        }

    def __repr__(self) -> str:
        timing = self.timing
        times = (timing.median, timing.low, timing.high)
        median, low, high = map(round_number, times)
        text = f"{median} µs ({low} to {high}; {timing.timer}, {self.cache}, "
        text += f"median of {timing.samples}"
        text += "" if self.checked else ", unchecked"
        clocks = self.state.get("clock")
        text += f", {clocks[0]} to {clocks[1]} MHz" if clocks else ""
        if reason := self.state.get("throttled"):
            text += f", throttled: {reason}"
        if self.stopped != "spread":
            interval = f"{100 * self.spread:.2g} %" if self.spread < math.inf else "?"
            text += f"; stopped by {self.stopped}; the median is known to {interval}"
        if note := describe_wait(timing.waited):
            text += f"; {note}"
        return f"{text}) on {self.device}"


def race(
    contenders: Mapping[str, Contender],
    device: AnyDevice | str,
    timer: str | WallTimer = "",
    *,
    rounds: int = 0,
    discard: int = 0,
    seconds: float = 1.0,
    samples: int = 200,
    spread: float = SPREAD,
    cool: bool = False,
    tick: Callable[[], object] = lambda: None,
) -> dict[str, Timed]:
    """Time the contenders in turn; return each result by name.

    timer: one of TIMERS, or a clock; "" selects the device's default. seconds: the
    approximate time limit per contender. samples: the maximum number of bursts per
    contender. spread: the spread of all medians at which the race ends; see Timed.
    cool: whether to use short bursts with long pauses. rounds: the exact number of
    samples, instead of these limits; the GPU's clock, temperature and power are then
    not read. discard: the number of rounds before the first one that counts. tick:
    called after each sample, and for each sample that is skipped because a contender
    has reached its limit. Raises ArgumentError for an unknown timer.
    """
    place = devices.parse_device(device)
    clock: Any = timer
    if isinstance(timer, str):
        clock = clock_for(place) if rounds and not timer else timer_named(timer, place)
    for one in contenders.values():
        _set_calls(one, place)
    pauses = _find_pauses(contenders, place, cool)
    watches = {name: None if rounds else Watch(place) for name in contenders}
    times: dict[str, list[float]] = {name: [] for name in contenders}
    wait = CoreWait(place, pauses=any(pauses.values()))
    start, stopped = time.monotonic(), "samples"
    for number in range(-discard, rounds or samples):
        active = {n: c for n, c in contenders.items() if not _sits_out(c, times[n])}
        new_samples = clock.round(active, watches, pauses, tick)
        for _ in range(len(contenders) - len(active)):
            tick()
        if number < 0:
            continue
        for name, us in new_samples.items():
            times[name] += us
        is_late = time.monotonic() - start >= seconds * len(contenders)
        is_exact = all(spread_of(us) <= spread for us in times.values())
        if not rounds and (is_late or is_exact):
            stopped = "spread" if is_exact else "time"
            break
    model, waited = device_name(place), wait.share()
    return {
        name: Timed(
            summarize(us, clock.name, waited),
            *(model, contenders[name].cache, contenders[name].checked, spread_of(us)),
            "spread" if spread_of(us) <= spread else stopped,
            *(contenders[name].calls, pauses[name], us),
            watch.row() if (watch := watches[name]) else {},
        )
        for name, us in times.items()
    }


def spread_of(samples: Sequence[float]) -> float:
    """Return the width of the median's 95 % confidence interval, divided by the median.

    It uses order statistics (normal approximation of the binomial), so it assumes no
    distribution. It is infinite for fewer than LEAST samples.
    """
    count = len(samples)
    if count < LEAST:
        return math.inf
    ordered = np.sort(np.asarray(samples))
    half = 0.98 * math.sqrt(count)  # 1.96 standard deviations of sqrt(count) / 2
    low = max(0, math.floor(count / 2 - half))
    high = min(count - 1, math.ceil(count / 2 + half))
    return float((ordered[high] - ordered[low]) / np.median(ordered))


def _set_calls(one: Contender, device: AnyDevice) -> None:
    """Warm up, and choose the number of calls in a burst."""
    if one.calls:
        return
    timer = WallTimer(device)
    plain = Contender(one.run, one.copies, call=one.call, block=one.block)
    plain.run_once()
    one.calls = 1
    # Each burst is longer than the last, so its time is more precise.
    for _ in range(3):
        us = timer.span(plain, one.calls, Watch(device)) / one.calls
        one.calls = burst_of(us)
        one.burst = 1e-6 * us * one.calls
        if one.calls == 1:
            return


def _find_pauses(
    contenders: Mapping[str, Contender], device: AnyDevice, cool: bool
) -> dict[str, float]:
    """Return the pause before a sample of each contender, in seconds.

    If a call is longer than a burst, its cooling pause grows in proportion.
    """
    if cool:
        bursts = {name: one.burst / BURST for name, one in contenders.items()}
        return {name: PAUSE * max(1.0, length) for name, length in bursts.items()}
    spins = max((one.spins for one in contenders.values()), default=0.0)
    return dict.fromkeys(contenders, max(REST, spins) if device.type == "cpu" else 0.0)


def _sits_out(one: Contender, samples: Sequence[float]) -> bool:
    """Return whether the contender has reached its limit of samples or seconds."""
    return len(samples) >= one.most or 1e-6 * one.calls * sum(samples) >= one.limit
