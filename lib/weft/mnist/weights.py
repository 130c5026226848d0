"""The CNN's parameters by name: their shapes, their first values, their file."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..native import ArgumentError


def shapes(config: dict[str, int]) -> dict[str, tuple[int, ...]]:
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


def checked(
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
    for name, shape in wanted.items():
        value = weights[name]
        if isinstance(value, torch.Tensor):
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
    """Write an .npz with one array per parameter."""
    with open(path, "wb") as file:  # np.savez would add .npz to another name
        np.savez(file, **weights)


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
    return checked(weights, wanted, str(path))
