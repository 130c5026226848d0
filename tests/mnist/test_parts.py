"""A step in parts: alone it is weft_cnn_train(), and workers together take one step.

The workers are models in this process. Their ranges and sums are added in float64, in
the ranks. float64.py bounds a gradient of K terms by sqrt(K) roundings. The sums over
the workers add at most 4 roundings to more than 10,000.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from dataclasses import replace

import float64
import numpy as np
import pytest
import test_cnn
import torch
from test_fused import COARSER, MODEL, fused, precision
from test_training import SMALL, noisy, rungs
from tiers import loop_over, only

from weft.base.errors import ArgumentError
from weft.mnist import Cnn, Split, Twin, epoch_order, initial_weights
from weft.mnist.workers_race import open_stream
from weft.toolchain import native

IMAGES, BATCH, LR = 50, 12, 0.1
each_rung = pytest.mark.parametrize(
    "target, rung", only([("cpu", "reference"), ("cpu", "naive")], rungs(), names=2)
)
# The sizes of the workers' shares of a batch.
SHARES = [(6, 6), (5, 4, 3), (12, 0), (0, 11, 1)]


def make(target: str = "cpu", rung: str = "reference", **sizes) -> Cnn:
    """Return a model with PyTorch's first weights and digits in noise."""
    sizes = sizes or SMALL
    model = Cnn(rung, target, **sizes, max_batch=BATCH)
    model.set_weights(initial_weights(0, **sizes))
    model.data(noisy(IMAGES), noisy(IMAGES))
    return model


def split(order: np.ndarray, sizes: tuple[int, ...]) -> list[np.ndarray]:
    assert sum(sizes) == len(order)
    return np.split(order, np.cumsum(sizes)[:-1])


def run_parts(models: list[Cnn], skip: int | None = None) -> None:
    """Run the models to the end of a step, and add up what each part leaves.

    skip: number of a part that is not added up, as a mistake
    """
    for number in itertools.count():
        ready = [model.next() for model in models]
        if ready[0] is None:
            assert all(part is None for part in ready)
            return
        if number == skip:
            continue
        tensors = [torch.as_tensor(part) for part in ready]  # they share the memory
        total = functools.reduce(operator.add, [t.double() for t in tensors])
        for tensor in tensors:
            tensor.copy_(total)


def take_step(
    models: list[Cnn],
    shares: list[np.ndarray],
    sync: bool,
    lr: float = LR,
    skip: int | None = None,
) -> float:
    """Take one step with all models, and return its loss."""
    total = sum(map(len, shares))
    for model, share in zip(models, shares):
        model.begin(share, total=total, sync_batchnorm=sync)
    run_parts(models, skip)
    for model in models:
        model.update(lr)
    losses = [model.losses() for model in models]
    assert all(len(loss) == 1 for loss in losses)
    return sum(float(loss[0]) for loss in losses)


def step64(
    weights: dict[str, np.ndarray], order: np.ndarray, data=None
) -> float64.Step:
    sizes = {} if len(weights["conv1.bias"]) == 32 else SMALL
    model, data = Twin(**sizes).double(), data or noisy(IMAGES)
    model.load_state_dict({n: torch.from_numpy(w) for n, w in weights.items()})
    return float64.step(model, data.images[order], data.labels[order])


def same(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> bool:
    return all(np.array_equal(a[name], b[name]) for name in {**a, **b})


@pytest.mark.parametrize("sizes", [SMALL, {}], ids=["small", "full size"])
def test_one_models_parts_are_training_bit_by_bit(sizes):
    order = np.random.default_rng(1).permutation(30)
    with make(**sizes) as whole, make(**sizes) as parts:
        whole.train(order, BATCH, LR)
        for first in range(0, len(order), BATCH):  # the last batch is smaller
            parts.begin(order[first : first + BATCH])
            run_parts([parts])
            parts.update(LR)
        assert same(parts.weights, whole.weights)
        assert same(parts.gradients, whole.gradients)
        assert np.array_equal(parts.losses(), whole.losses())


@pytest.mark.parametrize("sizes", SHARES, ids=str)
def test_with_global_batch_norm_workers_are_one_model(sizes):
    rng = np.random.default_rng(2)
    models = [make() for _ in sizes]
    for _ in range(3):
        order, start = rng.permutation(IMAGES)[:BATCH], models[0].weights
        want = step64(start, order)
        loss = take_step(models, split(order, sizes), sync=True)
        assert not want.refuse(loss, models[0].gradients)
        for model in models[1:]:
            assert same(model.gradients, models[0].gradients)
            assert same(model.weights, models[0].weights)


@each_rung
@pytest.mark.parametrize("sizes", SHARES, ids=str)
def test_with_local_batch_norm_gradients_are_the_weighted_mean_of_ddp(
    target, rung, sizes
):
    """DDP adds up each worker's mean gradient, which batch norm has normalised with the
    worker's own images. A worker with more images weighs more here."""
    rng = np.random.default_rng(3)
    models = [make(target, rung) for _ in sizes]
    for _ in range(3):
        shares, start = split(rng.permutation(IMAGES)[:BATCH], sizes), models[0].weights
        parts = [
            (len(share) / BATCH, step64(start, share)) for share in shares if len(share)
        ]
        names = parts[0][1].gradients
        want = float64.Step(
            loss=sum(weight * part.loss for weight, part in parts),
            gradients={
                n: sum(weight * part.gradients[n] for weight, part in parts)
                for n in names
            },
            bounds={
                n: sum(weight * part.bounds[n] for weight, part in parts)
                for n in ["loss", *names]
            },
            clear=True,
        )
        assert not want.refuse(
            take_step(models, shares, sync=False), models[0].gradients
        )


def test_the_bound_tells_local_from_global_batch_norm():
    models = [make(), make()]
    order = np.arange(BATCH)
    want = step64(models[0].weights, order)
    loss = take_step(models, split(order, (6, 6)), sync=False)
    assert len(want.refuse(loss, models[0].gradients)) > 5


@each_rung
def test_ranges_are_final_and_cover_the_buffer_once(target, rung):
    """Each range receives its own value as soon as it is ready. Neither the rest of the
    step nor another range may change it, and update() subtracts it."""
    with make(target, rung) as model:
        start = model.weights
        torch.as_tensor(model.gradient_buffer).fill_(math.nan)
        model.begin(np.arange(BATCH), sync_batchnorm=rung == "reference")
        sizes = []
        while (part := model.next()) is not None:
            part = torch.as_tensor(part)
            assert torch.isfinite(part).all()
            if part.dtype == torch.float32:
                sizes.append(len(part))
                part.fill_(len(sizes))
        buffer = torch.as_tensor(model.gradient_buffer)
        counts = [int((buffer == value + 1).sum()) for value in range(len(sizes))]
        assert counts == sizes and sum(sizes) == len(buffer) and len(sizes) == 2
        model.update(0.5)
        for name, new in model.weights.items():
            number = 1 if name.startswith("fc") else 2
            assert np.array_equal(new, start[name] - np.float32(0.5 * number)), name


@each_rung
def test_a_share_of_no_images_adds_nothing(target, rung):
    with make(target, rung) as model:
        model.train(np.arange(BATCH), BATCH, LR)  # leaves gradients
        start = model.weights
        model.losses()
        model.begin([], total=7)
        run_parts([model])
        model.update(LR)
        assert list(model.losses()) == [0.0]
        assert not any(gradient.any() for gradient in model.gradients.values())
        assert same(model.weights, start)


# ---- an epoch --------------------------------------------------------------------

GENTLE, SEEDS = 0.01, 3  # the learning rate; the number of disturbed runs


def limit_losses(data: Split, order: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Train one full-size model on the batches order (steps,batch).

    Returns its losses, and bounds on the differences of the losses of workers with
    global batch norm.

    A step. From equal weights, each side's gradients are off by at most the bounds of
    float64.roundings(). The images' losses are equal, and each side adds them up in
    double, then rounds: UNIT for each side is 8 roundings.

    All steps. Training itself amplifies such errors. Its response is measured: more
    runs add to each gradient of each step a random change, as large as both sides'
    bounds together. A bound is LAMBDA times the standard deviation of an error, so the
    response of a run is about LAMBDA times the effect of rounding. Twice the largest
    response so far, of SEEDS runs, is below that effect with a probability of less than
    0.001 (for normal effects). Decisions next to a kink are covered: the changes of the
    weights turn more of them than the roundings do.

    The learning rate is GENTLE. At 0.1, training is chaotic: within 30 steps, a last
    bit grows to 0.3, and so does the bound.
    """
    batch = order.shape[1]
    with Cnn("reference", max_batch=batch) as model:
        model.data(data)
        whole, steps = train_one(model, order)
        relative: dict[str, float] = {}
        for weights, gradients, images in (steps[0], steps[-1]):
            twin = Twin().double()
            twin.load_state_dict({n: torch.from_numpy(w) for n, w in weights.items()})
            bounds = float64.roundings(twin, data.images[images], data.labels[images])
            for name in set(bounds) - {"conv1.bias", "conv2.bias"}:  # these are zero
                ratio = bounds[name] / np.linalg.norm(gradients[name])
                relative[name] = max(ratio, relative.get(name, 0.0))
        responses = []
        for seed in range(SEEDS):
            losses, _ = train_one(model, order, 2, relative, seed)
            responses.append(np.abs(losses - whole))
    largest = np.maximum.accumulate(np.max(responses, axis=0))
    return whole, 2 * largest + 2 * float64.UNIT * whole


def train_one(model: Cnn, order: np.ndarray, factor=0, relative=None, seed=0):
    """Train from the first weights; return the losses, and each step's weights before
    it, gradients and images. relative: the norms of random changes of the gradients,
    relative to factor times the gradients' norms."""
    chance, steps = np.random.default_rng(seed), []
    model.set_weights(initial_weights(0))
    for images in order:
        weights = model.weights
        model.train(images, len(images), GENTLE)
        gradients = model.gradients
        steps.append((weights, gradients, images))
        if relative:
            weights = model.weights
            for name, size in relative.items():
                change = chance.standard_normal(weights[name].shape, np.float32)
                change *= np.linalg.norm(gradients[name]) / np.linalg.norm(change)
                weights[name] -= np.float32(GENTLE * factor * size) * change
            model.set_weights(weights)
    return model.losses().astype(np.float64), steps


def train_workers(data: Split, order: np.ndarray, sizes: tuple[int, ...], **how):
    """Train a model for each share of the batches; return the losses."""
    models = [Cnn("reference", max_batch=max(sizes)) for _ in sizes]
    for model in models:
        model.data(data)
        model.set_weights(initial_weights(0))
    losses = [take_step(models, split(o, sizes), lr=GENTLE, **how) for o in order]
    return np.array(losses)


@pytest.mark.slow
def test_an_epoch_with_global_batch_norm_has_the_losses_of_one_process():
    data, order = noisy(2048), epoch_order(0, 0, 2048).reshape(-1, 64)
    whole, limit = limit_losses(data, order)
    assert whole[-1] < 0.5 * whole[0] and limit.max() < 0.02
    for sizes in ((32, 32), (40, 0, 24)):
        losses = train_workers(data, order, sizes, sync=True)
        assert (np.abs(losses - whole) <= limit).all(), sizes
    # Parts 0, 1, 3 and 4 are sums of batch norm.
    mistakes = [{"sync": False}] + [
        {"sync": True, "skip": part} for part in (0, 1, 3, 4)
    ]
    for mistake in mistakes:
        losses = train_workers(data, order, (32, 32), **mistake)
        assert (np.abs(losses - whole) / limit).max() > 10, mistake


# ---- the fused rungs -------------------------------------------------------------

# Simulated tensor cores are slow; of their rungs, one keeps a copy of fc1's weights.
FUSED = [case for case in fused() if case.values[0] == "cuda" or "fused" in case.id]
FUSED += [case for case in fused() if case.id == "cpu-bf16"]
each_fused_rung = pytest.mark.parametrize(
    "target, rung", only([("cpu", "fused")], FUSED, names=2)
)


def make_fused(target: str, rung: str, batch: int) -> Cnn:
    model = Cnn(rung, target, max_batch=batch)
    model.set_weights(initial_weights(0))
    model.data(noisy(batch))
    return model


@each_fused_rung
def test_a_fused_rungs_share_is_that_share_of_training(target, rung):
    """Both run the same kernels. A share rounds batch / total, and then the product."""
    # On a GPU, several blocks share the sum over this batch; see dfc1_slots().
    batch = 600 if target == "cuda" else 2
    order, total = np.arange(batch), 7 * batch
    with (
        make_fused(target, rung, batch) as whole,
        make_fused(target, rung, batch) as model,
    ):
        start = whole.weights
        whole.train(order, batch, LR)
        model.begin(order, total=total)
        ranges = []
        while (part := model.next()) is not None:
            ranges.append(torch.as_tensor(part).clone().cpu())
        assert same(model.weights, start)
        model.update(LR)
        buffer = torch.as_tensor(model.gradient_buffer).cpu()
        # All gradients that are ready at the end are one range.
        assert [len(part) for part in ranges] == [128 * 49 * 64, 19008 + 1440]
        assert torch.equal(torch.cat(ranges[::-1]), buffer)
        near = {"rtol": 2.0**-22, "atol": 0}
        np.testing.assert_allclose(model.losses() * 7, whole.losses(), **near)
        theirs = whole.gradients
        for name, gradient in model.gradients.items():
            np.testing.assert_allclose(gradient * 7, theirs[name], **near)
            update = LR * gradient.astype(np.float64)
            error = np.abs(model.weights[name] - (start[name] - update))
            bound = np.abs(start[name]) + 3 * np.abs(update)
            assert (error <= 2 * float64.ULP * bound).all(), name


def record_step(model: Cnn, count: int, **options) -> None:
    with open_stream(str(model.device)):
        model.record(count, **options)
        while model.next() is not None:  # one worker's ranges are the sums
            pass
        model.update(LR)


@pytest.mark.slow
@each_fused_rung
def test_a_replayed_step_has_the_bits_of_steps_launched_one_by_one(target, rung):
    """A pass on more images, whose kernels may claim less shared memory than those of
    the recorded step, does not disturb it. In fp32, batch norm is global."""
    order = np.arange(7)
    options = {"total": 3, "sync_batchnorm": precision(rung) == "fp32"}
    with make_fused(target, rung, 7) as one, make_fused(target, rung, 7) as model:
        start = model.weights
        record_step(model, 1, **options)
        assert same(model.weights, start) and not len(model.losses())
        model.train(order, 7, 0.0)
        model.replay(order[:2])
        model.replay(order[6:])
        for each, images in ((one, order[[0, 1, 6, 4]]), (model, order[[4]])):
            for image in images:
                each.begin([image], **options)
                run_parts([each])
                each.update(LR)
        losses = model.losses()[1:]
        assert np.array_equal(losses, one.losses()) and len({*losses}) == 4
        assert same(model.weights, one.weights)
        assert same(model.gradients, one.gradients)


# Workers' shares in two steps: a share of no images, and in the second step a smaller
# share than in the first. 5 images are more than half of the simulator's 8 blocks.
SYNCED = {"cpu": [((1, 1), (0, 2)), ((0, 2, 1), (1, 0, 1)), ((5, 2), (2, 1))]}
SYNCED["cuda"] = [((300, 300), (0, 600)), ((0, 520, 80), (60, 1, 0))]


@pytest.mark.slow
@each_fused_rung
@pytest.mark.parametrize("number", range(3))
def test_with_global_batch_norm_fused_workers_are_one_model(target, rung, number):
    """The second step must not read the leftovers of the first."""
    cases = SYNCED[target]
    if number == len(cases):
        pytest.skip("a GPU has two cases")
    batches = [sum(sizes) for sizes in cases[number]]
    models = [make_fused(target, rung, max(batches)) for _ in cases[number][0]]
    for sizes, batch in zip(cases[number], batches):
        start, order = models[0].weights, np.arange(batch)[::-1]
        for model in models:
            torch.as_tensor(model.gradient_buffer).fill_(math.nan)
        refuse = judge(target, rung, start, order)
        loss = take_step(models, split(order, sizes), sync=True)
        assert not refuse(loss, models[0].gradients)
        for model in models[1:]:
            assert same(model.gradients, models[0].gradients)
            assert same(model.weights, models[0].weights)
        for name, gradient in models[0].gradients.items():
            update = np.float32(LR) * gradient
            near = {"rtol": 2.0**-22, "atol": 2.0**-22 * np.abs(update).max() + 1e-30}
            got = models[0].weights[name]
            np.testing.assert_allclose(got, start[name] - update, **near)


def judge(target: str, rung: str, weights: dict[str, np.ndarray], order: np.ndarray):
    """Return a function that lists a step's results that exceed their bounds.

    fp32 has the bounds of one model. On tensor cores, decisions at kinks add more than
    rounding to the difference from float64, but they are those of one model: workers
    run its kernels on the same images, with statistics that differ in the last bits of
    fp32. These may move a few factors to the next number of the rung's precision, so
    the bound is one rounding of all factors.
    """
    data = noisy(len(order))
    if precision(rung) == "fp32":
        return step64(weights, order, data).refuse
    want = test_cnn.step64(MODEL, weights, data.images[order], data.labels[order])
    with make_fused(target, rung, len(order)) as one:
        one.set_weights(weights)
        one.train(order, len(order), LR)
        loss, gradients = float(one.losses()[0]), one.gradients
    terms = (COARSER[precision(rung)] / test_cnn.LAMBDA) ** 2
    return replace(want, loss=loss, gradients=gradients, terms=terms).refuse


@pytest.mark.slow
@pytest.mark.parametrize("rung", ["fused", "bf16"])
def test_the_bound_tells_local_from_global_batch_norm_of_fused_rungs(rung):
    models = [make_fused("cpu", rung, 3) for _ in range(2)]
    order = np.arange(3)
    refuse = judge("cpu", rung, models[0].weights, order)
    loss = take_step(models, split(order, (2, 1)), sync=False)
    assert len(refuse(loss, models[0].gradients)) > 3


@pytest.mark.slow
@each_fused_rung
def test_a_sum_of_all_workers_keeps_48_bits(target, rung):
    """A variance is a small difference of two sums, which must not become floats."""
    with make_fused(target, rung, 1) as model:
        model.begin([0], total=1, sync_batchnorm=True)
        model.next()
        sums = torch.as_tensor(model.next())
        sums *= 1 + 2.0**-30
        want = sums.cpu().numpy().reshape(2, 64).copy()
        run_parts([model])
        got = model.peek("sum2").astype(np.float64)
    assert got.shape == (2, 2, 64)
    assert (np.abs(got.sum(axis=0) - want) <= 2.0**-48 * np.abs(want)).all()


@pytest.mark.slow
@each_fused_rung
def test_an_abandoned_fused_step_leaves_nothing_behind(target, rung):
    """The kernels write copies of conv2's weights. With infinite gradients, these
    become NaN; set() of fc2's weights does not renew them."""
    with make_fused(target, rung, 2) as model:
        order, fc2 = np.arange(2), model.weights["fc2.weight"]
        logits = model.forward("train", order)
        for values in (np.full_like(fc2, 3e38), fc2):
            data = model._ffi.from_buffer("float[]", values)
            model._call("weft_cnn_set", 10, data, values.size)
            if values is not fc2:
                model.begin(order)
                run_parts([model])
                assert not np.isfinite(model.gradients["conv2.weight"]).all()
                model.abandon()
        assert np.array_equal(model.forward("train", order), logits)


# ---- mistakes --------------------------------------------------------------------

HERE = np.arange(3)
UNFINISHED = "step on 3 of 7 images .* has not ended"
IDLE_CALLS = {
    "next": (lambda m: m.next(), "no step has begun"),
    "update": (lambda m: m.update(LR), "no step has begun"),
    "large share": (
        lambda m: m.begin(np.arange(13)),
        "share of 13 images, .* takes 0 to 12",
    ),
    "small total": (
        lambda m: m.begin(HERE, total=2),
        "3 of 2 images, want a total of at least 3",
    ),
    "no total": (lambda m: m.begin([], total=0), "0 of 0 images, .* at least 1"),
    "no images": (lambda m: m.begin([]), r"order has shape \(0,\)"),
    "NaN": (lambda m: m.begin(HERE, total=math.nan), "total=nan: expected a whole"),
    "past": (lambda m: m.begin([50]), "image 50: the train set has 0 to 49"),
}
CALLS_WITHIN = {
    "begin": (lambda m: m.begin(HERE), UNFINISHED),
    "train": (lambda m: m.train(HERE, 3, LR), UNFINISHED),
    "forward": (lambda m: m.forward("test", HERE), UNFINISHED),
    "profile": (lambda m: m.profile(HERE, LR), UNFINISHED),
    "set_weights": (lambda m: m.set_weights(m.weights), UNFINISHED),
    "data": (lambda m: m.data(noisy(2)), UNFINISHED),
    "update": (lambda m: m.update(LR), "the step is not complete; call"),
}


def check_refusals(model: Cnn, call, message: str) -> None:
    """Check that the call is an error, and that the model then trains as before."""
    before = model.weights
    with pytest.raises(ArgumentError, match=message):
        call(model)
    assert same(model.weights, before)


@loop_over("case", IDLE_CALLS)
def test_calls_without_a_step_are_refused(case):
    with make() as model:
        check_refusals(model, *IDLE_CALLS[case])
        take_step([model], [HERE], sync=False)


@loop_over("case", CALLS_WITHIN)
def test_calls_within_a_step_are_refused(case):
    """The step then continues as if there had been no such call."""
    with make() as model, make() as undisturbed:
        for one in (model, undisturbed):
            one.begin(HERE, total=7)
        call, message = CALLS_WITHIN[case]
        check_refusals(model, call, message)
        model.next(), undisturbed.next()
        check_refusals(model, call, message)
        run_parts([model])
        run_parts([undisturbed])
        if case != "update":
            check_refusals(model, call, message)
        model.update(LR), undisturbed.update(LR)
        assert same(model.weights, undisturbed.weights)
        assert np.array_equal(model.losses(), undisturbed.losses())


def test_a_bad_rate_leaves_the_step_to_be_updated():
    with make() as model:
        model.begin(HERE)
        run_parts([model])
        for lr in (math.nan, math.inf, -1.0):
            check_refusals(model, lambda m, lr=lr: m.update(lr), f"lr = {lr:g}, want")
        model.update(LR)
        assert len(model.losses()) == 1


def test_an_abandoned_step_leaves_no_loss_and_no_update():
    with make() as model, make() as undisturbed:
        model.abandon()  # without a step, it does nothing
        model.begin(HERE)
        model.next()
        model.abandon()
        for one in (model, undisturbed):
            one.train(HERE, 3, LR)
        assert same(model.weights, undisturbed.weights)
        assert np.array_equal(model.losses(), undisturbed.losses())


def test_data_without_labels_is_refused():
    with Cnn("reference", **SMALL, max_batch=BATCH) as model:
        model.data(Split(noisy(IMAGES).images, None))
        with pytest.raises(ArgumentError, match="50 images have no labels"):
            model.begin([], total=3)


@each_rung
def test_global_batch_norm_is_refused_where_it_is_missing(target, rung):
    if rung == "reference":
        pytest.skip("it has global batch norm")
    with make(target, rung) as model:
        want = f"rung {rung} does not synchronise batch norm; reference and the fused "
        with pytest.raises(ArgumentError, match=want):
            model.begin(HERE, sync_batchnorm=True)
        take_step([model], [HERE], sync=False)


def test_closed_models_are_refused():
    model = make()
    model.close()
    for call in (model.next, model.abandon, lambda: model.layout):
        with pytest.raises(ArgumentError, match="closed"):
            call()


def test_mistakes_with_a_recorded_step_are_refused():
    with make() as model, pytest.raises(ArgumentError, match="rung reference cannot"):
        model.record(2)
    lib, null = native.library("mnist", "cpu"), native.NULL
    with make_fused("cpu", "fused", 4) as model:
        ready = model._ffi.new("struct weft_cnn_ready *")
        null_stream = {
            "record": ((model._cnn, 2, 2, 0, null), "default stream cannot be"),
            "next": ((model._cnn, ready, null), "is recorded on stream 0x2, not on"),
        }
        unrecorded = {
            "replay": (lambda m: m.replay([0, 1]), "no step has been recorded"),
            "none": (lambda m: m.record(0, total=3), "0 images, .* takes 1 to 4"),
            "many": (lambda m: m.record(5), "5 images, .* takes 1 to 4"),
            "total": (lambda m: m.record(3, total=2), "3 of 2 images"),
            "stream": (lambda m: call_null("record"), null_stream["record"][1]),
        }
        recorded = {
            "replay": (lambda m: m.replay([0, 1, 2]), "3 images, .* multiple of 2"),
            "past": (lambda m: m.replay([0, 4]), "image 4: the train set has 0 to 3"),
        }

        def call_null(function: str) -> None:
            lib.call(f"weft_cnn_{function}", *null_stream[function][0])

        for call, message in unrecorded.values():
            check_refusals(model, call, message)
        model.begin([0])
        check_refusals(model, lambda m: m.record(2), "on 1 of 1 images .* not ended")
        model.abandon()

        start = model.weights
        model.record(2)
        busy = "a step is being recorded"
        for call in (lambda m: m.weights, lambda m: m.losses(), *CALLS_WHILE_RECORDED):
            with pytest.raises(ArgumentError, match=busy):
                call(model)
        with pytest.raises(ArgumentError, match=null_stream["next"][1]):
            call_null("next")
        with pytest.raises(ArgumentError, match="the step is not complete"):
            model.update(LR)
        model.abandon()  # the recording
        assert same(model.weights, start)
        check_refusals(model, *unrecorded["replay"])

        record_step(model, 2)
        for call, message in recorded.values():
            check_refusals(model, call, message)
        model.replay([0, 1])
        assert len(model.losses()) == 1 and not same(model.weights, start)
        model.abandon()  # the recorded step
        check_refusals(model, *unrecorded["replay"])


CALLS_WHILE_RECORDED = [
    lambda m: m.begin(HERE),
    lambda m: m.record(2),
    lambda m: m.replay([0, 1]),
    lambda m: m.train(HERE, 3, LR),
    lambda m: m.forward("train", HERE),
    lambda m: m.data(noisy(2)),
]


def test_null_addresses_are_refused():
    lib, null = native.library("mnist", "cpu"), native.NULL
    model = make()
    for function, arguments, message in (
        ("next", (model._cnn, null, null), "ready is NULL"),
        ("gradients", (model._cnn, null, null, null), "want addresses"),
        ("begin", (model._cnn, null, 2, 2, 0, null), "the order of 2 images is NULL"),
        ("abandon", (null, null), "the model is NULL"),
        ("gradients", (null, null, null, null), "the model is NULL"),
    ):
        with pytest.raises(ArgumentError, match=message):
            lib.call(f"weft_cnn_{function}", *arguments)


def test_a_view_outlives_the_name_of_its_model():
    model = make()
    buffer = model.gradient_buffer
    model.train(HERE, 3, LR)
    gradients, layout = model.gradients["fc2.bias"], model.layout
    del model
    assert np.isin(gradients, buffer).all()  # else the memory would be free
    assert f"{len(buffer)} floats" in layout
