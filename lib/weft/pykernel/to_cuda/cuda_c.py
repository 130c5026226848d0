"""Run a Python kernel as CUDA C, translated by to_cuda().

    run = cuda_c(matmul)
    run[grid, block](c, a, b, m, n, k)    # as in Numba: [grid, block, stream, bytes]
    print(run.source(c, a, b, m, n, k))   # the text in CUDA C

The kernel is translated and compiled at its first launch with each tuple of argument
types. Arrays on the host select the CPU target; arrays on a GPU select NVRTC.
"""

from __future__ import annotations

import builtins
import contextlib
import html
from collections import ChainMap
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

from ...base.errors import ArgumentError
from ...cells import load_cuda
from ...cells.arguments import describe
from ...csource.diagnostics import CompileError, Diagnostic, render
from ...report.html import highlight_text
from ...toolchain.launch_config import LaunchConfig
from ..language import PythonKernel, source_of, value_of
from . import Translation, translate_kernel
from .types import Argument, of_argument

CACHED_CONFIGS = 256  # maximum number of launch shapes kept per runner
_INT = 2**31


def cuda_c(
    kernel: Any, *, flags: str | Sequence[str] = "", timeout: float | None = None
) -> TranslatedKernel:
    """Return a runner that executes the kernel as CUDA C.

    flags: compiler flags, as for load_cuda(). A GPU rounds a * b + c only once. With
        "--fmad=false", the result has the same bits as on sim.
    timeout: time limit in seconds for a launch on the CPU (default 20; 0: no limit).
    """
    return TranslatedKernel(PythonKernel(kernel), flags, timeout)


class TranslatedKernel:
    """The result of cuda_c(); runner[grid, block](*args) launches the kernel."""

    def __init__(
        self, kernel: PythonKernel, flags: str | Sequence[str], timeout: float | None
    ) -> None:
        self.kernel, self.flags, self.timeout = kernel, flags, timeout
        self.__name__, self.__doc__ = kernel.name, kernel.function.__doc__
        self._made: dict[Any, BuiltKernel] = {}
        self._last: BuiltKernel | None = None
        self._launches: dict[Any, TranslatedLaunch] = {}

    def __getitem__(self, key: Any) -> TranslatedLaunch:
        try:
            return self._launches[key]
        # The key is new or unhashable. An object's __hash__() may raise any error.
        except Exception:
            pass
        launch = TranslatedLaunch(self, self.kernel.config(key))
        if len(self._launches) < CACHED_CONFIGS:
            with contextlib.suppress(Exception):
                self._launches[key] = launch
        return launch

    def __call__(self, *args: Any) -> None:
        name = self.kernel.name
        raise ArgumentError(f"{name} is launched as cuda_c({name})[grid, block](...)")

    def source(self, *args: Any) -> str:
        """Return the CUDA C for these arguments, or for those of the last launch."""
        if args or not self.kernel.parameters:
            return self.translation(*args).text
        if self._last is None:
            raise ArgumentError(
                f"{self.kernel.name}: the arguments determine the types: "
                f"source({', '.join(self.kernel.parameters)})"
            )
        return self._last.translation.text

    def translation(self, *args: Any) -> Translation:
        """Return the Translation for these arguments."""
        return self._of(args).translation

    def _of(self, args: tuple[Any, ...]) -> BuiltKernel:
        arguments = self.kernel.given(args)
        key = self.key(args)
        built = self._made.get(key)
        if built is None or not built.current():
            built = self._made[key] = BuiltKernel(self, self._kinds(arguments))
        self._last = built
        return built

    def key(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the properties of the arguments that determine the translation."""
        try:
            return tuple([_argument_key(value) for value in args])
        # _argument_key() rejects unusual arguments; their full types replace the keys.
        except LookupError:
            return tuple(self._kinds(self.kernel.given(args)))

    def _kinds(self, arguments: dict[str, Any]) -> list[Argument]:
        try:
            return [of_argument(name, value) for name, value in arguments.items()]
        except ArgumentError as error:
            raise ArgumentError(f"{self.kernel.name}: {error}") from None

    def _repr_html_(self) -> str:
        if self._last is None:
            return f"<code>{html.escape(repr(self))}</code>"
        return highlight_text(self._last.translation.text)

    def __repr__(self) -> str:
        if self._last is None:
            return f"<{self.kernel.name} as CUDA C, translated at its first launch>"
        return self._last.translation.text


class BuiltKernel:
    """A kernel translated for a tuple of argument types, and compiled when launched."""

    def __init__(self, runner: TranslatedKernel, kinds: list[Argument]) -> None:
        self.runner = runner
        self.translation = translate_kernel(runner.kernel, kinds)
        self._constants = list(_list_constants(self.translation.functions))
        self._module: Any = None

    def current(self) -> bool:
        """Return whether the kernel's nonlocal names still have the same values."""
        return all(scope.get(name) is value for scope, name, value in self._constants)

    @property
    def compiled(self) -> Any:
        """The compiled kernel. A CompileError refers to lines of the Python code."""
        if self._module is None:
            runner, translation = self.runner, self.translation
            try:
                options = {"flags": runner.flags, "timeout": runner.timeout}
                name = f"{translation.name}, as CUDA C"
                self._module = load_cuda(translation.text, name=name, **options)
            except CompileError as error:
                raise _on_python_lines(error, self) from None
        return getattr(self._module, self.translation.name)

    def extents(self, arguments: dict[str, Any]) -> list[int]:
        """Return the array sides to pass as extra arguments.

        Raises ArgumentError if sides that must be equal differ.
        """
        values = []
        for name, sides in self.translation.extents:
            lengths = [_shape_of(arguments[side.array])[side.axis] for side in sides]
            for side, length in zip(sides, lengths):
                if length != lengths[0]:
                    first = sides[0]
                    raise ArgumentError(
                        f"{self.runner.kernel.name}: {name} is {first.array}.shape"
                        f"[{first.axis}] = {lengths[0]} and {side.array}.shape"
                        f"[{side.axis}] = {length}: these must be equal"
                    )
            values.append(lengths[0])
        return values


class TranslatedLaunch:
    """A runner with its grid and block; a call with arguments is a launch."""

    def __init__(self, runner: TranslatedKernel, shape: LaunchConfig) -> None:
        self.runner, self.shape = runner, shape
        # The prepared launch for each key of arguments; later calls are then fast.
        self._ready: dict[Any, tuple[BuiltKernel, Any]] = {}

    def __call__(self, *args: Any, **named: Any) -> None:
        __tracebackhide__ = True  # the traceback in IPython ends at the user's line
        runner = self.runner
        if named:
            runner.kernel.given(args, named)
        key = runner.key(args)
        built, launch = self._ready.get(key) or (None, None)
        if built is None or not built.current():
            built, shape = runner._of(args), self.shape
            launch = built.compiled[shape.grid, shape.block, shape.shared, shape.stream]
            self._ready[key] = built, launch
        runner._last = built
        if built.translation.extents:
            args += tuple(built.extents(dict(zip(runner.kernel.parameters, args))))
        try:
            launch(*args)
        # On a machine with a GPU, compilation for the CPU target begins only here.
        except CompileError as error:
            raise _on_python_lines(error, built) from None

    def prepared(self, args: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
        """Return the compiled kernel's launch, and all arguments to pass to it."""
        built, shape = self.runner._of(args), self.shape
        where = shape.grid, shape.block, shape.shared, shape.stream
        try:
            launch = built.compiled.at(where)
            launch.kernel.launcher("cpu", True)
        except CompileError as error:
            raise _on_python_lines(error, built) from None
        arguments = dict(zip(self.runner.kernel.parameters, args))
        return launch, (*args, *built.extents(arguments))


# ---- keys ----------------------------------------------------------------------


def _argument_key(value: Any) -> Any:
    """Return the key of an ordinary argument; raise LookupError for others."""
    kind = value.__class__
    if kind is torch.Tensor:
        return value.dtype, value.ndim, value.numel() < _INT
    if kind is np.ndarray:
        return value.dtype, value.ndim, value.size < _INT
    if kind is int and -_INT <= value < _INT:
        return value >= 0
    if kind is float or kind is bool:
        return kind
    raise LookupError


def _shape_of(value: Any) -> tuple[int, ...]:
    if isinstance(value, (np.ndarray, torch.Tensor)):
        return tuple(value.shape)
    array = describe(value)
    return array.shape if array is not None else ()


def _list_constants(functions: Sequence[Any]) -> Iterator[tuple[Any, str, Any]]:
    """Yield (scope, name, value) of each nonlocal number and function."""
    for function in functions:
        code = function.__code__
        for name in (*code.co_names, *code.co_freevars):
            try:
                value = value_of(function, name)
            except LookupError:
                continue
            number = isinstance(value, (bool, int, float, tuple, np.generic))
            if number or callable(value):
                yield _scope_of(function, name), name, value


def _scope_of(function: Any, name: str) -> Any:
    """Return an object whose get(name) finds the name's value as Python does."""
    free = function.__code__.co_freevars
    if name in free:
        return _Closed(function.__closure__[free.index(name)])
    if name in function.__globals__:
        return function.__globals__
    return ChainMap(function.__globals__, vars(builtins))


class _Closed:
    """A variable of an enclosing function, with get() like a scope."""

    def __init__(self, cell: Any) -> None:
        self.cell = cell

    def get(self, name: str) -> Any:
        try:
            return self.cell.cell_contents
        except ValueError:  # the variable has no value, for example after `del`
            return None


# ---- errors ----------------------------------------------------------------------


def _on_python_lines(error: CompileError, built: BuiltKernel) -> CompileError:
    """Move the compiler's messages to the lines of the Python source."""
    sources = {f.__name__: source_of(f) for f in built.translation.functions}
    placed, text, first = [], [], 1
    source = source_of(built.runner.kernel.function)
    for one in error.diagnostics:
        at = built.translation.lines
        line, name = at[one.line - 1] if 1 <= one.line <= len(at) else (0, "")
        if line and sources[name].file != source.file:
            line = 0
        placed.append(Diagnostic("", line, 0, one.severity, one.message))
        first = max(first, line)
    lines = [""] * max(first, source.first + len(source.text.splitlines()))
    for one in sources.values():
        for number, content in enumerate(one.text.splitlines(), one.first):
            if number <= len(lines):
                lines[number - 1] = content
    text = "\n".join(lines)
    name = built.runner.kernel.name
    made_error = CompileError(placed, text, name, error.log)
    shown = render([d for d in placed if d.severity == "error"] or placed, text, name)
    made_error.args = (f"{shown}\n{built.translation.text}",)
    return made_error
