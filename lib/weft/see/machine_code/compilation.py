"""Find a kernel's source and compile it to machine code with line information.

No GPU is needed. NVRTC compiles source given as a string; nvcc compiles a file that
also contains host code; ptxas assembles PTX from other tools.
https://docs.nvidia.com/cuda/cuda-compiler-driver-nvcc/

The kernel as given by the reader, and the text that is compiled:

a kernel of load_cuda() or %%cuda, or its whole module      the cell
cuda_c(kernel), a Python kernel and arguments               the generated CUDA C
a path and the kernel's name                                the file, by nvcc
numba_jit(kernel) and arguments                             Numba's PTX
"""

from __future__ import annotations

import functools
import itertools
import linecache
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...base import store
from ...base.errors import ArgumentError, BuildError
from ...base.paths import COMMON, ROOT
from ...base.progress import PATIENCE, Progress
from ...cells import stored
from ...cells.gpu import loader as gpu
from ...cells.gpu import nvrtc
from ...cells.gpu.nvrtc import Usage
from ...cells.module import Cell, Kernel, Module
from ...pykernel.language import PythonKernel, source_of
from ...pykernel.numba import NumbaKernel, inspection
from ...pykernel.to_cuda.cuda_c import TranslatedKernel
from ...toolchain import build, tools
from . import instructions

DEFAULT = "sm_90"  # default architecture on machines without a GPU
_FOR_PTXAS = "-Xptxas="  # prefix of options that nvcc passes to ptxas


@dataclass
class MachineCode:
    """PTX, and the machine code that ptxas generated from it.

    lowered: the mangled name of each requested C++ name, if known. usage: the resources
    of each kernel, by mangled name. why: why there is no machine code or, if there is,
    why a kernel has no usage.
    """

    ptx: str
    cubin: bytes = b""
    lowered: Mapping[str, str] = field(default_factory=dict)
    usage: Mapping[str, Usage] = field(default_factory=dict)
    why: str = ""

    @functools.cached_property
    def sass(self) -> str:
        """The disassembly with source lines. Raises BuildError if there is no code."""
        if not self.cubin:
            raise BuildError(self.why)
        return tools.disassemble(self.cubin, lines=True)


def default_arch() -> str:
    """Return this GPU's architecture; without a GPU, sm_90 or NVRTC's newest."""
    import torch

    if torch.cuda.is_available():
        return gpu.name_arch(torch.cuda.current_device())
    if nvrtc.explain_missing():
        return DEFAULT
    available = nvrtc.list_architectures()
    return DEFAULT if DEFAULT in available else available[-1]


def checked_arch(arch: str | None) -> str:
    """Validate and return an architecture; for None, return the default."""
    if arch is None:
        return default_arch()
    if not isinstance(arch, str) or not re.fullmatch(r"sm_\d{2,3}[af]?", arch):
        raise ArgumentError(f'arch={arch!r}: expected an architecture such as "sm_90"')
    return arch


def by_nvrtc(
    source: str,
    name: str,
    arch: str,
    flags: Sequence[str],
    expressions: Sequence[str],
    headers: Mapping[str, str],
) -> MachineCode:
    """Compile a cell's source as a launch on `arch` does; may raise CompileError."""
    program, _ = stored.load_program(source, name, arch, flags, expressions, headers)
    tool = "NVRTC {}.{}".format(*nvrtc.nvrtc_version())
    why = _explain_usage(tool, program.cubin, program.log)
    return MachineCode(program.ptx, program.cubin, program.lowered, program.usage, why)


def by_nvcc(file: Path, arch: str) -> MachineCode:
    """Compile a file with kernels and host code, caching the result."""
    if nvcc := build.nvcc():
        return _compile_by_nvcc(nvcc, file, arch, _read_stamp(file))
    why = f"{file.name} also contains host code, and nvcc is missing"
    raise BuildError(f"{why}: {_suggest_nvcc()}")


def _suggest_nvcc() -> str:
    return f"{tools.pip_command('nvidia-cuda-nvcc')}, or install the CUDA Toolkit"


def by_numba(kernel: Any, args: tuple[Any, ...], arch: str) -> MachineCode:
    """Compile a Python kernel with Numba for these arguments."""
    digits = re.sub(r"\D", "", arch)
    cc = int(digits[:-1]), int(digits[-1])
    text = inspection.compile_ptx(kernel.kernel, args, cc, lines=True)
    return _assemble(text, arch)


@functools.lru_cache(16)
def _compile_by_nvcc(nvcc: str, file: Path, arch: str, stamp: Any) -> MachineCode:
    include = [f"-I{path}" for path in (file.parent, build.KERNELS, COMMON)]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.ptx"
        command = [nvcc, "-ptx", "-lineinfo", "-O3", "-std=c++17", f"-arch={arch}"]
        flags = build.own_flags(file)
        inner = [flag for flag in flags if flag.startswith(_FOR_PTXAS)]
        command += [*include, *(flag for flag in flags if flag not in inner)]
        _run_tool([*command, "-o", str(out), str(file)], file.name)
        text = out.read_text()
    options = [flag.removeprefix(_FOR_PTXAS).split(",") for flag in inner]
    return _assemble(text, arch, *itertools.chain(*options))


def _read_stamp(file: Path) -> tuple[float, ...]:
    """Return values that change if the file, or a header it may include, changes."""
    folders = (file.parent, build.KERNELS, COMMON)
    headers = [header for folder in folders for header in folder.glob("*.*h")]
    return tuple(path.stat().st_mtime for path in (file, *headers))


@functools.lru_cache(16)
def _assemble(text: str, arch: str, *flags: str) -> MachineCode:
    """Assemble PTX to machine code, if ptxas is available."""
    tool = ptxas()
    if not tool:
        why = "ptxas, which translates PTX to machine code, is missing"
        why = f"{why}: {_suggest_nvcc()}"
        return MachineCode(text, why=why)
    with tempfile.TemporaryDirectory() as folder:
        into, out = Path(folder) / "in.ptx", Path(folder) / "out.cubin"
        into.write_text(text)
        command = [tool, "-v", "-lineinfo", f"-arch={arch}", *flags]
        command += [str(into), "-o", str(out)]
        log = _run_tool(command, "ptxas")
        cubin = out.read_bytes()
    usage, why = nvrtc.parse_usage(log), _explain_usage(tool, cubin, log)
    return MachineCode(text, cubin, usage=usage, why=why)


def _explain_usage(tool: str, cubin: bytes, log: str) -> str:
    """Explain why a kernel may have no usage although there is machine code."""
    output = log.strip() or "nothing"
    return f"{tool} exited with code 0, wrote {len(cubin)} bytes and printed: {output}"


def ptxas() -> str | None:
    """Return the path of ptxas: on PATH, next to nvcc, or in pip's wheels; or None."""
    if path := shutil.which("ptxas"):
        return path
    if (nvcc := build.nvcc()) and (beside := Path(nvcc).with_name("ptxas")).exists():
        return str(beside)
    try:
        from cuda.pathfinder import find_nvidia_binary_utility

        return find_nvidia_binary_utility("ptxas")
    except Exception:  # an older version of the package may reject the name
        return None


def _run_tool(command: list[str], what: str) -> str:
    with Progress(f"running {os.path.basename(command[0])}", delay=PATIENCE):
        result = tools.run(command, folder=store.cache_folder())
    if result.returncode:
        message = tools.said_by(result)
        raise BuildError(f"{what}: {os.path.basename(command[0])} reports\n{message}")
    return result.stderr + result.stdout


@dataclass
class KernelSource:
    """One text to compile, and the kernels to show from it.

    name: the name that the reader gave. compile(arch): compiles with line information.
    wanted: the C++ names of the kernels; () for all. language: the language of the
    reader's text. texts: the reader's texts, by the compiler's names for the files.
    moved: if a text was generated, the reader's (file, line) for each of its lines.
    """

    name: str
    compile: Callable[[str], MachineCode]
    wanted: tuple[str, ...] = ()
    language: str = "cuda"
    texts: Mapping[str, str] = field(default_factory=dict)
    moved: Mapping[int, tuple[str, int]] | None = None

    def place(self, file: str, line: int) -> tuple[str, int]:
        """Return the reader's (file, line) for the compiler's; ("", 0) if unknown."""
        is_cell = os.path.basename(file) == stored.CELL and stored.CELL in self.texts
        if is_cell and self.moved is not None:
            return self.moved.get(line, ("", 0))
        return (self.name, line) if is_cell else (file, line)

    def text(self, file: str, line: int) -> str:
        """Return the reader's line at a place from place(); "" if unknown."""
        source = self.texts.get(stored.CELL) if file == self.name else None
        source = source or self.texts.get(os.path.basename(file))
        if source is None:
            return linecache.getline(file, line).rstrip("\n")
        lines = source.splitlines()
        return lines[line - 1] if 0 < line <= len(lines) else ""


def source_for(kernel: Any, args: tuple[Any, ...] = ()) -> KernelSource:
    """Return the KernelSource of any kind of kernel in the module's list.

    args: for a Python kernel, arguments like those of a launch; for a path, the names
    of kernels. Raises ArgumentError if `kernel` is not a kernel.
    """
    if isinstance(kernel, (str, Path)):
        return _find_file_source(kernel, args)
    if isinstance(kernel, NumbaKernel):
        return _find_numba_source(kernel, args)
    if isinstance(kernel, (Kernel, Module)) and args:
        raise ArgumentError(
            f"{args[0]!r}: with a kernel in CUDA C, pass only named arguments, "
            f'e.g. threads=256 or arch="sm_80"'
        )
    if isinstance(kernel, Kernel):
        complete(kernel)
        return _find_cell_source(kernel.module, (kernel.expression,))
    if isinstance(kernel, Module):
        return _find_cell_source(kernel._cell, ())
    return _find_runner_source(runner_of(kernel), args)


def runner_of(kernel: Any) -> TranslatedKernel:
    """Return the runner of cuda_c(k) or of a Python kernel."""
    if isinstance(kernel, TranslatedKernel):
        return kernel
    return TranslatedKernel(PythonKernel(kernel), "", None)


def complete(kernel: Kernel) -> None:
    """Raise ArgumentError if the kernel is a template without its arguments."""
    if kernel._needs_arguments:
        name = kernel.__name__
        cure = f"give its arguments, e.g. {name}['float', 16]"
        raise ArgumentError(f"{name} is a template: {cure}")


def _find_cell_source(cell: Cell, wanted: tuple[str, ...]) -> KernelSource:
    together = cell._together(wanted[0]) if wanted else cell.ordinary()

    def compile(arch: str) -> MachineCode:
        program = cell.source, cell.name, arch, cell.flags
        return by_nvrtc(*program, together, cell.headers)

    texts = {**cell.headers, stored.CELL: cell.source}
    return KernelSource(cell.name, compile, wanted or together, texts=texts)


def _find_runner_source(runner: TranslatedKernel, args: Sequence[Any]) -> KernelSource:
    form = runner._of(args) if args or not runner.kernel.parameters else runner._last
    name = runner.__name__
    if form is None:
        call = f"ptx({name}, {', '.join(runner.kernel.parameters)})"
        raise ArgumentError(
            f"{name}: the arguments determine its types: pass them too, {call}"
        )
    translation, flags = form.translation, stored.split(form.runner.flags)

    def compile(arch: str) -> MachineCode:
        program = translation.text, translation.name, arch, flags
        return by_nvrtc(*program, (translation.name,), {})

    files = {f.__name__: source_of(f).file for f in translation.functions}
    places = {
        number: (files[name], line)
        for number, (line, name) in enumerate(translation.lines, 1)
        if line and name in files
    }
    texts = {stored.CELL: translation.text}
    return KernelSource(name, compile, (translation.name,), "python", texts, places)


def _find_numba_source(kernel: NumbaKernel, args: tuple[Any, ...]) -> KernelSource:
    if not args and kernel.parameters:
        raise ArgumentError(
            f"{kernel.name}: Numba compiles it for the types of its arguments: pass "
            f"them too, ptx(numba_jit({kernel.name}), {', '.join(kernel.parameters)})"
        )

    compile = functools.partial(by_numba, kernel, args)
    return KernelSource(kernel.name, compile, language="python")


def _find_file_source(path: str | Path, args: tuple[Any, ...]) -> KernelSource:
    if any(not isinstance(name, str) for name in args):
        raise ArgumentError(f"{path}: expected names of kernels after it, not {args}")
    paths = [p for p in (Path(path), ROOT / path) if p.is_file()]
    if not paths:
        raise ArgumentError(f"{path}: there is no such file, here or in {ROOT}")
    compile = functools.partial(by_nvcc, paths[0].resolve())
    return KernelSource(str(path), compile, tuple(args))


def find_usage(kernel: Any, args: tuple[Any, ...], arch: str) -> tuple[str, Any]:
    """Return (name, Usage) of the only kernel, compiled for an architecture."""
    source = source_for(kernel, args)
    code = source.compile(arch)
    kernels = select_kernels(source, code, instructions.list_ptx_kernels(code.ptx))
    if len(kernels) != 1:
        names = ", ".join(demangle(*one) for one in kernels)
        count = f"{source.name} has {len(kernels)} kernels"
        raise ArgumentError(f"{count}, {names}: choose one")
    name = demangle(*kernels[0])
    if kernels[0][1] not in code.usage:
        raise ArgumentError(f"{name}: ptxas does not report its resources: {code.why}")
    return name, code.usage[kernels[0][1]]


def select_kernels(
    source: KernelSource, made: MachineCode, names: list[str]
) -> list[tuple[str, str]]:
    """Return (requested name, mangled name) for each of the kernels to show."""
    if not source.wanted:
        return [("", name) for name in names]
    out = []
    for requested in source.wanted:
        if lowered := made.lowered.get(requested):
            out.append((requested, lowered))
            continue
        matches = [name for name in names if demangle("", name) == requested]
        if not matches:
            available = ", ".join(demangle("", name) for name in names) or "none"
            lack = f"{source.name} has no kernel {requested!r}"
            raise ArgumentError(f"{lack}; it has {available}")
        out += [(requested, name) for name in matches]
    return out


def demangle(asked: str, mangled: str) -> str:
    """Return the reader's name of a kernel: the last part of the compiler's name.

    In a mangled name, each part follows its length:
    https://itanium-cxx-abi.github.io/cxx-abi/abi.html#mangling
    """
    if asked:
        return asked
    nested, name = mangled.startswith("_ZN"), ""
    part = re.compile(r"_ZN?[LK]*(\d+)").match(mangled)
    while part:
        end = part.end() + int(part[1])
        name = mangled[part.end() : end]
        part = re.compile(r"[LK]*(\d+)").match(mangled, end) if nested else None
    return name or mangled
