"""Timers by name: their measurements, when they stop, and their refusals."""

from __future__ import annotations

import itertools
import math
import time
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import weft
from weft.base.device import parse_device
from weft.base.errors import ArgumentError
from weft.timing import clocks, race, timers

CPU = parse_device("cpu")


def test_the_spread_is_the_width_of_the_medians_interval():
    assert race.spread_of(range(7)) == math.inf
    # n = 100: ranks 50 - 9.8 and 50 + 9.8, rounded outward, of values 101 to 200.
    assert race.spread_of(range(101, 201)) == (161 - 141) / 150.5
    assert race.spread_of([5.0] * 8) == 0
    few, many = (race.spread_of(list(range(90, 111)) * n) for n in (1, 100))
    assert many < few


def test_a_call_is_timed_on_the_host_and_says_how():
    timing = weft.bench(time.sleep, 0.002, device="cpu", seconds=0.1)
    assert 2000 <= timing.us < 20_000
    assert timing.fastest == sorted(timing.samples_us)[0] <= timing.us
    row = timing.row()
    assert (row["timer"], row["cache"], row["us"]) == ("wall", "warm", timing.us)
    assert row["stopped"] in ("spread", "time") and row["clock"] is None
    assert "wall, warm, median of" in repr(timing)


@pytest.mark.parametrize(
    "options, words",
    [
        ({"timer": "sundial"}, "timer 'sundial': expected one of kernel, graph, event"),
        ({"timer": "graph"}, "'graph' needs a GPU; a CPU has only 'wall'"),
        ({"check": lambda: False}, "not timed, since it has not passed its check"),
        ({"device": "gpu"}, "expected cpu, cuda"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_runs(options, words):
    calls = []
    with pytest.raises(ValueError, match=words):
        weft.bench(calls.append, 1, **{"device": "cpu", **options})
    assert not calls


def test_a_check_that_raises_comes_through_and_nothing_is_timed():
    calls = []

    def wrong():
        raise AssertionError("c[0] is 3")

    with pytest.raises(AssertionError, match="3"):
        weft.bench(calls.append, 1, check=wrong)
    assert not calls


def test_what_has_passed_no_check_is_said_to_be_unchecked():
    options = {"device": "cpu", "seconds": 0.01}
    without = weft.bench(time.sleep, 1e-4, **options)
    assert without.row()["checked"] is False and ", unchecked" in repr(without)
    checked = weft.bench(time.sleep, 1e-4, check=lambda: True, **options)
    assert checked.row()["checked"] is True and "unchecked" not in repr(checked)


def test_the_module_of_benchmarks_can_be_called():
    from weft import bench

    assert bench is weft.bench and bench.time_call
    with pytest.raises(ArgumentError, match="expected a function"):
        bench(3)


# ---- cold --------------------------------------------------------------------


def test_cold_arrays_take_turns_that_no_cache_holds(monkeypatch):
    monkeypatch.setattr(timers, "cache_size", lambda device: 1000)
    x, calls = np.ones(100, np.float32), []
    cold = timers.make_contender(lambda x, n: calls.append(x), (x, 7), CPU, cold=True)
    # With 6 copies of 400 bytes, 2000 other bytes are used before a copy's next turn.
    assert cold.copies == 6
    for _ in range(7):
        cold.run_once()
    assert calls[0] is x is calls[6]
    assert len({array.ctypes.data for array in calls[:6]}) == 6
    assert all(np.array_equal(array, x) for array in calls)
    assert cold.cache == "cold, rotated"


@pytest.mark.parametrize("n", [16, 100, 256, 512, 1024])
def test_what_goes_by_before_an_input_returns_is_larger_than_the_cache(monkeypatch, n):
    """64 copies of 256 x 256 would stay in an L2, and tiny inputs need a flush."""
    cache, size = 60 << 20, 3 * 4 * n * n
    monkeypatch.setattr(timers, "cache_size", lambda device: cache)
    copies = timers.copies_for(size, CPU)
    assert 1 <= copies <= timers.MOST_COPIES
    assert (copies - 1) * size >= 2 * cache if n >= 100 else copies == 1
    x = np.ones((3, n, n), np.float32)
    monkeypatch.setattr(timers, "make_flusher", lambda device: lambda: None)
    if n < 200:
        contender = timers.make_contender(np.sum, (x,), CPU, cold=True)
        assert contender.cache == ("cold, rotated" if n >= 100 else "cold, flushed")
        assert bool(contender.flush) == (contender.copies == 1)


def test_a_cold_call_without_arrays_has_the_cache_flushed_each_time(monkeypatch):
    events = []
    monkeypatch.setattr(
        timers, "make_flusher", lambda device: lambda: events.append("f")
    )
    contender = timers.make_contender(lambda: events.append("c"), (), CPU, cold=True)
    contender.calls = 3
    clocks.WallTimer(CPU).sample("it", contender, clocks.Watch(CPU))
    assert events == list("fcfcfc")
    assert contender.cache == "cold, flushed"


# ---- several -----------------------------------------------------------------


class Invented:
    """A timer that returns given samples, and counts its rounds."""

    name = "invented"

    def __init__(self, samples):
        self.samples, self.rounds = itertools.cycle(samples), 0

    def round(self, contenders, watches, pauses, tick):
        self.rounds += 1
        return {name: [next(self.samples)] for name in contenders}


def measured(monkeypatch, sequence, **options):
    clock = Invented(sequence)
    monkeypatch.setattr(race, "timer_named", lambda name, device: clock)
    pair = {name: race.Contender(lambda i: None, calls=1) for name in "ab"}
    return race.race(pair, "cpu", **options), clock.rounds


def test_measuring_ends_once_all_medians_are_known(monkeypatch):
    timings, rounds = measured(monkeypatch, [5.0, 7.0])
    assert rounds == race.LEAST
    assert {name: timing.us for name, timing in timings.items()} == {"a": 5.0, "b": 7.0}
    assert timings["a"].stopped == timings["b"].stopped == "spread"


def test_on_a_cpu_nobody_is_timed_beside_threads_that_still_spin(monkeypatch):
    pauses_given = []

    class Pauses(clocks.WallTimer):
        def round(self, contenders, watches, pauses, tick):
            pauses_given.append(pauses)
            return super().round(contenders, watches, pauses, tick)

    monkeypatch.setattr(race, "timer_named", lambda name, device: Pauses(device))
    quiet, spinning = race.Contender(int), race.Contender(int, spins=0.03)
    race.race({"a": quiet, "b": spinning}, "cpu", samples=1)
    race.race({"a": quiet}, "cpu", samples=1)
    assert pauses_given == [{"a": 0.03, "b": 0.03}, {"a": race.REST}]


def test_cool_calls_get_pauses_in_proportion_to_their_length(monkeypatch):
    pauses_given = []

    class Resting(Invented):
        def round(self, contenders, watches, pauses, tick):
            pauses_given.append(pauses)
            return super().round(contenders, watches, pauses, tick)

    clock = Resting([5.0])
    monkeypatch.setattr(race, "timer_named", lambda name, device: clock)
    # The seconds of each contender's burst.
    lengths = {"none": 0.0, "short": 1e-3, "long": 21e-3}
    three = {
        name: race.Contender(lambda i: None, calls=1, burst=seconds)
        for name, seconds in lengths.items()
    }
    timings = race.race(three, "cpu", cool=True)
    assert pauses_given[0] == pytest.approx({"none": 0.06, "short": 0.06, "long": 0.63})
    assert timings["long"].row()["pause_ms"] == pytest.approx(630)


def test_what_does_not_settle_is_stopped_and_says_why(monkeypatch):
    timings, rounds = measured(monkeypatch, [5.0, 1.0, 5.0, 9.0], samples=20)
    assert rounds == 20
    assert (timings["a"].stopped, timings["b"].stopped) == ("spread", "samples")
    assert "stopped by samples" in repr(timings["b"])
    timings, rounds = measured(monkeypatch, [1.0, 1.0, 9.0, 9.0], seconds=0.0)
    assert rounds == 1 and timings["a"].stopped == "time"
    assert timings["a"].row()["spread"] is None


def test_contenders_take_turns():
    calls = []
    pair = {
        name: race.Contender(lambda i, name=name: calls.append(name), calls=2)
        for name in "ab"
    }
    race.race(pair, "cpu", samples=2, seconds=9, spread=-1)
    # The timing excludes the first call of each burst.
    assert calls == list("aaabbb" * 2)


# ---- kernels -----------------------------------------------------------------


def event(name, start, us):
    span = SimpleNamespace(start=start, elapsed_us=lambda: us)
    return SimpleNamespace(name=name, device_type="DeviceType.CUDA", time_range=span)


def kernel_timer():
    return object.__new__(clocks.KernelTimer)  # __init__() would require a GPU


def test_kernels_between_marks_are_a_calls(monkeypatch):
    mark = "bitwise_not_kernel_cuda"
    names = ["warm", mark, "x", "y", mark, "x", mark, "warm", mark, "z", mark]
    events = [event(name, 10 * i, i) for i, name in enumerate(names)][::-1]
    first, second = (race.Contender(lambda i: None, calls=n) for n in (2, 1))
    parts = kernel_timer()._split_samples(events, {"one": first, "two": second})
    assert parts == {"one": [2 + 3, 5], "two": [9]}


def test_lost_marks_and_calls_without_kernels_are_told():
    mark = event("bitwise_not", 0, 1)
    contenders = {"it": race.Contender(lambda i: None, calls=1)}
    with pytest.raises(ArgumentError, match="CUPTI reports 1 of 2 marks"):
        kernel_timer()._split_samples([mark], contenders)
    with pytest.raises(ArgumentError, match="it ran no kernel"):
        kernel_timer()._split_samples([mark, mark], contenders)


@pytest.mark.alone
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("cold", [False, True])
@pytest.mark.parametrize("timer", clocks.TIMERS)
def test_all_timers_of_a_gpu_agree(timer, cold):
    a = torch.randn(2048, 2048, device="cuda")
    us, want = math.inf, math.inf
    for _ in range(8):  # another program on the GPU can only lengthen the times
        timing = weft.bench(torch.mm, a, a, timer=timer, cold=cold, seconds=0.3)
        us = min(us, timing.fastest)
        want = min(want, weft.bench(torch.mm, a, a, timer="event", seconds=0.3).fastest)
        if 0.8 * want < us < 1.25 * want:
            break
    assert 0.8 * want < us < 1.25 * want
    assert timing.row()["cache"] == ("cold, rotated" if cold else "warm")


@pytest.mark.alone
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("timer", ["kernel", "graph"])
def test_a_cold_call_takes_longer_flushed_too(timer):
    a = torch.randn(4 << 20, device="cuda")  # 16 MiB, which fit into the cache
    cold = weft.bench(a.sum, timer=timer, cold=True, device="cuda", seconds=0.3)
    warm = weft.bench(a.sum, timer=timer, device="cuda", seconds=0.3)
    assert cold.cache == "cold, flushed" and cold.fastest > warm.fastest


# ---- the GPU's state ---------------------------------------------------------


class Nvml:
    """NVML's functions, with given results."""

    def __init__(self, clocks_, reasons):
        self.clocks, self.reasons = iter(clocks_), iter(reasons)

    def nvmlDeviceGetClockInfo(self, handle, kind, result):
        result._obj.value = next(self.clocks)
        return 0

    def nvmlDeviceGetTemperature(self, handle, kind, result):
        return 3  # 3 means "not supported"

    def nvmlDeviceGetPowerUsage(self, handle, result):
        result._obj.value = 699_500
        return 0

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle, result):
        result._obj.value = next(self.reasons)
        return 0


def test_a_watch_tells_clocks_power_and_throttling(monkeypatch):
    nvml = Nvml([1980, 1400, 1755], [0x1, 0x4 | 0x20, 0x4])
    monkeypatch.setattr(clocks, "_open_library", lambda: nvml)
    monkeypatch.setattr(clocks, "_handle", lambda index: "handle")
    watch = clocks.Watch(SimpleNamespace(type="cuda", index=0))
    for _ in range(3):
        watch.look()
    assert watch.row() == {
        **{"clock": [1980, 1755], "clock_median": 1755, "clock_low": 1400},
        **{"temperature": None, "power": 699.5, "throttled": "heat, power cap"},
    }


def test_without_nvml_nothing_is_known(monkeypatch):
    monkeypatch.setattr(clocks, "_open_library", lambda: None)
    monkeypatch.setattr(clocks, "_handle", lambda index: None)
    watch = clocks.Watch(SimpleNamespace(type="cuda", index=0))
    watch.look()
    assert set(watch.row().values()) == {None}


def test_a_graph_that_captured_nothing_is_no_measurement(monkeypatch):
    timer = clocks.GraphTimer(torch.device("cuda", 0))
    empty = SimpleNamespace(replay=lambda: None)
    monkeypatch.setattr(timer, "_capture", lambda contender, calls: empty)
    monkeypatch.setattr(timer, "taken", lambda work, watch: 2.0)
    contender = race.Contender(lambda i: None, calls=40)
    with pytest.raises(ArgumentError, match="elsewhere takes 0.005 µs, so nothing was"):
        timer.sample("elsewhere", contender, None)


def recorded(monkeypatch, events, us=10.0):
    """Return a graph timer that needs no GPU, and records its captures and replays."""
    timer = clocks.GraphTimer(torch.device("cuda", 0))

    def captured(one, calls):
        graph = SimpleNamespace(calls=calls)
        graph.replay = lambda: events.append(calls)
        return graph

    def taken(work, watch):
        work()
        return us * events[-1]

    monkeypatch.setattr(timer, "_capture", captured)
    monkeypatch.setattr(timer, "taken", taken)
    return timer


def test_a_graph_is_flushed_before_its_first_event(monkeypatch):
    events = []
    timer = recorded(monkeypatch, events)
    flush = lambda: events.append("f")  # noqa: E731
    contender = race.Contender(lambda i: None, flush=flush, calls=3)
    assert timer.sample("it", contender, None) == 2000
    assert events == [3, 200, *("f", 1) * 200]  # one call takes 10 µs


def test_all_copies_take_the_same_turns_in_a_graph(monkeypatch):
    events = []
    timer = recorded(monkeypatch, events, us=8.0)
    contender = race.Contender(lambda i: None, copies=161, calls=90)
    assert timer.sample("it", contender, None) == 8 * 322
    assert events == [161, *[322] * 2] and contender.calls == 322  # 250 calls take 2 ms
