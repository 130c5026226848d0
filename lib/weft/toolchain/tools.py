"""The compilers and disassemblers that are here, and what they build for.

Machine code as text, by NVIDIA's nvdisasm or cuobjdump.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..base import device
from ..base.errors import BuildError
from ..base.paths import ROOT


def nvcc() -> str | None:
    """The path of nvcc: on PATH, in CUDA_HOME, or in pip's wheels; or None."""
    if found := shutil.which("nvcc"):
        return found
    try:
        from cuda.pathfinder import find_nvidia_binary_utility

        return find_nvidia_binary_utility("nvcc")
    except ImportError:
        return None


def gxx() -> str | None:
    """The path of the C++ compiler for the CPU target (CXX overrides), or None."""
    return shutil.which(os.environ.get("CXX", "g++"))


@functools.cache
def vendor_headers(path: tuple[str, ...]) -> tuple[str, ...]:
    """Where pip's wheels have the headers of cuDNN and cuBLAS, as flags of nvcc.

    They come after the toolkit's own: such a folder may hold those in another version.
    path: sys.path, on which they are looked for, once.
    """
    spec = importlib.util.find_spec("nvidia")  # a namespace: no code of its own
    places = (spec and spec.submodule_search_locations) or ()
    found = [
        header.parent
        for place in places
        for name in ("cudnn.h", "cublas_v2.h")
        for header in sorted(Path(place).glob(f"*/include/{name}"))
    ]
    return tuple(
        word for folder in dict.fromkeys(found) for word in ("-isystem", f"{folder}")
    )


_CURES = {
    "g++": "no C++ compiler{}: install one (Debian, Ubuntu: apt install g++)",
    "nvcc": "no nvcc: install the CUDA Toolkit, or pip install nvidia-cuda-nvcc",
}


# What g++ itself cannot have in the name of a folder: it does not quote them where its
# assembler or its preprocessor reads that name.
_ODD = re.compile(r'["\\\x00-\x1f\x7f\udc80-\udcff]')


def find_tool(name: str) -> str:
    """The path of "g++" or "nvcc"; BuildError with its cure."""
    if odd := _ODD.search(str(ROOT)):
        raise BuildError(
            f"the lab lies in {str(ROOT)!r}, and {name} cannot read a folder with "
            f"{odd[0]!r} in its name: rename it or move the lab"
        )
    found = gxx() if name == "g++" else nvcc()
    if not found:
        named = os.environ.get("CXX")
        raise BuildError(_CURES[name].format(f" '{named}' (from CXX)" if named else ""))
    return found


@functools.cache
def cpu_flags() -> str:
    """What -march=native depends on, so that a shared checkout stays right."""
    try:
        return re.search(
            r"(flags|Features)\s*:.*", Path("/proc/cpuinfo").read_text()
        ).group()
    except (OSError, AttributeError):
        return ""


def live_sm() -> str:
    """The architecture of the current GPU, as nvcc spells it; BuildError without."""
    if not device.count():
        raise BuildError("no CUDA GPU here: the CUDA build needs one to build for")
    major, minor = device.compute_capability(device.current_gpu())
    # The architecture-specific target has wgmma and TMA; -arch=native lacks them.
    return f"{major}{minor}" + ("a" if major >= 9 else "")


def toolkit_version() -> str:
    """The release of nvcc, or "none"."""
    found = nvcc()
    if not found:
        return "none"
    done = subprocess.run([found, "--version"], text=True, capture_output=True)
    release = [part for part in done.stdout.split(",") if "release" in part]
    return release[0].split()[-1] if release else "unknown"


TOOLS = ("nvdisasm", "cuobjdump")
_CURE = "pip install nvidia-cuda-nvdisasm"


def disassemble(cubin: bytes, lines: bool = False) -> str:
    """The instructions of a cubin; BuildError if there is no tool to read it.

    lines: with labels and the source lines, of all functions that were inlined, in
    comments, which only nvdisasm writes.
    """
    found = find_disassembler()
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
def find_disassembler() -> str:
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
