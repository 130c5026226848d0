"""See the machine: what becomes of a kernel, and what it does on a GPU.

ptx(kernel), sass(kernel)              instructions, at the reader's own lines
occupancy(kernel, threads=256)         how many blocks fit, and what limits them
profile(kernel)[grid, block](*args)    Nsight Compute's counters beside ours

sources, toolchain        what is compiled, and by whom; no GPU is needed
read_ptx, read_sass       NVIDIA's texts as instructions; loops: which run most
listing                   shown folded
limits, residency         what a multiprocessor holds; residency_picture: drawn
metrics, ncu, replay      ncu's counters: their names, its output, its process
comparison                the table of `weft bench counters`
"""

from __future__ import annotations

from typing import Any

from ...base.errors import ArgumentError
from . import read_ptx, read_sass, toolchain
from .listing import Kernel, View
from .profile import Profile, profile
from .residency import Occupancy, occupancy
from .sources import Source, source_for
from .toolchain import Compiled


def ptx(kernel: Any, *args: Any, arch: str | None = None) -> View:
    """The kernel as PTX, the assembly language that all NVIDIA GPUs share.

    kernel: of load_cuda() or %%cuda, or the module; cuda_c(k); a Python kernel, or
    numba_jit(k), with arguments like a launch's behind it; the path of a .cu file, with
    its kernels' names behind it ("kernels/matmul/01_naive.cu", "matmul_naive"). arch:
    "sm_80"; None: the GPU here, else sm_90. Needs no GPU. Raises ArgumentError,
    CompileError, and BuildError with the cure where a tool is missing.
    """
    return _view("ptx", kernel, args, arch)


def sass(kernel: Any, *args: Any, arch: str | None = None) -> View:
    """The kernel as SASS, the instructions that one kind of GPU executes.

    All as ptx() has it; nvdisasm must be there: pip install nvidia-cuda-nvdisasm.
    """
    return _view("sass", kernel, args, arch)


def _view(language: str, kernel: Any, args: tuple[Any, ...], arch: str | None) -> View:
    arch = toolchain.checked_arch(arch)
    source = source_for(kernel, args)
    made = source.compile(arch)
    reader = read_ptx if language == "ptx" else read_sass
    text = getattr(made, language)
    names = reader.kernels(text)
    shown = [
        Kernel(
            _plain(asked, name), reader.read(text, name), made.usage.get(name), source
        )
        for asked, name in _wanted(source, made, names)
    ]
    return View(language, arch, shown)


def usage_of(kernel: Any, args: tuple[Any, ...], arch: str) -> tuple[str, Any]:
    """(the one kernel's name, its Usage), for an architecture."""
    source = source_for(kernel, args)
    made = source.compile(arch)
    found = _wanted(source, made, read_ptx.kernels(made.ptx))
    if len(found) != 1:
        names = ", ".join(_plain(*one) for one in found)
        raise ArgumentError(
            f"{source.name} has {len(found)} kernels, {names}: say which"
        )
    name = _plain(*found[0])
    if found[0][1] not in made.usage:
        raise ArgumentError(f"{name}: ptxas does not say what it needs: {made.why}")
    return name, made.usage[found[0][1]]


def _wanted(source: Source, made: Compiled, names: list[str]) -> list[tuple[str, str]]:
    """(name asked for, mangled name) of the kernels to show."""
    if not source.wanted:
        return [("", name) for name in names]
    out = []
    for asked in source.wanted:
        if lowered := made.lowered.get(asked):
            out.append((asked, lowered))
            continue
        found = [name for name in names if _plain("", name) == asked]
        if not found:
            known = ", ".join(_plain("", name) for name in names) or "none"
            raise ArgumentError(
                f"{source.name} has no kernel {asked!r}; it has {known}"
            )
        out += [(asked, name) for name in found]
    return out


def _plain(asked: str, mangled: str) -> str:
    """The reader's name of a kernel: its last part, of what the compiler calls it.

    https://itanium-cxx-abi.github.io/cxx-abi/abi.html#mangling: names stand behind
    their lengths.
    """
    if asked:
        return asked
    if not mangled.startswith("_Z"):
        return mangled
    at, name = 2, ""
    at += mangled[at : at + 1] == "N"
    while at < len(mangled):
        if mangled[at] in "LK":
            at += 1
            continue
        digits = at
        while digits < len(mangled) and mangled[digits].isdigit():
            digits += 1
        if digits == at:
            break
        length = int(mangled[at:digits])
        name, at = mangled[digits : digits + length], digits + length
        if mangled[2] != "N":
            break
    return name or mangled


__all__ = ["Occupancy", "Profile", "View", "occupancy", "profile", "ptx", "sass"]
