"""The race over batches and precisions: its contenders, its rows, its milestones."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace

import float64
import numpy as np
import pytest
import torch
from drawings import texts
from invented_products import peak_rows

from weft import __main__ as command
from weft import bench
from weft.base.errors import ArgumentError
from weft.benchmarks.race import command as bench_mnist
from weft.benchmarks.race import milestones, plot, race, work
from weft.commands import mnist as cli
from weft.mnist import (
    Cnn,
    Config,
    Split,
    Twin,
    TwinTrainer,
    data,
    exact_step,
    initial_weights,
    load,
    run,
)
from weft.mnist import train as train_module
from weft.mnist.rungs import list_ladder, parse_twin, rungs_of
from weft.timing.race import Contender

SMALL = {"channels": (2, 3), "hidden": 5}
EAGER = ["eager nchw"]


@pytest.fixture(scope="module")
def train() -> Split:
    return load("train").first(200)


def twin_of(train: Split, precision: str, **more) -> TwinTrainer:
    weights = initial_weights(0, **SMALL)
    return TwinTrainer(weights, train, precision=precision, batch=64, **more, **SMALL)


# ---- float64 and the precisions ----------------------------------------------


def test_a_step_in_float64_is_autograds(train):
    weights = initial_weights(0, **SMALL)
    model = Twin(**SMALL).double()
    model.load_state_dict({n: torch.from_numpy(w) for n, w in weights.items()})
    want = float64.step(model, train.images[:20], train.labels[:20])
    got = exact_step(weights, train.images[:20], train.labels[:20])
    assert got.loss == pytest.approx(want.loss, rel=1e-13)
    for name, gradient in want.gradients.items():
        np.testing.assert_allclose(got.gradients[name], gradient, atol=1e-13)


def test_errors_are_relative_and_a_nan_is_one(train):
    weights = initial_weights(0, **SMALL)
    exact = exact_step(weights, train.images[:20], train.labels[:20])
    scaled = {n: 1.01 * g for n, g in exact.gradients.items()}
    errors = exact.errors(1.02 * exact.loss, scaled)
    assert errors["loss_error"] == pytest.approx(0.02)
    assert errors["gradient_error"] == pytest.approx(0.01)
    assert "conv1.bias" not in errors["gradient_errors"]  # its gradient is 0
    scaled["fc2.bias"] = scaled["fc2.bias"] * np.nan
    assert np.isnan(exact.errors(exact.loss, scaled)["gradient_error"])


# The minimum error, below which the precision must be another one, and the maximum.
BOUNDS = {"fp32": (0, 1e-3), "bf16": (1e-3, 0.3), "fp16": (1e-4, 0.3)}


@pytest.mark.parametrize("precision", BOUNDS)
def test_a_twin_trains_in_its_precision(train, precision):
    twin = twin_of(train, precision)
    order = np.arange(64)
    exact = exact_step(
        initial_weights(0, **SMALL), train.images[:64], train.labels[:64]
    )
    minimum, maximum = BOUNDS[precision]
    loss, gradients = twin.gradients(twin.order(order))
    errors = exact.errors(loss, gradients)
    assert minimum <= errors["gradient_error"] <= maximum
    assert errors["loss_error"] <= maximum
    assert all(p.dtype == torch.float32 for p in twin.model.parameters())
    # One step moves the weights by lr times that gradient, regardless of the loss's
    # scale: w - lr g rounds lr g and the difference, each to within 2^-24.
    original = twin.model.fc2.bias.detach().double().numpy().copy()
    twin.set_lr(0.5)
    twin.train(twin.order(order))
    change = (original - twin.model.fc2.bias.detach().double().numpy()) / 0.5
    gradient = np.asarray(gradients["fc2.bias"], np.float64)
    largest = np.abs(original).max() + np.abs(gradient).max()
    np.testing.assert_allclose(change, gradient, rtol=0, atol=2**-23 * largest / 0.5)
    assert {"forward.conv1", "update"} <= twin.profile(twin.order(order)).keys()
    assert twin.evaluate(train) == (twin.predict(train) == train.labels).mean()


def test_precisions_that_are_not_there(train):
    with pytest.raises(ArgumentError, match="no tf32 on a CPU: it would train in fp32"):
        twin_of(train, "tf32")
    with pytest.raises(ArgumentError, match="no PyTorch twin in fp8; there are fp32"):
        twin_of(train, "fp8")


def test_without_its_graph_a_twin_keeps_its_weights(train):
    twin = twin_of(train, "fp32")
    plain_twin = twin.without_graph()
    assert (plain_twin.rung, twin.rung) == ("eager", "eager")
    plain_twin.train(plain_twin.order(np.arange(64)))
    assert twin.model is plain_twin.model


# ---- a heat ------------------------------------------------------------------


@pytest.fixture(scope="module")
def heat(train):
    log = []
    rungs, twins = ["reference", "quick"], ["eager nchw", "graph nchw"]
    options = {"rounds": 2, "train": train, "say": log.append}
    return race.run_heat("fp32", 16, rungs=rungs, twins=twins, **options, **SMALL), log


def test_a_heat_has_a_row_for_each_contender(heat):
    ours, theirs = heat[0]
    assert (ours["impl"], ours["rung"]) == ("weft", "reference")
    assert (theirs["impl"], theirs["layout"]) == ("torch", "nchw")
    for row in heat[0]:
        assert row["measure"] == "step" and row["precision"] == "fp32"
        assert 0 < row["us_low"] <= row["us"] <= row["us_high"]
        assert row["batch"] == 16 and row["samples"] == 2 and row["date"]
        assert 0 < row["gradient_error"] < 1e-3 and 0 <= row["loss_error"] < 1e-5
        assert row["gradient_error"] == max(row["gradient_errors"].values())
    assert ours["vs_torch_best"] == ours["vs_torch_eager"] == theirs["us"] / ours["us"]
    assert theirs["vs_torch_best"] is None and ours["host_us"] is None  # run on a CPU
    assert ours["peak_bytes"] > 200 * 784 and theirs["peak_bytes"] is None
    assert "update" in ours["layers_us"] and theirs["layers_us"] is None
    json.dumps(heat[0])


def test_who_fails_is_told_and_left_out(heat):
    absent = [line for line in heat[1] if line.startswith("absent")]
    assert len(absent) == 2
    assert "weft quick" in absent[0] and "no rung 'quick'" in absent[0]
    assert "no twin graph, nchw on cpu" in absent[1]


def test_who_fails_only_while_measured_is_left_out(train, monkeypatch):
    def broken(*_):
        raise torch.OutOfMemoryError("out of memory\nand more")

    monkeypatch.setattr(TwinTrainer, "gradients", broken)
    log = []
    options = {"rounds": 1, "train": train, "say": log.append, "rungs": ["reference"]}
    (ours,) = race.run_heat("fp32", 8, twins=EAGER, **options, **SMALL)
    assert ours["vs_torch_best"] is None
    assert log[-1] == "absent: PyTorch eager nchw: out of memory"


@pytest.mark.slow
def test_a_rung_races_in_its_own_precision_only(train):
    log = []
    options = {"rounds": 1, "train": train, "say": log.append, **SMALL}
    rows = race.run_heat("bf16", 8, rungs=["reference"], twins=EAGER, **options)
    assert [row["impl"] for row in rows] == ["torch"]
    assert log[0] == "absent: weft reference: it trains in fp32"


def test_a_twin_races_once(train):
    options = {"rounds": 1, "train": train, "rungs": (), "say": lambda _: None}
    rows = race.run_heat("fp32", 8, twins=["eager nchw", "eager"], **options, **SMALL)
    assert [(row["rung"], row["layout"]) for row in rows] == [("eager", "nchw")]


def test_a_captured_twin_leads_with_a_launch():
    steps = []
    one = {"gradients": None, "peak": None, "layers": None, "close": None}
    twin = race.TrainingContender(
        block=steps.append, calls=0, kind=parse_twin("graph64"), **one
    )
    for twin.calls in (0, 16, 256):
        twin.run_once()
    assert steps == [1, 16, 64]


@pytest.mark.parametrize("steps, timed", [(4, 4), (8, 64), (32, 64), (64, 64)])
def test_a_whole_launch_is_timed_unless_it_is_too_long(steps, timed):
    assert parse_twin("graph64").fill_launch(steps) == timed
    assert parse_twin("compile").fill_launch(steps) == steps


def test_a_batch_larger_than_the_data(train):
    with pytest.raises(
        ArgumentError, match="batch=201: expected 1 to 200, the training images"
    ):
        race.run_heat("fp32", 201, train=train)


def test_no_rung_races_simulated_unless_it_is_named():
    cpu = torch.device("cpu")
    assert rungs_of("fp32", cpu) == list_ladder(cpu, 64) == ["reference"]
    assert race.twins_of(cpu)[0] == "eager nchw"
    for target in ("cpu", "cuda"):
        kinds = [parse_twin(n.split()[0]) for n in race.twins_of(torch.device(target))]
        assert all(bool(kind.graph) == (target == "cuda") for kind in kinds)
        best = [kind for kind in kinds if kind.compiled]
        assert best and not any(kind.biases for kind in best)


def test_who_was_timed_long_enough_sits_out():
    steps = []
    pair = {
        "one": Contender(block=steps.append, calls=3, limit=1e-9),
        "none": Contender(block=lambda _: None, calls=1, limit=1e-9),
    }
    timings = race.race(pair, "cpu", rounds=4)
    assert [timed.timing.samples for timed in timings.values()] == [1, 1]
    assert steps == [1, 3]  # an untimed step, then the sample
    for contender in pair.values():
        contender.limit = math.inf
    timings = race.race(pair, "cpu", rounds=4)
    assert [timed.timing.samples for timed in timings.values()] == [4, 4]


# ---- several precisions in one run, the ladder -------------------------------


@pytest.fixture
def few(monkeypatch):
    """Reduce the data to a few digits for training and testing."""
    digits = {"train": load("train").first(64), "test": load("test").first(100)}
    monkeypatch.setattr(data, "load", digits.get)


def test_the_ladder_on_a_cpu_is_what_is_not_simulated(few):
    quick = Config(epochs=0, batch=32, iterations=1, progress=False)
    result = run(replace(quick, rung="ladder"))
    assert [row["rung"] for row in result.rows] == ["reference"]


@pytest.mark.slow
def test_each_rung_of_a_run_races_twins_of_its_own_precision(monkeypatch, few):
    def trainer(name, device, **more):
        cnn = Cnn("reference", device, **more)
        cnn.rung = replace(cnn.rung, name=name, precision=name)
        return cnn

    monkeypatch.setattr(train_module, "trainer", trainer)
    config = Config(rung="fp32,bf16", compare=True, twins=("eager nchw",), epochs=1)
    config = replace(config, batch=32, iterations=1, progress=False)
    result = run(config)
    ours, half, *theirs = result.rows
    assert [row["precision"] for row in result.rows] == ["fp32", "bf16"] * 2
    for row, twin in zip((ours, half), theirs):
        assert row["vs_torch_best"] == row["vs_torch_eager"] == twin["us"] / row["us"]
        assert len(row["losses"]) == len(twin["losses"]) == 2
    assert result.absent == {}
    output = cli.summarize_rows(result)
    assert "fp32, bf16" in output and "eager NCHW, bf16" in output
    labels = "\n".join(texts(plot.plot_run(result.rows)))
    assert "weft bf16" in labels and "eager NCHW, bf16" in labels


# ---- milestones --------------------------------------------------------------


@pytest.mark.parametrize("schedule", [milestones.TARGET, milestones.SEEDS])
def test_a_schedule_takes_every_image_once_an_epoch(schedule):
    count, batch = 1000, schedule.batch
    pieces = [*schedule.pieces(count)]
    for epoch in range(schedule.epochs):
        ends = [(first, end) for number, first, end, _ in pieces if number == epoch]
        assert ends[0][0] == 0 and ends[-1][1] == count // batch * batch
        assert all(a[1] == b[0] for a, b in itertools.pairwise(ends))
    rates = [lr for *_, lr in schedule.pieces(60_000)]
    assert max(rates) <= schedule.peak and min(rates) > 0
    if schedule.one_cycle:
        top = rates.index(max(rates))
        assert 0 < top < len(rates) / 2 and rates[-1] < 0.1 * schedule.peak
        assert rates[:top] == sorted(rates[:top])


@pytest.fixture
def given(monkeypatch):
    """Record each side's calls with their arguments, and its results."""
    all_calls = {"Ours": [], "Theirs": []}
    for name, calls in all_calls.items():
        kind = getattr(milestones, name)

        def note(method, kind=kind, calls=calls):
            real = getattr(kind, method)

            def noted(side, *args):
                reached = real(side, *args)
                calls.append((method, [as_lists(x) for x in args], reached))
                return reached

            monkeypatch.setattr(kind, method, noted)

        for method in ("start", "train", "accuracy"):
            note(method)
    return all_calls


def as_lists(x):
    if isinstance(x, dict):
        return {name: array.tolist() for name, array in x.items()}
    return x if isinstance(x, float) else x.tolist()


@pytest.mark.slow
@pytest.mark.parametrize("measure", ["epoch", "target"])
def test_milestones_train_both_sides_alike(train, measure, given):
    test = load("test").first(300)
    options = {"count": 2, "train": load("train").first(256), "test": test}
    options |= {"twins": ["eager channels_last"], "say": lambda _: None}
    ours, theirs = milestones.train_sides([measure], "fp32", "cpu", **options)
    for row, calls in ((ours, given["Ours"]), (theirs, given["Theirs"])):
        assert row["measure"] == measure
        reached = [value for method, _, value in calls if method == "accuracy"]
        assert row["test_accuracies"] == reached[1:]  # the first training is not timed
        assert row["test_accuracy"] == np.mean(row["test_accuracies"])
        assert row["us"] > 0 and row["batch"] == 64
    assert ours["vs_torch_best"] == theirs["us"] / ours["us"]
    # Weights, order of images and learning rates are the same, bit for bit.
    first, second = ([call[:2] for call in calls] for calls in given.values())
    assert first == second
    epochs = 1 + 2 * milestones.SCHEDULES[measure].epochs
    images = [len(args[0]) for method, args in first if method == "train"]
    assert sum(images) == epochs * 256


def test_milestones_leave_out_rungs_of_other_precisions():
    """Their rows would bear this precision's name. Unknown rungs are reported later."""
    names = ["pdl", "tf32", "bf16", "quick"]
    cpu = torch.device("cpu")
    assert milestones._select_rungs(names, "tf32", cpu, 64) == ["tf32", "quick"]
    assert milestones._select_rungs(names, "fp32", cpu, 64) == ["pdl", "quick"]


def test_a_side_that_fails_is_told(train):
    log = []
    options = {"count": 1, "train": train, "test": train, "say": log.append}
    options |= {"rungs": ["quick"], "twins": ["graph nchw"]}
    assert milestones.train_sides(["epoch"], "fp32", "cpu", **options) == []
    assert [line for line in log if line.startswith("absent: weft quick: mnist has")]
    assert [line for line in log if "no twin graph, nchw on cpu" in line]


def test_compiling_ahead_starts_a_process_for_each_twin(monkeypatch):
    started, log = [], []

    class Job:
        returncode = 1

        def __init__(self, words, env, **_):
            started.append(words[3:])
            assert env["TORCHINDUCTOR_COMPILE_THREADS"] == "1"

        def communicate(self):
            return "", "Traceback\nno compiler"

    monkeypatch.setattr(race.subprocess, "Popen", Job)
    cells = [("fp32", 8), ("bf16", 16)]
    names = ["compile nchw", "eager nchw"]
    # These start no process: one has the same code with a graph, one times kernels, and
    # one is unknown.
    more = ["compile+graph64", "compile+autotune nchw", "quick nchw"]
    race.warm_twins(cells, "cpu", [*names, *more], log.append)
    # Each process has its own thread, so their order varies.
    cells = [["bf16", "16", "cpu", names[0]], ["fp32", "8", "cpu", names[0]]]
    assert sorted(started) == cells
    assert log[-1] == "absent: compiled twin, bf16, batch 16: no compiler"


@pytest.mark.slow
def test_a_cold_start_is_a_process_of_its_own():
    (row,) = milestones.time_cold_starts(
        "fp32", "cpu", count=64, runs=1, say=lambda _: None
    )
    assert row["us"] == pytest.approx(1e6 * sum(row["parts_s"].values()))
    assert tuple(row["parts_s"]) == milestones.COLD_PARTS
    assert min(row["parts_s"].values()) > 0 and not row["imports_torch"]


def test_a_roof_is_of_the_peaks_of_its_precision(monkeypatch):
    monkeypatch.setattr(work, "peaks", lambda device: peak_rows())
    for precision, tflops in ("fp32", 65), ("tf32", 480), ("bf16", 960):
        (row,) = work.find_roof(precision, "cpu")
        assert (row["tflops"], row["gbs"]) == (tflops, 4000)
        assert (row["op"], row["measure"]) == ("mnist", "roof")
    monkeypatch.setattr(work, "peaks", lambda device: peak_rows()[:2])
    assert work.find_roof("bf16", "cpu") == []


# ---- what a step has to do ---------------------------------------------------

FUSED = [
    *["batch", "forward.conv1+bn1+relu1+pool1", "forward.conv2+pool2"],
    *["forward.bn2+relu2+fc1", "forward.relu3+fc2+loss", "backward.fc1+relu2"],
    *["backward.pool2+bn2+conv2+pool1+relu1+bn1+conv1", "backward.conv2.weight"],
    "update",
]


def test_the_sections_products_are_the_steps():
    # The head's section contains fc2's forward product and its two backward ones.
    flops = sum(
        count.flops
        for name in FUSED
        if (count := work.count_work(name, FUSED, 64, "fp32"))
    )
    backward = 2 * work.PRODUCTS["fc2"]
    assert flops == 64 * (work.STEP_FLOPS - backward)
    single = [f"forward.{name}" for name in work.LAYERS]
    single += [f"backward.{name}" for name in work.LAYERS]
    counts = [work.count_work(name, single, 64) for name in single]
    assert sum(count.flops for count in counts if count) == 64 * work.STEP_FLOPS


def test_winograd_does_16_multiplications_for_36_in_conv2():
    flops = [
        sum(count.flops for name in FUSED if (count := work.count_work(name, *args)))
        for args in ((FUSED, 64, "fp32", "pdl"), (FUSED, 64, "fp32", "winograd"))
    ]
    saved = 3 * 64 * work.PRODUCTS["conv2"] * 20 / 36
    assert flops[0] - flops[1] == pytest.approx(saved)
    floors = work.floor_us(64, 51.0), work.floor_us(64, 51.0, "winograd")
    assert floors[0] - floors[1] == pytest.approx(saved / 51e6)


def test_half_the_bytes_where_numbers_have_half_of_them():
    for name in FUSED[1:-1]:
        full = work.count_work(name, FUSED, 4096, "fp32")
        half = work.count_work(name, FUSED, 4096, "bf16")
        assert full.flops == half.flops and 0.4 < half.bytes / full.bytes < 1
    assert work.count_work("update", FUSED, 64) is None
    assert work.floor_us(64, 51.0) == pytest.approx(64 * work.STEP_FLOPS / 51e6)


# ---- python -m weft bench mnist ----------------------------------------------


def row(impl, rung, us, precision="fp32", batch=64, **more):
    fields = {"op": "mnist", "measure": "step", "impl": impl, "rung": rung, "us": us}
    fields |= {"precision": precision, "batch": batch, "layout": "nchw"}
    return fields | {"device": "that GPU", "target": "cuda", "timer": "t"} | more


def test_the_table_of_ratios():
    rows = [
        *[row("weft", "fused", 80.0), row("weft", "graph", 50.0)],
        *[row("cudnn", "cudnn", 1.0), row("torch", "graph", 400.0)],
        *[row("torch", "compile+graph", 300.0), row("weft", "bf16", 9.0, "bf16")],
        *[row("weft", "tf32", 90.0, "tf32"), row("torch", "graph", 300.0, "tf32")],
    ]
    fp32, tf32 = bench_mnist.compare_best(rows)
    assert (fp32["ours"], fp32["our us"], fp32["us"]) == ("graph", 50.0, 300.0)
    assert fp32["ratio"] == 6.0 and tf32["ratio"] == pytest.approx(300 / 90)
    (faster, _) = bench_mnist.compare_best([*rows, row("weft", "pdl", 40.0)])
    assert faster["ratio"] == 7.5 and faster["ours"] == "pdl"
    assert "PyTorch's fastest" in bench_mnist.note(rows)


def test_parts_of_a_sweep_come_together(tmp_path):
    path = tmp_path / "race.json"
    old = [row("weft", "a", 1.0), row("weft", "b", 2.0, batch=256)]
    assert bench_mnist.merged(path, old) == old
    bench.write_json(path, old)
    new = [row("weft", "a", 3.0), row("torch", "a", 4.0, "bf16")]
    rows = bench_mnist.merged(path, new)
    assert [(r["rung"], r["us"]) for r in rows] == [("a", 3.0), ("b", 2.0), ("a", 4.0)]
    elsewhere = [row("weft", "a", 5.0, device="another GPU")]
    assert bench_mnist.merged(path, elsewhere) == elsewhere


@pytest.mark.slow
def test_the_command_line_writes_and_merges(tmp_path, capsys, monkeypatch, train):
    monkeypatch.setattr("weft.mnist.data.load", lambda _: train)
    path = tmp_path / "race.json"
    line = f"bench mnist --rounds 1 --rungs reference --json {path} --twins"
    assert command.main([*line.split(), "", "--batches", "8"]) == 0
    assert command.main([*line.split(), "eager nchw", "--batches", "16"]) == 0
    rows = bench.read_json(path)["rows"]
    assert [(r["impl"], r["batch"]) for r in rows] == [
        *[("weft", 8), ("weft", 16), ("torch", 16)]
    ]
    output = capsys.readouterr()
    assert "ratio: PyTorch's fastest time over ours" in output.out
    assert "fp32, batch 16" in output.err


@pytest.mark.parametrize(
    "words, message",
    [
        ("--batches 8,x", "--batches x: expected whole numbers"),
        ("--measure speed", "--measure speed: expected some of step"),
        ("--rounds 0", "--rounds 0: must be at least 1"),
        pytest.param(
            "--precisions fp4", "nothing could be measured", marks=pytest.mark.slow
        ),
    ],
)
def test_mistakes_are_one_sentence(words, message, capsys):
    line = f"bench mnist {words} --rungs reference"
    assert command.main([*line.split(), "--twins", ""]) == 1
    output = capsys.readouterr().err
    assert message in output and "Traceback" not in output
