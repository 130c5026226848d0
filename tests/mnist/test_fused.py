"""The fused step: the rungs of the CNN trainer that support only one model.

On the CPU their kernels are simulated, a full-size model thread by thread, so batches
are tiny here. The error bound of each rung is that of test_cnn.py for fp32, in units of
the rounding of the rung's own factors.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from fused64 import CHAIN
from test_cnn import (
    GRADIENT,
    SHAPES,
    TEST,
    TINY,
    TRAIN,
    Cnn,
    clear_batch,
    random_data,
    random_params,
    ready,
    run_step,
    step64,
    takes,
)
from tiers import only

from weft import mnist
from weft.base.errors import ArgumentError
from weft.toolchain import native

MODEL = replace(SHAPES[-1], max_batch=3)
# The rounding of a factor, half a unit in its last place, relative to that of fp32.
COARSER = {"fp32": 1, "tf32": 2**13, "fp16": 2**13, "bf16": 2**16}


@cache
def precision(rung: str) -> str:
    return {r.name: r.precision for r in native.rungs("mnist", "cpu")}[rung]


def fused(precisions: tuple[str, ...] = tuple(COARSER)) -> list:
    targets = ["cpu", *["cuda"] * torch.cuda.is_available()]
    return [
        pytest.param(target, rung.name, id=f"{target}-{rung.name}")
        for target in targets
        for rung in native.rungs("mnist", target)
        if target in rung.targets
        and rung.precision in precisions
        and not takes(target, rung.name, TINY)
        and takes(target, rung.name, MODEL)
    ]


each_rung = pytest.mark.parametrize("target, rung", fused())
each_fp32_rung = pytest.mark.parametrize("target, rung", fused(("fp32",)))


def same(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> bool:
    return all((one[name] == other[name]).all() for name in other)


# ---- results -----------------------------------------------------------------------


@each_fp32_rung
def test_a_step_agrees_with_float64(target, rung):
    """The step must not read the leftovers of an earlier, larger batch."""
    cnn = ready(target, rung, MODEL)
    images, labels = random_data(MODEL, 20)
    rng = np.random.default_rng(4)
    for batch in (3, 1):
        order = clear_batch(cnn, images, labels, batch, rng)
        original = cnn.get()
        want, loss, gradients = run_step(cnn, images, labels, order, lr=0.01)
        assert not want.refuse(loss, gradients)
        for name, new in cnn.get().items():
            update = np.float32(0.01) * gradients[name]
            np.testing.assert_allclose(
                *(new, original[name] - update),
                rtol=2**-22,
                atol=2**-22 * np.abs(update).max() + 1e-30,
            )


# fp16 and bf16 share a kernel, and simulated tensor cores are slow.
@pytest.mark.parametrize(
    "target, rung",
    only([("cpu", "bf16")], fused(("tf32", "bf16", "fp16")), names=2),
)
def test_a_step_on_tensor_cores_is_as_near_as_its_factors(target, rung):
    """Values next to a kink may fall on its other side, so the test compares sums."""
    cnn = ready(target, rung, MODEL)
    images, labels = random_data(MODEL, 20)
    want, loss, gradients = run_step(cnn, images, labels, np.arange(3), lr=0.01)
    bound = COARSER[precision(rung)] * 2**-24
    assert abs(loss - want.loss) <= 8 * bound * want.loss_magnitude
    for name, gradient in want.gradients.items():
        error = np.linalg.norm(gradients[name] - gradient)
        assert error <= 8 * bound * np.linalg.norm(want.magnitudes[name]), name


@pytest.mark.parametrize(
    "target, rung", only([("cpu", "fused"), ("cpu", "bf16")], fused(), names=2)
)
def test_forward_agrees_with_float64(target, rung):
    cnn = ready(target, rung, MODEL)
    images, labels = random_data(MODEL, 20, seed=3)
    for order in ([3, 19, 3], [5]):
        want = step64(MODEL, cnn.get(), images[order], labels[order])
        error = np.abs(cnn.forward(TEST, np.array(order)) - want.logits).max()
        bound = want.unit if precision(rung) == "fp32" else COARSER[precision(rung)]
        if precision(rung) != "fp32":
            bound = 8 * bound * 2**-24
        assert error <= bound * want.loss_magnitude


# ---- many steps --------------------------------------------------------------------


@pytest.mark.slow
@each_rung
def test_a_call_takes_the_same_steps_as_many_calls(target, rung):
    """The bits are equal, with a smaller batch at the end."""
    batch, count = (3, 200) if target == "cuda" else (2, 5)
    if target == "cpu" and precision(rung) != "fp32":
        count = 3  # simulated tensor cores are slow
    order = np.random.default_rng(5).integers(0, 20, count)
    joint, single = ready(target, rung, MODEL), ready(target, rung, MODEL)
    joint.train(order, batch, 0.01)
    for first in range(0, len(order), batch):
        single.train(order[first : first + batch], batch, 0.01)
    np.testing.assert_array_equal(joint.losses(), single.losses())
    assert same(joint.get(), single.get())
    assert not same(joint.get(), random_params(MODEL))


@pytest.mark.slow
@pytest.mark.parametrize("target", sorted({p.values[0] for p in fused()}))
def test_a_graph_computes_what_single_launches_do(target):
    """The results agree even for a rate, images and batches that were not captured."""
    rungs = [p.values[1] for p in fused(("fp32",)) if p.values[0] == target]
    rungs.remove("winograd")  # Winograd's form rounds differently
    images, labels = random_data(MODEL, 9, seed=8)
    seen = []
    for rung in rungs:
        cnn = ready(target, rung, MODEL)
        cnn.train(np.arange(9), 1, 0.01)  # one graph of 8 steps, and one of 1
        cnn.data(TRAIN, images, labels)
        cnn.train(np.arange(2), 1, 0.02)
        cnn.train(np.arange(3), 2, 0.01)
        seen.append((cnn.losses(), cnn.get(), cnn.get(GRADIENT)))
    assert len(seen) >= 2
    for losses, weights, gradients in seen[1:]:
        np.testing.assert_array_equal(losses, seen[0][0])
        assert same(weights, seen[0][1]) and same(gradients, seen[0][2])


@pytest.mark.slow
@pytest.mark.parametrize("target", sorted({p.values[0] for p in fused()}))
def test_more_batch_sizes_than_graphs_are_kept(target):
    """Evicted graphs are captured again when they are needed."""
    model, losses = replace(MODEL, max_batch=6), []
    for rung in ("fused", "graph"):
        cnn = ready(target, rung, model)
        for batch in (1, 2, 3, 4, 5, 6, 2, 1):
            cnn.train(np.arange(batch), batch, 0.01)
        losses.append((cnn.losses(), cnn.get()))
    np.testing.assert_array_equal(losses[0][0], losses[1][0])
    assert same(losses[0][1], losses[1][1])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("rung", [p.values[1] for p in fused() if p.values[0] != "cpu"])
def test_steps_on_streams_follow_each_other(rung):
    """Calls on several streams run one after the other, as on one stream."""
    train = mnist.Split(*random_data(MODEL, 99))
    losses = []
    for streams in ([None], [torch.cuda.Stream() for _ in range(3)]):
        with mnist.Cnn(rung, "cuda", max_batch=3) as cnn:
            cnn.set_weights(random_params(MODEL))
            cnn.data(train)
            for call in range(12):
                with torch.cuda.stream(streams[call % len(streams)]):
                    cnn.train(np.arange(99), 3, 0.01)
            losses.append(cnn.losses())
    np.testing.assert_array_equal(*losses)


# ---- weights, sections, arrays -------------------------------------------------------


@each_rung
def test_weights_come_back_as_they_went_in(target, rung):
    cnn = Cnn(target, rung, MODEL)
    assert all((v == 0).all() for kind in (0, 1) for v in cnn.get(kind).values())
    cnn.set(random_params(MODEL))
    assert same(cnn.get(), random_params(MODEL))


@pytest.mark.parametrize(
    "target, rung", only([("cpu", "fused")], fused(("fp32",)), names=2)
)
def test_profile_times_the_kernels_of_a_step_that_trains(target, rung):
    cnn, twin = ready(target, rung, MODEL), ready(target, rung, MODEL)
    sections = cnn.profile(np.arange(2))
    twin.train(np.arange(2), 2)
    np.testing.assert_array_equal(cnn.losses(), twin.losses())
    assert same(cnn.get(), twin.get())
    names = [name.partition(".")[2].split("+") for name in sections]
    layers = [layer for name in names for layer in name if layer]
    assert {"batch", "update"} <= set(sections) and all(sections.values())
    for i in "12":
        for layer in ("conv", "bn", "relu", "pool"):
            # One forward and one backward section.
            assert layers.count(f"{layer}{i}") == 2, layer


@pytest.mark.slow
def test_sums_over_patches_are_not_timed_as_conv1():
    """A single step computes the sums in "batch"; in a run, the previous step does."""
    cnn = ready("cpu", "fused", MODEL)
    profiles = [cnn.profile(np.arange(2)) for _ in range(3)]
    batch, update = (
        min(sections[n] for sections in profiles) for n in ("batch", "update")
    )
    assert batch > 0.02 * update  # a launch of one thread takes far less


@pytest.fixture(scope="module")
def stepped():
    target, rung = "cpu", "fused"
    with mnist.Cnn(rung, target, max_batch=3) as cnn:
        images, labels = random_data(MODEL, 5)
        cnn.set_weights(random_params(MODEL))
        cnn.data(train=mnist.Split(images, labels))
        with pytest.raises(ArgumentError, match="no step has been taken yet"):
            cnn.peek("p1")
        cnn.train(np.array([4, 0]), 2, 0.0)
        yield cnn


def test_peek_shows_what_lies_between_the_kernels(stepped):
    p1, c2, m2 = stepped.peek("p1"), stepped.peek("c2"), stepped.peek("m2")
    assert p1.shape == (2, 196, 32) and (p1 >= 0).all() and p1.any()
    assert c2.shape == (2, 196, 64) and m2.shape == (2, 49, 64)
    windows = c2.reshape(2, 7, 2, 7, 2, 64).transpose(0, 1, 3, 2, 4, 5)
    windows = windows.reshape(2, 49, 4, 64)
    code = stepped.peek("code2").astype(int)
    picked = np.take_along_axis(windows, code[:, :, None], axis=2)[:, :, 0]
    np.testing.assert_array_equal(picked, m2)
    positive = stepped.weights["bn2.weight"] > 0
    np.testing.assert_array_equal(
        m2, np.where(positive, windows.max(axis=2), windows.min(axis=2))
    )
    c2_64, sums = c2.astype(float), stepped.peek("sum2").astype(float).sum(axis=0)
    for got, terms in zip(sums, (c2_64, c2_64**2)):  # the terms of c2, summed in fp32
        error = abs(got - terms.sum(axis=(0, 1)))
        assert (error <= CHAIN * abs(terms).sum(axis=(0, 1))).all()


def test_peek_names_what_there_is(stepped):
    with pytest.raises(ArgumentError, match="no array 'c3'; there are p1, code1"):
        stepped.peek("c3")
    naive = mnist.Cnn("naive", channels=(1, 1), max_batch=1)
    with naive, pytest.raises(ArgumentError, match="the fused rungs can"):
        naive.peek("p1")


# ---- what is refused -----------------------------------------------------------------


@each_rung
@pytest.mark.parametrize("size", ["height", "width", "channels1", "channels2"])
def test_other_models_are_refused(target, rung, size):
    with pytest.raises(ArgumentError, match="made for images of 28x28"):
        Cnn(target, rung, replace(MODEL, **{size: getattr(MODEL, size) + 1}))
