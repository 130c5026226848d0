"""The timers themselves, and the GPU's own clock, temperature and power.

Clock, temperature, power and throttling of a GPU while something runs on it.

    watch = Watch(device)
    watch.look()            while work is under way
    watch.row()             {"clock": [first, last], "clock_low", "temperature", ...}

NVML comes with the driver and is called by ctypes: no package is needed, and a look
takes microseconds, where nvidia-smi takes a tenth of a second. Where it does not answer
(no driver, a container without it) every value is null. Names and numbers:
https://docs.nvidia.com/deploy/nvml-api/.

The timers themselves; timers.py says what each is for, and when it stops.

TODO: what is in here.

round() takes one sample of every contender in turn: microseconds a call. Between
samples there is a pause, and one call that is not timed.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import math
import os
import statistics
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..base import device as devices
from ..base.errors import ArgumentError
from ..toolchain import native

if TYPE_CHECKING:
    from ..toolchain.native import AnyDevice


LIBRARY = "libnvidia-ml.so.1"
SM = 1  # NVML_CLOCK_SM
CELSIUS = 0  # NVML_TEMPERATURE_GPU
# Reasons for which a clock is lower than it could be; idle, and clocks that somebody
# has asked for, are none.
THROTTLED = {
    **{0x4: "power cap", 0x8: "hardware slowdown", 0x20: "heat"},
    **{0x40: "heat (hardware)", 0x80: "power brake"},
}


@dataclass(frozen=True)
class GpuState:
    """What NVML says at one moment; None is not known."""

    clock: int | None  # of the SMs, MHz
    temperature: int | None  # degrees Celsius
    power: float | None  # watts
    throttled: tuple[str, ...]


@dataclass
class Watch:
    """A GPU that is looked at now and then; of a CPU nothing is seen."""

    device: AnyDevice
    seen: list[GpuState] = field(default_factory=list)

    def look(self) -> None:
        """Note how it is now."""
        if self.device.type == "cuda" and (found := read_state(self.device.index or 0)):
            self.seen.append(found)

    def row(self) -> dict[str, Any]:
        """The keys of a row: clocks in MHz (the first and the last look, the lowest of
        all), degrees, watts (the most seen), why it was throttled, or null."""
        clocks = [one.clock for one in self.seen if one.clock]
        heat = [one.temperature for one in self.seen if one.temperature]
        power = [one.power for one in self.seen if one.power]
        why = sorted({word for one in self.seen for word in one.throttled})
        return {
            "clock": [clocks[0], clocks[-1]] if clocks else None,
            "clock_median": statistics.median(clocks) if clocks else None,
            "clock_low": min(clocks, default=None),
            "temperature": [heat[0], heat[-1]] if heat else None,
            "power": max(power, default=None),
            "throttled": ", ".join(why) or None,
        }


def read_state(index: int) -> GpuState | None:
    """How GPU `index` is now; None where NVML does not answer."""
    nvml, handle = _open_library(), _handle(index)
    if nvml is None or handle is None:
        return None
    clock = _number(nvml.nvmlDeviceGetClockInfo, handle, SM)
    heat = _number(nvml.nvmlDeviceGetTemperature, handle, CELSIUS)
    power = _number(nvml.nvmlDeviceGetPowerUsage, handle)
    ask = nvml.nvmlDeviceGetCurrentClocksThrottleReasons
    bits = _number(ask, handle, kind=ctypes.c_ulonglong) or 0
    why = tuple(word for bit, word in THROTTLED.items() if bits & bit)
    return GpuState(clock, heat, None if power is None else power / 1e3, why)


def _number(function: Any, handle: Any, *more: int, kind: Any = ctypes.c_uint) -> Any:
    """What an NVML function says, None if it fails."""
    found = kind()
    if function(handle, *more, ctypes.byref(found)):
        return None
    return found.value


@functools.cache
def _open_library() -> ctypes.CDLL | None:
    with contextlib.suppress(OSError):
        nvml = ctypes.CDLL(LIBRARY)
        if nvml.nvmlInit_v2() == 0:
            return nvml
    return None


@functools.cache
def _handle(index: int) -> ctypes.c_void_p | None:
    """NVML's handle of CUDA's GPU `index`: the two may count in different orders."""
    nvml = _open_library()
    if nvml is None:
        return None
    import torch

    uuid = getattr(torch.cuda.get_device_properties(index), "uuid", None)
    found = ctypes.c_void_p()
    named = f"GPU-{uuid}".encode()
    if uuid and nvml.nvmlDeviceGetHandleByUUID(named, ctypes.byref(found)) == 0:
        return found
    count = ctypes.c_uint()
    if nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)) or count.value != 1:
        return None  # one of several, nobody knows which
    if nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(found)):
        return None
    return found


def start_profile(on_gpu: bool) -> Any:
    from torch.profiler import ProfilerActivity, profile

    # Else its C++ writes a line to stderr whenever it starts and stops.
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    kinds = [ProfilerActivity.CPU]
    if on_gpu:
        kinds.append(ProfilerActivity.CUDA)
    return profile(activities=kinds)


def is_named_range(event: Any) -> bool:
    """Whether an event on the device is a named range, which kernels lie in."""
    if getattr(event, "is_user_annotation", False):
        return True
    return event.name.startswith(("ProfilerStep", "aten::", "Optimizer."))


TIMERS = ("kernel", "graph", "event", "wall")
BURST = 2e-3  # seconds of work in one sample
MOST_CALLS = 400  # in a burst
LEAST_US = 0.3  # no kernel of a graph is as short: an empty one takes a microsecond


@dataclass
class Contender:
    """What is timed. run(i) does the work once, on the i-th copy of its inputs.

    copies: how many there are, more than one only to be cold; flush: empties the cache
    before each call, where there is but one. checked: it is known to be right. spins:
    so many seconds its threads keep their cores busy after it, waiting for more work.
    """

    run: Callable[[int], object]
    copies: int = 1
    flush: Callable[[], object] | None = None
    calls: int = 0  # in a burst; 0: not known yet
    burst: float = 0.0  # about how many seconds one takes
    done: int = 0  # calls so far: the copies take turns from burst to burst
    checked: bool = False
    spins: float = 0.0

    @property
    def cache(self) -> str:
        """In which caches its inputs are when it is called: in none, if cold."""
        if self.flush:
            return "cold, flushed"
        return "cold, rotated" if self.copies > 1 else "warm"

    def turn(self) -> None:
        """One call, on the copy whose turn it is."""
        self.run(self.done)
        self.done += 1


def timer_named(name: str, device: AnyDevice) -> Any:
    """The timer of that name for a device; "" is the one that fits."""
    name = name or ("kernel" if device.type == "cuda" else "wall")
    if name not in TIMERS:
        raise ArgumentError(f"timer '{name}': want one of {', '.join(TIMERS)}")
    if device.type == "cpu" and name != "wall":
        raise ArgumentError(f"timer '{name}' is a GPU's: on a CPU there is 'wall'")
    kinds = {"kernel": KernelTimer, "graph": GraphTimer, "event": EventTimer}
    return kinds.get(name, WallTimer)(device)


class WallTimer:
    """The host's clock, from before the calls until what they queued is done."""

    name = "wall"

    def __init__(self, device: AnyDevice):
        self.device = device

    def round(
        self,
        contenders: Mapping[str, Contender],
        watches: Any,
        pauses: Mapping[str, float],
    ) -> dict[str, list[float]]:
        """A sample of each contender: microseconds a call. pauses: seconds before."""
        found = {}
        for name, one in contenders.items():
            self.wait()
            time.sleep(pauses[name])
            one.turn()
            found[name] = [self.sample(name, one, watches[name]) / one.calls]
        return found

    def wait(self) -> None:
        """Until the device has nothing left to do."""
        if self.device.type == "cuda":
            import torch

            torch.cuda.synchronize(self.device)

    def sample(self, name: str, one: Contender, watch: Watch) -> float:
        """Microseconds of a burst."""
        if one.flush:
            return sum(self.span(one, 1, watch) for _ in range(one.calls))
        return self.span(one, one.calls, watch)

    def span(self, one: Contender, calls: int, watch: Watch) -> float:
        """Microseconds of so many calls; before them the cache is flushed."""
        if one.flush:
            one.flush()

        def burst() -> None:
            for _ in range(calls):
                one.turn()

        return self.taken(burst, watch)

    def taken(self, work: Callable[[], object], watch: Watch | None = None) -> float:
        """Microseconds of what `work` does, or queues."""
        self.wait()
        begin = time.perf_counter_ns()
        work()
        self.wait()
        us = (time.perf_counter_ns() - begin) / 1e3
        if watch:
            watch.look()
        return us


class EventTimer(WallTimer):
    """CUDA events on the current stream, before and behind the calls."""

    name = "event"

    def taken(self, work: Callable[[], object], watch: Watch | None = None) -> float:
        with native.on_device(self.device):
            stream = devices.current_stream(self.device.index)
            begin, end = devices.Event(), devices.Event()
            begin.record(stream)
            work()
            end.record(stream)
            if watch:
                watch.look()  # while it is under way
            end.synchronize()
        return 1e3 * begin.until(end)


class GraphTimer(EventTimer):
    """A CUDA graph of a burst of calls between two events: no launch from the host."""

    name = "graph"

    def __init__(self, device: AnyDevice):
        super().__init__(device)
        self._graphs: dict[str, Any] = {}

    def sample(self, name: str, one: Contender, watch: Watch) -> float:
        if name not in self._graphs:
            self._graphs[name] = self._fitting(name, one, watch)
        replay = self._graphs[name].replay
        if not one.flush:
            return self.taken(replay, watch)
        us = 0.0
        for _ in range(one.calls):
            one.flush()  # before the first event: it is not timed
            us += self.taken(replay, watch)
        return us

    def _fitting(self, name: str, one: Contender, watch: Watch) -> Any:
        """A graph that takes as long as a burst should; to be flushed, of one call."""
        graph = self._captured(one, self._whole(one, one.calls))
        # The burst was made for the host's launches, which a graph does without.
        wanted = burst_of(self.taken(graph.replay, watch) / one.calls)
        if wanted > 1.25 * one.calls:
            graph = self._captured(one, self._whole(one, wanted))
        us = self.taken(graph.replay, watch) / one.calls
        if us < LEAST_US:
            raise ArgumentError(
                f"timer 'graph': {name} takes {us:.2g} µs, so nothing "
                f"was captured: it launches on another stream than torch's current "
                f"one; take timer 'event'"
            )
        return self._captured(one, 1) if one.flush else graph

    def _whole(self, one: Contender, calls: int) -> int:
        """So many calls or a few more, and so sets one.calls: the copies take whole
        turns, since each replay begins anew with the same one."""
        one.calls = one.copies * math.ceil(calls / one.copies)
        return one.calls

    def _captured(self, one: Contender, calls: int) -> Any:
        """A graph of so many calls."""
        import torch

        with torch.cuda.device(self.device):
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                for _ in range(calls):
                    one.turn()
            graph.replay()
        return graph


class KernelTimer(WallTimer):
    """How long the kernels of each call ran, added, as CUPTI has it.

    Before each call stands a kernel that nobody else uses: it tells the calls apart,
    and where it negates enough numbers it empties the cache.
    """

    name = "kernel"
    MARK = "bitwise_not"

    def __init__(self, device: AnyDevice):
        import torch

        super().__init__(device)
        self._mark = torch.zeros(1, dtype=torch.int64, device=device).bitwise_not_

    def round(
        self,
        contenders: Mapping[str, Contender],
        watches: Any,
        pauses: Mapping[str, float],
    ) -> dict[str, list[float]]:
        with warnings.catch_warnings(), start_profile(True) as profile:
            warnings.simplefilter("ignore", UserWarning)  # what a cycle keeps
            for name, one in contenders.items():
                self.wait()
                time.sleep(pauses[name])
                one.turn()
                for _ in range(one.calls):
                    (one.flush or self._mark)()
                    one.turn()
                (one.flush or self._mark)()
                watches[name].look()
            self.wait()
        return self._parts(profile.events(), contenders)

    def _parts(
        self, events: Sequence[Any], contenders: Mapping[str, Contender]
    ) -> dict[str, list[float]]:
        """Microseconds of the kernels between marks."""
        kernels = [e for e in events if "CUDA" in str(e.device_type)]
        kernels = [e for e in kernels if not is_named_range(e)]
        kernels.sort(key=lambda event: event.time_range.start)
        parts = [0.0]  # before the first mark, and behind each
        for event in kernels:
            if self.MARK in event.name:
                parts.append(0.0)
            else:
                parts[-1] += event.time_range.elapsed_us()
        calls = {name: one.calls for name, one in contenders.items()}
        wanted = sum(calls.values()) + len(calls)
        if len(parts) - 1 != wanted:
            raise ArgumentError(
                f"timer 'kernel': CUPTI saw {len(parts) - 1} of {wanted} marks; take "
                f"timer 'graph' or 'event'"
            )
        found, place = {}, 1
        for name, count in calls.items():
            found[name] = parts[place : place + count]
            place += count + 1
            if not any(found[name]):
                raise ArgumentError(
                    f"timer 'kernel': {name} ran no kernel; device='cpu' has the host's"
                )
        return found


def burst_of(us: float) -> int:
    """How many calls of `us` microseconds make a burst."""
    return max(1, min(MOST_CALLS, round(1e6 * BURST / max(us, 1e-3))))
