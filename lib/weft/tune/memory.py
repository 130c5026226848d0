"""What was found before: a file in the cache for each kernel, device and sizes.

They can be made again, in seconds: pruned and cleared with the rest of the cache.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from ..base import cache, whole
from ..cells.gpu import nvrtc
from ..toolchain.build import _hash
from .space import Candidate

FORM = 1  # of what is stored, and of how it is measured


def place(
    device: str,
    args: Sequence[Any],
    candidates: Sequence[Candidate],
    texts: Sequence[Sequence[str]],
    settings: Sequence[Any],
) -> Path:
    """The file for these candidates, their sources and launches, on this device, with
    arguments of these sizes."""
    compiler = "" if nvrtc.explain_missing() else str(nvrtc.nvrtc_version())
    parts = [str(FORM), device, compiler, *map(repr, settings), *map(_write_size, args)]
    for one, text in zip(candidates, texts):
        parts += [str(one), repr(one.shape), *text]
    return cache.cache_folder("tuned") / f"{_hash(*parts)}.json"


def read(path: Path) -> dict[str, Any] | None:
    """What write() wrote; None if nothing is there, or it is damaged."""
    try:
        found = json.loads(path.read_text())
        found["rows"], found["best"]
        os.utime(path)  # used now: the oldest go first
        return found
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write(path: Path, found: dict[str, Any]) -> None:
    """Whole or not at all; where nothing can be written, it is found again."""
    with contextlib.suppress(OSError):
        whole.write(path, json.dumps(found))
        cache.prune_at_exit()


def _write_size(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{value.dtype} {tuple(value.shape)}"
    return repr(value)
