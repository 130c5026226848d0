"""Check lesson 15's NumPy model against PyTorch, and its bound against mistakes."""

import functools
import json

import numpy as np
import pytest
import torch

from weft.benchmarks.sentences import RESULTS
from weft.mnist import Twin, epoch_order, initial_weights
from weft.mnist import numpy_cnn as mnist_numpy
from weft.mnist.data import load

CHOICES = [np.arange(i, i + 3) for i in range(0, 60, 3)]
TRAIN = load("train")


def params64() -> dict[str, np.ndarray]:
    return {k: v.astype(np.float64) for k, v in initial_weights(0).items()}


def step(params, images, labels):
    dtype = params["conv1.weight"].dtype
    y = mnist_numpy.forward(params, mnist_numpy.normalise(images).astype(dtype))
    return y, *mnist_numpy.backward(params, y, labels)


@functools.cache
def clear_batch() -> tuple[np.ndarray, np.ndarray]:
    """Return three images whose decisions rounding does not reverse."""

    def margin(order):
        return mnist_numpy.margin(step(params64(), *of(order))[0])

    return of(max(CHOICES, key=margin))


def of(order):
    return TRAIN.images[order], TRAIN.labels[order]


@pytest.mark.slow
def test_loss_and_gradients_are_autograds():
    images, labels = clear_batch()
    params = params64()
    y, gradients, _ = step(params, images, labels)
    twin = Twin().double()
    for name, parameter in twin.named_parameters():
        parameter.data = torch.from_numpy(params[name])
    logits = twin(torch.from_numpy(mnist_numpy.normalise(images)).double())
    loss = torch.nn.functional.cross_entropy(logits, torch.from_numpy(labels).long())
    loss.backward()
    assert mnist_numpy.cross_entropy(y["fc2"], labels) == pytest.approx(loss.item())
    assert list(gradients) == list(params)
    for name, parameter in twin.named_parameters():
        want = parameter.grad.numpy()
        np.testing.assert_allclose(gradients[name], want, rtol=1e-9, atol=1e-12)


@pytest.mark.slow
def test_float32_stays_float32_and_within_the_bound():
    images, labels = clear_batch()
    y, want, _ = step(params64(), images, labels)
    bounds = mnist_numpy.bounds(params64(), y, labels)
    y32, got, _ = step(initial_weights(0), images, labels)
    losses = [mnist_numpy.cross_entropy(outputs["fc2"], labels) for outputs in (y32, y)]
    assert abs(losses[0] - losses[1]) <= bounds.pop("loss")
    assert {a.dtype for a in [*y32.values(), *got.values()]} == {np.dtype("float32")}
    for name, bound in bounds.items():
        assert np.linalg.norm(got[name] - want[name]) <= bound, name


@pytest.mark.slow
def test_the_bound_tells_rounding_from_a_mistake():
    images, labels = clear_batch()
    y, want, _ = step(params64(), images, labels)
    bounds = mnist_numpy.bounds(params64(), y, labels)
    assert bounds["loss"] < 0.01
    for name in want.keys() - {"conv1.bias", "conv2.bias"}:  # these gradients are zero
        bound = bounds[name]
        for mistake in (0 * want[name], 3 * want[name], want[name][..., ::-1]):
            assert np.linalg.norm(mistake - want[name]) > bound, name


def test_the_margin_is_the_nearest_decision():
    fc1 = np.array([[3.0, -0.5]])
    blank = np.full((1, 1, 2, 2), 1.0)  # four equal values leave no decision
    for window, want in [
        ([[5, 4.75], [0, 0]], 0.25),  # the pool's choice of the larger value
        ([[-9, -0.125], [-3, -4]], 0.125),  # the ReLU's choice at 0
        ([[0.0625, -1], [-1, -1]], 0.0625),
        ([[9, 1], [1, 1]], 0.5),  # a decision of fc1's ReLU
    ]:
        y = {"bn1": np.array([[window]], float), "bn2": blank, "fc1": fc1}
        assert mnist_numpy.margin(y) == want


def test_the_closest_window_is_an_open_one_with_two_values_that_differ():
    window = {
        **{(0, 0): [5, 4.75, 0, 0], (0, 1): [1, 1, 1, 1]},
        **{(1, 0): [-1, -1.125, -2, -3], (1, 1): [3, 2, 2.5, 0]},
    }
    y = np.zeros((1, 1, 4, 4))
    for (row, col), values in window.items():
        corner = (slice(2 * row, 2 * row + 2), slice(2 * col, 2 * col + 2))
        y[0, 0][corner] = np.reshape(values, (2, 2))
    place, values = mnist_numpy.closest_window({"bn2": y}, "bn2")
    assert place == (0, 0, 0, 0) and [*values] == window[0, 0]


@pytest.mark.slow
def test_a_turned_window_pays_its_second_and_no_other_changes():
    y, *_ = step(params64(), *clear_batch())
    place, values = mnist_numpy.closest_window(y, "bn2")
    turned = mnist_numpy.turn_window(y, "bn2", place)
    winners = [mnist_numpy.windows(x["relu2"]).argmax(-1) for x in (y, turned)]
    assert [tuple(at) for at in np.argwhere(winners[0] != winners[1])] == [place]
    assert winners[1][place] == np.argsort(values)[-2]
    assert {name for name in y if turned[name] is not y[name]} == {"relu2"}


@pytest.mark.slow
def test_one_turned_window_explains_the_gradients_that_an_h200_measured():
    """Lesson 15b shows the fused step's distance from float64, a mean of 3 batches."""
    rows = json.loads((RESULTS / "race_nvidia_h100.json").read_text())["rows"]
    required = {"measure": "step", "rung": "fused", "batch": 64}
    (row,) = (row for row in rows if required.items() <= row.items())
    order = epoch_order(0, 0, len(TRAIN.images), 64).reshape(-1, 64)[1]
    y, exact, _ = step(params64(), *of(order))
    place, _ = mnist_numpy.closest_window(y, "bn2")
    turned = mnist_numpy.turn_window(y, "bn2", place)
    grads, _ = mnist_numpy.backward(params64(), turned, TRAIN.labels[order])
    for name in "conv1.weight", "bn1.weight", "bn1.bias", "conv2.weight":
        error = np.linalg.norm(grads[name] - exact[name]) / np.linalg.norm(exact[name])
        assert error / 3 == pytest.approx(row["gradient_errors"][name], rel=0.01), name
