"""What is tuned: CUDA C, plain C, a Python kernel, or a function that makes one.

A Source makes the kernel for a combination of values, and says what autotune() has to
know of it. Whatever is made is launched as kernel[grid, block](*args), or, where there
is no `launch`, called as a function.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..base.errors import ArgumentError
from ..base.paths import ROOT
from ..cells import flags as words
from ..cells import headers, load_cuda, stored
from ..cells.gpu import nvrtc
from ..cells.module import Cell, Kernel, Module, select_only_kernel
from ..pykernel.language.kernel import PythonKernel
from ..pykernel.numba import NumbaKernel, numba_jit
from ..pykernel.to_cuda.cuda_c import Runner, cuda_c
from ..see.machine_code.sources import complete, find_usage
from .constants import with_values
from .plain_c import Function, is_c, load_c
from .rebound import with_globals
from .space import Candidate, Constants

Names = Sequence[str]


def source_for(
    kernel: Any, space: Mapping[str, Any], args: Sequence[Any], options: Options
) -> Source:
    """The Source of what autotune() was given; ArgumentError if that is no kernel."""
    if isinstance(kernel, Path) or (isinstance(kernel, str) and _is_path(kernel)):
        return _read_file(Path(kernel), options)
    if isinstance(kernel, str):
        return (C if is_c(kernel) else Text)(kernel, "cell", options)
    if isinstance(kernel, (Kernel, Module)):
        return _load_kernel(kernel, options)
    if isinstance(kernel, (Runner, NumbaKernel)):
        return Python(kernel, args, options)
    if callable(kernel) and _is_maker(kernel, space):
        return Made(kernel, args, options)
    return Python(kernel, args, options)


class Options:
    """flags: for the compiler; name: of the kernel, where a source has several;
    target: "cpu" or "cuda", where the arrays lie."""

    def __init__(self, flags: str | Names, name: str | None, target: str) -> None:
        self.flags, self.name, self.target = words.split(flags), name, target


class Source:
    """name: what messages call the kernel."""

    name = "kernel"

    def make(self, constants: Constants) -> Any:
        """The kernel for these values, compiled. Raises CompileError."""
        raise NotImplementedError

    def parameters(self, kernel: Any) -> list[str]:
        """The names of what a launch takes; [] where nobody knows."""
        return parameters_of(kernel)

    def written(self, kernel: Any) -> list[str] | None:
        """The parameters that the kernel may write to; None where nobody knows."""
        return written_of(kernel)

    def texts(self, one: Candidate) -> list[str] | None:
        """All that a candidate is made of, for a hash; None: it cannot be known."""
        raise NotImplementedError

    def usage(self, kernel: Any, arch: str) -> Any:
        """Registers and static shared memory, as nvrtc.Usage; None: not CUDA C."""
        given = ()
        if isinstance(kernel, (Kernel, Runner)):
            return find_usage(kernel, given, arch)[1]
        return None


class Text(Source):
    """CUDA C in a string."""

    def __init__(
        self,
        source: str,
        name: str,
        options: Options,
        like: Kernel | None = None,
        folder: Path | None = None,
    ) -> None:
        self.source, self.cell, self.options, self.like = source, name, options, like
        self.flags = [*options.flags, *([f"-I{folder}"] if folder else [])]
        self.name = options.name or name

    def make(self, constants: Constants) -> Kernel:
        text, more = self._given(constants)
        flags, target = [*self.flags, *more], self.options.target
        module = load_cuda(text, target=target, flags=flags, name=self.cell)
        if self.like is not None and self.like.signature.template:
            like = self.like
            made = Kernel(module._cell, like.signature, (like.expression, like.params))
        else:
            made = _choose_kernel(module, self.options.name)
            if made._needs_arguments:
                raise ArgumentError(
                    f"{made.__name__} is a template: hand over a function that loads "
                    f"it, e.g. lambda TILE: module.{made.__name__}[TILE]"
                )
        made.launcher(target)
        self.name = made.__name__
        return made

    def texts(self, one: Candidate) -> list[str]:
        text, more = self._given(one.constants)
        return [text, *self.flags, *more, self.options.name or "", self._headers()]

    def _given(self, constants: Constants) -> tuple[str, list[str]]:
        return with_values(self.source, constants, self._headers())

    def _headers(self) -> str:
        """The text of what the source includes: of the session, and in folders."""
        of_session = headers.select_used(self.source)
        given = [f[2:] for f in nvrtc.translate(self.flags) if f.startswith("-I")]
        files = stored.list_includes(
            "\n".join([self.source, *of_session.values()]), [os.getcwd(), *given]
        )
        found = [path.read_text(errors="replace") for path in files]
        return "\n".join([*of_session.values(), *found])


class C(Text):
    """Plain C in a string: its function is called, and its time is a processor's."""

    def make(self, constants: Constants) -> Function:
        if self.options.target != "cpu":
            raise ArgumentError(f"{self.cell} is plain C: its arrays lie on a GPU")
        text, more = self._given(constants)
        made = load_c(text, self.options.name, [*self.flags, *more], self.cell)
        self.name = made.__name__
        return made

    def usage(self, kernel: Any, arch: str) -> None:
        return None


class Python(Source):
    """A kernel in Python whose constants are names of its module, or enclosing ones.

    It runs as the C that to_cuda() makes of it, or, handed over as numba_jit(kernel),
    by Numba.
    """

    def __init__(self, kernel: Any, args: Sequence[Any], options: Options) -> None:
        self.numba = isinstance(kernel, NumbaKernel)
        self.flags = kernel.flags if isinstance(kernel, Runner) else options.flags
        wrapped = isinstance(kernel, (Runner, NumbaKernel))
        inner = kernel.kernel if wrapped else PythonKernel(kernel)
        self.function = inner.function
        self.name, self.args, self.options = inner.name, tuple(args), options

    def make(self, constants: Constants) -> Any:
        function = with_globals(self.function, constants)
        if self.numba:
            return numba_jit(function)
        made = cuda_c(function, flags=self.flags)
        made._of(self.args).compiled.launcher(self.options.target)
        return made

    def texts(self, one: Candidate) -> list[str]:
        made = cuda_c(with_globals(self.function, one.constants), flags=self.flags)
        return [made.source(*self.args), *words.split(self.flags), str(self.numba)]


class Made(Source):
    """A function of the constants that returns a kernel, or a function to call."""

    def __init__(
        self, load: Callable[..., Any], args: Sequence[Any], options: Options
    ) -> None:
        self.load, self.args, self.options = load, tuple(args), options
        self.name = getattr(load, "__name__", "kernel").replace("<lambda>", "kernel")
        self._made: dict[tuple, Any] = {}

    def make(self, constants: Constants) -> Any:
        key = tuple(constants.items())
        if key not in self._made:
            self._made[key] = self._load(constants)
        return self._made[key]

    def texts(self, one: Candidate) -> list[str] | None:
        kernel = self.make(one.constants)
        if isinstance(kernel, Kernel):
            cell = kernel.module
            return [cell.source, kernel.expression, *cell.flags, *cell.headers.values()]
        if isinstance(kernel, Runner):
            return [kernel.source(*self.args), *words.split(kernel.flags)]
        return None

    def _load(self, constants: Constants) -> Any:
        made = self.load(**constants)
        if isinstance(made, Module):
            made = _choose_kernel(made, self.options.name)
        if isinstance(made, Kernel):
            made.launcher(self.options.target)
        elif isinstance(made, Runner):
            made._of(self.args).compiled.launcher(self.options.target)
        elif not callable(made) and not isinstance(made, NumbaKernel):
            raise ArgumentError(
                f"{self.name}({_write_keywords(constants)}) returns "
                f"{made!r:.60}: want a "
                f"kernel, or a function to call"
            )
        if is_cuda(made):
            self.name = made.__name__
        return made


# ---- what is known of a kernel ------------------------------------------------------


def bound(kernel: Any, one: Candidate) -> Callable[..., Any]:
    """The kernel in the candidate's shape: call it with the arguments."""
    if one.shape is None:
        if isinstance(kernel, (Kernel, Runner, NumbaKernel)):
            raise ArgumentError(
                "autotune wants launch=, a function of the constants that returns "
                "(grid, block)"
            )
        return kernel
    shape = one.shape
    if not shape.shared:
        return kernel[shape.grid, shape.block]
    if isinstance(kernel, Runner):  # None is torch's stream; 0 would be the default one
        return kernel[shape.grid, shape.block, None, shape.shared]
    if isinstance(kernel, NumbaKernel):
        return kernel[shape.grid, shape.block, 0, shape.shared]
    return kernel[shape.grid, shape.block, shape.shared]


def parameters_of(kernel: Any) -> list[str]:
    """The names of what a launch takes; [] where nobody knows."""
    if isinstance(kernel, Kernel):
        return [param.name for param in kernel.params]
    if isinstance(kernel, Runner):
        return list(kernel.kernel.parameters)
    if isinstance(kernel, NumbaKernel):
        return list(kernel.parameters)
    if isinstance(kernel, Function):
        return [param.name for param in kernel.signature.params]
    try:
        found = inspect.signature(kernel).parameters.values()
    except (TypeError, ValueError):
        return []
    plain = [p.name for p in found if p.kind is p.POSITIONAL_OR_KEYWORD]
    return plain if len(plain) == len(found) else []


def written_of(kernel: Any) -> list[str] | None:
    """The pointers without const; None where nobody knows."""
    if isinstance(kernel, Runner) and kernel._last is not None:
        kernel = kernel._last.compiled
    if isinstance(kernel, (Kernel, Function)):
        known = kernel.params if isinstance(kernel, Kernel) else kernel.signature.params
        return [p.name for p in known if p.pointer and not p.const]
    return None


def is_cuda(kernel: Any) -> bool:
    """Whether it is launched, and not called: its time on a CPU says nothing."""
    return isinstance(kernel, (Kernel, Runner, NumbaKernel))


# ---- details --------------------------------------------------------------------


def _is_path(text: str) -> bool:
    return "\n" not in text and text.endswith((".cu", ".cuh", ".c"))


def _read_file(path: Path, options: Options) -> Text:
    found = [p for p in (path, ROOT / path) if p.is_file()]
    if not found:
        raise ArgumentError(f"{path}: there is no such file, here or in {ROOT}")
    file = found[0].resolve()
    text = file.read_text(errors="replace")
    kind = C if file.suffix == ".c" else Text
    return kind(text, str(path), options, folder=file.parent)


def _load_kernel(kernel: Kernel | Module, options: Options) -> Text:
    """A kernel of %%cuda or load_cuda(): its source is tuned."""
    made = select_only_kernel(kernel) if options.name is None else kernel
    cell: Cell = made._cell if isinstance(made, Module) else made.module
    options.flags = [*cell.flags, *options.flags]
    like = None
    if isinstance(made, Kernel):
        options.name, like = made.__name__, made

        complete(made)
    return Text(cell.source, cell.name, options, like)


def _choose_kernel(module: Module, name: str | None) -> Kernel:
    if name is None:
        return select_only_kernel(module)
    kernels = module._cell.kernels
    if name not in kernels:
        known = ", ".join(kernels) or "none"
        raise ArgumentError(f"the source has no kernel {name!r}; it has {known}")
    return kernels[name]


def _is_maker(function: Callable[..., Any], space: Mapping[str, Any]) -> bool:
    """Whether a function takes the constants: it makes kernels, and is none."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False
    every = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    return every or set(space) <= set(parameters)


def _write_keywords(constants: Constants) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in constants.items())
