"""The sections of a record, and the module of each."""

from __future__ import annotations

import importlib
from types import ModuleType

# A module has record(options) -> {key: {field: value}}. It also has differences(old,
# new, options) -> list of compare.Difference if comparing fields for equality does not
# suffice.
_MODULES = {
    "sass": "sass",
    "puzzles": "verdicts",
    "findings": "findings",
    "counters": "counters",
    "losses": "losses",
    "losses_gpu": "losses_gpu",
    "timings": "timings",
    "tests": "outcomes",
}
NAMES = list(_MODULES)


def module(name: str) -> ModuleType:
    """Import the module of a section, only when needed: some import PyTorch."""
    return importlib.import_module(f"baseline.{_MODULES[name]}")


def is_here(name: str) -> bool:
    """Return whether this machine can record the section."""
    if name != "losses_gpu":
        return True
    import torch

    return torch.cuda.is_available()
