"""The time of one call, and its uncertainty.

time_call() takes a fixed number of samples, with events on a GPU and with the host's
clock on a CPU, without PyTorch. time_graph() does the same for a graph of many calls.
bench() takes samples until the median is precise enough; see race.py, which times
several contenders in turn.

    bench(torch.mm, a, b)

    kernel  the durations of the kernels, which torch.profiler reads from CUPTI
    graph   a CUDA graph of many calls between two events: the time on a busy GPU
    event   many calls between two events; for short calls, the time of their launches
    wall    the host's clock until the work is done
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base import device as devices
from ..base.errors import ArgumentError
from .clocks import HostTimer, Watch, clock_for
from .race import SPREAD, Contender, Timed, race
from .results import CoreWait, Timing, summarize

if TYPE_CHECKING:
    from ..toolchain.native import AnyDevice


def time_call(
    call: Callable[[], object],
    device: AnyDevice | str = "cpu",
    samples: int = 30,
    calls: int = 1,
    warmup: int = 3,
) -> Timing:
    """Time `call` in `samples` samples, each the mean of `calls` consecutive calls."""
    if samples < 1 or calls < 1 or warmup < 0:
        raise ValueError(f"samples={samples}, calls={calls}, warmup={warmup}")
    clock = clock_for(device)

    def block() -> None:
        for _ in range(calls):
            call()

    for _ in range(warmup):
        clock.taken(block)
    wait = CoreWait(clock.device)
    times = [clock.taken(block) / calls for _ in range(samples)]
    return summarize(times, clock.name, wait.share())


def time_graph(
    call: Callable[[], object], device: Any, samples: int = 30, launches: int = 10
) -> Timing:
    """Time one call in a CUDA graph of `launches` calls, without the host's launches.

    `call` must have run before, so that nothing is compiled during the capture.
    """
    import torch

    torch.cuda.synchronize(device)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(launches):
            call()
    timing = time_call(graph.replay, device, samples)
    timer = f"{timing.timer}, graph of {launches}"
    return replace(timing.scaled(1 / launches), timer=timer)


SPANS = 10  # timed parts of a sustained load


def time_sustained(
    one: Contender, us: float, device: AnyDevice, seconds: float
) -> dict[str, Any]:
    """Time a contender under a load without pauses, as in long computations.

    A load of `seconds` comes first, because clock and temperature change during it.
    An equal load is then timed. us: the approximate microseconds of a call. Returns a
    row's keys: sustained_s, sustained_us (per call, the median of SPANS parts), and the
    GPU's sustained_clock (MHz, median), sustained_power (W, highest) and
    sustained_throttled; null if unknown.
    """
    clock, watch = clock_for(device), Watch(device)
    calls = max(1, math.ceil(1e6 * seconds / SPANS / us))
    for _ in range(SPANS):
        clock.taken(lambda: one.repeat(calls))
    times = [clock.taken(lambda: one.repeat(calls), watch) for _ in range(SPANS)]
    state = watch.row()
    names = {"clock": "clock_median", "power": "power", "throttled": "throttled"}
    return {
        **{"sustained_s": seconds, "sustained_us": float(np.median(times)) / calls},
        **{f"sustained_{name}": state[key] for name, key in names.items()},
    }


SAMPLE = 0.015  # approximate seconds of a sample
STEPS = (4, 512)  # minimum and maximum number of steps in a sample
SLOWEST = 60.0  # maximum seconds of timing per contender
HOST_TIMES = 7  # samples of the host's time


def count_steps(run: Run, device: AnyDevice) -> int:
    """Return a power of two: the number of steps in a sample of about SAMPLE seconds.

    The number is within STEPS, or 1 if a single step takes longer than SAMPLE.
    """
    run(2)
    us = clock_for(device).taken(lambda: run(STEPS[0])) / STEPS[0]
    if us > 1e6 * SAMPLE:
        return 1
    steps = 2 ** int(math.log2(1e6 * SAMPLE / us))
    return min(STEPS[1], max(STEPS[0], steps))


def time_host(
    run: Run, steps: int, device: AnyDevice, samples: int = HOST_TIMES
) -> float | None:
    """Return the microseconds that the host takes to queue a step; None on a CPU."""
    if device.type == "cpu":
        return None
    clock = HostTimer(device)
    times = [clock.taken(lambda: run(steps)) / steps for _ in range(samples)]
    return float(np.median(times))


def synchronize(device: AnyDevice) -> None:
    """Wait until all queued work is done, including PyTorch's."""
    if device.type == "cuda":
        import torch

        torch.cuda.synchronize(device)


Run = Callable[[int], object]  # a function that queues the given number of steps


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
    """Time call(*args).

    timer: one of TIMERS; by default "kernel" on a GPU and "wall" on a CPU. device: the
    device of the work, by default the device of the arrays in args. check: called
    first; if it raises an error or returns False, nothing is timed. Without a check,
    the result is marked as unchecked. cold: arrays in args take turns with copies of
    themselves. Without arrays, or if that needs too many copies, the cache is flushed
    before each call. seconds: the approximate time limit. cool: bursts of 2 ms with
    pauses of 60 ms; for longer calls, the pauses grow in proportion. Raises
    ArgumentError for invalid arguments.
    """
    if not callable(call):
        raise ArgumentError(f"bench({call!r:.40}): expected a function to call")
    if check is not None and (not callable(check) or check() is False):
        raise ArgumentError("bench: not timed, since it has not passed its check")
    place = devices.parse_device(_device_of(args) if device is None else device)
    one = make_contender(call, args, place, cold)
    one.checked = check is not None
    results = race({"it": one}, place, timer, seconds=seconds, spread=spread, cool=cool)
    return results["it"]


def make_contender(
    call: Callable[..., object], args: Sequence[Any], device: AnyDevice, cold: bool
) -> Contender:
    """Return a contender for call(*args); if cold, with enough copies of its arrays."""
    arrays = [a for a in args if hasattr(a, "nbytes")]
    size = sum(a.nbytes for a in arrays)
    if not cold:
        return Contender(lambda i: call(*args))
    copies = copies_for(size, device)
    if copies == 1:
        return Contender(lambda i: call(*args), flush=make_flusher(device))
    sets = [args, *(tuple(map(_copy, args)) for _ in range(copies - 1))]
    return Contender(lambda i: call(*sets[i % copies]), copies)


# Maximum number of copies of the inputs. A graph of a burst has one call for each copy.
# With an L2 of 60 MiB, inputs below 61 kB would need more, so the L2 is flushed.
MOST_COPIES = 2048


def copies_for(size: int, device: AnyDevice) -> int:
    """Return the number of inputs of `size` bytes that exceed twice the cache.

    Returns 1 if the number exceeds MOST_COPIES: the cache must then be flushed.
    """
    copies = 1 + math.ceil(2 * cache_size(device) / max(size, 1))
    return copies if copies <= MOST_COPIES else 1


def cache_size(device: AnyDevice) -> int:
    """Return the size of the largest cache in bytes: a GPU's L2, a CPU's last level."""
    if device.type == "cuda":
        import torch

        return torch.cuda.get_device_properties(device).L2_cache_size
    from pathlib import Path

    sizes = Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")
    kibibytes = [int(path.read_text().strip().rstrip("K")) for path in sizes]
    return 1024 * max(kibibytes, default=32 << 10)


def make_flusher(device: AnyDevice) -> Callable[[], object]:
    """Return a function that evicts all earlier data from the cache."""
    import torch

    words = 2 * cache_size(device) // 8
    buffer = torch.zeros(words, dtype=torch.int64, device=device)
    return buffer.bitwise_not_


# ---- details ---------------------------------------------------------------------


def _device_of(args: Sequence[Any]) -> str:
    """Return the device of the arrays among the arguments, or torch's default."""
    places = [str(a.device) for a in args if hasattr(a, "data_ptr")]
    if any(hasattr(a, "__cuda_array_interface__") for a in args) and not places:
        return "cuda"
    arrays = places or [a for a in args if hasattr(a, "nbytes")]
    usual = "cuda" if not arrays and devices.torchs_cuda() else "cpu"
    return next((place for place in places if place.startswith("cuda")), usual)


def _copy(value: Any) -> Any:
    if hasattr(value, "data_ptr"):
        return value.clone()
    return value.copy() if hasattr(value, "nbytes") else value
