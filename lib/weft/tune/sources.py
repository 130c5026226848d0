"""Tunable kernels: CUDA C, plain C, Python, or a function that returns a kernel.

with_values() sets a constant's value wherever the CUDA C source defines it.

    enum { BM = 128, BN = 128 };    #define TILE 16    constexpr int STAGES = 4;

The value is replaced in place, so that the rest of the kernel stays unchanged. A name
that the source uses but does not define becomes -DNAME=value. with_globals() changes
the values of names that a Python kernel reads from its module.

A TunableSource makes the kernel for a combination of values, and describes it for
autotune(). The kernel is launched as kernel[grid, block](*args) or, without a `launch`,
called as a function.
"""

from __future__ import annotations

import difflib
import os
import re
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..base.errors import ArgumentError
from ..base.paths import ROOT
from ..cells import headers, load_cuda, stored
from ..cells.gpu import nvrtc
from ..cells.module import Cell, Kernel, Module, select_only_kernel
from ..csource import scanner
from ..csource.signature import Signature
from ..pykernel.language import PythonKernel, plain_function
from ..pykernel.numba import NumbaKernel, numba_jit
from ..pykernel.to_cuda.cuda_c import TranslatedKernel, cuda_c
from ..see.machine_code.compilation import complete, find_usage
from .c_function import CFunction, is_c, load_c
from .tuned import Candidate, Constants, parameters_in


def with_values(
    source: str, constants: Mapping[str, Any], elsewhere: str = ""
) -> tuple[str, list[str]]:
    """Return the source with these values, and flags for names that it does not define.

    elsewhere: text of the headers, which may also use the constants. Raises
    ArgumentError for a constant that neither the source nor the headers use.
    """
    code = scanner.blank_comments(source)
    spans: list[tuple[int, int, str]] = []
    flags = []
    for name, value in constants.items():
        text = str(int(value)) if isinstance(value, bool) else str(value)
        definitions = list(_find_definitions(code, name))
        uses = len(re.findall(rf"\b{name}\b", code)) - len(definitions)
        if uses <= 0 and not re.search(rf"\b{name}\b", elsewhere):
            raise ArgumentError(_describe_unused(code, name, bool(definitions)))
        spans += [(start, end, text) for start, end in definitions]
        flags += [] if definitions else [f"-D{name}={text}"]
    for start, end, text in sorted(spans, reverse=True):
        source = source[:start] + text + source[end:]
    return source, flags


def _find_definitions(code: str, name: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end offsets of each value assigned to a constant."""
    for match in scanner.DEFINE.finditer(code):
        if match["name"] == name:
            yield match.span("value")
    for match in re.finditer(rf"\b{name}\s*=(?!=)\s*", code):
        before = code[: match.start()]
        declared = re.search(r"\bconst(?:expr)?\b[^;{}()]*$", before)
        if declared or _is_inside_enum(before):
            end = scanner.find_outside(code, match.end(), ",;)]}")
            yield match.end(), match.end() + len(code[match.end() : end].rstrip())


def _is_inside_enum(before: str) -> bool:
    """Return whether the text ends between the braces of an enum."""
    brace = before.rfind("{")
    if brace < 0 or "}" in before[brace:] or ";" in before[brace:]:
        return False
    return bool(re.search(r"\benum\b[\w\s:]*$", before[:brace]))


def _describe_unused(code: str, name: str, defined: bool) -> str:
    if defined:
        return f"the source defines {name}, but nothing depends on it"
    words = set(re.findall(r"[A-Za-z_]\w*", code))
    matches = difflib.get_close_matches(name, words, 1, 0.6)
    hint = f": did you mean {matches[0]}?" if matches else ""
    return f"the source does not use the constant {name}{hint}"


def with_globals(
    function: types.FunctionType, constants: Mapping[str, Any]
) -> types.FunctionType:
    """Return the function with other values for names that it does not define itself.

    The names belong to its module or enclosing scope. Called functions are converted
    too. Raises ArgumentError for a name that none of these functions uses.
    """
    function = plain_function(function)
    used: set[str] = set()
    rebound = _rebind_function(function, dict(constants), used, {})
    unused = [name for name in constants if name not in used]
    if unused:
        raise ArgumentError(
            f"{function.__name__} does not use the constant {unused[0]}: it must be "
            f"a name that the kernel reads from its module"
        )
    return rebound


def _rebind_function(
    function: types.FunctionType,
    constants: dict[str, Any],
    used: set[str],
    rebound: dict[int, Any],
) -> types.FunctionType:
    if id(function) in rebound:
        return rebound[id(function)]
    code = function.__code__
    used |= constants.keys() & {*code.co_names, *code.co_freevars}
    scope = dict(function.__globals__)
    cells = tuple(
        types.CellType(constants[name]) if name in constants else cell
        for name, cell in zip(code.co_freevars, function.__closure__ or ())
    )
    name, defaults = function.__name__, function.__defaults__
    copy = types.FunctionType(code, scope, name, defaults, cells)
    copy.__doc__, copy.__module__ = function.__doc__, function.__module__
    copy.__qualname__ = function.__qualname__
    rebound[id(function)] = copy
    for name in code.co_names:
        value = scope.get(name)
        is_function = isinstance(value, types.FunctionType)
        if is_function and value.__module__ == function.__module__:
            scope[name] = _rebind_function(value, constants, used, rebound)
    scope.update({n: v for n, v in constants.items() if n in code.co_names})
    return copy


Names = Sequence[str]


def source_for(
    kernel: Any, space: Mapping[str, Any], args: Sequence[Any], options: SourceOptions
) -> TunableSource:
    """Return the source of autotune()'s kernel."""
    if isinstance(kernel, Path) or (isinstance(kernel, str) and _is_path(kernel)):
        return _read_file(Path(kernel), options)
    if isinstance(kernel, str):
        return (PlainCSource if is_c(kernel) else CudaSource)(kernel, "cell", options)
    if isinstance(kernel, (Kernel, Module)):
        return _load_kernel(kernel, options)
    if isinstance(kernel, (TranslatedKernel, NumbaKernel)):
        return PythonSource(kernel, args, options)
    if callable(kernel) and _is_maker(kernel, space):
        return MakerSource(kernel, args, options)
    return PythonSource(kernel, args, options)


class SourceOptions:
    """The options of a source.

    flags: compiler flags. name: the kernel's name, if the source defines several.
    target: the target of the arrays, "cpu" or "cuda".
    """

    def __init__(self, flags: str | Names, name: str | None, target: str) -> None:
        self.flags, self.name, self.target = stored.split(flags), name, target


class TunableSource:
    """A kernel with constants to tune. name: the kernel's name in messages."""

    name = "kernel"

    def make(self, constants: Constants) -> Any:
        """Return the compiled kernel for these values; may raise CompileError."""
        raise NotImplementedError

    def texts_to_hash(self, one: Candidate) -> list[str] | None:
        """Return all texts that define a candidate, for a hash; None if unknown."""
        raise NotImplementedError


class CudaSource(TunableSource):
    """A kernel in CUDA C, passed as a string."""

    def __init__(
        self,
        source: str,
        name: str,
        options: SourceOptions,
        like: Kernel | None = None,
        folder: Path | None = None,
    ) -> None:
        self.source, self.cell, self.options, self.like = source, name, options, like
        self.flags = [*options.flags, *([f"-I{folder}"] if folder else [])]
        self.name = options.name or name

    def make(self, constants: Constants) -> Kernel:
        text, more = self._set_values(constants)
        flags, target = [*self.flags, *more], self.options.target
        module = load_cuda(text, target=target, flags=flags, name=self.cell)
        if (like := self.like) is not None and like.signature.template:
            arguments = like.expression, like.params
            kernel = Kernel(module._cell, like.signature, arguments)
        else:
            kernel = _choose_kernel(module, self.options.name)
            if kernel._needs_arguments:
                raise ArgumentError(
                    f"{kernel.__name__} is a template: pass a function that loads "
                    f"it, e.g. lambda TILE: module.{kernel.__name__}[TILE]"
                )
        kernel.launcher(target)
        self.name = kernel.__name__
        return kernel

    def texts_to_hash(self, one: Candidate) -> list[str]:
        text, more = self._set_values(one.constants)
        return [text, *self.flags, *more, self.options.name or "", self._headers()]

    def _set_values(self, constants: Constants) -> tuple[str, list[str]]:
        return with_values(self.source, constants, self._headers())

    def _headers(self) -> str:
        """Return the text of the source's includes, from the session and folders."""
        of_session = headers.select_used(self.source)
        folders = [f[2:] for f in nvrtc.translate(self.flags) if f.startswith("-I")]
        text = "\n".join([self.source, *of_session.values()])
        files = stored.list_includes(text, [os.getcwd(), *folders])
        texts = [path.read_text(errors="replace") for path in files]
        return "\n".join([*of_session.values(), *texts])


class PlainCSource(CudaSource):
    """A plain C function, passed as a string, to call and time on a CPU."""

    def make(self, constants: Constants) -> CFunction:
        if self.options.target != "cpu":
            raise ArgumentError(f"{self.cell} is plain C, but its arrays are on a GPU")
        text, more = self._set_values(constants)
        function = load_c(text, self.options.name, [*self.flags, *more], self.cell)
        self.name = function.__name__
        return function


class PythonSource(TunableSource):
    """A Python kernel whose constants are names of its module or an enclosing scope.

    It runs as CUDA C generated by to_cuda() or, if passed as numba_jit(kernel), with
    Numba.
    """

    def __init__(
        self, kernel: Any, args: Sequence[Any], options: SourceOptions
    ) -> None:
        self.numba = isinstance(kernel, NumbaKernel)
        translated = isinstance(kernel, TranslatedKernel)
        self.flags = kernel.flags if translated else options.flags
        is_wrapped = self.numba or translated
        inner = kernel.kernel if is_wrapped else PythonKernel(kernel)
        self.function = inner.function
        self.name, self.args, self.options = inner.name, tuple(args), options

    def make(self, constants: Constants) -> Any:
        function = with_globals(self.function, constants)
        if self.numba:
            return numba_jit(function)
        runner = cuda_c(function, flags=self.flags)
        runner._of(self.args).compiled.launcher(self.options.target)
        return runner

    def texts_to_hash(self, one: Candidate) -> list[str]:
        runner = cuda_c(with_globals(self.function, one.constants), flags=self.flags)
        return [runner.source(*self.args), *stored.split(self.flags), str(self.numba)]


class MakerSource(TunableSource):
    """A function of the constants that returns a kernel, or a function to call."""

    def __init__(
        self, load: Callable[..., Any], args: Sequence[Any], options: SourceOptions
    ) -> None:
        self.load, self.args, self.options = load, tuple(args), options
        self.name = getattr(load, "__name__", "kernel").replace("<lambda>", "kernel")
        self._made: dict[tuple, Any] = {}

    def make(self, constants: Constants) -> Any:
        key = tuple(constants.items())
        if key not in self._made:
            self._made[key] = self._load(constants)
        return self._made[key]

    def texts_to_hash(self, one: Candidate) -> list[str] | None:
        kernel = self.make(one.constants)
        if isinstance(kernel, Kernel):
            cell = kernel.module
            return [cell.source, kernel.expression, *cell.flags, *cell.headers.values()]
        if isinstance(kernel, TranslatedKernel):
            return [kernel.source(*self.args), *stored.split(kernel.flags)]
        return None

    def _load(self, constants: Constants) -> Any:
        kernel = self.load(**constants)
        if isinstance(kernel, Module):
            kernel = _choose_kernel(kernel, self.options.name)
        if isinstance(kernel, Kernel):
            kernel.launcher(self.options.target)
        elif isinstance(kernel, TranslatedKernel):
            kernel._of(self.args).compiled.launcher(self.options.target)
        elif not callable(kernel) and not isinstance(kernel, NumbaKernel):
            words = ", ".join(f"{name}={value!r}" for name, value in constants.items())
            raise ArgumentError(
                f"{self.name}({words}) returned {kernel!r:.60}: expected a kernel or a "
                "function to call"
            )
        if is_cuda(kernel):
            self.name = kernel.__name__
        return kernel


# ---- properties of a kernel ---------------------------------------------------------


def bound(kernel: Any, one: Candidate) -> Callable[..., Any]:
    """Return the kernel bound to the candidate's launch shape, ready to call."""
    if one.shape is None:
        if isinstance(kernel, (Kernel, TranslatedKernel, NumbaKernel)):
            raise ArgumentError(
                "autotune requires launch=, a function of the constants that returns "
                "(grid, block)"
            )
        return kernel
    shape = one.shape
    if not shape.shared:
        return kernel[shape.grid, shape.block]
    if isinstance(kernel, TranslatedKernel):
        # None is torch's stream; 0 would be the default stream.
        return kernel[shape.grid, shape.block, None, shape.shared]
    if isinstance(kernel, NumbaKernel):
        return kernel[shape.grid, shape.block, 0, shape.shared]
    return kernel[shape.grid, shape.block, shape.shared]


def parameters_of(kernel: Any) -> list[str]:
    """Return the names of a launch's parameters; [] if unknown."""
    if isinstance(kernel, CFunction):
        kernel = kernel.signature
    if isinstance(kernel, (Kernel, Signature)):
        return [param.name for param in kernel.params]
    if isinstance(kernel, TranslatedKernel):
        return list(kernel.kernel.parameters)
    if isinstance(kernel, NumbaKernel):
        return list(kernel.parameters)
    parameters = parameters_in(kernel)
    plain = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    return plain if len(plain) == len(parameters) else []


def written_of(kernel: Any) -> list[str] | None:
    """Return the names of pointer parameters without const; None if unknown."""
    if isinstance(kernel, TranslatedKernel) and kernel._last is not None:
        kernel = kernel._last.compiled
    if isinstance(kernel, CFunction):
        kernel = kernel.signature
    if isinstance(kernel, (Kernel, Signature)):
        return [p.name for p in kernel.params if p.pointer and not p.const]
    return None


def usage_of(kernel: Any, arch: str) -> Any:
    """Return the nvrtc.Usage (registers, static shared memory), or None."""
    is_c = isinstance(kernel, (Kernel, TranslatedKernel))
    return find_usage(kernel, (), arch)[1] if is_c else None


def is_cuda(kernel: Any) -> bool:
    """Return whether a kernel is CUDA code, whose time on a CPU is meaningless."""
    return isinstance(kernel, (Kernel, TranslatedKernel, NumbaKernel))


# ---- loading and choosing kernels -----------------------------------------------


def _is_path(text: str) -> bool:
    return "\n" not in text and text.endswith((".cu", ".cuh", ".c"))


def _read_file(path: Path, options: SourceOptions) -> CudaSource:
    paths = [p for p in (path, ROOT / path) if p.is_file()]
    if not paths:
        raise ArgumentError(f"{path}: no such file in this folder or in {ROOT}")
    file = paths[0].resolve()
    text = file.read_text(errors="replace")
    kind = PlainCSource if file.suffix == ".c" else CudaSource
    return kind(text, str(path), options, folder=file.parent)


def _load_kernel(kernel: Kernel | Module, options: SourceOptions) -> CudaSource:
    """Return the source of a %%cuda or load_cuda() kernel."""
    selected = select_only_kernel(kernel) if options.name is None else kernel
    cell: Cell = selected._cell if isinstance(selected, Module) else selected.module
    options.flags = [*cell.flags, *options.flags]
    like = None
    if isinstance(selected, Kernel):
        options.name, like = selected.__name__, selected
        complete(selected)
    return CudaSource(cell.source, cell.name, options, like)


def _choose_kernel(module: Module, name: str | None) -> Kernel:
    if name is None:
        return select_only_kernel(module)
    kernels = module._cell.kernels
    if name not in kernels:
        names = ", ".join(kernels) or "none"
        raise ArgumentError(f"the source has no kernel {name!r}; it has {names}")
    return kernels[name]


def _is_maker(function: Callable[..., Any], space: Mapping[str, Any]) -> bool:
    """Return whether a function accepts the constants, as a maker of kernels does."""
    parameters = parameters_in(function)
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters)
    return takes_any or set(space) <= {p.name for p in parameters}
