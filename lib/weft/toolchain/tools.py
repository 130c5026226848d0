"""The compilers that are here, and what they build for."""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path

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
