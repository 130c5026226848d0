"""Training starts without PyTorch, and computes the same results as with it."""

import json
import subprocess
import sys

import numpy as np
import pytest
import torch
from tiers import only

from weft.base.errors import ArgumentError
from weft.base.paths import ROOT
from weft.mnist import Cnn, Twin, initial_weights, load

LATE = ("torch", "numba", "matplotlib", "pandas")
SMALL = {"channels": (2, 3), "hidden": 5}

STEPS = """
import json, sys
from weft.mnist import Cnn, initial_weights, load
train = load("train").first(6)
cnn = Cnn({rung!r}, "cpu", max_batch=3)
cnn.data(train, train)
cnn.set_weights(initial_weights(3))
cnn.train(list(range(6)), 3, 0.1)
found = cnn.losses().tolist(), cnn.forward("train", [0, 1]).tolist()
print(json.dumps([*found, [name for name in {late} if name in sys.modules]]))
"""


def fresh(*arguments: str) -> str:
    """Return the output of a new Python process with these arguments."""
    command = [sys.executable, *arguments]
    process = subprocess.run(command, cwd=ROOT, text=True, capture_output=True)
    assert not process.returncode, process.stderr
    return process.stdout


@pytest.mark.parametrize("rung", only(["reference"], ["reference", "fused"]))
def test_a_training_imports_no_torch_and_computes_the_same(rung):
    program = STEPS.format(rung=rung, late=LATE)
    losses, logits, imported = json.loads(fresh("-c", program))
    assert imported == []
    train = load("train").first(6)
    with Cnn(rung, "cpu", max_batch=3) as cnn:
        cnn.data(train, train)
        first = initial_weights(3)
        cnn.set_weights({name: torch.tensor(w) for name, w in first.items()})
        cnn.train(torch.arange(6), 3, 0.1)
        assert cnn.losses().tolist() == losses
        assert cnn.forward("train", [0, 1]).tolist() == logits


@pytest.mark.slow
def test_the_command_imports_torch_only_to_compare(tmp_path):
    words = ["mnist", "--limit", "128", "--epochs", "1", "--iterations", "1"]
    program = "import sys\nfrom weft.__main__ import main\n"
    program += f"main({words})\n"
    program += f"print([name for name in {LATE} if name in sys.modules])"
    lines = fresh("-c", program).splitlines()
    assert lines[1].startswith("weft reference") and lines[-1] == "[]"


def twins_weights(seed: int, **model) -> dict[str, np.ndarray]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        parameters = Twin(**model).named_parameters()
        return {name: value.detach().numpy() for name, value in parameters}


@pytest.mark.parametrize("seed", [0, 1, 2, 12345, 2**31 + 5, 2**32 - 1, 2**32 + 9])
@pytest.mark.parametrize(
    "model",
    [{}, SMALL, {"channels": (3, 4), "classes": 7, "height": 13, "width": 17}],
    ids=["the lesson's", "small", "odd"],
)
def test_the_first_weights_are_pytorchs_to_the_bit(seed, model):
    ours, theirs = initial_weights(seed, **model), twins_weights(seed, **model)
    assert list(ours) == list(theirs)
    # Without vector instructions, PyTorch rounds twice.
    exact = torch.backends.cpu.get_cpu_capability() != "DEFAULT"
    for name, want in theirs.items():
        assert ours[name].dtype == np.float32 and ours[name].shape == want.shape
        if exact:
            assert ours[name].tobytes() == want.tobytes(), name
        else:
            assert np.abs(ours[name] - want).max() <= 2**-24 * np.abs(want).max()


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_a_seed_that_pytorch_has_not_is_refused(seed):
    with pytest.raises(ArgumentError, match=f"seed={seed}: expected 0 to"):
        initial_weights(seed)
