"""CUDA C, or PTX, as machine code with line information. No GPU is needed.

NVRTC for what lies in a string; nvcc for a file that holds host code too; ptxas for
PTX that others made. https://docs.nvidia.com/cuda/cuda-compiler-driver-nvcc/
"""

from __future__ import annotations

import functools
import itertools
import os
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...base import store
from ...base.errors import ArgumentError, BuildError
from ...base.paths import COMMON
from ...cells import stored
from ...cells.gpu import loader as gpu
from ...cells.gpu import nvrtc
from ...cells.gpu.nvrtc import Usage
from ...pykernel.numba import reading
from ...toolchain import build, tools

DEFAULT = "sm_90"  # where there is no GPU
_FOR_PTXAS = "-Xptxas="  # what nvcc hands on
_NVCC = "pip install nvidia-cuda-nvcc, or install the CUDA Toolkit"


@dataclass
class Compiled:
    """PTX, and what ptxas made of it.

    lowered: the mangled name of each C++ name asked for, where that is known. usage:
    by mangled name. why: why there is no machine code, or else, if it is asked for, why
    a kernel has no usage.
    """

    ptx: str
    cubin: bytes = b""
    lowered: Mapping[str, str] = field(default_factory=dict)
    usage: Mapping[str, Usage] = field(default_factory=dict)
    why: str = ""

    @functools.cached_property
    def sass(self) -> str:
        """The disassembly with source lines; BuildError with the cure if none."""
        if not self.cubin:
            raise BuildError(self.why)
        return tools.disassemble(self.cubin, lines=True)


def default_arch() -> str:
    """The GPU that is here; else sm_90, or the newest that NVRTC knows."""
    import torch

    if torch.cuda.is_available():
        return gpu.name_arch(torch.cuda.current_device())
    if nvrtc.explain_missing():
        return DEFAULT
    known = nvrtc.list_architectures()
    return DEFAULT if DEFAULT in known else known[-1]


def checked_arch(arch: str | None) -> str:
    """An architecture as the caller gave it, or the default one."""
    if arch is None:
        return default_arch()
    if not isinstance(arch, str) or not re.fullmatch(r"sm_\d{2,3}[af]?", arch):
        raise ArgumentError(f'arch={arch!r}: want an architecture such as "sm_90"')
    return arch


def by_nvrtc(
    source: str,
    name: str,
    arch: str,
    flags: Sequence[str],
    expressions: Sequence[str],
    headers: Mapping[str, str],
) -> Compiled:
    """A cell's source; what a launch on that GPU runs. Raises CompileError."""
    made, _ = stored.load_program(source, name, arch, flags, expressions, headers)
    here = "NVRTC {}.{}".format(*nvrtc.nvrtc_version())
    why = _explain_usage(here, made.cubin, made.log)
    return Compiled(made.ptx, made.cubin, made.lowered, made.usage, why)


def by_nvcc(file: Path, arch: str) -> Compiled:
    """A file with kernels and host code, kept for as long as it does not change."""
    nvcc = build.nvcc()
    if not nvcc:
        raise BuildError(
            f"{file.name} holds host code too, and there is no nvcc: {_NVCC}"
        )
    return _compile_by_nvcc(nvcc, file, arch, _read_stamp(file))


def by_numba(kernel: Any, args: tuple[Any, ...], arch: str) -> Compiled:
    """A Python kernel as Numba compiles it for these arguments."""
    digits = re.sub(r"\D", "", arch)
    cc = int(digits[:-1]), int(digits[-1])
    text = reading.compile_ptx(kernel.kernel, args, cc, lines=True)
    return _assemble(text, arch)


@functools.lru_cache(16)
def _compile_by_nvcc(nvcc: str, file: Path, arch: str, stamp: Any) -> Compiled:
    include = [f"-I{path}" for path in (file.parent, build.KERNELS, COMMON)]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.ptx"
        command = [nvcc, "-ptx", "-lineinfo", "-O3", "-std=c++17", f"-arch={arch}"]
        own = build.own_flags(file)
        inner = [flag for flag in own if flag.startswith(_FOR_PTXAS)]
        command += [*include, *(flag for flag in own if flag not in inner)]
        _run_tool([*command, "-o", str(out), str(file)], file.name)
        text = out.read_text()
    those = [flag.removeprefix(_FOR_PTXAS).split(",") for flag in inner]
    return _assemble(text, arch, *itertools.chain(*those))


def _read_stamp(file: Path) -> tuple[float, ...]:
    """What changes when the file or a header beside it does."""
    folders = (file.parent, build.KERNELS, COMMON)
    headers = [header for folder in folders for header in folder.glob("*.*h")]
    return tuple(path.stat().st_mtime for path in (file, *headers))


@functools.lru_cache(16)
def _assemble(text: str, arch: str, *flags: str) -> Compiled:
    """PTX with the machine code that ptxas makes of it, where there is a ptxas."""
    tool = ptxas()
    if not tool:
        why = f"there is no ptxas, which makes machine code of PTX: {_NVCC}"
        return Compiled(text, why=why)
    with tempfile.TemporaryDirectory() as folder:
        into, out = Path(folder) / "in.ptx", Path(folder) / "out.cubin"
        into.write_text(text)
        command = [tool, "-v", "-lineinfo", f"-arch={arch}", *flags]
        command += [str(into), "-o", str(out)]
        log = _run_tool(command, "ptxas")
        cubin = out.read_bytes()
    usage, why = nvrtc.parse_usage(log), _explain_usage(tool, cubin, log)
    return Compiled(text, cubin, usage=usage, why=why)


def _explain_usage(tool: str, cubin: bytes, log: str) -> str:
    """Why a kernel may have no usage although there is machine code."""
    said = log.strip() or "nothing"
    return f"{tool} ended with code 0 and {len(cubin)} bytes, and said: {said}"


def ptxas() -> str | None:
    """The path of ptxas: on PATH, beside nvcc, or in pip's wheels; or None."""
    if found := shutil.which("ptxas"):
        return found
    if (nvcc := build.nvcc()) and (beside := Path(nvcc).with_name("ptxas")).exists():
        return str(beside)
    try:
        from cuda.pathfinder import find_nvidia_binary_utility

        return find_nvidia_binary_utility("ptxas")
    except Exception:  # older ones do not know the name
        return None


def _run_tool(command: list[str], what: str) -> str:
    done = build.running.run(command, folder=store.cache_folder())
    if done.returncode:
        said = build.running.said_by(done)
        raise BuildError(f"{what}: {os.path.basename(command[0])} says\n{said}")
    return done.stderr + done.stdout
