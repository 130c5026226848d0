"""Timing, and the JSON in which every measurement is written."""

import json
import math
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from tiers import only

from weft import __main__ as command
from weft import bench, ops
from weft.benchmarks import ops as bench_ops
from weft.timing.race import Contender, race


@pytest.fixture(autouse=True)
def draw_the_same_numbers():
    """A sum can be almost 0, and its relative error then exceeds every bound."""
    torch.manual_seed(0)


def test_summary_is_median_and_band():
    timing = bench.summarize(range(1, 102), "a timer")
    assert (timing.median, timing.low, timing.high) == (51, 21, 81)
    assert (timing.mean, timing.timer, timing.samples) == (51, "a timer", 101)
    assert timing.row() == {
        **{"timer": "a timer", "us": 51, "us_low": 21, "us_high": 81, "us_mean": 51},
    }
    with pytest.raises(ValueError, match="no samples"):
        bench.summarize([], "a timer")


def test_a_sleep_is_timed_at_its_length():
    timing = bench.time_call(lambda: time.sleep(0.004), samples=5, calls=2)
    assert timing.timer == "wall" and timing.samples == 5
    assert 4000 <= timing.low <= timing.median < 40_000


def test_contenders_take_turns_and_each_runs_all_its_iterations():
    calls, ticks = [], []
    pair = {
        name: Contender(block=lambda n, name=name: calls.append((name, n)), calls=5)
        for name in "ab"
    }
    results = race(pair, "cpu", rounds=3, tick=lambda: ticks.append(1))
    one_round = [("a", 1), ("a", 5), ("b", 1), ("b", 5)]
    assert calls == 3 * one_round and len(ticks) == 6
    assert results["a"].timing.samples == results["b"].timing.samples == 3


def test_a_block_is_divided_by_its_iterations():
    one = {"a": Contender(block=lambda n: time.sleep(0.004 * n), calls=4)}
    assert 4000 <= race(one, "cpu", rounds=1)["a"].us < 40_000


def test_a_round_may_be_discarded_and_samples_may_have_no_lead():
    events = []
    one = Contender(
        call=lambda: events.append("call"),
        **{"calls": 2, "lead": False, "most": 2},
        before=lambda: events.append("before"),
        after=lambda: events.append("after"),
    )
    results = race({"it": one}, "cpu", rounds=4, discard=1)
    assert events == ["before", "call", "call", "after"] * 3
    assert results["it"].timing.samples == 2


@pytest.mark.parametrize("bad", [{"samples": 0}, {"calls": 0}])
def test_zero_samples_or_calls_are_refused(bad):
    with pytest.raises(ValueError, match="=0"):
        bench.time_call(time.time, **bad)


def test_json_has_the_machine_and_one_line_per_row(tmp_path):
    path = tmp_path / "results.json"
    rows = [
        {"op": "x", "us": np.float32(1 / 3), "sizes": np.arange(3)},
        {"op": "y", "us": math.nan, "error": math.inf, "vs_torch": None},
    ]
    bench.write_json(path, rows, findings=["one"])
    results = bench.read_json(path)
    assert list(results["machine"]) == [
        *["device", "cpu", "cores", "driver", "toolkit", "torch", "date", "commit"],
    ]
    assert results["machine"]["cores"] >= 1 and results["findings"] == ["one"]
    assert results["rows"] == [
        {"op": "x", "us": 0.333333, "sizes": [0, 1, 2]},
        {"op": "y", "us": None, "error": None, "vs_torch": None},
    ]
    assert sum('"op"' in line for line in path.read_text().splitlines()) == 2
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_without_results_is_refused(tmp_path):
    path = tmp_path / "results.json"
    for text in ("", "[1, 2]", json.dumps({"rows": []})):
        path.write_text(text)
        with pytest.raises(ValueError, match="results.json contains no results"):
            bench.read_json(path)


def test_table_aligns_words_left_and_numbers_right():
    rows = [{"who": "a", "us": 1.23456}, {"who": "long", "us": None}, {"us": 123456.0}]
    assert bench.table(rows, ["who", "us"]).splitlines() == [
        *["who       us", "a      1.235", "long       -", "-     123456"],
    ]


@pytest.mark.parametrize(
    "op", only(["conv2d", "compact", "cross_entropy", "softmax"], bench_ops.PROBLEMS)
)
def test_an_op_is_timed_beside_pytorch_with_its_error(op, target):
    options = {"sizes": [64], "samples": 1, "compiled": False}  # compiling takes 10 s
    ours, *_, theirs = rows = bench_ops.rows(op, target, **options)
    keys = "op impl rung precision target device timer us us_low us_high gbs tflops "
    assert {*(keys + "error vs_torch").split()} <= ours.keys() == theirs.keys()
    assert (ours["impl"], theirs["impl"], theirs["rung"]) == ("weft", "torch", "eager")
    assert ours["vs_torch"] == theirs["us"] / ours["us"]
    # The bound holds for sums of 3136 products, the longest here, in fp32. In TF32,
    # even a single product is off by 5e-4.
    for row in (row for row in rows if row["precision"] == "fp32"):
        assert row["error"] <= 3136 * 2.0**-24 and (row["error"] > 0 or op in EXACT)


TIMED = ("bincount", "compact", "copy", "histogram", "reduce", "scan", "sort", "topk")


@pytest.mark.parametrize("op", only(["sort"], [*TIMED, "transpose"]))
def test_an_op_is_timed_beside_numpy_on_a_cpu(op):
    rows = bench_ops.rows(op, sizes=[64], samples=1, compiled=False)
    theirs = [row for row in rows if row["impl"] == "numpy"]
    assert theirs and all(row["error"] < 1e-5 for row in theirs)
    best = min(row["us"] for row in theirs)
    assert all(row["vs_numpy"] == best / row["us"] for row in rows)


@pytest.mark.slow
def test_an_op_of_rows_is_timed_beside_a_copy(capsys):
    found = {r["rung"]: r for r in bench_ops.rows("softmax", sizes=[33], samples=1)}
    assert found.keys() == {"reference", "eager"}
    for row in found.values():
        assert row["of_copy"] == row["gbs"] / row["copy_gbs"] > 0
    assert command.main(["bench", "softmax", "--sizes", "33"]) == 0
    assert "of_copy" in capsys.readouterr().out


def test_events_time_the_ops_of_pytorch_that_wait_for_a_number():
    problems = bench_ops.PROBLEMS.items()
    cpu = torch.device("cpu")
    waiting = {op for op, (make, _) in problems if make(64, cpu).torch_waits}
    assert waiting == {"bincount", "compact", "histogram"}


HELD = """
import resource
import torch
from weft.benchmarks.ops import hold_memory

def count_faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    torch.ones(2**24)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

with hold_memory(2**27):
    print(min(count_faults() for _ in range(30)))  # small arrays split the first blocks
print(count_faults())
"""


@pytest.mark.slow
def test_memory_that_is_held_is_used_again():
    # glibc keeps no large blocks for other threads, so this needs a separate process.
    command = [sys.executable, "-c", HELD]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    held, usual = map(int, done.stdout.split())
    assert held * 10 < usual


EXACT = ("relu", "maxpool2d", "copy", "transpose", "compact", "topk", "sort")
EXACT += ("histogram", "bincount")


def test_pytorch_is_timed_in_the_precision_that_the_row_names(monkeypatch):
    flags = []

    def theirs(x):
        flags.append(torch.backends.cudnn.allow_tf32)
        return x.relu()

    def make(size, device):
        return bench_ops.SizedProblem(
            {}, (torch.ones(size),), ops.relu, theirs, 0.0, 1.0
        )

    monkeypatch.setitem(bench_ops.PROBLEMS, "relu", (make, (8,)))
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
    bench_ops.rows("relu", samples=1)
    assert flags and not any(flags)
    assert torch.backends.cudnn.allow_tf32


def test_a_slow_rung_gets_fewer_samples(monkeypatch):
    calls = []

    def ours(x, rung):
        calls.append(rung)
        return x.relu()

    def make(size, device):
        inputs = (torch.ones(size),)
        return bench_ops.SizedProblem({}, inputs, ours, torch.relu, 0.0, 1.0)

    monkeypatch.setitem(bench_ops.PROBLEMS, "relu", (make, (8,)))
    monkeypatch.setattr(bench_ops, "SAMPLE", 0.0)  # one call per sample
    counts = []
    for seconds in (1e-9, 10.0):
        calls.clear()
        monkeypatch.setattr(bench_ops, "SLOWEST", seconds)
        bench_ops.rows("relu", samples=5)
        counts.append(len(calls))
    # One call measures the error; an untimed call precedes each sample.
    assert counts == [1 + 2, 1 + 2 * 5]


def test_the_command_prints_and_writes_an_ops_rows(tmp_path, capsys):
    path = tmp_path / "relu.json"
    assert command.main(f"bench relu --sizes 64,128 --json {path}".split()) == 0
    assert "reference" in capsys.readouterr().out
    rows = bench.read_json(path)["rows"]
    assert [row["count"] for row in rows] == [64, 64, 128, 128]


def test_commands_are_listed_and_unknown_ones_refused(capsys):
    with pytest.raises(SystemExit) as stop:
        command.main(["--help"])
    assert stop.value.code == 0
    output = capsys.readouterr().out
    assert all(name in output for name in command.COMMANDS)
    with pytest.raises(SystemExit) as stop:
        command.main(["nonsense"])
    assert stop.value.code == 2
    assert "nonsense" in capsys.readouterr().err


@pytest.mark.parametrize("name", command.COMMANDS)
def test_every_command_has_a_help(name, capsys):
    with pytest.raises(SystemExit) as stop:
        command.main([name, "--help"])
    assert stop.value.code == 0
    assert f"weft {name}" in capsys.readouterr().out


def test_the_cache_command_prints_the_size(capsys):
    assert command.main(["cache"]) == 0
    assert "MiB" in capsys.readouterr().out
