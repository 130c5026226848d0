"""The CNN trainer in C: each of its rungs against PyTorch in float64.

The bound on a gradient is derived, not guessed. A gradient is a sum of products
(dweight = sum of dy x, dbias = sum of dy). Each of its terms depends on the sums of all
previous layers. K is the number of terms of all the sums on that path. Independent
roundings then give an error of at most LAMBDA sqrt(K) 2^-24 times the sum of the terms'
magnitudes, except with a probability below 2 K exp(-LAMBDA^2 / 2) (Higham and Mary,
SIAM J. Sci. Comput. 41(5), 2019). The Frobenius norm of those magnitudes is the scale.
It also suits a bias before batch norm, whose gradient is zero although its terms are
not. test_wrong_models_are_refused() shows that the bound is tight enough.
"""

from __future__ import annotations

import math
import os
import resource
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from tiers import loop_over, only

from weft.base.errors import ArgumentError, KernelError, OutOfMemory
from weft.toolchain import native
from weft.toolchain.native import NULL

LAMBDA = 8.0  # for the K here, 2 K exp(-32) is below 1e-9
ULP = 2.0**-24
TRAIN, TEST = 0, 1
WEIGHT, GRADIENT = 0, 1
LAYERS = ["conv1", "bn1", "relu1", "pool1", "conv2", "bn2", "relu2", "pool2"]
LAYERS += ["fc1", "relu3", "fc2", "loss"]


@dataclass(frozen=True)
class Shape:
    """A model's sizes; the images' mean and deviation are MNIST's."""

    height: int = 4
    width: int = 4
    channels1: int = 1
    channels2: int = 1
    hidden: int = 2
    classes: int = 2
    max_batch: int = 1
    eps: float = 1e-5
    mean: float = 0.1307
    std: float = 0.3081

    @property
    def params(self) -> dict[str, tuple[int, ...]]:
        c1, c2, hidden = self.channels1, self.channels2, self.hidden
        features = c2 * (self.height // 4) * (self.width // 4)
        return {
            **{"conv1.weight": (c1, 1, 3, 3), "conv1.bias": (c1,)},
            **{"bn1.weight": (c1,), "bn1.bias": (c1,)},
            **{"conv2.weight": (c2, c1, 3, 3), "conv2.bias": (c2,)},
            **{"bn2.weight": (c2,), "bn2.bias": (c2,)},
            **{"fc1.weight": (hidden, features), "fc1.bias": (hidden,)},
            **{"fc2.weight": (self.classes, hidden), "fc2.bias": (self.classes,)},
        }


TINY = Shape(5, 6, 2, 3, 4, 3, max_batch=4)
SHAPES = [
    Shape(),
    Shape(5, 7, 3, 5, 7, 3, max_batch=3),
    Shape(9, 6, 2, 3, 11, 10, max_batch=8),
    Shape(6, 13, 17, 33, 19, 4, max_batch=7, eps=1e-3),
    Shape(28, 28, 3, 5, 13, 10, max_batch=5),
    Shape(28, 28, 32, 64, 128, 10, max_batch=2),
]


class Cnn:
    """A weft_cnn, with NumPy arrays in and out."""

    def __init__(self, target: str, rung: str, shape: Shape):
        self.lib = native.library("mnist", target)
        self.shape = shape
        handle = native.ffi.new("weft_cnn **")
        index = self.lib.rung(rung).index
        config = native.ffi.new("struct weft_cnn_config *", vars(shape))
        self.lib.call("weft_cnn_create", handle, index, config, NULL)
        self.handle = native.ffi.gc(handle[0], self.lib.C.weft_cnn_destroy)

    def call(self, name: str, *args) -> None:
        self.lib.call(f"weft_cnn_{name}", self.handle, *args, NULL)

    def get(self, kind: int = WEIGHT) -> dict[str, np.ndarray]:
        arrays = {}
        for index, (name, size) in enumerate(self.shape.params.items()):
            arrays[name] = np.full(size, np.nan, np.float32)
            out = pointer(arrays[name], "float *")
            self.call("get", kind, index, out, arrays[name].size)
        return arrays

    def set(self, params: dict[str, np.ndarray]) -> None:
        for index, name in enumerate(self.shape.params):
            values = np.ascontiguousarray(params[name], np.float32)
            self.call("set", index, pointer(values, "float *"), values.size)

    def data(self, which: int, images: np.ndarray, labels: np.ndarray | None) -> None:
        bytes_ = [pointer(a, "uint8_t *") for a in (images, labels)]
        self.call("data", which, *bytes_, len(images))

    def train(self, order: np.ndarray, batch: int, lr: float = 0.1) -> None:
        order = np.ascontiguousarray(order, np.int32)
        self.call("train", pointer(order, "int32_t *"), len(order), batch, lr)

    def losses(self, capacity: int = 65536) -> np.ndarray:
        out, count = np.full(capacity, np.nan, np.float32), native.ffi.new("int *")
        self.call("losses", pointer(out, "float *"), capacity, count)
        return out[: count[0]]

    def forward(self, which: int, order: np.ndarray) -> np.ndarray:
        order = np.ascontiguousarray(order, np.int32)
        logits = np.full((len(order), self.shape.classes), np.nan, np.float32)
        arrays = pointer(order, "int32_t *"), len(order), pointer(logits, "float *")
        self.call("forward", which, *arrays)
        return logits

    def profile(self, order: np.ndarray, lr: float = 0.1) -> dict[str, float]:
        order = np.ascontiguousarray(order, np.int32)
        sections, count = (
            native.ffi.new("struct weft_section[64]"),
            native.ffi.new("int *"),
        )
        indices = pointer(order, "int32_t *"), len(order)
        self.call("profile", *indices, lr, sections, 64, count)
        ran = sections[0 : count[0]]
        assert len({s.name for s in ran}) == count[0]
        return {native.ffi.string(s.name).decode(): s.us for s in ran}

    @property
    def bytes(self) -> int:
        return self.lib.C.weft_cnn_bytes(self.handle)


def pointer(array: np.ndarray | None, ctype: str):
    return NULL if array is None else native.ffi.cast(ctype, array.ctypes.data)


@cache  # each call allocates the model
def takes(target: str, rung: str, shape: Shape) -> bool:
    """Return whether the rung runs here and supports models of that shape."""
    try:
        Cnn(target, rung, shape)
    except KernelError:
        return False
    return True


def backends() -> list:
    """List every rung that accepts models of any shape, on every available target.

    test_fused.py tests those for one shape.
    """
    targets = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
    return [
        pytest.param(target, rung.name, id=f"{target}-{rung.name}")
        for target in targets
        for rung in native.rungs("mnist", target)
        if target in rung.targets and takes(target, rung.name, TINY)
    ]


each_backend = pytest.mark.parametrize("target, rung", backends())
# For slow tests, since another rung takes as long and shares the code.
naive_first = pytest.mark.parametrize(
    "target, rung", only([("cpu", "naive")], backends(), names=2)
)


def random_params(shape: Shape, seed: int = 1) -> dict[str, np.ndarray]:
    """Draw weights of every sign, as large as those of an initialization."""
    rng = np.random.default_rng(seed)
    params = {}
    for name, size in shape.params.items():
        fan_in = math.prod(size[1:]) if len(size) > 1 else 4
        values = rng.standard_normal(size) / math.sqrt(fan_in)
        if name in ("bn1.weight", "bn2.weight"):
            values += np.copysign(0.5, values)  # near 0, rounding decides each ReLU
        params[name] = values.astype(np.float32)
    return params


def random_data(shape: Shape, count: int, seed: int = 2):
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 256, (count, shape.height, shape.width), np.uint8)
    return images, rng.integers(0, shape.classes, count, np.uint8)


def ready(target: str, rung: str, shape: Shape = TINY, count: int = 20) -> Cnn:
    """Return a model with random weights, a training set and a test set."""
    cnn = Cnn(target, rung, shape)
    cnn.set(random_params(shape))
    cnn.data(TRAIN, *random_data(shape, count))
    cnn.data(TEST, *random_data(shape, count, seed=3))
    return cnn


# ---- float64 ---------------------------------------------------------------


@dataclass
class Step:
    """The expected result of a step, and the scale of its rounding errors."""

    loss: float
    logits: np.ndarray
    gradients: dict[str, np.ndarray]
    magnitudes: dict[str, np.ndarray]  # sums of the magnitudes of the terms
    loss_magnitude: float
    terms: int
    margin: float  # see margin()

    @property
    def unit(self) -> float:
        return LAMBDA * math.sqrt(self.terms) * ULP

    def refuse(self, loss: float, gradients: dict[str, np.ndarray]) -> list[str]:
        """List the results out of bounds, including NaN; a wrong loss is "loss"."""
        bad = []
        if not abs(loss - self.loss) <= self.unit * self.loss_magnitude:
            bad.append(f"loss {loss} != {self.loss}")
        for name, want in self.gradients.items():
            error = np.linalg.norm(gradients[name].astype(np.float64) - want)
            scale = np.linalg.norm(self.magnitudes[name])
            if not error <= self.unit * scale:
                bad.append(f"{name}: {error} > {self.unit} * {scale}")
        return bad


def step64(shape: Shape, params, images, labels, wrong: str = "") -> Step:
    """Return the step in float64, by autograd. wrong: the name of a mistake to make."""
    p = {k: torch.tensor(v, dtype=torch.float64) for k, v in params.items()}
    if wrong == "flipped filter":
        p["conv2.weight"] = p["conv2.weight"].flip(-1, -2).contiguous()
    for value in p.values():
        value.requires_grad_()
    target = torch.tensor(labels.astype(np.int64))
    mean, std = np.float32(shape.mean), np.float32(shape.std)
    pixels = torch.tensor(images, dtype=torch.float64)[:, None]
    x = (
        pixels
        if wrong == "not normalised"
        else (pixels / 255 - float(mean)) / float(std)
    )

    margins = []
    layers = {}  # each layer's input and output
    for i in "12":
        conv = F.conv2d(x, p[f"conv{i}.weight"], p[f"conv{i}.bias"], padding=1)
        layers[f"conv{i}"] = x, conv
        weight, bias = p[f"bn{i}.weight"], p[f"bn{i}.bias"]
        eps = 1e-1 if wrong == "eps" else float(np.float32(shape.eps))
        xhat = F.batch_norm(conv, None, None, training=True, eps=eps)
        x = xhat * weight[:, None, None] + bias[:, None, None]
        layers[f"bn{i}"] = xhat, x
        margins.append(margin(x, pooled=True))
        x = F.max_pool2d(x if wrong == f"no relu{i}" else F.relu(x), 2)
    x = x.flatten(1)
    if wrong == "channels last":
        x = x.reshape(len(x), shape.channels2, -1).transpose(1, 2).flatten(1)
    fc1 = F.linear(x, p["fc1.weight"], p["fc1.bias"])
    layers["fc1"] = x, fc1
    margins.append(margin(fc1, pooled=False))
    x = fc1 if wrong == "no relu3" else F.relu(fc1)
    logits = F.linear(x, p["fc2.weight"], p["fc2.bias"])
    layers["fc2"] = x, logits
    loss = F.cross_entropy(logits, target)
    for _, output in layers.values():
        output.retain_grad()
    (loss * len(images) if wrong == "no 1/batch" else loss).backward()

    return Step(
        loss=loss.item(),
        logits=logits.detach().numpy(),
        gradients={k: v.grad.numpy() for k, v in p.items()},
        magnitudes=magnitudes(layers, p),
        loss_magnitude=1 + logits_magnitude(layers, p),
        terms=path_terms(shape, len(images)),
        margin=min(margins),
    )


def margin(x: torch.Tensor, pooled: bool) -> float:
    """Return the smallest gap in a decision of ReLU or pool, relative to max |x|."""
    x = x.detach()
    nearest = x.abs().min()
    if pooled:
        windows = x.unfold(2, 2, 2).unfold(3, 2, 2).flatten(4)
        first, second = windows.topk(2).values.unbind(-1)
        gaps = (first - second)[first > 0]  # a ReLU removes a negative value anyway
        nearest = torch.cat([gaps, nearest[None]]).min()
    return (nearest / x.abs().max()).item()


def magnitudes(into, params) -> dict[str, np.ndarray]:
    """Return the sums of the magnitudes of the terms, for each gradient."""
    sums = {}
    for layer, (x, y) in into.items():
        x, dy = x.detach().abs(), y.grad.abs()
        if layer.startswith("conv"):
            size = params[f"{layer}.weight"].shape
            weight = torch.nn.grad.conv2d_weight(x, size, dy, padding=1)
        elif layer.startswith("bn"):
            weight = (x * dy).sum((0, 2, 3))
        else:
            weight = dy.T @ x
        sums[f"{layer}.weight"] = weight.numpy()
        sums[f"{layer}.bias"] = dy.transpose(0, 1).flatten(1).sum(1).numpy()
    return sums


def logits_magnitude(into, params) -> float:
    x = into["fc2"][0].detach().abs()
    terms = x @ params["fc2.weight"].detach().abs().T
    return (terms + params["fc2.bias"].detach().abs()).max().item()


def path_terms(shape: Shape, batch: int) -> int:
    """Count the terms of all the sums on the path to a gradient, forward and back."""
    pixels = batch * shape.height * shape.width
    features = shape.channels2 * (shape.height // 4) * (shape.width // 4)
    convolutions = 9 + 9 * shape.channels1 + 9 * shape.channels2
    linear = features + 2 * shape.hidden + 2 * shape.classes
    # Batch norm sums over pixels, twice forward and twice backward; the second layer
    # has a quarter of them. The gradient itself is one more sum over pixels.
    return convolutions + linear + batch + 4 * (pixels + pixels // 4) + pixels


# ---- a step ----------------------------------------------------------------


def run_step(cnn: Cnn, images, labels, order: np.ndarray, lr: float, wrong=""):
    """Return the result of step64(), and the model's loss and gradients."""
    want = step64(cnn.shape, cnn.get(), images[order], labels[order], wrong)
    cnn.losses()
    cnn.train(order, len(order), lr)
    return want, cnn.losses()[0], cnn.get(GRADIENT)


def clear_batch(cnn: Cnn, images, labels, batch: int, rng) -> np.ndarray:
    """Find a batch in which rounding flips no ReLU or pool, as the bounds require."""
    for _ in range(50):
        order = rng.permutation(len(images))[:batch]
        if step64(cnn.shape, cnn.get(), images[order], labels[order]).margin > 1e-6:
            return order
    raise AssertionError("50 batches, and each has a value next to a kink")


@each_backend
@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: f"{s.height}x{s.width}")
def test_a_step_agrees_with_float64(target, rung, shape):
    """The step must not read the leftovers of an earlier, larger batch."""
    cnn = ready(target, rung, shape)
    images, labels = random_data(shape, 20)
    rng = np.random.default_rng(4)
    for batch in sorted({shape.max_batch, max(1, shape.max_batch // 2)}, reverse=True):
        original, order = cnn.get(), clear_batch(cnn, images, labels, batch, rng)
        want, loss, gradients = run_step(cnn, images, labels, order, lr=0.01)
        assert not want.refuse(loss, gradients)
        for name, new in cnn.get().items():
            update = np.float32(0.01) * gradients[name]
            np.testing.assert_allclose(
                *(new, original[name] - update),
                rtol=4 * ULP,
                atol=4 * ULP * np.abs(update).max() + 1e-30,
            )


WRONG = ["no 1/batch", "flipped filter", "channels last", "not normalised", "eps"]
WRONG += ["no relu1", "no relu2", "no relu3"]


@each_backend
@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_models_are_refused(target, rung, wrong):
    """The bound is tight enough to reveal each mistake in the float64 step."""
    shape = Shape(9, 12, 4, 5, 8, 5, max_batch=6)
    cnn = ready(target, rung, shape)
    images, labels = random_data(shape, 20)
    want, loss, gradients = run_step(cnn, images, labels, np.arange(6), 0.1, wrong)
    assert any("weight" in line for line in want.refuse(loss, gradients))


@pytest.mark.parametrize("shape", SHAPES[1:], ids=lambda s: f"{s.height}x{s.width}")
def test_wrong_gradients_are_refused(shape):
    """Test each gradient separately: zeros, NaN, a missing 1/batch, a wrong order."""
    images, labels = random_data(shape, shape.max_batch)
    want = step64(shape, random_params(shape), images, labels)
    gradients = want.gradients
    assert not want.refuse(want.loss, gradients)
    for name, values in gradients.items():
        mistakes = [np.full_like(values, np.nan)]
        if name not in ("conv1.bias", "conv2.bias"):  # these gradients are zero
            mistakes += [values * 0, values * shape.max_batch]
            mistakes += [values[..., ::-1]] if values.shape[-1] > 1 else []
        for mistake in mistakes:
            bad = want.refuse(want.loss, {**gradients, name: mistake})
            assert [line.split(":")[0] for line in bad] == [name]


@each_backend
def test_forward_agrees_with_float64(target, rung):
    cnn = ready(target, rung, SHAPES[2])
    images, labels = random_data(SHAPES[2], 20, seed=3)
    for order in ([3, 19, 0, 3, 7, 1, 2, 11], [5], [4, 4, 4]):
        want = step64(cnn.shape, cnn.get(), images[order], labels[order])
        error = np.abs(cnn.forward(TEST, np.array(order)) - want.logits).max()
        assert error <= want.unit * want.loss_magnitude


@each_backend
def test_a_call_is_as_many_steps_as_it_has_batches(target, rung):
    """The last batch is smaller. The order matters, and the oldest loss comes first."""
    order = np.random.default_rng(5).permutation(20)[:11]
    chunked, single = ready(target, rung), ready(target, rung)
    chunked.train(order, 4, 0.1)
    for first in (0, 4, 8):
        single.train(order[first : first + 4], 4, 0.1)
    assert len(chunked.losses()) == 3
    single_weights = single.get()
    for name, weights in chunked.get().items():
        np.testing.assert_allclose(weights, single_weights[name], rtol=1e-4, atol=1e-5)
    start = ready(target, rung)
    assert any((chunked.get()[k] != v).any() for k, v in start.get().items())


@naive_first
def test_training_lowers_the_loss(target, rung):
    cnn = ready(target, rung, count=4)
    for _ in range(60):
        cnn.train(np.arange(4), 4, 0.1)
    losses = cnn.losses()
    assert len(losses) == 60 and losses[-1] < 0.5 * losses[0]


# ---- losses, data, weights, memory -----------------------------------------


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Use one thread, since such small steps only wait for a second one."""
    native.set_threads(1)
    yield
    native.set_threads(0)


@naive_first
def test_losses_are_handed_out_once_and_the_last_65536_kept(target, rung, one_thread):
    cnn = ready(target, rung, Shape(), count=7)
    assert len(cnn.losses()) == 0
    cnn.train(np.arange(7), 1, lr=0)
    with pytest.raises(ArgumentError, match="7 losses, room for 6"):
        cnn.losses(capacity=6)
    period = cnn.losses(capacity=7)  # with a rate of 0, the losses repeat
    assert len(set(period.tolist())) > 1 and len(cnn.losses()) == 0
    steps = 65536 + 9 if rung == "reference" or target == "cuda" else 60
    cnn.train(np.arange(steps) % 7, 1, lr=0)
    want = np.resize(period, steps)[-65536:]
    np.testing.assert_array_equal(cnn.losses(), want)


@each_backend
def test_data_sets_are_replaced(target, rung):
    cnn = ready(target, rung)
    order = np.array([2, 0, 1])
    old, start = cnn.forward(TRAIN, order), cnn.bytes
    images, _ = random_data(TINY, 3, seed=9)
    cnn.data(TRAIN, images, None)
    assert start - cnn.bytes == 20 * (5 * 6 + 1) - 3 * 5 * 6
    new = cnn.forward(TRAIN, order)
    assert (new != old).all()
    cnn.data(TEST, images, None)
    np.testing.assert_array_equal(cnn.forward(TEST, order), new)
    with pytest.raises(ArgumentError, match="training set's 3 images have no labels"):
        cnn.train(order, 1)
    with pytest.raises(ArgumentError, match=r"order\[1\] = 3, .* 0 to 2"):
        cnn.forward(TEST, np.array([0, 3]))


@each_backend
def test_weights_come_back_as_they_went_in(target, rung):
    cnn = Cnn(target, rung, TINY)
    assert all((v == 0).all() for kind in (0, 1) for v in cnn.get(kind).values())
    params = random_params(TINY)
    cnn.set(params)
    for name, values in cnn.get().items():
        np.testing.assert_array_equal(values, params[name])
    names = [
        native.ffi.string(cnn.lib.C.weft_cnn_param_name(i)).decode() for i in range(12)
    ]
    assert names == list(TINY.params)
    assert cnn.lib.C.weft_cnn_param_name(12) == NULL
    assert cnn.lib.C.weft_cnn_param_count(cnn.handle, 12) == 0


@each_backend
def test_bytes_grow_with_the_model_and_the_data(target, rung):
    small, large = Cnn(target, rung, TINY), Cnn(target, rung, SHAPES[4])
    count = sum(math.prod(size) for size in SHAPES[4].params.values())
    assert large.bytes > small.bytes
    assert large.bytes >= 4 * (2 * count + 65536)
    original = small.bytes
    small.data(TEST, *random_data(TINY, 100))
    assert small.bytes == original + 100 * (5 * 6 + 1)


@contextmanager
def memory_limit(extra: int) -> Iterator[None]:
    """Limit the address space to `extra` more bytes than now."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = pages * resource.getpagesize() + extra
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs Linux")
@each_backend
def test_out_of_memory_is_an_error_and_leaves_nothing_behind(target, rung):
    if target == "cuda":
        pytest.skip("a process cannot limit a GPU's memory")
    shape = replace(SHAPES[5], max_batch=80000)
    ready(target, rung).train(np.arange(4), 4)  # now the threads have their stacks
    with memory_limit(2**29):
        for _ in range(8):  # each call allocates memory before it fails
            with pytest.raises(OutOfMemory, match=r"[1-9]\d+ bytes needed"):
                Cnn(target, rung, shape)
        cnn = ready(target, rung)
        cnn.train(np.arange(8), 4)
        assert np.isfinite(cnn.losses()).all()


# ---- timing ----------------------------------------------------------------


@pytest.mark.alone
@naive_first
def test_profile_times_every_layer_of_one_step(target, rung):
    shape = Shape(28, 28, 8, 16, 32, 10, max_batch=16)
    cnn, twin = ready(target, rung, shape), ready(target, rung, shape)
    order = np.arange(16)
    first = cnn.profile(order)
    covered = []
    for _ in range(5):  # another process may run between the sections
        start = time.perf_counter()
        sections = cnn.profile(order)
        wall = 1e6 * (time.perf_counter() - start)
        covered.append(sum(sections.values()) / wall)
    assert list(sections) == list(first)
    assert all(us >= 0 for us in sections.values())
    assert max(covered) > 0.8 and all(part <= 1 for part in covered)

    ran = {"forward": [], "backward": []}
    for name in sections:
        kind, _, layers = name.partition(".")
        assert (kind in ran) == bool(layers), name
        ran.get(kind, []).extend(layers.split("+"))
    # Each layer runs once. A rung may pool before it normalizes, and compute the loss's
    # gradient with the loss.
    assert sorted(ran["forward"]) == sorted(LAYERS)
    assert sorted({*ran["backward"], "loss"}) == sorted(LAYERS)
    assert len(set(ran["backward"])) == len(ran["backward"])
    assert {"batch", "update"} <= set(sections)

    for _ in range(6):  # a profiled step trains like any other
        twin.train(order, 16)
    np.testing.assert_allclose(cnn.losses(), twin.losses(), rtol=1e-5)


def test_naive_sections():
    names = list(ready("cpu", "naive").profile(np.arange(4)))
    forward = [f"forward.{layer}" for layer in LAYERS]
    backward = [f"backward.{layer}" for layer in LAYERS[::-1]]
    assert names == ["batch", "zero", *forward, *backward, "update"]


# ---- bad input -------------------------------------------------------------

BAD_SHAPES = [
    ({"height": 3}, "height = 3, want at least 4"),
    ({"width": -1}, "width = -1, want at least 4"),
    ({"channels1": 0}, "channels1 = 0, want at least 1"),
    ({"channels2": 0}, "channels2 = 0, want at least 1"),
    ({"hidden": -7}, "hidden = -7, want at least 1"),
    ({"classes": 1}, "classes = 1, want at least 2"),
    ({"classes": 257}, "classes = 257, want at most 256"),
    ({"max_batch": 0}, "max_batch = 0, want at least 1"),
    ({"std": 0.0}, "std = 0, want more than 0"),
    ({"std": math.inf}, "std = inf, want"),
    ({"mean": math.nan}, "mean = nan, want"),
    ({"eps": -1.0}, "eps = -1, want more than 0"),
    ({"eps": math.nan}, "eps = nan, want"),
    ({"channels1": 2**30, "channels2": 2**30}, "want at most 2147483647"),
    ({"max_batch": 2**31 - 1}, "has 128849018820 elements, want at most"),
]


@each_backend
@loop_over("change, message", BAD_SHAPES)
def test_bad_sizes(target, rung, change, message):
    with pytest.raises(ArgumentError, match=message):
        Cnn(target, rung, replace(TINY, **change))


def one(*values: int):
    return native.ffi.new("int32_t[]", list(values))


floats = native.ffi.new("float[100]")
rows = native.ffi.new("uint8_t[60]")
high = native.ffi.new("uint8_t[2]", [1, 3])
BAD_CALLS = {
    "batch 0": ("train", (one(1), 1, 0, 0.1), "a batch of 0, .* 1 to 4"),
    "batch 5": ("train", (one(1), 1, 5, 0.1), "a batch of 5, .* 1 to 4"),
    "count 0": ("train", (one(1), 0, 1, 0.1), "0 images, want at least 1"),
    "past": ("train", (one(1, 20), 2, 1, 0.1), r"order\[1\] = 20, .* 0 to 19"),
    "before": ("train", (one(-1), 1, 1, 0.1), r"order\[0\] = -1, .* 0 to 19"),
    "no order": ("train", (NULL, 3, 1, 0.1), "order of 3 images is NULL"),
    "lr": ("train", (one(1), 1, 1, math.nan), "lr = nan, want 0 or more"),
    "test past": ("forward", (TEST, one(99), 1, floats), r"order\[0\] = 99"),
    "test 5": ("forward", (TEST, one(*range(5)), 5, floats), "batch of 5"),
    "set 2": ("forward", (2, one(1), 1, floats), "data set 2, want 0"),
    "no logits": ("forward", (TEST, one(1), 1, NULL), "1 x 3 logits is NULL"),
    "no sections": (
        "profile",
        (one(1), 1, 0.1, NULL, 9, native.ffi.new("int *")),
        "capacity 9",
    ),
    "get 12": ("get", (WEIGHT, 12, floats, 1), "parameter 12, want 0 to 11"),
    "kind 2": ("get", (2, 0, floats, 18), "kind 2, want 0"),
    "get count": ("get", (WEIGHT, 0, floats, 17), "17 floats .* which has 18"),
    "get NULL": ("get", (GRADIENT, 0, NULL, 18), r"18 floats\) is NULL"),
    "set -1": ("set", (-1, floats, 1), "parameter -1, want 0 to 11"),
    "set count": ("set", (11, floats, 4), "4 floats for fc2.bias, which has 3"),
    "set NULL": ("set", (11, NULL, 3), r"fc2.bias \(3 floats\) is NULL"),
    "data set 3": ("data", (3, rows, NULL, 1), "data set 3, want 0"),
    "no images": ("data", (TEST, rows, NULL, 0), "0 images, want at least 1"),
    "NULL images": ("data", (TEST, NULL, NULL, 2), "2 images is NULL"),
    "label 3": ("data", (TEST, rows, high, 2), r"labels\[1\] = 3, .* 3 classes"),
    "no count": ("losses", (floats, 9, NULL), "count is NULL"),
}


@each_backend
@loop_over("case", BAD_CALLS)
def test_bad_calls_change_nothing(target, rung, case):
    """The message contains the numbers, and the model does not change."""
    function, arguments, message = BAD_CALLS[case]
    cnn = ready(target, rung)
    original, logits = cnn.get(), cnn.forward(TEST, np.arange(4))
    with pytest.raises(ArgumentError, match=message):
        cnn.call(function, *arguments)
    np.testing.assert_array_equal(cnn.forward(TEST, np.arange(4)), logits)
    for name, values in cnn.get().items():
        np.testing.assert_array_equal(values, original[name])
    assert len(cnn.losses()) == 0


@each_backend
def test_without_data_or_room_or_model(target, rung):
    cnn = Cnn(target, rung, TINY)
    with pytest.raises(ArgumentError, match="no training set yet"):
        cnn.train(np.array([0]), 1)
    with pytest.raises(ArgumentError, match="no test set yet"):
        cnn.forward(TEST, np.array([0]))
    cnn = ready(target, rung)
    sections, count = native.ffi.new("struct weft_section[2]"), native.ffi.new("int *")
    with pytest.raises(ArgumentError, match=r"\d+ sections, room for 2"):
        cnn.call("profile", one(1), 1, 0.1, sections, 2, count)
    with pytest.raises(ArgumentError, match="the model is NULL"):
        cnn.lib.call("weft_cnn_train", NULL, one(1), 1, 1, 0.1, NULL)
    with pytest.raises(ArgumentError, match="config is NULL"):
        handle, index = native.ffi.new("weft_cnn **"), cnn.lib.rung(rung).index
        cnn.lib.call("weft_cnn_create", handle, index, NULL, NULL)
    assert cnn.lib.C.weft_cnn_bytes(NULL) == 0
    cnn.lib.C.weft_cnn_destroy(NULL)


def test_a_rung_that_is_not_there():
    handle = native.ffi.new("weft_cnn **")
    config = native.ffi.new("struct weft_cnn_config *", vars(TINY))
    with pytest.raises(KernelError, match="mnist has rungs 0 to .*, not 99"):
        native.library("mnist", "cpu").call("weft_cnn_create", handle, 99, config, NULL)


@naive_first
def test_ctrl_c_ends_training_and_the_model_lives_on(target, rung):
    if target == "cuda":
        pytest.skip("on a GPU the steps are queued, which takes no time")
    cnn, order = ready(target, rung), np.arange(20_000_000, dtype=np.int32) % 20
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        cnn.train(order, 1, lr=0.0)
    assert time.monotonic() - start < 60  # the steps would take minutes
    cnn.losses()  # the losses before Ctrl-C, none on a slow machine
    cnn.train(np.arange(8), 4)
    losses = cnn.losses()
    assert len(losses) == 2 and np.isfinite(losses).all()


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
@each_backend
def test_a_model_stays_on_its_device(target, rung):
    if target == "cpu":
        pytest.skip("has one device")
    with torch.cuda.device(1):
        cnn = ready(target, rung)
    with torch.cuda.device(0):
        cnn.train(np.arange(8), 4)
        assert np.isfinite(cnn.losses()).all()
        assert torch.cuda.current_device() == 0
