"""What the rows of a race hold, measured of one contender or worked out of all."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from ...mnist.exact import Step
    from ...toolchain.native import AnyDevice

Row = dict[str, Any]
Gradients = Callable[[np.ndarray], tuple[float, dict[str, np.ndarray]]]

PROFILED = 15  # steps whose sections are timed, and 3 before them


def layer_times(profile: Callable[[], dict[str, float]]) -> dict[str, float]:
    """The median time of every section of a step, in microseconds."""
    steps = [profile() for _ in range(3 + PROFILED)][3:]
    return {name: float(np.median([step[name] for step in steps])) for name in steps[0]}


def mean_errors(gradients: Gradients, exact: Iterable[tuple[np.ndarray, Step]]) -> Row:
    """The means of a contender's relative errors over some batches.

    exact: each batch's images, and its step in float64; without any, nulls.
    """
    each = [step.errors(*gradients(order)) for order, step in exact]
    if not each:
        return dict.fromkeys(("loss_error", "gradient_error", "gradient_errors"))
    mean = {
        name: float(np.mean([one["gradient_errors"][name] for one in each]))
        for name in each[0]["gradient_errors"]
    }
    return {
        "loss_error": float(np.mean([one["loss_error"] for one in each])),
        "gradient_error": float(np.max([*mean.values()])),
        "gradient_errors": mean,
    }


def free(device: AnyDevice) -> None:
    """Give memory back that nobody holds any more, PyTorch's too."""
    gc.collect()
    if device.type == "cuda":
        import torch

        torch.cuda.empty_cache()
