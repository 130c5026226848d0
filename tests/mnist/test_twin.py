"""The steps of PyTorch's twin in each of its forms, against float64.

A step may be compiled in parts or as one function, and may be one of many in a launch.
It may lack the biases that batch norm cancels. The bounds are those of float64.py.
Without a GPU, the steps of a launch run without a capture.
"""

from __future__ import annotations

import float64
import numpy as np
import pytest
import torch
from tiers import only

from weft.base.errors import ArgumentError
from weft.mnist import Split, Twin, TwinTrainer, exact_step, initial_weights
from weft.mnist.rungs import TwinRung, parse_twin
from weft.mnist.twin import PROBE
from weft.mnist.weights import MOVELESS

SMALL = {"channels": (2, 3), "hidden": 5}
BATCH, LR = 10, 0.1
# On these images at this rate, rounding changes no decision in any of eight steps.
CLEAR_IMAGES, LOW_LR = np.arange(140, 150), 2.0**-11
LAYOUTS = ("nchw", "channels_last")
on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@pytest.fixture(scope="module")
def train() -> Split:
    """Return noise; on a plain background, all values of a window would tie."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (400, 28, 28), np.uint8)
    return Split(images, rng.integers(0, 10, 400).astype(np.uint8))


@pytest.fixture
def uncompiled(monkeypatch):
    """Make torch.compile return each function unchanged."""
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)


def twin_of(train: Split, rung: str, **options) -> TwinTrainer:
    options = {"batch": BATCH, "lr": LR, "capture": False, **SMALL, **options}
    return TwinTrainer(initial_weights(0, **SMALL), train, rung=rung, **options)


def weights_of(twin: TwinTrainer) -> dict[str, np.ndarray]:
    named = twin.model.named_parameters()
    return {name: p.detach().cpu().numpy().copy() for name, p in named}


# ---- names -------------------------------------------------------------------

NAMES = {
    "eager": TwinRung(),
    "graph": TwinRung(graph=1),
    "compile+graph": TwinRung("compile", graph=1),
    "graph64+nobias": TwinRung(graph=64, biases=False),
    "eager+nobias": TwinRung(biases=False),
    "compile-step+autotune+graph8+nobias": TwinRung("compile-step", True, 8, False),
}


@pytest.mark.parametrize("name", NAMES)
def test_a_name_has_a_word_for_each_choice(name):
    rung = parse_twin(name)
    assert rung == NAMES[name] and rung.name == name
    assert rung.family in ("eager", "graph", "compile", "compile+graph")
    assert rung.without_graph().graph == 0
    assert ("graph" in rung.family) == (rung.graph > 0)


@pytest.mark.parametrize(
    "name",
    [
        *("", "quick", "graph0", "graph1", "graph-2", "graphs", "nobias+eager"),
        *("autotune", "eager+autotune", "compiled", "compile+compile-step", "eager+"),
        *("graph+compile", "eager+graph", "compile+graph+graph8"),
    ],
)
def test_other_names_are_refused(name, train):
    with pytest.raises(ArgumentError, match=r"no twin .*compile-step; after these \+"):
        twin_of(train, name)


def test_a_graph_needs_a_gpu_unless_it_is_not_captured(train):
    with pytest.raises(ArgumentError, match=r"no twin graph64\+nobias, nchw on cpu"):
        twin_of(train, "graph64+nobias", capture=True)


# ---- a step ------------------------------------------------------------------


def model_of(weights: dict[str, np.ndarray]) -> Twin:
    """Return the model in float64 with these weights."""
    model = Twin(**SMALL).double()
    model.load_state_dict({n: torch.from_numpy(w) for n, w in weights.items()})
    return model


def find_clear_step(train: Split) -> tuple[np.ndarray, float64.Step]:
    """Return images for which rounding changes no decision, and their float64 step."""
    model = model_of(initial_weights(0, **SMALL))
    for part in np.arange(len(train)).reshape(-1, BATCH):
        step = float64.step(model, train.images[part], train.labels[part])
        if step.clear:
            return part, step
    raise AssertionError("every step is near a kink")


def check_step(twin: TwinTrainer, train: Split) -> None:
    """Check one step, its gradients and its update within float64's bounds."""
    part, want = find_clear_step(train)
    start = initial_weights(0, **SMALL)
    index = twin.order(part)
    loss, gradients = twin.gradients(index)
    unchanged = weights_of(twin)
    assert all(np.array_equal(start[name], w) for name, w in unchanged.items())
    (train_loss,) = twin.train(index)
    weights = weights_of(twin)
    assert len(weights) == 12 - 2 * (not twin.kind.biases)
    for got in (loss, float(train_loss)):
        assert abs(got - want.loss) <= want.bounds["loss"]
    for name, gradient in want.gradients.items():
        exact, bound = gradient.numpy(), want.bounds[name]
        w = start[name].astype(np.float64)
        # gradients() of a whole step rounds its update once.
        rounding = float64.ULP * (np.linalg.norm(exact) + np.linalg.norm(w) / PROBE)
        assert np.linalg.norm(gradients[name] - exact) <= bound + rounding, name
        if name in weights:
            # The update rounds lr, its product with the gradient, and the difference.
            size = np.linalg.norm(w) + LR * np.linalg.norm(exact)
            update = LR * bound + 3 * float64.ULP * size
            assert np.linalg.norm(weights[name] - (w - LR * exact)) <= update, name
    if not twin.kind.biases:
        assert not any(np.any(gradients[name]) for name in MOVELESS)
        assert all(gradients[name].shape == start[name].shape for name in MOVELESS)


def check_launch(twin: TwinTrainer, train: Split) -> None:
    """Check eight steps in one launch against eight steps in float64.

    The errors of earlier updates change the weights, and so later gradients: by less
    than the gradients' own bounds if 8 LOW_LR times the curvature is below 1. So the
    bounds are doubled. The curvature may be 256; along these steps it is at most 10.
    """
    twin.set_weights(initial_weights(0, **SMALL))
    twin.set_lr(LOW_LR)
    losses = twin.train(twin.order(np.tile(CLEAR_IMAGES, 8)))
    start = initial_weights(0, **SMALL)
    images, labels = train.images[CLEAR_IMAGES], train.labels[CLEAR_IMAGES]
    exact = {name: weight.astype(np.float64) for name, weight in start.items()}
    bounds = dict.fromkeys(exact, 0.0)
    for loss in losses:
        step = float64.step(model_of(exact), images, labels)
        assert step.clear
        norms = {n: float(torch.linalg.norm(g)) for n, g in step.gradients.items()}
        by_weights = sum(norms[name] * bound for name, bound in bounds.items())
        assert abs(float(loss) - step.loss) <= step.bounds["loss"] + by_weights
        for name, gradient in step.gradients.items():
            size = np.linalg.norm(exact[name]) + LOW_LR * norms[name]
            bounds[name] += 2 * LOW_LR * step.bounds[name] + 3 * float64.ULP * size
            exact[name] = exact[name] - LOW_LR * gradient.numpy()
    for name, weight in weights_of(twin).items():
        assert np.linalg.norm(weight - exact[name]) <= bounds[name], name


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    "rung", ["eager", "eager+nobias", "compile-step", "compile-step+graph8+nobias"]
)
def test_a_step_is_float64s(train, uncompiled, rung, layout):
    check_step(twin_of(train, rung, layout=layout), train)


COMPILED = [
    *[("compile+nobias", layout) for layout in LAYOUTS],
    *[("compile-step+nobias", layout) for layout in LAYOUTS],
    ("compile+autotune+nobias", "nchw"),
    ("compile-step+autotune+graph8+nobias", "nchw"),
]


@pytest.mark.slow
@pytest.mark.parametrize("rung, layout", COMPILED)
def test_a_compiled_step_is_float64s(train, rung, layout):
    check_step(twin_of(train, rung, layout=layout), train)


@pytest.mark.parametrize("precision", only(["fp16"], ["fp32", "bf16", "fp16"]))
def test_a_whole_step_has_the_gradients_of_its_parts(train, uncompiled, precision):
    """For any scale of the loss, both compute the same sums of the same products."""
    index = np.arange(BATCH)
    twins = [
        twin_of(train, rung, precision=precision) for rung in ("eager", "compile-step")
    ]
    (loss, parts), (again, whole) = [t.gradients(t.order(index)) for t in twins]
    assert loss == again
    for name, want in parts.items():
        # The update of a whole step is rounded once.
        rounding = 2.0**-24 * np.abs(want) + 2.0**-60
        assert (np.abs(whole[name] - want) <= rounding).all(), name


def test_without_biases_the_step_in_float64_is_the_same(train):
    """Biases change the loss and the gradients only by float64's rounding."""
    weights = initial_weights(0, **SMALL)
    zeros = {name: np.zeros_like(weights[name]) for name in MOVELESS}
    data = train.images[:BATCH], train.labels[:BATCH]
    biased, unbiased = exact_step(weights, *data), exact_step(weights | zeros, *data)
    errors = biased.errors(unbiased.loss, unbiased.gradients)
    assert errors["loss_error"] < 1e-13 and errors["gradient_error"] < 1e-10


# ---- many steps in a launch --------------------------------------------------


def test_an_epoch_takes_the_largest_launches_first(train):
    """937 steps are 14 x 64, 5 x 8 and 1, as in our rung; a partial batch follows."""
    twin = twin_of(train, "graph64+nobias", batch=2)
    assert twin.kind.sizes == [*twin._launches] == [64, 8, 1]
    launches, partial_sizes = [], []
    for steps in twin.kind.sizes:
        twin._launches[steps] = lambda steps=steps: launches.append(steps)
        twin._losses[steps] = [torch.zeros(())] * steps
    twin._step = lambda index: partial_sizes.append(len(index)) or torch.zeros(())
    losses = twin.train(torch.arange(2 * 937 + 1) % len(train))
    assert launches == [64] * 14 + [8] * 5 + [1]
    assert partial_sizes == [1] and len(losses) == 938
    assert (parse_twin("graph").sizes, parse_twin("graph5").sizes) == ([1], [5, 1])
    assert parse_twin("compile").sizes == []


GRAPHS = only(["graph8+nobias"], ["graph8+nobias", "graph8", "compile-step+graph8"])


def test_twins_that_share_weights_share_their_learning_rate(train):
    twin = twin_of(train, "graph")
    other = twin.without_graph()  # this call runs a step
    twin.set_weights(initial_weights(0, **SMALL))
    twin.set_lr(2 * LR)
    other.set_lr(LR)  # the twin already has this rate, so the call has no effect
    index = twin.order(np.arange(BATCH))
    twin.train(index)
    trained = weights_of(twin)
    single = twin_of(train, "eager")
    single.train(index)
    assert all((trained[n] == w).all() for n, w in weights_of(single).items())


@pytest.mark.parametrize("rung", GRAPHS)
def test_a_launch_of_steps_is_float64s(train, uncompiled, rung):
    check_launch(twin_of(train, rung), train)


@pytest.mark.parametrize("rung", GRAPHS)
def test_launches_train_as_single_steps_do(train, uncompiled, rung):
    """The bits are equal, with a partial batch at the end, for any learning rate."""
    twin, single = twin_of(train, rung), twin_of(train, rung).without_graph()
    # without_graph() runs a step to measure memory.
    single.set_weights(initial_weights(0, **SMALL))
    assert single.kind == twin.kind.without_graph() and not single._launches
    order = twin.order(np.random.default_rng(1).permutation(len(train))[:194])
    losses = [[], []]
    for lr, first, last in ((0.1, 0, 90), (0.02, 90, 194)):
        for twin_losses, one in zip(losses, (twin, single)):
            one.set_lr(lr)
            twin_losses += [float(loss) for loss in one.train(order[first:last])]
    assert len(losses[0]) == 20 and losses[0] == losses[1]
    weights, expected = weights_of(twin), weights_of(single)
    assert all(np.array_equal(weights[name], expected[name]) for name in expected)
    with twin.mode():
        twin.queue(order)
        assert float(twin.step(order[:BATCH])) == float(twin._losses[1][0])
    single.train(order)
    single.train(order[:BATCH])
    weights, expected = weights_of(twin), weights_of(single)
    assert all(np.array_equal(weights[name], expected[name]) for name in expected)


@on_gpu
@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    "rung", ["graph8", "compile+graph8+nobias", "compile-step+graph8+nobias"]
)
def test_captured_steps_are_float64s(train, rung, layout):
    options = {"device": "cuda", "capture": True, "layout": layout}
    twin = twin_of(train, rung, **options)
    check_step(twin, train)  # a launch of one step
    check_launch(twin, train)  # a launch of eight steps
    # At a learning rate of 0, every loss of a launch is that of the initial weights.
    twin.set_weights(initial_weights(0, **SMALL))
    twin.set_lr(0.0)
    losses = twin.train(twin.order(np.arange(17 * BATCH)))
    start = initial_weights(0, **SMALL)
    model = model_of(start)
    for part, loss in zip(np.arange(17 * BATCH).reshape(-1, BATCH), losses):
        want = float64.step(model, train.images[part], train.labels[part])
        assert abs(float(loss) - want.loss) <= want.bounds["loss"]
    weights = weights_of(twin)
    assert all(np.array_equal(start[name], w) for name, w in weights.items())
    # The twin without its graph has the same weights, code and rate. It has already run
    # a step to measure memory.
    twin.set_lr(LR)
    single = twin.without_graph()
    single.set_weights(start)
    check_step(single, train)
