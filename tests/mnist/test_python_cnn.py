"""The CNN trained by the Python bodies, on each runner, against float64 and C.

Bounds, shapes and random weights are those of test_cnn.py.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import bodies_in_c
import numpy as np
import pytest
import torch
from bodies_in_c import in_c
from test_cnn import Shape, random_data, random_params, step64

from weft import bench, numba_jit, sim
from weft.base.errors import ArgumentError, KernelError
from weft.benchmarks.race import plot
from weft.commands import mnist as cli
from weft.mnist import Cnn, Config, PythonCnn, Split, load, run, rungs, train, trainer
from weft.mnist.rungs import threads_of_a_step

SHAPE = Shape(5, 6, 2, 3, 4, 3, max_batch=4)
QUIET = partial(sim, quiet=True)
CUDA = torch.cuda.is_available()
RUNNERS = [("cpu", QUIET), ("cpu", in_c), *([("cuda", numba_jit)] if CUDA else [])]
each_runner = pytest.mark.parametrize("device, runner", RUNNERS)


def sizes(shape: Shape) -> dict:
    """Return a Shape as the trainers' arguments."""
    fields = vars(replace(shape))
    channels = fields.pop("channels1"), fields.pop("channels2")
    return fields | {"channels": channels}


def ready(device, runner, shape: Shape = SHAPE, count: int = 20, kind=PythonCnn):
    """Return a model with random weights and data in both sets."""
    cnn = kind(runner, device, **sizes(shape))
    cnn.set_weights(random_params(shape))
    images, labels = random_data(shape, count)
    cnn.data(Split(images, labels), Split(*random_data(shape, count, seed=3)))
    return cnn


def clear(shape: Shape, params, batch: int) -> np.ndarray:
    """Find a batch in which rounding flips no ReLU or pool, as the bounds require."""
    images, labels = random_data(shape, 20)
    rng = np.random.default_rng(4)
    for _ in range(50):
        order = rng.permutation(20)[:batch]
        if step64(shape, params, images[order], labels[order]).margin > 1e-6:
            return order
    raise AssertionError("50 batches, and each has a value next to a kink")


@each_runner
def test_a_step_agrees_with_float64(device, runner):
    """The second step, on a smaller batch, must not read leftovers."""
    cnn = ready(device, runner)
    images, labels = random_data(SHAPE, 20)
    for batch in (4, 3):
        start = cnn.weights
        order = clear(SHAPE, start, batch)
        want = step64(SHAPE, start, images[order], labels[order])
        cnn.train(order, batch, lr=0.01)
        gradients = cnn.gradients
        assert not want.refuse(cnn.losses()[0], gradients)
        for name, new in cnn.weights.items():
            update = np.float32(0.01) * gradients[name]
            np.testing.assert_allclose(new, start[name] - update, rtol=2e-7, atol=1e-9)


def test_a_step_of_the_whole_model_agrees_with_float64():
    shape = Shape(28, 28, 32, 64, 128, 10, max_batch=2)
    cnn = ready("cuda" if CUDA else "cpu", numba_jit if CUDA else in_c, shape)
    images, labels = random_data(shape, 20)
    order = clear(shape, cnn.weights, 2)
    want = step64(shape, cnn.weights, images[order], labels[order])
    cnn.train(order, 2, lr=0.0)
    assert not want.refuse(cnn.losses()[0], cnn.gradients)


def test_the_same_training_as_the_naive_rung():
    """Both do the same operations in the same order; the last batch is partial."""
    ours, theirs = ready("cpu", in_c), ready("cpu", "naive", kind=Cnn_)
    order = np.random.default_rng(5).permutation(20)[:11].astype(np.int32)
    order.flags.writeable = False  # a caller's array may be read-only
    for cnn in ours, theirs:
        cnn.train(order, 4, 0.1)
    np.testing.assert_array_equal(ours.losses(), theirs.losses())
    assert len(ours.losses()) == 0
    for name, weights in theirs.weights.items():
        np.testing.assert_array_equal(ours.weights[name], weights)
    logits = [cnn.forward("test", [3, 19, 0, 3]) for cnn in (ours, theirs)]
    np.testing.assert_array_equal(*logits)
    assert ours.evaluate("test", 4) == theirs.evaluate("test", 4)


def Cnn_(rung, device, **model):
    return Cnn(rung, device, **model)


def test_chunks_hand_out_every_loss_and_profile_every_layer():
    cnn, twin = ready("cpu", in_c), ready("cpu", in_c)
    parts = list(cnn.chunks(np.arange(11), 4, 0.1))
    twin.train(np.arange(11), 4, 0.1)
    np.testing.assert_array_equal(np.concatenate(parts), twin.losses())
    theirs = ready("cpu", "naive", kind=Cnn_).profile(np.arange(4), 0.1)
    sections = cnn.profile(np.arange(4), 0.1)
    assert sections.keys() == theirs.keys() and min(sections.values()) >= 0
    assert len(cnn.losses()) == 1


def test_the_last_losses_are_kept(monkeypatch):
    from weft.mnist import python_cnn

    for module in python_cnn, python_cnn:
        monkeypatch.setattr(module, "KEPT", 3)
    cnn = ready("cpu", in_c)
    cnn.train(np.arange(5), 1, 0.0)
    losses = cnn.losses()
    cnn.train([2, 3, 4], 1, 0.0)
    np.testing.assert_array_equal(cnn.losses(), losses)
    assert len(losses) == 3


def test_weights_go_in_and_out_and_to_a_file(tmp_path):
    cnn = ready("cpu", in_c)
    params = random_params(SHAPE)
    cnn.save(tmp_path / "w.npz")
    cnn.train(np.arange(4), 4, 0.1)
    assert any((cnn.weights[n] != params[n]).any() for n in params)
    cnn.load(tmp_path / "w.npz")
    for name, values in cnn.weights.items():
        np.testing.assert_array_equal(values, params[name])


# ---- bad input -----------------------------------------------------------------------

BAD = {
    "a batch of 5: the model takes 1 to 4": lambda c: c.train([1], 5, 0.1),
    "a batch of 0: the model takes 1 to 4": lambda c: c.train([1], 0, 0.1),
    "a batch of 6: the model takes": lambda c: c.forward("test", range(6)),
    "lr = nan, expected 0 or more": lambda c: c.train([1], 1, float("nan")),
    "image 20: the train set has 0 to 19": lambda c: c.train([1, 20], 1, 0.1),
    "no set 'valid'": lambda c: c.forward("valid", [1]),
    "set_weights: no conv1.weight": lambda c: c.set_weights({}),
    r"test labels\[1\] = 3, the model has 3 classes": lambda c: c.data(
        None, Split(np.zeros((2, 5, 6), np.uint8), np.array([2, 3], np.uint8))
    ),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_calls_change_nothing(message):
    cnn = ready("cpu", in_c)
    logits = cnn.forward("test", np.arange(4))
    with pytest.raises(ArgumentError, match=message):
        BAD[message](cnn)
    np.testing.assert_array_equal(cnn.forward("test", np.arange(4)), logits)
    assert len(cnn.losses()) == 0


def test_without_labels_or_memory():
    cnn = ready("cpu", in_c)
    images, _ = random_data(SHAPE, 3)
    cnn.data(Split(images, None))
    assert np.isfinite(cnn.forward("train", np.arange(3))).all()
    with pytest.raises(ArgumentError, match="training set's 3 images have no labels"):
        cnn.train([0], 1, 0.1)
    original = cnn.bytes
    cnn.data(test=Split(np.repeat(images, 2, axis=0), None))
    assert original - cnn.bytes == (20 - 6) * (5 * 6 + 1)
    cnn.close()
    for name in ("weights", "gradients", "bytes"):
        with pytest.raises(ArgumentError, match="closed"):
            getattr(cnn, name)
    with pytest.raises(ArgumentError, match="closed"):
        cnn.forward("test", [0])


@pytest.mark.slow
def test_numba_compiles_all_bodies_for_a_gpu_in_float32():
    """This works without a GPU. On many GPUs, float64 would be 64 times slower."""
    for body, args in bodies_in_c.arguments().items():
        try:
            ptx = numba_jit(body).ptx(*args)
        except KernelError as error:
            pytest.skip(str(error))
        assert ".visible .entry" in ptx and ".f64" not in ptx, body


@pytest.mark.parametrize("change", [{"height": 3}, {"hidden": 0}, {"classes": 1}])
def test_bad_sizes(change):
    name, value = next(iter(change.items()))
    with pytest.raises(ArgumentError, match=f"{name} = {value}, expected at least"):
        PythonCnn(in_c, "cpu", **sizes(replace(SHAPE, **change)))


# ---- the rung ------------------------------------------------------------------------


def test_a_step_has_as_many_threads_as_it_launches():
    """A counting runner confirms the number of threads that the message contains."""
    shape = Shape(5, 6, 2, 3, 4, 3, max_batch=4)
    threads = []

    class Counting:
        def __init__(self, body):
            self.kernel = in_c(body)

        def __getitem__(self, key):
            def launch(*args):
                threads.append(key[0] * key[1])
                self.kernel[key](*args)

            return launch

    cnn = ready("cpu", Counting, shape)
    cnn.train(np.arange(4), 4, 0.1)
    fields = {k: v for k, v in cnn.config.items() if k != "max_batch"}
    assert threads_of_a_step(4, **fields) == sum(threads) and len(threads) > 30


@pytest.mark.skipif(CUDA, reason="here it runs")
def test_rung_numba_without_a_gpu_says_why():
    message = r"runs on a GPU \(there is none here\).* 0.4 ms a thread, .* 72 days\. .*"
    with pytest.raises(ArgumentError, match=message + "--rung naive"):
        run(Config(rung="numba", progress=False))


def test_rungs_by_name():
    assert [rung.name for rung in rungs("cpu")][:2] == ["numba", "reference"]
    assert trainer("fastest", "cpu", **sizes(SHAPE)).rung.name == "reference"
    with pytest.raises(ArgumentError, match="no rung 'nimba' on cpu; it has ref"):
        trainer("nimba", "cpu")
    with pytest.raises(ArgumentError, match="rung=naive, naive: .* twice"):
        Config(rung="naive, naive")


@pytest.mark.slow
def test_several_rungs_are_timed_and_trained_side_by_side(monkeypatch, tmp_path):
    """A Python rung, here compiled as C, takes the path of --rung numba."""
    monkeypatch.setattr(train, "trainer", lambda rung, device, **model: (
        PythonCnn(in_c, device, **model) if rung == "numba" else
        trainer(rung, device, **model)
    ))  # fmt: skip
    splits = {name: load(name).first(40) for name in ("train", "test")}
    monkeypatch.setattr(train.data, "load", splits.get)
    # With small batches, evaluation needs less memory.
    monkeypatch.setattr(train, "EVALUATION_BATCH", 40)
    config = Config(
        **{"rung": "reference,numba", "epochs": 1, "limit": 8, "batch": 4},
        **{"iterations": 1, "progress": False, "save": tmp_path / "w.npz"},
    )
    result = run(config)
    reference, numba = result.rows
    assert (reference["rung"], numba["rung"]) == ("reference", "numba")
    np.testing.assert_allclose(numba["losses"], reference["losses"], rtol=1e-3)
    assert numba["us"] > 0 and numba["layers_us"].keys() >= {"forward.conv1"}
    assert result.cnn.rung.name == "reference" and (tmp_path / "w.npz").exists()
    axes = plot.plot_steps(result.rows).axes[0]
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names == ["weft numba", "weft reference"]  # the rows go from slow to fast


def test_what_a_gpu_took_is_drawn_where_there_is_none(monkeypatch, tmp_path):
    row = dict(op="mnist", impl="weft", rung="numba", batch=64, precision="fp32")
    row |= dict(us=9e3, us_low=8e3, us_high=1e4, device="NVIDIA X", target="cuda")
    row |= dict(timer="CUDA events", threads=1, vs_torch_best=None)
    rows = [row, row | {"rung": "naive"}, row | {"batch": 32}]
    monkeypatch.setattr(cli, "RESULTS", tmp_path)
    bench.write_json(tmp_path / "mnist_x.json", rows)
    own_rows = [row | {"rung": "reference", "target": "cpu", "device": "a CPU"}]
    ghosts = cli.load_committed(own_rows)
    assert [results["rows"] for results in ghosts] == [[row]]
    axes = plot.plot_run(own_rows, ghosts).axes[0]
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names[0].startswith("weft numba\nNVIDIA X") and names[1:] == [
        "weft reference"
    ]
    assert cli.load_committed([row]) == []  # this machine measured the row
