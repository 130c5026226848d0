"""The losses of an epoch of each rung of the CNN on this machine's GPU."""

from __future__ import annotations

import argparse
from typing import Any

from baseline.losses import trained

import weft


def record(options: argparse.Namespace) -> dict[str, Any]:
    """Return an entry for each rung that this GPU runs."""
    entries: dict[str, Any] = {}
    for rung in weft.rungs("mnist", "cuda"):
        if "cuda" in rung.targets:
            try:
                entries[rung.name] = trained(rung.name, "cuda", None)
            except weft.KernelError as error:  # the rung requires a later GPU or cuDNN
                entries[rung.name] = {"said": str(error)}
    return entries
