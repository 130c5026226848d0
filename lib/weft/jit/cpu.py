"""A cell on the CPU: CUDA C through rewrite.py and g++ to a library, launched by cffi.

    rewrite -> g++ (the headers of kernels/simt precompiled) -> <hash>.so -> dlopen

About 40 ms for a cell on a quiet core. Libraries lie in the cache under the hash of
all that made them and are never closed: somebody may still hold a kernel of one.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cffi import FFI

from .. import build, cache
from .. import rewrite as rewriter
from ..native import ArgumentError
from . import diagnostics, faults, flags, output, signature
from .arena import Arena, alignments, place
from .arguments import Array, Binder
from .diagnostics import CompileError, Diagnostic
from .launcher import CDEF, launcher
from .signature import Param

TIMEOUT = 20.0  # seconds that a launch may take, by default
Launcher = Callable[[Any, Any, int, Any, Sequence[Any]], None]

ffi = FFI()
ffi.cdef(CDEF)
ffi.cdef("""
struct simt_fault {
    int kind, error; uintptr_t address; int write; unsigned block[3], thread[3];
    char kernel[100]; char text[256];
};
const struct simt_fault *simt_last_launch_fault(void);
void simt_clear_fault(void);
void simt_set_timeout(int ms);
void simt_set_order(int order);
int simt_threads(void);
""")


@dataclass
class Compiled:
    """A cell's library, opened."""

    path: Path
    source: str
    expressions: tuple[str, ...]
    counts: tuple[int, ...]
    report: str
    cached: bool
    seconds: float
    warnings: list[Diagnostic] = field(default_factory=list)
    C: Any = None
    prints: bool = False

    def launcher(
        self,
        expression: str,
        params: tuple[Param, ...],
        *,
        timeout: float | None = None,
        inplace: bool = False,
    ) -> Launcher:
        """The kernel `expression` as launch(grid, block, shared, stream, args).

        grid and block: three ints each, within CUDA's limits. timeout: seconds, 0:
        none. Raises ArgumentError, KernelFault or KeyboardInterrupt.
        """
        number = self.expressions.index(expression)
        name = re.sub(r"^(?:\w+::)*", "", expression)
        binder = Binder(name, params)
        sizes = self._check_sizes(number, binder)
        limit = TIMEOUT if timeout is None else timeout
        align = alignments(
            self.source, [t for p, t in zip(params, binder.types) if p.pointer]
        )
        written = [not p.const for p in params if p.pointer]

        def launch(grid: Any, block: Any, shared: int, stream: Any, args: Any) -> None:
            bound = binder.bind(args)
            _check_structs(binder, bound, sizes)
            arrays = [v for p, v in zip(params, bound) if p.pointer]
            arena = None if inplace else Arena(arrays, align)
            try:
                addresses = place(arena, arrays)
                scene = faults.Scene(
                    *(name, params, binder.types, bound, addresses, arena, limit)
                )
                packed, offsets = binder.pack(bound, addresses)
                with output.captured(self.prints):
                    self._run(number, [*grid, *block], shared, packed, offsets, scene)
                if arena is not None:
                    address = arena.strayed()
                    if address is not None:
                        raise faults.strayed(address, scene)
                    arena.copy_back(written)
            finally:
                if arena is not None:
                    arena.release()

        return launch

    def _run(
        self,
        number: int,
        config: list[int],
        shared: int,
        packed: bytes,
        offsets: Sequence[int],
        scene: faults.Scene,
    ) -> None:
        runtime = _runtime()
        runtime.simt_set_timeout(int(scene.timeout * 1000))
        try:
            error = self.C.weft_launch(
                number, config, shared, ffi.from_buffer(packed), list(offsets)
            )
        finally:
            runtime.simt_set_timeout(0)
        if error:
            raise _failure(runtime, scene)

    def _check_sizes(self, number: int, binder: Binder) -> list[int]:
        """The sizes of the parameters, as g++ has them, against what we pack."""
        room = len(binder.params)
        out = ffi.new("unsigned[]", room + 1)
        count = self.C.weft_sizes(number, out, room)
        sizes = list(out[0:room])
        for param, kind, size in zip(binder.params, binder.types, sizes):
            expected = 8 if param.pointer else kind.size if kind else size
            if count != room or size != expected:
                raise ArgumentError(
                    f"{binder.kernel}: {param} has {size} bytes, not the {expected} "
                    f"of {param.type}: write its type without a macro"
                )
        return sizes


def compile(
    source: str,
    name: str,
    flags_: Sequence[str] = (),
    expressions: Sequence[str] = (),
    headers: Mapping[str, str] | None = None,
) -> Compiled:
    """The cell as a library for this CPU, from the cache if it is there.

    name: what messages call the source. expressions: the C++ names of the kernels
    to launch ("add", "fill<float, 16>"). headers: text by the name under which the
    source may include it. Raises CompileError, or BuildError without a compiler.
    """
    begin = time.perf_counter()
    made = _made(source, name, tuple(flags_), tuple(expressions), headers or {})
    digest = made.digest()
    path = cache.folder("cells") / f"{digest}.so"
    cached = path.exists()
    if cached:
        os.utime(path)
    else:
        warnings = made.build(path)
        path.with_suffix(".txt").write_text(diagnostics.dump(warnings))
        _prune_at_exit()
    warnings = []
    with contextlib.suppress(OSError):
        warnings = diagnostics.load(path.with_suffix(".txt").read_text())
    library = _open(path, source, made)
    return Compiled(
        *(path, source, made.expressions, made.counts, _report(made), cached),
        *(time.perf_counter() - begin, warnings, library, "printf" in source),
    )


@functools.cache
def _prune_at_exit() -> None:
    """Looking at every file of the cache takes as long as compiling a cell."""
    atexit.register(cache.prune)


# ---- making the library --------------------------------------------------------


@dataclass(frozen=True)
class _Made:
    """All that a cell's library is made of."""

    source: str
    name: str
    flags: tuple[str, ...]
    expressions: tuple[str, ...]
    counts: tuple[int, ...]  # of their parameters
    headers: tuple[tuple[str, str], ...]

    def digest(self) -> str:
        parts = [self.source, self.name, *self.flags, *self.expressions]
        parts += [f"{name}\1{text}" for name, text in self.headers]
        return build._hash(_toolchain(), *parts)

    def build(self, path: Path) -> list[Diagnostic]:
        """Compile to `path`, which appears whole or not at all; the warnings."""
        text = self._text()
        with _header_folder(self.headers) as folder:
            include = ["-iquote", str(folder)] if folder else []
            handle, beside = tempfile.mkstemp(".so", "part_", path.parent)
            os.close(handle)
            try:
                done = _gxx([*self.flags, *include], text, Path(beside))
                found = diagnostics.parse_gcc(done.stderr)
                found = diagnostics.in_source(found, self.source, text)
                if done.returncode:
                    raise CompileError(found, self.source, self.name, done.stderr)
                os.chmod(beside, 0o755)
                os.replace(beside, path)
                return found
            finally:
                Path(beside).unlink(missing_ok=True)

    def _text(self) -> str:
        try:
            text = rewriter.rewrite(self.source, diagnostics.CELL)
        except rewriter.RewriteError as error:
            found = diagnostics.parse_rewriter(str(error))
            raise CompileError(found, self.source, self.name, str(error)) from None
        return text + launcher(list(zip(self.expressions, self.counts)))


def _made(
    source: str,
    name: str,
    flags_: tuple[str, ...],
    expressions: tuple[str, ...],
    headers: Mapping[str, str],
) -> _Made:
    kernels = {s.scope + s.name: len(s.params) for s in signature.parse(source)}
    # A header counts if the cell, or a header that counts, includes it.
    used: dict[str, str] = {}
    todo = [source]
    while todo:
        for included in re.findall(r'#\s*include\s*["<]([^">]+)[">]', todo.pop()):
            if included in headers and included not in used:
                used[included] = headers[included]
                todo.append(headers[included])
    for text in used.values():
        kernels |= {s.scope + s.name: len(s.params) for s in signature.parse(text)}
    counts = tuple(kernels[e.split("<")[0]] for e in expressions)
    return _Made(
        *(source, name, tuple(flags.for_cpu(flags_)), expressions, counts),
        tuple(sorted(used.items())),
    )


def _gxx(more: list[str], text: str, output: Path) -> subprocess.CompletedProcess:
    """Compile and link `text`; g++ reads it from a pipe, no shell is involved."""
    runtime = str(_runtime_path())
    head = ["-include", str(_precompiled())]
    command = [build._tool("g++"), *head, *_FLAGS, *_fibers(), *more, "-x", "c++", "-"]
    # Without the start files and the C++ library, which the runtime brings, the
    # linker has half as much to read.
    command += ["-x", "none", "-shared", "-nostdlib", runtime, "-lm", "-lgcc"]
    return subprocess.run(
        [*command, "-o", str(output)],
        input=text,
        text=True,
        capture_output=True,
        close_fds=False,  # so that Python may use vfork()
    )


# Warnings that a beginner can act upon. -O2: -O3 takes longer than it saves here.
_FLAGS = [
    *("-O2", "-pipe", "-std=c++17", "-fPIC", "-fvisibility=hidden", "-DSIMT_CELL"),
    *("-fno-math-errno", "-ffp-contract=off", "-fno-gnu-unique"),
    *("-Wall", "-Wno-unknown-pragmas", "-Wno-unused-function", "-Wno-sign-compare"),
    *("-fdiagnostics-color=never", "-fno-diagnostics-show-caret"),
    *("-fdiagnostics-column-unit=byte", "-fno-diagnostics-show-option"),
    f"-I{build.KERNELS}",
    f"-I{build.KERNELS / 'simt'}",
]


def _fibers() -> list[str]:
    flavour = build.Flavour.here("cpu")
    return ["-DSIMT_UCONTEXT"] if flavour.fibers == "ucontext" else []


@functools.cache
def _runtime_path() -> Path:
    return build.simt_runtime(build.Flavour.here("cpu"))


@functools.cache
def _runtime() -> Any:
    return ffi.dlopen(str(_runtime_path()))


@functools.cache
def _toolchain() -> str:
    """What a library depends on besides its cell, as a hash."""
    heads = [p.read_text() for p in sorted((build.KERNELS / "simt").rglob("*.h"))]
    here = Path(__file__).parent
    ours = [(here / f"{name}.py").read_text() for name in ("cpu", "launcher")]
    ours.append(Path(rewriter.__file__).read_text())
    version = build._compiler_version(build._tool("g++"))
    return build._hash(
        version, *_FLAGS, *_fibers(), str(_runtime_path()), *heads, *ours
    )


@functools.cache
def _precompiled() -> Path:
    """A header that includes simt's; beside it, if g++ can, its precompiled form.

    g++ takes that where it fits and reads the header itself where it does not.
    """
    folder = cache.folder("cells", f"simt_{_toolchain()}")
    header = folder / "cell.h"
    if not header.exists() or not Path(f"{header}.gch").exists():
        header.write_text('#include "cuda_runtime.h"\n')
        beside = folder / f"part_{os.getpid()}.gch"
        command = [build._tool("g++"), *_FLAGS, *_fibers(), "-x", "c++-header"]
        done = subprocess.run(
            [*command, str(header), "-o", str(beside)], capture_output=True
        )
        if done.returncode == 0:
            os.replace(beside, f"{header}.gch")
    return header


@contextlib.contextmanager
def _header_folder(headers: Sequence[tuple[str, str]]):
    """A folder with the headers in it, rewritten; None if there are none."""
    if not headers:
        yield None
        return
    with tempfile.TemporaryDirectory(dir=cache.folder("cells")) as name:
        for header, text in headers:
            path = Path(name) / header
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(rewriter.rewrite(text, header))
        yield Path(name)


# ---- opening and launching ------------------------------------------------------

_STATE = re.compile(r"\b__(?:device|managed|constant)__\b[^(){};]*(?:;|=|\[|\{)")
_opened: dict[Path, Any] = {}  # never closed


def _open(path: Path, source: str, made: _Made) -> Any:
    _runtime()  # its name is then known to the loader
    if _STATE.search(signature.blank(source)):
        # Its global variables begin afresh, as those of a loaded module do: the
        # loader opens a file it has open already only under another name.
        with tempfile.NamedTemporaryFile(suffix=".so", dir=path.parent) as copy:
            shutil.copyfileobj(path.open("rb"), copy)
            copy.flush()
            return _dlopen(Path(copy.name), made)
    if path not in _opened:
        _opened[path] = _dlopen(path, made)
    return _opened[path]


def _dlopen(path: Path, made: _Made) -> Any:
    try:
        return ffi.dlopen(str(path))
    except OSError as error:
        missing = re.search(r"undefined symbol: ([\w@]+)", str(error))
        if not missing:
            raise
        path.unlink(missing_ok=True)
        named = _demangled(missing[1])
        found = diagnostics.undefined(named, made.source)
        raise CompileError([found], made.source, made.name, str(error)) from None


def _demangled(symbol: str) -> str:
    found = shutil.which("c++filt")
    if not found:
        return symbol
    done = subprocess.run([found, symbol], text=True, capture_output=True)
    return done.stdout.strip() or symbol


def _check_structs(binder: Binder, bound: Sequence[Any], sizes: Sequence[int]) -> None:
    if not binder.has_structs:
        return
    for param, value, size in zip(binder.params, bound, sizes):
        if isinstance(value, bytes) and len(value) != size:
            raise ArgumentError(
                f"{binder.kernel}: {param} has {size} bytes, {len(value)} are given: "
                f"the fields must be C's, in C's order (NumPy: align=True)"
            )


def _failure(runtime: Any, scene: faults.Scene) -> BaseException:
    """The exception for the launch of this thread that has just failed."""
    c_fault = runtime.simt_last_launch_fault()
    fault = faults.Fault(
        *(c_fault.kind, c_fault.error, c_fault.address, c_fault.write),
        tuple(c_fault.block),
        tuple(c_fault.thread),
        ffi.string(c_fault.text).decode(errors="replace"),
    )
    runtime.simt_clear_fault()
    if fault.kind == faults.INTERRUPT:
        return KeyboardInterrupt(f"{scene.kernel} was stopped")
    return faults.explain(fault, scene)


def _report(made: _Made) -> str:
    kernels = ", ".join(made.expressions) or "compiled"
    threads = _runtime().simt_threads()
    return f"{kernels} · CPU, {threads} core{'s' * (threads != 1)}"


__all__ = ["Array", "Compiled", "compile"]
