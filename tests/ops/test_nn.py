"""weft.nn: torch.nn's parameters and losses, computed by the lab's kernels."""

from __future__ import annotations

import copy

import pytest
import torch

import weft
from weft import nn
from weft.lessons.race_rows import race_models
from weft.mnist import Twin

LAYERS = {
    "Conv2d": ((3, 4, 3), {"padding": 1}, (2, 3, 6, 5)),
    "BatchNorm2d": ((3,), {}, (4, 3, 6, 5)),
    "Linear": ((5, 4), {}, (2, 3, 5)),
    "ReLU": ((), {}, (3, 4)),
    "MaxPool2d": ((2,), {}, (2, 3, 6, 4)),
    "LayerNorm": ((5,), {}, (2, 3, 5)),
    "RMSNorm": ((5,), {}, (2, 3, 5)),
    "Softmax": ((-1,), {}, (2, 3, 5)),
}


def make_pair(name: str):
    args, options, shape = LAYERS[name]
    ours, theirs = (getattr(n, name)(*args, **options) for n in (nn, torch.nn))
    theirs.load_state_dict(ours.state_dict())
    return ours, theirs, torch.randn(shape)


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_is_like_torchs(name):
    torch.manual_seed(0)
    ours, theirs, x = make_pair(name)
    assert repr(ours) == repr(theirs)
    inputs = [x.clone().requires_grad_(), x.double().requires_grad_()]
    exact = theirs.double()
    y, want = ours(inputs[0]), exact(inputs[1])
    torch.testing.assert_close(y.double(), want, rtol=1e-5, atol=1e-5)
    y.square().sum().backward()
    want.square().sum().backward()
    arrays = [inputs, *zip(ours.parameters(), exact.parameters())]
    for mine, other in arrays:
        torch.testing.assert_close(mine.grad.double(), other.grad, rtol=1e-4, atol=1e-4)


def test_running_statistics_are_torchs():
    ours, theirs, _ = make_pair("BatchNorm2d")
    for _ in range(3):
        x = 3 * torch.randn(4, 3, 6, 5) + 1
        torch.testing.assert_close(ours(x), theirs(x), rtol=1e-5, atol=1e-5)
    for name, value in theirs.state_dict().items():
        torch.testing.assert_close(ours.state_dict()[name], value)
    ours.eval(), theirs.eval()
    torch.testing.assert_close(ours(x), theirs(x))


REFUSED = {
    "stride": lambda: nn.Conv2d(3, 4, 3, stride=2),
    "padding": lambda: nn.Conv2d(3, 4, 3, padding=(1, 0)),
    "groups": lambda: nn.Conv2d(4, 4, 3, groups=2),
    "affine": lambda: nn.BatchNorm2d(3, affine=False),
    "stride=1": lambda: nn.MaxPool2d(2, stride=1),
    "inplace": lambda: nn.ReLU(inplace=True),
    "reduction": lambda: nn.CrossEntropyLoss(reduction="sum"),
    "normalized_shape": lambda: nn.LayerNorm((3, 4)),
    "dim": lambda: nn.Softmax(0),
}


@pytest.mark.parametrize("option", REFUSED)
def test_other_options_are_refused(option):
    with pytest.raises(weft.ArgumentError, match=f"weft.nn.*{option}"):
        REFUSED[option]()


def test_the_cnn_has_the_names_of_the_twin():
    ours, theirs = nn.make_cnn(), nn.make_cnn(torch.nn)
    assert [*ours.state_dict()] == [*theirs.state_dict()] == [*Twin().state_dict()]
    x = torch.randn(2, 1, 28, 28)
    twin = Twin()
    twin.load_state_dict(ours.state_dict())
    torch.testing.assert_close(ours(x), twin(x), rtol=1e-4, atol=1e-4)


STEPS, LR = 15, 0.02


def train(model, x, labels) -> list[float]:
    """Return the losses of a few steps of torch.optim.SGD with momentum."""
    optimizer = torch.optim.SGD(model.parameters(), LR, momentum=0.9)
    loss = nn.CrossEntropyLoss() if x.dtype == torch.float32 else None
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        value = (loss or torch.nn.CrossEntropyLoss())(model(x), labels)
        value.backward()
        optimizer.step()
        losses.append(value.item())
    return losses


def test_a_cnn_trains_to_torchs_losses():
    """Our largest error is at most 10 times PyTorch's, each compared with float64."""
    torch.manual_seed(0)
    ours = nn.make_cnn(channels=(4, 6), hidden=16)
    float32 = nn.make_cnn(torch.nn, channels=(4, 6), hidden=16)
    float32.load_state_dict(ours.state_dict())
    exact = copy.deepcopy(float32).double()
    x, labels = torch.randn(16, 1, 28, 28), torch.randint(10, (16,))
    want = train(exact, x.double(), labels)
    errors = [
        [abs(a - b) for a, b in zip(train(model, x, labels), want)]
        for model in (ours, float32)
    ]
    assert want[-1] < want[0] / 2  # training reduces the loss
    # The errors grow from step to step, so both sides' largest are compared. PyTorch's
    # own is the measured scale of float32's rounding here.
    assert max(errors[0]) <= 10 * max(max(errors[1]), 1e-7)


@pytest.mark.slow
def test_models_race_from_the_same_weights():
    layers = {"mine": None, "eager": torch.nn}
    models = {
        name: nn.make_cnn(part, channels=(4, 6), hidden=16)
        for name, part in layers.items()
    }
    rows = race_models(models, images=1024, batch=32, tests=64, rounds=2)
    assert [row["impl"] for row in rows] == ["weft", "torch"]
    losses = [row["losses"] for row in rows]
    assert losses[0][:4] == pytest.approx(losses[1][:4], rel=1e-4)
    assert all(sum(one[-8:]) < 0.8 * sum(one[:8]) for one in losses)
    assert all(row["us"] > 0 and row["threads"] > 0 for row in rows)
