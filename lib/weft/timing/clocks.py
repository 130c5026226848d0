"""The timers' clocks, and a GPU's clock, temperature and power while it works.

    watch = Watch(device)
    watch.look()            while work is under way
    watch.row()             {"clock": [first, last], "clock_low", "temperature", ...}

NVML comes with the driver and is called through ctypes, so no package is needed. look()
takes microseconds, whereas nvidia-smi takes a tenth of a second. If NVML is missing (no
driver, or a container without it), every value is null. Names and numbers:
https://docs.nvidia.com/deploy/nvml-api/.

Each timer's round() takes one sample of every contender in turn; samples are in
microseconds per call. A pause and one untimed call precede each sample. timers.py
describes the purpose of each timer. race.py describes when sampling stops.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import itertools
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
    import torch

    from ..toolchain.native import AnyDevice
    from .race import Contender


LIBRARY = "libnvidia-ml.so.1"
SM = 1  # the value of NVML_CLOCK_SM
CELSIUS = 0  # the value of NVML_TEMPERATURE_GPU
# Reasons for a lower clock, except idleness and a clock limit set by a user.
THROTTLED = {
    **{0x4: "power cap", 0x8: "hardware slowdown", 0x20: "heat"},
    **{0x40: "heat (hardware)", 0x80: "power brake"},
}


@dataclass(frozen=True)
class GpuState:
    """NVML's values at one moment; None means unknown."""

    clock: int | None  # clock rate of the SMs, in MHz
    temperature: int | None  # degrees Celsius
    power: float | None  # watts
    throttled: tuple[str, ...]


@dataclass
class Watch:
    """The states of a GPU at each look(); for a CPU, every value is null."""

    device: AnyDevice
    states: list[GpuState] = field(default_factory=list)

    def look(self) -> None:
        """Record the current state."""
        if self.device.type == "cuda" and (state := read_state(self.device.index or 0)):
            self.states.append(state)

    def row(self) -> dict[str, Any]:
        """Return a row's keys: clocks in MHz, degrees Celsius, the highest power in
        watts, and reasons for throttling. Unknown values are null."""
        clocks = [state.clock for state in self.states if state.clock]
        heat = [state.temperature for state in self.states if state.temperature]
        power = [state.power for state in self.states if state.power]
        reasons = sorted({word for state in self.states for word in state.throttled})
        return {
            "clock": [clocks[0], clocks[-1]] if clocks else None,
            "clock_median": statistics.median(clocks) if clocks else None,
            "clock_low": min(clocks, default=None),
            "temperature": [heat[0], heat[-1]] if heat else None,
            "power": max(power, default=None),
            "throttled": ", ".join(reasons) or None,
        }


def read_state(index: int) -> GpuState | None:
    """Return the current state of GPU `index`, or None without NVML."""
    nvml, handle = _open_library(), _handle(index)
    if nvml is None or handle is None:
        return None
    clock = _read_number(nvml.nvmlDeviceGetClockInfo, handle, SM)
    temperature = _read_number(nvml.nvmlDeviceGetTemperature, handle, CELSIUS)
    power = _read_number(nvml.nvmlDeviceGetPowerUsage, handle)
    function = nvml.nvmlDeviceGetCurrentClocksThrottleReasons
    bits = _read_number(function, handle, kind=ctypes.c_ulonglong) or 0
    reasons = tuple(word for bit, word in THROTTLED.items() if bits & bit)
    return GpuState(clock, temperature, None if power is None else power / 1e3, reasons)


def _read_number(function: Any, handle: Any, *more: int, kind: Any = ctypes.c_uint):
    """Return the number that an NVML function stores, or None if it fails."""
    value = kind()
    if function(handle, *more, ctypes.byref(value)):
        return None
    return value.value


@functools.cache
def _open_library() -> ctypes.CDLL | None:
    with contextlib.suppress(OSError):
        nvml = ctypes.CDLL(LIBRARY)
        if nvml.nvmlInit_v2() == 0:
            return nvml
    return None


@functools.cache
def _handle(index: int) -> ctypes.c_void_p | None:
    """Return NVML's handle of CUDA's GPU `index`, which NVML may number differently."""
    nvml = _open_library()
    if nvml is None:
        return None
    import torch

    uuid = getattr(torch.cuda.get_device_properties(index), "uuid", None)
    handle = ctypes.c_void_p()
    uuid_text = f"GPU-{uuid}".encode()
    if uuid and nvml.nvmlDeviceGetHandleByUUID(uuid_text, ctypes.byref(handle)) == 0:
        return handle
    count = ctypes.c_uint()
    if nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)) or count.value != 1:
        return None  # NVML lists several GPUs, and the right one is unknown
    if nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(handle)):
        return None
    return handle


def start_profile(on_gpu: bool) -> Any:
    from torch.profiler import ProfilerActivity, profile

    # Otherwise the profiler writes a line to stderr on every start and stop.
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    kinds = [ProfilerActivity.CPU]
    if on_gpu:
        kinds.append(ProfilerActivity.CUDA)
    return profile(activities=kinds)


def is_named_range(event: Any) -> bool:
    """Return whether a device event is a named range, which encloses kernels."""
    if getattr(event, "is_user_annotation", False):
        return True
    return event.name.startswith(("ProfilerStep", "aten::", "Optimizer."))


TIMERS = ("kernel", "graph", "event", "wall")
BURST = 2e-3  # seconds of work in one sample
MOST_CALLS = 400  # maximum number of calls in a burst
LEAST_US = 0.3  # less than any kernel in a graph takes; an empty one takes 1 µs


def timer_named(name: str, device: AnyDevice) -> Any:
    """Return a timer by name for a device; "" selects the device's default."""
    name = name or ("kernel" if device.type == "cuda" else "wall")
    if name not in TIMERS:
        raise ArgumentError(f"timer '{name}': expected one of {', '.join(TIMERS)}")
    if device.type == "cpu" and name != "wall":
        raise ArgumentError(f"timer '{name}' needs a GPU; a CPU has only 'wall'")
    kinds = {"kernel": KernelTimer, "graph": GraphTimer, "event": EventTimer}
    return kinds.get(name, WallTimer)(device)


def clock_for(device: AnyDevice | str) -> Any:
    """Return the device's clock (events on a GPU, the host's clock on a CPU). Its
    method taken(work) returns microseconds."""
    target = devices.parse_device(device)
    return timer_named("event" if target.type == "cuda" else "wall", target)


class WallTimer:
    """The host's clock, from before the calls until their queued work is done."""

    name = "wall"

    def __init__(self, device: AnyDevice):
        self.device = device

    def round(
        self,
        contenders: Mapping[str, Contender],
        watches: Mapping[str, Watch | None],
        pauses: Mapping[str, float],
        tick: Callable[[], object] = lambda: None,
    ) -> dict[str, list[float]]:
        """Sample each contender; return microseconds per call, by name.

        pauses: seconds before each sample. tick: called after each sample.
        """
        samples = {}
        for name, one in contenders.items():
            self.prepare(one, pauses[name])
            samples[name] = [self.sample(name, one, watches[name]) / one.calls]
            if one.after:
                one.after()
            tick()
        return samples

    def prepare(self, one: Contender, pause: float) -> None:
        """Pause, make an untimed call and call `before`, as the contender specifies."""
        if one.lead:
            if pause:
                self.wait()
                time.sleep(pause)
            one.run_once()
        if one.before:
            one.before()

    def wait(self) -> None:
        """Wait until the device has finished its work."""
        if self.device.type == "cuda":
            import torch

            torch.cuda.synchronize(self.device)

    def sample(self, name: str, one: Contender, watch: Watch | None) -> float:
        """Return the microseconds of one burst."""
        if one.flush:
            return sum(self.span(one, 1, watch) for _ in range(one.calls))
        return self.span(one, one.calls, watch)

    def span(self, one: Contender, calls: int, watch: Watch | None = None) -> float:
        """Flush the cache if required; return the microseconds of `calls` calls."""
        if one.flush:
            one.flush()
        return self.taken(lambda: one.repeat(calls), watch)

    def taken(self, work: Callable[[], object], watch: Watch | None = None) -> float:
        """Call `work`; return the microseconds of all work that it does or queues."""
        self.wait()
        begin = time.perf_counter_ns()
        work()
        self.wait()
        us = (time.perf_counter_ns() - begin) / 1e3
        if watch:
            watch.look()
        return us


class EventTimer(WallTimer):
    """Two CUDA events on the current stream, before and after the calls."""

    name = "event"

    def taken(self, work: Callable[[], object], watch: Watch | None = None) -> float:
        with native.on_device(self.device):
            stream = devices.current_stream(self.device.index)
            begin, end = devices.Event(), devices.Event()
            begin.record(stream)
            work()
            end.record(stream)
            if watch:
                watch.look()  # read the GPU's state while the work runs
            end.synchronize()
        return 1e3 * begin.until(end)


class HostTimer(WallTimer):
    """The host's clock until the calls are queued: the cost of their launches."""

    def taken(self, work: Callable[[], object], watch: Watch | None = None) -> float:
        self.wait()
        begin = time.perf_counter_ns()
        work()
        us = (time.perf_counter_ns() - begin) / 1e3
        self.wait()
        return us


class GraphTimer(EventTimer):
    """A CUDA graph of a burst, between two events: the host launches no kernel."""

    name = "graph"

    def __init__(self, device: AnyDevice):
        super().__init__(device)
        self._graphs: dict[str, Any] = {}

    def sample(self, name: str, one: Contender, watch: Watch | None) -> float:
        if name not in self._graphs:
            self._graphs[name] = self._fit_graph(name, one, watch)
        replay = self._graphs[name].replay
        if not one.flush:
            return self.taken(replay, watch)
        us = 0.0
        for _ in range(one.calls):
            one.flush()  # this call precedes the first event, so the time excludes it
            us += self.taken(replay, watch)
        return us

    def _fit_graph(self, name: str, one: Contender, watch: Watch | None) -> Any:
        """Return a graph of a burst, or of one call if the cache is flushed."""
        graph = self._capture(one, self._round_calls(one, one.calls))
        # one.calls is based on times with the host's launches, which a graph avoids.
        calls_in_burst = burst_of(self.taken(graph.replay, watch) / one.calls)
        if calls_in_burst > 1.25 * one.calls:
            graph = self._capture(one, self._round_calls(one, calls_in_burst))
        us = self.taken(graph.replay, watch) / one.calls
        if us < LEAST_US:
            raise ArgumentError(
                f"timer 'graph': {name} takes {us:.2g} µs, so nothing was captured: "
                f"it launches on a stream other than torch's current one; use timer "
                f"'event'"
            )
        return self._capture(one, 1) if one.flush else graph

    def _round_calls(self, one: Contender, calls: int) -> int:
        """Set one.calls to `calls`, rounded up to a multiple of the copies; return it.
        Each replay then begins with the same copy."""
        one.calls = one.copies * math.ceil(calls / one.copies)
        return one.calls

    def _capture(self, one: Contender, calls: int) -> Any:
        """Return a graph of `calls` calls."""
        import torch

        with torch.cuda.device(self.device):
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                one.repeat(calls)
            graph.replay()
        return graph


class KernelTimer(WallTimer):
    """The sum of the durations of each call's kernels, as CUPTI reports them.

    A marker kernel that no contender uses precedes each call and separates the calls.
    It inverts the bits of an array; if the array is large, this flushes the cache.
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
        watches: Mapping[str, Watch | None],
        pauses: Mapping[str, float],
        tick: Callable[[], object] = lambda: None,
    ) -> dict[str, list[float]]:
        with warnings.catch_warnings(), start_profile(True) as profile:
            # This suppresses the warning about the profiler's cycles.
            warnings.simplefilter("ignore", UserWarning)
            for name, one in contenders.items():
                self.wait()
                self.prepare(one, pauses[name])
                for _ in range(one.calls):
                    (one.flush or self._mark)()
                    one.run_once()
                (one.flush or self._mark)()
                if watch := watches[name]:
                    watch.look()
                if one.after:
                    one.after()
                tick()
            self.wait()
        return self._split_samples(profile.events(), contenders)

    def _split_samples(
        self, events: Sequence[Any], contenders: Mapping[str, Contender]
    ) -> dict[str, list[float]]:
        """Return each contender's samples: the microseconds of the kernels per mark."""
        kernels = [e for e in events if "CUDA" in str(e.device_type)]
        kernels = [e for e in kernels if not is_named_range(e)]
        kernels.sort(key=lambda event: event.time_range.start)
        parts = [0.0]  # sums of the kernels before the first mark and after each mark
        for event in kernels:
            if self.MARK in event.name:
                parts.append(0.0)
            else:
                parts[-1] += event.time_range.elapsed_us()
        calls = {name: one.calls for name, one in contenders.items()}
        expected = sum(calls.values()) + len(calls)
        if len(parts) - 1 != expected:
            raise ArgumentError(
                f"timer 'kernel': CUPTI reports {len(parts) - 1} of {expected} marks; "
                f"use timer 'graph' or 'event'"
            )
        samples, first = {}, 1
        for name, count in calls.items():
            samples[name] = parts[first : first + count]
            first += count + 1
            if not any(samples[name]):
                raise ArgumentError(
                    f"timer 'kernel': {name} ran no kernel; device='cpu' times the host"
                )
        return samples


def burst_of(us: float) -> int:
    """Return the number of calls of `us` microseconds in a burst."""
    return max(1, min(MOST_CALLS, round(1e6 * BURST / max(us, 1e-3))))


class Marks:
    """The ends of sections, from events on a GPU and from the clock on a CPU."""

    def __init__(self, device: torch.device):
        self.device, self.names = device, []
        self.now: Callable[[], Any] = _read_clock
        if device.type == "cuda":
            import torch

            torch.cuda.synchronize(device)
            # The backward pass runs in another thread, whose stream may differ.
            self.stream = torch.cuda.current_stream(device)
            self.now = self._event
        self.times = [self.now()]

    def note(self, name: str) -> None:
        self.names.append(name)
        self.times.append(self.now())

    def read(self) -> dict[str, float]:
        """Return the microseconds of each section, by name."""
        pairs = itertools.pairwise(self.times)
        if self.device.type == "cpu":
            return dict(zip(self.names, (end - start for start, end in pairs)))
        import torch

        torch.cuda.synchronize(self.device)
        spans = (start.elapsed_time(end) * 1e3 for start, end in pairs)
        return dict(zip(self.names, spans))

    def _event(self) -> torch.cuda.Event:
        import torch

        event = torch.cuda.Event(enable_timing=True)
        event.record(self.stream)
        return event


def _read_clock() -> float:
    return time.perf_counter_ns() / 1e3
