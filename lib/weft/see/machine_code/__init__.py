"""Tools that show the machine code of a kernel, and its work on a GPU.

ptx(kernel), sass(kernel)              instructions, below the lines of your source
occupancy(kernel, threads=256)         the number of blocks that fit, and its limit
profile(kernel)[grid, block](*args)    Nsight Compute's counters next to ours

compilation   find a kernel's source, and compile it with NVRTC, nvcc, ptxas or Numba
instructions parse PTX and SASS into instructions, their kinds and their loops
listing       display a kernel's instructions, folded
residency     occupancy(), its picture, and the limits of a multiprocessor
profile       profile(): Nsight Compute's counters next to the CPU's
ncu           run Nsight Compute on recorded launches; its output and its formulas
"""

from __future__ import annotations

from typing import Any

from . import compilation, instructions
from .compilation import demangle, select_kernels, source_for
from .listing import KernelListing, View
from .profile import Profile, profile
from .residency import Occupancy, occupancy


def ptx(kernel: Any, *args: Any, arch: str | None = None) -> View:
    """Return the kernel as PTX, the assembly language that all NVIDIA GPUs share.

    kernel: a kernel or module of load_cuda() or %%cuda; cuda_c(k); a Python kernel or
    numba_jit(k), followed by arguments like those of a launch; or the path of a .cu
    file, followed by its kernels' names ("kernels/matmul/01_naive.cu", "matmul_naive").
    arch: an architecture such as "sm_80"; None: that of this machine's GPU, or sm_90
    without a GPU. No GPU is needed. Raises ArgumentError or CompileError, or, if a tool
    is missing, BuildError with the cure.
    """
    return _build_view("ptx", kernel, args, arch)


def sass(kernel: Any, *args: Any, arch: str | None = None) -> View:
    """Return the kernel as SASS, the instructions that one kind of GPU executes.

    The parameters are the same as for ptx(). sass() requires nvdisasm: pip install
    nvidia-cuda-nvdisasm.
    """
    return _build_view("sass", kernel, args, arch)


_READERS = {
    "ptx": (instructions.list_ptx_kernels, instructions.read_ptx),
    "sass": (instructions.list_sass_kernels, instructions.read_sass),
}


def _build_view(language: str, kernel: Any, args: Any, arch: str | None) -> View:
    arch = compilation.checked_arch(arch)
    source = source_for(kernel, args)
    code = source.compile(arch)
    text = getattr(code, language)
    list_kernels, read = _READERS[language]
    listings = []
    for asked, name in select_kernels(source, code, list_kernels(text)):
        parts = read(text, name), code.usage.get(name), source
        listings.append(KernelListing(demangle(asked, name), *parts))
    return View(language, arch, listings)


__all__ = ["Occupancy", "Profile", "View", "occupancy", "profile", "ptx", "sass"]
