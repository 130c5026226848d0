"""Which trainer the name of a rung stands for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .. import native
from ..native import ArgumentError, Rung
from ..numba_jit.simulator import PER_THREAD
from .cnn import Cnn
from .data import MEAN, STD
from .python_cnn import NUMBA, PythonCnn
from .python_step import PythonStep
from .trainer import Trainer, checked_device
from .weights import shapes

FASTEST = "fastest"
IMAGES = 60_000  # of an epoch


def rungs(target: str) -> list[Rung]:
    """Every rung: Python's, then those of the table of the C library on `target`."""
    return [NUMBA, *native.rungs("mnist", target)]


def trainer(rung: str | None, device: str | torch.device, **model: Any) -> Trainer:
    """The model on that rung; see Cnn for `model`.

    rung: "numba" trains with weft.bodies, any other is one of the C library; None and
    "fastest" are the fastest in fp32. Raises ArgumentError if it does not run there.
    """
    target = checked_device(device).type
    if rung == NUMBA.name:
        if target == "cpu":
            raise ArgumentError(_why_not())
        return PythonCnn(device=device, **model)
    names = {r.name: target in r.targets for r in rungs(target)}
    if rung not in (None, FASTEST, *names):
        there = ", ".join(name for name, here in names.items() if here)
        raise ArgumentError(f"mnist has no rung '{rung}' on {target}; it has {there}")
    return Cnn(None if rung == FASTEST else rung, device, **model)


def threads_of_a_step(batch: int = 64, **sizes: int) -> int:
    """How many threads the launches of a training step have together."""
    config = {"height": 28, "width": 28, "channels1": 32, "channels2": 64}
    config |= {"hidden": 128, "classes": 10, "max_batch": batch} | sizes
    count = 0

    class Counter:
        def __getitem__(self, key: tuple[int, int]) -> Callable[..., None]:
            nonlocal count
            count += key[0] * key[1]
            return lambda *args: None

    # On "meta" tensors have sizes but no memory.
    nowhere = torch.device("meta")
    step = PythonStep(lambda body: Counter(), nowhere, config, shapes(config), 1e-5)
    bytes_ = torch.empty(0, device=nowhere)
    for launches in (
        *[step.load(bytes_, bytes_, batch, MEAN, STD), step.forward(batch)],
        *[step.loss(batch), step.backward(batch), [step.update(0.1)]],
    ):
        list(launches)
    return count


def _why_not() -> str:
    here = "add --device cuda" if torch.cuda.is_available() else "there is none here"
    batch = 64
    threads = threads_of_a_step(batch)
    days = threads * PER_THREAD * IMAGES / batch / 86400
    return (
        f"rung 'numba' runs on a GPU ({here}). Numba's simulator takes "
        f"{1e3 * PER_THREAD:g} ms a thread, and a step on {batch} images has "
        f"{threads / 1e6:.0f} million: an epoch would take {days:.0f} days. "
        f"--rung naive runs the same kernels in CUDA C, on the CPU too"
    )
