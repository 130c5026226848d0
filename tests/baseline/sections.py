"""The sections of a record: which there are, and the module that makes each."""

from __future__ import annotations

import importlib
from types import ModuleType

# A module has record(options) -> {key: {field: value}}; and, if fields are not simply
# equal or different, differences(old, new, options) -> list of compare.Difference.
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
    """The module of a section, imported now: some need PyTorch."""
    return importlib.import_module(f"baseline.{_MODULES[name]}")


def is_here(name: str) -> bool:
    """Whether this machine has what the section needs."""
    if name != "losses_gpu":
        return True
    import torch

    return torch.cuda.is_available()
