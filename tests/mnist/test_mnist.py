"""The MNIST job from Python: the model as an object, the twins, the race, the plots."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace

import float64
import matplotlib
import numpy as np
import pytest
import torch
from drawings import texts
from test_cnn import memory_limit
from test_training import noisy

import weft
from weft import __main__ as command
from weft import bench
from weft.base import style
from weft.base.errors import ArgumentError
from weft.benchmarks.race import plot
from weft.mnist import (
    Cnn,
    Config,
    Split,
    Twin,
    TwinTrainer,
    data,
    epoch_order,
    initial_weights,
    load,
    precision,
    run,
)
from weft.timing.results import add_torch_ratios

SMALL = {"channels": (2, 3), "hidden": 5}
PARTS = ("batch", "forward", "backward", "update", "zero")


@pytest.fixture(scope="module")
def train() -> Split:
    return load("train").first(200)


@pytest.fixture
def cnn(train):
    """Return a small model with PyTorch's first weights and 200 digits in both sets."""
    with Cnn(**SMALL, max_batch=50) as model:
        model.set_weights(initial_weights(0, **SMALL))
        model.data(train, train)
        yield model


def same(a: dict, b: dict) -> bool:
    return all(np.array_equal(a[name], b[name]) for name in {**a, **b})


# ---- Cnn ------------------------------------------------------------------------


def test_weights_have_the_names_and_shapes_of_the_twin(cnn):
    expected = initial_weights(0, **SMALL)
    assert list(cnn.weights) == list(expected)
    assert same(cnn.weights, expected)
    assert all(w.dtype == np.float32 for w in cnn.weights.values())


def test_training_is_the_twins_training(cnn):
    """From equal weights, our steps and PyTorch's are within float64's bounds."""
    train, lr = noisy(200), 0.1
    cnn.data(train, train)
    first, losses, parts = cnn.weights, [], []
    twin = TwinTrainer(first, train, lr=lr, batch=10, **SMALL)
    blocks = iter(epoch_order(0, 0, 200).reshape(-1, 10))
    for size in (10, 10, 4):  # the last batch is partial
        start = cnn.weights
        part, want = next(clear_steps(start, train, (at[:size] for at in blocks)))
        parts.append(part)
        twin.set_weights(start)
        cnn.train(part, 10, lr)
        losses += list(cnn.losses())
        (theirs,) = twin.train(twin.order(part))
        pairs = twin.model.named_parameters()
        twin_now = {name: value.detach().numpy() for name, value in pairs}
        for loss, weights in ((losses[-1], cnn.weights), (float(theirs), twin_now)):
            assert abs(loss - want.loss) <= want.bounds["loss"]
            for name, gradient in want.gradients.items():
                original = torch.from_numpy(start[name]).double()
                got = torch.from_numpy(weights[name]).double()
                # The update rounds lr, lr times the gradient, and the difference.
                update = 3 * float64.ULP * (original.norm() + lr * gradient.norm())
                bound = lr * want.bounds[name] + update
                assert (got - (original - lr * gradient)).norm() <= bound, name
    trained = cnn.weights
    cnn.set_weights(first)
    cnn.train(np.concatenate(parts), 10, lr)
    assert same(cnn.weights, trained) and list(cnn.losses()) == losses


def clear_steps(weights, train, parts):
    """Yield float64 steps, with their images, in which rounding changes no decision."""
    model = Twin(**SMALL).double()
    model.load_state_dict({n: torch.from_numpy(w) for n, w in weights.items()})
    for part in parts:
        step = float64.step(model, train.images[part], train.labels[part])
        if step.clear:
            yield part, step


def test_chunks_train_the_same_and_hand_out_every_loss(cnn, train):
    order = epoch_order(0, 0, 200)
    start = cnn.weights
    cnn.train(order, 30, 0.1)
    losses, weights = cnn.losses(), cnn.weights
    cnn.set_weights(start)
    assert np.array_equal(np.concatenate(list(cnn.chunks(order, 30, 0.1))), losses)
    assert same(cnn.weights, weights) and len(cnn.losses()) == 0


def test_evaluation_is_forward_in_batches(cnn, train):
    logits = np.concatenate([cnn.forward("test", range(i, i + 40)) for i in
                             range(0, 200, 40)])  # fmt: skip
    assert np.array_equal(cnn.predict("test", 40), logits.argmax(1))
    share = (logits.argmax(1) == train.labels).mean()
    counts: list[int] = []
    assert cnn.evaluate("test", 40, counts.append) == share
    assert counts == [40] * 5
    twin = TwinTrainer(cnn.weights, train, batch=50, **SMALL)
    x = twin._input(torch.from_numpy(train.images[:40].copy()))
    twin64 = Twin(**SMALL).double()
    twin64.load_state_dict({n: torch.from_numpy(w) for n, w in cnn.weights.items()})
    want, bound = float64.forward(twin64, train.images[:40])
    for got in (torch.from_numpy(logits[:40]), twin.model(x).detach()):
        assert ((got.double() - want).abs() <= bound).all()


def test_profile_has_all_parts_of_one_step(cnn):
    start = cnn.weights
    sections = cnn.profile(np.arange(20), 0.1)
    assert {name.split(".")[0] for name in sections} >= {*PARTS} - {"zero"}
    assert all(us >= 0 for us in sections.values())
    assert not same(cnn.weights, start) and len(cnn.losses()) == 1


def test_bytes_count_the_data(cnn, train):
    original = cnn.bytes
    cnn.data(Split(train.images[:100], train.labels[:100]))
    assert original - cnn.bytes == 100 * (28 * 28 + 1)


def test_save_and_load(cnn, tmp_path):
    path, saved = tmp_path / "weights", cnn.weights
    cnn.save(path)
    cnn.train(np.arange(50), 50, 0.1)
    assert not same(cnn.weights, saved)
    cnn.load(path)
    assert same(cnn.weights, saved)


def _flipped(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 255]) + data[place + 1 :]


def test_files_that_do_not_fit(cnn, tmp_path):
    original, path = cnn.weights, tmp_path / "w.npz"
    damages = {
        "no fc1.bias": {n: w for n, w in original.items() if n != "fc1.bias"},
        "unknown fc3.bias": original | {"fc3.bias": np.zeros(1, np.float32)},
        r"fc1.bias is float64 \(5,\)": original | {"fc1.bias": np.zeros(5)},
        r"\(6,\), but the model has float32 \(5,\)": original
        | {"fc1.bias": np.zeros(6, np.float32)},
    }
    for message, weights in damages.items():
        np.savez(path, **weights)
        with pytest.raises(ArgumentError, match=message):
            cnn.load(path)
    np.savez_compressed(path, **original)
    data = path.read_bytes()
    stream = data.index(b".npy") + 24  # skip the name and 20 bytes of NumPy
    version = data.index(b"PK\1\2") + 6  # the zip version in the central directory
    for damaged in (data[:300], _flipped(data, stream), _flipped(data, version)):
        path.write_bytes(damaged)
        with pytest.raises(ArgumentError, match=r"w.npz is not an .npz file"):
            cnn.load(path)
    with pytest.raises(ArgumentError, match="nowhere.npz: there is no such file"):
        cnn.load(tmp_path / "nowhere.npz")
    assert same(cnn.weights, original)


IMAGES, LABELS = np.zeros((3, 28, 28), np.uint8), np.zeros(3, np.uint8)
BAD_CALLS = {
    "image 200: the train set has 0 to 199": lambda c: c.train([0, 200], 2, 0.1),
    "image -1:": lambda c: c.train([0, -1], 2, 0.1),
    "image 4294967296:": lambda c: c.train(np.array([2**32]), 1, 0.1),
    r"shape \(2, 1\)": lambda c: c.train([[0], [1]], 2, 0.1),
    r"shape \(0,\)": lambda c: c.train(np.zeros(0, int), 2, 0.1),
    "dtype float64": lambda c: c.train([0.5], 1, 0.1),
    "a batch of 51, the model takes 1 to 50": lambda c: c.train([0], 51, 0.1),
    "a batch of 0": lambda c: c.train([0], 0, 0.1),
    "batch=1.5": lambda c: c.train([0], 1.5, 0.1),
    "lr = nan": lambda c: c.train([0], 1, float("nan")),
    "a batch of 60": lambda c: c.forward("test", range(60)),
    "no set 'valid'": lambda c: c.forward("valid", [0]),
    "batch=0: expected": lambda c: c.predict("test", 0),
    "conv1.weight is bfloat16": lambda c: c.set_weights(
        {n: torch.zeros(s, dtype=torch.bfloat16) for n, s in c.shapes.items()}
    ),
    "conv1.weight is object": lambda c: c.set_weights(dict.fromkeys(c.shapes)),
    "train images are float32": lambda c: c.data(Split(IMAGES.astype("f4"), LABELS)),
    r"shape \(3, 28, 27\)": lambda c: c.data(Split(IMAGES[:, :, 1:], LABELS)),
    r"shape \(0, 28, 28\)": lambda c: c.data(Split(IMAGES[:0], LABELS[:0])),
    r"shape \(2,\); 3 images need \(3,\)": lambda c: c.data(Split(IMAGES, LABELS[1:])),
    r"labels\[0\] = 10": lambda c: c.data(Split(IMAGES, LABELS + 10)),
}


@pytest.mark.parametrize("message", BAD_CALLS)
def test_bad_calls_say_the_numbers_and_change_nothing(cnn, message):
    original = cnn.weights
    with pytest.raises(ArgumentError, match=message):
        BAD_CALLS[message](cnn)
    assert same(cnn.weights, original)
    cnn.train(np.arange(200), 50, 0.1)
    assert np.isfinite(cnn.losses()).all()


BAD_MODELS = {
    "channels=.1, 2, 3.": {"channels": (1, 2, 3)},
    "channels=3: expected two": {"channels": 3},
    "channels1": {"channels": (0, 2)},
    "hidden=1.5": {"hidden": 1.5},
    "max_batch=inf": {"max_batch": float("inf")},
    "height": {"height": 3},
    "no rung 'quick' on cpu; it has reference, naive": {"rung": "quick"},
    "device 'tpu'": {"device": "tpu"},
    "device 'meta'": {"device": "meta"},
    "cuda:9: this machine has": {"device": "cuda:9"},
}


@pytest.mark.parametrize("message", BAD_MODELS)
def test_bad_models_are_refused(message):
    with pytest.raises(ArgumentError, match=message):
        Cnn(**BAD_MODELS[message])


def test_out_of_memory_is_an_error():
    Cnn(**SMALL, max_batch=2).close()  # this call opens the library
    with memory_limit(200 << 20), pytest.raises(weft.OutOfMemory, match="bytes needed"):
        Cnn(max_batch=20_000)


def test_without_data_or_labels(train):
    with Cnn(**SMALL, max_batch=50) as model:
        with pytest.raises(ArgumentError, match="no train set yet"):
            model.train([0], 1, 0.1)
        model.data(test=Split(train.images[:10], None))
        assert model.forward("test", range(10)).shape == (10, 10)
        with pytest.raises(ArgumentError, match="has no labels"):
            model.evaluate(batch=10)


def test_a_closed_model_refuses_and_closes_twice(train):
    model = Cnn(**SMALL, max_batch=2)
    model.close()
    model.close()
    for use in (lambda: model.weights, lambda: model.bytes, model.synchronize):
        with pytest.raises(ArgumentError, match="closed"):
            use()


@pytest.mark.slow
def test_models_free_their_memory(train):
    def resident() -> int:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def make() -> None:
        model = Cnn(max_batch=200)
        model.data(load("train"))  # copies 47 MB
        model.train(np.arange(200), 200, 0.1)

    make()
    gc.collect()
    original = resident()
    for _ in range(5):
        make()
    gc.collect()
    assert resident() - original < 60e6


def test_a_model_outlives_a_reload(cnn, train):
    weft.reload()
    cnn.data(train, train)
    cnn.train(np.arange(200), 50, 0.1)
    assert np.isfinite(cnn.losses()).all() and cnn.evaluate("test", 50) > 0
    with Cnn(**SMALL, max_batch=2) as second_model:
        second_model.set_weights(cnn.weights)
        assert same(second_model.weights, cnn.weights)


@pytest.mark.slow  # the quick tier interrupts the command
@pytest.mark.parametrize("way", ["train", "chunks"])
def test_ctrl_c_ends_training_and_leaves_the_weights(way):
    model = Cnn()
    model.data(load("train"))
    model.set_weights(initial_weights(0))
    order = np.tile(np.arange(60_000), 20)
    ctrl_c = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    ctrl_c.start()
    with pytest.raises(KeyboardInterrupt):
        for _ in getattr(model, way)(order, 64, 0.01):
            pass
    weights = model.weights
    assert all(np.isfinite(w).all() for w in weights.values())
    assert not same(weights, initial_weights(0))
    model.train(order[:64], 64, 0.01)
    model.close()


# ---- twins ------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["nchw", "channels_last"])
def test_a_twins_profile_is_one_of_its_steps(train, layout):
    start = initial_weights(1, **SMALL)
    options = {"layout": layout, "batch": 20, **SMALL}
    stepped, profiled = (TwinTrainer(start, train, **options) for _ in range(2))
    index = stepped.order(np.arange(20))
    stepped.step(index)
    sections = profiled.profile(index)
    layers = {name.partition(".")[2] for name in sections if "." in name}
    forward = {name for name in sections if name.startswith("forward.")}
    backward = {name for name in sections if name.startswith("backward.")}
    assert len(forward) == len(backward) == len(layers) == 12
    assert set(sections) - forward - backward == {"batch", "update", "zero"}
    assert all(us > 0 for us in sections.values())
    for a, b in zip(stepped.model.parameters(), profiled.model.parameters()):
        torch.testing.assert_close(a, b)


def test_first_weights_and_orders_depend_on_the_seed_alone():
    torch.manual_seed(5)
    original = torch.random.get_rng_state()
    assert same(initial_weights(3), initial_weights(3))
    assert not same(initial_weights(3), initial_weights(4))
    assert torch.equal(torch.random.get_rng_state(), original)
    assert np.array_equal(epoch_order(1, 2, 50), epoch_order(1, 2, 50))
    assert sorted(epoch_order(1, 2, 50)) == list(range(50))
    assert not np.array_equal(epoch_order(1, 2, 50), epoch_order(1, 3, 50))


def test_precision_is_set_and_restored():
    backends = torch.backends.cuda.matmul, torch.backends.cudnn
    original = [backend.allow_tf32 for backend in backends]
    for name, is_allowed in (("fp32", False), ("tf32", True), ("3xtf32", False)):
        with precision(name):
            assert [backend.allow_tf32 for backend in backends] == [is_allowed] * 2
    assert [backend.allow_tf32 for backend in backends] == original
    with pytest.raises(ArgumentError, match="no PyTorch twin in fp4"), precision("fp4"):
        pass


def test_a_twin_that_is_not_there(train):
    with pytest.raises(ArgumentError, match="no twin graph, nchw on cpu"):
        TwinTrainer(initial_weights(0), train, rung="graph")


# ---- a run ------------------------------------------------------------------------

QUICK = Config(epochs=2, limit=320, batch=32, iterations=5, progress=False)


@pytest.fixture(scope="module")
def result():
    """Return a short run against the eager twins, on a small test set.

    Compiling would take half a minute, so the fixture makes it fail.
    """
    test = load("test").first(500)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(data, "load", {"train": load("train"), "test": test}.get)
        patch.setattr(torch, "compile", broken_compiler)
        return run(replace(QUICK, compare=True))


def broken_compiler(*args, **kwargs):
    raise RuntimeError("no compiler here\nand much more")


def test_rows_have_the_keys_of_the_schema(result):
    keys = "op impl rung precision target device timer us us_low us_high us_mean batch "
    keys += "epochs parts_us layers_us epoch_s peak_bytes test_accuracy losses layout "
    keys += "vs_torch_eager vs_torch_best"
    ours, *theirs = result.rows
    assert [row["rung"] for row in theirs] == ["eager"] * 2 + ["eager+nobias"] * 2
    for row in result.rows:
        assert {*keys.split()} <= row.keys()
        assert 0 < row["us_low"] <= row["us"] <= row["us_high"]
        assert tuple(row["parts_us"]) == tuple(row["parts_mean_us"]) == PARTS
        assert (row["samples"], row["steps"]) == (1, 5)  # of the run's 5 iterations
    assert (ours["impl"], ours["rung"]) == ("weft", "reference")
    assert {row["layout"] for row in theirs} == {"nchw", "channels_last"}
    assert ours["peak_bytes"] > 320 * 784 and theirs[0]["peak_bytes"] is None
    best = min(row["us"] for row in theirs)
    assert ours["vs_torch_best"] == ours["vs_torch_eager"] == best / ours["us"]
    json.dumps(result.rows)


def test_ours_and_the_fastest_twin_are_trained_the_same(result):
    ours, *theirs = result.rows
    trained = [row for row in theirs if row["losses"] is not None]
    assert trained == [min(theirs, key=lambda row: row["us"])]
    assert len(ours["losses"]) == len(trained[0]["losses"]) == 20
    np.testing.assert_allclose(ours["losses"][:2], trained[0]["losses"][:2], rtol=1e-2)
    assert ours["losses"][0] == pytest.approx(trained[0]["losses"][0], rel=1e-5)
    assert len(ours["test_accuracies"]) == len(ours["epochs_s"]) == 2
    assert min(ours["epochs_s"]) > 0 and ours["epoch_s"] == np.mean(ours["epochs_s"])
    assert ours["test_accuracy"] == ours["test_accuracies"][-1] > 0.2
    assert result.cnn.evaluate() == ours["test_accuracy"]


def test_a_twin_that_fails_is_absent_with_its_reason(result):
    assert result.absent == {
        f"torch {rung}+nobias {layout}": "no compiler here"
        for rung in ("compile", "compile-step")
        for layout in ("nchw", "channels_last")
    }


def test_ratios_are_their_time_over_ours():
    ours = {"impl": "weft", "us": 10.0, "precision": "fp32", "batch": 8}
    twin = {"impl": "torch", "rung": "eager", "us": 30.0, "precision": "fp32"}
    twin |= {"batch": 8}
    rivals = [
        *[twin, twin | {"us": 20.0}, twin | {"rung": "compile", "us": 5.0}],
        *[twin | {"us": 1.0, "precision": "bf16"}, twin | {"us": 1.0, "batch": 16}],
    ]
    add_torch_ratios([ours, *rivals])
    assert (ours["vs_torch_eager"], ours["vs_torch_best"]) == (2, 0.5)
    assert rivals[0]["vs_torch_best"] is None
    add_torch_ratios([ours])
    assert ours["vs_torch_best"] is None


@pytest.mark.slow
def test_a_run_is_repeatable_and_begins_with_loaded_weights(tmp_path):
    path = tmp_path / "w.npz"
    first = run(replace(QUICK, epochs=1, save=path)).rows[0]
    repeat = run(replace(QUICK, epochs=1)).rows[0]
    assert first["losses"] == repeat["losses"]
    loaded_row = run(replace(QUICK, epochs=0, load=path)).rows[0]
    assert loaded_row["losses"] == []
    assert loaded_row["test_accuracy"] == first["test_accuracy"]


BAD_RUNS = {
    "epochs=-1": {"epochs": -1},
    "batch=0": {"batch": 0},
    "lr=nan": {"lr": float("nan")},
    "^threads=-1: expected at least 0": {"threads": -1},
    "^seed=-2: expected at least 0": {"seed": -2},
    "batch=64: expected at most 10": {"batch": 64, "limit": 10},
    "60001 images": {"limit": 60001},
}


@pytest.mark.parametrize("message", BAD_RUNS)
def test_bad_runs(message):
    with pytest.raises(ValueError, match=message):
        run(Config(progress=False, **BAD_RUNS[message]))


def test_the_command_line_writes_rows_picture_and_weights(tmp_path, capsys):
    paths = {name: tmp_path / f"run.{name}" for name in ("json", "svg", "npz")}
    arguments = "mnist --epochs 1 --limit 640 --iterations 3 --seed 2 --threads 1"
    arguments += f" --json {paths['json']} --plot {paths['svg']} --save {paths['npz']}"
    weft.set_threads(2)
    assert command.main(arguments.split()) == 0
    assert weft.set_threads(0) == 2  # the single thread was only for the run
    output = capsys.readouterr()
    assert "weft reference" in output.out and "batches of 1000" in output.out
    assert "(640 images)" in output.err and "loss " in output.err
    (row,) = bench.read_json(paths["json"])["rows"]
    assert (row["seed"], row["threads"], len(row["losses"])) == (2, 1, 10)
    assert row["vs_torch_best"] is None
    assert "weft reference" in paths["svg"].read_text()
    assert len(np.load(paths["npz"]).files) == 12


@pytest.mark.parametrize(
    "arguments, message",
    [
        ("--rung quick", "no rung 'quick'"),
        ("--device cuda:7", "this machine has"),
        ("--load nowhere.npz", "nowhere.npz"),
        ("--json nowhere/run.json", "there is no folder"),
    ],
)
def test_mistakes_on_the_command_line_are_one_sentence(arguments, message, capsys):
    assert command.main(["mnist", "--epochs", "0", *arguments.split()]) == 1
    output = capsys.readouterr().err
    assert message in output and "Traceback" not in output


def test_ctrl_c_on_the_command_line_saves_the_weights(tmp_path):
    path = tmp_path / "w.npz"
    program = [sys.executable, "-m", "weft", "mnist", "--epochs", "100"]
    program += ["--iterations", "1", "--save", str(path)]
    job = subprocess.Popen(program, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
    output = b""
    while b"epoch 1/" not in output:
        output += os.read(job.stderr.fileno(), 4096)
    job.send_signal(signal.SIGINT)
    errors = job.stderr.read().decode()
    assert job.wait() == 130
    assert "stopped" in errors and "Traceback" not in errors
    assert f"The weights are in {path}." in errors
    assert len(np.load(path).files) == 12


# ---- pictures ---------------------------------------------------------------------


def test_the_picture_of_a_run_says_what_was_measured_how(result):
    output = "\n".join(texts(plot.plot_run(result.rows)))
    ours = result.rows[0]
    assert "PyTorch's fastest: eager" in output and "batch 32, fp32" in output
    assert f"{ours['vs_torch_best']:.2f}×" in output
    timer = f"timer: {ours['timer']}"
    for word in (ours["device"], timer, "median", "threads", "fp32"):
        assert word in output
    assert f"{100 * ours['test_accuracy']:.2f}" in output


def test_parts_and_layers_are_drawn_with_their_values(result):
    output = texts(plot.plot_parts(result.rows))
    assert {*PARTS} <= {*output}
    output = "".join(texts(plot.plot_layers(result.rows))).replace(" ", "")
    assert "conv2" in output and "PyTorcheager" in output


def test_committed_results_are_hollow_with_device_and_date(result):
    committed = {"machine": {"date": "2026-01-02"}, "rows": [
        {**result.rows[0], "device": "Some GPU", "vs_torch_best": 0.0712},
        result.rows[1],
    ]}  # fmt: skip
    figure = plot.plot_steps(result.rows, [committed])
    output = "\n".join(texts(figure))
    assert "Some GPU, 2026-01-02" in output and "0.071×" in output
    bars = figure.axes[0].patches
    assert len(bars) == len(result.rows) + 1  # the chart omits PyTorch's committed rows
    hollow = [bar for bar in bars if bar.get_facecolor()[3] == 0]
    assert len(hollow) == 1 and hollow[0].get_linestyle() == "solid"


def test_bars_begin_at_zero_and_reach_their_value(result):
    axes = plot.plot_steps(result.rows).axes[0]
    widths = [bar.get_width() for bar in axes.patches]
    times = [row["us"] for row in result.rows]
    np.testing.assert_allclose(widths, np.array(times) * widths[0] / times[0])
    assert axes.get_xlim()[0] == 0 and all(bar.get_x() == 0 for bar in axes.patches)


def test_pictures_follow_the_pages_colours_and_are_equal_when_equal(result, tmp_path):
    first, repeat = (style.write_svg(plot.plot_run(result.rows)) for _ in range(2))
    assert first == repeat
    assert "currentColor" in first and style.INK not in first
    assert "#000000" not in first.lower().replace("stroke: #000000", "")
    style.save(plot.plot_steps(result.rows), tmp_path / "steps.png")
    assert (tmp_path / "steps.png").read_bytes()[:4] == b"\x89PNG"


def test_style_ends_where_it_ends():
    original = dict(matplotlib.rcParams)
    with style.style():
        assert matplotlib.rcParams["svg.fonttype"] == "none"
    assert dict(matplotlib.rcParams) == original


def test_layers_are_joined_until_both_sides_agree():
    fused = {"forward.a+b": 5.0, "forward.c": 1.0, "backward.c+b": 4.0}
    single = {"forward.a": 3.0, "forward.b": 4.0, "forward.c": 2.0}
    single |= {"forward.loss": 9.0, "backward.c": 6.0, "backward.b": 7.0}
    assert plot.layer_groups([fused, single]) == {
        "forward.a+b": [5.0, 7.0],
        "forward.c": [1.0, 2.0],
        "backward.c+b": [4.0, 13.0],
        "forward.loss": [None, 9.0],
    }
    crossed = [{"forward.a+b": 1.0, "forward.c": 1.0}, {"forward.a": 1.0,
               "forward.b+c": 2.0}]  # fmt: skip
    assert plot.layer_groups(crossed) == {"forward.a+b+c": [2.0, 3.0]}
