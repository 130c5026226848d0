"""The arguments of a launch: what Numba takes, and a sentence for what it does not."""

from __future__ import annotations

import numbers
import sys
from typing import Any

import numpy as np
import torch

from ...base.errors import ArgumentError
from ...cells.arguments import describe
from ..language.arguments import explain_unfit


def check_arguments(kernel: str, named: dict[str, Any]) -> list[Any]:
    """The arguments by parameter as numbers, tuples, NumPy arrays and GPU arrays.

    NumPy arrays are the memory of what was passed: arrays and tensors on the host.
    GPU arrays are as they were: torch tensors and what has __cuda_array_interface__.
    Raises ArgumentError for anything else.
    """
    return [_check_argument(kernel, name, value) for name, value in named.items()]


def on_gpu(value: Any) -> bool:
    """Whether a checked argument is an array on a GPU."""
    return isinstance(value, torch.Tensor) or hasattr(value, "__cuda_array_interface__")


def say_once(text: str) -> None:
    """One line for the reader, the first time only."""
    if text not in _said:
        _said.add(text)
        print(f"weft: {text}", file=sys.stderr)


_said: set[str] = set()


def _check_argument(kernel: str, name: str, value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return _check_tensor(kernel, name, value)
    if isinstance(value, np.ndarray):
        return _check_array(kernel, name, value)
    if isinstance(value, (numbers.Number, tuple)):
        _refuse(kernel, name, value)
        return value
    return _check_other(kernel, name, value)


def _refuse(kernel: str, name: str, value: Any) -> None:
    if why := explain_unfit(value, name):
        raise ArgumentError(f"{kernel}: {name} {why}")


def _check_tensor(kernel: str, name: str, tensor: torch.Tensor) -> Any:
    _refuse(kernel, name, tensor)
    return tensor if tensor.device.type == "cuda" else tensor.numpy()


def _check_array(kernel: str, name: str, array: np.ndarray) -> np.ndarray:
    _refuse(kernel, name, array)
    return np.asarray(array)


def _check_other(kernel: str, name: str, value: Any) -> Any:
    try:
        if hasattr(value, "__cuda_array_interface__"):
            describe(value)  # refuses one that is none, and one without a GPU
            return value
        if hasattr(value, "__array_interface__"):
            return _check_array(kernel, name, np.asarray(value))
        if hasattr(value, "__dlpack__"):
            return _check_tensor(kernel, name, torch.from_dlpack(value))
    except Exception as error:  # whatever the value's own methods raise
        if str(error).startswith(f"{kernel}: "):
            raise
        raise ArgumentError(f"{kernel}: {name}: {error}") from None
    _refuse(kernel, name, value)
    return value
