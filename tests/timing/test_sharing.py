"""Times on a machine that others use: their detection, and their marks in pictures."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from matplotlib.figure import Figure

from weft import __main__ as command
from weft import bench
from weft.base import style as kit
from weft.base.device import Device
from weft.base.errors import ArgumentError
from weft.benchmarks import plot_bodies
from weft.benchmarks.matmul import plot as matmul
from weft.benchmarks.matmul import roofline
from weft.benchmarks.race import plot as race_plot
from weft.benchmarks.race import plot_batches
from weft.timing import results
from weft.timing.race import Contender, race
from weft.timing.results import CoreWait

CPU = Device("cpu")
BUSY, QUIET = {"waited": 0.38}, {"waited": 0.02}
SENTENCE = (
    "this machine is shared: times are not drawn "
    "(a thread waited 38 % of its time for a core)"
)


@pytest.fixture(autouse=True)
def no_option(monkeypatch):
    monkeypatch.delenv(results.OPTION)


@pytest.fixture
def shared(monkeypatch):
    """Make every measurement report that a thread waited for 38 % of its time."""
    monkeypatch.setattr(CoreWait, "share", lambda self: 0.38)


# ---- the wait for a core -------------------------------------------------------


def test_the_kernels_counts_are_in_seconds(tmp_path):
    for thread, text in ("7", "2000000000 500000000 9\n"), ("8", "0 0 0"), ("9", ""):
        (tmp_path / thread).mkdir()
        (tmp_path / thread / "schedstat").write_text(text)
    assert results.read_threads(tmp_path) == {"7": (2.0, 0.5), "8": (0.0, 0.0)}
    assert results.read_threads(tmp_path / "none") == {}


def wait_between(monkeypatch, *counts, pauses: bool = False) -> float | None:
    """Return the share between two states of the threads: (ran, waited) by name."""
    states = iter(counts)
    monkeypatch.setattr(results, "read_threads", lambda: next(states))
    return CoreWait(CPU, pauses).share()


def test_the_thread_that_waited_longest_counts(monkeypatch):
    before = {"1": (5.0, 1.0), "2": (3.0, 1.0), "3": (1.0, 0.0)}
    after = {"1": (6.0, 1.0), "2": (3.7, 1.3), "4": (0.1, 0.05)}
    assert wait_between(monkeypatch, before, after) == pytest.approx(0.3)


def test_a_new_thread_counts_from_its_start(monkeypatch):
    share = wait_between(monkeypatch, {"1": (5.0, 1.0)}, {"1": (5.0, 1.0), "2": (1, 1)})
    assert share == pytest.approx(0.5)


def test_a_few_turns_of_the_scheduler_do_not_count(monkeypatch):
    before = {"1": (0.0, 0.0)}
    assert wait_between(monkeypatch, before, {"1": (0.02, 0.019)}) == 0
    assert wait_between(monkeypatch, before, {"1": (0.02, 0.021)}) > 0.5


@pytest.mark.skipif(not results.read_threads(), reason="the kernel counts no waits")
def test_beside_a_busy_program_on_the_same_core_this_thread_waits():
    every = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(every)})
    busy = subprocess.Popen([sys.executable, "-Sc", "print(flush=True)\nwhile 1: pass"],
                            stdout=subprocess.PIPE)  # fmt: skip
    try:
        busy.stdout.readline()
        wait, ran = CoreWait(CPU), time.thread_time()
        while time.thread_time() - ran < 0.1:
            pass
        share = wait.share()
    finally:
        os.sched_setaffinity(0, every)
        busy.kill()
        busy.communicate()
    assert share > 0.3


def test_work_on_a_gpu_is_not_measured():
    assert CoreWait(Device("cuda:0")).share() is None


def clocks_between(monkeypatch, *readings, pauses: bool = False) -> float | None:
    """Return the share without counts: (wall, thread, process, sleeps) twice."""
    states = iter(readings)
    monkeypatch.setattr(results, "read_threads", dict)
    monkeypatch.setattr(results, "_read_clocks", lambda: next(states))
    return CoreWait(CPU, pauses).share()


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        ((2.0, 0.5, 0.5, 3), 0.75),
        ((1.01, 1.0, 1.0, 3), 0),  # too short
        ((2.0, 0.5, 1.5, 3), None),  # another thread ran
        ((2.0, 0.5, 0.5, 4), None),  # it slept
    ],
)
def test_without_counts_a_single_thread_is_compared_with_the_clock(
    monkeypatch, after, expected
):
    begin = results._Clocks(0.0, 0.0, 0.0, 3)
    assert clocks_between(monkeypatch, begin, results._Clocks(*after)) == expected


def test_without_counts_pauses_or_clocks_nothing_is_known(monkeypatch):
    begin = results._Clocks(0.0, 0.0, 0.0, 0)
    end = results._Clocks(2.0, 0.5, 0.5, 0)
    assert clocks_between(monkeypatch, begin, end, pauses=True) is None
    assert clocks_between(monkeypatch, None, None) is None


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs Linux")
def test_the_clocks_run():
    first = results._read_clocks()
    time.sleep(0.01)
    second = results._read_clocks()
    assert second.wall - first.wall >= 0.01
    assert second.sleeps > first.sleeps


# ---- rows ----------------------------------------------------------------------


@pytest.mark.skipif(not results.read_threads(), reason="the kernel counts no waits")
def test_timings_on_a_processor_contain_the_share():
    assert 0 <= bench.time_call(lambda: None, samples=2).row()["waited"] <= 1
    results = race({"a": Contender(call=lambda: None)}, "cpu", rounds=2)
    assert 0 <= results["a"].row()["waited"] <= 1


def test_a_timing_as_text_ends_with_the_sentence_on_a_shared_machine():
    assert str(bench.summarize([1.0], "wall", 0.38)).endswith(f"; {SENTENCE}")
    assert "shared" not in str(bench.summarize([1.0], "wall", 0.02))


def test_samples_are_not_drawn_on_a_shared_machine():
    samples = [1.0, 2.0, 3.0]
    with kit.style():
        axes = Figure().subplots()
        plot_bodies.plot_samples(axes, samples, bench.summarize(samples, "w", 0.38))
        assert not axes.lines and SENTENCE[:40] in axes.texts[0].get_text()
        axes = Figure().subplots()
        plot_bodies.plot_samples(axes, samples, bench.summarize(samples, "w", 0.02))
        assert axes.lines


def test_a_timing_without_it_has_no_such_key():
    assert "waited" not in bench.summarize([1.0], "wall").row()


def test_a_shared_timing_reports_it(shared):
    text = repr(bench(lambda: None, device="cpu", seconds=0.01))
    assert SENTENCE in text


def test_a_benchmark_on_a_shared_machine_reports_it(shared, capsys):
    assert command.main(["bench", "relu", "--sizes", "64", "--rungs", "reference"]) == 0
    assert capsys.readouterr().out.endswith(f"{SENTENCE}\n")


def test_a_quiet_timing_does_not_mention_it(monkeypatch):
    monkeypatch.setattr(CoreWait, "share", lambda self: 0.02)
    assert "shared" not in repr(bench(lambda: None, device="cpu", seconds=0.01))


# ---- pictures ------------------------------------------------------------------

FIGURES = [
    *(plot_bodies.plot_times, plot_batches.plot_batches, roofline.plot_roofline),
    *(matmul.ladder_plot, matmul.size_plot, race_plot.plot_steps),
    *(race_plot.plot_parts, race_plot.plot_layers, race_plot.plot_versions),
    race_plot.plot_run,
]


def texts_of(figure: Figure) -> str:
    texts = (text.get_text() for ax in figure.axes for text in ax.texts)
    return " ".join(" ".join(texts).split())


@pytest.mark.parametrize("draw", FIGURES, ids=lambda draw: draw.__name__)
def test_a_picture_shows_the_sentence_in_place_of_shared_times(draw):
    text = texts_of(draw([QUIET, BUSY]))
    assert SENTENCE in text
    assert "WEFT_SHARED=draw" in text


def test_quiet_times_are_drawn(monkeypatch):
    draw = results.guard_figure(lambda rows, color: (rows, color))
    assert draw([QUIET], color="red") == ([QUIET], "red")
    assert isinstance(draw([BUSY], color="red"), Figure)
    monkeypatch.setenv(results.OPTION, "draw")
    assert draw([BUSY], color="red") == ([BUSY], "red")


def test_the_option_draws_all_the_same(monkeypatch):
    axes = Figure().subplots()
    assert results.hide_times(axes, [BUSY])
    monkeypatch.setenv(results.OPTION, "draw")
    assert not results.hide_times(axes, [BUSY])
    assert "times are not drawn" not in results.describe_wait(0.38)
    assert "waited 38 %" in results.describe_wait(0.38)


def test_another_value_of_the_option_is_an_error(monkeypatch):
    monkeypatch.setenv(results.OPTION, "hide")
    with pytest.raises(ArgumentError, match="WEFT_SHARED is 'hide', expected draw"):
        results.is_drawn(0.0)


@pytest.mark.parametrize("rows", [[], [QUIET], [{"us": 1.0}], [{"waited": None}]])
def test_rows_without_a_long_wait_are_drawn(rows):
    assert not results.hide_times(Figure().subplots(), rows)


def test_several_panels_have_one_sentence():
    panels = Figure().subplots(1, 2)
    plot_bodies.plot_times_of_contenders(panels, [BUSY], [])
    assert [len(ax.texts) for ax in panels] == [1, 0]
    assert not any(ax.axison for ax in panels)


def test_a_race_on_a_shared_machine_is_not_drawn(shared):
    x = torch.ones(8)
    contenders = {"a": Contender(call=lambda: x + 1, row={"impl": "weft"})}
    row = race(contenders, "cpu", rounds=1)["a"].row()
    assert SENTENCE in texts_of(race_plot.plot_steps([row]))
