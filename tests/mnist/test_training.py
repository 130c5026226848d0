"""Check training, step by step against float64, and as a whole against PyTorch.

At lr 0.1 training is chaotic: within 50 steps, the loss of PyTorch's own fp32 differs
by 0.4 from its float64. So every step starts from the float64 weights of that step, and
must meet the bounds of float64.py. Complete runs are compared by accuracy.
"""

from __future__ import annotations

import json

import float64
import numpy as np
import pytest
import torch
from tiers import only

from weft.base.errors import KernelError
from weft.benchmarks.sentences import RESULTS
from weft.mnist import (
    Cnn,
    Config,
    Split,
    Twin,
    initial_weights,
    load,
    run,
)
from weft.toolchain import native

STEPS, LR = 50, 0.1
SMALL = {"channels": (3, 5), "hidden": 17}


def noisy(count: int) -> Split:
    """Return digits in noise; on a plain background, a window's values would tie."""
    digits = load("train").first(count)
    noise = np.random.default_rng(1).integers(0, 64, digits.images.shape, np.uint8)
    return Split(digits.images // 4 * 3 + noise, digits.labels)


def rounded(weights: dict[str, torch.Tensor]) -> dict[str, np.ndarray]:
    return {name: value.detach().float().numpy() for name, value in weights.items()}


def follow(cnn: Cnn, model_sizes: dict, batch: int) -> None:
    """Take 50 float64 steps, and one of our steps from the weights before each."""
    train = noisy(STEPS * batch)
    cnn.data(train)
    first = initial_weights(0, **model_sizes)
    weights = {n: torch.from_numpy(w).double() for n, w in first.items()}
    model = Twin(**model_sizes).double()
    for number in range(STEPS):
        at = np.arange(number * batch, (number + 1) * batch)
        start = rounded(weights)
        model.load_state_dict({n: torch.from_numpy(w) for n, w in start.items()})
        want = float64.step(model, train.images[at], train.labels[at])
        cnn.set_weights(start)
        cnn.train(at, batch, LR)
        bad = want.refuse(float(cnn.losses()[0]), cnn.gradients)
        assert not bad, f"step {number}: {'; '.join(bad)}"
        for name, gradient in want.gradients.items():
            weights[name] = weights[name] - LR * gradient


def takes_small(target: str, rung: str) -> bool:
    """Return whether the rung runs here and accepts a model of any size."""
    try:
        Cnn(rung, target, **SMALL, max_batch=1).close()
    except KernelError:
        return False
    return True


def rungs(*names: str) -> list:
    """List every rung here (or of these names) as (target, rung)."""
    targets = ["cpu", *["cuda"] * torch.cuda.is_available()]
    return [
        pytest.param(target, rung.name, id=f"{target}-{rung.name}")
        for target in targets
        for rung in native.rungs("mnist", target)
        if target in rung.targets
        and rung.precision == "fp32"
        # The CPU simulates CUDA rungs, which allows only small models.
        and not (names and target == "cpu" and rung.name not in names)
        and (names or takes_small(target, rung.name))
    ]


@pytest.mark.parametrize("target, rung", only([("cpu", "reference")], rungs(), names=2))
def test_each_of_50_steps_agrees_with_float64(target, rung):
    with Cnn(rung, target, **SMALL, max_batch=12) as cnn:
        follow(cnn, SMALL, batch=12)


@pytest.mark.slow
@pytest.mark.parametrize("target, rung", rungs("reference"))
def test_each_of_50_steps_agrees_with_float64_at_full_size(target, rung):
    with Cnn(rung, target, max_batch=64) as cnn:
        follow(cnn, {}, batch=64)


def small_step(change=lambda weights: weights, lr: float = LR):
    """Return the small model's float64 step, and PyTorch's fp32 step with `change`."""
    train = noisy(12)
    weights = initial_weights(3, **SMALL)
    model = Twin(**SMALL).double()
    model.load_state_dict({n: torch.from_numpy(w) for n, w in weights.items()})
    want = float64.step(model, train.images, train.labels)
    fp32 = Twin(**SMALL)
    weights32 = change({n: torch.from_numpy(w.copy()) for n, w in weights.items()})
    fp32.load_state_dict(weights32)
    x = float64.normalise(train.images).float()
    target = torch.from_numpy(train.labels.astype(np.int64))
    loss = torch.nn.functional.cross_entropy(fp32(x), target)
    loss.backward()
    return want, loss.item(), {n: p.grad.numpy() for n, p in fp32.named_parameters()}


def test_the_bounds_let_fp32_pass():
    want, loss, gradients = small_step()
    assert want.refuse(loss, gradients) == []


def tf32(weights):
    """Round weights to ten bits of mantissa, as tensor cores read them."""
    cut = {n: (w.view(torch.int32) + 0x1000) & ~0x1FFF for n, w in weights.items()}
    return {name: bits.view(torch.float32) for name, bits in cut.items()}


def flipped(weights):
    return weights | {"conv2.weight": weights["conv2.weight"].flip(-1)}


def test_tf32_left_on_is_refused():
    want, loss, gradients = small_step(tf32)
    assert want.refuse(loss, gradients)


def test_a_flipped_filter_is_refused():
    want, loss, gradients = small_step(flipped)
    assert len(want.refuse(loss, gradients)) > 6


@pytest.mark.parametrize("name", [n for n in initial_weights(0) if n != "fc2.bias"])
def test_each_gradient_is_looked_at(name):
    """The wrong gradients are NaN, zero, or not averaged over the batch."""
    want, loss, grads = small_step()
    for mistake in (grads[name] + np.nan, grads[name] * 0, grads[name] * 12):
        if name in ("conv1.bias", "conv2.bias") and not np.isnan(mistake).any():
            continue  # these are zero, whatever the factor
        bad = want.refuse(loss, {**grads, name: mistake})
        assert [line.split(":")[0] for line in bad] == [name]


def test_a_wrong_loss_is_refused():
    want, loss, gradients = small_step()
    for mistake in (float("nan"), loss * 1.001, 12 * loss):
        assert any("loss" in line for line in want.refuse(mistake, gradients))


# PyTorch's mean accuracy in fp32, and the standard deviation of a run, at most.
MEAN, DEVIATION = 0.9872, 0.0026


@pytest.mark.long
@pytest.mark.slow
def test_training_reaches_the_accuracy_of_pytorch():
    """Train 3 epochs at batch 64, lr 0.1; compare the accuracy with PyTorch's.

    PyTorch's accuracies are those of the same seeds in the committed race on an H100.
    There, five seeds in fp32 have means of 98.72 to 98.82 % and standard deviations of
    0.16 to 0.26 %. A GPU trains three seeds. So their mean has a standard error of
    0.09 to 0.15 %: 98.5 is about two such errors below those means, and 0.3 is two. A
    CPU needs a minute or two for one seed, which may be off by 3 standard deviations.
    """
    device, seeds = ("cuda", 3) if torch.cuda.is_available() else ("cpu", 1)
    # Use one thread: with several, a step may wait for cores that other tests use.
    settings = {"device": device, "iterations": 1, "progress": False, "threads": 1}
    ours = [
        run(Config(seed=seed, **settings)).rows[0]["test_accuracy"]
        for seed in range(seeds)
    ]
    raced = {"impl": "torch", "precision": "fp32", "epochs": 3, "batch": 64, "lr": LR}
    theirs = [
        row["test_accuracies"][:seeds]
        for row in json.loads((RESULTS / "race_nvidia_h100.json").read_text())["rows"]
        if raced.items() <= row.items()
    ]
    least, apart = MEAN - 3 * DEVIATION, 3 * DEVIATION
    if seeds == 3:
        least, apart = 0.985, 0.003
    assert np.mean(ours) >= least and theirs, ours
    assert abs(np.mean(ours) - np.mean(theirs)) <= apart, (ours, theirs)
