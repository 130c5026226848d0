"""Compile a cell for the CPU: CUDA C through the rewriter and g++ to a library.

    rewrite -> g++ (the headers of kernels/simt precompiled) -> <hash>.so -> dlopen

Compiling a cell takes about 40 ms on an idle core. The cache keeps libraries under the
hash of all their inputs. An opened library is never closed, since its kernels may be in
use.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

from ...base import store
from ...base.errors import BuildError
from ...base.paths import COMMON
from ...base.progress import PATIENCE, Progress
from ...csource import diagnostics, scanner, signature
from ...csource import rewrite as rewriter
from ...csource.diagnostics import CompileError, Diagnostic
from ...csource.signature import Param
from ...report.model import CellSource
from ...report.places import note_alias
from ...toolchain import build, keys, tools
from .. import stored, variables
from ..headers import CPU_HEADERS, MACRO_LINES, follow_includes, std_headers
from . import faults
from .launch import FILE, CpuLauncher, ffi, open_runtime, runtime_path, write_launcher
from .watched import CheckedLauncher


@dataclass
class CpuLibrary:
    """An opened library of a cell, with the messages of its compilation."""

    path: Path
    inputs: _LibraryInputs
    report: str
    cached: bool
    warnings: list[Diagnostic]
    C: Any

    def launcher(
        self,
        expression: str,
        params: tuple[Param, ...],
        *,
        timeout: float | None = None,
        inplace: bool = False,
    ) -> CpuLauncher:
        """Return launch(grid, block, shared, stream, args) for the kernel `expression`.

        timeout: time limit in seconds; None: the default.
        inplace: whether the kernel works on the arrays, not on fenced copies.
        """
        inputs = self.inputs
        number = inputs.expressions.index(expression)
        kernel_args = self.C, number, expression, params, inputs.everything()
        if inputs.checked:
            readers = CellSource(inputs.name, inputs.source, dict(inputs.headers))
            return CheckedLauncher(*kernel_args, timeout=timeout, readers=readers)
        return CpuLauncher(*kernel_args, timeout=timeout, inplace=inplace)

    def afresh(self) -> CpuLibrary:
        """Open the library again, with separate variables that have the same values."""
        library = replace(self, C=_open(self.path, self.inputs))
        for name in filter(self.size, self.inputs.variables):
            library.write(name, self.read(name))
        return library

    def size(self, variable: str) -> int:
        """Return the size in bytes of the variable with this C++ name, or 0."""
        return self._find_variable(variable)[1]

    def read(self, variable: str) -> bytes:
        """Return the content of the variable with this C++ name."""
        return bytes(ffi.buffer(*self._find_variable(variable)))

    def write(self, variable: str, data: bytes) -> None:
        """Set all bytes of the variable with this C++ name."""
        ffi.buffer(*self._find_variable(variable))[:] = data

    def _find_variable(self, variable: str) -> tuple[Any, int]:
        if variable not in self.inputs.variables:
            return ffi.NULL, 0
        size = ffi.new("size_t *")
        at = self.C.weft_variable(self.inputs.variables.index(variable), size)
        return at, size[0]


def compile(
    source: str,
    name: str,
    flags_: Sequence[str] = (),
    expressions: Sequence[str] = (),
    headers: Mapping[str, str] | None = None,
    *,
    checked: bool = False,
) -> CpuLibrary:
    """Compile a cell to a library for this CPU, or find it in the cache.

    name: name of the source in messages.
    expressions: C++ names of the kernels to launch ("add", "fill<float, 16>").
    headers: text of each header by the name under which the source may include it.
    checked: compile with the watch build's flags, so that launches are watched.

    Raises CompileError, or BuildError without a compiler.
    """
    used = follow_includes(source, lambda _, included: (headers or {}).get(included))
    texts = [source, *used.values()]
    parsed = [s for text in texts for s in signature.parse(text)]
    kernels = {s.scope + s.name: len(s.params) for s in parsed}
    counts = tuple(kernels[e.split("<")[0]] for e in expressions)
    inputs = _LibraryInputs(
        *(source, name, tuple(stored.for_cpu(flags_)), tuple(expressions), counts),
        *(tuple(sorted(used.items())), variables.list_settable(texts), checked),
    )
    path = store.cache_folder("cells") / f"{inputs.digest()}.so"
    cached = store.has_file(path)
    if cached:
        os.utime(path)
    else:
        with Progress(f"compiling {', '.join(kernels) or name}", delay=PATIENCE):
            warnings = inputs.build(path)
        store.write(path.with_suffix(".txt"), diagnostics.dump(warnings))
        store.prune_at_exit()
    warnings = []
    with contextlib.suppress(OSError, ValueError):
        warnings = diagnostics.load(path.with_suffix(".txt").read_text())
    library, threads = _open(path, inputs), open_runtime().simt_threads()
    names = ", ".join(expressions) or "compiled"
    report = f"{names} · CPU, {threads} core{'s' * (threads != 1)}"
    return CpuLibrary(path, inputs, report, cached, warnings, library)


# ---- making the library --------------------------------------------------------


@dataclass(frozen=True)
class _LibraryInputs:
    """All inputs of a cell's library."""

    source: str
    name: str
    flags: tuple[str, ...]
    expressions: tuple[str, ...]
    counts: tuple[int, ...]  # number of parameters, per kernel
    headers: tuple[tuple[str, str], ...]
    variables: tuple[str, ...] = ()
    checked: bool = False

    def digest(self) -> str:
        parts = [self.source, self.name, *self.flags, *self.expressions]
        parts += [f"{name}\1{text}" for name, text in self.headers]
        return build._hash(_hash_toolchain(self.checked), *parts)

    def everything(self) -> str:
        """Return the source and its headers as one text."""
        return "\n".join([self.source, *(text for _, text in self.headers)])

    def build(self, path: Path) -> list[Diagnostic]:
        """Compile to `path` completely or not at all, and return the warnings."""
        text = self._text()
        with _header_folder(self.headers) as folder:
            include = ["-iquote", str(folder)] if folder else []
            for name in std_headers(scanner.blank_comments(self.everything())):
                include += ["-include", name]
            with store.replace_file(path) as output:
                flags, macros = stored.split_defines(self.flags)
                flags += include
                result = _run_gxx(flags, macros + text, output, self.checked)
                if result.returncode and self.variables and FILE in result.stderr:
                    # A variable inside an #if may not exist, so try without variables.
                    text = replace(self, variables=())._text()
                    result = _run_gxx(flags, macros + text, output, self.checked)
                errors = self._parse_log(result, text)
                library = output.read_bytes()
                if not library:
                    raise BuildError(tools.said_by(result))
                if host_calls := faults.list_called(library):
                    errors = [faults.refuse_call(host_calls[0], self.source)]
                    raise CompileError(errors, self.source, self.name)
                os.chmod(output, 0o755)
            return errors

    def _parse_log(self, result: CompletedProcess[str], text: str) -> list[Diagnostic]:
        """Return g++'s messages about `text`; raise CompileError if g++ failed."""
        messages = diagnostics.parse_gcc(result.stderr)
        messages = diagnostics.in_source(messages, self.source, text)
        if result.returncode:
            if not result.stderr.strip():
                raise BuildError(tools.said_by(result))
            messages = diagnostics.with_error(messages, result.stderr)
            raise CompileError(messages, self.source, self.name, result.stderr)
        return messages

    def _text(self) -> str:
        try:
            text = rewriter.rewrite(self.source, diagnostics.CELL)
            for name, header in self.headers:
                rewriter.rewrite(header, name)
        except rewriter.RewriteError as error:
            errors = diagnostics.parse_rewriter(str(error))
            raise CompileError(errors, self.source, self.name, str(error)) from None
        code = scanner.blank_comments(self.everything())
        cooperative = bool(_COOPERATIVE.search(code))
        kernels = list(zip(self.expressions, self.counts))
        return text + write_launcher(kernels, cooperative, self.variables)


def _run_gxx(
    flags: list[str], text: str, output: Path, checked: bool
) -> CompletedProcess[str]:
    """Compile and link `text`, which g++ reads from a pipe; no shell is involved."""
    header = _precompile_header(checked)
    # With another language or optimisation level, g++ would misread the precompiled
    # form.
    other = ("-O", "-f", "-g", "-m", "-std", "-p")
    is_incompatible = any(flag.startswith(other) for flag in flags)
    name = header.with_name("plain.h") if is_incompatible else header
    command = [build.find_tool("g++"), "-include", str(name)]
    command += [f"-I{header.parent / 'c'}", *_list_flags(checked), *flags]
    # The runtime provides the start files and the C++ library. Leaving them out halves
    # the linker's input.
    command += ["-x", "c++", "-", "-x", "none", "-shared", "-nostdlib"]
    command += [str(runtime_path()), "-lm", "-lgcc"]
    command += build.CHECK_LINK if checked else build.HEAP_LINK
    return tools.run([*command, "-o", str(output)], text)


# A cell can use everything that NVRTC provides without an #include, and nothing from
# the host's C library. <math.h> would double a cell's compilation time, so simt.h
# declares the math functions that kernels use. The SIMT runtime provides assert.h and
# string.h.
_INCLUDED = ("cuda_runtime.h", "api/cuda_launch.h", "assert.h")
_HEADER = "".join([*(f"#include <{name}>\n" for name in _INCLUDED), MACRO_LINES])
_EMPTY = [
    form
    for name in ("math", "stdio", "stdlib", "time", "ctype", "errno", "float", "limits")
    for form in (f"{name}.h", f"c{name}")
]
_COOPERATIVE = re.compile(r"\b(?:this_grid|grid_group)\b")

# The enabled warnings are ones that a beginner can act on. -O1 is used because g++
# takes 50 % longer with -O2, and the lab's kernels are only 10 % faster.
_FLAGS = [
    *("-O1", "-pipe", "-std=c++17", "-fPIC", "-fvisibility=hidden", "-DSIMT_CELL"),
    *("-fno-math-errno", "-ffp-contract=off", "-fno-gnu-unique"),
    "-fno-builtin-printf",  # g++ must not turn printf into puts, which is not counted
    build.PLAIN_LIBRARY,
    "-fwrapv",  # an overflowing int wraps, as on a GPU
    "-fcheck-new",  # new returns NULL if the heap is full, as on a GPU
    "-fstack-clash-protection",  # a large local array hits the guard page
    *("-Wall", "-Wno-unknown-pragmas", "-Wno-unused-function", "-Wno-sign-compare"),
    *("-Werror=vla", "-Wempty-body"),  # NVRTC, too, refuses arrays of variable length
    *("-fdiagnostics-color=never", "-fno-diagnostics-show-caret"),
    *("-fdiagnostics-column-unit=byte", "-fno-diagnostics-show-option"),
    f"-I{build.KERNELS}",
    f"-I{COMMON}",
    *(f"-I{folder}" for folder in build.SIMT),
]


def _list_flags(checked: bool) -> list[str]:
    """List the flags with which every cell is compiled."""
    watch_flags = [*build.CHECK_FLAGS, *faults.unset_flags()] if checked else []
    fibers = build.Flavour.here("cpu").fibers
    return [*_FLAGS, *watch_flags, *["-DSIMT_UCONTEXT"] * (fibers == "ucontext")]


@functools.cache
def _hash_toolchain(checked: bool) -> str:
    """Hash every input of a library except the cell itself."""
    version = build.version_of(build.find_tool("g++"))
    parts = [version, _HEADER, *CPU_HEADERS.values(), *_list_flags(checked)]
    sources = keys.hash_sources(*keys.CELL)
    return build._hash(*parts, str(runtime_path()), sources)


def _precompile_header(checked: bool) -> Path:
    """Write a header that includes simt's, and precompile it if g++ can.

    g++ uses the precompiled form if it matches the options, and otherwise the header.
    """
    folder = store.cache_folder("cells", f"simt_{_hash_toolchain(checked)}")
    header = folder / "cell.h"
    if not header.exists() or not Path(f"{header}.gch").exists():
        (folder / "c").mkdir(exist_ok=True)
        texts = {**dict.fromkeys(_EMPTY, ""), **CPU_HEADERS}
        for name, text in texts.items():
            store.write(folder / "c" / name, text)
        for name in ("cell.h", "plain.h"):
            store.write(folder / name, _HEADER)
        command = [build.find_tool("g++"), *_list_flags(checked), "-x", "c++-header"]
        with contextlib.suppress(BuildError):
            build._run([*command, str(header)], Path(f"{header}.gch"))
    with contextlib.suppress(FileNotFoundError):
        os.utime(f"{header}.gch")
    return header


@contextlib.contextmanager
def _header_folder(headers: Sequence[tuple[str, str]]):
    """Yield a folder that contains the rewritten headers; None if there are none."""
    if not headers:
        yield None
        return
    with tempfile.TemporaryDirectory(dir=store.cache_folder("cells")) as name:
        for header, text in headers:
            path = Path(name) / header
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(rewriter.rewrite(text, header))
        yield Path(name)


# ---- opening and launching ------------------------------------------------------

_STATE = re.compile(r"\b__(?:device|managed|constant)__\b[^(){};]*(?:;|=|\[|\{)")
_opened: dict[Path, Any] = {}  # libraries that are never closed


def _open(path: Path, inputs: _LibraryInputs) -> Any:
    open_runtime()  # the loader then finds the runtime by its name
    if _STATE.search(scanner.blank_comments(inputs.everything())):
        # A copy gives the library fresh global variables, like a newly loaded module.
        # The loader opens the same library a second time only under another name.
        with tempfile.NamedTemporaryFile(suffix=".so", dir=path.parent) as copy:
            shutil.copyfileobj(path.open("rb"), copy)
            copy.flush()
            note_alias(copy.name, str(path))
            return _open_library(Path(copy.name), inputs)
    if path not in _opened:
        _opened[path] = _open_library(path, inputs)
    return _opened[path]


def _open_library(path: Path, inputs: _LibraryInputs) -> Any:
    try:
        return ffi.dlopen(str(path))
    except OSError as error:
        missing = re.search(r"undefined symbol: ([\w@]+)", str(error))
        if not missing:
            raise
        path.unlink(missing_ok=True)
        name = _demangle(missing[1])
        cause = diagnostics.diagnose_undefined(name, inputs.source)
        raise CompileError([cause], inputs.source, inputs.name, str(error)) from None


def _demangle(symbol: str) -> str:
    tool = shutil.which("c++filt")
    if not tool:
        return symbol
    result = subprocess.run([tool, symbol], text=True, capture_output=True)
    return result.stdout.strip() or symbol
