"""NVIDIA's libraries, called from C through cffi: the files of kernels/vendor.

    blas = vendor.open_library("blas", "cpu")
    blas.C.cublasSgemm_v2(...)                  a function of the library
    blas.call("blas_sgemm", plan, product)      a function of kernels/vendor/blas.c

LIBRARIES has a line for each file. The file is compiled without NVIDIA's headers, and
linked with the library from a wheel or a toolkit. On the target "cpu" it is linked with
Weft's own version, which has the same symbols and runs on the host. explain_missing()
names the wheel that a library needs.
"""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import os
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cffi import FFI

from ..base.errors import BuildError, KernelError
from ..base.paths import KERNELS
from . import build, tools

SOURCES = KERNELS / "vendor"
_libraries: list[Any] = []  # open libraries; without a reference, cffi would close them


@dataclass(frozen=True)
class Library:
    """One line of the table.

    name: the library's name without "lib" and ".so"; for CUTLASS, a Python module.
    wheel: pip's package; {} is the release of CUDA, such as 13. cpu: the name of Weft's
    version for the CPU, "" if there is none. status: the C function that describes a
    status. needs: libraries that must be open before it. version: the only release
    whose structs the file describes.
    """

    name: str
    wheel: str
    cpu: str = ""
    status: str = ""
    needs: tuple[str, ...] = ()
    version: str = ""


LIBRARIES = {
    "blas": Library("cublas", "nvidia-cublas", "cublas", "cublasGetStatusString"),
    "lt": Library("cublasLt", "nvidia-cublas", "cublas"),
    "xt": Library("cublas", "nvidia-cublas", "cublas"),
    "fft": Library("cufft", "nvidia-cufft", "cufft"),
    "rand": Library("curand", "nvidia-curand", "curand"),
    "dnn_graph": Library("cudnn", "nvidia-cudnn-cu{}", status="cudnnGetErrorString"),
    "cub": Library(
        "cccl.c.parallel", "cuda-cccl", needs=("nvrtc", "nvJitLink"), version="1.0.2"
    ),
    "nccl": Library("nccl", "nvidia-nccl-cu{}", status="ncclGetErrorString"),
    "cutlass": Library("cutlass_library", "nvidia-cutlass"),
}


@dataclass(frozen=True)
class Opened:
    """An open library. C: its functions, and those of the file that calls it.

    path: the library's file; for CUTLASS, the folder of its headers.
    """

    key: str
    ffi: FFI
    C: Any
    path: Path

    def call(self, function: str, *args: Any) -> None:
        """Call a function that returns a status; raise KernelError if it fails."""
        if status := getattr(self.C, function)(*args):
            raise KernelError(f"{function}: {self.describe_status(status)}")

    def describe_status(self, status: int) -> str:
        """Return a status with the library's own words for it, if it has any."""
        describe = LIBRARIES[self.key].status
        text = self.ffi.string(getattr(self.C, describe)(status)) if describe else b""
        return f"status {status}" + f": {text.decode()}" * bool(text)


@functools.cache
def open_library(key: str, target: str) -> Opened:
    """Compile kernels/vendor/KEY.c, link it with its library, and open both.

    key: a key of LIBRARIES. target: "cpu" or "cuda". Raises BuildError if the library
    is missing; the message names the wheel to install.
    """
    path = _find_library(key, target)
    ffi = FFI()
    for name in ("vendor.h", find_source(key).name):
        ffi.cdef((SOURCES / name).read_text().split("/* cdef:")[1].partition("*/")[2])
    with tempfile.TemporaryDirectory(prefix="weft_") as folder:
        file = f"{folder}/libweft_vendor_{key}.so"
        done = tools.run([*_make_command(key, path), "-o", file])
        if done.returncode:
            raise BuildError(tools.said_by(done))
        # PyTorch may have opened NVIDIA's libraries for the whole process. With
        # DEEPBIND, the file calls the library that it was linked with.
        try:
            functions = ffi.dlopen(file, os.RTLD_NOW | os.RTLD_DEEPBIND)
        except OSError as error:
            lacks = re.search(r"undefined symbol: \w+", str(error))
            raise BuildError(f"{path}: {lacks[0] if lacks else error}") from None
    return Opened(key, ffi, functions, path)


def explain_missing(key: str, target: str = "cuda") -> str:
    """Explain why a library cannot be used, and how to fix it; "" if it can be used."""
    try:
        _find_library(key, target)
    except BuildError as error:
        return str(error)
    return ""


def find_source(key: str) -> Path:
    """Return the file of kernels/vendor that calls a library."""
    return next(SOURCES.glob(f"{key}.c*"))


def _make_command(key: str, path: Path) -> Sequence[str]:
    """Return the command that compiles and links a file, without its output option."""
    common = [f"-I{SOURCES}", "-shared"]
    if key == "cutlass":  # nvcc compiles its templates into our library
        arch = f"-gencode=arch=compute_{tools.live_sm()},code=sm_{tools.live_sm()}"
        flags = ["-O3", "-std=c++17", "--expt-relaxed-constexpr", "-w", arch]
        compiler = [tools.find_tool("nvcc"), *flags, "-Xcompiler", "-fPIC"]
        return [*compiler, *common, f"-I{path}", str(find_source(key))]
    compiler = [tools.find_tool("g++"), "-O2", "-fPIC", *common]
    # The libraries that this library needs are already open, or in its folder.
    link = ["-Xlinker", "--allow-shlib-undefined", "-Xlinker", "-rpath"]
    link += ["-Xlinker", str(path.parent)]
    return [*compiler, "-x", "c", str(find_source(key)), "-x", "none", str(path), *link]


# ---- finding a library ---------------------------------------------------------------


def _find_library(key: str, target: str) -> Path:
    """Return the path of a library; on the target "cuda", open it."""
    library = LIBRARIES[key]
    if target == "cpu":
        if not library.cpu:
            raise BuildError(f"{find_source(key).name}: its library needs a GPU")
        return build.vendor_library(library.cpu, build.Flavour.here("cpu"))
    try:
        if library.version:
            version = importlib.metadata.version(library.wheel)
            if version != library.version:
                raise LookupError(f"{library.wheel} {version} has other structs")
        for name in library.needs:
            _load(name)
        return _load(library.name)
    # pathfinder's exceptions depend on its version.
    except Exception as error:
        first = (str(error).splitlines() or [type(error).__name__])[0]
        first = first.partition(": No such file")[0]
        raise BuildError(f"no {library.name} ({first}): {suggest_wheel(key)}") from None


def suggest_wheel(key: str) -> str:
    """Return the command that installs a library for torch's release of CUDA."""
    library = LIBRARIES[key]
    if key in ("cub", "cutlass"):  # one wheel for all releases
        return f"pip install {library.wheel}" + f"=={library.version}" * bool(
            library.version
        )
    if "{}" in library.wheel:
        return f"pip install {library.wheel.format(_find_release())}"
    return tools.pip_command(library.wheel)


def _find_release() -> str:
    """Return torch's release of CUDA, such as "13"; "13" without PyTorch for CUDA."""
    # Imported lazily, since this takes a second.
    import torch

    return (torch.version.cuda or "13").partition(".")[0]


def _load(name: str) -> Path:
    """Open a library, and return its path; raise an exception if it is missing."""
    if name == "cutlass_library":
        return _find_folders(name)[0] / "source" / "include"
    if name == "cccl.c.parallel":
        folder = _find_folders("cuda.compute")[0] / f"cu{_find_release()}" / "cccl"
        path = folder / f"lib{name}.so"
    else:
        path = _find_in_wheel(name) or _find_in_toolkit(name)
    _libraries.append(FFI().dlopen(str(path)))
    return path


def _find_in_wheel(name: str) -> Path | None:
    """Return the path of a library in an NVIDIA wheel for torch's CUDA, or None."""
    if not importlib.util.find_spec("nvidia"):
        return None
    paths = []
    for folder in _find_folders("nvidia"):
        paths += sorted(folder.glob(f"*/lib/lib{name}.so*"))
    # The wheels for CUDA 13 share a folder, and those for CUDA 12 have one each. cuDNN
    # and NCCL always have their own.
    shared = [path for path in paths if path.parts[-3].startswith("cu1")]
    here = [p for p in shared if p.parts[-3] == f"cu{_find_release()}"]
    rest = [path for path in paths if path not in shared]
    return next(iter(here + rest), None)


def _find_in_toolkit(name: str) -> Path:
    """Return the path of a library in a toolkit; raise an exception without one."""
    from cuda import pathfinder

    return Path(pathfinder.load_nvidia_dynamic_lib(name).abs_path)


def _find_folders(module: str) -> list[Path]:
    """Return the folders of a Python module, without importing it."""
    spec = importlib.util.find_spec(module)
    if not spec:
        raise LookupError(f"no module {module}")
    return [Path(place) for place in spec.submodule_search_locations or ()]
