"""Define the CNN's parameters by name: their shapes, initial values and files.

A Checkpoint contains the weights between two steps, and how a run continues from them.
exact_step() is one training step in float64; TrainingStep.errors() compares with it.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import sys
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base import store
from ..base.errors import ArgumentError
from .data import MEAN, STD

if TYPE_CHECKING:
    import torch


def parameter_shapes(config: dict[str, int]) -> dict[str, tuple[int, ...]]:
    """Return the parameters' shapes, in the order of their numbers in weft.h."""
    c1, c2 = config["channels1"], config["channels2"]
    flat = c2 * (config["height"] // 4) * (config["width"] // 4)
    shapes: dict[str, tuple[int, ...]] = {}
    for number, weight in ((1, (c1, 1, 3, 3)), (2, (c2, c1, 3, 3))):
        shapes[f"conv{number}.weight"] = weight
        for name in (f"conv{number}.bias", f"bn{number}.weight", f"bn{number}.bias"):
            shapes[name] = weight[:1]
    hidden, classes = config["hidden"], config["classes"]
    for number, weight in ((1, (hidden, flat)), (2, (classes, hidden))):
        shapes |= {f"fc{number}.weight": weight, f"fc{number}.bias": weight[:1]}
    return shapes


def initial_weights(
    seed: int,
    *,
    channels: tuple[int, int] = (32, 64),
    hidden: int = 128,
    classes: int = 10,
    height: int = 28,
    width: int = 28,
    eps: float = 1e-5,
) -> dict[str, np.ndarray]:
    """Return the weights with which all contenders start: PyTorch's for Twin(...).

    The bits are the same as after torch.manual_seed(seed), but PyTorch is not used. On
    the CPU, its generator is NumPy's RandomState: the Mersenne Twister (Matsumoto and
    Nishimura, 1998), seeded with init_genrand. A float uses 24 bits of each number. The
    weights and biases of convolutions and linear layers are uniform in +- 1/sqrt(inputs
    of an output). eps has no effect.
    """
    if not 0 <= seed < 2**64:
        raise ArgumentError(f"seed={seed}: expected 0 to {2**64 - 1}")
    sizes = {"channels1": channels[0], "channels2": channels[1], "hidden": hidden}
    sizes |= {"classes": classes, "height": height, "width": width}
    random = np.random.RandomState(seed % 2**32)  # PyTorch uses only 32 bits
    weights = {}
    for name, shape in parameter_shapes(sizes).items():
        layer, kind = name.split(".")
        if layer.startswith("bn"):
            weights[name] = np.full(shape, kind == "weight", np.float32)
            continue
        if kind == "weight":
            inputs = math.prod(shape[1:])
            # 1/sqrt(inputs), with the roundings of kaiming_uniform_(a=sqrt(5))
            bound = math.sqrt(3.0) * (math.sqrt(2.0 / 6.0) / math.sqrt(inputs))
        else:
            bound = 1 / math.sqrt(inputs)
        weights[name] = _draw_uniform(random, bound, shape)
    return weights


def _draw_uniform(
    random: np.random.RandomState, bound: float, shape: tuple[int, ...]
) -> np.ndarray:
    """Draw float32 from -bound to bound, as torch.Tensor.uniform_() does."""
    low, high = np.float32(-bound), np.float32(bound)
    bits = random.randint(0, 2**32, shape, np.uint32) & np.uint32(2**24 - 1)
    # On a machine with fused multiply-adds (x86 with AVX2), PyTorch rounds once. These
    # doubles are exact: a product of two 24-bit numbers, and a sum of at most 53 bits.
    scale = float(high - low) * 2**-24
    return (bits * scale + float(low)).astype(np.float32)


def check_weights(
    weights: Mapping[str, Any], wanted: Mapping[str, tuple[int, ...]], source: str
) -> dict[str, np.ndarray]:
    """Return the weights as contiguous float32 arrays in the order of `wanted`.

    For the first invalid weight, raises ArgumentError with a message that begins with
    `source`.
    """
    if missing := [name for name in wanted if name not in weights]:
        raise ArgumentError(f"{source}: no {', '.join(missing)}")
    if unknown := [name for name in weights if name not in wanted]:
        raise ArgumentError(f"{source}: unknown {', '.join(unknown)}")
    arrays = {}
    torch = sys.modules.get("torch")  # without torch, there are no tensors
    for name, shape in wanted.items():
        value = weights[name]
        is_tensor = torch and isinstance(value, torch.Tensor)
        value = value.detach().cpu() if is_tensor else np.asarray(value)
        dtype = str(value.dtype).removeprefix("torch.")
        if tuple(value.shape) != shape or dtype != "float32":
            raise ArgumentError(
                f"{source}: {name} is {dtype} {tuple(value.shape)}, "
                f"but the model has float32 {shape}"
            )
        arrays[name] = np.ascontiguousarray(value)
    return arrays


def save(path: str | Path, weights: Mapping[str, np.ndarray]) -> None:
    """Write an .npz file with one array per parameter, completely or not at all."""
    with store.replace_file(Path(path)) as part:
        with open(part, "wb") as file:  # np.savez would add .npz to a path
            np.savez(file, **weights)
        os.chmod(part, 0o644)


# The exceptions that NumPy and zipfile raise for a file with a few flipped bits.
_UNREADABLE = (OSError, ValueError, EOFError, TypeError, RuntimeError)
_UNREADABLE += (zipfile.BadZipFile, zlib.error)


def load(
    path: str | Path, wanted: Mapping[str, tuple[int, ...]]
) -> dict[str, np.ndarray]:
    """Return the arrays of an .npz file; raise ArgumentError if they are invalid."""
    try:
        with np.load(path, allow_pickle=False) as file:
            weights = dict(file)
    except FileNotFoundError:
        raise ArgumentError(f"{path}: there is no such file of weights") from None
    except _UNREADABLE as error:
        raise ArgumentError(f"{path} is not an .npz file of weights: {error}") from None
    return check_weights(weights, wanted, str(path))


# ---- checkpoints -------------------------------------------------------------


@dataclass
class Checkpoint:
    """The state of a training between two steps. SGD here has no momenta, and batch
    norm has no running statistics, so the weights are the model's whole state.

    step: number of steps since the first epoch. facts: the options and data that a
    continued run must have, by name. losses: float32, one per step. accuracies and
    seconds: one per epoch; the last epoch's seconds may be those of a part.
    """

    step: int
    weights: dict[str, np.ndarray]
    facts: dict[str, Any]
    losses: np.ndarray
    accuracies: list[float]
    seconds: list[float]

    def pack(self) -> bytes:
        """Return the contents of the checkpoint's file: an .npz file without pickles.

        Its zip format has a CRC-32 for each array, so unpack() finds damage.
        """
        about = {"format": FORMAT, "step": self.step, "facts": self.facts}
        about |= {"accuracies": self.accuracies, "seconds": self.seconds}
        arrays = {f"weights/{name}": array for name, array in self.weights.items()}
        arrays["losses"] = np.asarray(self.losses, np.float32)
        arrays["about"] = np.frombuffer(json.dumps(about).encode(), np.uint8)
        file = io.BytesIO()
        np.savez(file, **arrays)
        return file.getvalue()

    @classmethod
    def unpack(cls, data: bytes, source: str) -> Checkpoint:
        """Return the checkpoint in `data`; raise ArgumentError if it is damaged."""
        try:
            with np.load(io.BytesIO(data), allow_pickle=False) as file:
                arrays = dict(file)
            about = json.loads(arrays.pop("about").tobytes())
            number = about.pop("format")
            losses = arrays.pop("losses")
            weights = {n.removeprefix("weights/"): a for n, a in arrays.items()}
            checkpoint = cls(weights=weights, losses=losses, **about)
        except (*_UNREADABLE, KeyError, AttributeError) as error:
            raise ArgumentError(f"{source} is not a checkpoint: {error}") from None
        if number != FORMAT:
            raise ArgumentError(f"{source} has format {number}; expected {FORMAT}")
        return checkpoint

    def check(self, facts: Mapping[str, Any], source: str) -> None:
        """Raise ArgumentError if a run with these facts cannot continue from here."""
        for name, ours in facts.items():
            if (theirs := self.facts.get(name)) != ours:
                raise ArgumentError(
                    f"{source} is from a run with {name} {theirs}, "
                    f"but this run has {name} {ours}"
                )


FORMAT = 1
KEPT = 2  # checkpoints in a folder: the last one, and one in case it gets damaged


def list_checkpoints(folder: Path) -> list[Path]:
    """Return the checkpoints in a folder, the newest first."""
    return sorted(folder.glob("step_*.npz"), reverse=True)


def write_checkpoint(folder: Path, checkpoint: Checkpoint) -> Path:
    """Write a checkpoint, completely or not at all; delete all but the last KEPT."""
    path = folder / f"step_{checkpoint.step:09}.npz"
    with store.replace_file(path) as part:
        with open(part, "wb") as file:
            file.write(checkpoint.pack())
            file.flush()
            os.fsync(file.fileno())  # the new name must not precede the contents
        os.chmod(part, 0o644)
    for old in list_checkpoints(folder)[KEPT:]:
        old.unlink(missing_ok=True)
    store.sweep(folder)
    return path


def read_checkpoints(folder: Path) -> Iterator[tuple[Path, bytes]]:
    """Yield the name and the contents of each checkpoint, the newest first."""
    for path in list_checkpoints(folder):
        yield path, path.read_bytes()


def hash_arrays(arrays: Iterable[np.ndarray]) -> str:
    """Return a hash of the arrays' bytes, as 16 hexadecimal digits."""
    digest = hashlib.blake2b(digest_size=8)
    for array in arrays:
        digest.update(np.ascontiguousarray(array))
    return digest.hexdigest()


# The weights that come with the lab; tests/trained_weights.py trains and writes them.
TRAINED = Path(__file__).parent / "files" / "trained.npz"


def load_trained() -> dict[str, np.ndarray]:
    """Return the weights of a trained CNN, which come with the lab, as float32.

    The file contains them in float16, which halves its size. The test set's accuracy
    with them is at least 98.9 % (tests/mnist/test_trained.py).
    """
    with np.load(TRAINED, allow_pickle=False) as file:
        return {name: values.astype(np.float32) for name, values in file.items()}


# ---- gradients ---------------------------------------------------------------

# Batch norm cancels a convolution's bias. The bias's gradient is only rounding error,
# so its relative error is meaningless.
MOVELESS = ("conv1.bias", "conv2.bias")


@dataclass(frozen=True)
class TrainingStep:
    """The mean loss over a batch, and its gradients by the parameters' names."""

    loss: float
    gradients: dict[str, np.ndarray]

    def errors(self, loss: float, gradients: Mapping[str, np.ndarray]) -> dict:
        """Return the relative errors of another step's loss and gradients.

        loss_error: the error of the loss. gradient_errors: by parameter, the Frobenius
        norm of the difference over that of the gradient. gradient_error: the largest of
        them. An error is NaN if the other step's value is NaN.
        """
        errors = {}
        for name, want in self.gradients.items():
            if name in MOVELESS:
                continue
            distance = np.linalg.norm(np.asarray(gradients[name], np.float64) - want)
            errors[name] = float(distance / max(np.linalg.norm(want), 1e-300))
        return {
            "loss_error": abs(loss - self.loss) / max(abs(self.loss), 1e-300),
            "gradient_error": float(np.max([*errors.values()])),
            "gradient_errors": errors,
        }


def exact_step(
    weights: Mapping[str, np.ndarray],
    images: np.ndarray,
    labels: np.ndarray,
    device: str | torch.device = "cpu",
) -> TrainingStep:
    """Run both passes in float64 on images (n,h,w) and labels (n), uint8.

    The shapes of the weights, a dictionary like Cnn.weights, define the model's sizes.
    """
    # Imported lazily: training with Cnn imports no PyTorch.
    import torch
    from torch.nn.functional import cross_entropy

    from .twin import Twin  # this module imports PyTorch, too

    sizes: dict[str, Any] = {
        "channels": (len(weights["conv1.weight"]), len(weights["conv2.weight"])),
        **{"hidden": len(weights["fc1.weight"]), "classes": len(weights["fc2.weight"])},
        **{"height": images.shape[1], "width": images.shape[2]},
    }
    model = Twin(**sizes).double().to(device)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(torch.from_numpy(np.asarray(weights[name], np.float64)))
    # The scale is rounded to fp32, as it is in all trainers.
    mean, std = float(np.float32(MEAN)), float(np.float32(STD))
    pixels = torch.from_numpy(images.copy()).to(device)
    x = (pixels[:, None].double() / 255 - mean) / std
    target = torch.from_numpy(labels.astype(np.int64)).to(device)
    loss = cross_entropy(model(x), target)
    loss.backward()
    gradients = {n: p.grad.cpu().numpy() for n, p in model.named_parameters()}
    return TrainingStep(loss.item(), gradients)
