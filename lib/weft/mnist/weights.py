"""The CNN's parameters by name: their shapes, their first values, their file."""

from __future__ import annotations

import math
import os
import sys
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..base import store
from ..base.errors import ArgumentError


def parameter_shapes(config: dict[str, int]) -> dict[str, tuple[int, ...]]:
    """The parameters' shapes, in the order of their numbers in weft.h."""
    c1, c2 = config["channels1"], config["channels2"]
    flat = c2 * (config["height"] // 4) * (config["width"] // 4)
    found: dict[str, tuple[int, ...]] = {}
    for number, weight in ((1, (c1, 1, 3, 3)), (2, (c2, c1, 3, 3))):
        found[f"conv{number}.weight"] = weight
        for name in (f"conv{number}.bias", f"bn{number}.weight", f"bn{number}.bias"):
            found[name] = weight[:1]
    for number, weight in (
        (1, (config["hidden"], flat)),
        (2, (config["classes"], config["hidden"])),
    ):
        found[f"fc{number}.weight"] = weight
        found[f"fc{number}.bias"] = weight[:1]
    return found


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
    """PyTorch's own first weights of a Twin(...), the same for every side.

    The very bits that torch.manual_seed(seed) leads to, without PyTorch. Its generator
    on the CPU is NumPy's RandomState, the Mersenne Twister (Matsumoto and Nishimura,
    1998) begun by init_genrand; of each number it takes 24 bits for a float. A
    convolution's and a linear layer's weights and biases are uniform in
    +- 1/sqrt(inputs of an output). eps changes nothing.
    """
    if not 0 <= seed < 2**64:
        raise ArgumentError(f"seed={seed}: want 0 to {2**64 - 1}")
    sizes = {"channels1": channels[0], "channels2": channels[1], "hidden": hidden}
    sizes |= {"classes": classes, "height": height, "width": width}
    random = np.random.RandomState(seed % 2**32)  # all of the seed that PyTorch takes
    weights = {}
    for name, shape in parameter_shapes(sizes).items():
        layer, kind = name.split(".")
        if layer.startswith("bn"):
            weights[name] = np.full(shape, kind == "weight", np.float32)
            continue
        if kind == "weight":
            inputs = math.prod(shape[1:])
            # As kaiming_uniform_(a=sqrt(5)) comes by 1/sqrt(inputs).
            bound = math.sqrt(3.0) * (math.sqrt(2.0 / 6.0) / math.sqrt(inputs))
        else:
            bound = 1 / math.sqrt(inputs)
        weights[name] = _draw_uniform(random, bound, shape)
    return weights


def _draw_uniform(
    random: np.random.RandomState, bound: float, shape: tuple[int, ...]
) -> np.ndarray:
    """Float32 from -bound to bound, as torch.Tensor.uniform_() draws them."""
    low, high = np.float32(-bound), np.float32(bound)
    drawn = random.randint(0, 2**32, shape, np.uint32) & np.uint32(2**24 - 1)
    # PyTorch multiplies and adds with one rounding, where the machine can (x86 with
    # AVX2). These doubles are exact: 24 bits times 24, and a sum that is no longer.
    scale = float(high - low) * 2**-24
    return (drawn * scale + float(low)).astype(np.float32)


def check_weights(
    weights: Mapping[str, Any], wanted: Mapping[str, tuple[int, ...]], source: str
) -> dict[str, np.ndarray]:
    """The weights as contiguous float32 arrays in the order of `wanted`.

    ArgumentError, beginning with `source`, names the first that does not fit.
    """
    if missing := [name for name in wanted if name not in weights]:
        raise ArgumentError(f"{source}: no {', '.join(missing)}")
    if unknown := [name for name in weights if name not in wanted]:
        raise ArgumentError(f"{source}: unknown {', '.join(unknown)}")
    arrays = {}
    torch = sys.modules.get("torch")  # who has not imported it has no tensors
    for name, shape in wanted.items():
        value = weights[name]
        if torch and isinstance(value, torch.Tensor):
            value = value.detach().cpu()
        else:
            value = np.asarray(value)
        dtype = str(value.dtype).removeprefix("torch.")
        if tuple(value.shape) != shape or dtype != "float32":
            raise ArgumentError(
                f"{source}: {name} is {dtype} {tuple(value.shape)}, "
                f"the model has float32 {shape}"
            )
        arrays[name] = np.ascontiguousarray(value)
    return arrays


def save(path: str | Path, weights: Mapping[str, np.ndarray]) -> None:
    """Write an .npz with one array per parameter; what was there stays until then."""
    with store.replace_file(Path(path)) as beside:
        with open(beside, "wb") as file:  # np.savez would add .npz to another name
            np.savez(file, **weights)
        os.chmod(beside, 0o644)


# What NumPy and zipfile raise, between them, for a file with a few bits flipped.
_UNREADABLE = (OSError, ValueError, EOFError, TypeError, RuntimeError)
_UNREADABLE += (zipfile.BadZipFile, zlib.error)


def load(
    path: str | Path, wanted: Mapping[str, tuple[int, ...]]
) -> dict[str, np.ndarray]:
    """The arrays of an .npz; ArgumentError if it is none or they do not fit."""
    try:
        with np.load(path, allow_pickle=False) as file:
            weights = dict(file)
    except FileNotFoundError:
        raise ArgumentError(f"{path}: there is no such file of weights") from None
    except _UNREADABLE as error:
        raise ArgumentError(f"{path} is no .npz of weights: {error}") from None
    return check_weights(weights, wanted, str(path))
