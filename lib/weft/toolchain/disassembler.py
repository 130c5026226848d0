"""Machine code as text, by NVIDIA's nvdisasm or cuobjdump."""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..base.errors import BuildError

TOOLS = ("nvdisasm", "cuobjdump")
_CURE = "pip install nvidia-cuda-nvdisasm"


def disassemble(cubin: bytes, lines: bool = False) -> str:
    """The instructions of a cubin; BuildError if there is no tool to read it.

    lines: with labels and the source lines, of all functions that were inlined, in
    comments, which only nvdisasm writes.
    """
    found = find_tool()
    if lines and "cuobjdump" in Path(found).name:
        raise BuildError(f"{found} knows no source lines, nvdisasm does: {_CURE}")
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        option = "-sass" if "cuobjdump" in Path(found).name else "-c"
        command = [found, option, *["-gi"] * lines, file.name]
        done = subprocess.run(command, text=True, capture_output=True)
    if done.returncode:
        raise BuildError(f"{found}: {(done.stderr or done.stdout).strip()}")
    return done.stdout


@functools.cache
def find_tool() -> str:
    """The path of a disassembler: on PATH, of the toolkit or pip, or Triton's copy."""
    from cuda import pathfinder

    finders: list[Callable[[str], Any]] = [shutil.which]
    if hasattr(pathfinder, "find_nvidia_binary_utility"):
        finders.append(pathfinder.find_nvidia_binary_utility)
    triton = importlib.util.find_spec("triton")
    if triton and triton.origin:
        folder = Path(triton.origin).parent / "backends" / "nvidia" / "bin"
        finders.append(lambda name: shutil.which(name, path=str(folder)))
    for find in finders:
        for name in TOOLS:
            try:
                found = find(name)
            except Exception:  # pathfinder refuses names that it does not know
                continue
            if found and os.access(found, os.X_OK):
                return found
    raise BuildError(f"no nvdisasm and no cuobjdump, which print machine code: {_CURE}")
