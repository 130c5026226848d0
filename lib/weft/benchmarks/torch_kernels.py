"""Time the kernels of PyTorch's training step: `python -m weft bench torch-kernels`.

The step is an eager step of the MNIST model's twin, in fp32 and in tf32. torch.profiler
reads each kernel's time from CUPTI. On a machine without a GPU, lesson 07c shows
committed rows. This command writes them on a GPU:

    python -m weft bench torch-kernels --json notebooks/results/torch_kernels_CARD.json
"""

from __future__ import annotations

import argparse
from typing import Any

import torch

from ..mnist.twin import TwinTrainer, precision
from ..mnist.weights import initial_weights
from ..see.torch_kernels import torch_kernels
from .graphs import random_data

BATCH, REPEAT = 64, 20
PRECISIONS = ("fp32", "tf32")
SHOWN = ["precision", "us", "share", "calls", "short", "library", "tile", "layout"]


def rows_of(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Return a row for each kernel, longest first; use the GPU if there is one."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    kinds = PRECISIONS if device == "cuda" else PRECISIONS[:1]
    return [row for kind in kinds for row in rows(device, kind)]


def rows(device: str, kind: str, batch: int = BATCH) -> list[dict[str, Any]]:
    """Return the rows of one precision."""
    with precision(kind):
        split, weights = random_data(batch), initial_weights(0)
        trainer = TwinTrainer(weights, split, device=device, batch=batch)
        index = torch.arange(batch, device=device)
        profile = torch_kernels(trainer.step, index, repeat=REPEAT, ghost=False)
    total = profile.us
    return [
        {
            **{"op": "torch_kernels", "impl": "torch", "rung": "eager"},
            **{"precision": kind, "target": profile.target, "device": profile.device},
            **{"timer": "torch.profiler", "batch": batch, "us": row.us},
            **{"share": row.us / total, "calls": row.calls, "short": row.name.short},
            **{"library": row.name.library, "tile": row.name.tile},
            **{"layout": row.name.layout, "kernel": row.raw},
        }
        for row in profile.rows
    ]


def note(rows: list[dict[str, Any]]) -> str:
    """Return the text below the table."""
    steps: dict[str, float] = {}
    for row in rows:
        steps[row["precision"]] = steps.get(row["precision"], 0.0) + row["us"]
    times = ", ".join(f"{kind} {us:.0f} us" for kind, us in steps.items())
    first = rows[0]
    return f"one step at batch {first['batch']} on {first['device']}: {times}"
