"""Each kernel of the fused step separately, against float64 from the same inputs.

fused64.py explains the method, and derives the bounds. On the CPU the kernels are
simulated, so batches are tiny there, and kernels for tensor cores have fewer cases.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import fused64
import numpy as np
import pytest
import torch
from fused64 import KERNELS, WRITES, Look
from test_cnn import SHAPES, random_params
from tiers import only

from weft import mnist
from weft.toolchain import native

PRECISIONS = {"fused": "fp32", "pdl": "fp32", "winograd": "fp32"}
PRECISIONS |= {name: name for name in ("tf32", "bf16", "fp16")}
CUDA = torch.cuda.is_available()
COUNT = 40  # number of images in a data set; larger batches repeat them


def mixed() -> dict[str, np.ndarray]:
    """Return weights with batch norms of either sign, and two channels of zero."""
    weights = random_params(SHAPES[-1])
    for name in ("bn1.weight", "bn2.weight"):
        weights[name][[3, 17]] = 0.0
        assert (weights[name] < 0).any() and (weights[name] > 0).any()
    return weights


def images(kind: str, batch: int) -> mnist.Split:
    """Return a data set: one image of noise for each of the batch, or COUNT images.
    These show noise, digits, or a constant except for one pixel."""
    digits = mnist.load("train").first(max(COUNT, batch if kind == "noise" else 0))
    pixels = np.zeros_like(digits.images)
    if kind in ("noise", "again"):
        pixels = np.random.default_rng(7).integers(0, 256, pixels.shape, np.uint8)
    elif kind == "digits":
        pixels = digits.images
    elif kind == "white":
        pixels += 255
    elif kind == "pixel":  # each image has the pixel at another place, corners first
        places = [0, 27, 27 * 28, 783, *range(100, 100 + 18 * COUNT, 18)][:COUNT]
        pixels.reshape(COUNT, -1)[np.arange(COUNT), places] = 255
    return mnist.Split(pixels, digits.labels)


CASES = ["noise", "digits", "black", "white", "pixel"]
LIKE = ("white", 12)
LARGE = [1, 2, 63, 65, 66, 67, 131, 133, 250, 257, 512, 513, 1000, 1025]


def cases() -> list:
    """List (target, rung, kind of images, batch)."""
    params = []
    for rung in PRECISIONS:
        if "cpu" in table("cpu")[rung].targets:
            batches = FEW if rung == "fused" else FEWER
            params += [("cpu", rung, *case) for case in batches]
            params.append(("cpu", rung, "noise", MANY[rung]))
        if CUDA and "cuda" in table("cuda")[rung].targets:
            params += [("cuda", rung, kind, 64) for kind in CASES]
            params += [("cuda", rung, "noise", batch) for batch in LARGE]
            params.append(("cuda", rung, "again", 1000))
    return [
        pytest.param(
            *case,
            id="-".join(map(str, case)),
            marks=[pytest.mark.slow] * is_slow(*case),
        )
        for case in params
    ]


def is_slow(target: str, rung: str, *images) -> bool:
    """Return whether a case is slow.

    fp16 shares bf16's kernels, and the images LIKE each other add little on most rungs.
    A large batch takes a second or more, since its tensor cores are simulated.
    """
    tensor_cores = rung in ("tf32", "bf16") and images == ("noise", MANY[rung])
    like = rung != "fused" and images == LIKE
    return target == "cpu" and (rung == "fp16" or like or tensor_cores)


FEW = [("noise", 3), ("digits", 2), ("black", 1), LIKE, ("pixel", 2)]
FEWER = [("noise", 2), LIKE]
# More images than the CPU target's 8 blocks, for the kernels of large batches.
MANY = {"fused": 5, "winograd": 5, "tf32": 10, "bf16": 10, "fp16": 10}


def table(target: str) -> dict[str, native.Rung]:
    return {rung.name: rung for rung in native.rungs("mnist", target)}


@lru_cache(maxsize=4)
def looked(target: str, rung: str, kind: str, batch: int) -> Look:
    """Take one step; a number that no kernel has written is NaN."""
    split = images(kind, batch)
    order = np.resize(np.arange(len(split.labels))[::-1], batch)
    with mnist.Cnn(rung, target, max_batch=batch) as cnn:
        cnn.set_weights(mixed())
        cnn.data(split)
        form = rung == "winograd"
        return fused64.look(cnn, PRECISIONS[rung], order, split, 0.05, form)


@pytest.mark.parametrize("target, rung, kind, batch", cases())
def test_each_kernel_computes_what_float64_makes_of_its_inputs(
    target, rung, kind, batch
):
    step, failures = looked(target, rung, kind, batch), []
    for kernel in KERNELS:
        try:
            kernel(step)
        except AssertionError as error:
            failures.append(f"{kernel.__name__}: {error}")
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.__name__)
@pytest.mark.parametrize("kind", only(["noise"], ["noise", "like"]))
@pytest.mark.parametrize("rung", ["fused", "bf16"])
def test_wrong_outputs_are_refused(rung, kind, kernel):
    """Each array is tested with a NaN, one wrong value, and all values off by 5 %."""
    few_images = ("noise", 3 if rung == "fused" else 2)
    step = looked("cpu", rung, *(few_images if kind == "noise" else LIKE))
    kernel(step)
    for name in WRITES.get(kernel.__name__, ()):
        array = step.seen[name]
        off_by_one, largest = array.clone().flatten(), int(array.abs().argmax())
        off_by_one[largest] = off_by_one[largest] * 1.5 + 1
        nan = array.clone().flatten()
        nan[largest] = torch.nan
        for outputs in (off_by_one, nan, array.flatten() * 1.05):
            with pytest.raises(AssertionError):
                kernel(step.changed(**{name: outputs.reshape(array.shape)}))


@pytest.mark.slow
@pytest.mark.parametrize("rung", ["fused", "bf16"])
def test_roundings_of_like_places_add_up(rung, monkeypatch):
    """Unlike noise, white images have equal patches with equal roundings."""
    noise = looked("cpu", rung, "noise", 3 if rung == "fused" else 2)
    for like in (fused64.dy(noise)[2], noise.like_windows, noise.like_images):
        assert (like == 1).all()
    white = looked("cpu", rung, *LIKE)
    fused64.conv2_dw(white)
    monkeypatch.setattr(fused64, "alike", lambda x: torch.ones(x.shape[:-1]).double())
    with pytest.raises(AssertionError, match="dw2"):
        fused64.conv2_dw(white)


@pytest.mark.parametrize("name", list(mixed()))
def test_wrong_gradients_are_refused(name):
    step = looked("cpu", "fused", "noise", 3)
    kernel = fused64.fc1_back if name == "fc1.weight" else fused64.update
    for factor in (torch.nan, 3.0):
        array = step.gradients[name] * factor
        if not (array == step.gradients[name]).all():  # the gradient is not zero
            bad_step = replace(step, gradients=step.gradients | {name: array})
            with pytest.raises(AssertionError, match="dfc1|" + name):
                kernel(bad_step)
