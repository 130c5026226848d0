"""Each rung of the CNN on the GPU that is here: an epoch, as losses.py has it."""

from __future__ import annotations

import argparse
from typing import Any

from baseline.losses import trained

import weft


def record(options: argparse.Namespace) -> dict[str, Any]:
    """An entry for each rung that this GPU runs."""
    found: dict[str, Any] = {}
    for rung in weft.rungs("mnist", "cuda"):
        if "cuda" in rung.targets:
            try:
                found[rung.name] = trained(rung.name, "cuda", None)
            except weft.KernelError as error:  # of a later GPU, or without cuDNN
                found[rung.name] = {"said": str(error)}
    return found
