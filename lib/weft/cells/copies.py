"""What to pass instead of an array that does not fit: a copy, and how it comes back."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ..csource.signature import Param


def advise_contiguous(param: Param, owner: Any) -> str:
    """The advice for an array with gaps."""
    if isinstance(owner, torch.Tensor):
        return _write_advice(param, owner, ".contiguous()")
    if isinstance(owner, np.ndarray):
        return _write_advice(param, owner, "np.ascontiguousarray")
    return "pass np.ascontiguousarray() of it"


def advise_converted(param: Param, owner: Any, dtype: str) -> str:
    """The advice for an array of another dtype; "" if there is none."""
    if isinstance(owner, torch.Tensor) and hasattr(torch, dtype):
        return ": " + _write_advice(param, owner, f".to(torch.{dtype})")
    if isinstance(owner, np.ndarray) and hasattr(np, dtype):
        return ": " + _write_advice(param, owner, f".astype(np.{dtype})")
    return ""


def _write_advice(param: Param, owner: Any, way: str) -> str:
    """The copy; where the kernel may write to it, how that comes into the array."""
    method = way.startswith(".")
    if param.const:
        return f"pass its {way}" if method else f"pass {way}() of it"
    name = param.name or "x"
    copy = f"{name}{way}" if method else f"{way}({name})"
    back = f"{name}.copy_(c)" if isinstance(owner, torch.Tensor) else f"{name}[...] = c"
    return f"pass a copy c = {copy}, and after the launch {back}, as it may be written"
