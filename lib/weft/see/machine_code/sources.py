"""What of a kernel is compiled: its text, and where the reader's own lines are.

a kernel of load_cuda() or %%cuda, or all of its module     the cell
cuda_c(kernel), a Python kernel and arguments               the C that was made
a path and the kernel's name                                the file, by nvcc
numba_jit(kernel) and arguments                             Numba's PTX
"""

from __future__ import annotations

import linecache
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...base.errors import ArgumentError
from ...base.paths import ROOT
from ...cells import stored
from ...cells import stored as words
from ...cells.module import Cell, Kernel, Module
from ...pykernel.language.kernel import PythonKernel, source_of
from ...pykernel.numba import NumbaKernel
from ...pykernel.to_cuda.cuda_c import Runner
from . import assembly, toolchain
from .toolchain import Compiled


@dataclass
class Source:
    """One text to compile and the kernels wanted from it.

    name: what the reader calls it. compile(arch): with line information. wanted: the
    C++ names of kernels, () for all there are. language: the reader's. texts: what the
    reader wrote, by the compiler's name of the file. moved: where that text is made of
    another, the reader's (file, line) by its lines.
    """

    name: str
    compile: Callable[[str], Compiled]
    wanted: tuple[str, ...] = ()
    language: str = "cuda"
    texts: Mapping[str, str] = field(default_factory=dict)
    moved: Mapping[int, tuple[str, int]] | None = None

    def place(self, file: str, line: int) -> tuple[str, int]:
        """The reader's (file, line) for the compiler's; ("", 0) for neither."""
        own = os.path.basename(file) == stored.CELL and stored.CELL in self.texts
        if own and self.moved is not None:
            return self.moved.get(line, ("", 0))
        return (self.name, line) if own else (file, line)

    def text(self, file: str, line: int) -> str:
        """A line of what the reader wrote, as place() names it; "" if unknown."""
        known = self.texts.get(stored.CELL) if file == self.name else None
        known = known or self.texts.get(os.path.basename(file))
        if known is None:
            return linecache.getline(file, line).rstrip("\n")
        lines = known.splitlines()
        return lines[line - 1] if 0 < line <= len(lines) else ""


def source_for(kernel: Any, args: tuple[Any, ...] = ()) -> Source:
    """The Source of whatever a reader calls a kernel.

    args: of a Python kernel, such as a launch would have; of a path, the kernel's
    name. Raises ArgumentError for what is no kernel.
    """
    if isinstance(kernel, (str, Path)):
        return _find_file_source(kernel, args)
    if isinstance(kernel, NumbaKernel):
        return _find_numba_source(kernel, args)
    if isinstance(kernel, Runner):
        return _find_runner_source(kernel, args)
    if isinstance(kernel, (Kernel, Module)) and args:
        raise ArgumentError(
            f"{args[0]!r}: a kernel in CUDA C takes nothing beside it here but what "
            f'has a name, e.g. threads=256 or arch="sm_80"'
        )
    if isinstance(kernel, Kernel):
        complete(kernel)
        return _find_cell_source(kernel.module, (kernel.expression,))
    if isinstance(kernel, Module):
        return _find_cell_source(kernel._cell, ())
    return _find_runner_source(Runner(PythonKernel(kernel), "", None), args)


def complete(kernel: Kernel) -> None:
    """ArgumentError for a template without its arguments."""
    if kernel._needs_arguments:
        name = kernel.__name__
        raise ArgumentError(
            f"{name} is a template: give its arguments, e.g. {name}['float', 16]"
        )


def _find_cell_source(cell: Cell, wanted: tuple[str, ...]) -> Source:
    together = cell._together(wanted[0]) if wanted else cell.ordinary()

    def compile(arch: str) -> Compiled:
        return toolchain.by_nvrtc(
            cell.source, cell.name, arch, cell.flags, together, cell.headers
        )

    texts = {**cell.headers, stored.CELL: cell.source}
    return Source(cell.name, compile, wanted or together, texts=texts)


def _find_runner_source(runner: Runner, args: tuple[Any, ...]) -> Source:
    made = runner._of(args) if args or not runner.kernel.parameters else runner._last
    if made is None:
        names = ", ".join(runner.kernel.parameters)
        raise ArgumentError(
            f"{runner.__name__}: its types are those of its arguments: give them too, "
            f"ptx({runner.__name__}, {names})"
        )
    translation, flags = made.translation, made.runner.flags

    def compile(arch: str) -> Compiled:
        return toolchain.by_nvrtc(
            *(translation.text, translation.name, arch, words.split(flags)),
            *((translation.name,), {}),
        )

    files = {f.__name__: source_of(f).file for f in translation.functions}
    moved = {
        number: (files[name], line)
        for number, (line, name) in enumerate(translation.lines, 1)
        if line and name in files
    }
    texts = {stored.CELL: translation.text}
    name = runner.__name__
    return Source(name, compile, (translation.name,), "python", texts, moved)


def _find_numba_source(kernel: NumbaKernel, args: tuple[Any, ...]) -> Source:
    if not args and kernel.parameters:
        raise ArgumentError(
            f"{kernel.name}: Numba compiles it for the types of its arguments: give "
            f"them too, ptx(numba_jit({kernel.name}), {', '.join(kernel.parameters)})"
        )

    def compile(arch: str) -> Compiled:
        return toolchain.by_numba(kernel, args, arch)

    return Source(kernel.name, compile, language="python")


def _find_file_source(path: str | Path, args: tuple[Any, ...]) -> Source:
    if any(not isinstance(name, str) for name in args):
        raise ArgumentError(f"{path}: want the names of kernels behind it, not {args}")
    found = [p for p in (Path(path), ROOT / path) if p.is_file()]
    if not found:
        raise ArgumentError(f"{path}: there is no such file, here or in {ROOT}")
    file = found[0].resolve()

    def compile(arch: str) -> Compiled:
        return toolchain.by_nvcc(file, arch)

    return Source(str(path), compile, tuple(args))


def find_usage(kernel: Any, args: tuple[Any, ...], arch: str) -> tuple[str, Any]:
    """Return (name, Usage) of the only kernel, compiled for an architecture."""
    source = source_for(kernel, args)
    made = source.compile(arch)
    found = select_kernels(source, made, assembly.list_ptx_kernels(made.ptx))
    if len(found) != 1:
        names = ", ".join(demangle(*one) for one in found)
        raise ArgumentError(
            f"{source.name} has {len(found)} kernels, {names}: say which"
        )
    name = demangle(*found[0])
    if found[0][1] not in made.usage:
        raise ArgumentError(f"{name}: ptxas does not say what it needs: {made.why}")
    return name, made.usage[found[0][1]]


def select_kernels(
    source: Source, made: Compiled, names: list[str]
) -> list[tuple[str, str]]:
    """(name asked for, mangled name) of the kernels to show."""
    if not source.wanted:
        return [("", name) for name in names]
    out = []
    for asked in source.wanted:
        if lowered := made.lowered.get(asked):
            out.append((asked, lowered))
            continue
        found = [name for name in names if demangle("", name) == asked]
        if not found:
            known = ", ".join(demangle("", name) for name in names) or "none"
            raise ArgumentError(
                f"{source.name} has no kernel {asked!r}; it has {known}"
            )
        out += [(asked, name) for name in found]
    return out


def demangle(asked: str, mangled: str) -> str:
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
