"""The losses and the final weights of each rung of the CNN on the CPU.

A rung in plain C trains for an epoch. A rung in CUDA C is simulated and takes up to six
seconds per step, so it trains only for the steps in STEPS. The record contains their
number.
"""

from __future__ import annotations

import argparse
from typing import Any

from baseline.texts import digest

import weft
from weft import mnist

BATCH, RATE, SEED = 64, 0.1, 0
# graph captures 64 steps together, and queues the remaining ones one by one.
STEPS = {"naive": 64, "tiled": 64, "fused": 16, "graph": 66}
FEW = 4  # steps of any other simulated rung
SHOWN = (1, 2, 4, 16, 64, 256)  # steps whose losses are recorded in full


def record(options: argparse.Namespace) -> dict[str, Any]:
    """Return an entry for each rung that runs on the CPU."""
    return {
        rung.name: trained(rung.name, "cpu", steps_of(rung))
        for rung in weft.rungs("mnist")
        if "cpu" in rung.targets
    }


def steps_of(rung: Any) -> int | None:
    """Return a rung's number of steps on the CPU; None: an epoch."""
    return STEPS.get(rung.name, FEW) if "cuda" in rung.targets else None


def trained(rung: str, device: str, steps: int | None, rate: float = RATE) -> dict:
    """Return a rung's losses and weights after these steps of the first epoch."""
    images = mnist.load("train")
    order = mnist.epoch_order(SEED, 0, len(images), BATCH)
    order = order[: steps * BATCH] if steps else order
    with mnist.trainer(rung, device, max_batch=BATCH) as cnn:
        cnn.data(images)
        cnn.set_weights(mnist.initial_weights(SEED))
        cnn.train(order, BATCH, rate)
        losses, weights = cnn.losses(), cnn.weights
    return {
        "steps": len(losses),
        "losses": digest(losses.tobytes()),
        **{f"loss {n}": float(losses[n - 1]).hex() for n in SHOWN if n <= len(losses)},
        "last": float(losses[-1]).hex(),
        "weights": digest(b"".join(weights[name].tobytes() for name in weights)),
    }
